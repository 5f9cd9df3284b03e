"""Every thread needs the sum over the whole array: partial sums, a grid barrier, then everybody reads all of them.

Look at: `k.cooperative` starts both blocks together, so that `k.syncblocks()` can wait for the other block. Between
blocks there is no other order, and global memory is the only place where they meet.
"""

from __future__ import annotations

import asyncio

import numpy as np

import atops
from atops import kernels as k

TILE = 4096


@k.cooperative
async def normalise(x: k.Span, y: k.Span, partial: k.Span) -> None:
    """Divide x by its sum into y. `partial` has one element a thread."""
    tile = k.local(TILE, np.float64)
    sums = k.local(k.thread_count(), np.float64)
    me = k.thread_id()
    with k.dte_scope() as dte:
        sums[me] = 0
        for part in k.tiles(x.size, TILE):
            k.memcpy(dte, tile, x[part])
            sums[me] += np.sum(tile)
        k.memcpy(dte, partial[me : me + 1], sums[me : me + 1])  # publish

        await k.syncblocks()  # now every thread of both blocks has published

        k.memcpy(dte, sums, partial)
        total = np.sum(sums)
        for part in k.tiles(x.size, TILE):
            k.memcpy(dte, tile, x[part])
            tile /= total
            k.memcpy(dte, y[part], tile)


async def main() -> None:
    """Normalise an array with all 24 threads."""
    host = np.random.default_rng(1).random(64 * TILE)
    async with atops.Device(0).create_stream() as stream:
        x = stream.upload(host)
        y, partial = stream.empty_like(x), stream.empty(24, np.float64)
        stream.launch(normalise, (2, 12), x, y, partial)
        result = await stream.fetch(y)

    print(f"the sum is {result.sum():.6f}")
    assert np.allclose(result, host / host.sum())


if __name__ == "__main__":
    asyncio.run(main())
