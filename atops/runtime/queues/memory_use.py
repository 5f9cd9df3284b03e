"""Which memory a command is given that its record does not tell: a table of one small function a verb.

It knows no tracer: whoever tells of a command asks what stands here, for as long as somebody wants details.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from atops.device.memory.allocation import Allocation
from atops.kernels.arguments import MemoryArgument
from atops.kernels.bound import BoundKernel
from atops.runtime.core.commands import Launch, Reduce, ScatteredCopy
from atops.runtime.memory.scatter import Scattered

__all__ = ("USES", "UsedRange", "of_launch", "of_reduce", "of_scattered")

UsedRange: TypeAlias = tuple[int, int, int]  # device, offset in its memory, size in bytes
End: TypeAlias = tuple[Any, int, int]  # memory or host bytes, offset in it, size


def of_launch(command: Launch) -> Iterable[UsedRange]:
    """Return what the buffer arguments of a kernel, or the operands of a graph, reach; each range once.

    Of a grid whose blocks run kernels of their own these are whole allocations.
    """
    bound = command.bound
    if not bound.allocations:
        return ()
    if type(bound) is BoundKernel:
        values = bound.values.values()
        return _ranges((each.allocation, each.offset, each.nbytes) for each in values if type(each) is MemoryArgument)
    memory = getattr(bound, "memory", None)
    if memory is None:
        return _ranges((allocation, 0, allocation.size) for allocation in bound.allocations)
    return _ranges((buffer.allocation, buffer.offset, buffer.nbytes) for buffer in memory)


def of_reduce(command: Reduce) -> Iterable[UsedRange]:
    """Return both operands and the result, of which the record tells the first and the last."""
    size = command.elements * command.dtype.itemsize
    return _ranges((*end, size) for end in (command.lhs, command.rhs, command.result))


def of_scattered(command: ScatteredCopy) -> Iterable[UsedRange]:
    """Return both ends of a copy or fill of scatter memory, which has no one place: the parts that hold some of it."""
    ends = (command.dst, command.dst_offset), (command.src, command.src_offset)
    return _ranges((*end, command.size) for end in ends)


USES: Final[dict[type, Callable[[Any], Iterable[UsedRange]]]] = {
    Launch: of_launch,
    Reduce: of_reduce,
    ScatteredCopy: of_scattered,
}


def _ranges(ends: Iterable[End]) -> Iterable[UsedRange]:
    """Return the places of what is device memory and has any bytes, each once, in the order given."""
    found: dict[UsedRange, None] = {}
    for memory, offset, size in ends:
        if type(memory) is Allocation:
            if memory.device is not None and size:
                found[memory.device, memory.offset + offset, size] = None
        elif type(memory) is Scattered:
            found.update(dict.fromkeys(_pieces(memory, offset, size)))
    return found


def _pieces(memory: Scattered, offset: int, size: int) -> Iterator[UsedRange]:
    """Yield the whole range of each part that holds some of these bytes, or of the rows that they lie in."""
    if not (size and memory.dims):
        return
    row = memory.size // memory.dims[0]
    for part in memory.parts:
        start, height, buffer = part.anchor[0], part.extent[0], part.memory
        if start * row < offset + size and (start + height) * row > offset:
            yield from _ranges([(buffer.allocation, buffer.offset, buffer.nbytes)])
