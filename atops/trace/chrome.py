"""A trace as Chrome trace events, for ui.perfetto.dev and chrome://tracing.

One process for the host and for each device; in it one track for each stream, copy engine and cluster. Slices on one
track never overlap: viewers drop slices that cross, so what runs beside its stream gets a track of its own below it.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import IO, Final, TypeAlias

from atops.base.trace.records import (
    MOVES,
    CounterSample,
    HostWait,
    Kind,
    RaceEvent,
    Status,
    ThreadEvent,
    ThreadState,
    TraceNames,
    TraceRecord,
)
from atops.device.call_site import file_shown
from atops.trace.summary import in_lanes, interval, lanes, rows
from atops.trace.words import KIND_NAMES, bytes_of, side_words

__all__ = (
    "Event", "engine_tracks", "micros", "thread_tracks", "time_of_day", "to_chrome", "track", "write_chrome",
)  # fmt: skip

# Viewers take process 0 for the idle task, and a thread numbered as its process for the main thread: avoid both.
HOST_PROCESS: Final = 1
FIRST_TRACK: Final = 1000
FIRST_WAITS: Final = 1_000_000  # tracks of the host, where the program waits: below all others
FIRST_LAUNCH: Final = 100  # processes of launches, behind those of the host and the devices
WORDS: Final[Mapping[ThreadState, str]] = {
    ThreadState.RUNS: "runs",
    ThreadState.BARRIER: "waits at the block barrier",
    ThreadState.GRID_BARRIER: "waits at the grid barrier",
    ThreadState.COUNTED_BARRIER: "waits at counted barrier",
    ThreadState.DTE: "waits for transfer",
    ThreadState.SIGNAL: "waits for signal",
    ThreadState.ENDED: "ended",
    ThreadState.FAILED: "failed",
}
NUMBERED: Final = frozenset({ThreadState.COUNTED_BARRIER, ThreadState.DTE, ThreadState.SIGNAL})
TAIL: Final = {"ph": "s"}  # of an arrow
HEAD: Final = {"ph": "f", "bp": "e"}
OVER: Final = frozenset({ThreadState.ENDED, ThreadState.FAILED})

Event: TypeAlias = dict[str, object]


def to_chrome(
    records: Sequence[TraceRecord],
    *,
    counters: Iterable[CounterSample] = (),
    names: TraceNames | None = None,
    steps: Sequence[ThreadEvent] = (),
    anchor_ns: int | None = None,
    races: Sequence[RaceEvent] = (),
    waits: Sequence[HostWait] = (),
) -> dict[str, object]:
    """Return the trace as the JSON object of the Chrome trace event format.

    Times are microseconds from the start of the first record. Arrows lead from a record or a write of a value to the
    wait it satisfied. Every slice carries its record's fields as arguments. `steps` of kernel threads make a track a
    thread, in a process of its own for each launch. A race is an instant on each of its two commands, with an arrow
    from the one that began first. `waits` of the program are on tracks of the host, each with an arrow from the end of
    what it waited for. With the trace's `anchor_ns` the time of day of the first record stands in
    `otherData`, and as an event at its begin.
    """
    names, counters = names or TraceNames(), list(counters)
    starts = [*(interval(record)[0] for record in records), *(wait.started_ns for wait in waits)]
    origin = min([*starts, *(each.at_ns for each in counters), *(each.at_ns for each in steps)], default=0)
    streams = [(row.device, row.label, row.records) for row in rows(records, names)]
    tracks = sorted(streams + engine_tracks(records), key=lambda track: track[0])
    devices = {track[0] for track in tracks} | {sample.device for sample in counters} | ({-1} if waits else set())
    metadata = [event for device in sorted(devices) for event in _process(device, names)]
    home: dict[int, tuple[int, int]] = {}
    timed: list[tuple[int, int, int, Event]] = []
    order = _finishing_order(records)
    for number, (device, label, held) in enumerate(tracks, FIRST_TRACK):
        place = (HOST_PROCESS + 1 + device, number)
        metadata += track(place, label)
        for record in held:
            home.setdefault(id(record), place)  # a stream's track comes before the engines': arrows go there
            timed.append((interval(record)[0], order[id(record)], 0, _slice(record, place, origin, names)))
    timed += _host_waits(waits, records, home, origin, names, metadata)
    timed += _arrows(records, home, order, origin) + _races(races, records, home, order, origin, names)
    timed += [(sample.at_ns, 0, 3, _sample(sample, origin)) for sample in counters]
    more, turns = thread_tracks(steps, records, names, origin)
    metadata += more
    timed += [(at, 0, 4, event) for at, event in turns]
    timed.sort(key=lambda entry: entry[:3])
    events = metadata + [event for *_, event in timed]
    whole: dict[str, object] = {"traceEvents": events, "displayTimeUnit": "ns"}
    if anchor_ns is not None:
        whole["otherData"] = day = _day(anchor_ns + origin)
        moment: Event = {"ph": "i", "s": "g", "name": day["utc"], "cat": "time of day", "ts": 0.0, "args": day}
        events.insert(len(metadata), {**moment, "pid": HOST_PROCESS, "tid": FIRST_TRACK})
    return whole


def _day(unix_ns: int) -> dict[str, str]:
    return {"utc": time_of_day(unix_ns), "unix_ns": str(unix_ns)}  # as text: viewers read numbers as doubles


def time_of_day(unix_ns: int) -> str:
    """Return nanoseconds since 1970 as UTC in the form of ISO 8601, to the nanosecond."""
    seconds, rest = divmod(unix_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def write_chrome(
    target: str | PathLike[str] | IO[str],
    records: Sequence[TraceRecord],
    *,
    counters: Iterable[CounterSample] = (),
    names: TraceNames | None = None,
    steps: Sequence[ThreadEvent] = (),
    anchor_ns: int | None = None,
    races: Sequence[RaceEvent] = (),
    waits: Sequence[HostWait] = (),
) -> None:
    """Write the trace to a path (compressed when it ends in .gz, which Perfetto reads too) or to an open text file."""
    trace = to_chrome(
        records, counters=counters, names=names, steps=steps, anchor_ns=anchor_ns, races=races, waits=waits
    )
    text = json.dumps(trace, separators=(",", ":"))
    if not isinstance(target, str | PathLike):
        target.write(text)
    elif Path(target).suffix == ".gz":
        Path(target).write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        Path(target).write_text(text, encoding="utf-8")


def engine_tracks(records: Sequence[TraceRecord]) -> list[tuple[int, str, Sequence[TraceRecord]]]:
    """Return a track for each copy engine and cluster that records name; more where records overlap there."""
    engines: dict[tuple[int, str, int], list[TraceRecord]] = defaultdict(list)
    for record in records:
        if record.engine >= 0 and record.device >= 0 and (record.kind in MOVES or record.kind is Kind.LAUNCH):
            unit = "cluster" if record.kind is Kind.LAUNCH else "copy engine"
            engines[record.device, unit, record.engine].append(record)
    tracks: list[tuple[int, str, Sequence[TraceRecord]]] = []
    for (device, unit, engine), served in sorted(engines.items()):
        for lane, held in enumerate(in_lanes(sorted(served, key=interval))):
            tracks.append((device, f"{unit} {engine}" + (f" +{lane}" if lane else ""), held))
    return tracks


def _finishing_order(records: Sequence[TraceRecord]) -> dict[int, int]:
    """Return each record's place in the order of finishing, by identity: it decides between events of one instant.

    Viewers bind an arrow to the slice that is open when they read it, so where times are equal the events must come
    in the order of cause and effect: a record's slice, its arrow's tail, the head at the wait, what follows the wait.
    """
    ordered = sorted(records, key=lambda record: record.finished_ns)  # stable: a trace is in order of finishing
    return {id(record): place for place, record in enumerate(ordered)}


def _arrows(
    records: Sequence[TraceRecord], home: dict[int, tuple[int, int]], order: dict[int, int], origin: int
) -> list[tuple[int, int, int, Event]]:
    by_seq = {record.seq: record for record in records if record.seq >= 0}
    arrows: list[tuple[int, int, int, Event]] = []
    for wait in records:
        cause = by_seq.get(wait.cause)
        if cause is None or cause is wait:
            continue
        # The tail lies in the last nanosecond of the cause and the head at the same time or later inside the wait. A
        # write that ends a value wait is over itself only after that: then both lie in the wait's last nanosecond.
        start, end = interval(wait)
        tail = max(interval(cause)[0], min(cause.finished_ns, end) - 1)
        head = max(tail, min(max(start, tail), max(start, end - 1)))
        arrow = {"name": "satisfies", "cat": "wait", "id": wait.seq}
        for at, record, phase, more in ((tail, cause, 1, {"ph": "s"}), (head, wait, 2, {"ph": "f", "bp": "e"})):
            pid, tid = home[id(record)]
            event = {**more, **arrow, "ts": micros(at - origin), "pid": pid, "tid": tid}
            arrows.append((at, max(order[id(cause)], order[id(record)]), phase, event))
    return arrows


def _races(
    races: Sequence[RaceEvent], records: Sequence[TraceRecord], home: dict[int, tuple[int, int]],
    order: dict[int, int], origin: int, names: TraceNames,
) -> list[tuple[int, int, int, Event]]:  # fmt: skip
    """Return the marks of races at the begin of what raced, and the arrows between two commands."""
    by_seq = {record.seq: record for record in reversed(records) if record.seq >= 0}
    events: list[tuple[int, int, int, Event]] = []
    for number, race in enumerate(races):
        told = {"first": side_words(race.first, names), "second": side_words(race.second, names)}
        told |= {"memory": race.memory, "bytes": bytes_of(race), "advice": race.advice}
        found = {id(record): record for seq in race.seqs if (record := by_seq.get(seq)) is not None}
        sides = sorted(found.values(), key=lambda record: (interval(record)[0], order[id(record)]))
        place = max((order[id(record)] for record in sides), default=0)
        for side, record in enumerate(sides):
            pid, tid = home[id(record)]
            at = interval(record)[0]
            event = {"name": race.kind, "cat": "race", "ts": micros(at - origin), "pid": pid, "tid": tid}
            events.append((at, place, 3, {"ph": "i", "s": "t", **event, "args": told}))
            if len(sides) == 2:
                events.append((at, place, 1 + side, {**(HEAD if side else TAIL), **event, "id": number}))
    return events


def _host_waits(
    waits: Sequence[HostWait], records: Sequence[TraceRecord], home: dict[int, tuple[int, int]], origin: int,
    names: TraceNames, metadata: list[Event],
) -> list[tuple[int, int, int, Event]]:  # fmt: skip
    """Return the waits of the program with the arrows that end them; the names of their tracks go to `metadata`."""
    by_seq = {record.seq: record for record in records if record.seq >= 0}
    events: list[tuple[int, int, int, Event]] = []
    behind = len(records)  # in the order of finishing: what is waited for comes first
    chosen = lanes([(wait.started_ns, wait.finished_ns) for wait in waits])
    for lane in range(max(chosen, default=-1) + 1):
        label = "the program waits" + (f" +{lane}" if lane else "")
        metadata += track((HOST_PROCESS, FIRST_WAITS + lane), label)
    for number, (wait, lane) in enumerate(zip(waits, chosen, strict=True)):
        record, site = by_seq.get(wait.seq), names.sites.get(wait.site)
        what = "room" if record is None else record.name or KIND_NAMES[record.kind]
        said: Event = {} if site is None else {"at": f"{file_shown(site.file)}:{site.line} in {site.function}"}
        place: Event = {"cat": "host wait", "pid": HOST_PROCESS, "tid": FIRST_WAITS + lane}
        at = micros(wait.started_ns - origin)
        lasts = micros(max(0, wait.finished_ns - wait.started_ns))
        told = {**said, "seq": wait.seq}
        stands = {"ph": "X", "name": f"waits for {what}", "ts": at, "dur": lasts, **place, "args": told}
        events.append((wait.started_ns, behind + number, 0, stands))
        if record is None or (end := record.finished_ns - 1) < wait.started_ns or end >= wait.finished_ns:
            continue
        pid, tid = home[id(record)]
        arrow = {"name": "ends", "cat": "host wait", "id": number, "ts": micros(end - origin)}
        events.append((end, behind + number, 1, {**TAIL, **arrow, "pid": pid, "tid": tid}))
        events.append((end, behind + number, 2, {**HEAD, **arrow, "pid": HOST_PROCESS, "tid": FIRST_WAITS + lane}))
    return events


def _slice(record: TraceRecord, place: tuple[int, int], origin: int, names: TraceNames) -> Event:
    start, end = interval(record)
    arguments: dict[str, object] = {
        "seq": record.seq,
        "status": record.status.name.lower(),
        "stream": record.stream,
        "queued_us": micros(max(0, record.queued_ns)),
    }
    if record.bytes:
        arguments["bytes"] = record.bytes
        if end > start and record.kind in MOVES:
            arguments["GB/s"] = round(record.bytes / (end - start), 3)
    for end_name, device, offset in (
        ("to", record.dst_device, record.dst_offset), ("from", record.src_device, record.src_offset),
    ):  # fmt: skip
        if offset >= 0:
            arguments[end_name] = f"device {device} + {offset:#x}" if device >= 0 else "host memory"
    if record.cause >= 0:
        arguments["satisfied_by"] = record.cause
    if record.engine >= 0:
        arguments["engine"] = record.engine
    if note := names.notes.get(record.name):
        arguments["note"] = note
    failed = record.status is not Status.DONE
    event = {
        "ph": "X",
        "name": (record.name or KIND_NAMES[record.kind]) + (f" [{record.status.name.lower()}]" if failed else ""),
        "cat": KIND_NAMES[record.kind],
        "ts": micros(start - origin),
        "dur": micros(end - start),
        "pid": place[0],
        "tid": place[1],
        "args": arguments,
    }
    return event | {"cname": "terrible"} if failed else event


def _sample(sample: CounterSample, origin: int) -> Event:
    at = micros(sample.at_ns - origin)
    pid = HOST_PROCESS + 1 + sample.device
    return {"ph": "C", "name": "memory in use", "ts": at, "pid": pid, "args": {"bytes": sample.used_bytes}}


def _process(device: int, names: TraceNames) -> list[Event]:
    label = names.devices.get(device) or (f"device {device}" if device >= 0 else "host")
    pid = HOST_PROCESS + 1 + device
    return [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": label}},
        {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}},
    ]


# ---- kernel threads: a process for each launch, a track for each thread, a slice for each thing it did


def thread_tracks(
    steps: Iterable[ThreadEvent], records: Sequence[TraceRecord], names: TraceNames, origin: int
) -> tuple[list[Event], list[tuple[int, Event]]]:
    """Return the names of the tracks, and (time in nanoseconds, event) for all that the threads did.

    A step lasts until the thread's next one; the last one that is no end is a point.
    """
    threads: dict[tuple[int, int, int], list[ThreadEvent]] = defaultdict(list)
    for step in steps:
        threads[step.launch, step.block, step.thread].append(step)
    kernels = {record.seq: record.name for record in records if record.kind is Kind.LAUNCH}
    launches = {launch: pid for pid, launch in enumerate(sorted({key[0] for key in threads}), FIRST_LAUNCH)}
    metadata: list[Event] = []
    for launch, pid in launches.items():
        label = f"threads of {kernels.get(launch, 'launch')} (command {launch})"
        metadata.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": label}})
        metadata.append({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}})
    timed: list[tuple[int, Event]] = []
    for number, ((launch, block, thread), own) in enumerate(sorted(threads.items()), FIRST_TRACK):
        place = (launches[launch], number)
        metadata += track(place, f"block {block} thread {thread}")
        for step, end in zip(own, [*(each.at_ns for each in own[1:]), own[-1].at_ns], strict=True):
            timed.append((step.at_ns, _turn(step, end, place, names, origin)))
    return metadata, timed


def _turn(step: ThreadEvent, end: int, place: tuple[int, int], names: TraceNames, origin: int) -> Event:
    arguments: dict[str, object] = {"l1_bytes": step.l1_bytes, "l2_bytes": step.l2_bytes}
    if (site := names.sites.get(step.site)) is not None:
        arguments["at"] = f"{file_shown(site.file)}:{site.line} in {site.function}"
    name = WORDS[step.turn] + (f" {step.on}" if step.turn in NUMBERED else "")
    where = {"name": name, "cat": "kernel thread", "ts": micros(step.at_ns - origin), "pid": place[0], "tid": place[1]}
    if step.turn in OVER:
        return {"ph": "i", "s": "t", **where, "args": arguments}
    return {"ph": "X", **where, "dur": micros(max(0, end - step.at_ns)), "args": arguments}


def track(place: tuple[int, int], label: str) -> list[Event]:
    """Return the events that name the track at (process, track), and put it where its number says."""
    pid, tid = place
    return [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": label}},
        {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}},
    ]


def micros(ns: int) -> float:
    """Return microseconds that give exactly `ns` again when multiplied by 1000 and cut to an integer."""
    value = ns / 1000
    return value if int(value * 1000) == ns else math.nextafter(value, math.inf)
