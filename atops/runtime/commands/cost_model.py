"""How long moving bytes takes under a virtual clock: what they move over, and one exact sum.

Figures are the architecture's. What kernels take is in `device/cost.py`; what the host calls takes no time.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from atops.base.trace.records import Kind
from atops.device.memory.allocation import Allocation, Bytes
from atops.runtime.board.context import DeviceContext
from atops.runtime.memory.prefetch import PrefetchBuffer
from atops.runtime.memory.scatter import Part, Scattered

__all__ = ("Leg", "Legs", "copy_legs", "legs_ns", "read_legs", "write_legs")

SECOND: Final = 10**9  # ns


class Leg(NamedTuple):
    """So many bytes over something that moves so many in a second."""

    nbytes: int
    bandwidth: int


Legs = tuple[Leg, ...]  # what a command does, one after another; none takes no time


def legs_ns(legs: Legs) -> int:
    """Return the nanoseconds of legs that follow one another: the exact sum, rounded up once."""
    above, below = 0, 1  # of the sum, as a fraction
    for nbytes, bandwidth in legs:
        above, below = above * bandwidth + nbytes * SECOND * below, below * bandwidth
    return -(-above // below)


# ---- what moves over what


def _link(context: DeviceContext, size: int) -> Legs:
    """Return the way over the host link: the device's memory is faster either way, and keeps up."""
    return (Leg(size, context.arch.host_bandwidth),)


def read_legs(context: DeviceContext, memory: Allocation, offset: int, size: int) -> Legs:
    """Return the way out of device memory: from L2 what the prefetch buffer holds now, from L3 the rest."""
    entered = _entered(context.prefetched, memory, offset, size)
    return Leg(entered, context.arch.l2_bandwidth), Leg(size - entered, context.arch.l3_bandwidth)


def write_legs(context: DeviceContext, memory: Allocation, size: int) -> Legs:
    """Return the way into L3; into mapped host memory bytes cross the link."""
    return _link(context, size) if memory.device is None else (Leg(size, context.arch.l3_bandwidth),)


def copy_legs(context: DeviceContext, command: Any) -> Legs:
    """Return the way of a copy, by its `kind`. A fill of scatter memory is a copy too."""
    dst, src, src_offset, size = command.dst, command.src, command.src_offset, command.size
    match command.kind:
        case Kind.COPY_H2D | Kind.COPY_D2H:
            return _link(context, size)
        case Kind.COPY_D2D:
            return *read_legs(context, src, src_offset, size), *write_legs(context, dst, size)
        case Kind.COPY_PEER:  # over the link that the copy takes, else through the host, over the links of both
            link = command.link
            return _link(context, size) * 2 if link is None else (Leg(size, link.bandwidth),)
        case Kind.FILL:
            return write_legs(context, dst, size)
    return ()  # between two places of the host: its memory is no figure of the chip


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
