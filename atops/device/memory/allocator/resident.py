"""Which freed bytes of a memory may still be resident, the oldest first. It keeps ranges, in granules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

__all__ = ("WarmIndex",)

ResidentRange = tuple[int, int]


class WarmIndex:
    """For each free range of an allocator that is warm, the hull of what was used and then freed inside it.

    A hull may span bytes that never were resident: then `total` is too large and pages go back sooner, never later. It
    follows its free range when that is cut or merged. `total` is the sum of all hulls.
    """

    __slots__ = ("_free", "_hulls", "total")

    def __init__(self, free: dict[int, int]) -> None:
        """Follow the ranges of `free` (start to length), none of which is warm yet."""
        self._free = free
        self._hulls: OrderedDict[int, ResidentRange] = OrderedDict()  # by the start of the free range
        self.total = 0

    def join(self, first: int, start: int, stop: int, end: int) -> None:
        """Add the bytes from `start` to `stop`, which may be resident, to what is free now from `first` to `end`.

        What was free before them and behind them was one free range each, or nothing.
        """
        hulls, low, high = self._hulls, start, stop
        if first < start and (hull := hulls.pop(first, None)) is not None:
            low, top = hull
            self.total -= top - low
        if stop < end and (hull := hulls.pop(stop, None)) is not None:
            bottom, high = hull
            self.total -= high - bottom
        hulls[first] = low, high
        self.total += high - low

    def cut(self, start: int, cut: int, stop: int, end: int) -> None:
        """Take the bytes from `cut` to `stop` out of the free range that reached from `start` to `end`."""
        hull = self._hulls.pop(start, None)
        if hull is None:
            return
        low, high = hull
        total = self.total - (high - low)
        if low < cut:
            top = high if high < cut else cut
            self._hulls[start] = low, top
            total += top - low
        if high > stop:
            bottom = low if low > stop else stop
            self._hulls[stop] = bottom, high
            total += high - bottom
        self.total = total

    def cool(self, most: int) -> tuple[ResidentRange, ResidentRange]:
        """Forget up to `most` granules of the oldest hull, from its low end.

        Return them and the free range around them, both as (start, end). There must be a hull.
        """
        start, (low, high) = self._hulls.popitem(last=False)
        cut = min(high, low + most)
        if cut < high:
            self._hulls[start] = cut, high
            self._hulls.move_to_end(start, last=False)
        self.total -= cut - low
        return (low, cut), (start, start + self._free[start])

    def __iter__(self) -> Iterator[ResidentRange]:
        """Yield (start, end) of each hull, the oldest first."""
        return iter(self._hulls.values())
