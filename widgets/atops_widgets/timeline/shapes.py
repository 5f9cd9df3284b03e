"""Records as shapes on rows: what is wide enough is drawn on its own, what is not is gathered in cells of time.

Pure numpy: the same shapes and the same window give the same answer. Nothing is left out: a gathered run tells how many
records it stands for, what most of its time was, and whether one of them failed. Cells are 2 ** level nanoseconds long
and begin at multiples of that, whatever the window is. So each chunk of a table is gathered once for each level, a
picture is what its chunks have, and what was drawn stays as it is while more comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import gt
from typing import Final

import numpy as np

from atops.base.trace.records import MOVES, Kind, Status, TraceNames
from atops_widgets.feed.axis import TimeAxis
from atops_widgets.feed.columns import Column, Columns
from atops_widgets.feed.host import PROGRAM_WAITS, WAIT_LANES

__all__ = ("NO_ROW", "Chunk", "Pyramid", "RowBook", "Shapes", "TimelineRow", "gather", "join", "starts")

NO_ROW: Final = -1
NO_CODE: Final = 1 << 62
STREAM, BESIDE, COPY_ENGINE, CLUSTER = range(4)
DONE: Final = int(Status.DONE)  # numpy takes five times as long to compare a column with a member of an enumeration
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
    def counted(self) -> bool:
        """True for a row of a stream, or of calls beside it: of what a device did, each record is on one of these."""
        return not self.engine and not self.hosts

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
    """Every row that has been seen, numbered from 0 in the order seen. Numbers stay.

    `counted` and `hosts` are columns of what `TimelineRow` says of each.
    """

    def __init__(self) -> None:
        self.rows: list[TimelineRow] = []
        self.counted = self.hosts = np.zeros(0, bool)
        self._codes = np.full(1, NO_CODE)  # of the rows, in order; the last one is of none
        self._numbers = np.full(1, NO_ROW, np.int32)  # of the row of each code

    def of_streams(self, device: Column, stream: Column, kind: Column) -> Column:
        """Return the number of each record's row among the streams."""
        return self._find(device, stream, IS_BESIDE[kind])

    def of_engines(self, device: Column, engine: Column, kind: Column) -> Column:
        """Return the number of each record's row among the engines, NO_ROW where none served it."""
        found = np.full(len(device), NO_ROW, np.int32)
        served = np.flatnonzero(IS_SERVED[kind] & (engine >= 0) & (device >= 0))
        if len(served):
            found[served] = self._find(device[served], engine[served], COPY_ENGINE + ~IS_MOVE[kind[served]])
        return found

    def _find(self, device: Column, number: Column, what: Column) -> Column:
        code = (device.astype(np.int64) + 1 << 35) + (number.astype(np.int64) + 1 << 2) + what  # both begin at -1
        place = np.searchsorted(self._codes, code)
        if (self._codes[place] != code).any():
            self._learn(np.setdiff1d(code, self._codes))
            place = np.searchsorted(self._codes, code)
        return self._numbers[place]

    def _learn(self, codes: Column) -> None:
        """Number the rows of codes that are new."""
        numbers = np.arange(len(self.rows), len(self.rows) + len(codes))
        for code in codes.tolist():
            what = code & 3
            section = max(what, BESIDE)  # the host's calls stand below their stream
            self.rows.append(TimelineRow((code >> 35) - 1, section, (code % (1 << 35) >> 2) - 1, what))
        self.counted = np.array([row.counted for row in self.rows])
        self.hosts = np.array([row.hosts for row in self.rows])
        place = np.searchsorted(self._codes, codes)
        self._codes = np.insert(self._codes, place, codes)
        self._numbers = np.insert(self._numbers, place, numbers)


MOST_SHAPES: Final = 16_000  # where there would be more, cells are coarser
MOST_CELLS: Final = 1 << 20  # counted in a table; more are sorted first
SPARSE: Final = 8  # cells for each shape: where there are more, most of a table would be empty
GATHERED: Final = -1
RAW: Final = -1  # the level at which nothing is gathered
FIELDS: Final = ("row", "start", "end", "kind", "failed", "count", "time", "index")
ROW, START, END, KIND, FAILED, COUNT, TIME, INDEX = range(len(FIELDS))


