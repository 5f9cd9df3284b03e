"""The prototype under the allocation row really is best fit: it places as the allocator of a memory does."""

from __future__ import annotations

import random

from atops.device.memory.banks import Banks
from benchmarks.bare.best_fit import BareBestFit

SIZE = 1 << 22


def test_it_places_as_the_allocator_does() -> None:
    """After every step of a long random program the two have put a range at the same address."""
    chance, held = random.Random(3), list[tuple[int, int]]()
    bare, banks = BareBestFit(SIZE), Banks(SIZE, 1, 256)
    for _ in range(3000):
        if len(held) > 100 or (held and chance.random() < 0.4):
            start, size = held.pop(chance.randrange(len(held)))
            bare.free(start)
            banks.free(start, size)
        size = chance.randrange(1, 20_000)
        start = bare.allocate(size)
        assert start == banks.allocate(size)
        held.append((start, size))
    assert len(held) > 90
