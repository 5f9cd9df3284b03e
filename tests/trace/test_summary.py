"""The reductions of a trace: rows, figures and the critical path, worked out by hand and against models."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.trace.records import COPIES, WAITS, Kind, Status, TraceNames, TraceRecord
from atops.trace.summary import Interval, critical_path, gaps, intersect, interval, lanes, length, merge, rows, summary
from atops.trace.words import KIND_NAMES
from tests.runtime.trace_records import free_records, overlapping, record


def covered(records: list[TraceRecord]) -> set[int]:
    """Return the nanoseconds in which at least one of the records ran: the model."""
    return {ns for each in records for ns in range(*interval(each))}


def test_every_kind_has_a_name() -> None:
    """Readers can name whatever may be in a trace."""
    assert set(KIND_NAMES) == set(Kind)
    assert len(set(KIND_NAMES.values())) == len(Kind)


def test_a_command_that_never_began_is_a_point() -> None:
    """A record whose start lies after its end takes no time and stands at its end."""
    assert interval(record(0, Kind.FILL, 10, 20)) == (10, 20)
    assert interval(record(0, Kind.FILL, 30, 20, status=Status.SKIPPED)) == (20, 20)


def test_overlap_is_the_copy_time_beside_kernels_of_the_same_device() -> None:
    """Copies 0-100 on device 0 and 0-50 on device 1; a kernel on device 0 runs 60-160: 40 of 150 overlap."""
    figures = summary(
        [
            record(0, Kind.COPY_H2D, 0, 70, stream=1, bytes=700),
            record(1, Kind.COPY_D2H, 50, 100, stream=2, bytes=500),
            record(2, Kind.COPY_H2D, 0, 50, device=1, bytes=30),
            record(3, Kind.LAUNCH, 60, 160, stream=3),
        ]
    )
    assert (figures.copy_ns, figures.kernel_ns, figures.overlap_ns) == (150, 100, 40)
    assert figures.overlap == 40 / 150
    assert figures.kind_bytes == {Kind.COPY_H2D: 730, Kind.COPY_D2H: 500, Kind.LAUNCH: 0}
    assert figures.kind_ns == {Kind.COPY_H2D: 70, Kind.COPY_D2H: 50, Kind.LAUNCH: 100}
    assert figures.busy_ns == {(0, 1): 70, (0, 2): 50, (0, 3): 100, (1, 0): 50}


def test_calls_of_the_host_are_counted_and_keep_no_stream_busy() -> None:
    """A C-style call is in the counts; it neither ends the critical path nor fills the time in which nothing ran."""
    fill, kernel = record(0, Kind.FILL, 0, 10), record(1, Kind.LAUNCH, 30, 40)
    call = record(-1, Kind.API, 5, 60, stream=-1)
    figures = summary([fill, call, kernel])
    assert figures.counts[Kind.API] == 1 and figures.kind_ns[Kind.API] == 55
    assert figures.busy_ns == {(0, 0): 20} and figures.longest_idle in ((10, 30), (40, 60))
    assert figures.idle_ns == 40
    assert critical_path([fill, call, kernel]) == [fill, kernel]


def test_idle_time_counts_waits_as_idle() -> None:
    """Between 10 and 30 a stream only waits and another ends at 15: idle from 15 to 30, and from 40 to 45."""
    figures = summary(
        [
            record(0, Kind.FILL, 5, 10, stream=1),
            record(1, Kind.FILL, 5, 15, stream=2),
            record(2, Kind.WAIT_VALUE, 10, 30, stream=1),
            record(3, Kind.LAUNCH, 30, 40, stream=1),
            record(4, Kind.WAIT_EVENT, 15, 45, stream=2),
        ]
    )
    assert (figures.first_ns, figures.last_ns, figures.span_ns) == (5, 45, 40)
    assert (figures.idle_ns, figures.longest_idle) == (20, (15, 30))
    assert figures.waiting_ns == {(0, 1): 20, (0, 2): 30}


def test_bytes_that_never_moved_are_not_counted() -> None:
    """A failed copy counts among the statuses and not among the bytes."""
    failed = record(0, Kind.COPY_H2D, 0, 5, bytes=64, status=Status.FAILED)
    figures = summary([failed, record(1, Kind.FILL, 5, 6, bytes=8)])
    assert figures.statuses == {Status.FAILED: 1, Status.DONE: 1}
    assert figures.kind_bytes == {Kind.FILL: 8}


def test_an_empty_trace_has_figures_too() -> None:
    """Nothing happened, in no time."""
    figures = summary([])
    assert (figures.span_ns, figures.overlap, figures.idle_ns) == (0, 0.0, 0)
    assert critical_path([]) == rows([]) == []


@pytest.mark.slow
@given(free_records())
def test_figures_agree_with_counting_nanoseconds(records: list[TraceRecord]) -> None:
    """Every time in a summary is the number of nanoseconds a naive model finds."""
    figures = summary(records)
    for (device, stream), busy in figures.busy_ns.items():
        own = [each for each in records if (each.device, each.stream) == (device, stream) and each.kind is not Kind.API]
        working = covered([each for each in own if each.kind not in WAITS])
        assert busy == len(working)
        assert figures.waiting_ns[device, stream] == len(covered(own) - working)
    copies = kernels = both = 0
    for device in (-1, 0, 1):
        copied = covered([each for each in records if each.device == device and each.kind in COPIES])
        computed = covered([each for each in records if each.device == device and each.kind is Kind.LAUNCH])
        copies, kernels, both = copies + len(copied), kernels + len(computed), both + len(copied & computed)
    assert (figures.copy_ns, figures.kernel_ns, figures.overlap_ns) == (copies, kernels, both)
    working = covered([each for each in records if each.kind not in WAITS and each.kind is not Kind.API])
    assert figures.idle_ns == figures.span_ns - len(working)
    assert sum(figures.counts.values()) == sum(figures.statuses.values()) == len(records)
    start, end = figures.longest_idle
    assert not working & set(range(start, end))


@pytest.mark.slow
@given(free_records())
def test_rows_show_each_record_once_and_without_overlap(records: list[TraceRecord]) -> None:
    """All records are in exactly one row of their stream, in order, and no two of a row overlap."""
    drawn = rows(records)
    shown = [each for row in drawn for each in row.records]
    assert sorted(each.seq for each in shown) == sorted(each.seq for each in records)
    for row in drawn:
        assert {(each.device, each.stream) for each in row.records} == {(row.device, row.stream)}
        assert list(row.records) == sorted(row.records, key=interval)
        assert overlapping(map(interval, row.records)) == []
    assert [(row.device, row.stream, row.lane) for row in drawn] == sorted((r.device, r.stream, r.lane) for r in drawn)


def test_what_runs_beside_its_stream_gets_the_row_below() -> None:
    """A detached callback that starts first still leaves the first row to the stream's own commands."""
    drawn = rows(
        [record(0, Kind.CALL, 0, 50, stream=4), record(1, Kind.LAUNCH, 5, 30, stream=4)],
        TraceNames(streams={(0, 4): "train"}),
    )
    assert [(row.label, [each.kind for each in row.records]) for row in drawn] == [
        ("train", [Kind.LAUNCH]),
        ("train +1", [Kind.CALL]),
    ]


