"""What a kernel's compiled code shows before it runs: its dynamic shared memory, and the constants it names."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType

from atops.kernels.memory.arrays import dynamic_shared
from atops.kernels.memory.device_variables import Variable

__all__ = (
    "codes_of", "constants_of", "dynamic_shared_lines", "plain_function", "uses_dynamic_shared", "variables_of",
)  # fmt: skip

_NAME = dynamic_shared.__name__
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
        for value in _named(each):
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


def _named(function: FunctionType) -> Iterator[object]:
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


def _names(code: CodeType) -> Iterator[tuple[str, str, int]]:
    """Yield operation, name and line of each name that the code and the functions in it load."""
    for each in codes_of(code):
        line = each.co_firstlineno
        for instruction in dis.get_instructions(each):
            if instruction.starts_line is not None and not isinstance(instruction.starts_line, bool):
                line = instruction.starts_line
            if instruction.opname.startswith("LOAD_") and isinstance(instruction.argval, str):
                yield instruction.opname, instruction.argval, line
