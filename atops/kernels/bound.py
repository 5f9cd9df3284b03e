"""What a launch runs: a kernel bound to its arguments, or a different one for each block of a grid.

In a cooperative grid of several kernels block i runs entry i (TOPS Runtime API, 2.11); each block gets its kernel, its
dynamic shared memory and its constants.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from atops.base.errors import InvalidValue, LaunchFailure, PeerAccessNotEnabled
from atops.device.dte.context import check_destroyed
from atops.device.dte.transfer import finish_transfers
from atops.device.memory.allocation import Allocation
from atops.device.span.span import Span
from atops.kernels.arguments import MemoryArgument, aliases
from atops.kernels.inspection import constants_of
from atops.kernels.memory.device_variables import Variable
from atops.kernels.memory.sharing import CONSTANTS, DYNAMIC_BYTES
from atops.kernels.memory.spaces import LanguageSpace
from atops.kernels.target import held_to

if TYPE_CHECKING:
    from atops.device.chip import Cluster, Sip
    from atops.device.exec.block import Block
    from atops.device.exec.grid import Grid
    from atops.device.exec.thread import KernelThread
    from atops.kernels.kernel import Kernel

__all__ = ("BlockKernel", "BlockKernels", "BoundKernel", "Segment")

Segment = tuple[Allocation, int, int]  # memory that holds a constant segment: from which byte on, how many


class BoundKernel:
    """One launch's kernel and arguments. Only `Stream.launch` runs it."""

    native: Callable[[Grid, int, Cluster, list[Sip]], Block] | None = None
    __slots__ = (
        "_keywords", "_positional", "allocations", "context", "kernel", "make", "name", "prepares", "suspends",
        "values",
    )  # fmt: skip

    def __init__(self, kernel: Kernel, values: Mapping[str, object]) -> None:
        """Bind what each parameter got, in order."""
        self.kernel = kernel
        self.name = kernel.name
        self.values = values
        self.context = copy_context()  # of the launching task, for what the kernel prints
        memory = [value.allocation for value in values.values() if type(value) is MemoryArgument]
        self.allocations: tuple[Allocation, ...] = tuple(dict.fromkeys(memory)) if memory else ()
        self._positional: tuple[object, ...] = ()  # until it is resolved
        self._keywords: dict[str, object] = {}
        self.make: Callable[[], object] | None = None
        self.suspends = kernel.is_async
        self.prepares = kernel.target is not None or bool(kernel.restricted)

    def resolve(self, can_access: Callable[[Allocation], bool]) -> None:
        """Make the spans that all threads of the launch get, just before they run.

        Raises IllegalAddress, naming the parameter, when an allocation is dead, and PeerAccessNotEnabled when
        `can_access` refuses one.
        """
        positional: list[object] = []
        for name, value in self.values.items():
            if isinstance(value, MemoryArgument):
                value = self._span(value, can_access)
            if name in self.kernel.keyword_only:
                self._keywords[name] = value
            else:
                positional.append(value)
        self._positional = tuple(positional)
        self.make = partial(self.kernel.function, *positional, **self._keywords)

    def prepare(self, grid: Grid) -> None:
        """Restrict the launch to its compile target; in strict mode report aliases of restricted memory. Idempotent."""
        if self.kernel.target is not None:
            grid.arch = held_to(grid.chip.arch, self.kernel.target)
        if self.kernel.restricted and grid.options.strict:
            memory = [value for value in self.values.values() if isinstance(value, MemoryArgument)]
            restricted = (each for each in memory if each.name in self.kernel.restricted)
            grid.warnings += (each for each in aliases(self.name, restricted, memory) if each not in grid.warnings)

    def start(self, thread: KernelThread) -> Coroutine[object, object, None] | None:
        """Return the thread's coroutine; run a plain kernel to its end and return None.

        Raises LaunchFailure when a plain kernel returns a value.
        """
        result = self.kernel.function(*self._positional, **self._keywords)
        if self.kernel.is_async:
            coroutine: Coroutine[object, object, None] = result
            return coroutine
        if result is not None:
            raise self.returned(thread, result)
        return None

    def finish(self, thread: KernelThread, value: object) -> None:
        """Check the result of a thread, and finish its transfers.

        Raises LaunchFailure for a returned value, DteError in strict mode for transfers that were never waited for, and
        at the last thread of a block for contexts that were never destroyed.
        """
        if value is not None:
            raise self.returned(thread, value)
        if thread.transfers:
            finish_transfers(thread)
        if thread.block.left == thread.block.size:
            check_destroyed(thread.block)

    def returned(self, thread: KernelThread, result: object) -> LaunchFailure:
        """Return the error of a thread that returned a value (TOPS C++, 8.1)."""
        return LaunchFailure(f"{thread} returned {result!r}; a kernel returns nothing, it stores its results")

    def _span(self, value: MemoryArgument, can_access: Callable[[Allocation], bool]) -> Span:
        self._check(value, can_access)
        return value.span()

    def _check(self, value: MemoryArgument, can_access: Callable[[Allocation], bool]) -> None:
        allocation = value.allocation
        if not allocation.alive:
            size = allocation.size - value.offset
            raise allocation.violation(value.offset, size, f"kernel {self.name}, parameter {value.name}")
        if not can_access(allocation):
            raise self._out_of_reach(value)

    def check_reach(self, can_access: Callable[[Allocation], bool]) -> None:
        """Raise PeerAccessNotEnabled, naming the parameter, for memory that `can_access` refuses."""
        for value in self.values.values():
            if isinstance(value, MemoryArgument) and not can_access(value.allocation):
                raise self._out_of_reach(value)

    def _out_of_reach(self, value: MemoryArgument) -> PeerAccessNotEnabled:
        return PeerAccessNotEnabled(
            f"kernel {self.name}: parameter {value.name} is memory of {value.allocation.where}; enable peer access to "
            "it or copy it first"
        )

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        return f"<BoundKernel {self.name}({arguments})>"


