"""Two traces aligned command by command: the first that differs, what moved, what is in one alone, and other times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import atops
from atops.base.trace.records import Kind, Status, Trace, TraceNames, TraceRecord
from atops.trace.compare import MOST, Pair, compare
from tests.every import every

FILL, COPY, LAUNCH = Kind.FILL, Kind.COPY_H2D, Kind.LAUNCH


def trace(*commands: tuple[Any, ...]) -> Trace:
    """Return a trace of commands, one each 10 ns: (kind, stream), and any other fields."""
    records = []
    for seq, (kind, stream, *more) in enumerate(commands):
        fields: dict[str, Any] = {"status": Status.DONE, "finished_ns": 10 * seq + 5} | (more[0] if more else {})
        records.append(TraceRecord(seq, kind, 0, stream, 0, 10 * seq, **fields))
    return Trace(tuple(reversed(records)), names=TraceNames(streams={(0, 1): "load", (0, 2): "work"}))


A, B, C, D = (FILL, 1), (COPY, 2), (LAUNCH, 1, {"name": "add"}), (LAUNCH, 2, {"name": "scale"})
LATE = (COPY, 2, {"finished_ns": 19})
FAILED = (COPY, 2, {"status": Status.FAILED})


@every("one, other, first, whats", [
    ((A, B, C), (A, B, C), None, ["alike"] * 3),
    ((), (), None, []),
    ((A, B, C), (A, LATE, C), None, ["alike", "another time", "alike"]),
    ((A, B, C), (A, FAILED, C), 1, ["alike", "another end", "alike"]),
    ((A, B, C), (A, C), 1, ["alike", "only in the first", "alike"]),
    ((A, C), (A, B, C), 1, ["alike", "only in the second", "alike"]),
    ((A, B, C), (B, A, C), 0, ["earlier in the second", "alike", "alike"]),
    ((A, B, C, D), (A, D, B, C), 1, ["alike", "earlier in the second", "alike", "alike"]),
    ((A, D, B, C), (A, B, C, D), 1, ["alike", "later in the second", "alike", "alike"]),
    ((A, A, A), (A, A), 2, ["alike", "alike", "only in the first"]),
    ((A,), (B,), 0, ["only in the first", "only in the second"]),
])  # fmt: skip
def test_what_differs(one: Any, other: Any, first: int | None, whats: list[str]) -> None:
    """Each command of both is in one pair, and the first that differs is found."""
    found = compare(trace(*one), trace(*other))
    assert found.first == first and [pair.what for pair in found.pairs] == whats
    assert sorted(pair.one.seq for pair in found.pairs if pair.one) == list(range(len(one)))
    assert sorted(pair.other.seq for pair in found.pairs if pair.other) == list(range(len(other)))


def test_streams_are_the_same_by_name() -> None:
    """A stream that has another number in the other run is the same by its name."""
    one, other = trace(A, B), trace((FILL, 7), B)
    assert compare(one, other).first == 0
    named = Trace(other.records, names=TraceNames(streams={(0, 7): "load", (0, 2): "work"}))
    assert compare(one, named).first is None


def test_the_text_marks_the_first_and_folds_what_is_alike() -> None:
    """Three commands around what differs are shown, the others counted."""
    many = [A, B] * 20
    text = str(compare(trace(*many, C, *many), trace(*many, D, *many)))
    lines = text.splitlines()
    assert lines[0].startswith("they differ from command 41 on: ") and "1 only in the first" in lines[0]
    assert [line for line in lines if line.startswith(">")] == [next(line for line in lines if "kernel add" in line)]
    assert lines[1].strip() == "... 37 alike ..." == lines[-1].strip() and len(lines) == 1 + 2 + 3 + 2 + 3


@every("one, other, said", [
    ((), (), "both run no command"),
    ((B,), (B,), "both run the same command, in the same time"),
    ((B,), (LATE,), "both run the same command; it takes another time"),
    ((A, A), (A, A), "both run the same 2 commands, which end in the same order, in the same time"),
    ((B, B), (FAILED, B), "they differ from command 1 on: 1 ends otherwise"),
    ((B, B), (FAILED, FAILED), "they differ from command 1 on: 2 end otherwise"),
])  # fmt: skip
def test_the_verdict_in_words(one: Any, other: Any, said: str) -> None:
    """One command and several are told as what they are."""
    assert compare(trace(*one), trace(*other)).verdict == said


def test_what_ends_at_one_moment_has_the_order_of_its_trace() -> None:
    """Commands that begin and end at the same moments are in another order where they ended in another one."""
    one, other = (record._replace(started_ns=0, finished_ns=5) for record in trace(A, B).records)
    here, there = (Trace(records, names=trace().names) for records in ((one, other), (other, one)))
    assert compare(here, here).first is None and compare(here, there).first == 0
    assert "in the same order" not in str(compare(here, there))


def test_long_runs_are_compared_up_to_a_bound() -> None:
    """What is too long to be aligned is counted, and nothing is aligned with it."""
    found = compare(trace(*[A] * (MOST + 10)), trace(*[B] * 5))
    assert found.left_out == 10 and "10 were not compared" in found.verdict


@pytest.mark.parametrize("mend", [False, True])
def test_two_runs_of_a_program(mend: bool) -> None:
    """The same program is alike, on the virtual clock in time as well; with an event added that is what differs."""

    def program(ordered: bool) -> Callable[[], Any]:
        async def main() -> Trace:
            device = atops.Device(0)
            async with device.create_stream(name="one") as one, device.create_stream(name="two") as two:
                row = device.empty(8)
                one.fill(row, 7)
                if ordered:
                    two.wait(one.record())
                await two.fetch(row)
            return atops.current_driver().tracer.snapshot()

        return main

    one, other = (atops.run(program(each), atops.EmulatorOptions(clock="virtual")) for each in (False, mend))
    found = compare(one, other)
    if not mend:
        assert found.verdict.endswith("in the same time")
        return
    extra = {pair.other.kind for pair in found.pairs if pair.what == "only in the second" and pair.other}
    assert extra == {Kind.RECORD, Kind.WAIT_EVENT} and found.first is not None
    assert isinstance(found.pairs[found.first], Pair)