class Shapes:
    """Shapes as columns: their row, start and end in nanoseconds, kind, whether one failed, and for how many records.

    `time` is how long these ran together. `index` is the number of the record where it is a single one, else GATHERED.
    All are rows of one `table` of integers: what is done with shapes is done once, not for each of their columns.
    """

    __slots__ = ("table", *FIELDS)

    def __init__(self, table: Column) -> None:
        self.table = table
        self.row, self.start, self.end, self.kind, self.failed, self.count, self.time, self.index = table

    @classmethod
    def of(cls, row: Column, *rest: Column | int) -> Shapes:
        """Return shapes of columns, in the order of FIELDS; a number stands for a whole column."""
        table = np.empty((len(FIELDS), len(row)), np.int64)
        for place, column in enumerate((row, *rest)):
            table[place] = column
        return cls(table)

    def take(self, chosen: Column) -> Shapes:
        """Return the shapes at indices."""
        return Shapes(self.table.take(chosen, 1))

    def on(self, rows: Column) -> Shapes:
        """Put these shapes, which nothing else holds, on other rows; return them."""
        self.table[ROW] = rows
        return self

    def __len__(self) -> int:
        return len(self.row)


def join(parts: list[Shapes]) -> Shapes:
    """Return all the shapes of the parts, in their order."""
    return Shapes(np.concatenate([part.table for part in parts], 1)) if len(parts) > 1 else parts[0]


def gather(shapes: Shapes, level: int) -> Shapes:
    """Return the shapes as they look in cells of 2 ** `level` nanoseconds, which begin at multiples of that.

    Those that reach over two cells stay. The others are gathered: neighbouring cells of a row that look alike are one
    shape.
    """
    left = shapes.start >> level
    wide = (shapes.end >> level) - left >= 2
    if wide.all():
        return shapes
    rest = np.flatnonzero(~wide)
    return join([shapes.take(np.flatnonzero(wide)), _runs(shapes.take(rest), left[rest], level)])


def _runs(shapes: Shapes, left: Column, level: int) -> Shapes:
    """Return one shape for each run of neighbouring cells that look alike: of one row, main kind and failedness."""
    origin = int(left.min())
    width = int(left.max()) + 1 - origin
    cell = shapes.row * width + (left - origin)
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
    total = np.add.reduceat(count[cells].sum(1), first).astype(np.int64)
    alone = total == 1
    member = last[cells[first]]
    start = begin % width + origin
    single = shapes.table.take(member, 1)
    return Shapes.of(
        begin // width,
        np.where(alone, single[START], start << level), np.where(alone, single[END], start + number << level),
        main[first], broken[first], total,
        np.add.reduceat(time[cells].sum(1), first),
        np.where(alone, single[INDEX], GATHERED),
    )  # fmt: skip


