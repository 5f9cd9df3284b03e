"""The Chrome trace: tracks that viewers can draw, exact times, arrows bound to the right slices, everything named."""

from __future__ import annotations

import gzip
import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.trace.records import (
    WAITS,
    CounterSample,
    Kind,
    Place,
    Status,
    ThreadEvent,
    ThreadState,
    TraceNames,
    TraceRecord,
)
from atops.trace.chrome import to_chrome, write_chrome
from atops.trace.summary import interval
from tests.runtime.trace_records import crossing_slices, free_records, record

Event = dict[str, Any]


def nanoseconds(event: Event) -> tuple[int, int]:
    """Return the start and end of a slice as Perfetto reads them."""
    start = int(event["ts"] * 1000)
    return start, start + int(event["dur"] * 1000)


def slices(trace: dict[str, Any]) -> list[Event]:
    """Return the slices of a trace."""
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def track_names(trace: dict[str, Any]) -> dict[tuple[int, int], str]:
    """Return what each track is called."""
    return {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] == "thread_name"
    }


def bound_slices(trace: dict[str, Any]) -> dict[int, dict[str, int]]:
    """Bind arrows as Perfetto does: to the slice opened last on the track when the event is read. seq by id and end."""
    opened: dict[tuple[int, int], Event] = {}
    bound: dict[int, dict[str, int]] = defaultdict(dict)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            opened[event["pid"], event["tid"]] = event
        elif event["ph"] in "sf":
            assert event["ph"] == "s" or "s" in bound[event["id"]], "an arrow's head is read before its tail"
            bound[event["id"]][event["ph"]] = opened[event["pid"], event["tid"]]["args"]["seq"]
    return bound


@pytest.mark.slow
@given(free_records())
def test_no_slices_cross_on_any_track(records: list[TraceRecord]) -> None:
    """Whatever overlaps in the records, no track shows two slices at once."""
    assert crossing_slices(to_chrome(records)["traceEvents"]) == []


def test_crossing_slices_are_seen() -> None:
    """The check itself finds slices that cross or nest on one track, and only there."""
    def event(tid: int, ts: float, dur: float) -> Event:
        return {"ph": "X", "pid": 1, "tid": tid, "ts": ts, "dur": dur}

    assert crossing_slices([event(1, 0.0, 0.003), event(1, 0.003, 1.0), event(2, 0.001, 1.0)]) == []
    assert crossing_slices([event(1, 0.0, 0.004), event(1, 0.003, 1.0)]) == [((1, 1), (0, 4), (3, 1003))]
    assert len(crossing_slices([event(1, 0.0, 9.0), event(1, 1.0, 1.0)])) == 1


@pytest.mark.slow
@given(free_records(1 << 50), st.integers(0, 1 << 60))
def test_times_are_exact_and_start_at_zero(records: list[TraceRecord], origin: int) -> None:
    """Each record is on one stream track, at its nanoseconds since the first one, however large the clock's times."""
    records = [
        each._replace(started_ns=each.started_ns + origin, finished_ns=each.finished_ns + origin) for each in records
    ]
    trace = to_chrome(records)
    names = track_names(trace)
    first = min((interval(each)[0] for each in records), default=0)
    shown: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in slices(trace):
        if "cluster" not in names[event["pid"], event["tid"]] and "engine" not in names[event["pid"], event["tid"]]:
            shown[event["args"]["seq"]].append(nanoseconds(event))
    expected = {each.seq: [(interval(each)[0] - first, interval(each)[1] - first)] for each in records}
    assert shown == expected


@pytest.mark.slow
@given(free_records())
def test_events_are_in_order_and_the_trace_is_plain_json(records: list[TraceRecord]) -> None:
    """Times never go back in the file, metadata comes first, and the JSON has no NaN and no surprises."""
    trace = to_chrome(records, counters=[CounterSample(5, 0, 64)])
    assert json.loads(json.dumps(trace, allow_nan=False)) == trace
    phases = [event["ph"] for event in trace["traceEvents"]]
    assert "M" not in phases[phases.count("M") :]
    times = [event["ts"] for event in trace["traceEvents"] if "ts" in event]
    assert times == sorted(times)


