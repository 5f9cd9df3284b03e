"""Bytes in use over time, and how broken up the rest is: against the memory's own statistics."""

from __future__ import annotations

import numpy as np

from atops.device.memory.allocation import Allocation
from atops_widgets.feed.feed import Feed
from atops_widgets.memory_map.curve import Steps, free_at, largest_gap, thin_steps
from atops_widgets.memory_map.scene import MemoryPicture
from tests.runtime.boards import board
from tests.widgets.memory_map_traces import MIB


def test_every_peak_survives_the_thinning() -> None:
    """A peak that lasts one of a million steps is in some pixel's high, and a dip in a low."""
    value = np.full(1_000_000, 500)
    value[123_456], value[777_777] = 9_000, 3
    curve = thin_steps(Steps.of(np.arange(1_000_000), value), (0, 999_999), 480)
    assert int(curve.high.max()) == 9_000 and int(curve.low[1:].min()) == 3
    assert curve.last.tolist() == [500] * 480


def test_a_figure_holds_until_the_next() -> None:
    """Pixels without a step have what was before them; before the first there is nothing."""
    steps = Steps.of(np.array([10, 50]), np.array([7, 2]))
    curve = thin_steps(steps, (0, 100), 10)
    assert curve.last.tolist() == [0, 7, 7, 7, 7, 2, 2, 2, 2, 2]
    assert curve.high.tolist() == [0, 7, 7, 7, 7, 7, 2, 2, 2, 2]
    assert [steps.at(at) for at in (9, 10, 49, 50, None)] == [0, 7, 7, 2, 2]
    assert steps.peak() == (7, 10)
    nothing = Steps.of(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert thin_steps(nothing, (0, 100), 4).high.tolist() == [0] * 4 and nothing.peak() == (0, 0)


def test_moments_told_by_two_threads_keep_their_order() -> None:
    """A step that comes too early is put to the one before it."""
    assert Steps.of(np.array([5, 9, 8, 12]), np.arange(4)).at_ns.tolist() == [5, 9, 9, 12]


def test_largest_gap() -> None:
    """The longest run that no range holds, the edges included; overlapping ranges are one."""
    starts, stops = np.array([30, 10, 12]), np.array([40, 20, 15])
    assert largest_gap(starts, stops, 0, 100) == 60
    assert largest_gap(starts, stops, 0, 41) == 10
    assert largest_gap(starts, stops, 10, 20) == 0
    assert largest_gap(starts[:0], stops[:0], 5, 25) == 20


def test_the_figures_are_those_of_the_memory() -> None:
    """Used bytes, peak and the largest free range from changes alone equal the device's own statistics."""
    with board(trace=1000) as driver:
        feed, memory = Feed(driver=driver), driver.context(0).memory
        feed.ask_details()
        draw = np.random.default_rng(5)
        live: list[Allocation] = []
        for _ in range(300):
            if live and draw.random() < 0.4:
                memory.free(live.pop(int(draw.integers(len(live)))))
            else:
                bank = int(draw.integers(4)) if draw.random() < 0.5 else None
                live.append(memory.allocate(int(draw.integers(1, 3 * MIB)), bank=bank))
        feed.poll()
        picture = MemoryPicture(feed)
        picture.update()
        truth, steps, capacity = memory.statistics(), picture.steps(0), picture.extent(0).capacity
        assert (steps.at(None), steps.peak()[0], capacity) == (truth.used, truth.peak, truth.used + truth.free)
        assert free_at(picture.history, 0, None, truth.used, capacity) == truth.largest_free
        assert len(picture.history.standing(0, None, truth.used, 9).live) == truth.live
        feed.stop()
