"""The arithmetic of intervals, against sets of whole numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.trace.intervals import Interval, gaps, intersect, lanes, length, merge, overlapping

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
