"""Assignments that store nothing: those to the name of a variable in a memory, which bind the name anew.

C++ stores by `x = 3` in a `__shared__ int x`, Python cannot. What is looked through is the text of one function, branch
by branch, and nothing is executed (TOPS C++, 8.2).
"""

from __future__ import annotations

import ast
import dis
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from types import FrameType, FunctionType, ModuleType
from typing import NamedTuple

from atops.base.errors import InvalidType
from atops.device.call_site import file_shown
from atops.device.span.span import Span
from atops.kernels.arguments import restrict
from atops.kernels.inspection import FunctionNode, codes_of, function_tree, plain_function, variables_of
from atops.kernels.memory import arrays
from atops.kernels.memory.device_variables import Variable, constant, device_variable

__all__ = ("LostStore", "check_stores", "lost_stores", "stores_nothing")

Meaning = Callable[[ast.expr], object]  # the value of a name or a dotted name; None where it is not known
Binding = ast.stmt | ast.expr | ast.excepthandler | ast.pattern  # what binds a name, in the text
Names = dict[str, str]  # of variables and other memory, with what messages call it

DEVICE, ITS_OWN, PARAMETER = "the device variable", "its memory", "the memory of the parameter"
# What declares the variable of a line, whose name stays what it is; and what hands out memory, whose name may be given
# to other memory or to a result, but hardly to a number.
VARIABLES: Mapping[object, str] = {
    arrays.shared_variable: "the shared variable", arrays.local_variable: "the local variable",
    device_variable: DEVICE, constant: "the constant",
}  # fmt: skip
MEMORY = (arrays.shared, arrays.local, arrays.private, arrays.dynamic_shared, arrays.mdspan)
ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
ENDED = "..."  # in place of a name, behind these: the branch goes on nowhere
GONE = ""  # what a name is that was given to something else
DECLARING = {id(each): each for each in (*VARIABLES, *MEMORY)}


class LostStore(NamedTuple):
    """An assignment that stores nothing: to which name, in what, and on which line of the text."""

    name: str
    what: str
    node: Binding


def stores_nothing(name: str, what: str = DEVICE) -> str:
    """Say what is wrong with an assignment to the name of a variable."""
    return (
        f"assigns to {name}, which binds a name and stores nothing in {what}; write {name}[...] = ... to store, or "
        "choose another name"
    )


def check_stores(function: Callable[..., object], what: str) -> None:
    """Raise InvalidType where a function assigns to the name of a variable, which stores nothing in it.

    Names of device variables around it are told by the function's code, those of its own variables by its text, where
    that can be had. Called where the function is defined.
    """
    plain = plain_function(function)
    if plain is None:
        return
    stored = _stored(plain)
    if not stored:
        return
    variables = {**_enclosing(plain), **variables_of(plain)}
    for name, line in stored.items():
        if name not in _parameters(plain) and isinstance(variables.get(name), Variable):
            raise InvalidType(f"{what} {_at(plain, line)}{stores_nothing(name)}")
    used = {name for code in codes_of(plain.__code__) for name in code.co_names}
    declaring = {getattr(each, "__name__", "") for each in DECLARING.values()}
    if not any(name in declaring or id(variables.get(name)) in DECLARING for name in used) and not any(
        name in stored for name in _parameters(plain)
    ):
        return
    if (tree := function_tree(function)) is not None:
        first = min((each.lineno for each in tree.decorator_list), default=tree.lineno)
        for lost in lost_stores(tree, lambda node: _meaning(node, variables)):
            line = plain.__code__.co_firstlineno - first + lost.node.lineno
            raise InvalidType(f"{what} {_at(plain, line)}{stores_nothing(lost.name, lost.what)}")


