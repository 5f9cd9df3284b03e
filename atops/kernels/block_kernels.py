"""A cooperative grid whose blocks run different kernels: block i runs entry i (TOPS Runtime API, 2.11).

A launch uses it as it uses a bound kernel; each block gets its kernel, its dynamic shared memory and its constants.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from atops.base.errors import InvalidValue, PeerAccessNotEnabled
from atops.device.memory.allocation import Allocation
from atops.device.span.span import Span
from atops.kernels.bound import BoundKernel
from atops.kernels.inspection import constants_of
from atops.kernels.memory.device_variables import Variable
from atops.kernels.memory.sharing import CONSTANTS, DYNAMIC_BYTES
from atops.kernels.memory.spaces import LanguageSpace

if TYPE_CHECKING:
    from atops.device.exec.grid import Grid
    from atops.device.exec.thread import KernelThread

__all__ = ("BlockKernel", "BlockKernels", "Segment")

Segment = tuple[Allocation, int, int]  # memory that holds a constant segment: from which byte on, how many


class BlockKernel(NamedTuple):
    """What one block runs. `constants` are the bytes of its constant segment; None: the kernel's own constants."""

    bound: BoundKernel
    shared_bytes: int
    constants: bytes | Segment | None


class BlockKernels:
    """The kernels of the blocks of one grid, in the order of the blocks."""

    make: Callable[[], Coroutine[object, Any, None]] | None = None

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

    def start(self, thread: KernelThread) -> Coroutine[object, Any, None] | None:
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
