"""A trace as Chrome trace events, for ui.perfetto.dev and chrome://tracing.

One process for the host and for each device; in it one track for each stream, copy engine and cluster. Slices on one
track never overlap: viewers drop slices that cross, so what runs beside its stream gets a track of its own below it.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any, Final

from atops.base.trace.events import ThreadEvent
from atops.base.trace.records import MOVES, CounterSample, Kind, Status, TraceNames, TraceRecord
from atops.trace.chrome_events import Event, micros, track
from atops.trace.chrome_threads import thread_tracks
from atops.trace.intervals import lanes
from atops.trace.summary import KIND_NAMES, interval, rows

__all__ = ("to_chrome", "write_chrome")

# Viewers take process 0 for the idle task, and a thread numbered as its process for the main thread: avoid both.
HOST_PROCESS: Final = 1
FIRST_TRACK: Final = 1000


def to_chrome(
    records: Sequence[TraceRecord],
    *,
    counters: Iterable[CounterSample] = (),
    names: TraceNames | None = None,
    steps: Sequence[ThreadEvent] = (),
) -> dict[str, Any]:
    """Return the trace as the JSON object of the Chrome trace event format.

    Times are microseconds from the start of the first record. Arrows lead from a record or a write of a value to the
    wait it satisfied. Every slice carries its record's fields as arguments. `steps` of kernel threads make a track a
    thread, in a process of its own for each launch.
    """
    names = names or TraceNames()
    counters = list(counters)
    starts = [interval(record)[0] for record in records]
    origin = min([*starts, *(each.at_ns for each in counters), *(each.at_ns for each in steps)], default=0)
    tracks = _stream_tracks(records, names) + _engine_tracks(records)
    tracks.sort(key=lambda track: track[0])
    devices = {track[0] for track in tracks} | {sample.device for sample in counters}
    metadata = [event for device in sorted(devices) for event in _process(device, names)]
    home: dict[int, tuple[int, int]] = {}
    timed: list[tuple[int, int, int, Event]] = []
    order = _finishing_order(records)
    for number, (device, label, held) in enumerate(tracks, FIRST_TRACK):
        place = (HOST_PROCESS + 1 + device, number)
        metadata += track(place, label)
        for record in held:
            home.setdefault(id(record), place)  # a stream's track comes before the engines': arrows go there
            start, _ = interval(record)
            timed.append((start, order[id(record)], 0, _slice(record, place, origin, names)))
    timed += _arrows(records, home, order, origin)
    timed += [(sample.at_ns, 0, 3, _sample(sample, origin)) for sample in counters]
    more, turns = thread_tracks(steps, records, names, origin)
    metadata += more
    timed += [(at, 0, 4, event) for at, event in turns]
    timed.sort(key=lambda entry: entry[:3])
    return {"traceEvents": metadata + [event for *_, event in timed], "displayTimeUnit": "ns"}


def write_chrome(
    target: str | PathLike[str] | IO[str],
    records: Sequence[TraceRecord],
    *,
    counters: Iterable[CounterSample] = (),
    names: TraceNames | None = None,
    steps: Sequence[ThreadEvent] = (),
) -> None:
    """Write the trace to a path (compressed when it ends in .gz, which Perfetto reads too) or to an open text file."""
    text = json.dumps(to_chrome(records, counters=counters, names=names, steps=steps), separators=(",", ":"))
    if not isinstance(target, str | PathLike):
        target.write(text)
    elif Path(target).suffix == ".gz":
        Path(target).write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        Path(target).write_text(text, encoding="utf-8")


def _stream_tracks(records: Sequence[TraceRecord], names: TraceNames) -> list[tuple[int, str, Sequence[TraceRecord]]]:
    return [(row.device, row.label, row.records) for row in rows(records, names)]


def _engine_tracks(records: Sequence[TraceRecord]) -> list[tuple[int, str, Sequence[TraceRecord]]]:
    """Return a track for each copy engine and cluster that records name; more where records overlap there."""
    engines: dict[tuple[int, str, int], list[TraceRecord]] = defaultdict(list)
    for record in records:
        if record.engine >= 0 and record.device >= 0 and (record.kind in MOVES or record.kind is Kind.LAUNCH):
            unit = "cluster" if record.kind is Kind.LAUNCH else "copy engine"
            engines[record.device, unit, record.engine].append(record)
    tracks: list[tuple[int, str, Sequence[TraceRecord]]] = []
    for (device, unit, engine), served in sorted(engines.items()):
        served.sort(key=interval)
        chosen = lanes([interval(record) for record in served])
        for lane in range(max(chosen) + 1):
            held = [record for record, its in zip(served, chosen, strict=True) if its == lane]
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


def _slice(record: TraceRecord, place: tuple[int, int], origin: int, names: TraceNames) -> Event:
    start, end = interval(record)
    arguments: dict[str, Any] = {
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
