"""What the streams hold at a moment, and how much was queued over time: pure reductions of the ledger and of moments.

The same columns and the same moment give the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from atops.base.trace.records import WAITS, Phase, Status
from atops_widgets.feed.columns import Column
from atops_widgets.queues.ledger import NEVER, Ledger

__all__ = ("LATELY", "Held", "States", "Token", "TokenState", "chosen_streams", "holding", "moment_of", "queued")

LATELY: Final = 3  # commands that are over, shown of each stream
IS_WAIT: Final = np.isin(np.arange(256), list(WAITS))


class TokenState(IntEnum):
    """What a command does at the moment looked at."""

    PENDING = 0
    RUNNING = 1
    WAITING = 2
    OVER = 3


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
    """What commands do, as columns in the order of their slots: see `Token`."""

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
    """What all streams hold at `at_ns`; streams by their numbers in the ledger.

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

    def states(self, ledger: Ledger, moments: Mapping[str, Column], slots: Column) -> States:
        """Return what the commands at slots do that are not over."""
        slots = np.unique(slots)
        latest = _latest(moments, ledger["seq"][slots], self.at_ns)
        told = latest >= 0
        phase = np.where(told, moments["phase"][latest], -1) if len(moments["seq"]) else np.full(len(slots), -1)
        begun = ledger["started"][slots] <= self.at_ns
        waits = IS_WAIT[ledger["kind"][slots]]
        state = np.where(begun, np.where(waits, TokenState.WAITING, TokenState.RUNNING), TokenState.PENDING)
        state[phase == Phase.STARTED] = TokenState.RUNNING
        state[phase == Phase.PARKED] = TokenState.WAITING
        since = np.where(begun, ledger["started"][slots], ledger["submitted"][slots])
        cause = np.where(state == TokenState.WAITING, np.where(waits, ledger["correlation"][slots], -1), -1)
        if told.any():
            since[told] = moments["at_ns"][latest[told]]
            known = told & (phase == Phase.PARKED) & (moments["cause"][latest] >= 0)
            cause[known] = moments["cause"][latest[known]]
        return States(slots, ledger["seq"][slots], state, cause, since)

    def lately(self, ledger: Ledger, streams: Sequence[int], count: int = LATELY) -> dict[int, list[int]]:
        """Return the slots of the last commands of each stream that are over, the oldest first."""
        place = np.full(len(ledger.streams) + 1, -1, np.int32)
        place[list(streams)] = streams
        found: dict[int, list[int]] = {stream: [] for stream in streams}
        upper, size = len(ledger), 4096
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
    ended, where, count = ledger["ended"], ledger["where"], len(ledger.streams)
    over = ended <= at_ns
    commands = np.flatnonzero((ledger["submitted"] <= at_ns) & ~over)
    streams = where[commands]
    heads = np.full(count, -1, np.int64)
    heads[streams[::-1]] = commands[::-1]  # of several the last one counts: the first in the queue
    broken = np.flatnonzero(ledger["status"] != Status.DONE)
    return Held(
        at_ns,
        np.bincount(streams, minlength=count),
        np.bincount(where[over], minlength=count),
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


def _latest(moments: Mapping[str, Column], seqs: Column, at_ns: int) -> Column:
    """Return the row of the newest moment of each command that says it started or was parked; -1 of none."""
    latest = np.full(len(seqs), -1, np.int64)
    if len(seqs) and len(moments["seq"]):
        rows = np.flatnonzero((moments["phase"] != Phase.SUBMITTED) & (moments["at_ns"] <= at_ns))
        rows = rows[np.isin(moments["seq"][rows], seqs)]
        latest[np.searchsorted(seqs, moments["seq"][rows])] = rows  # of several the last one counts
    return latest


BINS: Final = 240  # parts of the time that the strip shows


def queued(ledger: Ledger, origin_ns: int, bins: int = BINS) -> tuple[list[int], Column]:
    """Return from when to when, and how many commands were not over at the end of each of so many parts of it."""
    if not len(ledger):
        return [0, 1], np.zeros(bins, np.uint32)
    submitted, ended = ledger["submitted"], ledger["ended"]
    over = ended[ended < NEVER]
    first = int(submitted.min())
    last = max(int(submitted.max()), int(over.max()) if len(over) else first, first + 1)
    scale = bins / (last - first + 1)
    came = np.bincount(((submitted - first) * scale).astype(np.int64), minlength=bins)
    went = np.bincount(((over - first) * scale).astype(np.int64), minlength=bins)
    return [first - origin_ns, last - origin_ns], np.cumsum(came[:bins] - went[:bins]).astype(np.uint32)


def moment_of(strip: list[int], number: int, parts: int) -> int:
    """Return the end of one of so many equal parts of the time that a strip shows."""
    return strip[0] + (strip[1] - strip[0]) * (number + 1) // parts
