"""Trace records and details as numpy columns, and the ranges of memory that commands were given.

Columns grow to a bound; then they lose their oldest part and count it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from struct import Struct
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from atops.base.trace.records import WAITS, Change, Kind, Phase, Status, ThreadState, TraceRecord
from atops.trace.words import format_bytes

__all__ = ("CHANGES", "MOMENTS", "RECORDS", "STEPS", "USES", "Column", "Columns", "Ranges", "Texts", "plural", "union")

Column: TypeAlias = NDArray[Any]
Row = TypeVar("Row")

RECORDS: Final[Mapping[str, str]] = {
    "seq": "i8", "kind": "u1", "device": "i2", "stream": "i4", "submitted_ns": "i8", "started_ns": "i8",
    "finished_ns": "i8", "status": "u1", "bytes": "i8", "dst_device": "i2", "dst_offset": "i8", "src_device": "i2",
    "src_offset": "i8", "correlation": "i8", "name": "i4", "engine": "i2",
}  # fmt: skip
MOMENTS: Final[Mapping[str, str]] = {
    "at_ns": "i8", "seq": "i8", "phase": "u1", "kind": "u1", "device": "i2", "stream": "i4", "cause": "i8",
    "bytes": "i8", "name": "i4", "site": "i4", "on_device": "i2", "on_offset": "i8",
}  # fmt: skip
CHANGES: Final[Mapping[str, str]] = {
    "at_ns": "i8", "device": "i2", "offset": "i8", "size": "i8", "bank": "i2", "change": "u1", "generation": "i8",
    "used_bytes": "i8", "site": "i4", "stream": "i4",
}  # fmt: skip
STEPS: Final[Mapping[str, str]] = {
    "at_ns": "i8", "launch": "i8", "block": "i4", "thread": "i4", "turn": "u1", "on": "i4", "site": "i4",
    "l1_bytes": "i8", "l2_bytes": "i8", "cluster": "i2",
}  # fmt: skip
USES: Final[Mapping[str, str]] = {"seq": "i8", "device": "i2", "offset": "i8", "size": "i8"}

MEANINGS: Final[Mapping[str, Sequence[object]]] = {
    "kind": list(Kind), "status": list(Status), "phase": list(Phase), "change": list(Change), "turn": list(ThreadState),
}  # fmt: skip
SMALLEST: Final = 1024  # rows that a table begins with
EVERYTHING: Final = slice(None)
IS_WAIT: Final = np.isin(np.arange(256), list(WAITS))  # by kind


def plural(count: int, what: str) -> str:
    """Return a count and what is counted: "1 command", "2,000 commands"."""
    return f"{count:,} {what}{'s' * (count != 1)}"


class Texts:
    """Strings and the numbers that stand for them in columns. 0 is the empty string."""

    def __init__(self) -> None:
        self.all: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}

    def number(self, text: str) -> int:
        """Return the number of a string; the same for the same string."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.all)
            self.all.append(text)
        return number


