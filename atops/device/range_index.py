"""How a free range is found: by length for the best fit, by address for the highest. Numbers only, in granules."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Protocol

from atops.device.integer_set import IntegerSet

__all__ = ("AddressIndex", "RangeIndex", "SizeIndex")

STALE_SLACK = 1024


class RangeIndex(Protocol):
    """Something that follows which ranges are free."""

    def add(self, start: int, length: int) -> None:
        """Put in a range of granules that has become free."""

    def remove(self, start: int, length: int) -> None:
        """Take out a range that is no longer free as it was."""


class SizeIndex:
    """Free ranges by length: for each length that occurs a heap of starts, whose least is the one to take.

    A range that goes may leave its entry behind in the heap, where `free` tells that it is stale; stale entries are
    dropped when they come up, or all at once when they outnumber the others.
    """

    __slots__ = ("_bins", "_count", "_lengths", "entries", "free")

    BOUND = 1 << 40

    def __init__(self, free: dict[int, int]) -> None:
        """Index ranges of `free` (start to length), which whoever owns the ranges keeps up to date.

        `entries` counts what the heaps hold, stale entries included.
        """
        self.free = free
        self._bins: dict[int, list[int]] = {}
        self._lengths = IntegerSet(self.BOUND)
        self._count = 0
        self.entries = 0

    def best(self, need: int) -> int:
        """Return the start of the shortest range of at least `need`, the least start among equals, or -1."""
        length = need
        heap = self._bins.get(need)
        free = self.free
        while True:
            if heap is None:
                length = self._lengths.at_least(need)
                if length < 0:
                    return -1
                heap = self._bins[length]
            while heap:
                if free.get(heap[0]) == length:
                    return heap[0]
                heappop(heap)
                self.entries -= 1
            del self._bins[length]
            self._lengths.remove(length)
            heap = None

    def largest(self) -> int:
        """Return the length of the longest range, 0 if there is none."""
        while (length := self._lengths.at_most(self.BOUND - 1)) >= 0:
            if any(self.free.get(start) == length for start in self._bins[length]):
                return length
            self.entries -= len(self._bins.pop(length))
            self._lengths.remove(length)
        return 0

    def add(self, start: int, length: int) -> None:
        """Put a range in that `free` has already."""
        heap = self._bins.get(length)
        if heap is None:
            self._bins[length] = [start]
            self._lengths.add(length)
        else:
            heappush(heap, start)
        self._count += 1
        self.entries += 1
        if self.entries > 2 * self._count + STALE_SLACK:
            self._drop_stale()

    def remove(self, start: int, length: int) -> None:
        """Take a range out that `free` has no more."""
        self._count -= 1
        heap = self._bins[length]
        if heap[0] == start:
            heappop(heap)
            self.entries -= 1
        elif heap[-1] == start:  # the last leaf of a heap can go without repair
            heap.pop()
            self.entries -= 1
        if not heap:
            del self._bins[length]
            self._lengths.remove(length)

    def _drop_stale(self) -> None:
        bins: dict[int, list[int]] = self._bins
        self._bins = {}
        self._lengths = IntegerSet(self.BOUND)
        self.entries = 0
        for length, heap in bins.items():
            starts = list({start for start in heap if self.free.get(start) == length})
            if starts:
                heapify(starts)
                self._bins[length] = starts
                self._lengths.add(length)
                self.entries += len(starts)


class AddressIndex:
    """Free ranges by address: a sparse trie over their starts, each node knowing the greatest length below it.

    The highest start whose range is long enough is found by going to the highest node that is long enough.
    """

    __slots__ = ("_levels",)

    SHIFT = 3

    def __init__(self, bound: int) -> None:
        """Make an empty index for starts below `bound`."""
        self._levels: list[dict[int, int]] = [{}]
        while bound > 1:
            bound = (bound - 1 >> self.SHIFT) + 1
            self._levels.append({})

    def add(self, start: int, length: int) -> None:
        """Put a range in."""
        for level in self._levels:
            if level.get(start, 0) >= length:
                return
            level[start] = length
            start >>= self.SHIFT

    def remove(self, start: int, length: int) -> None:
        """Take a range out."""
        below = self._levels[0]
        del below[start]
        for level in self._levels[1:]:
            start >>= self.SHIFT
            if level[start] != length:
                return  # a longer one is left, here and so above
            most = max([below.get(child, 0) for child in self._children(start)])
            if most == length:
                return
            if most:
                level[start] = most
            else:
                del level[start]
            below = level

    def highest(self, need: int) -> int:
        """Return the greatest start of a range of at least `need`, or -1."""
        if self._levels[-1].get(0, 0) < need:
            return -1
        start = 0
        for level in reversed(self._levels[:-1]):
            start = next(child for child in reversed(self._children(start)) if level.get(child, 0) >= need)
        return start

    def _children(self, node: int) -> range:
        return range(node << self.SHIFT, node + 1 << self.SHIFT)
