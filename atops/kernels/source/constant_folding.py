"""Constant expressions: the values of expressions in a kernel's source before anything runs.

An expression is computed here from its syntax tree with a short list of operations, never executed; sizes are bounded,
so that no text can make it take long.
"""

from __future__ import annotations

import ast
import enum
import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from atops.base.dtypes import as_dtype, quietly
from atops.kernels.target import MACROS

__all__ = ("UNKNOWN", "AlreadyReported", "NotConstant", "fold", "resolve")

Names = Mapping[str, object]

LANGUAGE = "atops.kernels"
MOST_BITS = 4096  # of an integer
MOST_ITEMS = 1 << 16  # of a tuple or a text

# Functions whose result, or number of steps, has no bound.
_UNBOUNDED = ("comb", "factorial", "perm", "prod", "fsum", "dist", "lcm", "gcd", "sumprod", "hypot")
_MATH = tuple(each for name, each in vars(math).items() if callable(each) and name not in _UNBOUNDED)
_PURE = (abs, bool, divmod, float, int, len, max, min, range, round, sum, tuple, np.dtype, as_dtype)
_CALLS = frozenset((*_PURE, *_MATH))
_BUILTINS = {each.__name__: each for each in _PURE if each.__module__ == "builtins"}
_DTYPE_ATTRIBUTES = frozenset(("itemsize", "kind", "name"))
_NUMBERS = (bool, int, float, complex, np.generic)
_PLAIN = (*_NUMBERS, str, tuple, range, np.dtype, type(None), enum.Enum)

_BINARY: Mapping[type[ast.operator], Callable[..., object]] = MappingProxyType(
    {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
     ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
     ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor}
)  # fmt: skip
_UNARY: Mapping[type[ast.unaryop], Callable[..., object]] = MappingProxyType(
    {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_}
)
_COMPARE: Mapping[type[ast.cmpop], Callable[..., object]] = MappingProxyType(
    {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
     ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
     ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b}
)  # fmt: skip


class NotConstant(Exception):
    """An expression has no value before the program runs. `node` is the part that has none, the message says why."""

    def __init__(self, node: ast.expr, why: str) -> None:
        super().__init__(why)
        self.node = node


class AlreadyReported(NotConstant):
    """A name has no value because its own definition is wrong: what follows from that is no error of its own."""


UNKNOWN = object()  # the value of a name whose definition is wrong


def fold(node: ast.expr, names: Names) -> Any:
    """Return the value of an expression of numbers, texts, tuples, lists, element types and pure functions of them.

    `names` are the values of its names. Raises NotConstant naming the part that is none.
    """
    rule = _RULES.get(type(node))
    if rule is None:
        raise NotConstant(node, f"{_text(node)} is no constant expression")
    try:
        return _bounded(node, quietly(rule, node, names))
    except NotConstant:
        raise
    except Exception as error:
        raise NotConstant(node, f"{_text(node)} has no value: {error}") from None


def resolve(node: ast.expr, names: Names) -> object:
    """Return the value of a name, or of a dotted one such as `np.float32`.

    Nothing is executed: only modules, namespaces and enumerations are searched. Raises NotConstant.
    """
    if isinstance(node, ast.Name):
        if node.id not in names and node.id not in _BUILTINS:
            raise NotConstant(node, f"'{node.id}' has no value known before the program runs")
        value = names[node.id] if node.id in names else _BUILTINS[node.id]
        if value is UNKNOWN:
            raise AlreadyReported(node, f"the definition of '{node.id}' is wrong")
        return value
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value, names)
        if node.attr in MACROS and node.attr in names and getattr(owner, "__name__", "") == LANGUAGE:
            return names[node.attr]  # `k.GCU_ARCH` is what `GCU_ARCH` is
        if isinstance(owner, ModuleType | SimpleNamespace | enum.EnumMeta) and node.attr in vars(owner):
            return getattr(owner, node.attr)
    raise NotConstant(node, f"{_text(node)} is no constant")


def _name(node: ast.Name | ast.Attribute, names: Names) -> object:
    value = resolve(node, names)
    if isinstance(value, _PLAIN) or (isinstance(value, type) and _is_element(value)):
        return value
    raise NotConstant(node, f"'{_text(node)}' is no constant")


def _attribute(node: ast.Attribute, names: Names) -> object:
    if node.attr in _DTYPE_ATTRIBUTES:
        try:
            owner = fold(node.value, names)
        except NotConstant:
            return _name(node, names)
        return getattr(owner, node.attr) if isinstance(owner, np.dtype) else _name(node, names)
    return _name(node, names)


