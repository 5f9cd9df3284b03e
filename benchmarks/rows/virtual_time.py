"""What counting the time of kernels costs: the same launches, inline, under the virtual clock and the wall clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import atops
from atops import kernels as k
from benchmarks.measuring.figures import Figure, at_least, compared
from benchmarks.measuring.measure import Effort, interleave
from benchmarks.rows.barriers import THREADS, rounds
from benchmarks.rows.vector_add import GRID, add_tiles

__all__ = ("virtual_time",)

SIZE = 1 << 20
LANES = 128


@k.kernel
def add_vectors(count: np.int32) -> None:
    """Load a vector of L1, add it to itself and store it, again and again."""
    tile = k.local(LANES, np.float32)
    kind = k.vector4[np.float32]
    for _ in range(count):
        loaded = kind.load(tile)
        (loaded + loaded).store(tile)


def virtual_time(effort: Effort) -> Iterator[Figure]:
    """Yield the rate of launches under the virtual clock, as a share of that under the wall clock."""
    count = effort.size(5, 1)
    for name, kernel, strict, least in (
        ("vector add of 2^20", add_tiles, False, 0.8),
        ("barriers", rounds, False, 0.8),
        ("vectors", add_vectors, False, 0.8),
        ("vector add of 2^20, strict", add_tiles, True, 1 / 3),
    ):
        times = interleave(
            effort.times(3),
            virtual=partial(_run, kernel, "virtual", strict, count, effort),
            wall=partial(_run, kernel, "wall", strict, count, effort),
        )  # fmt: skip
        yield compared(
            f"virtual time, {name}", times, "virtual", "wall",
            reference="the wall clock", unit="ms", count=count, budget=at_least(least),
        )  # fmt: skip


def _run(kernel: k.Kernel, clock: Any, strict: bool, count: int, effort: Effort) -> float:
    """Return the seconds of so many launches in a run of their own, without its begin and end."""

    async def main() -> float:
        async with atops.Device(0).create_stream() as stream:
            if kernel is add_tiles:
                size = effort.size(SIZE, 1000)
                config: Any = GRID
                arguments: tuple[Any, ...] = tuple(stream.zeros(size, np.float32) for _ in range(3))
            else:
                config, arguments = (1, THREADS), (effort.size(200, 2),)
            await stream.launch(kernel, config, *arguments)
            start = time.perf_counter()
            for _ in range(count):
                await stream.launch(kernel, config, *arguments)
            return time.perf_counter() - start

    return atops.run(main, atops.EmulatorOptions(clock=clock, strict=strict))
