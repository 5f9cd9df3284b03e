"""The free ranges of a memory: cut, merged and found by best fit; and which of their bytes may still be resident.

Numbers only, in granules. Every allocation and every free passes through `take_best` and `give`: these make as few
steps as they can.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heappop, heappush

from sortedcontainers import SortedList

__all__ = ("BankIndex", "FreeRanges", "WarmIndex")

STALE_SLACK = 1024
FAN = 3  # a node of the tree over addresses has 1 << FAN children
ResidentRange = tuple[int, int]


class FreeRanges:
    """The free ranges among the granules `first` to `stop`, in banks of `part` granules that no range reaches across.

    A free range is in `_free` (start to length) and `_ends` (end to start), which find its neighbours in one step, and
    in a bin: for each length that occurs, in order in `_lengths`, a heap of starts, whose least is the one to take. A
    range that goes leaves its entry behind in the bin, where `_free` tells that it is stale; stale entries are dropped
    when they come up, or all at once when they outnumber the others. `warm` follows which free bytes may be resident.
    A bank has an index of its own from the first request for it, or from its top, on: others do not pay for it.
    """

    __slots__ = ("_banks", "_bins", "_ends", "_free", "_lengths", "_part", "_stale", "warm")

    def __init__(self, first: int, stop: int, part: int) -> None:
        """Begin with all granules free. The ends of banks are at the multiples of `part`."""
        self._part = part
        self._free: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._bins: dict[int, list[int]] = {}
        self._lengths: list[int] = []
        self._stale = 0
        self._banks: dict[int, BankIndex] = {}
        while first < stop:
            end = min(stop, (first // part + 1) * part)
            self._insert(first, end - first)
            first = end
        self.warm = WarmIndex(self._free)

    # ---- changes

    def take_best(self, need: int) -> int:
        """Take `need` granules where `best` says, and return where; -1 when no range is long enough."""
        free, length, heap = self._free, need, self._bins.get(need)
        if not heap or free.get(heap[0]) != need:
            start = self.best(need)
            if start < 0:
                return -1
            length = free[start]
            heap = self._bins[length]
        start = heappop(heap)
        if not heap:
            self._drop_bin(length)
        del free[start]
        if self._banks:
            self._tell_gone(start, length)
        end, stop = start + length, start + need
        if stop < end:
            free[stop] = rest = end - stop
            self._ends[end] = stop
            self._add(stop, rest)
        else:
            del self._ends[end]
        self.warm.cut(start, start, stop, end)
        return start

    def take(self, start: int, cut: int, need: int) -> None:
        """Take `need` granules from `cut` on out of the free range that begins at `start`; the rest stays free."""
        length = self._free.pop(start)
        end, stop = start + length, cut + need
        del self._ends[end]
        self._leave(start, length)
        if cut > start:
            self._insert(start, cut - start)
        if stop < end:
            self._insert(stop, end - stop)
        self.warm.cut(start, cut, stop, end)

    def give(self, start: int, stop: int) -> None:
        """Let the granules from `start` to `stop`, of one bank, be free, in one range with their free neighbours."""
        free, ends = self._free, self._ends
        first, end = start, stop
        left = ends.get(start)
        if left is not None and start % self._part:
            first = left
            del ends[start], free[first]
            self._leave(first, start - first)
        right = free.get(stop)
        if right is not None and stop % self._part:
            end = stop + right
            del free[stop]
            self._leave(stop, right)
        free[first] = length = end - first
        ends[end] = first
        self._add(first, length)
        self.warm.join(first, start, stop, end)

    # ---- finding

    def best(self, need: int) -> int:
        """Return where the shortest range for `need` granules begins, the lowest among equals, or -1."""
        free, bins = self._free, self._bins
        length, heap = need, bins.get(need)
        while True:
            while heap:
                start = heap[0]
                if free.get(start) == length:
                    return start
                heappop(heap)
                self._stale -= 1
            if heap is not None:
                self._drop_bin(length)
            place = bisect_left(self._lengths, need)
            if place == len(self._lengths):
                return -1
            length = self._lengths[place]
            heap = bins[length]

    def best_of(self, need: int, bank: int) -> int:
        """As `best`, in one bank."""
        return (self._banks.get(bank) or self._follow(bank)).best(need)

    def highest(self, need: int, bank: int) -> int:
        """Return where the highest range of a bank for `need` granules begins, or -1."""
        return (self._banks.get(bank) or self._follow(bank)).highest(need)

    def largest(self, bank: int | None = None) -> int:
        """Return the granules of the largest range, of a bank or of all; 0 if there is none."""
        return next((length for length in reversed(self._lengths) if self._of(length, bank)), 0)

    def length(self, start: int) -> int:
        """Return the granules of the free range that begins at `start`, 0 when none does."""
        return self._free.get(start, 0)

    def before(self, end: int) -> int:
        """Return the granules of the free range that ends at `end`, 0 when none does."""
        return end - self._ends.get(end, end)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield (start, length) of the free ranges, in no order; no two of one bank touch."""
        return iter(self._free.items())

    # ---- bins

    def _of(self, length: int, bank: int | None) -> list[int]:
        """Return the starts of the ranges of a length, in a bank or in all."""
        free, part = self._free, self._part
        starts = [start for start in self._bins[length] if free.get(start) == length]
        return starts if bank is None else [start for start in starts if start // part == bank]

    def _insert(self, start: int, length: int) -> None:
        self._free[start] = length
        self._ends[start + length] = start
        self._add(start, length)

    def _add(self, start: int, length: int) -> None:
        heap = self._bins.get(length)
        if heap is None:
            self._bins[length] = [start]
            insort(self._lengths, length)
        else:
            heappush(heap, start)
        if self._banks and (index := self._banks.get(start // self._part)) is not None:
            index.add(start, length)

    def _drop_bin(self, length: int) -> None:
        del self._bins[length]
        del self._lengths[bisect_left(self._lengths, length)]

    def _leave(self, start: int, length: int) -> None:
        """Count the entry of a range that has gone; drop all such entries when there are many."""
        if self._banks:
            self._tell_gone(start, length)
        self._stale = stale = self._stale + 1
        free = self._free
        if stale > len(free) + STALE_SLACK:
            left = {size: sorted({at for at in heap if free.get(at) == size}) for size, heap in self._bins.items()}
            self._bins = {size: starts for size, starts in left.items() if starts}  # what is sorted is a heap
            self._lengths = sorted(self._bins)
            self._stale = 0

    # ---- indexes of banks

    def _follow(self, bank: int) -> BankIndex:
        index = BankIndex((bank + 1) * self._part)
        for start, length in self:
            if start // self._part == bank:
                index.add(start, length)
        self._banks[bank] = index
        return index

    def _tell_gone(self, start: int, length: int) -> None:
        if (index := self._banks.get(start // self._part)) is not None:
            index.remove(start, length)


class BankIndex:
    """The free ranges of one bank by length, and by address.

    By address they are in a sparse tree, whose nodes know the greatest length below them: the highest start whose range
    is long enough is below the highest node that is long enough. Level 0 has the ranges themselves.
    """

    __slots__ = ("_levels", "_sizes")

    def __init__(self, bound: int) -> None:
        """Begin without ranges; all starts will be below `bound`."""
        self._sizes: SortedList[tuple[int, int]] = SortedList()  # (length, start)
        self._levels: list[dict[int, int]] = [{}]
        while bound > 1:
            bound = (bound - 1 >> FAN) + 1
            self._levels.append({})

    def add(self, start: int, length: int) -> None:
        """Put a range in."""
        self._sizes.add((length, start))
        for level in self._levels:
            if level.get(start, 0) >= length:
                return
            level[start] = length
            start >>= FAN

    def remove(self, start: int, length: int) -> None:
        """Take a range out."""
        self._sizes.remove((length, start))
        below = self._levels[0]
        del below[start]
        for level in self._levels[1:]:
            start >>= FAN
            if level[start] != length:
                return  # a longer one is left, here and so above
            most = max([below.get(child, 0) for child in _children(start)])
            if most == length:
                return
            if most:
                level[start] = most
            else:
                del level[start]
            below = level

    def best(self, need: int) -> int:
        """Return where the shortest range for `need` granules begins, the lowest among equals, or -1."""
        place = self._sizes.bisect_left((need, 0))
        return self._sizes[place][1] if place < len(self._sizes) else -1

    def highest(self, need: int) -> int:
        """Return where the highest range for `need` granules begins, or -1."""
        if self._levels[-1].get(0, 0) < need:
            return -1
        start = 0
        for level in reversed(self._levels[:-1]):
            start = next(child for child in reversed(_children(start)) if level.get(child, 0) >= need)
        return start


def _children(node: int) -> range:
    return range(node << FAN, node + 1 << FAN)


class WarmIndex:
    """For each free range of an allocator that is warm, the hull of what was used and then freed inside it.

    A hull may span bytes that never were resident: then `total` is too large and pages go back sooner, never later. It
    follows its free range when that is cut or merged. `total` is the sum of all hulls.
    """

    __slots__ = ("_free", "_hulls", "_oldest", "total")

    def __init__(self, free: dict[int, int]) -> None:
        """Follow the ranges of `free` (start to length), none of which is warm yet."""
        self._free = free
        # By the start of the free range. Every allocation and every free changes it, cooling is rare: so it is no
        # OrderedDict, whose entries cost several times as much where there are many.
        self._hulls: dict[int, ResidentRange] = {}
        self._oldest: list[int] = []  # the starts that `cool` found when this was last empty, the oldest last
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
        oldest = self._oldest
        while True:
            if not oldest:
                oldest += reversed(self._hulls)
            start = oldest.pop()
            if (hull := self._hulls.pop(start, None)) is not None:
                break
        low, high = hull
        cut = min(high, low + most)
        if cut < high:
            self._hulls[start] = cut, high
            oldest.append(start)
        self.total -= cut - low
        return (low, cut), (start, start + self._free[start])

    def __iter__(self) -> Iterator[ResidentRange]:
        """Yield (start, end) of each hull, the oldest first."""
        return iter(self._hulls.values())
