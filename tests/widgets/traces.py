"""Traces that never change: for pictures, and for tests that count rectangles."""

from __future__ import annotations

from typing import Any

from atops.base.trace.records import Kind, Status, Trace, TraceNames, TraceRecord

US = 1000


def record(seq: int, kind: Kind, stream: int, start: int, end: int, **more: Any) -> TraceRecord:
    """Return the record of a command on device 0 that was submitted a little before it began; times in microseconds."""
    values = {"device": 0, "status": Status.DONE, "submitted_ns": max(0, start - 2) * US, **more}
    return TraceRecord(seq, kind, stream=stream, started_ns=start * US, finished_ns=end * US, **values)


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