def test_the_critical_path_crosses_streams_where_a_wait_was_satisfied() -> None:
    """The last kernel waited for its event longer than for its own stream, and the event for the copy before it."""
    copy = record(0, Kind.COPY_H2D, 0, 50, stream=1)
    mark = record(1, Kind.RECORD, 50, 50, stream=1, correlation=2)  # an event's number: no arrow
    fill = record(2, Kind.FILL, 0, 10, stream=2)
    wait = record(3, Kind.WAIT_EVENT, 10, 51, stream=2, correlation=1)
    kernel = record(4, Kind.LAUNCH, 51, 80, stream=2)
    beside = record(5, Kind.LAUNCH, 52, 60, stream=1)
    assert critical_path([fill, copy, mark, wait, beside, kernel]) == [copy, mark, wait, kernel]


def test_a_detached_callback_is_on_no_other_path() -> None:
    """A callback that ended after the next command began did not hold it up; what came before it did."""
    fill = record(0, Kind.FILL, 0, 10)
    call = record(1, Kind.CALL, 10, 60)
    kernel = record(2, Kind.LAUNCH, 10, 90)
    assert critical_path([fill, call, kernel]) == [fill, kernel]


def test_both_parts_of_a_staged_copy_are_on_the_path() -> None:
    """A command that took two steps has two records of one number; the path goes through both, in their order."""
    parts = [record(0, Kind.COPY_D2H, 0, 10), record(0, Kind.COPY_H2D, 10, 30)]
    mark = record(1, Kind.RECORD, 30, 30)
    assert critical_path([*parts, mark]) == [*parts, mark]


