"""A set of bytes, kept as ranges: what of a scratchpad nothing has stored to since it was taken."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

__all__ = ("ByteRanges",)


class ByteRanges:
    """Ranges of bytes, in order and apart: neighbours are one."""

    __slots__ = ("_starts", "_stops")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def add(self, start: int, stop: int) -> None:
        """Take in bytes `start` to `stop`."""
        if start >= stop:
            return
        starts, stops = self._starts, self._stops
        first = bisect_left(stops, start)  # the first range that does not end before
        last = bisect_right(starts, stop)  # behind the last one that does not begin after
        if first < last:
            start, stop = min(start, starts[first]), max(stop, stops[last - 1])
        starts[first:last] = [start]
        stops[first:last] = [stop]

    def remove(self, start: int, stop: int) -> None:
        """Leave out bytes `start` to `stop`."""
        starts, stops = self._starts, self._stops
        first = bisect_right(stops, start)  # the first range that ends behind the start
        last = bisect_left(starts, stop)  # behind the last one that begins before the stop
        if start >= stop or first >= last:
            return
        left = [(starts[first], start)] if starts[first] < start else []
        right = [(stop, stops[last - 1])] if stops[last - 1] > stop else []
        starts[first:last] = [each[0] for each in left + right]
        stops[first:last] = [each[1] for each in left + right]

    def common(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return what of bytes `start` to `stop` is in here."""
        starts, stops = self._starts, self._stops
        first, last = bisect_right(stops, start), bisect_left(starts, stop)
        return [(max(start, starts[each]), min(stop, stops[each])) for each in range(first, last) if start < stop]

    def __len__(self) -> int:
        return len(self._starts)
