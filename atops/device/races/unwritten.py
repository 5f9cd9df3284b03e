"""What of a scratchpad was taken and never stored to: reads of it find what the last kernel left there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from types import CodeType

import numpy as np

from atops.device.geometry import Array
from atops.device.races.rectangles import Rectangle

__all__ = ("ByteRanges", "Unwritten")


FEW = 8  # runs, which are looked up one by one


class ByteRanges:
    """Ranges of bytes, in order and apart: neighbours are one."""

    __slots__ = ("_arrays", "_starts", "_stops")

    def __init__(self) -> None:
        self._arrays: tuple[Array, Array] | None = None  # of both, until they change
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
        self._arrays = None
        starts[first:last] = [start]
        stops[first:last] = [stop]

    def remove(self, start: int, stop: int) -> None:
        """Leave out bytes `start` to `stop`."""
        starts, stops = self._starts, self._stops
        first = bisect_right(stops, start)  # the first range that ends behind the start
        last = bisect_left(starts, stop)  # behind the last one that begins before the stop
        if start >= stop or first >= last:
            return
        self._arrays = None
        left = [(starts[first], start)] if starts[first] < start else []
        right = [(stop, stops[last - 1])] if stops[last - 1] > stop else []
        starts[first:last] = [each[0] for each in left + right]
        stops[first:last] = [each[1] for each in left + right]

    def common(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return what of bytes `start` to `stop` is in here."""
        starts, stops = self._starts, self._stops
        first, last = bisect_right(stops, start), bisect_left(starts, stop)
        return [(max(start, starts[each]), min(stop, stops[each])) for each in range(first, last) if start < stop]

    def runs(self, row: Rectangle) -> list[int]:
        """Return where those runs of a rectangle begin that have bytes of what is in here."""
        if not self._starts or row.start >= self._stops[-1] or row.stop <= self._starts[0]:
            return []
        if row.rows <= FEW:
            return [start for start in row.starts if self.common(start, start + row.run)]
        if self._arrays is None:
            self._arrays = np.array(self._starts), np.array(self._stops)
        starts, stops = self._arrays
        begins = row.start + row.pitch * np.arange(row.rows)
        places = np.searchsorted(stops, begins, side="right")
        nearest = starts[np.minimum(places, len(starts) - 1)]
        found: list[int] = begins[(places < len(starts)) & (nearest < begins + row.run)].tolist()
        return found

    def __len__(self) -> int:
        return len(self._starts)


class Unwritten:
    """The bytes of a scratchpad that were taken and that nothing has stored to since."""

    __slots__ = ("_taken", "bytes", "origin")

    def __init__(self, pad: Array) -> None:
        self.origin: int = pad.__array_interface__["data"][0]
        self.bytes = ByteRanges()
        self._taken: list[tuple[int, int, CodeType, int]] = []

    def take(self, start: int, stop: int, code: CodeType, instruction: int) -> None:
        """Note that these bytes were taken at a place of the program."""
        self.bytes.add(start, stop)
        self._taken = [each for each in self._taken if each[1] <= start or each[0] >= stop]
        self._taken.append((start, stop, code, instruction))

    def store(self, rows: list[Rectangle]) -> None:
        """Note a store; rows are counted from the pad's first byte."""
        for row in rows:
            for start in self.bytes.runs(row):
                self.bytes.remove(start, start + row.run)

    def load(self, rows: list[Rectangle]) -> list[tuple[int, int]]:
        """Return what of a load nothing has stored to."""
        runs = [(start, start + row.run) for row in rows for start in self.bytes.runs(row)]
        return [each for start, stop in runs for each in self.bytes.common(start, stop)]

    def place(self, byte: int) -> tuple[CodeType | None, int]:
        """Return where a byte was taken."""
        for start, stop, code, instruction in self._taken:
            if start <= byte < stop:
                return code, instruction
        return None, 0
