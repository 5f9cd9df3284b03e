"""Free one of 100,000 live allocations and make another, in memory that this has left full of holes.

Beside it a prototype does the same with dictionaries and a sorted list, which slows down as holes grow in number.

The budget is twice the prototype's time. The bookkeeping of free ranges takes half of it, but 100,000 live buffers are
objects that no cache holds: two plain objects for each range, a handle and the memory, bring the prototype itself to
1.2. The lock, the place that asked and the text about use after free bring the memory alone to about 1.2; the handle,
the look for work that still needs the memory, and the two methods by which C code gives back what is collected bring
buffers to about 1.6 (CPU time of one thread, medians of 60 to 80 neighbouring runs).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from benchmarks.bare.best_fit import BareBestFit
from benchmarks.measuring.figures import Figure, at_most
from benchmarks.measuring.measure import Effort, board, interleave

__all__ = ("allocate_and_free",)

LARGEST = 64 << 10  # bytes

Held = TypeVar("Held")


def allocate_and_free(effort: Effort) -> Iterator[Figure]:
    """Yield the time of freeing and allocating: of buffers, which track work that uses them, and of bare memory."""
    live, pairs = effort.size(100_000, 200), effort.size(5_000, 20)
    chance = random.Random(1)
    sizes = [chance.randrange(1, LARGEST) for _ in range(pairs)]
    with board() as device:
        memory = device.context.memory
        buffers = [device.allocate(chance.randrange(1, LARGEST)) for _ in range(live)]
        ranges = [memory.allocate(size) for size in sizes]
        bare = BareBestFit(memory.total)
        places = [bare.allocate(chance.randrange(1, LARGEST)) for _ in range(live)]
        times = interleave(
            effort.times(),
            buffers=lambda: _churned(buffers, sizes, chance, lambda buffer: buffer.close(), device.allocate),
            ranges=lambda: _churned(ranges, sizes, chance, memory.free, memory.allocate),
            bare=lambda: _churned(places, sizes, chance, bare.free, bare.allocate),
        )
    rows = (
        ("free and allocate, 100,000 live", "buffers", at_most(2.0)),
        ("  without buffers", "ranges", None),
    )
    for what, side, budget in rows:
        yield Figure(
            what,
            times.least(side) / pairs * 1e6,
            "µs",
            "bare best fit",
            times.least("bare") / pairs * 1e6,
            times.ratio(side, "bare"),
            times.spread(side, "bare"),
            budget,
        )


def _churned(
    held: list[Held], sizes: list[int], chance: random.Random, free: Callable[[Held], None], make: Callable[[int], Held]
) -> float:
    """Return the seconds to put something new of each size in the place of something held."""
    victims = chance.sample(range(len(held)), len(sizes))
    start = time.perf_counter()
    for victim, size in zip(victims, sizes, strict=True):
        free(held[victim])
        held[victim] = make(size)
    return time.perf_counter() - start


# An allocation keeps the line of the program that asked for it. Files of this package are not taken for a program: the
# search would go up the whole stack of the bench, which no program pays for.
_churned.__code__ = _churned.__code__.replace(co_filename="a program")
