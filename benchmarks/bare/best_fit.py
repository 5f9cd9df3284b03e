"""Best fit as a bare prototype does it: the floor under allocation. No bytes, no errors, no call sites."""

from __future__ import annotations

from typing import Any

from sortedcontainers import SortedList

__all__ = ("BareBestFit",)

GRANULE = 256  # bytes


class BareBestFit:
    """`size` bytes, of which `allocate` takes the smallest free range that is large enough and `free` merges."""

    def __init__(self, size: int) -> None:
        self._by_size: Any = SortedList([(size, 0)])
        self._lengths = {0: size}  # of free ranges, by where they begin
        self._starts = {size: 0}  # by where they end
        self._taken: dict[int, int] = {}

    def allocate(self, size: int) -> int:
        """Take `size` bytes and return where they begin."""
        need = -(-size // GRANULE) * GRANULE
        shortest: tuple[int, int] = self._by_size.pop(self._by_size.bisect_left((need, 0)))
        length, start = shortest
        del self._lengths[start], self._starts[start + length]
        if length > need:
            self._insert(start + need, length - need)
        self._taken[start] = need
        return start

    def free(self, start: int) -> None:
        """Give back what begins at `start`."""
        end = start + self._taken.pop(start)
        left, right = self._starts.pop(start, None), self._lengths.pop(end, None)
        if left is not None:
            self._by_size.remove((self._lengths.pop(left), left))
            start = left
        if right is not None:
            self._by_size.remove((right, end))
            end += right
        self._insert(start, end - start)

    def _insert(self, start: int, length: int) -> None:
        self._by_size.add((length, start))
        self._lengths[start] = length
        self._starts[start + length] = start
