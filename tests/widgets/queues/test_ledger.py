"""The ledger of commands, in whatever order they come, and the strip of what was queued over time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.trace.records import Kind, Status
from atops_widgets.feed.axis import TimeAxis
from atops_widgets.feed.columns import MOMENTS, RECORDS, Columns, Texts
from atops_widgets.queues.ledger import NEVER, NEWEST, Ledger, Strip, holding
from tests.runtime.trace_records import free_records
from tests.widgets.queue_traces import LOAD, Story, standing


def tables(capacity: int = 100_000) -> tuple[Columns, Columns]:
    """Return empty tables of moments and records."""
    texts = Texts()
    return Columns(MOMENTS, capacity, texts), Columns(RECORDS, capacity, texts)


@pytest.mark.slow
@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_the_order_of_telling_does_not_matter(random: object, pieces: int) -> None:
    """Moments and records in pieces of any size, records first or last, repeated: the same ledger."""
    story = standing(30)
    told, records = story.moments, story.records
    whole = Ledger()
    moments, ended = tables()
    moments.extend(told)
    ended.extend(records)
    whole.update(moments, ended)
    cut, (moments, ended) = Ledger(), tables()
    shuffled = list(records)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for first in range(0, len(told), pieces):
        if random.random() < 0.5:  # type: ignore[attr-defined]
            ended.extend([shuffled.pop() for _ in range(min(3, len(shuffled)))])
        moments.extend(told[first : first + pieces])
        cut.update(moments, ended)
    ended.extend(shuffled)
    moments.extend(told[:5])
    cut.update(moments, ended)
    for field in ("seq", "submitted", "started", "ended", "kind", "status", "on_offset"):
        assert whole[field].tolist() == cut[field].tolist()
    assert [whole.streams[each] for each in whole["where"]] == [cut.streams[each] for each in cut["where"]]


@pytest.mark.slow
@given(free_records(), st.integers(-1, 61))
def test_what_is_held_is_what_had_begun_and_not_ended(records: list, at: int) -> None:  # type: ignore[type-arg]
    """Held at a moment is what was submitted by then and ended later, of every kind but calls of the API."""
    moments, ended = tables()
    ended.extend(records)
    ledger = Ledger()
    ledger.update(moments, ended)
    held = holding(ledger, at)
    own = [each for each in records if each.stream >= 0 and each.device >= 0 and each.kind is not Kind.API]
    expected = [each.seq for each in sorted(own) if (each.submitted_ns or each.started_ns) <= at < each.finished_ns]
    assert ledger["seq"][held.commands].tolist() == expected
    assert held.open.sum() == len(expected)
    assert held.over.sum() == sum(each.finished_ns <= at for each in own)
    assert holding(ledger, NEWEST).open.sum() == 0


def test_what_is_held_now_is_found_without_what_is_over() -> None:
    """Commands in any order, ended in any order, told piece by piece: the newest moment is like any other that late."""
    random = np.random.default_rng(7)
    moments, ended = tables()
    ledger, strip = Ledger(), Strip()
    pieces = [random.permutation(np.arange(first, first + 60)) for first in (40, 0, 160, 100)]  # the second comes late
    for seqs in pieces:
        table = {"seq": seqs, "stream": seqs % 3, "device": 0 * seqs, "at_ns": seqs}
        moments.extend_columns({**table, "phase": seqs % 3, "kind": 0 * seqs, "bytes": 0 * seqs, "name": 0 * seqs})
        over = seqs[:50]
        done = {"started_ns": over, "finished_ns": over + 5, "status": over % 7 == 0, "kind": 0 * over}
        ended.extend_columns({"seq": over, "stream": over % 3, "device": 0 * over, "submitted_ns": over, **done})
        ledger.update(moments, ended)
        now, then = holding(ledger, NEWEST), holding(ledger, 10**9)
        for field in ("open", "over", "commands", "streams", "heads", "broken"):
            assert getattr(now, field).tolist() == getattr(then, field).tolist()
        states, late = (held.states(ledger, moments, held.commands) for held in (now, then))
        assert set(states.state.tolist()) == {0, 1, 2} and states.state.tolist() == late.state.tolist()
        axis = TimeAxis(0, int(seqs.max()) + 5)
        for kept, anew in zip(strip.parts(ledger, axis, 30), Strip().parts(ledger, axis, 30), strict=True):
            assert np.array_equal(kept, anew)
    assert ledger.all_over()[0] > 0


def test_what_was_missed_is_not_queued_for_ever() -> None:
    """A command whose record was left out is over when a later one of its stream is; others stay as they are."""
    moments, ended = tables()
    seqs = np.arange(9)
    none = 0 * seqs
    kinds = np.where(seqs == 2, int(Kind.CALL), int(Kind.FILL))
    moments.extend_columns({
        "seq": seqs, "stream": seqs % 2, "device": none, "at_ns": seqs, "phase": none, "kind": kinds, "bytes": none,
        "name": none,
    })  # fmt: skip
    ended.extend_columns({"seq": [6], "stream": [0], "device": [0], "submitted_ns": [6], "started_ns": [20],
                          "finished_ns": [30], "status": [0], "kind": [int(Kind.FILL)]})  # fmt: skip
    ledger = Ledger()
    ledger.update(moments, ended)
    assert holding(ledger, NEWEST).commands.tolist() == [0, 1, 2, 3, 4, 5, 7, 8]
    ledger.end_missed()
    assert holding(ledger, NEWEST).commands.tolist() == [1, 2, 3, 5, 7, 8]
    assert ledger["ended"][[0, 4, 6]].tolist() == [30, 30, 30]


@pytest.mark.parametrize("status", [Status.ABORTED, Status.SKIPPED])
def test_what_was_cancelled_ends_nothing_before_it(status: Status) -> None:
    """Cancelled commands are settled out of order: those in front of them still run."""
    moments, ended = tables()
    seqs = np.arange(4)
    none = 0 * seqs
    moments.extend_columns({"seq": seqs, "stream": none, "device": none, "at_ns": seqs, "phase": none, "kind": none})
    over = {"seq": seqs[3:], "stream": none[3:], "device": none[3:], "submitted_ns": seqs[3:], "kind": none[3:]}
    ended.extend_columns({**over, "started_ns": seqs[3:], "finished_ns": seqs[3:] + 5, "status": none[3:] + status})
    ledger = Ledger()
    ledger.update(moments, ended)
    ledger.end_missed()
    assert holding(ledger, NEWEST).commands.tolist() == [0, 1, 2]


def test_the_oldest_that_are_over_are_forgotten() -> None:
    """A ledger is bounded, and what is not over stays however old it is."""
    moments, records = tables(1000)
    ledger = Ledger(100)
    moments.extend([(0, 1, 0, int(Kind.LAUNCH), 0, 1, -1, 0, "old", -1, -1, -1)])
    ledger.update(moments, records)
    for first in range(2, 2000, 50):
        seq = np.arange(first, first + 50)
        zero = np.zeros(50, np.int64)
        records.extend_columns({
            "seq": seq, "kind": zero, "device": zero, "stream": zero + 2, "submitted_ns": seq, "started_ns": seq,
            "finished_ns": seq + 1, "status": zero, "bytes": zero, "name": zero,
        })  # fmt: skip
        ledger.update(moments, records)
        assert len(ledger) <= 200
    assert (int(ledger["seq"][0]), int(ledger["ended"][0])) == (1, NEVER)
    assert ledger.slots(np.array([1, 2, 2001])).tolist() == [0, -1, len(ledger) - 1]


def test_each_part_says_what_was_held_at_most() -> None:
    """The strip has the most that was held at any moment of each of its parts; an empty ledger has an empty one."""
    story, texts, ledger = standing(100), Texts(), Ledger()
    moments, records = Columns(MOMENTS, 10_000, texts), Columns(RECORDS, 10_000, texts)
    moments.extend(story.moments)
    records.extend(story.records)
    ledger.update(moments, records)
    edges, bins, most_at = Strip().parts(ledger, TimeAxis(0, 121_000), 60)
    assert (len(edges), edges[0], edges[-1], len(bins)) == (61, 0, 121_000, 60)
    moments_of = np.arange(121_001)[::40]
    held = [int(holding(ledger, at).open.sum()) for at in moments_of.tolist()]
    assert max(held) == bins.max() == holding(ledger, most_at).open.sum()
    for part in range(60):
        inside = (moments_of >= edges[part]) & (moments_of < edges[part + 1])
        assert bins[part] >= max(count for count, here in zip(held, inside, strict=True) if here)


def test_a_burst_shorter_than_a_part_is_seen() -> None:
    """Fifty-two commands that come and go within a hundredth of a part of the strip are what was queued at most."""
    story, texts, ledger = Story(), Texts(), Ledger()
    numbers = [story.submit(500, Kind.FILL, LOAD) for _ in range(52)]
    for at, number in enumerate(numbers):
        story.end(501 + at // 20, number, 500)
    last = story.submit(1_000_000, Kind.FILL, LOAD)
    story.end(1_000_001, last, 1_000_000)
    moments, records = Columns(MOMENTS, 10_000, texts), Columns(RECORDS, 10_000, texts)
    moments.extend(story.moments)
    records.extend(story.records)
    ledger.update(moments, records)
    _, bins, most_at = Strip().parts(ledger, TimeAxis(500_000, 1_000_001_000))
    assert (bins.max(), most_at) == (52, 500_000)
    assert Strip().parts(Ledger(), TimeAxis(0, 0), 10)[1].tolist() == [0] * 10
