"""Records as shapes on rows: what is wide enough is drawn on its own, what is not is gathered in cells of a pixel.

Pure numpy: the same shapes and the same window give the same answer. Nothing is left out: a gathered run tells how many
records it stands for, what most of its time was, and whether one of them failed. Gathering again only gets coarser, so
each chunk of a table is gathered beforehand, once: a view of a million records is quick.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from atops.base.trace.records import MOVES, Kind, Status, TraceNames
from atops_widgets.feed.axis import TimeAxis
from atops_widgets.feed.columns import Column, Columns
from atops_widgets.feed.host import PROGRAM_WAITS, WAIT_LANES

__all__ = ("NO_ROW", "Chunk", "Pyramid", "RowBook", "Shapes", "TimelineRow", "gather", "join", "starts")

NO_ROW: Final = -1
STREAM, BESIDE, COPY_ENGINE, CLUSTER = range(4)
IS_BESIDE: Final = np.isin(np.arange(256), [Kind.CALL, Kind.API])  # by kind: may run beside its stream
IS_MOVE: Final = np.isin(np.arange(256), list(MOVES))
IS_SERVED: Final = IS_MOVE | (np.arange(256) == Kind.LAUNCH)


@dataclass(frozen=True, slots=True, order=True)
class TimelineRow:
    """One row, in the order drawn: a stream (number -1: of none), the host's calls of one, or an engine."""

    device: int
    section: int
    number: int
    what: int

    @property
    def key(self) -> str:
        """What a page calls the row."""
        return f"{self.device} {self.section} {self.number} {self.what}"

    @property
    def engine(self) -> bool:
        """True for a row of a copy engine or a cluster."""
        return self.what >= COPY_ENGINE

    @property
    def hosts(self) -> bool:
        """True for a row of the host's."""
        return self.device < 0

    @property
    def unplaced(self) -> bool:
        """True for the calls of the host as a device's records have them: they stand on rows of the host's."""
        return self.what == BESIDE and self.number < 0

    @property
    def folds_to(self) -> TimelineRow | None:
        """The row on which a further lane of the host's stands where these are folded; None of any other row."""
        first = WAIT_LANES if self.number >= WAIT_LANES else 0
        if not self.hosts or self.number <= first or (first == 0 and self.what != BESIDE):
            return None
        return replace(self, number=first)

    def label(self, names: TraceNames) -> str:
        """Return the name to show."""
        if self.what == COPY_ENGINE:
            return f"copy engine {self.number}"
        if self.what == CLUSTER:
            return f"cluster {self.number}"
        if self.hosts and self.number >= WAIT_LANES:
            return _lane("waits", self.number - WAIT_LANES)
        if self.hosts and self.what == BESIDE and self.number >= 0:
            return _lane("API calls", self.number)
        stream = f"stream {self.number}" if self.number >= 0 else "outside"
        label = names.streams.get((self.device, self.number)) or stream
        return f"{label} · host" if self.what == BESIDE else label


def _lane(what: str, number: int) -> str:
    """Return the name of a lane of the host's."""
    return f"{what} +{number}" if number else what


class RowBook:
    """Every row that has been seen, numbered from 0 in the order seen. Numbers stay."""

    def __init__(self) -> None:
        self.rows: list[TimelineRow] = []
        self._numbers: dict[TimelineRow, int] = {}

    def of_streams(self, device: Column, stream: Column, kind: Column) -> Column:
        """Return the number of each record's row among the streams."""
        return self._find(device, stream, IS_BESIDE[kind].astype(np.int64), (STREAM, BESIDE))

    def of_engines(self, device: Column, engine: Column, kind: Column) -> Column:
        """Return the number of each record's row among the engines, NO_ROW where none served it."""
        found = np.full(len(device), NO_ROW, np.int32)
        served = np.flatnonzero(IS_SERVED[kind] & (engine >= 0) & (device >= 0))
        copies = IS_MOVE[kind[served]]
        found[served] = self._find(device[served], engine[served], (~copies).astype(np.int64), (COPY_ENGINE, CLUSTER))
        return found

    def _find(self, device: Column, number: Column, which: Column, meaning: tuple[int, int]) -> Column:
        code = (device.astype(np.int64) + 1 << 34) + (number.astype(np.int64) + 1 << 1) + which  # both begin at -1
        different, place = np.unique(code, return_inverse=True)
        numbers = np.empty(len(different), np.int32)
        for at, value in enumerate(different.tolist()):
            what = meaning[value & 1]
            section = max(what, BESIDE)  # the host's calls stand below their stream
            row = TimelineRow((value >> 34) - 1, section, (value % (1 << 34) >> 1) - 1, what)
            if row not in self._numbers:
                self._numbers[row] = len(self.rows)
                self.rows.append(row)
            numbers[at] = self._numbers[row]
        return numbers[place]


