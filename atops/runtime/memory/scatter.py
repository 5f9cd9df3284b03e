"""Scatter memory: one row-major buffer whose bytes lie in several allocations (TOPS Runtime API, 2.11).

The geometry is numpy views: a part holds a window of the parent with its axes permuted. Streams copy it by a command of
its own; nothing else can take it for plain memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import Any, NamedTuple, NoReturn

import numpy as np

from atops.base.errors import IllegalAddress, InvalidValue
from atops.device.memory.allocation import NOTHING, Allocation, Bytes
from atops.runtime.core.commands import Touch
from atops.runtime.memory.buffer import Buffer

__all__ = ("MOST_DIMS", "Part", "Scattered", "covers", "ranges_of", "read_from", "touches_of", "write_to")

MOST_DIMS = 8


class Part(NamedTuple):
    """A sub-memory: axis j of it is axis `axes[j]` of the parent, and it holds the window that begins at `anchor`."""

    memory: Buffer
    dims: tuple[int, ...]
    anchor: tuple[int, ...]
    axes: tuple[int, ...]
    owned: bool

    @property
    def extent(self) -> tuple[int, ...]:
        """The window's size along each axis of the parent."""
        return tuple(self.dims[self.axes.index(axis)] for axis in range(len(self.axes)))

    def window(self, itemsize: int) -> Bytes:
        """Return the part's bytes as a view, axes in the parent's order and each element's bytes last."""
        allocation = self.memory.allocation
        data = allocation.data
        allocation.check(self.memory.offset, self.memory.nbytes, "a part of scatter memory")
        return self.arranged(data[self.memory.offset :][: self.memory.nbytes], itemsize)

    def arranged(self, each: Bytes, itemsize: int) -> Bytes:
        """Return what there is for each of the part's bytes, such as its value, arranged as `window` is."""
        return each.reshape(*self.dims, itemsize).transpose(*np.argsort(self.axes), len(self.axes))


class Scattered(Allocation):
    """The parent: `size` bytes of `dims` elements, made of `parts` in the order in which they were attached."""

    __slots__ = ("dims", "parts")

    def __init__(self, size: int, device: int) -> None:
        super().__init__(0, size, device, 0, 0, 0, NOTHING, "topsMallocScatter")
        self.dims: tuple[int, ...] = ()
        self.parts: tuple[Part, ...] = ()

    @property
    def data(self) -> NoReturn:
        """Refuse: it has no bytes in one place. Raises InvalidValue."""
        self._refuse()

    @property
    def view(self) -> NoReturn:
        """Refuse, as `data` does."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InvalidValue(f"{self!r} is scatter memory, which only copies and fills take; its parts are plain")

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.size // math.prod(self.dims)

    @property
    def complete(self) -> bool:
        """Whether the windows of live parts cover the parent without gap or overlap."""
        return bool(self.dims) and all(part.memory.is_live for part in self.parts) and covers(self.dims, self.parts)

    def check_complete(self) -> None:
        """Raise InvalidValue unless it is complete."""
        if not self.complete:
            count = len(self.parts)
            raise InvalidValue(f"{self!r} is not complete: {count} parts do not cover {self.dims}, or one was freed")

    def read(self, offset: int, size: int) -> Bytes:
        """Return a copy of `size` bytes from `offset`. Bytes that no part holds are 0. Raises IllegalAddress."""
        self.check(offset, size, "scatter memory")
        return self.gather(offset, size, lambda part: part.window(self.itemsize))

    def gather(self, offset: int, size: int, window: Callable[[Part], Bytes]) -> Bytes:
        """Return what the windows of its parts hold for `size` bytes from `offset`: 0 for those that no part holds."""
        first, last = self._rows(offset, size)
        slab = np.zeros((last - first, *self.dims[1:], self.itemsize), np.uint8)
        for part in self.parts:
            inside, rows = self._share(part, first, last)
            slab[inside] = window(part)[rows]
        start = offset - first * self._row
        return slab.reshape(-1)[start : start + size]

    def write(self, offset: int, data: Any) -> None:
        """Store bytes from `offset`, and touch no others. Raises IllegalAddress."""
        given = np.frombuffer(data, np.uint8)
        self.check(offset, given.size, "scatter memory")
        first, last = self._rows(offset, given.size)
        slab = np.empty((last - first, *self.dims[1:], self.itemsize), np.uint8)
        ours = np.zeros(slab.shape, np.bool_)
        start = offset - first * self._row
        slab.reshape(-1)[start : start + given.size] = given
        ours.reshape(-1)[start : start + given.size] = True
        for part in self.parts:
            inside, rows = self._share(part, first, last)
            np.copyto(part.window(self.itemsize)[rows], slab[inside], where=ours[inside])
            part.memory.allocation.wrote(part.memory.offset, part.memory.nbytes)

    def plain(self, offset: int, size: int) -> Buffer | None:
        """Return the few bytes from `offset` where one part holds them in a row; None where they are in pieces."""
        first = self._place(offset)
        if first is None:
            return None
        part, start = first
        if any(self._place(offset + each) != (part, start + each) for each in range(1, size)):
            return None
        return Buffer(part.memory.allocation, part.memory.offset + start, size)

    def _place(self, offset: int) -> tuple[Part, int] | None:
        """Return which part holds a byte, and where in it; None for one that no part holds."""
        element, byte = divmod(offset, self.itemsize)
        index = np.unravel_index(element, self.dims)
        for part in self.parts:
            inside = [int(at) - start for at, start in zip(index, part.anchor, strict=True)]
            if all(0 <= at < extent for at, extent in zip(inside, part.extent, strict=True)):
                place = np.ravel_multi_index([inside[axis] for axis in part.axes], part.dims)
                return part, int(place) * self.itemsize + byte
        return None

    @property
    def _row(self) -> int:
        return self.size // self.dims[0]

    def _rows(self, offset: int, size: int) -> tuple[int, int]:
        """Return which steps of the outermost axis a range touches: from, and up to."""
        if not self.dims:
            raise IllegalAddress(f"{self!r} has no dimensions")
        return offset // self._row, -(-(offset + size) // self._row)

    def _share(self, part: Part, first: int, last: int) -> tuple[tuple[slice, ...], slice]:
        """Return where in rows `first` to `last` a part's window lies, and which of the window's rows those are."""
        anchor, extent = part.anchor, part.extent
        low, high = max(anchor[0], first), min(anchor[0] + extent[0], last)
        high = max(low, high)
        rest = (slice(at, at + size) for at, size in zip(anchor[1:], extent[1:], strict=True))
        return (slice(low - first, high - first), *rest), slice(low - anchor[0], high - anchor[0])


def read_from(memory: Allocation, offset: int, size: int, what: str) -> Bytes:
    """Return bytes of memory of either kind, to be read only. Raises IllegalAddress."""
    if isinstance(memory, Scattered):
        return memory.read(offset, size)
    data = memory.data  # taken before the check: freed in between, it is then still mapped
    memory.check(offset, size, what)
    return data[offset : offset + size]


def write_to(memory: Allocation, offset: int, data: Any, what: str) -> None:
    """Store an array's bytes in memory of either kind, and wake the value waits on them. Raises IllegalAddress."""
    if isinstance(memory, Scattered):
        memory.write(offset, data)
        return
    into = memory.data
    memory.check(offset, data.nbytes, what)
    into[offset : offset + data.nbytes] = data
    memory.wrote(offset, data.nbytes)