def lost_stores(function: FunctionNode, meaning: Meaning) -> list[LostStore]:
    """Return the assignments of a function that store nothing in what a name was declared to be, one for each name.

    A variable may be declared again, deleted, set to None, or exchanged with others by name; `x += 1` stores.
    """
    walk = _Walk(meaning)
    arguments = function.args
    walk.body(function.body, {
        each.arg: PARAMETER for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        if each.annotation is not None and _is_memory(each.annotation, meaning)
    })  # fmt: skip
    return list(walk.found.values())


# ---- what names mean where a function is defined


def _parameters(function: FunctionType) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _stored(function: FunctionType) -> dict[str, int]:
    """Return the names that a function binds in itself or around it, each with a line; what is defined in it, too.

    Not those that it declares nonlocal or global and augments: there `x += 1` finds the variable, and stores.
    """
    stored: dict[str, int] = {}
    outer = function.__code__
    for code in codes_of(outer):
        line, augments = code.co_firstlineno, False
        for each in dis.get_instructions(code):
            line = (each.positions and each.positions.lineno) or line
            names = each.argval if isinstance(each.argval, tuple) else (each.argval,)  # two at once, from Python 3.13
            own = each.opname.startswith("STORE_FAST") or each.argval in code.co_cellvars
            outside = each.opname in ("STORE_GLOBAL", "STORE_DEREF") and not own and not augments
            if (own and code is outer and each.opname.startswith("STORE_")) or outside:
                for name in names:
                    stored.setdefault(name, line)
            augments = each.opname == "BINARY_OP" and each.argrepr.endswith("=")
    return stored


def _enclosing(function: FunctionType) -> Mapping[str, object]:
    """Return the names of the function that defines this one now, which it cannot see where it binds them itself."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and function.__code__ not in frame.f_code.co_consts:
        frame = frame.f_back
    return {} if frame is None else frame.f_locals


def _at(function: FunctionType, line: int) -> str:
    return f"({file_shown(function.__code__.co_filename)}:{line}) "


def _meaning(node: ast.expr, names: Mapping[str, object]) -> object:
    """Return the value of a name, or of a dotted one of modules."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(owner := _meaning(node.value, names), ModuleType):
        return vars(owner).get(node.attr)
    return None


def _is_memory(annotation: ast.expr, meaning: Meaning) -> bool:
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return isinstance(base, ast.Name | ast.Attribute) and meaning(base) in (Span, restrict)


# ---- the text


