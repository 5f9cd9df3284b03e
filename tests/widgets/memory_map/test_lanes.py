"""Axes of addresses with breaks, and many ranges in few pixels."""

from __future__ import annotations

import numpy as np

from atops_widgets.memory_map.lanes import MOST_BREAKS, axis_of, group
from tests.widgets.memory_map_traces import GIB, KIB, MIB


def test_what_is_in_use_fills_the_lane_and_large_gaps_are_breaks() -> None:
    """Two clusters 40 GiB apart share a lane of 1000 pixels at one scale; the break says what it leaves out."""
    starts = np.array([0, 2 * MIB, 40 * GIB])
    axis = axis_of(starts, starts + 2 * MIB, 1000)
    assert axis.start.tolist() == [0, 40 * GIB] and axis.breaks.tolist() == [40 * GIB - 4 * MIB]
    assert axis.left[0] == 0 and axis.right[-1] == 1000
    wide = axis.right - axis.left
    assert 1.9 < wide[0] / wide[1] < 2.1
    assert axis.place(np.array([0, 20 * GIB, 40 * GIB + 2 * MIB])).tolist() == [0, axis.right[0], 1000]


def test_small_gaps_are_drawn_to_scale() -> None:
    """A hole that is small beside what is in use stays part of its stretch."""
    axis = axis_of(np.array([0, 72 * KIB]), np.array([64 * KIB, 128 * KIB]), 512)
    assert len(axis.start) == 1 and axis.place(np.array([64 * KIB]))[0] == 256
    assert axis.scale == 256


def test_breaks_are_few() -> None:
    """However scattered the ranges are, there are at most so many breaks, and the order of addresses stays."""
    starts = np.sort(np.random.default_rng(1).integers(0, 48 * GIB, 500)) // 256 * 256
    axis = axis_of(starts, starts + 256, 800)
    assert len(axis.breaks) <= MOST_BREAKS
    assert (np.diff(axis.place(starts)) >= 0).all()
    assert (axis.left[1:] > axis.right[:-1]).all() and axis.right[-1] <= 800.001


def test_a_window_cuts_what_it_shows() -> None:
    """Zoomed in, ranges are cut at the window's edges; a window on free memory is one stretch or break."""
    starts, stops = np.array([0, 100 * MIB]), np.array([64 * MIB, 164 * MIB])
    axis = axis_of(starts, stops, 400, (32 * MIB, 48 * MIB))
    assert (axis.start.tolist(), axis.stop.tolist()) == ([32 * MIB], [48 * MIB])
    assert axis.holds(starts, stops).tolist() == [True, False]
    empty = axis_of(starts, stops, 400, (70 * MIB, 90 * MIB))
    assert not empty.holds(starts, stops).any()


def test_nothing_has_an_axis_of_nothing() -> None:
    """Without ranges there is no stretch, no break and no place."""
    nothing = np.zeros(0, np.int64)
    axis = axis_of(nothing, nothing, 500)
    assert len(axis.breaks) == 0 and axis.scale == 1.0
    assert axis.place(np.array([5])).tolist() == [0] and axis.holds(np.array([0]), np.array([9])).tolist() == [False]


def test_narrow_ranges_are_grouped_by_pixel_and_lose_no_byte() -> None:
    """A hundred thousand ranges become at most two shapes a pixel; counts and bytes add up."""
    left = np.sort(np.random.default_rng(2).uniform(0, 800, 100_000))
    size = np.full(100_000, 4096)
    found = group(left, left + 0.005, size)
    assert len(found) <= 1600
    assert int(found.count.sum()) == 100_000 and int(found.size.sum()) == 100_000 * 4096
    assert (found.fill <= 1).all() and (found.fill > 0).all()


def test_wide_and_chosen_ranges_stand_alone() -> None:
    """What is wide enough is itself, and so is the one that is asked for; a lonely narrow one, too."""
    left, right = np.array([0.0, 10.0, 10.2, 10.4, 50.0]), np.array([8.0, 10.1, 10.3, 10.5, 50.1])
    found = group(left, right, np.array([8, 1, 2, 4, 1]), np.array([False, False, True, False, False]))
    alone = sorted(found.row[found.row >= 0].tolist())
    assert alone == [0, 2, 4]
    assert found.count[found.row < 0].tolist() == [2] and found.size[found.row < 0].tolist() == [5]
