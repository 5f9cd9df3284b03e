"""Figures of a trace: rows to draw, time and bytes by stream and kind, overlap, idleness and the critical path.

Pure functions from records to values.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

from atops.base.trace.records import COPIES, WAITS, Kind, Status, TraceNames, TraceRecord
from atops.trace.words import report

__all__ = (
    "Interval", "Row", "Summary", "critical_path", "gaps", "in_lanes", "intersect", "interval", "lanes",
    "length", "merge", "rows", "summary",
)  # fmt: skip

Interval: TypeAlias = tuple[int, int]  # half-open, of integer nanoseconds

BESIDE: Final = frozenset({Kind.CALL, Kind.API})  # may run beside their stream; the stream's own commands go first


@dataclass(frozen=True, slots=True)
class Row:
    """Records that one line can show without overlap: of a stream (-1: of none) and, from lane 1 on, beside it."""

    device: int
    stream: int
    lane: int
    label: str
    records: tuple[TraceRecord, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a trace; times in nanoseconds. `print(summary)` shows them as tables.

    - `first_ns`, `last_ns`, `span_ns`: from the start of the first record to the end of the last.
    - `statuses`, `counts`: records by how they ended, and by kind.
    - `busy_ns`, `waiting_ns`: by (device, stream), the time in which it did something, or only waited.
    - `kind_ns`, `kind_bytes`: by kind, the time in which at least one ran, and the bytes.
    - `copy_ns`, `kernel_ns`: summed over devices, the time in which at least one copy, or kernel, ran there.
    - `overlap_ns`, `overlap`: the part of `copy_ns` in which a kernel ran on the same device; and as a fraction.
    - `idle_ns`, `idle`, `longest_idle`: the time inside the span in which nothing but waits ran; its share; its
      longest piece.
    - `kernels`: by name, how many launches there were and the sum of their times.
    - `streams`, `devices`: the names of those that have one, of streams by (device, stream).
    """

    first_ns: int
    last_ns: int
    statuses: Mapping[Status, int]
    counts: Mapping[Kind, int]
    busy_ns: Mapping[tuple[int, int], int]
    waiting_ns: Mapping[tuple[int, int], int]
    kind_ns: Mapping[Kind, int]
    kind_bytes: Mapping[Kind, int]
    copy_ns: int
    kernel_ns: int
    overlap_ns: int
    idle_ns: int
    longest_idle: Interval
    kernels: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    streams: Mapping[tuple[int, int], str] = field(default_factory=dict)
    devices: Mapping[int, str] = field(default_factory=dict)

    @property
    def span_ns(self) -> int:
        """Return the time from the first record's start to the last one's end."""
        return self.last_ns - self.first_ns

    @property
    def overlap(self) -> float:
        """Return the fraction of copy time in which a kernel ran on the same device; 0.0 without copies."""
        return self.overlap_ns / self.copy_ns if self.copy_ns else 0.0

    @property
    def idle(self) -> float:
        """Return the share of the span in which nothing but waits ran; 0.0 of an empty span."""
        return self.idle_ns / self.span_ns if self.span_ns else 0.0

    def __str__(self) -> str:
        return report(self)


def interval(record: TraceRecord) -> Interval:
    """Return when a record ran. What never began (skipped, aborted in the queue) is a point at its end."""
    return min(record.started_ns, record.finished_ns), record.finished_ns


def rows(records: Iterable[TraceRecord], names: TraceNames | None = None) -> list[Row]:
    """Return the lines that show all records: by device, by stream, and by lane where things of a stream overlap."""
    names = names or TraceNames()
    streams: dict[tuple[int, int], list[TraceRecord]] = defaultdict(list)
    for record in records:
        streams[record.device, record.stream].append(record)
    result: list[Row] = []
    for (device, stream), own in sorted(streams.items()):
        label = names.streams.get((device, stream)) or (f"stream {stream}" if stream >= 0 else "outside")
        ordered = sorted(own, key=lambda record: (record.kind in BESIDE, *interval(record)))
        for lane, held in enumerate(in_lanes(ordered)):
            result.append(Row(device, stream, lane, f"{label} +{lane}" if lane else label, tuple(held)))
    return result


def in_lanes(records: Sequence[TraceRecord]) -> list[list[TraceRecord]]:
    """Return records in lanes where none overlaps another, each in order of time; earlier records choose first."""
    chosen = lanes([interval(record) for record in records])
    found: list[list[TraceRecord]] = [[] for _ in range(max(chosen, default=-1) + 1)]
    for record, lane in zip(records, chosen, strict=True):
        found[lane].append(record)
    for held in found:
        held.sort(key=interval)
    return found