@st.composite
def driven_records(draw: st.DrawFn) -> list[TraceRecord]:
    """Draw what a driver could emit: streams one command at a time, waits that end after their cause, many ties."""
    free_at = [0, 0, 0]
    result: list[TraceRecord] = []
    for seq in range(draw(st.integers(0, 12))):
        stream = draw(st.integers(0, 2))
        start = free_at[stream]
        marks = [each for each in result if each.kind in (Kind.RECORD, Kind.WRITE_VALUE, Kind.FILL)]
        if marks and draw(st.booleans()):
            cause = draw(st.sampled_from(marks))
            end = max(start, cause.finished_ns) + draw(st.integers(0, 1))
            made = record(seq, Kind.WAIT_EVENT, start, end, stream=stream, correlation=cause.seq)
        else:
            kind = draw(st.sampled_from([Kind.RECORD, Kind.WRITE_VALUE, Kind.LAUNCH, Kind.FILL]))
            long = kind in (Kind.LAUNCH, Kind.FILL)
            made = record(seq, kind, start, start + draw(st.integers(0, 3 if long else 1)), stream=stream)
        free_at[stream] = made.finished_ns
        result.append(made)
    return sorted(result, key=lambda each: each.finished_ns)  # stable: the order in which they settled


@pytest.mark.slow
@given(driven_records())
def test_arrows_bind_to_the_record_and_the_wait_it_satisfied(records: list[TraceRecord]) -> None:
    """Every satisfied wait has one arrow; its tail binds to the cause and its head to the wait, also in one instant."""
    expected = {each.seq: {"s": each.cause, "f": each.seq} for each in records if each.cause >= 0}
    assert bound_slices(to_chrome(records)) == expected


@pytest.mark.slow
@given(driven_records())
def test_the_tail_of_an_arrow_lies_inside_its_slice(records: list[TraceRecord]) -> None:
    """A viewer that binds by time alone finds the cause too: the tail comes before the end of its slice."""
    events = to_chrome(records)["traceEvents"]
    ends = {event["args"]["seq"]: nanoseconds(event) for event in events if event["ph"] == "X"}
    causes = {each.seq: each.cause for each in records}
    for event in events:
        if event["ph"] == "s":
            start, end = ends[causes[event["id"]]]
            assert start <= int(event["ts"] * 1000) <= max(start, end - 1)


@pytest.mark.parametrize("end", [11, 15, 20])
def test_a_write_that_ends_a_value_wait_is_over_after_it(end: int) -> None:
    """The wait ends while the write is still under way: the arrow's ends lie inside both slices all the same."""
    wait = record(1, Kind.WAIT_VALUE, 5, end, stream=0, correlation=2)
    write = record(2, Kind.WRITE_VALUE, 10, 20, stream=1)
    trace = to_chrome([wait, write])
    assert bound_slices(trace) == {1: {"s": 2, "f": 1}}
    spans = {event["args"]["seq"]: nanoseconds(event) for event in slices(trace)}
    [tail, head] = [int(event["ts"] * 1000) for event in trace["traceEvents"] if event["ph"] in "sf"]
    for at, seq in ((tail, 2), (head, 1)):
        start, stop = spans[seq]
        assert start <= at < stop
    assert tail <= head


@pytest.mark.slow
@given(free_records())
def test_arrows_come_in_pairs_and_only_to_waits(records: list[TraceRecord]) -> None:
    """In any trace, however senseless, arrows have both ends, run forwards, and lead to waits with a cause."""
    seqs = {each.seq for each in records}
    ends: dict[int, list[Event]] = defaultdict(list)
    for event in to_chrome(records)["traceEvents"]:
        if event["ph"] in "sf":
            ends[event["id"]].append(event)
    waits = {each.seq for each in records if each.kind in WAITS and each.cause in seqs - {each.seq}}
    assert set(ends) == waits
    for pair in ends.values():
        assert sorted(event["ph"] for event in pair) == ["f", "s"]
        tail, head = sorted(pair, key=lambda event: event["ph"], reverse=True)
        assert tail["ts"] <= head["ts"]


