"""The bytes of a scratchpad that were taken and never stored to: reads of them find what the last kernel left there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from types import CodeType

import numpy as np

from atops.device.geometry import Array
from atops.device.races.rectangles import Rect, starts

__all__ = ("ByteRanges", "Unwritten")


FEW = 8  # runs, which are looked up one by one


class ByteRanges:
    """Ranges of bytes, in order and apart: neighbours are one."""

    __slots__ = ("_arrays", "starts", "stops")

    def __init__(self) -> None:
        self._arrays: tuple[Array, Array] | None = None  # of both, until they change
        self.starts: list[int] = []
        self.stops: list[int] = []

    def add(self, start: int, stop: int) -> None:
        """Take in bytes `start` to `stop`."""
        if start >= stop:
            return
        starts, stops = self.starts, self.stops
        first = bisect_left(stops, start)  # the first range that does not end before
        last = bisect_right(starts, stop)  # behind the last one that does not begin after
        if first < last:
            start, stop = min(start, starts[first]), max(stop, stops[last - 1])
        self._arrays = None
        starts[first:last] = [start]
        stops[first:last] = [stop]

    def remove(self, start: int, stop: int) -> None:
        """Leave out bytes `start` to `stop`."""
        starts, stops = self.starts, self.stops
        first = bisect_right(stops, start)  # the first range that ends behind the start
        last = bisect_left(starts, stop)  # behind the last one that begins before the stop
        if start >= stop or first >= last:
            return
        self._arrays = None
        low, high = starts[first], stops[last - 1]
        begins, ends = ([low], [start]) if low < start else ([], [])
        if high > stop:
            begins.append(stop)
            ends.append(high)
        starts[first:last] = begins
        stops[first:last] = ends

    def common(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return what of bytes `start` to `stop` is in here."""
        starts, stops = self.starts, self.stops
        first, last = bisect_right(stops, start), bisect_left(starts, stop)
        if first >= last:
            return []
        return [(max(start, starts[each]), min(stop, stops[each])) for each in range(first, last) if start < stop]

    def meets(self, start: int, stop: int) -> bool:
        """Tell whether any of bytes `start` to `stop` is in here."""
        stops = self.stops
        place = bisect_right(stops, start)
        return place < len(stops) and self.starts[place] < stop

    def runs(self, row: Rect) -> list[int]:
        """Return where those runs of a rectangle begin that have bytes of what is in here."""
        first, run, pitch, rows = row
        if not self.meets(first, first + pitch * (rows - 1) + run):
            return []
        if rows == 1:
            return [first]
        if rows <= FEW:
            return [start for start in starts(row) if self.meets(start, start + run)]
        if self._arrays is None:
            self._arrays = np.array(self.starts), np.array(self.stops)
        lows, stops = self._arrays
        begins = first + pitch * np.arange(rows)
        places = np.searchsorted(stops, begins, side="right")
        nearest = lows[np.minimum(places, len(lows) - 1)]
        found: list[int] = begins[(places < len(lows)) & (nearest < begins + run)].tolist()
        return found

    def __len__(self) -> int:
        return len(self.starts)


class Unwritten:
    """The bytes of a scratchpad, counted from its first, that were taken and that nothing has stored to since."""

    __slots__ = ("_taken", "bytes")

    def __init__(self) -> None:
        self.bytes = ByteRanges()
        self._taken: list[tuple[int, int, CodeType, int]] = []

    def take(self, start: int, stop: int, code: CodeType, instruction: int) -> None:
        """Note that these bytes were taken at a place of the program."""
        self.bytes.add(start, stop)
        self._taken = [each for each in self._taken if each[1] <= start or each[0] >= stop]
        self._taken.append((start, stop, code, instruction))

    def store(self, rows: Iterable[Rect]) -> None:
        """Note a store."""
        written = self.bytes
        for row in rows:
            for start in written.runs(row) if row[3] > 1 else row[:1]:
                written.remove(start, start + row[1])

    def load(self, rows: Iterable[Rect]) -> list[tuple[int, int]]:
        """Return what of a load nothing has stored to."""
        found: list[tuple[int, int]] = []
        for row in rows:
            for start in self.bytes.runs(row) if row[3] > 1 else row[:1]:
                found += self.bytes.common(start, start + row[1])
        return found

    def place(self, byte: int) -> tuple[CodeType | None, int]:
        """Return where a byte was taken."""
        for start, stop, code, instruction in self._taken:
            if start <= byte < stop:
                return code, instruction
        return None, 0
