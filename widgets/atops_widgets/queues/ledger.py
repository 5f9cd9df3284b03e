"""The life of every command of every stream as columns, and what the streams hold at a moment.

Filled from moments and records in whatever order they come; a row that comes again changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from atops.base.trace.records import Kind, Phase, Status
from atops_widgets.feed.axis import TimeAxis
from atops_widgets.feed.columns import IS_WAIT, Column, Columns
from atops_widgets.feed.feed import CAPACITY

__all__ = (
    "NEVER", "NEWEST", "Held", "Ledger", "States", "Strip", "Token", "TokenState", "chosen_streams", "holding",
)  # fmt: skip

NEVER: Final = int(np.iinfo(np.int64).max)
NEWEST: Final = NEVER - 1  # the moment at which all that was told has happened
RAN: Final = np.isin(np.arange(256), (Status.DONE, Status.FAILED))  # by status
# As plain integers: numpy takes five times as long to compare a column with a member of an enumeration.
API, CALL, WAIT_VALUE, DONE = int(Kind.API), int(Kind.CALL), int(Kind.WAIT_VALUE), int(Status.DONE)
SUBMITTED, STARTED, PARKED = int(Phase.SUBMITTED), int(Phase.STARTED), int(Phase.PARKED)
FIELDS: Final[Mapping[str, tuple[str, int]]] = {  # what each column holds, and what stands there at first
    "seq": ("i8", -1), "submitted": ("i8", NEVER), "started": ("i8", NEVER), "ended": ("i8", NEVER),
    "where": ("i4", -1), "kind": ("u1", 0), "status": ("u1", 0), "bytes": ("i8", 0), "name": ("i4", 0),
    "correlation": ("i8", -1), "on_device": ("i2", -1), "on_offset": ("i8", -1), "site": ("i4", -1),
    "told": ("i8", -1),
}  # fmt: skip


class Ledger:
    """Commands of streams in the order of their seqs. `ledger["ended"]` is a view of the commands held now.

    - `streams`: (device, stream) by the number that stands in the column `where`.
    - `ended` and `started` are NEVER until a record told them; `started` is the record's.
    - `told`: the number of the newest moment that says it started or was parked, counted since the beginning.
    - `detailed_ns`: since when moments were told; NEVER without them.

    More than twice `capacity` commands are not held: then the oldest that are over go.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.streams: list[tuple[int, int]] = []
        self.detailed_ns = NEVER
        self._order = np.zeros(0, np.int64)
        self._codes = np.full(1, NEVER)  # of the streams, in order; the last one is of none
        self._numbers = np.full(1, -1, np.int32)  # of the stream of each code
        self._count = self._moments_read = self._records_read = 0
        self.moved = 0  # how often commands that were all over, and those behind them, got other places
        self._all_over = 0  # so many of the first commands are over
        self._over_of = np.zeros(0, np.int64)  # and so many of these were of each stream
        self._arrays = {field: np.full(1024, default, kind) for field, (kind, default) in FIELDS.items()}

    def update(self, moments: Columns, records: Columns) -> None:
        """Take what these tables hold beyond what was taken before."""
        fresh = moments.since(self._moments_read)
        self._moments_read = moments.start + len(moments)
        numbers = np.arange(fresh.start, len(moments)) + moments.start
        self._take_moments({**{field: moments[field][fresh] for field in moments.fields}, "told": numbers})
        fresh = records.since(self._records_read)
        self._records_read = records.start + len(records)
        self._take_records({field: records[field][fresh] for field in records.fields})
        if self._count > 2 * self.capacity:
            self._forget()

    def end_missed(self) -> None:
        """End what stands before a command of its stream that was done or failed: its own end was missed.

        Aborted and skipped commands do not count: they may end before those in front of them.
        """
        first, _ = self.all_over()
        ended, where = self["ended"][first:], self["where"][first:]
        going = ended == NEVER
        over, going = np.flatnonzero(RAN[self["status"][first:]] & ~going), np.flatnonzero(going)
        newest = np.full(len(self.streams), -1, np.int64)
        newest[where[over]] = over  # of several the last one counts
        missed = going[going < newest[where[going]]]
        missed = missed[self["kind"][first:][missed] != CALL]  # these may outlast what comes after them
        ended[missed] = ended[newest[where[missed]]]

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
        begun = rows["phase"] != SUBMITTED
        self["told"][at[begun]] = rows["told"][begun]
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
        word = rows["kind"] == WAIT_VALUE
        self["on_device"][at[word]], self["on_offset"][at[word]] = rows["src_device"][word], rows["src_offset"][word]

    def _places(self, rows: Mapping[str, Column]) -> Column:
        """Return where each row's command stands; make places for new ones, and note their streams."""
        at = self.slots(rows["seq"])
        missing = np.flatnonzero(at < 0)
        if len(missing):
            different, first = np.unique(rows["seq"][missing], return_index=True)
            self._insert(different, self._wheres(rows["device"][missing[first]], rows["stream"][missing[first]]))
            at = np.searchsorted(self["seq"], rows["seq"])
        return at

    def _wheres(self, device: Column, stream: Column) -> Column:
        """Return the number of each row's stream; number those that are new."""
        codes = (device.astype(np.int64) << 32) + stream
        place = np.searchsorted(self._codes, codes)
        if (self._codes[place] != codes).any():
            fresh = np.setdiff1d(codes, self._codes)
            numbers = np.arange(len(self.streams), len(self.streams) + len(fresh))
            self.streams += [(code >> 32, code & 0xFFFFFFFF) for code in fresh.tolist()]
            place = np.searchsorted(self._codes, fresh)
            self._codes, self._numbers = np.insert(self._codes, place, fresh), np.insert(self._numbers, place, numbers)
            place = np.searchsorted(self._codes, codes)
        return self._numbers[place]

    def _insert(self, seqs: Column, where: Column) -> None:
        """Make places for commands that are not held, given in order; most are newer than all that are."""
        count, more = self._count, len(seqs)
        if count + more > len(self._arrays["seq"]):
            arrays, size = self._arrays.items(), 2 * (count + more)
            self._arrays = {field: _grown(field, array[:count], size) for field, array in arrays}
        begin = int(np.searchsorted(self["seq"], seqs[0]))
        self._arrays["seq"][count : count + more], self._arrays["where"][count : count + more] = seqs, where
        self._count += more
        if begin < count:
            order = np.argsort(self["seq"][begin:], kind="stable")
            for field in FIELDS:
                self[field][begin:] = self[field][begin:][order]
        if begin < self._all_over:
            self._renumbered()

    def _forget(self) -> None:
        """Keep the newest commands and those that are not over."""
        kept = self["ended"] == NEVER
        kept[-self.capacity :] = True
        for field, array in self._arrays.items():
            self._arrays[field] = _grown(field, array[: self._count][kept], 3 * self.capacity)
        self._count = int(kept.sum())
        self._renumbered()

    def _renumbered(self) -> None:
        """Forget what was counted by place."""
        self._all_over, self._over_of = 0, self._over_of[:0]
        self.moved += 1

    def all_over(self) -> tuple[int, Column]:
        """Return how many of the first commands are over, no matter what is behind them, and how many of each stream.

        What was counted once stays so: a long ledger is looked through where it is new.
        """
        going = np.flatnonzero(self["ended"][self._all_over :] == NEVER)
        end = self._all_over + int(going[0]) if len(going) else self._count
        found = np.bincount(self["where"][self._all_over : end], minlength=len(self.streams))
        found[: len(self._over_of)] += self._over_of
        self._all_over, self._over_of = end, found
        return end, found

    def __getitem__(self, field: str) -> Column:
        return self._arrays[field][: self._count]

    def __len__(self) -> int:
        return self._count