def test_engines_have_tracks_of_their_own() -> None:
    """A copy and a kernel show on their stream and again on the engine that served them, in numerical order."""
    trace = to_chrome(
        [
            record(0, Kind.COPY_H2D, 0, 10, stream=1, engine=10),
            record(1, Kind.COPY_D2H, 0, 10, stream=2, engine=2),
            record(2, Kind.LAUNCH, 5, 20, stream=3, engine=1),
            record(3, Kind.LAUNCH, 6, 20, stream=4, engine=1),
            record(4, Kind.CALL, 0, 5, device=-1, stream=-1, engine=0),
        ]
    )
    assert [(pid, name) for (pid, _), name in track_names(trace).items()] == [
        (1, "outside"), (2, "stream 1"), (2, "stream 2"), (2, "stream 3"), (2, "stream 4"),
        (2, "cluster 1"), (2, "cluster 1 +1"), (2, "copy engine 2"), (2, "copy engine 10"),
    ]  # fmt: skip
    processes = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert processes == {1: "host", 2: "device 0"}


def test_tracks_are_numbered_so_that_viewers_take_none_for_a_main_thread() -> None:
    """No track has number 0 or that of its process, and no process is 0."""
    for pid, tid in track_names(to_chrome([record(0, Kind.API, 0, 1, device=-1), record(1, Kind.FILL, 0, 1)])):
        assert pid > 0
        assert tid not in (0, pid)


def test_a_slice_carries_what_its_record_says() -> None:
    """Name, category, bytes, rate, places, queue time, note and failure are there to read, not only to see."""
    (event,) = slices(
        to_chrome(
            [record(3, Kind.COPY_D2H, 2000, 3000, stream=1, submitted_ns=500, bytes=4096, src_device=0, src_offset=256,
                    dst_offset=0, name="fetch", status=Status.FAILED)],
            names=TraceNames(notes={"fetch": "graph 7"}),
        )
    )  # fmt: skip
    assert (event["name"], event["cat"], event["cname"]) == ("fetch [failed]", "copy device to host", "terrible")
    assert event["args"] == {
        "seq": 3, "status": "failed", "stream": 1, "queued_us": 1.5, "bytes": 4096, "GB/s": 4.096,
        "to": "host memory", "from": "device 0 + 0x100", "note": "graph 7",
    }  # fmt: skip


def test_memory_in_use_is_a_counter_of_its_device() -> None:
    """Counter samples lie on the same time axis, in the device's process, under the names given."""
    trace = to_chrome(
        [record(0, Kind.ALLOC, 1000, 1000, device=1)],
        counters=[CounterSample(1500, 1, 4096)],
        names=TraceNames(devices={1: "left card"}),
    )
    (counter,) = [event for event in trace["traceEvents"] if event["ph"] == "C"]
    assert counter == {"ph": "C", "name": "memory in use", "ts": 0.5, "pid": 3, "args": {"bytes": 4096}}
    assert trace["traceEvents"][0] == {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "left card"}}


def test_writing_to_a_path_a_compressed_path_and_a_file(tmp_path: Path) -> None:
    """All three hold the same trace."""
    records = [record(0, Kind.LAUNCH, 0, 10, name="größe")]
    plain, packed, opened = tmp_path / "t.json", tmp_path / "t.json.gz", io.StringIO()
    for target in (plain, str(packed), opened):
        write_chrome(target, records)
    expected = to_chrome(records)
    assert json.loads(plain.read_text(encoding="utf-8")) == expected
    assert json.loads(gzip.decompress(packed.read_bytes())) == expected
    assert json.loads(opened.getvalue()) == expected


