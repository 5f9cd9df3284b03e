"""What a kernel's compiled code and its text show before it runs: the names that it uses, and its syntax tree."""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from weakref import WeakKeyDictionary

from atops.base.python_ast import module_tree
from atops.kernels.memory.arrays import dynamic_shared
from atops.kernels.memory.device_variables import Variable

__all__ = (
    "FunctionNode", "bound_names", "codes_of", "constants_of", "dynamic_shared_lines", "function_tree",
    "own_nodes", "plain_function", "uses_dynamic_shared", "values_named", "variables_of",
)  # fmt: skip

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

_NAME = dynamic_shared.__name__
_NAMES: WeakKeyDictionary[CodeType, Sequence[tuple[str, str, int]]] = WeakKeyDictionary()  # each code is read once
PLAIN = ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLASSDEREF")  # of names that are no locals and no attributes


def dynamic_shared_lines(function: Callable[..., object]) -> list[int]:
    """Return the line of each use of `dynamic_shared` that the function's own code has, by whatever name."""
    plain = plain_function(function)
    if plain is None:
        return []
    variables = variables_of(plain)
    return [
        line
        for opname, name, line in _names(plain.__code__)
        if (opname in ("LOAD_ATTR", "LOAD_METHOD") and name == _NAME)
        or (opname in PLAIN and variables.get(name) is dynamic_shared)
    ]


def uses_dynamic_shared(function: Callable[..., object]) -> bool:
    """Tell whether the function, or a Python function that it calls by a plain name, uses `dynamic_shared`."""
    return any(dynamic_shared_lines(each) for each in _reached(function))


def constants_of(function: Callable[..., object]) -> list[Variable]:
    """Return the constants that the function, or a Python function that it calls by a plain name, names: `x`, `m.x`."""
    found: dict[Variable, None] = {}
    for each in _reached(function):
        for value in values_named(each):
            if isinstance(value, Variable) and value.is_constant:
                found[value] = None
    return list(found)


def _reached(function: Callable[..., object]) -> Iterator[FunctionType]:
    """Yield the function and every Python function that it reaches by plain names, each once."""
    pending, seen = [plain_function(function)], set()
    while pending:
        current = pending.pop()
        if current is None or current in seen:
            continue
        seen.add(current)
        yield current
        variables = variables_of(current)
        called = (variables.get(name) for opname, name, _ in _names(current.__code__) if opname in PLAIN)
        pending += [plain_function(each) for each in called if isinstance(each, FunctionType)]


def values_named(function: FunctionType) -> Iterator[object]:
    """Yield the values of the function's global and enclosing names, and those of `module.name`."""
    variables = variables_of(function)
    value: object = None
    for opname, name, _ in _names(function.__code__):
        if opname in PLAIN:
            value = variables.get(name)
        elif opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
            value = vars(value).get(name)
        else:
            value = None
        if value is not None:
            yield value


def plain_function(function: Callable[..., object]) -> FunctionType | None:
    """Return the Python function under the decorators that kept it as `__wrapped__`; None where there is none."""
    inner = inspect.unwrap(function)
    return inner if isinstance(inner, FunctionType) else None


def variables_of(function: FunctionType) -> dict[str, object]:
    """Return the values that the function's global and enclosing names have now; builtins are not among them."""
    found = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            found.pop(name, None)
    return found


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """Yield the code, and that of every function in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


def _names(code: CodeType) -> Sequence[tuple[str, str, int]]:
    """Return operation, name and line of each name that the code and the functions in it load."""
    found = _NAMES.get(code)
    if found is None:
        found = _NAMES[code] = tuple(_read_names(code))
    return found


def _read_names(code: CodeType) -> Iterator[tuple[str, str, int]]:
    for each in codes_of(code):
        line = each.co_firstlineno
        for instruction in dis.get_instructions(each):
            if instruction.starts_line is not None and not isinstance(instruction.starts_line, bool):
                line = instruction.starts_line
            if instruction.opname.startswith("LOAD_") and isinstance(instruction.argval, str):
                yield instruction.opname, instruction.argval, line


def function_tree(function: Callable[..., object]) -> FunctionNode | None:
    """Return the syntax tree of a function; None where its source cannot be had, as of a lambda or in a bare prompt."""
    try:
        tree = module_tree(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    node = tree.body[0] if tree.body else None
    return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None


def own_nodes(function: FunctionNode) -> Iterator[ast.AST]:
    """Yield the nodes of the function's body in the order of the text, without those of functions defined in it."""
    pending: list[ast.AST] = list(reversed(function.body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _SCOPES):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def bound_names(function: FunctionNode) -> set[str]:
    """Return every name that the function, or what is defined in it, binds: parameters, variables, functions."""
    bound: set[str] = set()
    declared: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.arg(arg=name):
                bound.add(name)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound |= {name} if node is not function else set()
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.MatchMapping(rest=str(name)):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
            case ast.Global(names=names):
                declared.update(names)
    return bound - declared
