"""The local, shared and private memory of a function, computed from its text as the allocators will give it.

Every call counts, in every branch that no constant rules out. A loop over a constant range counts as often as it runs.
A size that the text does not determine is None, never a guess.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FunctionType

from atops.base.errors import AtopsError
from atops.kernels.inspection import plain_function, variables_of
from atops.kernels.memory.arrays import ALIGNMENT, local, private, shared
from atops.kernels.memory.declarations import extents_of
from atops.kernels.source.constant_folding import NotConstant, fold, resolve
from atops.kernels.source.function_source import FunctionNode, bound_names, function_tree

__all__ = ("StaticMemory", "static_memory")

# Each allocator of the language: the figure it adds to, and the alignment of what it gives.
_ALLOCATORS: tuple[tuple[Callable[..., object], str, int], ...] = (
    (local, "local", ALIGNMENT), (shared, "shared", ALIGNMENT), (private, "private", 1),
)  # fmt: skip
_VARIABLE = object()  # the value of a name of the function itself, unless it is assigned one constant
_LANGUAGE = ("atops.base", "atops.device", "atops.kernels")  # their functions allocate nothing but by the three above


@dataclass(frozen=True, slots=True)
class _Extent:
    """The memory of some calls: `aligned` bytes, of which the last call leaves `slack` unused. None: not known."""

    aligned: int | None = 0
    slack: int = 0
    calls: bool = False

    def then(self, other: _Extent) -> _Extent:
        """Return what both take, one after the other."""
        if not (self.calls and other.calls):
            return other if other.calls else self
        known = self.aligned is not None and other.aligned is not None
        return _Extent((self.aligned or 0) + (other.aligned or 0) if known else None, other.slack, True)

    def times(self, count: int | None) -> _Extent:
        """Return what it takes that often."""
        if not self.calls or count == 0:
            return _Extent()
        if self.aligned is None or count is None:
            return _Extent(None, 0, True)
        return _Extent(self.aligned * count, self.slack, True)

    @property
    def bytes(self) -> int | None:
        """Return the bytes from the first to the last."""
        return None if self.aligned is None else self.aligned - self.slack


_Footprint = dict[str, _Extent]


@dataclass(frozen=True, slots=True)
class StaticMemory:
    """The bytes that one thread takes of L1 and of its stack, and its block of L2; None where not known."""

    local: int | None
    shared: int | None
    private: int | None


def static_memory(function: Callable[..., object]) -> StaticMemory:
    """Return what a kernel or a function takes, with the functions that it calls.

    All is None where the source cannot be had, as of a lambda.
    """
    plain = plain_function(function)
    found = None if plain is None else _Measuring([]).function(plain)
    if found is None:
        return StaticMemory(None, None, None)
    return StaticMemory(*(found.get(name, _Extent()).bytes for _, name, _ in _ALLOCATORS))


class _Measuring:
    """A walk through a function's text. `stack` are the functions that are being measured, outermost first."""

    def __init__(self, stack: list[FunctionType]) -> None:
        self.stack = stack
        self.recursive: set[FunctionType] = set()
        self.names: dict[str, object] = {}

    def function(self, function: FunctionType) -> _Footprint | None:
        """Return what a call of the function takes; None where its text cannot be had."""
        tree = function_tree(function)
        if tree is None:
            return None
        outer = self.names
        self.stack.append(function)
        self.names = {**variables_of(function), **dict.fromkeys(bound_names(tree), _VARIABLE)}
        self.names |= _single_values(tree, self.names)
        found = self.sequence(tree.body)
        self.stack.pop()
        self.names = outer
        if function in self.recursive:
            found = {name: each.times(None) for name, each in found.items()}
        return found

    def sequence(self, nodes: Iterable[ast.AST]) -> _Footprint:
        """Return what nodes take, one after the other."""
        total: _Footprint = {}
        for node in nodes:
            for name, each in self.node(node).items():
                total[name] = total.get(name, _Extent()).then(each)
        return total

    def node(self, node: ast.AST) -> _Footprint:
        """Return what a node takes."""
        match node:
            case ast.For() | ast.AsyncFor():
                turns = _times(self.sequence(node.body), self._turns(node.iter))
                return _both(self.sequence([node.iter]), turns, self.sequence(node.orelse))
            case ast.While():
                return _both(_times(self.sequence([node.test, *node.body]), None), self.sequence(node.orelse))
            case ast.If() | ast.IfExp():
                return self._branches(node)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return _times(self.sequence(ast.iter_child_nodes(node)), None)  # called an unknown number of times
            case ast.Call():
                parts = [*([] if self._allocator(node.func) else [node.func]), *node.args, *node.keywords]
                return _both(self.sequence(parts), self._call(node))
            case ast.Name() | ast.Attribute() if (name := self._allocator(node)) is not None:
                return {name: _Extent(None, 0, True)}  # passed on or kept: called an unknown number of times
            case _:
                return self.sequence(ast.iter_child_nodes(node))

    def _branches(self, node: ast.If | ast.IfExp) -> _Footprint:
        body = node.body if isinstance(node.body, list) else [node.body]
        otherwise = node.orelse if isinstance(node.orelse, list) else [node.orelse]
        try:
            return self.sequence(body if fold(node.test, self.names) else otherwise)
        except NotConstant:
            return self.sequence([node.test, *body, *otherwise])

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> _Footprint:
        inner = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        found = self.sequence(inner)
        for each in reversed(node.generators):
            found = _times(_both(self.sequence(each.ifs), found), self._turns(each.iter))
            found = _both(self.sequence([each.iter]), found)
        return found

    def _turns(self, node: ast.expr) -> int | None:
        """Return how often a loop over an expression runs; None where not known."""
        try:
            value = fold(node, self.names)
            return len(value) if isinstance(value, range | tuple | list | str) else None
        except NotConstant:
            return None

    def _call(self, node: ast.Call) -> _Footprint:
        try:
            function = resolve(node.func, self.names)
        except NotConstant:
            return {}
        for allocator, name, alignment in _ALLOCATORS:
            if function is allocator:
                return {name: self._allocation(node, alignment)}
        plain = plain_function(function) if callable(function) else None
        if plain is None or plain.__module__.startswith(_LANGUAGE) or plain.__module__.partition(".")[0] == "numpy":
            return {}
        if plain in self.stack:
            self.recursive.add(plain)
            return {}
        found = self.function(plain)
        return {name: _Extent(None, 0, True) for _, name, _ in _ALLOCATORS} if found is None else found

    def _allocator(self, node: ast.expr) -> str | None:
        """Return the figure of the allocator that an expression names."""
        try:
            function = resolve(node, self.names)
        except NotConstant:
            return None
        return next((name for allocator, name, _ in _ALLOCATORS if function is allocator), None)

    def _allocation(self, node: ast.Call, alignment: int) -> _Extent:
        """Return what one call of an allocator takes, where shape and type are constants."""
        given: dict[str | None, ast.expr] = dict(zip(("shape", "dtype"), node.args, strict=False))
        given |= {each.arg: each.value for each in node.keywords}
        try:
            _, _, size = extents_of(fold(given["shape"], self.names), fold(given["dtype"], self.names))
        except (NotConstant, KeyError, AtopsError):
            return _Extent(None, 0, True)
        aligned = -(-size // alignment) * alignment
        return _Extent(aligned, aligned - size, True)


def _times(found: _Footprint, count: int | None) -> _Footprint:
    return {name: each.times(count) for name, each in found.items()}


def _both(*parts: _Footprint) -> _Footprint:
    total: _Footprint = {}
    for part in parts:
        for name, each in part.items():
            total[name] = total.get(name, _Extent()).then(each)
    return total


def _single_values(tree: FunctionNode, names: Mapping[str, object]) -> dict[str, object]:
    """Return the function's variables that are assigned once, a constant: `TILE = 4096` in its body."""
    stored = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    parameters = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    found: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if stored.count(name) == 1 and name not in parameters:
                try:
                    found[name] = fold(node.value, {**names, **found})
                except NotConstant:
                    continue
    return found
