"""The clocks: nanoseconds as integers, never backwards."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.clock import Clock, VirtualClock, WallClock
from atops.base.errors import InvalidValue


def test_the_wall_clock_reads_the_monotonic_clock() -> None:
    """The wall clock shows integer nanoseconds between two readings of the machine's monotonic clock."""
    before = time.monotonic_ns()
    now = WallClock().now()
    assert isinstance(now, int)
    assert before <= now <= time.monotonic_ns()


def test_both_are_clocks() -> None:
    """What a tracer or a driver takes as a clock, both are."""
    assert isinstance(WallClock(), Clock)
    assert isinstance(VirtualClock(), Clock)


def test_a_virtual_clock_stands_still_until_advanced() -> None:
    """Reading does not move it; advancing does, by exactly what was asked."""
    clock = VirtualClock(5)
    assert (clock.now(), clock.now()) == (5, 5)
    assert clock.advance(10) == clock.now() == 15
    assert clock.advance_to(15) == 15
    assert clock.advance_to(40) == clock.now() == 40
    assert repr(clock) == "<VirtualClock 40 ns>"


@pytest.mark.slow
@given(st.lists(st.integers(0, 1 << 40)))
def test_a_virtual_clock_sums_exactly(steps: list[int]) -> None:
    """Any number of steps adds up without rounding."""
    clock = VirtualClock()
    for step in steps:
        clock.advance(step)
    assert clock.now() == sum(steps)


def test_time_never_runs_backwards() -> None:
    """A step back, and a start before zero, are refused with the values named; the time stays."""
    clock = VirtualClock(100)
    with pytest.raises(InvalidValue, match="-1 ns"):
        clock.advance(-1)
    with pytest.raises(InvalidValue, match="at 100 ns cannot go to 99 ns"):
        clock.advance_to(99)
    with pytest.raises(InvalidValue, match="start at -3 ns"):
        VirtualClock(-3)
    assert clock.now() == 100