class _Walk:
    """Goes through a function's text in the order in which it runs; `found` gets the lost stores, by name."""

    def __init__(self, meaning: Meaning) -> None:
        self.found: dict[str, LostStore] = {}
        self._meaning = meaning

    def body(self, statements: Iterable[ast.stmt], known: Names) -> Names:
        """Go through statements. `known` are the names that have memory before them; those after them are returned."""
        for each in statements:
            known = self._statement(each, known)
        return known

    def _statement(self, node: ast.stmt, known: Names) -> Names:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._function(node, known)
            case ast.If(test=test, body=body, orelse=orelse):
                self._walruses(test, known)
                return _met(self.body(body, {**known}), self.body(orelse, {**known}))
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node, known)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._walruses(item.context_expr, known)
                    if item.optional_vars is not None:
                        self._assign(item.optional_vars, None, known)
                return self.body(node.body, known)
            case ast.Try() | ast.TryStar():
                return self._try(node, known)
            case ast.Match():
                return self._match(node, known)
        known = self._simple(node, known)
        return {ENDED: GONE} if isinstance(node, ENDS) else known

    def _function(self, node: FunctionNode, known: Names) -> Names:
        self._bind(node.name, node, known)
        own = node.args
        given = (*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg)
        hidden = {each.arg for each in given if each is not None}
        self.body(node.body, {name: what for name, what in known.items() if name not in hidden})
        return known

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, known: Names) -> Names:
        for _ in range(2):  # what is declared in the body is there at its next pass
            self._walruses(node.test if isinstance(node, ast.While) else node.iter, known)
            if not isinstance(node, ast.While):
                self._assign(node.target, None, known)
            known = _met(known, self.body(node.body, {**known}))
        return self.body(node.orelse, known)

    def _try(self, node: ast.Try | ast.TryStar, known: Names) -> Names:
        done = self.body(node.body, {**known})
        ends, after = self.body(node.orelse, {**done}), _met(known, done)
        for handler in node.handlers:
            caught = {**after}
            if handler.name:
                self._bind(handler.name, handler, caught)
            ends = _met(ends, self.body(handler.body, caught))
        return self.body(node.finalbody, ends)

    def _match(self, node: ast.Match, known: Names) -> Names:
        self._walruses(node.subject, known)
        ends = {**known}
        for case in node.cases:
            taken = {**known}
            for pattern in ast.walk(case.pattern):
                name = getattr(pattern, "rest", None) or getattr(pattern, "name", None)
                if isinstance(name, str) and isinstance(pattern, ast.pattern):
                    self._bind(name, pattern, taken)
            ends = _met(ends, self.body(case.body, taken))
        return ends

    def _simple(self, node: ast.stmt, known: Names) -> Names:
        self._walruses(node, known)
        match node:
            case ast.ClassDef(name=name):
                self._bind(name, node, known)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value, known)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value, known)
            case ast.Delete(targets=targets):
                for target in targets:
                    known[getattr(target, "id", "")] = GONE
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for each in names:
                    self._bind(each.asname or each.name.partition(".")[0], node, known)
        return known

    def _walruses(self, node: ast.AST, known: Names) -> None:
        for each in ast.walk(node):
            if isinstance(each, ast.NamedExpr):
                self._assign(each.target, each.value, known)

    def _assign(self, target: ast.expr, value: ast.expr | None, known: Names) -> None:
        """Bind a target to a value; None: one that is not in the text."""
        if isinstance(target, ast.Starred):
            self._assign(target.value, None, known)
        elif isinstance(target, ast.Name):
            self._bind(target.id, target, known, value)
        elif isinstance(target, ast.Tuple | ast.List):
            values: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, ast.Tuple | ast.List) and not any(_starred(target.elts, value.elts)):
                values[:] = value.elts if len(value.elts) == len(values) else values
                if {*_names(target.elts)} == {*_names(value.elts)} and len({*_names(value.elts)}) == len(values):
                    return  # they change places
            for each, its in zip(target.elts, values, strict=True):
                self._assign(each, its, known)

    def _bind(self, name: str, node: Binding, known: Names, value: ast.expr | None = None) -> None:
        """Bind a name: to memory that is declared, else to something that is not."""
        if (what := self._declared(value)) is not None:
            known[name] = what
        elif not known.get(name):
            pass
        elif isinstance(value, ast.Constant) and value.value is None:
            known[name] = GONE
        elif known[name] in VARIABLES.values() or _is_number(value):
            self.found.setdefault(name, LostStore(name, known[name], node))
        else:
            known[name] = GONE

    def _declared(self, value: ast.expr | None) -> str | None:
        if isinstance(value, ast.NamedExpr):
            return self._declared(value.value)
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name | ast.Attribute):
            return None
        called = DECLARING.get(id(self._meaning(value.func)))
        return None if called is None else VARIABLES.get(called, ITS_OWN)


def _starred(*groups: list[ast.expr]) -> Iterator[bool]:
    return (isinstance(each, ast.Starred) for each in chain(*groups))


def _names(nodes: Iterable[ast.expr]) -> Iterator[str]:
    return (each.id for each in nodes if isinstance(each, ast.Name))


def _is_number(node: ast.expr | None) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, bool | int | float | complex)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
    return False


def _met(one: Names, other: Names) -> Names:
    """Return what names are after either of two ways: what was given up on one of them is memory no more."""
    if ENDED in one or ENDED in other:
        return {**(other if ENDED in one else one)}
    return {**one, **other, **{name: GONE for way in (one, other) for name, what in way.items() if not what}}