@pytest.mark.slow
@given(free_records(), st.integers(1, 14))
def test_the_critical_path_is_finite_for_any_numbering(records: list[TraceRecord], numbers: int) -> None:
    """Records that share numbers, in senseless orders, still give a chain without repetition."""
    shared = [each._replace(seq=each.seq % numbers, bytes=index) for index, each in enumerate(records)]
    path = critical_path(shared)
    assert len({each.bytes for each in path}) == len(path)


@pytest.mark.slow
@given(free_records())
def test_the_critical_path_ends_with_the_last_to_finish_and_repeats_nothing(records: list[TraceRecord]) -> None:
    """Whatever the trace, even with causes in a circle, the chain is finite and ends where the trace ends."""
    path = critical_path(records)
    assert len({each.seq for each in path}) == len(path)
    ends = [each.finished_ns for each in records if each.kind is not Kind.API]
    assert [each.finished_ns for each in path[-1:]] == ([max(ends)] if ends else [])


# ---- the arithmetic of intervals, against sets of whole numbers


pytestmark = pytest.mark.slow

SPANS = st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda pair: (pair[0], sum(pair)))
INTERVALS = st.lists(SPANS, max_size=12)


def points(intervals: list[Interval]) -> set[int]:
    """Return the whole numbers that the intervals cover: the model."""
    return {point for start, end in intervals for point in range(start, end)}


@given(INTERVALS)
def test_merging_covers_the_same_points_in_disjoint_order(intervals: list[Interval]) -> None:
    """The union is unchanged, the pieces are in order, apart and not empty, and as long as the points are many."""
    merged = merge(intervals)
    assert points(merged) == points(intervals)
    assert all(start < end for start, end in merged)
    assert all(before[1] < after[0] for before, after in pairwise(merged))
    assert length(merged) == len(points(intervals))


@given(INTERVALS, INTERVALS)
def test_intersection_covers_the_common_points(first: list[Interval], second: list[Interval]) -> None:
    """What two lists have in common is what both sets of points have, whichever comes first."""
    common = intersect(merge(first), merge(second))
    assert points(common) == points(first) & points(second)
    assert common == merge(common) == intersect(merge(second), merge(first))


@given(INTERVALS)
def test_gaps_are_the_rest_of_the_span(intervals: list[Interval]) -> None:
    """Between the first and the last point, each is in the union or in a gap, never in both."""
    merged = merge(intervals)
    if merged:
        assert points(gaps(merged)) == set(range(merged[0][0], merged[-1][1])) - points(merged)
    else:
        assert gaps(merged) == []


@given(INTERVALS)
def test_no_lane_holds_an_overlap(intervals: list[Interval]) -> None:
    """In each lane intervals are pairwise apart, and points stand inside none; each is placed as low as possible."""
    chosen = lanes(intervals)
    for lane in range(max(chosen, default=-1) + 1):
        held = [its for its, number in zip(intervals, chosen, strict=True) if number == lane]
        assert overlapping(held) == []
        assert sum(end - start for start, end in held) == len(points(held))
    for index, (its, number) in enumerate(zip(intervals, chosen, strict=True)):
        for lower in range(number):
            earlier = [intervals[i] for i in range(index) if chosen[i] == lower]
            assert overlapping([*earlier, its])


@given(INTERVALS)
def test_overlaps_are_seen(intervals: list[Interval]) -> None:
    """Overlaps are reported exactly when two intervals share a point or one holds an empty one inside."""
    pairs = [(a, b) for i, a in enumerate(intervals) for b in intervals[i + 1 :]]
    expected = any(a[0] < b[1] and b[0] < a[1] for a, b in pairs)
    assert bool(overlapping(intervals)) == expected


def test_the_first_to_choose_gets_the_first_lane() -> None:
    """What comes first in the list keeps lane 0, even when it starts later; gaps are used again."""
    assert lanes([(5, 9), (0, 6), (0, 5), (9, 9), (7, 8)]) == [0, 1, 0, 0, 1]
