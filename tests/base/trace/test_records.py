"""Records: every field described, times and causes derived."""

from __future__ import annotations

import sys
import threading

import pytest

from atops.base.clock import VirtualClock
from atops.base.trace.event_log import Detailing
from atops.base.trace.records import (
    COPIES,
    FIELDS,
    MOVES,
    WAITS,
    AllocationEvent,
    Change,
    CommandEvent,
    Kind,
    MemoryUse,
    Phase,
    Place,
    Status,
    ThreadEvent,
    ThreadState,
    Trace,
    TraceRecord,
)
from atops.base.trace.tracer import Tracer


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


# ---- details: told only while there is a subscriber, read as values, with places that are the same for the same line


def tracer(capacity: int = 100) -> Tracer:
    """Return a tracer on a clock that stands still."""
    return Tracer(VirtualClock(), capacity)


def test_subscribers_of_details_are_counted() -> None:
    """Details are on from the first wish to the last, those of threads apart; closing twice counts once."""
    trace = tracer()
    assert (trace.detail, trace.thread_detail) == (0, 0)
    first = trace.detailed()
    with trace.detailed(threads=True) as second:
        assert (trace.detail, trace.thread_detail) == (2, 1)
        assert isinstance(second, Detailing)
        assert not second.closed
    assert second.closed
    assert (trace.detail, trace.thread_detail) == (1, 0)
    first.close()
    first.close()
    assert trace.detail == 0


def test_a_tracer_that_is_off_is_on_while_details_are_wanted() -> None:
    """Without a ring commands are recorded only as long as details are wanted."""
    trace = tracer(0)
    assert not trace.active
    with trace.detailed():
        assert trace.active
        trace.resize(0)
        assert trace.active
    assert not trace.active


def test_a_late_viewer_is_told_what_stands() -> None:
    """The hook runs at each wish, when details are on; one that raises takes the wish back."""
    trace, seen = tracer(), []
    trace.on_detailed = lambda: seen.append(trace.detail)
    with trace.detailed(), trace.detailed():
        pass
    assert seen == [1, 2]

    def refuse() -> None:
        raise RuntimeError("no")

    trace.on_detailed = refuse
    with pytest.raises(RuntimeError, match="no"):
        trace.detailed()
    assert trace.detail == 0


def test_what_was_emitted_comes_back_as_values() -> None:
    """Each integer has its field's name, with kinds and names resolved; a position goes on where it was."""
    trace = tracer()
    name, log = trace.intern("scale"), trace.details
    log.moments.add((5, 1, Phase.SUBMITTED, Kind.LAUNCH, 0, 2, -1, 64, name, 3, 1, 256))
    log.changes.add((6, 0, 256, 100, 1, Change.REUSED, 9, 512, 3, 2))
    log.steps.add((7, 1, 0, 4, ThreadState.DTE, 2, 3, 128, 256))
    log.uses.add((1, 0, 256, 100))
    batch = trace.details_since()
    assert batch.moments == [CommandEvent(5, 1, Phase.SUBMITTED, Kind.LAUNCH, 0, 2, -1, 64, "scale", 3, 1, 256)]
    assert batch.changes == [AllocationEvent(6, 0, 256, 100, 1, Change.REUSED, 9, 512, 3, 2)]
    assert batch.steps == [ThreadEvent(7, 1, 0, 4, ThreadState.DTE, 2, 3, 128, 256)]
    assert batch.uses == [MemoryUse(1, 0, 256, 100)]
    assert (type(batch.moments[0].phase), type(batch.moments[0].kind)) == (Phase, Kind)
    assert (type(batch.changes[0].change), type(batch.steps[0].turn)) == (Change, ThreadState)
    log.steps.add((8, 1, 0, 4, ThreadState.ENDED, -1, -1, 0, 0))
    more = trace.details_since(batch.next)
    assert (more.moments, more.changes, [step.at_ns for step in more.steps], more.uses) == ([], [], [8], [])
    log.uses.add((2, 0, 256, 100))
    assert [use.seq for use in trace.details_since(more.next).uses] == [2]
    figures = trace.statistics()
    assert (figures.moments, figures.changes, figures.steps, figures.uses, figures.details_dropped) == (1, 1, 2, 2, 0)
    snapshot = trace.snapshot()
    assert [len(part) for part in (snapshot.moments, snapshot.changes, snapshot.steps, snapshot.uses)] == [1, 1, 2, 2]
    after = trace.details_since(more.next).next
    trace.clear()
    assert trace.details_since(after) == ([], [], [], [], after, 0)


@pytest.mark.slow
def test_what_a_reader_missed_is_counted() -> None:
    """Rings that were full tell the reader how many details went before he asked, each ring its own."""
    trace = tracer()
    held = trace.details.moments._held.maxlen
    assert held is not None
    for seq in range(held + 3):
        trace.details.moments.add((0, seq, 0, 0, 0, 0, -1, 0, 0, -1, -1, -1))
    for seq in range(held + 4):
        trace.details.uses.add((seq, 0, 0, 1))
    batch = trace.details_since()
    assert (batch.missed, len(batch.moments), len(batch.uses), batch.uses[0].seq) == (7, held, held, 4)
    assert trace.statistics().details_dropped == 7


def test_a_place_has_one_number() -> None:
    """Two instructions of a line are one place; another line is another, and both can be looked up."""
    trace = tracer()
    code, one, other = sys._getframe().f_code, sys._getframe().f_lasti, sys._getframe().f_lasti
    first = trace.details.site(code, one)
    assert trace.details.site(code, other) == trace.details.site(code, one) == first
    second = trace.details.site(code, sys._getframe().f_lasti)
    places = trace.names().sites
    assert first != second
    assert places[first].file == places[second].file == __file__
    assert places[first].function == "test_a_place_has_one_number"
    assert places[second].line > places[first].line
    assert trace.details.place(Place(*places[first])) == first


def test_places_from_many_threads_agree() -> None:
    """Threads that name the same places at once get numbers that mean these places."""
    trace, wrong = tracer(), []
    gate = threading.Barrier(4)

    def name() -> None:
        gate.wait()
        for line in range(300):
            number = trace.details.place(Place("x.py", line, "f"))
            if trace.names().sites[number].line != line:
                wrong.append(line)

    threads = [threading.Thread(target=name) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert {place.line for place in trace.names().sites.values()} == set(range(300))


def test_generations_count_from_the_first_allocation_told() -> None:
    """The serials of a process become numbers that a replay repeats."""
    log = tracer().details
    assert [log.generation(serial) for serial in (900, 905, 899)] == [0, 5, -1]
