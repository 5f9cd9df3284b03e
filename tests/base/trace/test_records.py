"""Records: every field described, times and causes derived."""

from __future__ import annotations

from atops.base.trace.records import COPIES, FIELDS, MOVES, WAITS, Kind, Status, Trace, TraceRecord


def test_every_field_is_described_once() -> None:
    """The table of fields names exactly the fields of a record, in their order."""
    assert tuple(FIELDS) == TraceRecord._fields


def test_numbers_of_kinds_and_statuses_are_places_in_their_tables() -> None:
    """Kinds and statuses count from 0 without a gap: a tracer finds them by place."""
    assert [int(kind) for kind in Kind] == list(range(len(Kind)))
    assert [int(status) for status in Status] == list(range(len(Status)))


def test_copies_and_waits_are_what_their_names_say() -> None:
    """The two sets hold all copies and all waits."""
    assert {kind for kind in Kind if kind.name.startswith("COPY")} == COPIES
    assert {kind for kind in Kind if kind.name.startswith("WAIT")} == WAITS


def test_times_are_differences() -> None:
    """A record knows how long it queued and how long it ran."""
    record = TraceRecord(0, Kind.FILL, 0, 1, 10, 25, 65, Status.DONE)
    assert (record.queued_ns, record.duration_ns) == (15, 40)


def test_only_waits_have_a_cause() -> None:
    """A record's correlation is its event's number, so only that of a wait names another command."""
    wait = TraceRecord(3, Kind.WAIT_EVENT, 0, 1, 0, 1, 2, Status.DONE, correlation=2)
    assert wait.cause == 2
    assert wait._replace(kind=Kind.RECORD).cause == -1


def test_an_empty_trace_holds_nothing() -> None:
    """The default trace has no records, counters or names, and lost none."""
    trace = Trace()
    assert (trace.records, trace.counters, trace.dropped) == ((), (), 0)
    assert (trace.names.devices, trace.names.streams, trace.names.notes) == ({}, {}, {})


def test_what_copy_engines_carry_out():
    """Copies of every direction, and fills."""
    assert COPIES | {Kind.FILL} == MOVES
