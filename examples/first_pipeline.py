"""Host to device, two kernels, and back: the shortest useful program.

Look at: every verb of the stream returns at once; the one `await` is where the result is needed.
"""

from __future__ import annotations

import asyncio

import numpy as np

import atops
from atops import kernels as k

TILE = 4096


@k.kernel
async def square(x: k.Span, y: k.Span) -> None:
    """Square x into y. Each of the grid's threads takes tiles in turn through its own memory."""
    buffer = k.local(TILE, np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, TILE):
            tile = buffer[: part.stop - part.start]  # the last tile may be short
            await k.memcpy_async(dte, tile, x[part])
            np.square(tile, out=tile)
            await k.memcpy_async(dte, y[part], tile)


@k.kernel
async def add(y: k.Span, amount: np.float32) -> None:
    """Add a number to y, in place."""
    buffer = k.local(TILE, np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(y.size, TILE):
            tile = buffer[: part.stop - part.start]
            await k.memcpy_async(dte, tile, y[part])
            tile += amount
            await k.memcpy_async(dte, y[part], tile)


async def main() -> None:
    """Compute x * x + 1 on the device."""
    host = np.linspace(-1, 1, 100_000, dtype=np.float32)
    async with atops.Device(0).create_stream() as stream:  # the block owns the memory that the stream makes
        x = stream.upload(host)
        y = stream.empty_like(x)
        stream.launch(square, (2, 12), x, y)  # 2 blocks of 12 threads: the whole chip
        stream.launch(add, (2, 12), y, 1.0)  # runs after `square`: a stream keeps its order
        result = await stream.fetch(y)

    print(f"{host.size} values, the smallest is {result.min():.3f}")
    assert np.allclose(result, host * host + 1)


if __name__ == "__main__":
    asyncio.run(main())
