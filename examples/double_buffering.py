"""Ping-pong: while a thread works on one tile, the DTE brings the next and takes away the one before.

Look at: four contexts, because each has one transfer in flight, and four events, because each transfer has one. Take
any `await` away and the result is wrong or the kernel is refused: a transfer takes effect as late as it legally may.
"""

from __future__ import annotations

import asyncio

import numpy as np

import atops
from atops import kernels as k

TILE = 2048


@k.kernel
async def scale(x: k.Span, y: k.Span, alpha: np.float32) -> None:
    """Scale x into y. The size of x is a multiple of TILE."""
    inputs, outputs = k.local((2, TILE), np.float32), k.local((2, TILE), np.float32)
    arriving, leaving = [k.event(), k.event()], [k.event(), k.event()]  # of no transfer yet: over when awaited
    with k.dte_scope() as in0, k.dte_scope() as in1, k.dte_scope() as out0, k.dte_scope() as out1:
        reader, writer = (in0, in1), (out0, out1)
        tiles = list(k.tiles(x.size, TILE))
        for part in tiles[:1]:
            arriving[0] = k.memcpy_async(reader[0], inputs[0], x[part])

        for turn, part in enumerate(tiles):
            now, other = turn % 2, (turn + 1) % 2
            for following in tiles[turn + 1 : turn + 2]:
                arriving[other] = k.memcpy_async(reader[other], inputs[other], x[following])
            await arriving[now]  # this turn's tile is here
            await leaving[now]  # and what was computed two turns ago has left its buffer
            np.multiply(inputs[now], alpha, out=outputs[now])
            leaving[now] = k.memcpy_async(writer[now], y[part], outputs[now])

        await leaving[0]
        await leaving[1]


async def main() -> None:
    """Scale an array in five turns a thread."""
    host = np.arange(5 * 24 * TILE, dtype=np.float32)
    async with atops.Device(0).create_stream() as stream:
        x = stream.upload(host)
        y = stream.empty_like(x)
        stream.launch(scale, (2, 12), x, y, 3.0)
        result = await stream.fetch(y)

    print(f"{host.size // TILE} tiles through {4 * 24} buffers")
    assert np.array_equal(result, host * 3)


if __name__ == "__main__":
    asyncio.run(main())
