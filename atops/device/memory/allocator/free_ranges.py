"""The free ranges of a memory: cut, merged and found. All numbers are granules.

Every allocation and every free passes through `take_best` and `give`: these make as few steps as they can.
"""

from __future__ import annotations

from typing import TypeVar

from atops.device.memory.allocator.range_index import AddressIndex, SizeIndex
from atops.device.memory.allocator.resident import WarmIndex

__all__ = ("FreeRanges",)

Index = TypeVar("Index", SizeIndex, AddressIndex)


class FreeRanges:
    """The free ranges among the granules `first` to `stop`, in banks of `part` granules that no range reaches across.

    A free range is in `_free` (start to length) and `_ends` (end to start), which find its neighbours in one step, and
    in an index by size. The indexes of one bank, by size and by address, are made when first asked for: a program
    that does not use them does not pay for them. `warm` follows which free bytes may be resident.
    """

    __slots__ = ("_by_address", "_by_size", "_ends", "_followed", "_free", "_part", "_sizes", "warm")

    def __init__(self, first: int, stop: int, part: int) -> None:
        """Begin with all granules free. The ends of banks are at the multiples of `part`."""
        self._part = part
        self._sizes = sizes = SizeIndex({}, part + 1)
        self._free = sizes.free
        self._ends: dict[int, int] = {}
        self._by_size: dict[int, SizeIndex] = {}  # by bank
        self._by_address: dict[int, AddressIndex] = {}
        self._followed = False  # whether there are indexes of banks
        while first < stop:
            end = min(stop, (first // part + 1) * part)
            self._insert(first, end - first)
            first = end
        self.warm = WarmIndex(self._free)

    # ---- changes

    def take_best(self, need: int) -> int:
        """Take `need` granules where `best` says, and return where; -1 when no range is long enough."""
        start = self._sizes.claim(need)
        if start >= 0:
            free = self._free
            length = free.pop(start)
            end, stop = start + length, start + need
            if stop < end:
                free[stop] = rest = end - stop
                self._ends[end] = stop
                self._sizes.add(stop, rest)
            else:
                del self._ends[end]
            self.warm.cut(start, start, stop, end)
            if self._followed:
                self._tell(start // self._part, ((start, length),), ((stop, end - stop),))
        return start

    def take(self, start: int, cut: int, need: int) -> None:
        """Take `need` granules from `cut` on out of the free range that begins at `start`; the rest stays free."""
        length = self._free.pop(start)
        end, stop = start + length, cut + need
        del self._ends[end]
        self._sizes.remove(start, length)
        if cut > start:
            self._insert(start, cut - start)
        if stop < end:
            self._insert(stop, end - stop)
        self.warm.cut(start, cut, stop, end)
        if self._followed:
            self._tell(start // self._part, ((start, length),), ((start, cut - start), (stop, end - stop)))

    def give(self, start: int, stop: int) -> None:
        """Let the granules from `start` to `stop`, of one bank, be free, in one range with their free neighbours."""
        free, ends = self._free, self._ends
        first, end = start, stop
        left = ends.get(start)
        if left is not None and start % self._part:
            first = left
            del ends[start], free[first]
            self._sizes.remove(first, start - first)
        right = free.get(stop)
        if right is not None and stop % self._part:
            end = stop + right
            del free[stop]
            self._sizes.remove(stop, right)
        free[first] = length = end - first
        ends[end] = first
        self._sizes.add(first, length)
        self.warm.join(first, start, stop, end)
        if self._followed:
            gone = (first, start - first), (stop, end - stop)
            self._tell(start // self._part, gone, ((first, length),))

    # ---- finding

    def best(self, need: int, bank: int) -> int:
        """Return where the shortest range of a bank for `need` granules begins, the lowest among equals, or -1."""
        index = self._by_size.get(bank)
        if index is None:
            self._by_size[bank] = index = self._follow(SizeIndex(self._free, self._part + 1), bank)
        return index.best(need)

    def highest(self, need: int, bank: int) -> int:
        """Return where the highest range of a bank for `need` granules begins, or -1."""
        index = self._by_address.get(bank)
        if index is None:
            self._by_address[bank] = index = self._follow(AddressIndex((bank + 1) * self._part), bank)
        return index.highest(need)

    def length(self, start: int) -> int:
        """Return the granules of the free range that begins at `start`, 0 when none does."""
        return self._free.get(start, 0)

    def before(self, end: int) -> int:
        """Return the granules of the free range that ends at `end`, 0 when none does."""
        return end - self._ends.get(end, end)

    def largest(self, bank: int | None = None) -> int:
        """Return the granules of the largest range, of a bank or of all; 0 if there is none."""
        if bank is None:
            return self._sizes.largest()
        return next((self._free[start] for start in self._sizes.longest_first() if start // self._part == bank), 0)

    def of_bank(self, bank: int) -> list[tuple[int, int]]:
        """Return (start, length) of the free ranges of a bank, in no order."""
        part = self._part
        return [(start, length) for start, length in self._free.items() if start // part == bank]

    def __len__(self) -> int:
        """Count the free ranges; no two of one bank touch."""
        return len(self._free)

    # ---- indexes

    def _follow(self, index: Index, bank: int) -> Index:
        for start, length in self.of_bank(bank):
            index.add(start, length)
        self._followed = True
        return index

    def _tell(self, bank: int, gone: tuple[tuple[int, int], ...], come: tuple[tuple[int, int], ...]) -> None:
        """Tell the indexes of a bank which ranges (start, length) are no more and which there are; 0 is none."""
        for index in (self._by_size.get(bank), self._by_address.get(bank)):
            if index is not None:
                for start, length in gone:
                    if length:
                        index.remove(start, length)
                for start, length in come:
                    if length:
                        index.add(start, length)

    def _insert(self, start: int, length: int) -> None:
        self._free[start] = length
        self._ends[start + length] = start
        self._sizes.add(start, length)
