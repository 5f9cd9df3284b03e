"""Trace files: lossless, and refused with a reason when cut off, damaged or of another version."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.errors import InvalidValue
from atops.base.trace.records import (
    AllocationEvent,
    Change,
    CommandEvent,
    CounterSample,
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
from atops.trace.file import load, records_from_json, records_to_json, save
from tests.every import every
from tests.runtime.trace_records import record, traces

SAMPLE = Trace(
    (record(0, Kind.LAUNCH, 5, 9, name="scale"), record(1, Kind.FILL, 9, 9, status=Status.SKIPPED)),
    (CounterSample(7, 0, 4096),),
    TraceNames(streams={(0, 0): "main"}, notes={"scale": "graph 7"}, sites={0: Place("a.py", 7, "main")}),
    dropped=3,
    moments=(CommandEvent(4, 0, Phase.SUBMITTED, Kind.LAUNCH, 0, 0, name="scale", site=0),),
    changes=(AllocationEvent(4, 0, 256, 100, 1, Change.ALLOCATED, 0, 512),),
    steps=(ThreadEvent(6, 0, 0, 1, ThreadState.BARRIER, 0),),
    uses=(MemoryUse(0, 0, 256, 100), MemoryUse(0, 1, 0, 4096)),
    anchor_ns=1_700_000_000_123_456_789,
)


@pytest.mark.slow
@given(traces())
def test_nothing_is_lost(trace: Trace) -> None:
    """Any trace comes back equal, with its enumerations as enumerations."""
    again = records_from_json(records_to_json(trace))
    assert again == trace
    for each in again.records:
        assert (type(each), type(each.kind), type(each.status)) == (TraceRecord, Kind, Status)
    for moment in again.moments:
        assert (type(moment), type(moment.phase), type(moment.kind)) == (CommandEvent, Phase, Kind)
    for change in again.changes:
        assert (type(change), type(change.change)) == (AllocationEvent, Change)
    for step in again.steps:
        assert (type(step), type(step.turn)) == (ThreadEvent, ThreadState)
    assert {type(use) for use in again.uses} <= {MemoryUse}


@pytest.mark.slow
@given(traces(), st.data())
def test_a_text_cut_anywhere_is_refused(trace: Trace, data: st.DataObject) -> None:
    """No prefix of a trace passes for a trace."""
    text = records_to_json(trace)
    with pytest.raises(InvalidValue, match="cut off or damaged"):
        records_from_json(text[: data.draw(st.integers(0, len(text) - 1))])


@pytest.mark.parametrize("name", ["run.trace", "run.trace.gz"])
def test_a_file_is_replaced_whole(tmp_path: Path, name: str) -> None:
    """Saving over an old trace leaves the new one and nothing else; compressed or not it loads the same."""
    path = tmp_path / name
    save(path, Trace())
    save(str(path), SAMPLE)
    assert load(path) == SAMPLE
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["run.trace", "run.trace.gz"])
def test_a_file_cut_off_is_named(tmp_path: Path, name: str) -> None:
    """A file that lost its end is refused by name, packed or plain."""
    path = tmp_path / name
    save(path, SAMPLE)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InvalidValue, match=rf"{name}.*cut off or damaged"):
        load(path)


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    """Flipped bits inside a packed file are refused by name too."""
    path = tmp_path / "run.trace.gz"
    save(path, SAMPLE)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(InvalidValue, match=r"run\.trace\.gz"):
        load(path)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    """A missing file is the system's error, not a damaged trace."""
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


DAMAGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another format": (lambda c: c.update(format="other"), "no trace"),
    "a newer version": (lambda c: c.update(version=2), "version 2; this package reads version 1"),
    "other fields": (lambda c: c["fields"].pop(), "fields"),
    "an unknown kind": (lambda c: c["kinds"].__setitem__(6, "TELEPORT"), "TELEPORT"),
    "a name out of its table": (lambda c: c["records"][0].__setitem__(14, 9), "damaged"),
    "a negative place": (lambda c: c["records"][0].__setitem__(1, -1), "kind is -1"),
    "a short record": (lambda c: c["records"][1].pop(), "16 integers"),
    "a float": (lambda c: c["records"][1].__setitem__(5, 0.5), "16 integers"),
    "a phase out of its table": (lambda c: c["moments"][0].__setitem__(2, 3), "damaged"),
    "a negative change": (lambda c: c["changes"][0].__setitem__(5, -1), "change is -1"),
    "a short step": (lambda c: c["steps"][0].pop(), "10 integers"),
    "a short use": (lambda c: c["uses"][1].pop(), "4 integers"),
    "a name that is no text": (lambda c: c["names"].__setitem__(0, True), "damaged"),
    "a label that is no text": (lambda c: c["streams"][0].__setitem__(2, 7), "damaged"),
    "a note that is no text": (lambda c: c["notes"].__setitem__("why", 7), "damaged"),
    "a count that is no number": (lambda c: c.__setitem__("dropped", "3"), "damaged"),
    "names that are one text": (lambda c: c.__setitem__("names", "fill"), "damaged"),
    "a place of no number": (lambda c: c["sites"][0].__setitem__(0, "x"), "1 integers"),
    "a use that is no list": (lambda c: c["uses"].append(7), "damaged"),
    "a use of a text": (lambda c: c["uses"][0].__setitem__(3, "100"), "4 integers"),
    "a place that is none": (lambda c: c["sites"][0].__setitem__(2, "seven"), "is no place"),
    "a missing part": (lambda c: c.pop("counters"), "counters"),
}


@every("what", DAMAGES)
def test_what_contradicts_itself_is_refused_with_the_reason(what: str) -> None:
    """Each kind of damage is an InvalidValue that says what is wrong."""
    damage, reason = DAMAGES[what]
    content = json.loads(records_to_json(SAMPLE))
    damage(content)
    with pytest.raises(InvalidValue, match=reason):
        records_from_json(json.dumps(content))


def test_a_file_of_before_there_were_details() -> None:
    """A file without details has none, and is otherwise what it was."""
    content = json.loads(records_to_json(SAMPLE))
    for part in ("moments", "changes", "steps", "uses", "sites", "phases", "sorts_of_change", "turns", "anchor_ns"):
        del content[part]
    names = TraceNames(streams=SAMPLE.names.streams, notes=SAMPLE.names.notes)
    assert records_from_json(json.dumps(content)) == Trace(SAMPLE.records, SAMPLE.counters, names, SAMPLE.dropped)


def test_a_file_of_before_uses_were_told() -> None:
    """A file with the other details and without uses has none of those, and is otherwise what it was."""
    content = json.loads(records_to_json(SAMPLE))
    del content["uses"]
    assert records_from_json(json.dumps(content)) == replace(SAMPLE, uses=())


def test_a_list_is_no_trace() -> None:
    """JSON of another shape is refused as no trace."""
    with pytest.raises(InvalidValue, match="no trace"):
        records_from_json("[]")


def test_kinds_are_stored_by_name() -> None:
    """A file whose table of kinds is in another order means the same: numbers are places in its own tables."""
    content = json.loads(records_to_json(SAMPLE))
    content["kinds"][5], content["kinds"][6] = content["kinds"][6], content["kinds"][5]
    for row, kind in [(content["records"][0], 1), (content["records"][1], 1), (content["moments"][0], 3)]:
        row[kind] = {5: 6, 6: 5}[row[kind]]
    assert records_from_json(json.dumps(content)) == SAMPLE


def test_a_file_without_a_time_of_day_has_none() -> None:
    """A file from before there was an anchor, and the trace of a virtual clock, are read without one."""
    text = records_to_json(replace(SAMPLE, anchor_ns=None))
    assert "anchor_ns" not in text and records_from_json(text).anchor_ns is None


@pytest.mark.parametrize("anchor", ['"noon"', "null", "1.5", "[3]"])
def test_an_anchor_that_is_no_number_is_refused(anchor: str) -> None:
    """The error says that the trace is damaged."""
    with pytest.raises(InvalidValue, match="damaged"):
        records_from_json(records_to_json(SAMPLE).replace("1700000000123456789", anchor))