STEPS = [
    ThreadEvent(10, 4, 0, 0, ThreadState.RUNS, -1, -1),
    ThreadEvent(20, 4, 0, 0, ThreadState.DTE, 3, 0, 64, 128),
    ThreadEvent(25, 4, 0, 1, ThreadState.RUNS),
    ThreadEvent(30, 4, 0, 0, ThreadState.RUNS, -1, 0, 64, 128),
    ThreadEvent(35, 4, 0, 1, ThreadState.BARRIER, 0),
    ThreadEvent(50, 4, 0, 0, ThreadState.ENDED),
]


def test_a_track_a_thread() -> None:
    """A step lasts until the next one of its thread; an end is an instant, the last that is none a point."""
    names = TraceNames(sites={0: Place("code/scale.py", 9, "scale")})
    events = to_chrome([record(4, Kind.LAUNCH, 5, 60, name="scale")], names=names, steps=STEPS)["traceEvents"]
    processes = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert processes == ["device 0", "threads of scale (command 4)"]
    tracks = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert tracks[-2:] == ["block 0 thread 0", "block 0 thread 1"]
    mine = [event for event in events if event.get("cat") == "kernel thread"]
    assert [(event["name"], event["ph"], event["ts"], event.get("dur")) for event in mine] == [
        ("runs", "X", 0.005, 0.01),
        ("waits for transfer 3", "X", 0.015, 0.01),
        ("runs", "X", 0.02, 0.01),
        ("runs", "X", 0.025, 0.02),
        ("waits at the block barrier", "X", 0.03, 0.0),
        ("ended", "i", 0.045, None),
    ]
    assert mine[1]["args"] == {"l1_bytes": 64, "l2_bytes": 128, "at": "scale.py:9 in scale"}


def test_without_steps_there_are_no_tracks() -> None:
    """An ordinary trace has no process for threads."""
    records = [record(4, Kind.LAUNCH, 5, 60, name="scale")]
    assert to_chrome(records, steps=()) == to_chrome(records)
    assert not [event for event in to_chrome(records)["traceEvents"] if event["pid"] >= 100]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.sampled_from(ThreadState)), max_size=20))
def test_slices_of_a_thread_never_cross(moves: list[tuple[int, int, ThreadState]]) -> None:
    """Whatever threads do, viewers find slices that only touch, in order of time."""
    now, steps = 0, []
    for wait, thread, turn in moves:
        now += wait
        steps.append(ThreadEvent(now, 1, 0, thread, turn))
    trace = to_chrome([], steps=steps)
    assert crossing_slices(trace["traceEvents"]) == []
    times = [event["ts"] for event in trace["traceEvents"] if "ts" in event]
    assert times == sorted(times)


def test_a_file_has_them_too(tmp_path: Path) -> None:
    """What is written is what `to_chrome` makes."""
    write_chrome(tmp_path / "t.json", [], steps=STEPS)
    assert json.loads((tmp_path / "t.json").read_text(encoding="utf-8")) == to_chrome([], steps=STEPS)


def test_the_anchor_gives_the_time_of_day_of_the_first_record() -> None:
    """It stands in the trace's metadata and as an event at its begin; without an anchor there is neither."""
    records = [record(0, Kind.FILL, 2_000_000_005, 3_000_000_000), record(1, Kind.FILL, 3_000_000_000, 4_000_000_000)]
    trace = to_chrome(records, anchor_ns=1_700_000_000_000_000_000)
    day = {"utc": "2023-11-14T22:13:22.000000005Z", "unix_ns": "1700000002000000005"}
    assert trace["otherData"] == day
    events: Any = trace["traceEvents"]
    (moment,) = [event for event in events if event.get("cat") == "time of day"]
    assert (moment["ph"], moment["ts"], moment["name"], moment["args"]) == ("i", 0.0, day["utc"], day)
    assert [event for event in events if event is not moment] == to_chrome(records)["traceEvents"]
    assert "otherData" not in to_chrome(records)
