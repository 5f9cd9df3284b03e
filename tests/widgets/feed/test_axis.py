"""The axis of time: which gaps are folded, and that places and moments are inverse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.trace.records import Kind, Status, TraceRecord
from atops_widgets import Feed
from atops_widgets.feed import axis as axis_of_time
from atops_widgets.feed.axis import Gaps, TimeAxis
from atops_widgets.feed.columns import RECORDS, Columns, Texts
from tests.widgets.traces import double_buffering, two_bursts


def axis(*stretches: tuple[int, int]) -> TimeAxis:
    """Return the axis of times in which something ran."""
    busy = np.array(stretches, np.int64)
    return TimeAxis.of(int(busy.min()), int(busy.max()), busy)


def test_what_is_long_beside_all_the_rest_is_folded() -> None:
    """Bursts with long pauses; not what comes and goes evenly, nor what something else ran in."""
    assert axis((0, 10), (90, 100)).gaps == ((10, 90),)
    assert axis((0, 10), (20, 30), (40, 50)).gaps == ()
    assert axis((0, 10), (90, 100), (5, 95)).gaps == ()
    assert axis(*((at, at + 10) for at in range(0, 4000, 1000))).gaps == ((10, 1000), (1010, 2000), (2010, 3000))
    assert axis((5, 5)).gaps == () and TimeAxis.of(3, 3, np.zeros((0, 2), np.int64)).gaps == ()
    assert Feed(double_buffering()).axis().gaps == ()
    [(start, end)] = Feed(two_bursts()).axis().gaps
    assert end - start == 75_000_000_000


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**4)), min_size=1, max_size=30),
    st.lists(st.integers(-(10**6), 10**9), max_size=20),
)
def test_places_and_moments_are_inverse(parts: list[tuple[int, int]], moments: list[int]) -> None:
    """Any moment has a place, in order, and comes back, to the nanosecond where nothing is folded."""
    at, stretches = 0, []
    for gap, length in parts:
        stretches.append((at + gap, at + gap + length))
        at += gap + length
    found, moments = axis(*stretches), sorted(moments)
    places = found.place(np.array(moments, np.int64))
    assert (np.diff(places) >= 0).all()
    near = max((end - start for start, end in found.gaps), default=0) / max(1, found.left) * 1e-3 + 1
    assert np.abs(found.moment(places) - np.array(moments, np.int64)).max(initial=0) <= near
    assert found.opened(frozenset(start for start, _ in found.gaps)).gaps == ()
    assert found.since(7).place(3) == found.place(10)


def test_a_moment_lies_in_the_part_that_shows_it() -> None:
    """Also where a nanosecond has many parts: none of them is empty before the first change."""
    moments = np.arange(5)
    for first in (0, 10**15):
        edges = TimeAxis(first, first + 4).edges(240)
        assert (np.searchsorted(edges, moments + first, "right") - 1).tolist() == [0, 60, 120, 180, 240]
    edges = axis((0, 10), (1000, 1010)).edges(7)
    assert edges[0] == 0 and edges[-1] == 1010 and (np.diff(edges) >= 0).all()


def test_a_long_table_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that are known, what comes later in time but began before, and rows that were dropped: the same gaps."""
    records, gaps = Columns(RECORDS, 400, Texts()), Gaps()
    monkeypatch.setattr(axis_of_time, "CHUNK", 64)
    for number in range(900):
        begin = number * 10 + (number >= 700) * 10**6
        records.extend([TraceRecord(number, Kind.FILL, 0, 1, begin, begin, begin + 10, Status.DONE)])
        if number % 50 == 0:
            gaps.busy(records)
    busy = gaps.busy(records)
    assert TimeAxis.of(int(busy.min()), int(busy.max()), busy).gaps == ((7000, 1_007_000),)
    records.extend([TraceRecord(900, Kind.FILL, 0, 1, 6990, 6990, 1_009_100, Status.DONE)])
    busy = gaps.busy(records)
    assert TimeAxis.of(int(busy.min()), int(busy.max()), busy).gaps == ()


def test_a_part_of_an_axis() -> None:
    """A part begins and ends where it was cut, with the gaps that it has; a cut beside all there is has no effect."""
    axis = TimeAxis(0, 1000, ((100, 400), (600, 900)), 10)
    part = axis.cut(50, 700)
    assert (part.first, part.last, part.gaps) == (50, 700, ((100, 400), (600, 700)))
    assert part.place(np.array([50, 100, 400, 600, 700])).tolist() == [0, 50, 60, 260, 270]
    whole = axis.cut(-5, 2000)
    assert (whole.first, whole.last, whole.gaps) == (0, 1000, axis.gaps) and axis.cut(2000, 3000) is axis