MOST_SHAPES: Final = 12_000  # drawn one by one; the longest ones, where there are more
MOST_CELLS: Final = 1 << 20  # counted in a table; more are sorted first
SPARSE: Final = 8  # cells for each shape: where there are more, most of a table would be empty
GATHERED: Final = -1
FIELDS: Final = ("row", "start", "end", "kind", "failed", "count", "time", "index")


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """Shapes as columns: their row, start and end in nanoseconds, kind, whether one failed, and for how many records.

    `time` is how long these ran together. `index` is the number of the record where it is a single one, else GATHERED.
    """

    row: Column
    start: Column
    end: Column
    kind: Column
    failed: Column
    count: Column
    time: Column
    index: Column

    def take(self, chosen: Column) -> Shapes:
        """Return the shapes at indices, or where a mask is true."""
        return Shapes(*(getattr(self, field)[chosen] for field in FIELDS))

    def __len__(self) -> int:
        return len(self.row)


def join(parts: list[Shapes]) -> Shapes:
    """Return all the shapes of the parts, in their order."""
    return Shapes(*(np.concatenate([getattr(part, field) for part in parts]) for field in FIELDS))


def gather(
    shapes: Shapes, axis: TimeAxis, window: tuple[int, int], width: int, keep: Column, most: int = MOST_SHAPES
) -> Shapes:
    """Return the shapes as they look when `window`, in nanoseconds, is `width` pixels wide on an axis.

    Those at least two pixels wide stay, at most `most` of them, the longest; so do those whose `index` is in `keep`.
    The others are gathered: neighbouring pixels of a row that look alike are one shape.
    """
    first, last = axis.place(window[0]), axis.place(window[1])
    scale = width / (last - first)
    left = np.clip((axis.place(shapes.start) - first) * scale, 0, width - 1).astype(np.int32)
    right = np.clip((axis.place(shapes.end) - first) * scale, 0, width).astype(np.int32)
    kept = np.isin(shapes.index, keep) if len(keep) else np.zeros(len(shapes), bool)
    wide = np.flatnonzero((right - left >= 2) & ~kept)
    if len(wide) > most:
        length = shapes.end[wide] - shapes.start[wide]
        wide = wide[np.argpartition(length, len(length) - most)[len(length) - most :]]
    own = kept
    own[wide] = True
    if own.all():
        return shapes
    rest = np.flatnonzero(~own)
    return join([shapes.take(np.flatnonzero(own)), _runs(shapes.take(rest), left[rest], axis, window, width)])


