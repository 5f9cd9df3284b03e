"""What the host did: API calls, the waits of the program, and which commands they enqueued or waited for.

Calls and waits have numbers from HOST on, above those of all commands, so that they are selected and marked as these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np

from atops.base.trace.records import HostWait, Kind, Place
from atops.device.call_site import file_shown
from atops.trace.words import format_ns
from atops_widgets.feed.columns import RECORDS, Column, Columns, Texts

__all__ = ("HOST", "PROGRAM_WAITS", "WAIT_LANES", "HostLog")

HOST: Final = 1 << 40
API: Final = int(Kind.API)  # numpy takes five times as long to compare a column with a member of an enumeration
PROGRAM_WAITS: Final = len(Kind)  # drawn as one more kind, which no command is of: the program stands still
FIELDS: Final[Mapping[str, str]] = {**RECORDS, "site": "i4"}
LANES: Final = 6  # of calls, and of waits, that go on at once; what is too much shares the last
WAIT_LANES: Final = 1000  # the number of the first lane of waits
NAMED: Final = 6  # commands that a sentence names
NEWEST: Final = 20_000  # calls that commands are joined to
MOST: Final = 256  # commands that are marked


class HostLog:
    """API calls and waits as rows like those of records: `stream` is the lane in which nothing overlaps.

    The row numbered n since the beginning has the seq HOST + n; `correlation` is that of the newest command that a call
    enqueued, or of the one that was waited for; -1 for none.
    """

    def __init__(self, capacity: int, texts: Texts) -> None:
        self.rows = Columns(FIELDS, capacity, texts)
        self._ends: dict[int, list[int]] = {Kind.API: [], PROGRAM_WAITS: []}

    def add_calls(self, records: Columns, count: int) -> None:
        """Take the API calls among the newest `count` records."""
        first = len(records) - min(count, len(records))
        at = first + np.flatnonzero(records["kind"][first:] == API)
        if len(at):
            names = ("started_ns", "finished_ns", "status", "correlation", "name")
            self._add(Kind.API, {name: records[name][at] for name in names})

    def add_waits(self, waits: Sequence[HostWait], places: Mapping[int, Place]) -> None:
        """Take waits of the program; their names are the lines that waited, of places by their numbers."""
        if waits:
            numbers = np.fromiter(chain.from_iterable(waits), np.int64, len(HostWait._fields) * len(waits))
            started, finished, seqs, sites = numbers.reshape(len(waits), -1).T
            known = {site: self.rows.texts.number(_line_of(places, site)) for site in set(sites.tolist())}
            self._add(PROGRAM_WAITS, {
                "started_ns": started, "finished_ns": finished, "status": 0 * sites, "correlation": seqs, "site": sites,
                "name": np.array([known[site] for site in sites.tolist()]),
            })  # fmt: skip

    def _add(self, kind: int, columns: Mapping[str, Column]) -> None:
        started, finished = columns["started_ns"], columns["finished_ns"]
        count, ends = len(started), self._ends[kind]
        lanes = _lanes(ends, started.tolist(), finished.tolist())
        first = HOST + self.rows.start + len(self.rows)
        self.rows.extend_columns({
            **columns, "seq": np.arange(first, first + count), "kind": np.full(count, kind), "bytes": np.zeros(count),
            "stream": np.array(lanes) + (WAIT_LANES if kind == PROGRAM_WAITS else 0), "submitted_ns": started,
        })  # fmt: skip

    def waits(self) -> tuple[HostWait, ...]:
        """Return the waits that are held."""
        chosen = np.flatnonzero(self.rows["kind"] == PROGRAM_WAITS)
        columns = (self.rows[name][chosen].tolist() for name in ("started_ns", "finished_ns", "correlation", "site"))
        return tuple(HostWait(*row) for row in zip(*columns, strict=True))

    def calls_of(self, seqs: Column, submitted: Column) -> Column:
        """Return the number of the call that enqueued each command, -1 for none.

        It is the first to have ended with such a new command, and of two the later begun; it ran at that moment.
        """
        calls = np.flatnonzero((self.rows["kind"] == API) & (self.rows["correlation"] >= 0))[-NEWEST:]
        if not len(calls):
            return np.full(len(seqs), -1)
        started, newest = self.rows["started_ns"][calls], self.rows["correlation"][calls]
        order = np.lexsort((-started, newest))
        place = np.minimum(np.searchsorted(newest[order], seqs), len(calls) - 1)
        call = calls[order[place]]
        ran = (self.rows["started_ns"][call] <= submitted) & (submitted <= self.rows["finished_ns"][call])
        enqueued = ran & (seqs >= 0) & (self.rows["correlation"][call] >= seqs)  # records of calls have the seq -1
        return np.where(enqueued, self.rows["seq"][call], -1)

    def joined(self, seqs: Column, submitted: Column) -> tuple[Column, Column]:
        """Return the edges from calls to the commands that they enqueued, and from commands to the waits for them."""
        calls = self.calls_of(seqs, submitted)
        known, waits = calls >= 0, np.flatnonzero(self.rows["kind"] == PROGRAM_WAITS)
        waits = waits[np.isin(self.rows["correlation"][waits], seqs)]
        return (
            np.concatenate([calls[known], self.rows["correlation"][waits]]),
            np.concatenate([seqs[known], self.rows["seq"][waits]]),
        )

    def neighbours(self, seq: int, records: Columns) -> tuple[list[int], list[int]]:
        """Return what a call, a wait or a command is joined to on the other side, before it and after it."""
        if seq < HOST:
            near = np.flatnonzero(records["seq"] == seq)[-1:]
        elif 0 <= (row := seq - HOST - self.rows.start) < len(self.rows):
            start, end, other = (int(self.rows[name][row]) for name in ("started_ns", "finished_ns", "correlation"))
            if self.rows["kind"][row] == PROGRAM_WAITS:
                return ([other] if other >= 0 else []), []
            submitted = records["submitted_ns"]
            near = np.flatnonzero((submitted >= start) & (submitted <= end) & (records["seq"] <= other))
            near = near[records["kind"][near] != API]
        else:
            return [], []
        heads, tails = self.joined(records["seq"][near], records["submitted_ns"][near])
        return heads[tails == seq].tolist()[-MOST:], tails[heads == seq].tolist()[-MOST:]

    def sentence(self, seq: int, origin_ns: int, before: Sequence[int], after: Sequence[int]) -> str:
        """Tell a call or a wait, and what it enqueued or waited for; empty where it is held no more."""
        row = seq - HOST - self.rows.start
        if not 0 <= row < len(self.rows):
            return ""
        start, end = int(self.rows["started_ns"][row]), int(self.rows["finished_ns"][row])
        name = self.rows.texts.all[self.rows["name"][row]]
        when = f", at {format_ns(start - origin_ns)} for {format_ns(end - start)}"
        if self.rows["kind"][row] == PROGRAM_WAITS:
            return f"the program waits at {name or 'no known line'}{when}; for {_listed(before) or 'room'}"
        failed = ", failed" if self.rows["status"][row] else ""
        return f"API call {name}{when}{failed}{'; it enqueued ' + _listed(after) if after else ''}"

    def told_with(self, seqs: Sequence[int]) -> str:
        """Tell the calls and waits that a command is joined to; empty where there are none."""
        parts = []
        for row in (seq - HOST - self.rows.start for seq in seqs if seq >= HOST):
            waits, name = self.rows["kind"][row] == PROGRAM_WAITS, self.rows.texts.all[self.rows["name"][row]]
            parts.append(f"; the program waits for it at {name}" if waits else f"; by the call {name}")
        return "".join(parts[:NAMED])


def _lanes(ends: list[int], started: Sequence[int], finished: Sequence[int]) -> list[int]:
    """Return for each thing the first lane that is free at its start, and take it until its end.

    `ends` is until when each lane is taken; things come in the order of ending.
    """
    lanes = []
    for start, end in zip(started, finished, strict=True):
        lane = 0
        for taken in ends:
            if taken <= start:
                break
            lane += 1
        if lane < len(ends):
            ends[lane] = end
        elif lane < LANES:
            ends.append(end)
        else:
            lane = LANES - 1
            ends[lane] = max(ends[lane], end)
        lanes.append(lane)
    return lanes


def _listed(seqs: Sequence[int]) -> str:
    more = f" and {len(seqs) - NAMED} more" if len(seqs) > NAMED else ""
    return f"number {', '.join(map(str, seqs[:NAMED]))}{more}" if seqs else ""


def _line_of(places: Mapping[int, Place], site: int) -> str:
    """Return a line in few letters, "main.py:7 in main"; empty where it is not known."""
    place = places.get(site)
    return f"{file_shown(place.file)}:{place.line} in {place.function}" if place is not None else ""
