"""A reader may take what is new in portions: nothing twice, nothing left out, and what was lost is counted once."""

from __future__ import annotations

import pytest

from atops.base.clock import VirtualClock
from atops.base.trace.event_log import Ring
from atops.base.trace.records import Phase
from atops.base.trace.tracer import Tracer


def emit(tracer: Tracer, count: int, name: str = "k") -> None:
    """Emit some records whose seq counts on."""
    number, first = tracer.intern(name), tracer.statistics().emitted
    for seq in range(first, first + count):
        tracer.emit((seq, 6, 0, 1, 0, 1, 2, 0, 0, -1, -1, -1, -1, -1, number, -1))


@pytest.mark.parametrize("limit", [1, 3, 7, 100, None])
def test_portions_add_up(limit: int | None) -> None:
    """Whatever the portion, the tuples are those of the ring in order, and reading ends when all were read."""
    tracer = Tracer(VirtualClock(), 10)
    emit(tracer, 25)
    position, seqs, lost = 0, [], 0
    while True:
        tuples, position, missed = tracer.tuples_since(position, limit)
        lost += missed
        if not tuples:
            break
        assert limit is None or len(tuples) <= limit
        seqs += [each[0] for each in tuples]
    assert (seqs, lost, position) == (list(range(15, 25)), 15, 25)


def test_a_position_of_the_future_gets_nothing() -> None:
    """A position beyond the end is brought back to it, and nothing counts as missed."""
    tracer = Tracer(VirtualClock(), 10)
    emit(tracer, 3)
    assert tracer.tuples_since(99, 5) == ([], 3, 0)


def test_texts_are_what_names_mean() -> None:
    """The number in a tuple is the place of its text; later texts can be asked for alone."""
    tracer = Tracer(VirtualClock(), 10)
    emit(tracer, 1, "first")
    emit(tracer, 1, "second")
    tuples, *_ = tracer.tuples_since(0)
    texts = tracer.texts()
    assert [texts[each[14]] for each in tuples] == ["first", "second"]
    assert tracer.texts(2) == ["second"]


def test_a_ring_is_read_in_portions() -> None:
    """The same for the rings of details: portions add up, and the lost ones are counted with the first."""
    ring: Ring[int] = Ring(4)
    for number in range(10):
        ring.add(number)
    assert ring.since(0, 3) == ([6, 7, 8], 9, 6)
    assert ring.since(9, 3) == ([9], 10, 0)
    assert ring.since(10, 3) == ([], 10, 0)


def test_details_are_read_in_portions() -> None:
    """At most so many of each sort come at once; the position leads to the others."""
    tracer = Tracer(VirtualClock(), 10)
    with tracer.detailed():
        for seq in range(5):
            tracer.details.moments.add((0, seq, Phase.SUBMITTED, 6, 0, 1, -1, 0, 0, -1))
            tracer.details.uses.add((seq, 0, 256 * seq, 256))
        first = tracer.details_since(None, 3)
        rest = tracer.details_since(first.next, 3)
    assert [moment.seq for moment in (*first.moments, *rest.moments)] == [0, 1, 2, 3, 4]
    assert [use.seq for use in (*first.uses, *rest.uses)] == [0, 1, 2, 3, 4]
    assert len(first.moments) == len(first.uses) == 3
