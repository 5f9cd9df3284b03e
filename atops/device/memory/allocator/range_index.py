"""The rule of placement: best fit. Indexes find the shortest free range that is long enough, or the highest one.

Numbers only, in granules.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from atops.device.memory.allocator.bitmap_set import IntegerSet

__all__ = ("AddressIndex", "SizeIndex")

STALE_SLACK = 1024


class SizeIndex:
    """Free ranges by length: for each length that occurs a heap of starts, whose least is the one to take.

    A range that goes leaves its entry behind in the heap, where `free` tells that it is stale; stale entries are
    dropped when they come up, or all at once when they outnumber the others.
    """

    __slots__ = ("_bins", "_bound", "_lengths", "_stale", "free")

    def __init__(self, free: dict[int, int], bound: int) -> None:
        """Index ranges of `free` (start to length, below `bound`), which its owner keeps up to date."""
        self.free = free
        self._bound = bound
        self._bins: dict[int, list[int]] = {}
        self._lengths = IntegerSet(bound)
        self._stale = 0

    def claim(self, need: int) -> int:
        """Take out the range that `best` finds, which the owner then takes out of `free`, and return its start."""
        length, heap = need, self._bins.get(need)
        if not heap or self.free.get(heap[0]) != need:
            start = self.best(need)
            if start < 0:
                return -1
            length = self.free[start]
            heap = self._bins[length]
        start = heappop(heap)
        if not heap:
            del self._bins[length]
            self._lengths.remove(length)
        return start

    def best(self, need: int) -> int:
        """Return the start of the shortest range of at least `need`, the least start among equals, or -1."""
        free, bins = self.free, self._bins
        length, heap = need, bins.get(need)
        while True:
            while heap:
                start = heap[0]
                if free.get(start) == length:
                    return start
                heappop(heap)
                self._stale -= 1
            if heap is not None:
                del bins[length]
                self._lengths.remove(length)
            length = self._lengths.at_least(need)
            if length < 0:
                return -1
            heap = bins[length]

    def largest(self) -> int:
        """Return the length of the longest range, 0 if there is none."""
        while (length := self._lengths.at_most(self._bound - 1)) >= 0:
            if any(self.free.get(start) == length for start in self._bins[length]):
                return length
            self._stale -= len(self._bins.pop(length))
            self._lengths.remove(length)
        return 0

    def longest_first(self) -> Iterator[int]:
        """Yield the starts of all ranges; nothing may change meanwhile."""
        length = self._bound
        while (length := self._lengths.at_most(length - 1)) >= 0:
            for start in self._bins[length]:
                if self.free.get(start) == length:
                    yield start

    def add(self, start: int, length: int) -> None:
        """Put a range in that `free` has already."""
        heap = self._bins.get(length)
        if heap is None:
            self._bins[length] = [start]
            self._lengths.add(length)
        else:
            heappush(heap, start)

    def remove(self, start: int, length: int) -> None:
        """Take a range out that `free` has no more."""
        self._stale = stale = self._stale + 1
        if stale > len(self.free) + STALE_SLACK:
            self._drop_stale()

    def _drop_stale(self) -> None:
        bins = self._bins
        self._bins = {}
        self._lengths = IntegerSet(self._bound)
        self._stale = 0
        for length, heap in bins.items():
            starts = list({start for start in heap if self.free.get(start) == length})
            if starts:
                heapify(starts)
                self._bins[length] = starts
                self._lengths.add(length)


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
