"""Which ranges of one memory bank are free and which are taken. Pure bookkeeping: no bytes, no lock, no device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from atops.device.range_index import AddressIndex, RangeIndex, SizeIndex

__all__ = ("NoRoom", "Range", "RangeAllocator", "RangeStatistics")

Range = tuple[int, int]
Change = Callable[[int, int], None]


class NoRoom(Exception):
    """No free range of the bank is large enough. The caller turns it into an error that names the memory."""


@dataclass(frozen=True, slots=True)
class RangeStatistics:
    """The state of a bank, in bytes; `live` counts taken ranges, `free_ranges` free ones."""

    capacity: int
    used: int
    free: int
    largest_free: int
    free_ranges: int
    live: int
    peak: int


class RangeAllocator:
    """Hand out ranges of [start, start + size) in granules: best fit, lowest address among equals, or highest address.

    All inner numbers count granules. A free range is in `_free` (start to length) and `_ends` (end to start), which
    find its neighbours in one step, and in indexes that find one to take. Several banks may share one index by size,
    and with it `_free`, so that a search over all of them is one search; then a bank's own index, and for top-down
    requests the index by address, is made when first asked for: who does not use it does not pay for it.
    """

    __slots__ = ("_adders", "_by_address", "_by_size", "_ends", "_first", "_free", "_origin", "_peak", "_removers",
                 "_stop", "_taken", "_used", "end", "granule", "start")

    def __init__(
        self, start: int, size: int, granule: int = 256, *,
        shared: SizeIndex | None = None, also: RangeIndex | None = None,
    ) -> None:
        """Manage `size` bytes from `start`; what does not fill a granule at the end is left out.

        Banks that share an index count granules from address 0, others from `start`. `also` is one more index that
        follows the free ranges.
        """
        self.start = start
        self.granule = granule
        self._origin = start if shared is None else 0
        self._first = (start - self._origin) // granule
        self._stop = self._first + size // granule
        self.end = self._origin + self._stop * granule  # the address after the last byte of the bank
        self._used = 0
        self._peak = 0
        self._ends: dict[int, int] = {}
        self._taken: dict[int, int] = {}
        self._by_size = SizeIndex({}) if shared is None else None
        self._by_address: AddressIndex | None = None
        index = shared or self._by_size
        assert index is not None
        self._free = index.free
        self._adders: tuple[Change, ...] = (index.add,) if also is None else (index.add, also.add)
        self._removers: tuple[Change, ...] = (index.remove,) if also is None else (index.remove, also.remove)
        if self._stop > self._first:
            self._insert(self._first, self._stop - self._first)

    def allocate(self, size: int, *, top_down: bool = False) -> int:
        """Take `size` bytes (at least one granule) and return the address of the first.

        Best fit: of the smallest free range that holds them, the lowest address. With `top_down` the highest address
        at which they fit (DECISIONS 2.6). Raises NoRoom.
        """
        found = self.highest(size) if top_down else self.best(size)
        if found is None:
            raise NoRoom
        start, length = found
        address = start + length - self.rounded(size) if top_down else start
        self.take(start, address, size)
        return address

    def free(self, start: int) -> int:
        """Give the range that starts at `start` back and return its bytes. Raises KeyError when none does."""
        first = (start - self._origin) // self.granule
        length = freed = self._taken.pop(first)
        self._used -= length
        left = self._ends.get(first)
        end = first + length
        if left is not None:
            length += first - left
            self._remove(left, first - left)
            first = left
        if end != self._stop and (right := self._free.get(end)) is not None:
            length += right
            self._remove(end, right)
        self._insert(first, length)
        return freed * self.granule

    def take(self, range_start: int, start: int, size: int) -> int:
        """Take `size` bytes from `start` out of the free range that begins at `range_start`; the rest stays free.

        Return the bytes taken, in whole granules.
        """
        granule = self.granule
        first = (range_start - self._origin) // granule
        cut = (start - self._origin) // granule
        need = -(-size // granule) or 1
        length = self._free[first]
        self._remove(first, length)
        if cut > first:
            self._insert(first, cut - first)
        rest = first + length - cut - need
        if rest:
            self._insert(cut + need, rest)
        self._taken[cut] = need
        self._used = used = self._used + need
        if used > self._peak:
            self._peak = used
        return need * granule

    def best(self, size: int) -> Range | None:
        """Return (address, bytes) of the smallest free range that holds `size` bytes, the lowest among equals."""
        first = self._sizes().best(-(-size // self.granule) or 1)
        return None if first < 0 else (self._origin + first * self.granule, self._free[first] * self.granule)

    def highest(self, size: int) -> Range | None:
        """Return (address, bytes) of the highest free range that holds `size` bytes."""
        if self._by_address is None:
            self._by_address = AddressIndex(self._stop)
            self._adopt(self._by_address)
        first = self._by_address.highest(-(-size // self.granule) or 1)
        return None if first < 0 else (self._origin + first * self.granule, self._free[first] * self.granule)

    def head(self) -> int:
        """Return the free bytes at the very beginning of the bank."""
        return self._free.get(self._first, 0) * self.granule

    def tail(self) -> int:
        """Return the free bytes at the very end of the bank."""
        return (self._stop - self._ends.get(self._stop, self._stop)) * self.granule

    def rounded(self, size: int) -> int:
        """Return the bytes of the granules that hold `size` bytes; at least one granule."""
        return (-(-size // self.granule) or 1) * self.granule

    @property
    def capacity(self) -> int:
        """Bytes that can be handed out in all."""
        return (self._stop - self._first) * self.granule

    @property
    def used(self) -> int:
        """Bytes that are taken, in whole granules."""
        return self._used * self.granule

    @property
    def peak(self) -> int:
        """The most bytes ever taken at one time."""
        return self._peak * self.granule

    @property
    def free_ranges(self) -> int:
        """How many free ranges there are; no two of them touch."""
        return len(self._ends)

    @property
    def largest_free(self) -> int:
        """Bytes of the largest free range, 0 if there is none."""
        if self._by_size is not None:
            return self._by_size.largest() * self.granule
        return max((self._free[start] for start in self._ends.values()), default=0) * self.granule

    def statistics(self) -> RangeStatistics:
        """Return a snapshot of the bank."""
        return RangeStatistics(self.capacity, self.used, self.capacity - self.used, self.largest_free,
                               self.free_ranges, len(self._taken), self.peak)

    def __iter__(self) -> Iterator[Range]:
        """Yield (address, bytes) of each free range, by address."""
        for start in sorted(self._ends.values()):
            yield self._origin + start * self.granule, self._free[start] * self.granule

    def __repr__(self) -> str:
        """Say where the bank lies and how full it is."""
        return f"<RangeAllocator {self.start:#x} +{self.capacity:#x}: {self.used} used, {self.free_ranges} free ranges>"

    def _sizes(self) -> SizeIndex:
        if self._by_size is None:
            self._by_size = SizeIndex(self._free)
            self._adopt(self._by_size)
        return self._by_size

    def _adopt(self, index: RangeIndex) -> None:
        for start in self._ends.values():
            index.add(start, self._free[start])
        self._adders += (index.add,)
        self._removers += (index.remove,)

    def _insert(self, start: int, length: int) -> None:
        self._free[start] = length
        self._ends[start + length] = start
        for add in self._adders:
            add(start, length)

    def _remove(self, start: int, length: int) -> None:
        del self._free[start]
        del self._ends[start + length]
        for remove in self._removers:
            remove(start, length)