def summary(records: Sequence[TraceRecord], names: TraceNames | None = None) -> Summary:
    """Return the figures of a trace, all zero for an empty one, with the `names` of its streams and devices."""
    statuses: dict[Status, int] = defaultdict(int)
    counts: dict[Kind, int] = defaultdict(int)
    kind_bytes: dict[Kind, int] = defaultdict(int)
    kinds: dict[Kind, list[Interval]] = defaultdict(list)
    busy: dict[tuple[int, int], list[Interval]] = defaultdict(list)
    waiting: dict[tuple[int, int], list[Interval]] = defaultdict(list)
    for record in records:
        statuses[record.status] += 1
        counts[record.kind] += 1
        if record.status is Status.DONE:
            kind_bytes[record.kind] += record.bytes
        kinds[record.kind].append(interval(record))
        if record.kind is Kind.API:
            continue  # the host's time: no stream is busy with it
        by_stream = waiting if record.kind in WAITS else busy
        by_stream[record.device, record.stream].append(interval(record))
    names = names or TraceNames()
    busy_ns = {key: length(merge(busy[key])) for key in sorted({*busy, *waiting})}
    first = min((interval(record)[0] for record in records), default=0)
    last = max((record.finished_ns for record in records), default=0)
    working = merge(span for spans in busy.values() for span in spans)
    idle = gaps([(first, first), *working, (last, last)])
    copy_ns, kernel_ns, overlap_ns = _overlap(records)
    return Summary(
        first_ns=first, last_ns=last,
        statuses=dict(statuses),
        counts=dict(sorted(counts.items())),
        busy_ns=busy_ns,
        waiting_ns={key: length(merge(waiting[key])) - length(intersect(merge(waiting[key]), merge(busy[key])))
                    for key in busy_ns},
        kind_ns={kind: length(merge(spans)) for kind, spans in sorted(kinds.items())},
        kind_bytes=dict(sorted(kind_bytes.items())),
        copy_ns=copy_ns,
        kernel_ns=kernel_ns,
        overlap_ns=overlap_ns,
        idle_ns=length(idle),
        longest_idle=max(idle, key=lambda gap: (gap[1] - gap[0], -gap[0])),
        kernels=_kernels(records), streams=dict(names.streams), devices=dict(names.devices),
    )  # fmt: skip


def critical_path(records: Sequence[TraceRecord]) -> list[TraceRecord]:
    """Return the chain of records that ends with the last one to finish, earliest first.

    Before each record comes what it had to wait for longest: the record before it in its stream, or the one that
    satisfied its wait, whichever finished later.
    """
    commands = (record for record in records if record.kind is not Kind.API)  # a call of the host's waits in no stream
    ordered = sorted(commands, key=lambda record: (record.seq, record.finished_ns))  # a command may have several parts
    by_seq = {record.seq: place for place, record in enumerate(ordered) if record.seq >= 0}
    before: list[int | None] = []
    latest: dict[tuple[int, int], int] = {}
    for place, record in enumerate(ordered):
        previous = latest.get((record.device, record.stream)) if record.stream >= 0 else None
        while previous is not None and ordered[previous].finished_ns > interval(record)[0]:
            previous = before[previous]  # it ran beside the stream and delayed nothing
        before.append(previous)
        latest[record.device, record.stream] = place

    def finish(place: int) -> tuple[int, int]:
        return ordered[place].finished_ns, place

    path: list[int] = []
    step = max(range(len(ordered)), key=finish, default=None)
    seen: set[int] = set()
    while step is not None and step not in seen:
        path.append(step)
        seen.add(step)
        causes = [cause for cause in (before[step], by_seq.get(ordered[step].cause)) if cause is not None]
        step = max(causes, key=finish, default=None)
    return [ordered[place] for place in reversed(path)]


def _kernels(records: Iterable[TraceRecord]) -> dict[str, tuple[int, int]]:
    """Return the number of launches and the sum of their times, by the kernel's name."""
    found: dict[str, tuple[int, int]] = {}
    for record in records:
        if record.kind is Kind.LAUNCH:
            count, total = found.get(record.name, (0, 0))
            start, end = interval(record)
            found[record.name] = count + 1, total + end - start
    return dict(sorted(found.items()))


def _overlap(records: Iterable[TraceRecord]) -> tuple[int, int, int]:
    """Return copy time, kernel time and the time of both at once, each merged by device and summed."""
    copies: dict[int, list[Interval]] = defaultdict(list)
    kernels: dict[int, list[Interval]] = defaultdict(list)
    for record in records:
        if record.kind in COPIES:
            copies[record.device].append(interval(record))
        elif record.kind is Kind.LAUNCH:
            kernels[record.device].append(interval(record))
    copy_ns = kernel_ns = both_ns = 0
    for device in {*copies, *kernels}:
        copied, computed = merge(copies[device]), merge(kernels[device])
        copy_ns += length(copied)
        kernel_ns += length(computed)
        both_ns += length(intersect(copied, computed))
    return copy_ns, kernel_ns, both_ns


# ---- arithmetic of intervals: exact, and ignorant of what happens in them


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union as disjoint intervals in order; what touches is joined and what is empty is left out."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def length(merged: Iterable[Interval]) -> int:
    """Return the sum of the lengths, which is the time covered when the intervals are merged."""
    return sum(end - start for start, end in merged)


def intersect(first: Sequence[Interval], second: Sequence[Interval]) -> list[Interval]:
    """Return what two merged lists have in common, merged."""
    common: list[Interval] = []
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            common.append((start, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return common


def gaps(merged: Sequence[Interval]) -> list[Interval]:
    """Return what lies between the intervals of a merged list."""
    return [(before[1], after[0]) for before, after in pairwise(merged)]


def lanes(intervals: Sequence[Interval]) -> list[int]:
    """Place each interval in the first lane where it overlaps none placed before; return the lane of each.

    Earlier intervals choose first, so that the first one has lane 0. An empty interval is a point: it may
    stand at the edge of another interval, or on another point, but not inside.
    """
    placed: list[list[Interval]] = []
    chosen: list[int] = []
    for start, end in intervals:
        number = next((number for number, lane in enumerate(placed) if _fits(lane, start, end)), len(placed))
        if number == len(placed):
            placed.append([])
        insort(placed[number], (start, end))
        chosen.append(number)
    return chosen


def _fits(lane: Sequence[Interval], start: int, end: int) -> bool:
    where = bisect(lane, (start, end))
    return (where == 0 or lane[where - 1][1] <= start) and (where == len(lane) or end <= lane[where][0])
