"""Cooperative and in two phases: everybody needs the mean and the deviation of the whole array before anybody stores.

Look at: the workspace in global memory, the only place where blocks meet, and the grid barrier between the phases. The
launch is cooperative: both blocks run at the same time, else the barrier could wait for one that has not started.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from measured import Array, Measured

import atops
from atops import kernels as k

TILE = 43_712  # float32: 171 KiB of L1


@k.cooperative
async def standardise(y: k.Span, x: k.Span, workspace: k.Span) -> None:
    """Shift and scale x into y, to mean 0 and variance 1. The workspace has two float64 for each thread."""
    me, threads = k.thread_id(), k.thread_count()
    tile = k.local(TILE, np.float32)
    sums = k.local((threads, 2), np.float64)
    with k.dte_scope() as dte:
        sums[me] = 0
        for part in k.tiles(x.size, TILE):
            here = tile[: part.stop - part.start]
            k.memcpy(dte, here, x[part])
            sums[me] += np.sum(here, dtype=np.float64), np.dot(here, here)
        k.memcpy(dte, workspace[me], sums[me])  # publish

        await k.syncblocks()  # now every thread of both blocks has published

        k.memcpy(dte, sums, workspace)
        mean, mean_of_squares = np.sum(sums, axis=0) / x.size
        scale = np.float32(1 / np.sqrt(mean_of_squares - mean * mean))
        for part in k.tiles(x.size, TILE):
            here = tile[: part.stop - part.start]
            k.memcpy(dte, here, x[part])
            np.subtract(here, np.float32(mean), out=here)
            np.multiply(here, scale, out=here)
            k.memcpy(dte, y[part], here)


def problem(generator: np.random.Generator, count: int) -> tuple[Any, ...]:
    """Return numbers around 1 that are not all alike."""
    return (generator.normal(1, 2, count).astype(np.float32),)


def reference(x: Array) -> Array:
    """Do the same in numpy."""
    centred = x - np.mean(x)
    centred *= 1 / np.sqrt(np.dot(centred, centred) / x.size)
    return centred


async def program(host: Array) -> Array:
    """Upload, launch on the whole chip, fetch."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.upload(host)
        y, workspace = stream.empty_like(x), stream.empty((24, 2), np.float64)
        stream.launch(standardise, (2, 12), y, x, workspace)
        return await stream.fetch(y)


EXAMPLE = Measured(
    "cooperative, two phases",
    program,
    reference,
    problem,
    size=(1 << 20,),
    others=((2,), (1000,), (TILE + 1,), (24 * TILE + 7,)),
    tolerance=1e-4,
)

if __name__ == "__main__":
    EXAMPLE.main()
