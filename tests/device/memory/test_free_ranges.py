"""Free ranges in banks against one flag for each granule: neighbours, ends of banks, and finding one."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest

from atops.device.memory.free_ranges import FreeRanges

PART, BANKS = 16, 3


def runs(free: list[bool]) -> list[tuple[int, int]]:
    """Return (start, length) of the runs of free granules, cut at the ends of banks."""
    found: list[tuple[int, int]] = []
    for granule, is_free in enumerate(free):
        if is_free and (granule % PART == 0 or not free[granule - 1]):
            found.append((granule, 1))
        elif is_free:
            found[-1] = found[-1][0], found[-1][1] + 1
    return found


@pytest.mark.slow
def test_a_random_life_agrees_with_flags():
    """What is free, both ends of each bank, the largest range and every way to find one are what the flags say."""
    seeded = random.Random(8)
    ranges, free = FreeRanges(0, PART * BANKS, PART), [True] * (PART * BANKS)
    taken: list[tuple[int, int]] = []
    for _ in range(3_000):
        need, bank = seeded.randrange(1, 7), seeded.randrange(BANKS)
        if taken and seeded.random() < 0.5:
            start, stop = taken.pop(seeded.randrange(len(taken)))
            ranges.give(start, stop)
            free[start:stop] = [True] * (stop - start)
        elif seeded.random() < 0.5:
            fitting = [(length, start) for start, length in runs(free) if length >= need]
            start = ranges.take_best(need)
            assert start == (min(fitting)[1] if fitting else -1)
            if start >= 0:
                taken.append((start, start + need))
                free[start : start + need] = [False] * need
        elif (start := ranges.highest(need, bank)) >= 0:
            cut = start + seeded.randrange(ranges.length(start) - need + 1)
            ranges.take(start, cut, need)
            taken.append((cut, cut + need))
            free[cut : cut + need] = [False] * need
        now = runs(free)
        assert len(list(ranges)) == len(now)
        assert ranges.largest() == max((length for _, length in now), default=0)
        for number in range(BANKS):
            mine = [(start, length) for start, length in now if start // PART == number]
            fitting = [(length, start) for start, length in mine if length >= need]
            assert sorted(each for each in ranges if each[0] // PART == number) == mine
            assert ranges.largest(number) == max((length for _, length in mine), default=0)
            assert ranges.best_of(need, number) == (min(fitting)[1] if fitting else -1)
            assert ranges.highest(need, number) == max((start for _, start in fitting), default=-1)
            assert ranges.length(number * PART) == dict(mine).get(number * PART, 0)
            end = (number + 1) * PART
            assert ranges.before(end) == next((length for start, length in mine if start + length == end), 0)


@pytest.mark.parametrize("cooling", [False, True])
def test_what_is_warm_is_what_was_given_back(cooling: bool):
    """Warm ranges are free, cover every granule given back and not taken since, and add up to the total."""
    seeded = random.Random(9)
    ranges, was_used = FreeRanges(0, PART * BANKS, PART), [False] * (PART * BANKS)
    free = [True] * (PART * BANKS)
    taken: list[tuple[int, int]] = []
    for step in range(3_000):
        if taken and seeded.random() < 0.5:
            start, stop = taken.pop(seeded.randrange(len(taken)))
            ranges.give(start, stop)
            free[start:stop] = was_used[start:stop] = [True] * (stop - start)
        elif (start := ranges.take_best(need := seeded.randrange(1, 7))) >= 0:
            taken.append((start, start + need))
            free[start : start + need] = [False] * need
            was_used[start : start + need] = [False] * need
        if cooling and step % 7 == 0 and ranges.warm.total:
            before = ranges.warm.total
            (low, high), (first, end) = ranges.warm.cool(2)
            assert first <= low < high <= end
            assert high - low <= 2
            assert ranges.warm.total == before - (high - low)
            was_used[low:high] = [False] * (high - low)
        warm = [granule for low, high in ranges.warm for granule in range(low, high)]
        assert len(warm) == len(set(warm)) == ranges.warm.total
        assert all(free[granule] for granule in warm)
        assert {granule for granule, used in enumerate(was_used) if used} <= set(warm)


def test_stale_entries_are_bounded():
    """Ranges that come and go leave no more entries behind than there ever were ranges, plus a constant."""
    seeded, count = random.Random(5), 400
    ranges = FreeRanges(0, 8 * count, 8 * count)
    taken = [ranges.take_best(1 + place % 3) for place in range(count)]
    held = {start: 1 + place % 3 for place, start in enumerate(taken)}
    for _ in range(20_000):
        start = seeded.choice([*held]) if held and seeded.random() < 0.5 else -1
        if start >= 0:
            ranges.give(start, start + held.pop(start))
        elif (start := ranges.take_best(need := seeded.randrange(1, 4))) >= 0:
            held[start] = need
        assert sum(map(len, ranges._bins.values())) <= 2 * count + 1024
        assert ranges._lengths == sorted(ranges._bins)
    for start, length in held.items():
        ranges.give(start, start + length)
    assert list(ranges) == [(0, 8 * count)]


def lines_run(call: Callable[[], object]) -> int:
    """Count the lines of Python that a call runs."""
    run = 0

    def count(frame: object, event: str, argument: object) -> object:
        nonlocal run
        run += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)  # type: ignore[arg-type]  # it returns itself
    try:
        call()
    finally:
        sys.settrace(before)
    return run


def test_a_request_for_a_bank_or_from_its_top_does_not_look_at_every_range():
    """The second one, among 5,000 free ranges of which few are long enough, takes few steps."""
    part = 1 << 16
    ranges = FreeRanges(0, 2 * part, part)
    taken = [ranges.take_best(1 + number % 7) for number in range(10_000)]
    for number in range(0, 10_000, 2):
        ranges.give(taken[number], taken[number] + 1 + number % 7)
    for find in (ranges.best_of, ranges.highest):
        for bank, need in ((0, 3), (0, 8), (0, part), (1, 3)):
            find(need, bank)
            assert lines_run(lambda find=find, need=need, bank=bank: find(need, bank)) < 200  # type: ignore[misc]
