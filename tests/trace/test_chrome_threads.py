"""Kernel threads in an export: a process a launch, a track a thread, slices that follow each other."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from atops.base.trace.events import Place, ThreadEvent, ThreadState
from atops.base.trace.records import Kind, TraceNames
from atops.trace.chrome import to_chrome, write_chrome
from tests.runtime.trace_records import crossing_slices, record

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