class Columns:
    """Rows of integers, held as one numpy array for each field. `columns["seq"]` is a view of the rows held now.

    `start` is how many rows were dropped: the row at index i is the one numbered `start + i` since the beginning. A
    view stays as it is while the table goes on; take views anew after each `extend`.
    """

    def __init__(self, fields: Mapping[str, str], capacity: int, texts: Texts) -> None:
        self.fields = fields
        self.capacity = capacity
        self.texts = texts
        self.start = 0
        self._row = Struct(f"{len(fields)}q")
        self._first = self._end = 0
        self._arrays = {field: np.empty(min(SMALLEST, 2 * capacity), kind) for field, kind in fields.items()}

    def extend(self, rows: Sequence[Sequence[object]]) -> None:
        """Append rows with values in the order of the fields; a name becomes its number. Drop what is too much."""
        if not rows:
            return
        columns: dict[str, Any] = dict(zip(self.fields, zip(*rows, strict=True), strict=True))
        if "name" in columns:
            columns["name"] = map(self.texts.number, columns["name"])
        kinds = self.fields.items()
        self.extend_columns({field: np.fromiter(columns[field], kind, len(rows)) for field, kind in kinds})

    def extend_tuples(self, rows: Sequence[tuple[int, ...]], names: Column) -> None:
        """Append rows of integers in the order of the fields; `names` tells which text each number of a name means."""
        packed = b"".join(starmap(self._row.pack, rows))  # in half the time that numpy takes
        columns = dict(zip(self.fields, np.frombuffer(packed, np.int64).reshape(len(rows), -1).T, strict=True))
        if "name" in columns:
            columns["name"] = names[columns["name"]]
        self.extend_columns(columns)

    def extend_columns(self, columns: Mapping[str, Column]) -> None:
        """Append rows given as whole columns, all of one length, names as numbers; a field left out is -1."""
        count = len(next(iter(columns.values())))
        excess = max(0, count - self.capacity)
        self.start += excess
        count -= excess
        self._make_room(count)
        for field, array in self._arrays.items():
            values = columns.get(field)
            array[self._end : self._end + count] = -1 if values is None else values[excess:]
        self._end += count
        overfull = max(0, len(self) - self.capacity)
        self._first += overfull
        self.start += overfull

    def since(self, number: int) -> slice:
        """Return the part of the rows held that begins at the row of a number."""
        return slice(max(0, number - self.start), None)

    def record(self, index: int) -> TraceRecord:
        """Return the row at an index as a `TraceRecord`. For tables of RECORDS only."""
        return self.values(TraceRecord, [index])[0]

    def values(self, kind: type[Row], indices: Column | list[int] | slice = EVERYTHING) -> list[Row]:
        """Return rows as the values that the table is of, with the fields of `kind`: those at `indices`, or all."""
        columns: list[Any] = [self[field][indices].tolist() for field in self.fields]
        for place, field in enumerate(self.fields):
            meanings = self.texts.all if field == "name" else MEANINGS.get(field)
            if meanings is not None:
                columns[place] = [meanings[number] for number in columns[place]]
        return [kind(*values) for values in zip(*columns, strict=True)]

    def _make_room(self, count: int) -> None:
        """Make `count` free rows at the end: move the rows held to the front, or to arrays of twice the size."""
        size = len(next(iter(self._arrays.values())))
        if self._end + count <= size:
            return
        held = len(self)
        fits = held + count <= size // 2
        for field, array in self._arrays.items():
            target = array.copy() if fits else np.empty(2 * (held + count), array.dtype)  # views keep the old array
            target[:held] = array[self._first : self._end]
            self._arrays[field] = target
        self._first, self._end = 0, held

    def __getitem__(self, field: str) -> Column:
        return self._arrays[field][self._first : self._end]

    def __len__(self) -> int:
        return self._end - self._first

    def __repr__(self) -> str:
        return f"<Columns {len(self)} rows of {', '.join(self.fields)}; {self.start} dropped>"


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges that commands were given, a row each: seq of a command, device, first byte, byte after the last."""

    seq: Column
    device: Column
    start: Column
    stop: Column

    @classmethod
    def of(cls, uses: Columns, seq: int) -> Ranges:
        """Return what a command was given; nothing of -1."""
        return cls.among(uses, np.flatnonzero((uses["seq"] == seq) & (seq >= 0)))

    @classmethod
    def among(cls, uses: Columns, rows: Column) -> Ranges:
        """Return what rows tell, by seq, device and address; a viewer that came late may have been told twice."""
        if not len(rows):
            return cls(*np.zeros((4, 0), np.int64))
        table = np.stack([uses[field][rows].astype(np.int64) for field in USES], 1)
        seq, device, start, size = np.unique(table, axis=0).T
        return cls(seq, device, start, start + size)

    @property
    def nbytes(self) -> int:
        """The number of bytes in them; bytes in several count once."""
        parts = (self.device == device for device in np.unique(self.device).tolist())
        return sum(union(self.start[part], self.stop[part]) for part in parts)

    def places(self) -> list[tuple[int, int, int]]:
        """Return device, start and stop of each."""
        return list(zip(self.device.tolist(), self.start.tolist(), self.stop.tolist(), strict=True))

    def brief(self) -> str:
        """Return what a sentence says of those of one command, "uses 3 ranges, 1.5 MiB"; empty where there are none."""
        count = len(self.seq)
        return f"uses {plural(count, 'range')}, {format_bytes(self.nbytes)}" if count else ""


def union(starts: Column, ends: Column) -> int:
    """Return the length of the union of ranges: bytes of memory, or nanoseconds, that at least one of them covers."""
    if len(starts) == 0:
        return 0
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    gaps = np.maximum(0, starts[1:] - reach[:-1])
    return int(reach[-1] - starts[0] - gaps.sum())
