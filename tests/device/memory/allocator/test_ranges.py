"""The range allocator against a model that looks at every free range each time."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from atops.device.memory.allocator.ranges import NoRoom, RangeAllocator

START, GRANULE, GRANULES = 0x1000, 256, 64


class NaiveRanges:
    """One flag for each granule; every question is answered by looking at all of them."""

    def __init__(self) -> None:
        self.free = [True] * GRANULES
        self.live: dict[int, int] = {}
        self.peak = 0

    def ranges(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for granule, free in enumerate([*self.free, False]):
            if free and (granule == 0 or not self.free[granule - 1]):
                found.append((granule, 0))
            if not free and granule and self.free[granule - 1]:
                found[-1] = found[-1][0], granule - found[-1][0]
        return found

    def allocate(self, size: int, top_down: bool) -> int | None:
        need = max(1, -(-size // GRANULE))
        fitting = [(length, start) for start, length in self.ranges() if length >= need]
        if not fitting:
            return None
        length, start = max(fitting, key=lambda one: one[1]) if top_down else min(fitting)
        start += length - need if top_down else 0
        self.free[start : start + need] = [False] * need
        self.live[start] = need
        self.peak = max(self.peak, self.used)
        return START + start * GRANULE

    def release(self, address: int) -> int:
        start = (address - START) // GRANULE
        need = self.live.pop(start)
        self.free[start : start + need] = [True] * need
        return need * GRANULE

    @property
    def used(self) -> int:
        return sum(self.live.values())


class RangesMachine(RuleBasedStateMachine):
    """Do the same to both and compare everything that can be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges = RangeAllocator(START, GRANULES * GRANULE, GRANULE)
        self.naive = NaiveRanges()
        self.live: list[int] = []

    @rule(size=st.one_of(st.integers(0, 4 * GRANULE), st.integers(0, 70 * GRANULE)), top_down=st.booleans())
    def allocate(self, size: int, top_down: bool) -> None:
        expected = self.naive.allocate(size, top_down)
        if expected is None:
            with pytest.raises(NoRoom):
                self.ranges.allocate(size, top_down=top_down)
        else:
            assert self.ranges.allocate(size, top_down=top_down) == expected
            self.live.append(expected)

    @precondition(lambda self: self.live)
    @rule(which=st.randoms(use_true_random=False))
    def free(self, which: random.Random) -> None:
        address = self.live.pop(which.randrange(len(self.live)))
        assert self.ranges.free(address) == self.naive.release(address)

    @invariant()
    def agrees(self) -> None:
        ranges = [(START + start * GRANULE, length * GRANULE) for start, length in self.naive.ranges()]
        seen = self.ranges.statistics()
        assert list(self.ranges) == ranges
        assert seen.free_ranges == self.ranges.free_ranges == len(ranges)
        assert seen.largest_free == max((length for _, length in ranges), default=0)
        assert (seen.used, seen.live) == (self.naive.used * GRANULE, len(self.live))
        assert seen.used + seen.free == seen.capacity == GRANULES * GRANULE
        assert seen.peak == self.naive.peak * GRANULE


TestRangesMachine = RangesMachine.TestCase
TestRangesMachine.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


def test_best_fit_takes_the_smallest_hole_and_the_lowest_of_equals() -> None:
    """Of holes of 4, 2 and 2 granules a request for 2 takes the lower one of 2, and one for 3 the hole of 4."""
    ranges = RangeAllocator(0, 64 * 256)
    addresses = [ranges.allocate(size * 256) for size in (4, 1, 2, 1, 2, 1)]
    for hole in (0, 2, 4):
        ranges.free(addresses[hole])
    assert ranges.allocate(512) == addresses[2]
    assert ranges.allocate(512) == addresses[4]
    assert ranges.allocate(768) == addresses[0]


def test_a_range_that_is_not_taken_cannot_be_freed() -> None:
    """Freeing an unknown, an interior or a freed start raises KeyError and changes nothing."""
    ranges = RangeAllocator(0, 1 << 16)
    address = ranges.allocate(1024)
    for wrong in (address + 256, 1 << 15):
        with pytest.raises(KeyError):
            ranges.free(wrong)
    ranges.free(address)
    with pytest.raises(KeyError):
        ranges.free(address)
    assert list(ranges) == [(0, 1 << 16)]


def test_ten_thousand_ranges_of_all_sizes_come_back_as_one() -> None:
    """After a long random life everything freed is one range again, and stale index entries were dropped on the way."""
    seeded = random.Random(7)
    ranges = RangeAllocator(1 << 36, 48 << 30)
    live = [ranges.allocate(seeded.randrange(1, 1 << 16), top_down=seeded.random() < 0.1) for _ in range(10_000)]
    for _ in range(20_000):
        where = seeded.randrange(len(live))
        ranges.free(live[where])
        live[where] = ranges.allocate(seeded.randrange(1, 1 << 16), top_down=seeded.random() < 0.1)
    assert ranges.statistics().live == 10_000
    for address in live:
        ranges.free(address)
    assert list(ranges) == [(1 << 36, 48 << 30)]
    assert ranges.used == 0 < ranges.peak
