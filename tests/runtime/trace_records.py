"""Records to test reductions with: a short way to write one, strategies for whole traces, a check of tracks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from hypothesis import strategies as st

from atops.base.trace.records import (
    AllocationEvent,
    Change,
    CommandEvent,
    CounterSample,
    HostWait,
    Kind,
    MemoryUse,
    Phase,
    Place,
    Status,
    ThreadEvent,
    ThreadState,
    Trace,
    TraceNames,
    TraceRecord,
)
from atops.trace.chrome import Event
from atops.trace.summary import Interval

NAMES = st.sampled_from(["", "scale", "größe", 'a "quoted" name', "a\nbreak", "x" * 60])
SMALL = st.integers(-1, 3)
TIMES = st.integers(0, 1 << 60)
MOMENTS = st.builds(
    CommandEvent, TIMES, TIMES, st.sampled_from(Phase), st.sampled_from(Kind), SMALL, SMALL, SMALL, TIMES, NAMES, SMALL,
    SMALL, TIMES,
)  # fmt: skip
CHANGES = st.builds(
    AllocationEvent, TIMES, SMALL, TIMES, TIMES, SMALL, st.sampled_from(Change), TIMES, TIMES, SMALL, SMALL
)
STEPS = st.builds(
    ThreadEvent, TIMES, SMALL, SMALL, SMALL, st.sampled_from(ThreadState), SMALL, SMALL, TIMES, TIMES, SMALL
)
USES = st.builds(MemoryUse, TIMES, SMALL, TIMES, TIMES)


def record(
    seq: int, kind: Kind, start: int, end: int, *, stream: int = 0, device: int = 0, **more: object
) -> TraceRecord:
    """Return a record of a command that succeeded and was submitted when it began."""
    values: dict[str, object] = {"submitted_ns": start, "status": Status.DONE, **more}
    return TraceRecord(seq, kind, device, stream, started_ns=start, finished_ns=end, **values)  # type: ignore[arg-type]


def overlapping(intervals: Iterable[Interval]) -> list[tuple[Interval, Interval]]:
    """Return the pairs of neighbours that overlap: none if one track can show all of the intervals."""
    return [(a, b) for a, b in pairwise(sorted(intervals)) if b[0] < a[1]]


def crossing_slices(events: Iterable[Event]) -> list[tuple[tuple[int, int], Interval, Interval]]:
    """Return each pair of slices that overlap on one track, as (process, track) and their nanoseconds: none if sound.

    Times are read as Perfetto reads them: microseconds times 1000, cut to an integer.
    """
    tracks: dict[tuple[int, int], list[Interval]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = int(event["ts"] * 1000)
            tracks[event["pid"], event["tid"]].append((start, start + int(event["dur"] * 1000)))
    return [(place, a, b) for place, spans in tracks.items() for a, b in overlapping(spans)]


@st.composite
def free_records(draw: st.DrawFn, top: int = 60) -> list[TraceRecord]:
    """Draw records with times and places of any kind, overlapping in every way."""
    count = draw(st.integers(0, 14))
    result = []
    for seq in range(count):
        start = draw(st.integers(0, top))
        result.append(
            TraceRecord(
                seq, draw(st.sampled_from(Kind)), draw(st.integers(-1, 1)), draw(SMALL), draw(st.integers(0, start)),
                start, draw(st.integers(start, top)), draw(st.sampled_from(Status)), draw(st.integers(0, 1 << 40)),
                draw(SMALL), draw(SMALL), draw(SMALL), draw(SMALL), draw(st.integers(-1, count)), draw(NAMES),
                draw(st.integers(-1, 2)),
            )
        )  # fmt: skip
    return sorted(result, key=lambda each: each.finished_ns)


WAITS = st.builds(HostWait, *[st.integers(0, 1 << 60)] * 2, st.integers(-1, 99), st.integers(-1, 9))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Draw a whole trace with counters, names and details."""
    samples = st.builds(CounterSample, st.integers(0, 1 << 60), st.integers(0, 7), st.integers(0, 1 << 40))
    names = TraceNames(
        devices=draw(st.dictionaries(st.integers(-1, 7), st.text())),
        streams=draw(st.dictionaries(st.tuples(SMALL, SMALL), st.text(st.characters(codec="utf-8")))),
        notes=draw(st.dictionaries(NAMES, st.text(st.characters(codec="utf-8")))),
        capacities=draw(st.dictionaries(st.tuples(SMALL, SMALL), st.integers(1, 9), max_size=2)),
        sites=draw(st.dictionaries(st.integers(0, 9), st.builds(Place, NAMES, st.integers(0, 999), NAMES), max_size=3)),
    )
    counters = tuple(draw(st.lists(samples, max_size=4)))
    return Trace(
        tuple(draw(free_records(1 << 60))), counters, names, draw(st.integers(0, 9)),
        *(tuple(draw(st.lists(values, max_size=4))) for values in (MOMENTS, CHANGES, STEPS, USES)),
        waits=tuple(draw(st.lists(WAITS, max_size=4))),
    )  # fmt: skip
