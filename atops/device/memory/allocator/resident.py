"""Which freed bytes of a memory may still be resident, oldest first. It only keeps ranges; it knows no allocation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

__all__ = ("WarmIndex",)

ResidentRange = tuple[int, int]


class WarmIndex:
    """For each free range of an allocator the hull of what was freed inside it and used.

    A hull may span bytes that never were resident: then `total` is too much and pages go back sooner, never later. It
    follows its free range when that is cut or merged. All numbers are granules.

    Until something has to cool, nobody asks in which order ranges became free, and nearly all of them are warm from end
    to end: then only the few that are not have an entry, in `_partial`. The first `cool` makes `_hulls`, with an entry
    for each warm range.
    """

    __slots__ = ("_free", "_hulls", "_partial", "total")

    def __init__(self, free: dict[int, int]) -> None:
        """Follow the ranges of `free` (start to length, the oldest first). `total` is the sum of all hulls."""
        self._free = free
        self._partial: dict[int, ResidentRange] = {start: (start, start) for start in free}  # low == high: none
        self._hulls: OrderedDict[int, ResidentRange] | None = None  # by the start of the free range
        self.total = 0

    def join(self, first: int, start: int, stop: int, end: int) -> None:
        """Add the bytes from `start` to `stop`, which may be resident, to what is free now from `first` to `end`.

        What was free before them and behind them was one free range each, or nothing.
        """
        if self._hulls is None and first not in self._partial and (stop == end or stop not in self._partial):
            self.total += stop - start
            return
        low, high, total = start, stop, self.total
        if first < start and (hull := self._leave(first, start)) is not None:
            low, top = hull
            total -= top - low
        if stop < end and (hull := self._leave(stop, end)) is not None:
            bottom, high = hull
            total -= high - bottom
        self._enter(first, end, low, high)
        self.total = total + high - low

    def cut(self, start: int, cut: int, stop: int, end: int) -> None:
        """Take the bytes from `cut` to `stop` out of the free range that reached from `start` to `end`."""
        if self._hulls is None and start not in self._partial:
            self.total -= stop - cut
            return
        hull = self._leave(start, end)
        low, high = (start, start) if hull is None else hull
        total = self.total - (high - low)
        if start < cut:
            top = high if high < cut else cut
            self._enter(start, cut, low, top)
            total += max(0, top - low)
        if stop < end:
            bottom = low if low > stop else stop
            self._enter(stop, end, bottom, high)
            total += max(0, high - bottom)
        self.total = total

    def cool(self, most: int) -> tuple[ResidentRange, ResidentRange]:
        """Forget up to `most` granules of the oldest hull, from its low end.

        Return them and the free range around them, both as (start, end). There must be a hull.
        """
        if self._hulls is None:
            self._hulls = OrderedDict(self._every())
            self._partial.clear()
        start, (low, high) = self._hulls.popitem(last=False)
        cut = min(high, low + most)
        if cut < high:
            self._hulls[start] = cut, high
            self._hulls.move_to_end(start, last=False)
        self.total -= cut - low
        return (low, cut), (start, start + self._free[start])

    def __iter__(self) -> Iterator[ResidentRange]:
        """Yield (start, end) of each hull, the oldest first."""
        yield from (hull for _, hull in self._every()) if self._hulls is None else self._hulls.values()

    def _every(self) -> Iterator[tuple[int, ResidentRange]]:
        for start, length in self._free.items():
            hull = self._partial.get(start, (start, start + length))
            if hull[0] < hull[1]:
                yield start, hull

    def _leave(self, start: int, end: int) -> ResidentRange | None:
        """Take out and return the hull of the free range from `start` to `end`, None if it is not warm at all."""
        if self._hulls is not None:
            return self._hulls.pop(start, None)
        low, high = self._partial.pop(start, (start, end))
        return (low, high) if low < high else None

    def _enter(self, start: int, end: int, low: int, high: int) -> None:
        """Put in the hull of the free range from `start` to `end`: from `low` to `high`, or none if that is nothing."""
        if self._hulls is not None:
            if low < high:
                self._hulls[start] = low, high
        elif low > start or high < end:
            self._partial[start] = (low, high) if low < high else (start, start)
