"""Indexes over free ranges: what they find is pinned by the allocator's tests; here is what they cost."""

from __future__ import annotations

import random

import pytest

from atops.device.memory.allocator.range_index import AddressIndex, SizeIndex


def test_stale_entries_are_bounded():
    """Ranges that come and go leave no more entries behind than there ever were ranges, plus a constant."""
    free: dict[int, int] = {}
    index = SizeIndex(free, 4)
    seeded = random.Random(5)
    for step in range(50_000):
        start = seeded.randrange(400) * 8
        if start in free:
            index.remove(start, free.pop(start))
        else:
            free[start] = 1 + seeded.randrange(3)
            index.add(start, free[start])
        assert sum(map(len, index._bins.values())) <= 2 * 400 + 1024
        if step % 97 == 0:
            fitting = [(length, start) for start, length in free.items() if length >= 2]
            assert index.best(2) == (min(fitting)[1] if fitting else -1)
            assert index.largest() == max(free.values(), default=0)
    for start in list(free):
        index.remove(start, free.pop(start))
    assert index.best(1) == -1
    assert index.largest() == 0


@pytest.mark.slow
def test_the_highest_range_is_found_among_many():
    """The address index agrees with a search of all ranges while they come and go."""
    ranges: dict[int, int] = {}
    index = AddressIndex(1 << 28)
    seeded = random.Random(6)
    for _ in range(5_000):
        start = seeded.choice([seeded.randrange(500), seeded.randrange(1 << 28)])
        if start in ranges:
            index.remove(start, ranges.pop(start))
        else:
            ranges[start] = 1 + seeded.randrange(1000)
            index.add(start, ranges[start])
        need = seeded.randrange(1, 1100)
        assert index.highest(need) == max((start for start, length in ranges.items() if length >= need), default=-1)