def _alike(cells: Column, look: Column, width: int) -> tuple[Column, Column]:
    """Return where runs of neighbouring cells of one row and one look begin, and how many cells they have."""
    breaks = (np.diff(cells) != 1) | (np.diff(look) != 0) | (np.diff(cells // width) != 0)
    first = np.flatnonzero(np.concatenate([[True], breaks]))
    return first, np.diff(np.concatenate([first, [len(cells)]]))


def _merged(shapes: Shapes) -> Shapes:
    """Return shapes in which runs that look alike and touch are one: what stands alone first."""
    gathered = shapes.index == GATHERED
    runs = np.flatnonzero(gathered)
    if not len(runs):
        return shapes
    table = shapes.table.take(runs[np.lexsort((shapes.start[runs], shapes.row[runs]))], 1)
    look = (table[ROW] * len(IS_MOVE) + table[KIND]) * 2 + table[FAILED]
    breaks = (look[1:] != look[:-1]) | (table[START, 1:] > table[END, :-1])
    first = np.flatnonzero(np.concatenate([[True], breaks]))
    alike = table.take(first, 1)
    alike[END] = np.maximum.reduceat(table[END], first)
    alike[COUNT], alike[TIME] = (np.add.reduceat(table[field], first) for field in (COUNT, TIME))
    return join([shapes.take(np.flatnonzero(~gathered)), Shapes(alike)])


def _followed(shapes: Shapes, more: Shapes) -> Shapes:
    """Return shapes, which are merged, and later ones behind them: only runs that reach to these can go on there."""
    touch = (shapes.index == GATHERED) & (shapes.end >= more.start.min())
    return join([
        shapes.take(np.flatnonzero(~touch)), _merged(join([shapes.take(np.flatnonzero(touch)), more])),
    ])  # fmt: skip


CHUNK: Final = 8192  # records
PART: Final = 256  # records of a part of the newest chunk, at least; what is newer is made anew for each picture
PER_CELL: Final = 8  # records for each cell in time that a chunk is gathered into at first


def starts(records: Columns, part: Column | slice = slice(None)) -> Column:
    """Return when each record began; what never began (skipped, aborted in the queue) is a point at its end."""
    return np.minimum(records["started_ns"][part], records["finished_ns"][part])


class Chunk:
    """Some records as shapes, on the rows of their streams and of their engines, and the same gathered."""

    def __init__(self, shapes: Shapes, ended: tuple[int, ...]) -> None:
        self.shapes = shapes
        self.ended = ended  # of each table, the number of the row after its last one
        self.first = int(shapes.start.min())
        self.last = int(shapes.end.max())
        cells = max(1, len(shapes) // PER_CELL)
        self._finest = max(0, int((self.last - self.first) / cells).bit_length())  # of what is kept
        self._levels = {RAW: shapes}

    def at(self, level: int) -> Shapes:
        """Return the shapes in cells of 2 ** `level` nanoseconds; as they are at RAW."""
        if level not in self._levels:
            finer = max(known for known in self._levels if known < level)
            full = len(self.shapes) >= CHUNK
            if finer == RAW and level > self._finest and full:
                self._levels[self._finest] = gather(self.shapes, finer := self._finest)
            found = gather(self._levels[finer], level)
            if level < self._finest and full:
                return found  # of the few chunks that one sees so near
            self._levels[level] = found
        return self._levels[level]

    def within(self, window: tuple[int, int], level: int) -> Shapes:
        """Return of these shapes those in a window."""
        shapes = self.at(level)
        if window[0] <= self.first and self.last <= window[1]:
            return shapes
        return shapes.take(np.flatnonzero((shapes.end >= window[0]) & (shapes.start <= window[1])))

    def kept(self, keep: Column, level: int) -> Shapes:
        """Return the shapes of the records numbered in `keep` that are gathered at a level."""
        own = self.shapes.take(np.flatnonzero(np.isin(self.shapes.index, keep)))
        return own.take(np.flatnonzero(~np.isin(own.index, self.at(level).index)))


class Pyramid:
    """All chunks of tables of records, and the rows they are on. What is added to the tables together is one chunk.

    The index of a shape counts from the `first` of its table.
    """

    def __init__(self, *first: int) -> None:
        self.book = RowBook()
        self._first = first or (0,)
        self._full: list[Chunk] = []
        self._parts: list[Chunk] = []  # of the newest chunk
        self._open: Chunk | None = None
        self._known: tuple[int, list[Chunk], Shapes | None] = RAW, [], None  # what was merged at a level, of which
        # Of each table, the number of the first row that is in no full chunk, and in no full part.
        self._taken = self._parted = tuple(0 for _ in self._first)
        self._seen: object = None

    def update(self, *tables: Columns) -> None:
        """Take the rows in that are new since the last time; always of the same tables."""
        starts, ends = tuple(each.start for each in tables), tuple(each.start + len(each) for each in tables)
        if self._seen == (starts, ends):
            return
        self._seen = starts, ends
        self._full, self._parts = (
            [chunk for chunk in chunks if any(map(gt, chunk.ended, starts))] for chunks in (self._full, self._parts)
        )
        self._taken, self._parted = tuple(map(max, self._taken, starts)), tuple(map(max, self._parted, starts))
        while sum(ends) - sum(self._parted) >= PART:
            upto = tuple(min(end, begin + CHUNK) for begin, end in zip(self._parted, ends, strict=True))
            self._parts.append(self._chunk(tables, upto))
            self._parted = upto
            if sum(upto) - sum(self._taken) >= CHUNK:
                self._full.append(Chunk(join([part.shapes for part in self._parts]), upto))
                self._taken = upto
                self._parts.clear()
        self._open = self._chunk(tables, ends) if self._parted != ends else None

    def view(
        self, axis: TimeAxis, window: tuple[int, int], width: int, keep: Column, rows: Column
    ) -> tuple[Shapes | None, int]:
        """Return the shapes to draw, None for none, and how many records of devices are in the window.

        What is shorter than a pixel is gathered in cells of half to one. `keep` are indices of what is to be drawn on
        its own; `rows` tells for each row of the book where it is drawn, below 0 where it is not. Those of the host
        come first: so they are drawn and stepped through.
        """
        every = [*self._full, *self._parts, *([self._open] if self._open else [])]
        chunks = [chunk for chunk in every if chunk.first <= window[1] and chunk.last >= window[0]]
        if not chunks:
            return None, 0
        level = int((axis.place(window[1]) - axis.place(window[0])) / width).bit_length() - 1
        shapes = self._within(chunks, window, level)
        while len(shapes) > MOST_SHAPES:
            level += 1
            shapes = self._within(chunks, window, level)
        count = int(shapes.count[self.book.counted[shapes.row]].sum())
        if len(keep) and level != RAW:
            shapes = join([shapes, *(chunk.kept(keep, level) for chunk in chunks)])
        drawn, hosts = rows[shapes.row], self.book.hosts[shapes.row]
        visible = drawn >= 0
        order = np.concatenate([np.flatnonzero(visible & hosts), np.flatnonzero(visible & ~hosts)])
        return (shapes.take(order).on(drawn[order]), count) if len(order) else (None, count)

    def _within(self, chunks: list[Chunk], window: tuple[int, int], level: int) -> Shapes:
        """Return the shapes of chunks in a window. Of those that are all in it, what was merged before is kept."""
        if not all(window[0] <= chunk.first and chunk.last <= window[1] for chunk in chunks):
            return _merged(join([chunk.within(window, level) for chunk in chunks]))
        closed = [chunk for chunk in chunks if chunk is not self._open]
        known, merged, shapes = self._known
        if known != level or merged != closed[: len(merged)]:
            merged, shapes = [], None
        if fresh := [chunk.at(level) for chunk in closed[len(merged) :]]:
            more = join(fresh)
            shapes = _merged(more) if shapes is None else _followed(shapes, more)
        self._known = level, closed, shapes
        if self._open is None or len(closed) == len(chunks):
            assert shapes is not None
            return shapes
        newest = self._open.at(level)
        return newest if shapes is None else _followed(shapes, newest)

    def _chunk(self, tables: Sequence[Columns], upto: Sequence[int]) -> Chunk:
        """Return the rows of all tables from what is in parts up to some numbers."""
        parts = []
        for records, first, begin, end in zip(tables, self._first, self._parted, upto, strict=True):
            if end > begin:
                parts += self._shapes(records, slice(begin - records.start, end - records.start), first + begin)
        return Chunk(join(parts), tuple(upto))

    def _shapes(self, records: Columns, part: slice, first: int) -> list[Shapes]:
        """Return some rows of a table on the rows of their streams, and those that an engine served on its row."""
        device, kind = records["device"][part], records["kind"][part]
        start, finished = starts(records, part), records["finished_ns"][part]
        own = Shapes.of(
            self.book.of_streams(device, records["stream"][part], kind), start, finished, kind,
            records["status"][part] != DONE, 1, finished - start, np.arange(first, first + len(kind)),
        )  # fmt: skip
        engine = self.book.of_engines(device, records["engine"][part], kind)
        served = np.flatnonzero(engine >= 0)
        return [own, own.take(served).on(engine[served])] if len(served) else [own]
