"""Free one of 100,000 live allocations and make another, in memory that this has left full of holes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from sortedcontainers import SortedList

from atops.apps.benchmarks.figures import Figure, value_at_most
from atops.apps.benchmarks.measure import Effort, board, interleave

__all__ = ("allocate_and_free",)

LARGEST = 64 << 10  # bytes


def allocate_and_free(effort: Effort) -> Iterator[Figure]:
    """Yield the time of a pair through a device, whose buffers know when the work that uses them is over."""
    live, pairs = effort.size(100_000, 200), effort.size(5_000, 20)
    chance = random.Random(1)
    sizes = [chance.randrange(1, LARGEST) for _ in range(pairs)]
    with board() as device:
        buffers = [device.allocate(chance.randrange(1, LARGEST)) for _ in range(live)]
        index = SortedList((chance.random(), number) for number in range(live))

        def churn() -> float:
            victims = chance.sample(range(live), pairs)
            start = time.perf_counter()
            for victim, size in zip(victims, sizes, strict=True):
                buffers[victim].close()
                buffers[victim] = device.allocate(size)
            return time.perf_counter() - start

        def reorder() -> float:
            keys = [(chance.random(), number) for number in range(pairs)]
            start = time.perf_counter()
            for key in keys:
                index.add(key)
                index.remove(key)
            return time.perf_counter() - start

        memory = device.context.memory
        ranges = [memory.allocate(size) for size in sizes]

        def churn_memory() -> float:
            chance.shuffle(ranges)
            start = time.perf_counter()
            for number, size in enumerate(sizes):
                memory.free(ranges[number])
                ranges[number] = memory.allocate(size)
            return time.perf_counter() - start

        times = interleave(effort.times(), index=reorder, pair=churn, memory=churn_memory)
    rows = (
        ("free and allocate, 100,000 live", "pair", value_at_most(12)),
        ("  without buffers", "memory", None),
    )
    for what, side, budget in rows:
        yield Figure(
            what,
            times.least(side) / pairs * 1e6,
            "µs",
            "SortedList",
            times.least("index") / pairs * 1e6,
            times.ratio(side, "index"),
            times.spread(side, "index"),
            budget,
        )
