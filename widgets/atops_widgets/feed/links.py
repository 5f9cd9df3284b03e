"""The waits between commands, read from records alone: the order of a stream, and waits with what satisfied them.

Events and value writes are followed, in both directions, to the work behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from atops.base.trace.records import WAITS, Kind, TraceNames
from atops.device.call_site import source_name
from atops_widgets.feed.columns import IS_WAIT, Column, Columns

if TYPE_CHECKING:
    from atops_widgets.feed.feed import Feed

__all__ = ("SYNCHRONISING", "Links", "SeqOrder", "line_of", "saved_links")

SYNCHRONISING: Final = frozenset({*WAITS, Kind.RECORD, Kind.WRITE_VALUE})
MOST: Final = 256  # commands marked in one direction; more would mark everything
NEAR: Final = 1024  # rows looked at first for a neighbour; then four times as many, and so on
SIDES: Final[tuple[Literal["left"], Literal["right"]]] = ("left", "right")


class Links:
    """The happens-before edges of the records in a table, as they were when this was made.

    What is looked for by seq or by cause is found in sorted columns, neighbours in a stream by looking around.
    """

    def __init__(self, records: Columns, order: SeqOrder | None = None) -> None:
        """Read the edges of a table; `order` is what is kept of it from one to the next."""
        self._seq = records["seq"]
        self._kind = records["kind"]
        self._device = records["device"]
        self._stream = records["stream"]
        self._correlation = records["correlation"]
        self._sorted, self._order = (order or SeqOrder()).of(records)
        self._satisfied: tuple[Column, Column] | None = None  # what satisfied waits, ascending, and the waits' rows

    def rows(self, seqs: Column) -> Column:
        """Return the index of the row of each seq, the last one of several parts; -1 where there is none."""
        if not len(self._sorted):
            return np.full(len(seqs), -1)
        place = np.searchsorted(self._sorted, seqs, side="right") - 1
        found = (place >= 0) & (self._sorted[place] == seqs)
        return np.where(found, self._order[place], -1)

    def row(self, seq: int) -> int:
        """Return the index of the row of a seq; -1 if there is none."""
        return int(self.rows(np.array([seq]))[0])

    def waited_for(self, seq: int) -> list[int]:
        """Return what had to be over before this command could run, the nearest first."""
        return self._walk(seq, self._before)

    def waiting(self, seq: int) -> list[int]:
        """Return what could run only after this command, the nearest first."""
        return self._walk(seq, self._after)

    def pairs(self, limit: int) -> tuple[Column, Column]:
        """Return every edge among the newest `limit` records, as two arrays of seqs: from, to."""
        rows = np.arange(max(0, len(self._seq) - limit), len(self._seq))
        rows = rows[(self._seq[rows] >= 0) & (self._kind[rows] != Kind.API)]
        order = rows[np.lexsort((self._seq[rows], self._stream[rows], self._device[rows]))]
        device, stream = self._device[order], self._stream[order]
        same = (np.diff(device) == 0) & (np.diff(stream) == 0) & (stream[1:] >= 0) & (np.diff(self._seq[order]) > 0)
        waits = rows[IS_WAIT[self._kind[rows]] & (self._correlation[rows] >= 0)]
        return (
            np.concatenate([self._seq[order][:-1][same], self._correlation[waits]]),
            np.concatenate([self._seq[order][1:][same], self._seq[waits]]),
        )

    def _walk(self, seq: int, step: Callable[[int], Iterable[int]]) -> list[int]:
        found: dict[int, None] = {}
        pending = [seq]
        while pending and len(found) < MOST:
            for other in step(pending.pop(0)):
                if other != seq and other not in found:
                    found[other] = None
                    row = self.row(other)
                    if row >= 0 and Kind(self._kind[row]) in SYNCHRONISING:
                        pending.append(other)
        return list(found)

    def _before(self, seq: int) -> list[int]:
        row = self.row(seq)
        if row < 0:
            return []
        found = self._neighbour(row, -1)
        if IS_WAIT[self._kind[row]] and self._correlation[row] >= 0:
            found.append(int(self._correlation[row]))
        return found

    def _after(self, seq: int) -> list[int]:
        row = self.row(seq)
        if row < 0:
            return []
        if self._satisfied is None:
            waits = np.flatnonzero(IS_WAIT[self._kind] & (self._correlation >= 0))
            waits = waits[_order(self._correlation[waits])]
            self._satisfied = self._correlation[waits], waits
        causes, waits = self._satisfied
        first, last = (int(np.searchsorted(causes, seq, side=side)) for side in SIDES)
        return self._neighbour(row, 1) + [int(other) for other in self._seq[waits[first : min(last, first + MOST)]]]

    def _neighbour(self, row: int, step: int) -> list[int]:
        """Return the seq before or after a row in its stream; nothing at the ends and outside of streams."""
        device, stream, seq = self._device[row], self._stream[row], self._seq[row]
        if stream < 0 or self._kind[row] == Kind.API:
            return []
        place, size = int(np.searchsorted(self._sorted, seq, side="right" if step > 0 else "left")), NEAR
        while place > 0 if step < 0 else place < len(self._order):
            part = slice(place, place + size) if step > 0 else slice(max(0, place - size), place)
            rows = self._order[part]
            own = (self._device[rows] == device) & (self._stream[rows] == stream) & (self._kind[rows] != Kind.API)
            if own.any():
                return [int(self._seq[rows[own][0 if step > 0 else -1]])]
            place, size = place + step * size, 4 * size
        return []


class SeqOrder:
    """The commands of a table in the order of their seqs; API calls have none. What was put in order is kept.

    Rows come in the order of ending, which is nearly that of the seqs: what is new is put in order with a few before.
    """

    def __init__(self) -> None:
        self._taken = 0
        self._table = np.zeros((2, 1024), np.int64)  # seqs in order, and the numbers of their rows since the beginning
        self._count = 0

    def of(self, records: Columns) -> tuple[Column, Column]:
        """Return the seqs of a table, which is always the same one, in order, and the index of the row of each."""
        part = records.since(self._taken)
        fresh = np.flatnonzero(records["seq"][part] >= 0) + part.start
        self._taken = records.start + len(records)
        if len(fresh):
            seqs = records["seq"][fresh]
            begin = int(np.searchsorted(self._table[0, : self._count], seqs.min()))
            tail = np.concatenate([self._table[:, begin : self._count], np.stack([seqs, fresh + records.start])], 1)
            self._put(begin, tail.take(np.argsort(tail[0], kind="stable"), 1))
        if self._count > 2 * len(records):
            self._put(0, self._table[:, np.flatnonzero(self._table[1, : self._count] >= records.start)])
        seqs, numbers = self._table[:, : self._count]
        if records.start:
            held = np.flatnonzero(numbers >= records.start)
            seqs, numbers = seqs[held], numbers[held]
        return seqs, numbers - records.start

    def _put(self, begin: int, rows: Column) -> None:
        """Write rows from a place on: they are the last ones."""
        self._count = begin + rows.shape[1]
        if self._count > self._table.shape[1]:
            self._table = np.concatenate([self._table[:, :begin], np.zeros((2, 2 * self._count - begin), np.int64)], 1)
        self._table[:, begin : self._count] = rows


def _order(values: Column) -> Column:
    """Return the order in which values ascend; equal ones as they stand."""
    if len(values) < 2 or bool((values[1:] >= values[:-1]).all()):
        return np.arange(len(values))
    return np.argsort(values, kind="stable")


LINKED: Final = 20_000  # records whose links and lines are kept, the newest


def saved_links(feed: Feed) -> tuple[dict[str, Column], list[str]]:
    """Return links and lines as columns, and the lines in words.

    `link_before` and `link_after` are the two ends of each edge, `link_through` what is stepped over to what lies
    behind; `link_site` is for each command in `link_seq` the index of its line.
    """
    before, after = feed.links().pairs(LINKED)
    records, moments = feed.records, feed.moments
    joined = feed.host.joined(records["seq"][-LINKED:], records["submitted_ns"][-LINKED:])
    before, after = np.concatenate([before, joined[0]]), np.concatenate([after, joined[1]])
    through = records["seq"][np.isin(records["kind"], list(SYNCHRONISING))][-LINKED:]
    told = np.flatnonzero(moments["site"] >= 0)[-LINKED:]
    sites, number = np.unique(moments["site"][told], return_inverse=True)
    columns = {
        "link_before": before, "link_after": after, "link_through": through,
        "link_seq": moments["seq"][told], "link_site": number.astype(np.int32),
    }  # fmt: skip
    return columns, [line_of(feed.names, site) for site in sites.tolist()]


def line_of(names: TraceNames, site: int) -> str:
    """Return a place of the program, "reduce.py:31 in main"; empty where it is not known."""
    place = names.sites.get(site)
    return f"{source_name(place.file)}:{place.line} in {place.function}" if place is not None else ""
