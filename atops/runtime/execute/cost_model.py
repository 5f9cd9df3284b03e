"""How long a command takes that moves bytes: a table of what each moves over what, and one exact sum.

Figures are the architecture's. It knows no clock and no engine, and what it is not told of takes no time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from atops.base.trace.tracer import Kind
from atops.device.memory.allocation import Allocation, Bytes
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.commands import Copy, Fill, Reduce, ScatteredCopy
from atops.runtime.memory.prefetch import PrefetchBuffer
from atops.runtime.memory.scatter import Part, Scattered

__all__ = ("LEGS", "Leg", "Legs", "command_ns", "legs_ns")

SECOND: Final = 10**9  # ns


class Leg(NamedTuple):
    """So many bytes over something that moves so many in a second."""

    nbytes: int
    bandwidth: int


Legs = tuple[Leg, ...]  # what a command does, one after another; none takes no time


def command_ns(context: DeviceContext, command: Any) -> int:
    """Return the nanoseconds that a command takes which the engines of a device carry out. One of the table's."""
    return legs_ns(LEGS[type(command)](context, command))


def legs_ns(legs: Legs) -> int:
    """Return the nanoseconds of legs that follow one another: the exact sum, rounded up once."""
    return math.ceil(sum((Fraction(leg.nbytes * SECOND, leg.bandwidth) for leg in legs), Fraction()))


# ---- what moves over what


def _link(context: DeviceContext, size: int) -> Legs:
    """Bytes over the host link: the device's memory is faster either way, and keeps up."""
    return (Leg(size, context.arch.host_bandwidth),)


def _read(context: DeviceContext, memory: Any, offset: int, size: int) -> Legs:
    """Bytes out of device memory: from L2 what the prefetch buffer holds now, from L3 the rest."""
    entered = _entered(context.prefetched, memory, offset, size)
    return Leg(entered, context.arch.l2_bandwidth), Leg(size - entered, context.arch.l3_bandwidth)


def _write(context: DeviceContext, memory: Allocation, size: int) -> Legs:
    """Bytes into L3; into mapped host memory they cross the link."""
    return _link(context, size) if memory.device is None else (Leg(size, context.arch.l3_bandwidth),)


def _between(context: DeviceContext, command: Any) -> Legs:
    """Bytes to another device: over the link that joins the two, else through the host, over the links of both."""
    size = command.size
    route = context.driver.topology.route(command.src.device, command.dst.device)
    return _link(context, size) * 2 if route is None else (Leg(size, route.bandwidth),)


def _within(context: DeviceContext, command: Any) -> Legs:
    """Bytes from one place of a device to another: read, then written."""
    return (
        *_read(context, command.src, command.src_offset, command.size), *_write(context, command.dst, command.size)
    )  # fmt: skip


BY_KIND: Final[Mapping[int, Callable[[DeviceContext, Any], Legs]]] = MappingProxyType({
    Kind.COPY_H2D: lambda context, command: _link(context, command.size),
    Kind.COPY_D2H: lambda context, command: _link(context, command.size),
    Kind.COPY_D2D: _within,
    Kind.COPY_PEER: _between,
    Kind.COPY_H2H: lambda context, command: (),  # the host's memory is no figure of the chip
    Kind.FILL: lambda context, command: _write(context, command.dst, command.size),
})  # fmt: skip


def _of_copy(context: DeviceContext, command: Copy | ScatteredCopy) -> Legs:
    return BY_KIND[command.kind](context, command)


def _of_fill(context: DeviceContext, command: Fill) -> Legs:
    return _write(context, command.dst, len(command.pattern) * command.times)


def _of_reduce(context: DeviceContext, command: Reduce) -> Legs:
    """Read both operands, then write the result."""
    size = command.elements * command.dtype.itemsize
    lhs, rhs = (_read(context, *end, size) for end in (command.lhs, command.rhs))
    return *lhs, *rhs, *_write(context, command.result[0], size)


LEGS: Final[Mapping[type, Callable[[DeviceContext, Any], Legs]]] = MappingProxyType(
    {Copy: _of_copy, ScatteredCopy: _of_copy, Fill: _of_fill, Reduce: _of_reduce}
)


# ---- what is prefetched


def _entered(books: PrefetchBuffer, memory: Allocation, offset: int, size: int) -> int:
    """Return how many of these bytes a prefetch buffer holds; of scatter memory, how many of its parts' bytes there."""
    if not isinstance(memory, Scattered):
        return sum(end - start for start, end in books.entered(memory, offset, offset + size))
    return int(np.count_nonzero(memory.gather(offset, size, partial(_marks, books, memory.itemsize))))


def _marks(books: PrefetchBuffer, itemsize: int, part: Part) -> Bytes:
    """Return a 1 for each byte of a part that is entered, else a 0, in the order of the parent's axes."""
    memory = part.memory
    marks = np.zeros(memory.nbytes, np.uint8)
    for start, end in books.entered(memory.allocation, memory.offset, memory.offset + memory.nbytes):
        marks[start - memory.offset : end - memory.offset] = 1
    return part.arranged(marks, itemsize)