def _of_streams(rows: Mapping[str, Column]) -> Mapping[str, Column]:
    """Return the rows of commands that stood in a stream: no calls of the API, nothing outside of streams."""
    own = (rows["stream"] >= 0) & (rows["device"] >= 0) & (rows["kind"] != API) & (rows["seq"] >= 0)
    return rows if own.all() else {field: values[own] for field, values in rows.items()}


def _grown(field: str, values: Column, size: int) -> Column:
    """Return a longer column, with what stands at first behind the values."""
    kind, default = FIELDS[field]
    grown = np.full(max(size, len(values)), default, kind)
    grown[: len(values)] = values
    return grown


LATELY: Final = 3  # commands that are over, shown of each stream


class TokenState(IntEnum):
    """The state of a command at the moment shown."""

    PENDING = 0
    RUNNING = 1
    WAITING = 2
    OVER = 3


PENDING, RUNNING, WAITING = int(TokenState.PENDING), int(TokenState.RUNNING), int(TokenState.WAITING)


@dataclass(frozen=True, slots=True)
class Token:
    """A command at a moment. `slot` is its place in the ledger, `cause` the seq of what it waits for, -1 if unknown.

    `since_ns` is when it came into this state.
    """

    slot: int
    seq: int
    state: TokenState
    cause: int
    since_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """The states of commands as columns, in the order of their slots: see `Token`."""

    slots: Column
    seqs: Column
    state: Column
    cause: Column
    since: Column

    def of(self, slots: Column) -> States:
        """Return the states of some of these, in the order of `slots`."""
        at = np.searchsorted(self.slots, slots)
        return States(*(getattr(self, field)[at] for field in ("slots", "seqs", "state", "cause", "since")))

    def token(self, slot: int) -> Token | None:
        """Return the token of a slot; None of one that is not among these."""
        at = int(np.searchsorted(self.slots, slot))
        return self.at(at) if at < len(self.slots) and self.slots[at] == slot else None

    def at(self, at: int) -> Token:
        """Return one of them as a token."""
        slot, state = int(self.slots[at]), TokenState(int(self.state[at]))
        return Token(slot, int(self.seqs[at]), state, int(self.cause[at]), int(self.since[at]))


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The commands of all streams at `at_ns`; streams by their numbers in the ledger.

    - `open`, `over`: how many commands are queued, running or waiting, and how many were over, by stream.
    - `commands`: the slots of those that are not over, in the order of submission; `streams`: the stream of each.
    - `heads`: the slot of the first of them, by stream; -1 of an idle one.
    - `broken`: the slots of all that had failed, or were skipped or aborted.
    """

    at_ns: int
    open: Column
    over: Column
    commands: Column
    streams: Column
    heads: Column
    broken: Column

    def queue(self, stream: int) -> Column:
        """Return the slots of what a stream holds, its head first."""
        own: Column = self.commands[self.streams == stream]
        return own

    def states(self, ledger: Ledger, moments: Columns, slots: Column) -> States:
        """Return what the commands at slots do that are not over."""
        slots = np.unique(slots)
        if self.at_ns == NEWEST:
            latest = np.maximum(ledger["told"][slots] - moments.start, -1)
        else:
            latest = _latest(moments, ledger["seq"][slots], self.at_ns)
        told = latest >= 0
        phase = np.where(told, moments["phase"][latest], -1) if len(moments) else np.full(len(slots), -1)
        begun = ledger["started"][slots] <= self.at_ns
        waits = IS_WAIT[ledger["kind"][slots]]
        state = np.where(begun, np.where(waits, WAITING, RUNNING), PENDING)
        state[phase == STARTED] = RUNNING
        state[phase == PARKED] = WAITING
        since = np.where(begun, ledger["started"][slots], ledger["submitted"][slots])
        cause = np.where(state == WAITING, np.where(waits, ledger["correlation"][slots], -1), -1)
        if told.any():
            since[told] = moments["at_ns"][latest[told]]
            known = told & (phase == PARKED) & (moments["cause"][latest] >= 0)
            cause[known] = moments["cause"][latest[known]]
        return States(slots, ledger["seq"][slots], state, cause, since)

    def lately(self, ledger: Ledger, streams: Sequence[int], count: int = LATELY) -> dict[int, list[int]]:
        """Return the slots of the last commands of each stream that are over, the oldest first."""
        place = np.full(len(ledger.streams) + 1, -1, np.int32)
        place[list(streams)] = streams
        found: dict[int, list[int]] = {stream: [] for stream in streams}
        upper, size = len(ledger), 512
        wanted = {stream: min(count, int(self.over[stream])) for stream in streams}
        while upper > 0 and any(len(found[stream]) < wanted[stream] for stream in streams):
            part = slice(max(0, upper - size), upper)
            own = place[ledger["where"][part]]
            own[ledger["ended"][part] > self.at_ns] = -1
            for stream in streams:
                if len(found[stream]) < wanted[stream]:
                    newest = np.flatnonzero(own == stream)[-(wanted[stream] - len(found[stream])) :]
                    found[stream] = [*(newest + part.start).tolist(), *found[stream]]
            upper, size = part.start, size * 4
        return found


def holding(ledger: Ledger, at_ns: int) -> Held:
    """Return what the streams hold at a moment: what was submitted by then and had not ended."""
    count = len(ledger.streams)
    first, before = ledger.all_over() if at_ns == NEWEST else (0, np.zeros(count, np.int64))
    ended, where = ledger["ended"], ledger["where"]
    over = ended[first:] <= at_ns
    commands = first + np.flatnonzero((ledger["submitted"][first:] <= at_ns) & ~over)
    streams = where[commands]
    heads = np.full(count, -1, np.int64)
    heads[streams[::-1]] = commands[::-1]  # of several the last one counts: the first in the queue
    broken = np.flatnonzero(ledger["status"] != DONE)
    return Held(
        at_ns,
        np.bincount(streams, minlength=count),
        before + np.bincount(where[first:][over], minlength=count),
        commands,
        streams,
        heads,
        broken[ended[broken] <= at_ns],
    )


def chosen_streams(ledger: Ledger, held: Held, most: int, first: int = 0, selected: int = -1) -> tuple[list[int], int]:
    """Return which streams to show, in the order of devices and numbers, and how many there are.

    Streams that have done or hold nothing yet are none. Where there are more than `most`, those with work come first,
    counted from the `first` one; a `selected` stream is always among them.
    """
    known = ledger.order()
    known = known[(held.open[known] > 0) | (held.over[known] > 0)]
    if len(known) <= most:
        return known.tolist(), len(known)
    works = held.open[known] > 0
    first = max(0, min(first, len(known) - 1))
    shown = np.concatenate([known[works], known[~works]])[first : first + most].tolist()
    if selected in known and selected not in shown:
        shown[-1] = selected
    return sorted(shown, key=lambda stream: (held.open[stream] == 0, ledger.streams[stream])), len(known)


def _latest(moments: Columns, seqs: Column, at_ns: int) -> Column:
    """Return the row of the newest moment of each command that says it started or was parked; -1 of none."""
    latest = np.full(len(seqs), -1, np.int64)
    if len(seqs) and len(moments):
        rows = np.flatnonzero((moments["phase"] != SUBMITTED) & (moments["at_ns"] <= at_ns))
        rows = rows[np.isin(moments["seq"][rows], seqs)]
        latest[np.searchsorted(seqs, moments["seq"][rows])] = rows  # of several the last one counts
    return latest


BINS: Final = 240  # parts of the time that the strip shows


class Strip:
    """How many commands of a ledger were not over, from moment to moment: what was put in order is kept.

    An event, in which one is submitted or ends, is its moment times 2, and 1 more where one is submitted: of one moment
    the ends come first, for what is over then is not counted.
    """

    def __init__(self) -> None:
        self._taken = self._moved = 0  # commands that are over and were read; how often the ledger had been moved
        self._late = np.zeros(0, np.int64)  # their events since the first one of a command that is not over
        self._table = np.zeros((2, 2048), np.int64)  # events before, in order, and how many were not over after each
        self._count = 0  # of these

    def parts(self, ledger: Ledger, axis: TimeAxis, bins: int = BINS) -> tuple[Column, Column, int]:
        """Return the edges of so many parts of an axis, the most commands that were not over within each, and a moment
        at which most of all were. What comes and goes within one part counts, too.
        """
        edges = axis.edges(bins)
        if not len(ledger):
            return edges, np.zeros(bins, np.uint32), 0
        events, held = self._events(ledger)
        bounds = np.searchsorted(events, edges * 2)
        bounds[-1] = np.searchsorted(events, edges[-1] * 2 + 2)
        most = np.where(bounds[:-1] > 0, held[bounds[:-1] - 1], 0)  # what each part begins with
        some = bounds[1:] > bounds[:-1]
        most[some] = np.maximum(most[some], np.maximum.reduceat(held, bounds[:-1][some]))
        return edges, most.astype(np.uint32), int(events[np.argmax(held)] >> 1)

    def _events(self, ledger: Ledger) -> Column:
        """Return a row of all events, and one of how many commands were not over after each."""
        if self._moved != ledger.moved:
            self._taken, self._count, self._late, self._moved = 0, 0, self._late[:0], ledger.moved
        over, _ = ledger.all_over()
        settled, more = _events(ledger, slice(self._taken, over)), _events(ledger, slice(over, None))
        self._taken = over
        first = min(int(settled.min(initial=NEVER)), int(more.min(initial=NEVER)))
        before = int(np.searchsorted(self._table[0, : self._count], first))
        late = np.sort(np.concatenate([self._table[0, before : self._count], self._late, settled]), kind="stable")
        self._count = before
        final = int(np.searchsorted(late, more.min(initial=NEVER)))
        self._put(late[:final])
        self._count += final
        self._late = late[final:]
        tail = np.sort(np.concatenate([self._late, more]), kind="stable")
        self._put(tail)
        return self._table[:, : self._count + len(tail)]

    def _put(self, events: Column) -> None:
        """Write events behind those that are kept."""
        end = self._count + len(events)
        if end > self._table.shape[1]:
            self._table = np.concatenate([self._table[:, : self._count], np.zeros((2, end), np.int64)], 1)
        self._table[0, self._count : end] = events
        held = np.cumsum((events & 1) * 2 - 1)
        self._table[1, self._count : end] = held + (self._table[1, self._count - 1] if self._count else 0)


def _events(ledger: Ledger, part: slice) -> Column:
    ended = ledger["ended"][part]
    return np.concatenate([ended[ended < NEVER] * 2, ledger["submitted"][part] * 2 + 1])
