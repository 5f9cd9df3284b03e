"""Records in chunks, each gathered beforehand at coarser and coarser resolutions, so that a view of a million is quick.

A chunk is worked on once, when it is full; only the last one is looked at anew when records come.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from atops.base.trace.records import Status
from atops_widgets.feed.columns import Column, Columns
from atops_widgets.timeline.rows import RowBook
from atops_widgets.timeline.shapes import MOST_SHAPES, Shapes, gather, join

__all__ = ("Chunk", "Pyramid", "starts")

CHUNK: Final = 32_768  # records
FINEST: Final = 4096  # cells in time that a chunk is gathered into at first
NOTHING: Final = np.zeros(0, np.int64)


def starts(records: Columns, part: slice = slice(None)) -> Column:
    """Return when each record began; what never began (skipped, aborted in the queue) is a point at its end."""
    return np.minimum(records["started_ns"][part], records["finished_ns"][part])


class Chunk:
    """Some records as shapes, on the rows of their streams and of their engines, and the same gathered."""

    def __init__(self, shapes: Shapes, ended: int) -> None:
        self.shapes = shapes
        self.ended = ended  # the number of the record after its last one
        self.first = int(shapes.start.min())
        self.last = int(shapes.end.max())
        self._finest = max(0, int((self.last - self.first) / FINEST).bit_length())  # cells of 2 ** this ns
        self._levels: dict[int, Shapes] = {}

    def at(self, pixel_ns: float) -> Shapes:
        """Return what is fine enough for pixels of `pixel_ns`: the shapes, or the same in cells of half that."""
        level = int(pixel_ns / 2).bit_length() - 1
        if level < self._finest or len(self.shapes) < 2 * FINEST:
            return self.shapes
        if level not in self._levels:
            finer = max((known for known in self._levels if known < level), default=None)
            source = self.shapes if finer is None else self._levels[finer]
            if finer is None and level > self._finest:
                source = self._levels[self._finest] = self._gathered(source, self._finest)
            self._levels[level] = self._gathered(source, level)
        return self._levels[level]

    def _gathered(self, shapes: Shapes, level: int) -> Shapes:
        begin = self.first >> level << level
        cells = (self.last - begin >> level) + 1
        return gather(shapes, (begin, begin + (cells << level)), cells, NOTHING)


class Pyramid:
    """All chunks of a table of records, and the rows they are on."""

    def __init__(self) -> None:
        self.book = RowBook()
        self._full: list[Chunk] = []
        self._open: Chunk | None = None
        self._taken = 0  # number of the first record that is in no full chunk
        self._seen = (-1, -1)

    def update(self, records: Columns) -> None:
        """Take the records in that are new since the last time."""
        state = records.start, len(records)
        if state == self._seen:
            return
        self._seen = state
        while self._full and self._full[0].ended <= records.start:
            del self._full[0]
        end = records.start + len(records)
        self._taken = max(self._taken, records.start)
        while end - self._taken >= CHUNK:
            self._full.append(self._chunk(records, self._taken, self._taken + CHUNK))
            self._taken += CHUNK
        self._open = self._chunk(records, self._taken, end) if end > self._taken else None

    def view(self, window: tuple[int, int], width: int, keep: Column, rows: Column) -> tuple[Shapes | None, int]:
        """Return the shapes to draw, None for none, and how many records are in the window.

        `keep` are numbers of records to be drawn on their own; `rows` tells for each row of the book where it is drawn,
        below 0 where it is not.
        """
        pixel = (window[1] - window[0]) / width
        parts: list[Shapes] = []
        for chunk in [*self._full, *([self._open] if self._open else [])]:
            if chunk.last < window[0] or chunk.first > window[1]:
                continue
            shapes = chunk.at(pixel)
            if chunk.first < window[0] or chunk.last > window[1]:
                shapes = shapes.take(np.flatnonzero((shapes.end >= window[0]) & (shapes.start <= window[1])))
            parts += [shapes, *self._kept(chunk, shapes, keep)]
        everything = join(parts) if parts else None
        if everything is None or not len(everything):
            return None, 0
        streams = np.array([not row.engine for row in self.book.rows])
        count = int(everything.count[streams[everything.row]].sum())
        drawn = rows[everything.row]
        visible = Shapes(drawn, *(getattr(everything, field) for field in Shapes.__slots__[1:]))
        visible = visible.take(np.flatnonzero(drawn >= 0))
        return (gather(visible, window, width, keep, MOST_SHAPES), count) if len(visible) else (None, count)

    def _kept(self, chunk: Chunk, shapes: Shapes, keep: Column) -> list[Shapes]:
        """Return the shapes of the chunk that must be drawn on their own and were gathered."""
        if shapes is chunk.shapes or not len(keep):
            return []
        own = chunk.shapes.take(np.flatnonzero(np.isin(chunk.shapes.index, keep)))
        own = own.take(np.flatnonzero(~np.isin(own.index, shapes.index)))
        return [Shapes(own.row, own.start, own.end, own.kind, own.failed, 0 * own.count, own.time, own.index)]

    def _chunk(self, records: Columns, begin: int, end: int) -> Chunk:
        part = slice(begin - records.start, end - records.start)
        device, kind = records["device"][part], records["kind"][part]
        start, finished = starts(records, part), records["finished_ns"][part]
        own = Shapes(
            self.book.of_streams(device, records["stream"][part], kind), start, finished, kind,
            records["status"][part] != Status.DONE, np.ones(end - begin, np.int64), (finished - start).astype(float),
            np.arange(begin, end),
        )  # fmt: skip
        engine = self.book.of_engines(device, records["engine"][part], kind)
        served = np.flatnonzero(engine >= 0)
        again = own.take(served)
        again = Shapes(engine[served], *(getattr(again, field) for field in Shapes.__slots__[1:]))
        return Chunk(join([own, again]), end)
