"""The use of one memory: for each byte, the command that wrote it last, and those that have read it since.

Ranges are exact. A stream's commands are in order, so of its reads only the newest is kept, and a thousand streams that
read the same bytes again and again cost a thousand entries and no more.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from atops.runtime.races.command_clock import Epoch, before

__all__ = ("ByteHistory", "Clash", "Written")

Clash = tuple[Epoch, bool, int, int]  # an earlier command, whether it wrote, first byte, end


class _Cell:
    """A range of bytes with one past."""

    __slots__ = ("readers", "stop", "writer")

    def __init__(self, stop: int, writer: Epoch | None, readers: dict[int, Epoch]) -> None:
        self.stop = stop
        self.writer = writer
        self.readers = readers  # by order


@dataclass(slots=True)
class Written:
    """A `write_value` of a word, its bits and value, that before, what had written it, and whether a wait saw it."""

    epoch: Epoch
    width: int
    value: int
    before: int
    after: list[Epoch]
    seen: bool = False


class ByteHistory:
    """The past of the bytes of one memory, by offset."""

    __slots__ = ("_cells", "_starts", "made", "waits", "written")

    def __init__(self) -> None:
        self.made: Epoch | None = None  # the command that allocated the memory, where one did
        self.waits: dict[int, Epoch] = {}  # by order, the newest wait for a value in it
        self.written: dict[int, list[Written]] = {}  # by offset, the newest `write_value`s of a word
        self._starts: list[int] = []
        self._cells: list[_Cell] = []

    def note(self, start: int, stop: int, write: bool, epoch: Epoch, late: bool = False) -> list[Clash]:
        """Note an access to bytes `start` to `stop`. Returns what it clashes with: nothing orders these and it.

        `late`: it was a while ago, so what is here may come after it; else it is the newest.
        """
        clashes: list[Clash] = []
        if start >= stop:
            return clashes
        starts = self._starts
        first = bisect_right(starts, start) - 1
        if first >= 0 and starts[first] == start and (cell := self._cells[first]).stop == stop:
            last, writer = first + 1, cell.writer
            if write and writer is not None and writer.order == epoch.order and not cell.readers and not late:
                cell.writer = epoch  # by far the commonest: the same stream again
                return clashes
        else:
            first, last = self._cut(start, stop)
        for place in range(first, last):
            cell, begin = self._cells[place], self._starts[place]
            writer, kept = cell.writer, {}
            if writer is not None and not before(writer, epoch) and not (writer.signal and epoch.signal):
                if late and before(epoch, writer):
                    continue  # overwritten by what came after it
                clashes.append((writer, True, begin, cell.stop))
            if not write:
                cell.readers[epoch.order] = epoch
                continue
            for order, reader in cell.readers.items():
                if not before(reader, epoch) and not (reader.signal and epoch.signal):
                    if late and before(epoch, reader):
                        kept[order] = reader
                    else:
                        clashes.append((reader, False, begin, cell.stop))
            cell.writer, cell.readers = epoch, kept
        if write and not late and last - first > 1:  # one past from now on
            self._cells[first].stop = stop
            del self._starts[first + 1 : last], self._cells[first + 1 : last]
        return clashes

    def writers(self, start: int, stop: int) -> list[Epoch]:
        """Return what wrote any of these bytes last."""
        place = max(bisect_right(self._starts, start) - 1, 0)
        found: list[Epoch] = []
        while place < len(self._starts) and self._starts[place] < stop:
            cell = self._cells[place]
            if cell.stop > start and cell.writer is not None and cell.writer not in found:
                found.append(cell.writer)
            place += 1
        return found

    def __len__(self) -> int:
        """Return in how many ranges it keeps them."""
        return len(self._starts)

    def _cut(self, start: int, stop: int) -> tuple[int, int]:
        """Have cells from byte `start` to `stop` and no others there. Returns their places: first, end."""
        starts, cells = self._starts, self._cells
        first = bisect_right(starts, start) - 1
        if first >= 0 and cells[first].stop > start:
            if starts[first] < start:
                self._split(first, start)
                first += 1
        else:
            first += 1
        at, place = start, first
        while at < stop:
            begin = starts[place] if place < len(starts) else stop
            if begin > at:  # nothing is known of these
                end = min(begin, stop)
                starts.insert(place, at)
                cells.insert(place, _Cell(end, None, {}))
            elif cells[place].stop > stop:
                self._split(place, stop)
            at = cells[place].stop
            place += 1
        return first, place

    def _split(self, place: int, at: int) -> None:
        cell = self._cells[place]
        self._starts.insert(place + 1, at)
        self._cells.insert(place + 1, _Cell(cell.stop, cell.writer, dict(cell.readers)))
        cell.stop = at