def _binary(node: ast.BinOp, names: Names) -> object:
    left, right = fold(node.left, names), fold(node.right, names)
    numbers = isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS)
    joined = isinstance(node.op, ast.Add) and type(left) is type(right) and type(left) in (str, tuple)
    repeated = isinstance(node.op, ast.Mult) and type(left) is tuple and type(right) is int
    if not (numbers or joined or repeated) or type(node.op) not in _BINARY:
        raise NotConstant(node, f"{_text(node)} is no constant expression")
    if repeated and len(left) * right > MOST_ITEMS:
        raise NotConstant(node, f"{_text(node)} is too long")
    if isinstance(node.op, ast.LShift) and int(right) > MOST_BITS:
        raise NotConstant(node, f"{_text(node)} is too large")
    whole = isinstance(left, int) and isinstance(right, int)
    if isinstance(node.op, ast.Pow) and whole and left.bit_length() * right > MOST_BITS:
        raise NotConstant(node, f"{_text(node)} is too large")
    return _BINARY[type(node.op)](left, right)


def _unary(node: ast.UnaryOp, names: Names) -> object:
    return _UNARY[type(node.op)](fold(node.operand, names))


def _boolean(node: ast.BoolOp, names: Names) -> object:
    value: object = None
    for each in node.values:
        value = fold(each, names)
        if bool(value) is isinstance(node.op, ast.Or):
            break
    return value


def _compare(node: ast.Compare, names: Names) -> bool:
    left = fold(node.left, names)
    for op, each in zip(node.ops, node.comparators, strict=True):
        right = fold(each, names)
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True


def _choice(node: ast.IfExp, names: Names) -> object:
    return fold(node.body if fold(node.test, names) else node.orelse, names)


def _tuple(node: ast.Tuple, names: Names) -> tuple[object, ...]:
    return tuple(fold(each, names) for each in node.elts)


def _list(node: ast.List, names: Names) -> list[object]:
    return [fold(each, names) for each in node.elts]


def _subscript(node: ast.Subscript, names: Names) -> object:
    owner = fold(node.value, names)
    if not isinstance(owner, str | tuple | range):
        raise NotConstant(node, f"{_text(node)} is no constant expression")
    return owner[fold(node.slice, names)]


def _slice(node: ast.Slice, names: Names) -> slice:
    parts = (None if each is None else fold(each, names) for each in (node.lower, node.upper, node.step))
    return slice(*parts)


def _call(node: ast.Call, names: Names) -> object:
    function = resolve(node.func, names)
    if not _may_call(function) or not callable(function):
        raise NotConstant(node, f"{_text(node.func)}() is not computed before the program runs")
    arguments = [fold(each, names) for each in node.args]
    named = {each.arg: fold(each.value, names) for each in node.keywords if each.arg is not None}
    if len(named) < len(node.keywords):
        raise NotConstant(node, f"{_text(node)} is no constant expression")
    return function(*arguments, **named)


def _may_call(function: object) -> bool:
    try:
        return function in _CALLS or (isinstance(function, type) and _is_element(function))
    except TypeError:  # not hashable, so none of them
        return False


def _is_element(kind: type) -> bool:
    """Return whether it is a type of numbers: of Python, numpy or ml_dtypes."""
    if issubclass(kind, np.flexible | np.object_):
        return False
    return kind in (bool, int, float) or issubclass(kind, np.generic)


def _bounded(node: ast.expr, value: object) -> object:
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise NotConstant(node, f"{_text(node)} is too large")
    if isinstance(value, str | tuple | range) and len(value) > MOST_ITEMS:
        raise NotConstant(node, f"{_text(node)} is too long")
    return value


def _text(node: ast.expr) -> str:
    """Return the text of an expression, cut to a length for messages."""
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:37]}..."


_RULES: Mapping[type[ast.expr], Callable[[Any, Names], object]] = MappingProxyType(
    {ast.Constant: lambda node, names: node.value, ast.Name: _name, ast.Attribute: _attribute, ast.BinOp: _binary,
     ast.UnaryOp: _unary, ast.BoolOp: _boolean, ast.Compare: _compare, ast.IfExp: _choice, ast.Tuple: _tuple,
     ast.List: _list, ast.Subscript: _subscript, ast.Slice: _slice, ast.Call: _call}
)  # fmt: skip
