"""The life of every command of every stream as columns: when it was enqueued, when it ended and how, by its seq.

Filled from moments and records in whatever order they come; what was told before changes nothing. It knows no picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from atops.base.trace.records import Kind
from atops_widgets.feed.columns import Column, Columns
from atops_widgets.feed.feed import CAPACITY

__all__ = ("NEVER", "NEWEST", "Ledger")

NEVER: Final = int(np.iinfo(np.int64).max)
NEWEST: Final = NEVER - 1  # the moment at which all that was told has happened
FIELDS: Final[Mapping[str, tuple[str, int]]] = {  # what each column holds, and what stands there at first
    "seq": ("i8", -1), "submitted": ("i8", NEVER), "started": ("i8", NEVER), "ended": ("i8", NEVER),
    "where": ("i4", -1), "kind": ("u1", 0), "status": ("u1", 0), "bytes": ("i8", 0), "name": ("i4", 0),
    "correlation": ("i8", -1), "on_device": ("i2", -1), "on_offset": ("i8", -1), "site": ("i4", -1),
}  # fmt: skip


class Ledger:
    """Commands of streams in the order of their seqs. `ledger["ended"]` is a view of the commands held now.

    - `streams`: (device, stream) by the number that stands in the column `where`.
    - `ended` and `started` are NEVER until a record told them; `started` is the record's.
    - `detailed_ns`: since when moments were told; NEVER without them.

    More than twice `capacity` commands are not held: then the oldest that are over go.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.streams: list[tuple[int, int]] = []
        self.detailed_ns = NEVER
        self._order = np.zeros(0, np.int64)
        self._numbers: dict[tuple[int, int], int] = {}
        self._count = self._moments_read = self._records_read = 0
        self._arrays = {field: np.empty(1024, kind) for field, (kind, _) in FIELDS.items()}

    def update(self, moments: Columns, records: Columns) -> None:
        """Take what these tables hold beyond what was taken before."""
        fresh = slice(max(0, self._moments_read - moments.start), None)
        self._moments_read = moments.start + len(moments)
        self._take_moments({field: moments[field][fresh] for field in moments.fields})
        fresh = slice(max(0, self._records_read - records.start), None)
        self._records_read = records.start + len(records)
        self._take_records({field: records[field][fresh] for field in records.fields})
        if self._count > 2 * self.capacity:
            self._forget()

    def slots(self, seqs: Column) -> Column:
        """Return where each of these commands stands; -1 of one that is not held."""
        if not self._count:
            return np.full(len(seqs), -1)
        place = np.minimum(np.searchsorted(self["seq"], seqs), self._count - 1)
        return np.where(self["seq"][place] == seqs, place, -1)

    def order(self) -> Column:
        """Return the numbers of all streams in the order of devices and streams."""
        if len(self._order) != len(self.streams):
            self._order = np.array(sorted(range(len(self.streams)), key=self.streams.__getitem__), np.int64)
        return self._order

    def _take_moments(self, rows: Mapping[str, Column]) -> None:
        rows = _of_streams(rows)
        if not len(rows["seq"]):
            return
        self.detailed_ns = min(self.detailed_ns, int(rows["at_ns"].min()))
        at = self._places(rows)
        np.minimum.at(self["submitted"], at, rows["at_ns"])  # of any phase: its enqueuing may have been missed
        for field in ("kind", "bytes", "name"):
            self[field][at] = rows[field]
        told = rows["site"] >= 0
        self["site"][at[told]] = rows["site"][told]
        word = rows["on_device"] >= 0
        for field in ("on_device", "on_offset"):
            self[field][at[word]] = rows[field][word]

    def _take_records(self, rows: Mapping[str, Column]) -> None:
        rows = _of_streams(rows)
        if not len(rows["seq"]):
            return
        at = self._places(rows)
        begun = np.minimum(rows["started_ns"], rows["finished_ns"])
        enqueued = np.where(rows["submitted_ns"] > 0, np.minimum(rows["submitted_ns"], begun), begun)
        np.minimum.at(self["submitted"], at, enqueued)
        np.minimum.at(self["started"], at, begun)
        self["ended"][at] = rows["finished_ns"]
        for field in ("kind", "status", "bytes", "name", "correlation"):
            self[field][at] = rows[field]
        word = rows["kind"] == Kind.WAIT_VALUE
        self["on_device"][at[word]], self["on_offset"][at[word]] = rows["src_device"][word], rows["src_offset"][word]

    def _places(self, rows: Mapping[str, Column]) -> Column:
        """Return where each row's command stands; make places for new ones, and note their streams."""
        different, first, inverse = np.unique(rows["seq"], return_index=True, return_inverse=True)
        fresh = self.slots(different) < 0
        if fresh.any():
            where = self._wheres(rows["device"][first[fresh]], rows["stream"][first[fresh]])
            self._insert(different[fresh], where)
        return np.searchsorted(self["seq"], different)[inverse]

    def _wheres(self, device: Column, stream: Column) -> Column:
        """Return the number of each (device, stream)."""
        codes, inverse = np.unique((device.astype(np.int64) << 32) + stream, return_inverse=True)
        found = np.empty(len(codes), np.int32)
        for place, code in enumerate(codes.tolist()):
            key = code >> 32, code & 0xFFFFFFFF
            if key not in self._numbers:
                self._numbers[key] = len(self.streams)
                self.streams.append(key)
            found[place] = self._numbers[key]
        return found[inverse]

    def _insert(self, seqs: Column, where: Column) -> None:
        """Make places for commands that are not held, given in order; most are newer than all that are."""
        count, more = self._count, len(seqs)
        if count + more > len(self._arrays["seq"]):
            self._arrays = {field: _grown(old[:count], 2 * (count + more)) for field, old in self._arrays.items()}
        begin = int(np.searchsorted(self["seq"], seqs[0]))
        order = np.argsort(np.concatenate([self["seq"][begin:], seqs]), kind="stable")
        values = {field: np.full(more, default, kind) for field, (kind, default) in FIELDS.items()}
        values |= {"seq": seqs, "where": where}
        for field, array in self._arrays.items():
            array[begin : count + more] = np.concatenate([array[begin:count], values[field]])[order]
        self._count += more

    def _forget(self) -> None:
        """Keep the newest commands and those that are not over."""
        kept = self["ended"] == NEVER
        kept[-self.capacity :] = True
        for field, array in self._arrays.items():
            self._arrays[field] = _grown(array[: self._count][kept], 3 * self.capacity)
        self._count = int(kept.sum())

    def __getitem__(self, field: str) -> Column:
        return self._arrays[field][: self._count]

    def __len__(self) -> int:
        return self._count


def _of_streams(rows: Mapping[str, Column]) -> Mapping[str, Column]:
    """Return the rows of commands that stood in a stream: no calls of the API, nothing outside of streams."""
    own = (rows["stream"] >= 0) & (rows["device"] >= 0) & (rows["kind"] != Kind.API) & (rows["seq"] >= 0)
    return rows if own.all() else {field: values[own] for field, values in rows.items()}


def _grown(values: Column, size: int) -> Column:
    grown = np.empty(max(size, len(values)), values.dtype)
    grown[: len(values)] = values
    return grown