class BlockKernel(NamedTuple):
    """What one block runs. `constants` are the bytes of its constant segment; None: the kernel's own constants."""

    bound: BoundKernel
    shared_bytes: int
    constants: bytes | Segment | None


class BlockKernels:
    """The kernels of the blocks of one grid, in the order of the blocks."""

    native: Callable[[Grid, int, Cluster, list[Sip]], Block] | None = None
    make: Callable[[], object] | None = None
    suspends = True

    def __init__(self, entries: Sequence[BlockKernel]) -> None:
        """Join them. Raises InvalidValue where they are compiled for different targets, or lack constants."""
        first = entries[0].bound
        if len({each.bound.kernel.target for each in entries}) > 1:
            names = [f"{each.bound.name} ({each.bound.kernel.target})" for each in entries]
            raise InvalidValue(f"the kernels of one grid are compiled for different targets: {', '.join(names)}")
        self.kernel = first.kernel  # for the target, which all of them share
        self.context = first.context
        self.name = " | ".join(dict.fromkeys(each.bound.name for each in entries))
        self.prepares = any(each.bound.prepares for each in entries)
        memory = (allocation for each in entries for allocation in each.bound.allocations)
        self.allocations: tuple[Allocation, ...] = tuple(dict.fromkeys(memory))
        self._entries = tuple(entries)
        self._layouts = [_layout(each.bound) for each in entries]
        self._spans: list[Mapping[Variable, Span] | None] = [None] * len(entries)
        for place, each in enumerate(entries):
            if each.constants is not None:
                self._take_constants(place, each.constants)

    def _take_constants(self, place: int, segment: bytes | Segment) -> None:
        """Lay the constants of one block over its segment; device memory is read later. Raises InvalidValue."""
        offsets, end = self._layouts[place]
        size = len(segment) if isinstance(segment, bytes) else segment[2]
        if size < end:
            name = self._entries[place].bound.name
            raise InvalidValue(f"the constant segment of kernel {name} has {size} bytes; its constants take {end}")
        if isinstance(segment, bytes):
            self._spans[place] = {each: _span(each, segment, offset) for each, offset in offsets.items()}

    def resolve(self, can_access: Callable[[Allocation], bool]) -> None:
        """As BoundKernel.resolve, for each block; constant segments in device memory are read now."""
        for place, each in enumerate(self._entries):
            each.bound.resolve(can_access)
            if isinstance(each.constants, tuple):
                allocation, offset, size = each.constants
                if not can_access(allocation):
                    raise PeerAccessNotEnabled(
                        f"kernel {each.bound.name}: its constants are memory of {allocation.where}; enable peer access "
                        "to it or copy them first"
                    )
                data = allocation.data
                allocation.check(offset, size, f"the constants of kernel {each.bound.name}")
                self._take_constants(place, data[offset : offset + size].tobytes())

    def prepare(self, grid: Grid) -> None:
        """As BoundKernel.prepare, for each block."""
        for each in self._entries:
            if each.bound.prepares:
                each.bound.prepare(grid)

    def start(self, thread: KernelThread) -> Coroutine[object, object, None] | None:
        """Start the kernel of the thread's block. As BoundKernel.start."""
        block = thread.block
        entry = self._entries[block.linear]
        block.shared[DYNAMIC_BYTES] = entry.shared_bytes
        block.shared[CONSTANTS] = self._spans[block.linear]
        return entry.bound.start(thread)

    def finish(self, thread: KernelThread, value: object) -> None:
        """As BoundKernel.finish."""
        self._entries[thread.block.linear].bound.finish(thread, value)

    def __repr__(self) -> str:
        return f"<BlockKernels {self.name}: {len(self._entries)} blocks>"


def _layout(bound: BoundKernel) -> tuple[dict[Variable, int], int]:
    """Return where the constants of a kernel lie in its segment, and how many bytes they take.

    In the order in which the kernel, then the functions it calls, name them, each at its natural alignment.
    """
    offsets: dict[Variable, int] = {}
    end = 0
    for each in constants_of(bound.kernel.function):
        offsets[each] = end + -end % each.dtype.alignment
        end = offsets[each] + each.nbytes
    return offsets, end


def _span(variable: Variable, segment: bytes, offset: int) -> Span:
    """Return the span that stands for a constant, read-only as the bytes are."""
    array = np.frombuffer(segment, variable.dtype, variable.size, offset).reshape(variable.shape)
    return Span(None, array, offset, LanguageSpace.CONSTANT)  # type: ignore[arg-type]  # a space of the language
