"""The attributes of a kernel before it runs: threads, memory, registers, versions. TOPS Runtime API, 2.8.

Every figure is computed from the kernel's text, its compiled code and the architecture; None where they do not tell it.
Local, shared and private memory are counted as if nothing were given back: every call, in every branch that no
constant rules out; a loop over a constant range counts as often as it runs. Lines of `local_variable` and
`shared_variable` count once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FunctionType

from atops.base.errors import AtopsError, InvalidType
from atops.device.arch import Architecture
from atops.device.memory.pieces import ALIGNMENT
from atops.kernels.inspection import (
    FunctionNode,
    bound_names,
    function_tree,
    plain_function,
    values_named,
    variables_of,
)
from atops.kernels.kernel import Kernel
from atops.kernels.memory.arrays import local, local_variable, private, shared, shared_variable
from atops.kernels.memory.device_variables import extents_of
from atops.kernels.source.constant_folding import NotConstant, fold, resolve
from atops.kernels.source.options import DEFAULT_TARGET
from atops.kernels.target import CompileTarget, compile_target

__all__ = ("FunctionAttributes", "function_attributes")

# Each allocator of the language: the figure it adds to, and the alignment of what it gives.
_ALLOCATORS: tuple[tuple[Callable[..., object], str, int], ...] = (
    (local, "local", ALIGNMENT), (shared, "shared", ALIGNMENT), (private, "private", 1),
    (local_variable, "local", ALIGNMENT), (shared_variable, "shared", ALIGNMENT),
)  # fmt: skip
_ONCE = (local_variable, shared_variable)  # each line gives the same memory however often it is passed
_VARIABLE = object()  # the value of a name of the function itself, unless it is assigned one constant
_LANGUAGE = ("atops.base", "atops.device", "atops.kernels")  # their functions allocate nothing but by those above


@dataclass(frozen=True, slots=True)
class FunctionAttributes:
    """The attributes of a kernel, as topsFuncGetAttributes names them; sizes in bytes, None where not known.

    `max_threads_per_block` is the architecture's. `shared_bytes` is what the kernel takes at most of its block's L2
    beside dynamic shared memory, `local_bytes` what each thread takes of L1, `private_bytes` of its stack: if all of it
    is held to the end, and branches that a constant does not decide are all counted. `constant_bytes` are those of the
    constants it refers to.
    `max_dynamic_shared_bytes` is the L2 that is left for dynamic shared memory, which `dynamic_shared` says it uses.

    `registers` counts the slots of the interpreter's frame: variables and the deepest expression, of the kernel and of
    the longest chain of functions that it calls. It depends on the version of Python, as it does on a compiler's.
    `binary_version` is that of the code (21 and 30 for the chips, 20 and 30 for abstract ones), `virtual_version` of
    the abstract architecture (20, 30).
    """

    max_threads_per_block: int
    shared_bytes: int | None
    local_bytes: int | None
    private_bytes: int | None
    constant_bytes: int
    max_dynamic_shared_bytes: int | None
    dynamic_shared: bool
    registers: int
    binary_version: int
    virtual_version: int


def function_attributes(
    kernel: Kernel, target: CompileTarget | Architecture | str | None = None
) -> FunctionAttributes:  # fmt: skip
    """Return the attributes of a kernel on an architecture, or as it was compiled for a target, by name too: "gcu300".

    Without `target` they are those of the target that the kernel names, or of gcu300. Raises InvalidType for what is
    no kernel and no target, InvalidValue for an unknown name.
    """
    if not isinstance(kernel, Kernel):
        raise InvalidType(f"function_attributes() expects a kernel, got {kernel!r}")
    target = _target(target if target is not None else kernel.target or DEFAULT_TARGET)
    chip = target.figures
    memory = _static_memory(kernel.function) if kernel.static_memory is None else dict(kernel.static_memory)
    shared_bytes = memory["shared"]
    left = chip.l2_usable if shared_bytes is not None else None
    if shared_bytes:  # dynamic shared memory comes first, and what follows it is aligned
        left = max(0, chip.l2_usable - shared_bytes) // ALIGNMENT * ALIGNMENT
    return FunctionAttributes(
        max_threads_per_block=chip.max_threads_per_block,
        shared_bytes=shared_bytes,
        local_bytes=memory["local"],
        private_bytes=memory["private"],
        constant_bytes=kernel.constant_bytes,
        max_dynamic_shared_bytes=left,
        dynamic_shared=kernel.uses_dynamic_shared,
        registers=_registers(kernel.function, []),
        binary_version=(target.agcu_arch if target.gcu_arch is None else target.gcu_arch) // 10,
        virtual_version=target.agcu_arch // 10,
    )


def _target(given: CompileTarget | Architecture | str) -> CompileTarget:
    """Return what a target, an architecture or the name of either stands for."""
    if isinstance(given, CompileTarget):
        return given
    if not isinstance(given, Architecture | str):
        raise InvalidType(f"target expects an Architecture, a CompileTarget or a name such as 'gcu300', got {given!r}")
    return compile_target(given if isinstance(given, str) else given.name)


def _registers(function: Callable[..., object], chain: list[FunctionType]) -> int:
    """Return the slots of a function's frame and of the longest chain of calls below it; a circle counts once."""
    plain = plain_function(function)
    if plain is None or plain in chain:
        return 0
    code = plain.__code__
    variables = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    own = len(variables) + code.co_stacksize
    return own + max((_registers(each, [*chain, plain]) for each in _called(plain)), default=0)


def _called(function: FunctionType) -> set[FunctionType]:
    """Return the functions of the program that a function's code names; those of the language are hardware."""
    named = {plain_function(value) for value in values_named(function) if isinstance(value, FunctionType)}
    library = ("atops.kernels", "atops.device", "numpy")
    return {each for each in named if each is not None and not each.__module__.startswith(library)}


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


def _static_memory(function: Callable[..., object]) -> dict[str, int | None]:
    """Return the bytes that a thread takes of L1 ("local") and its stack ("private"), and its block of L2 ("shared").

    With the functions that it calls. None where not known: all where the source cannot be had, as of a lambda.
    """
    plain = plain_function(function)
    measuring = _Measuring([])
    found = None if plain is None else measuring.function(plain)
    if found is not None:
        found = _both(found, *measuring.once.values())
    return {name: None if found is None else found.get(name, _Extent()).bytes for _, name, _ in _ALLOCATORS}


class _Measuring:
    """A walk through a function's text. `stack` are the functions that are being measured, outermost first."""

    def __init__(self, stack: list[FunctionType]) -> None:
        self.stack = stack
        self.recursive: set[FunctionType] = set()
        self.names: dict[str, object] = {}
        self.once: dict[tuple[FunctionType, int, int], _Footprint] = {}  # by place

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
                taken = {name: self._allocation(node, alignment)}
                if function not in _ONCE:
                    return taken
                self.once[self.stack[-1], node.lineno, node.col_offset] = taken
                return {}
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
