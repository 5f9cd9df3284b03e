"""Which freed bytes of a memory may still be resident, oldest first. It only keeps ranges; it knows no allocation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

__all__ = ("WarmIndex",)

Range = tuple[int, int]


class WarmIndex:
    """One more index over the free ranges of an allocator: for each, the hull of what was freed inside it and used.

    A hull may span bytes that never were resident: then `total` is too much and pages go back sooner, never later. It
    follows its free range when that is cut or merged. All numbers are granules.
    """

    __slots__ = ("_free", "_hulls", "_loose", "total")

    def __init__(self, free: dict[int, int]) -> None:
        """Follow the ranges of `free` (start to length). `total` is the sum of all hulls."""
        self._free = free
        self._hulls: OrderedDict[int, Range] = OrderedDict()
        self._loose: list[Range] = []
        self.total = 0

    def taking(self) -> None:
        """Prepare for a free range to be cut."""
        self._loose.clear()

    def freeing(self, start: int, end: int) -> None:
        """Prepare for the bytes in [start, end), which may be resident, to become free."""
        self._loose[:] = ((start, end),)

    def remove(self, start: int, length: int) -> None:
        """Let go of a free range; its hull goes to the ranges that are put in next, as far as they cover it."""
        hull = self._hulls.pop(start, None)
        if hull is not None:
            self._loose.append(hull)
            self.total -= hull[1] - hull[0]

    def add(self, start: int, length: int) -> None:
        """Put a free range in."""
        low = end = start + length
        high = 0
        for first, last in self._loose:
            if first < end and last > start:
                if first < low:
                    low = first
                if last > high:
                    high = last
        if high:
            low = low if low > start else start
            high = high if high < end else end
            self._hulls[start] = low, high
            self.total += high - low

    def cool(self, most: int) -> tuple[Range, Range]:
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

    def __iter__(self) -> Iterator[Range]:
        """Yield (start, end) of each hull, the oldest first."""
        yield from self._hulls.values()
