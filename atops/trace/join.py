"""Traces of several boards as one: devices and commands are numbered anew, and each device says which board's it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from atops.base.trace.records import (
    WAITS,
    CounterSample,
    HostWait,
    Kind,
    Place,
    RaceEvent,
    RaceSide,
    Trace,
    TraceNames,
    TraceRecord,
)
from atops.trace.summary import interval

__all__ = ("BoardTrace", "join")

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class BoardTrace:
    """The trace of one board: what the board is called, how many devices it has, and whether its clock is virtual.

    `machine` is what it ran on: wall clocks of one machine have one origin.
    """

    trace: Trace
    label: str
    devices: int
    virtual: bool
    machine: str = ""


def join(boards: Sequence[BoardTrace]) -> Trace:
    """Return the traces of several boards as one; that of a single board as it is. Boards without records are left out.

    Boards under a virtual clock, all of which begin at 0, stand one behind the other, and after those of the wall
    clock, and such a trace has no time of day. Those of several machines stand where the first machine's clock would
    show them, by their times of day. Details of commands under way and of kernel threads are left out.
    """
    boards = [board for board in boards if board.trace.records or board.trace.counters]
    if len(boards) <= 1:
        return boards[0].trace if boards else Trace()
    records: list[TraceRecord] = []
    counters: list[CounterSample] = []
    devices: dict[int, str] = {}
    streams: dict[tuple[int, int], str] = {}
    notes: dict[str, str] = {}
    sites: dict[int, Place] = {}
    capacities: dict[tuple[int, int], int] = {}
    races: list[RaceEvent] = []
    waits: list[HostWait] = []
    firsts = accumulate((board.devices for board in boards), initial=0)  # numbers of each board's first device
    shifts = _machine_shifts(boards)
    seq = end = 0  # the number of the next board's first command, and when it begins if it is virtual
    for first, board in sorted(zip(firsts, boards, strict=False), key=lambda numbered: numbered[1].virtual):
        trace, shift = board.trace, end if board.virtual else shifts[board.machine]
        records += [_moved(record, first, seq, shift) for record in trace.records]
        counters += [CounterSample(at + shift, device + first, used) for at, device, used in trace.counters]
        races += [_race(race, first, seq, shift, trace.names, sites) for race in trace.races]
        waits += [_wait(wait, seq, shift, trace.names, sites) for wait in trace.waits]
        for device in range(board.devices):
            devices[first + device] = f"{board.label}, {trace.names.devices.get(device) or f'device {device}'}"
        streams |= _shifted(trace.names.streams, first)
        capacities |= _shifted(trace.names.capacities, first)
        notes |= trace.names.notes
        seq = 1 + max((record.seq for record in records), default=-1)
        end = max([end, *(record.finished_ns for record in records), *(sample.at_ns for sample in counters)])
    records.sort(key=lambda record: record.finished_ns)
    counters.sort()
    waits.sort(key=lambda each: each.finished_ns)
    names = TraceNames(devices, streams, notes, sites, capacities)
    dropped = sum(board.trace.dropped for board in boards)
    anchor = None if any(board.virtual for board in boards) else boards[0].trace.anchor_ns
    return Trace(tuple(records), tuple(counters), names, dropped, anchor_ns=anchor, races=tuple(races),
                 waits=tuple(waits))  # fmt: skip


def _machine_shifts(boards: Sequence[BoardTrace]) -> dict[str, int]:
    """Return how much later the clock of each machine would show what the first one's shows."""
    anchors: dict[str, int | None] = {}
    for board in boards:
        if not board.virtual:
            anchors.setdefault(board.machine, board.trace.anchor_ns)
    known = next(iter(anchors.values()), None)
    return {name: 0 if each is None or known is None else each - known for name, each in anchors.items()}


def _moved(record: TraceRecord, first: int, seq: int, shift: int) -> TraceRecord:
    """Return a record with its board's devices counted from `first`, its commands from `seq`, its times later."""
    joined = (record.kind in WAITS or record.kind is Kind.API) and record.correlation >= 0
    return record._replace(
        seq=_later(record.seq, seq),
        device=_device(record.device, first),
        submitted_ns=record.submitted_ns + shift,
        started_ns=interval(record)[0] + shift,
        finished_ns=record.finished_ns + shift,
        dst_device=_device(record.dst_device, first),
        src_device=_device(record.src_device, first),
        correlation=record.correlation + seq if joined else record.correlation,
    )


def _race(
    race: RaceEvent, first: int, seq: int, shift: int, names: TraceNames, sites: dict[int, Place]
) -> RaceEvent:
    """Return a race moved as records are; the places of its sides become new entries of `sites`."""

    def moved(side: RaceSide) -> RaceSide:
        return side._replace(seq=_later(side.seq, seq), site=_site(side.site, names, sites))

    return race._replace(
        at_ns=race.at_ns + shift, device=_device(race.device, first), first=moved(race.first),
        second=moved(race.second),
    )  # fmt: skip


def _wait(wait: HostWait, seq: int, shift: int, names: TraceNames, sites: dict[int, Place]) -> HostWait:
    start, end, waited, site = wait
    return HostWait(start + shift, end + shift, _later(waited, seq), _site(site, names, sites))


def _site(site: int, names: TraceNames, sites: dict[int, Place]) -> int:
    """Return the number of a place among those of all boards, as a new entry of `sites`."""
    place = names.sites.get(site)
    if place is None:
        return -1
    sites[number := len(sites)] = place
    return number


def _later(seq: int, first: int) -> int:
    return seq + first if seq >= 0 else -1


def _device(device: int, first: int) -> int:
    return device + first if device >= 0 else device


def _shifted(table: Mapping[tuple[int, int], V], first: int) -> dict[tuple[int, int], V]:
    return {(_device(device, first), stream): value for (device, stream), value in table.items()}
