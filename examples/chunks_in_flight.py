"""A stream of chunks through the device, several in flight, results in order.

Look at: `double` only enqueues, so upload, kernel and download of neighbouring chunks run beside each other; and the
source is read no further ahead of the consumer than `in_flight` allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np

import atops
from atops import kernels as k

CHUNKS, SIZE, IN_FLIGHT = 20, 12_000, 4


@k.kernel
async def times_two(x: k.Span, y: k.Span) -> None:
    """Double x into y, a tile for each thread."""
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, SIZE // 24):
            tile = k.local(part.stop - part.start, np.float32)
            await k.memcpy_async(dte, tile, x[part])
            tile *= 2
            await k.memcpy_async(dte, y[part], tile)


def double(stream: atops.Stream, x: atops.DeviceArray) -> atops.DeviceArray:
    """Enqueue what happens to one chunk: a stage gets device memory and returns device memory."""
    y = stream.empty_like(x)
    stream.launch(times_two, (2, 12), x, y)
    return y


async def main() -> None:
    """Double twenty chunks and check their order, and how far the source was read."""
    read = 0

    def source() -> Iterator[np.ndarray]:
        nonlocal read
        for number in range(CHUNKS):
            read += 1
            yield np.full(SIZE, number, np.float32)

    ahead, firsts = 0, []
    async with atops.pipeline(source(), double, streams=2, in_flight=IN_FLIGHT) as results:
        async for result in results:
            firsts.append(int(result[0]))
            ahead = max(ahead, read - len(firsts))

    print(f"{len(firsts)} chunks in order, the source at most {ahead} ahead")
    assert firsts == [2 * number for number in range(CHUNKS)] and ahead <= IN_FLIGHT


if __name__ == "__main__":
    asyncio.run(main())
