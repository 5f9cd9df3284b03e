"""Ranges of addresses, handed out and taken back. Pure bookkeeping: no bytes, no lock, no device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atops.device.memory.allocator.free_ranges import FreeRanges

__all__ = ("NoRoom", "Range", "RangeAllocator", "RangeStatistics")

Range = tuple[int, int]


class NoRoom(Exception):
    """No free range of the bank is large enough. The caller turns it into an error that names the memory."""


@dataclass(frozen=True, slots=True)
class RangeStatistics:
    """The state of an allocator, in bytes; `live` counts taken ranges, `free_ranges` free ones."""

    capacity: int
    used: int
    free: int
    largest_free: int
    free_ranges: int
    live: int
    peak: int


class RangeAllocator:
    """Hand out ranges of some addresses in granules: best fit, lowest address among equals, or highest address."""

    __slots__ = ("_ranges", "_taken", "_used", "capacity", "end", "granule", "peak", "start")

    def __init__(self, start: int, size: int, granule: int = 256) -> None:
        """Manage `size` bytes from `start`, a multiple of `granule`; what fills no granule at the end is left out.

        `capacity` and `peak` are bytes; `end` is the address after the last one.
        """
        self.start = start
        self.granule = granule
        self.capacity = size // granule * granule
        self.end = start + self.capacity
        self.peak = 0
        self._used = 0
        self._ranges = FreeRanges(start // granule, self.end // granule, self.end // granule or 1)
        self._taken: dict[int, int] = {}

    def allocate(self, size: int, *, top_down: bool = False) -> int:
        """Take `size` bytes (at least one granule) and return the address of the first.

        Best fit: of the smallest free range that holds them, the lowest address. With `top_down` the highest address
        at which they fit (DECISIONS 2.6). Raises NoRoom.
        """
        ranges = self._ranges
        need = -(-size // self.granule) or 1
        start = ranges.highest(need, 0) if top_down else ranges.take_best(need)
        if start < 0:
            raise NoRoom
        if top_down:
            cut = start + ranges.length(start) - need
            ranges.take(start, cut, need)
            start = cut
        self._taken[start] = need
        self._used += need * self.granule
        self.peak = max(self.peak, self._used)
        return start * self.granule

    def free(self, start: int) -> int:
        """Give the range that starts at `start` back and return its bytes. Raises KeyError when none does."""
        first = start // self.granule
        need = self._taken.pop(first)
        self._ranges.give(first, first + need)
        self._used -= need * self.granule
        return need * self.granule

    @property
    def used(self) -> int:
        """Bytes that are taken, in whole granules."""
        return self._used

    @property
    def free_ranges(self) -> int:
        """How many free ranges there are; no two of them touch."""
        return len(self._ranges)

    def statistics(self) -> RangeStatistics:
        """Return a snapshot."""
        return RangeStatistics(
            self.capacity, self._used, self.capacity - self._used, self._ranges.largest() * self.granule,
            self.free_ranges, len(self._taken), self.peak,
        )

    def __iter__(self) -> Iterator[Range]:
        """Yield (address, bytes) of each free range, by address."""
        for start, length in sorted(self._ranges.of_bank(0)):
            yield start * self.granule, length * self.granule

    def __repr__(self) -> str:
        """Say which addresses they are and how many are taken."""
        return f"<RangeAllocator {self.start:#x} +{self.capacity:#x}: {self._used} used in {len(self._taken)} ranges>"
