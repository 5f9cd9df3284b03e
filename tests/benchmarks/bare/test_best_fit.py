"""The prototype under the allocation row really is best fit: it places as the allocator of a memory does."""

from __future__ import annotations

import random

from atops.device.memory.allocator.ranges import RangeAllocator
from benchmarks.bare.best_fit import BareBestFit

SIZE = 1 << 22


def test_it_places_as_the_allocator_does() -> None:
    """After every step of a long random program the two have put a range at the same address."""
    chance, held = random.Random(3), list[int]()
    bare, ranges = BareBestFit(SIZE), RangeAllocator(0, SIZE)
    for _ in range(3000):
        if len(held) > 100 or (held and chance.random() < 0.4):
            start = held.pop(chance.randrange(len(held)))
            bare.free(start)
            ranges.free(start)
        size = chance.randrange(1, 20_000)
        start = bare.allocate(size)
        assert start == ranges.allocate(size)
        held.append(start)
    assert ranges.free_ranges > 10
