"""Reduction through L2: each thread sums in its L1, the block meets at a barrier and adds up in shared memory.

Look at: the one barrier. Each thread stores its partial sums of all the block's rows first, in a column of its own, and
when everybody has, each thread finishes some of the rows. A tile is cut out of several rows by one transfer; `slice`
fills what lies beyond the matrix with zeros, which add nothing, so that sizes need not divide.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from measured import Array, Measured

import atops
from atops import kernels as k

HEIGHT, WIDTH = 4, 16_384  # of a tile; float32: 256 KiB of L1 at most


@k.kernel
async def row_sums(y: k.Span, x: k.Span) -> None:
    """Sum each row of x into y. A block takes a panel of rows, its threads take tiles of the panel in turn."""
    me, threads = k.threadIdx.x, k.blockDim.x
    rows, count = x.shape
    share = -(-rows // k.gridDim.x)
    panel = range(rows)[k.blockIdx.x * share : (k.blockIdx.x + 1) * share]
    width = min(WIDTH, -(-count // threads))
    tile = k.local((min(HEIGHT, share), width), np.float32)
    mine = k.local(share + HEIGHT, np.float32)
    partial = k.shared((share, threads), np.float32)
    mine[:] = 0
    with k.dte_scope() as dte:
        for turn in range(0, len(panel), HEIGHT):
            for column in range(me * width, count, threads * width):
                k.slice(dte, tile, x, (panel[turn], column))
                mine[turn : turn + len(tile)] += np.sum(tile, axis=1)
        partial[:, me] = mine[:share]

        await k.syncthreads()  # every thread has stored its column

        for turn in range(me, len(panel), threads):
            mine[turn] = np.sum(partial[turn])
            k.memcpy(dte, y[panel[turn] : panel[turn] + 1], mine[turn : turn + 1])


def problem(generator: np.random.Generator, rows: int, count: int) -> tuple[Any, ...]:
    """Return whole numbers, whose sums are exact in whatever order they are added."""
    return (generator.integers(-8, 9, (rows, count)).astype(np.float32),)


def reference(x: Array) -> Array:
    """Do the same in numpy."""
    return np.sum(x, axis=1)


async def program(host: Array) -> Array:
    """Upload, launch on the whole chip, fetch."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.upload(host)
        y = stream.empty(len(host), np.float32)
        stream.launch(row_sums, (2, 12), y, x)
        return await stream.fetch(y)


EXAMPLE = Measured(
    "reduction through L2",
    program,
    reference,
    problem,
    size=(8, 131_072),
    others=((1, 1), (3, 11), (2, 12), (27, 1000), (2, 400_003)),
)

if __name__ == "__main__":
    EXAMPLE.main()
