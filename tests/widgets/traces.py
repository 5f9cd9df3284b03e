"""Traces that never change: for pictures, and for tests that count rectangles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from atops.base.trace.records import HostWait, Kind, Place, Status, Trace, TraceNames, TraceRecord

US = 1000


def record(seq: int, kind: Kind, stream: int, start: int, end: int, **more: Any) -> TraceRecord:
    """Return the record of a command on device 0 that was submitted a little before it began; times in microseconds."""
    values = {"device": 0, "status": Status.DONE, "submitted_ns": max(0, start - 2) * US, **more}
    return TraceRecord(seq, kind, stream=stream, started_ns=start * US, finished_ns=end * US, **values)


def two_bursts(gap_ns: int = 75_000_000_000) -> Trace:
    """Return the same work twice, with a time between in which nothing ran."""
    first = double_buffering()
    by = max(each.finished_ns for each in first.records) + gap_ns
    again = (
        each._replace(
            seq=each.seq + 100, submitted_ns=each.submitted_ns + by, started_ns=each.started_ns + by,
            finished_ns=each.finished_ns + by, correlation=each.correlation + 100,
        )
        for each in first.records
    )  # fmt: skip
    return replace(first, records=(*first.records, *again))


def double_buffering(chunks: int = 6) -> Trace:
    """Return three streams that load, compute and store chunks beside each other, tied by events; one chunk fails."""
    load, compute, store = 1, 2, 3
    records: list[TraceRecord] = []
    seq = free = 0
    for chunk in range(chunks):
        begin = chunk * 50
        loaded, before = begin + 40, free
        computed = free = max(loaded, before) + 45
        failed = {"status": Status.FAILED} if chunk == 4 else {}
        common = {"bytes": 1 << 20}
        records += [
            record(seq, Kind.COPY_H2D, load, begin, loaded, **common, engine=0, dst_device=0, dst_offset=chunk << 20,
                   src_offset=0),
            record(seq + 1, Kind.RECORD, load, loaded, loaded, correlation=2 * chunk),
            record(seq + 2, Kind.WAIT_EVENT, compute, min(max(begin, before), computed - 45), computed - 45,
                   correlation=seq + 1),
            record(seq + 3, Kind.LAUNCH, compute, computed - 45, computed, name="scale", engine=chunk % 2, **failed),
            record(seq + 4, Kind.RECORD, compute, computed, computed, correlation=2 * chunk + 1),
            record(seq + 5, Kind.WAIT_EVENT, store, computed - 14, computed, correlation=seq + 4),
            record(seq + 6, Kind.COPY_D2H, store, computed, computed + 25, **common, engine=1, src_device=0,
                   src_offset=chunk << 20, dst_offset=0),
            record(seq + 7, Kind.CALL, store, computed + 25, computed + 29, name="report"),
        ]  # fmt: skip
        seq += 8
    records.sort(key=lambda each: each.finished_ns)
    streams = {(0, load): "load", (0, compute): "compute", (0, store): "store"}
    return Trace(tuple(records), names=TraceNames(streams=streams))


def with_host(more_waits: int = 0) -> Trace:
    """Return `double_buffering` with calls that enqueued copies 0, 8 and 16, and waits at two lines, two at once.

    `more_waits` tasks wait beside them, from 100 microseconds on.
    """
    trace, name = double_buffering(), "topsMemcpyAsync"
    begun = {0: (0, 4), 8: (46, 52), 16: (96, 103)}  # copies were submitted 2 microseconds before they began
    calls = [record(-1, Kind.API, -1, *span, correlation=seq, name=name) for seq, span in begun.items()]
    calls.append(record(-1, Kind.API, -1, 104, 140, name="topsStreamSynchronize"))
    waits = [HostWait(20 * US, 86 * US, 3, 0), HostWait(60 * US, 90 * US, 4, 1)]
    waits += [HostWait(100 * US, 200 * US, 19, 1)] * more_waits
    sites = {0: Place("/p/main.py", 7, "main"), 1: Place("/p/main.py", 12, "other")}
    records = sorted([*trace.records, *calls], key=lambda each: each.finished_ns)
    return replace(trace, records=tuple(records), waits=tuple(waits), names=replace(trace.names, sites=sites))