def ranges_of(ends: Iterable[tuple[object, int, int]]) -> Iterable[tuple[int, int, int]]:
    """Return (device, offset, size) of the memory among `ends`, each once and in order; of host bytes nothing.

    An end is (memory or host bytes, offset in it, size).
    """
    found: dict[tuple[int, int, int], None] = {}
    for memory, offset, size in ends:
        if type(memory) is Allocation:
            if memory.device is not None and size:
                found[memory.device, memory.offset + offset, size] = None
        elif type(memory) is Scattered:
            found.update(dict.fromkeys(_pieces(memory, offset, size)))
    return found


def _pieces(memory: Scattered, offset: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield the whole range of each part that holds some of these bytes, or of the rows that they lie in."""
    if not (size and memory.dims):
        return
    row = memory.size // memory.dims[0]
    for part in memory.parts:
        start, height, buffer = part.anchor[0], part.extent[0], part.memory
        if start * row < offset + size and (start + height) * row > offset:
            yield from ranges_of([(buffer.allocation, buffer.offset, buffer.nbytes)])


def touches_of(end: object, offset: int, size: int, write: bool) -> list[Touch]:
    """Return the bytes of an end of a copy as accesses to plain memory: of scatter memory those of its parts.

    Of these what is exact: whole rows of the parent, which are rows of a part, too, or the whole part.
    """
    if not isinstance(end, Scattered):
        return [(end, offset, offset + size, write)] if size else []
    found: list[Touch] = []
    row = end.size // end.dims[0] if end.dims else 0
    if not row or offset % row or size % row:
        return found
    first, last = offset // row, (offset + size) // row
    for part in end.parts:
        start, stop = part.anchor[0], part.anchor[0] + part.extent[0]
        low, high = max(start, first), min(stop, last)
        whole = (low, high) == (start, stop)
        if low < high and (whole or part.axes[0] == 0):
            buffer, each = part.memory, part.memory.nbytes // part.extent[0]
            at = buffer.offset + (low - start) * each
            end_at = buffer.offset + buffer.nbytes if whole else at + (high - low) * each
            found.append((buffer.allocation, at, end_at, write))
    return found


def covers(dims: tuple[int, ...], parts: tuple[Part, ...]) -> bool:
    """Say whether windows that lie inside `dims` cover it without gap or overlap."""
    if sum(math.prod(part.dims) for part in parts) != math.prod(dims):
        return False
    return not any(_overlap(one, other) for one, other in combinations(parts, 2))


def _overlap(one: Part, other: Part) -> bool:
    spans = zip(one.anchor, one.extent, other.anchor, other.extent, strict=True)
    return all(at < start + length and start < at + size for at, size, start, length in spans)