def _runs(shapes: Shapes, left: Column, axis: TimeAxis, window: tuple[int, int], width: int) -> Shapes:
    """Return one shape for each run of neighbouring pixels that look alike: of one row, main kind and failedness."""
    cell = shapes.row.astype(np.int64) * width + left
    present = np.flatnonzero(np.bincount(shapes.kind, minlength=PROGRAM_WAITS + 1))
    most = int(cell.max()) + 1
    known = None
    if most * len(present) > min(MOST_CELLS, SPARSE * len(cell)):
        known, cell = np.unique(cell, return_inverse=True)
        most = len(known)
    place = np.zeros(256, np.int64)
    place[present] = np.arange(len(present))
    key = cell * len(present) + place[shapes.kind]
    count, time = (
        np.bincount(key, weights, minlength=most * len(present)).reshape(most, -1)
        for weights in (shapes.count, shapes.time)
    )
    failed = np.bincount(cell, shapes.failed, minlength=most)
    last = np.zeros(most, np.int64)
    last[cell] = np.arange(len(cell))
    cells = np.flatnonzero(count.sum(1))
    broken = failed[cells] > 0
    main = present[np.argmax(time[cells] + count[cells] * 1e-6, axis=1)]
    pixels = cells if known is None else known[cells]
    first, number = _alike(pixels, main * 2 + broken, width)
    begin = pixels[first]
    pixel = (axis.place(window[1]) - (origin := axis.place(window[0]))) / width
    total = np.add.reduceat(count[cells].sum(1), first).astype(np.int64)
    alone = total == 1
    member = last[cells[first]]
    start = axis.moment(origin + (begin % width) * pixel)
    end = axis.moment(origin + (begin % width + number) * pixel)
    return Shapes(
        row=(begin // width).astype(np.int32),
        start=np.where(alone, shapes.start[member], start),
        end=np.where(alone, shapes.end[member], end),
        kind=main[first].astype(np.uint8),
        failed=broken[first],
        count=total,
        time=np.add.reduceat(time[cells].sum(1), first),
        index=np.where(alone, shapes.index[member], GATHERED),
    )


def _alike(pixels: Column, look: Column, width: int) -> tuple[Column, Column]:
    """Return where runs of neighbouring pixels of one row and one look begin, and how many pixels they have."""
    breaks = (np.diff(pixels) != 1) | (np.diff(look) != 0) | (np.diff(pixels // width) != 0)
    first = np.flatnonzero(np.concatenate([[True], breaks]))
    return first, np.diff(np.concatenate([first, [len(pixels)]]))


CHUNK: Final = 8192  # records
PART: Final = 512  # records of a part of the newest chunk, at least; what is newer is made anew for each picture
PER_CELL: Final = 8  # records for each cell in time that a chunk is gathered into at first
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
        cells = max(1, len(shapes) // PER_CELL)
        self._finest = max(0, int((self.last - self.first) / cells).bit_length())  # cells of 2 ** this ns
        self._levels: dict[int, Shapes] = {}

    def at(self, pixel_ns: float) -> Shapes:
        """Return what is fine enough for pixels of `pixel_ns`: the shapes, or the same in cells of half that."""
        level = int(pixel_ns / 2).bit_length() - 1
        if level < self._finest or len(self.shapes) < PART:
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
        window = begin, begin + (cells << level)
        return gather(shapes, TimeAxis(*window), window, cells, NOTHING)


class Pyramid:
    """All chunks of a table of records, and the rows they are on."""

    def __init__(self, book: RowBook | None = None) -> None:
        self.book = RowBook() if book is None else book
        self._full: list[Chunk] = []
        self._parts: list[Chunk] = []  # of the newest chunk
        self._open: Chunk | None = None
        self._taken = self._parted = 0  # number of the first record that is in no full chunk, and in no full part
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
            self._parts.clear()
        self._parted = max(self._parted, self._taken)
        if end - self._parted >= PART:
            self._parts.append(self._chunk(records, self._parted, end))
            self._parted = end
        self._open = self._chunk(records, self._parted, end) if end > self._parted else None

    def view(
        self, axis: TimeAxis, window: tuple[int, int], width: int, keep: Column, rows: Column
    ) -> tuple[Shapes | None, int]:
        """Return the shapes to draw, None for none, and how many records are in the window.

        `keep` are numbers of records to be drawn on their own; `rows` tells for each row of the book where it is drawn,
        below 0 where it is not.
        """
        pixel = float(axis.place(window[1]) - axis.place(window[0])) / width
        parts: list[Shapes] = []
        for chunk in [*self._full, *self._parts, *([self._open] if self._open else [])]:
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
        visible = replace(everything, row=drawn).take(np.flatnonzero(drawn >= 0))
        return (gather(visible, axis, window, width, keep), count) if len(visible) else (None, count)

    def _kept(self, chunk: Chunk, shapes: Shapes, keep: Column) -> list[Shapes]:
        """Return the shapes of the chunk that must be drawn on their own and were gathered."""
        if shapes is chunk.shapes or not len(keep):
            return []
        own = chunk.shapes.take(np.flatnonzero(np.isin(chunk.shapes.index, keep)))
        own = own.take(np.flatnonzero(~np.isin(own.index, shapes.index)))
        return [replace(own, count=0 * own.count)]

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
        return Chunk(join([own, replace(own.take(served), row=engine[served])]), end)
