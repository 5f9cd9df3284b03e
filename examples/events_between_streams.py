"""Three streams, one after another where the data demand it: load, compute, save.

Look at: `compute.wait(loaded)` makes later work of `compute` wait, and no other stream. Without it the kernel would
start at once, long before the copy has ended.
"""

from __future__ import annotations

import asyncio

import numpy as np

import atops
from atops import kernels as k

TILE = 32_768


@k.kernel
async def negate(x: k.Span) -> None:
    """Negate x in place."""
    buffer = k.local(TILE, np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, TILE):
            tile = buffer[: part.stop - part.start]
            await k.memcpy_async(dte, tile, x[part])
            np.negative(tile, out=tile)
            await k.memcpy_async(dte, x[part], tile)


async def main() -> None:
    """Send one array through three streams, ordered by two events."""
    device = atops.Device(0)
    host = np.arange(4 << 20, dtype=np.float32)
    async with device.create_stream() as load, device.create_stream() as compute, device.create_stream() as save:
        x = load.upload(host)
        loaded = load.record()  # complete when everything that `load` has now is done

        compute.wait(loaded)
        compute.launch(negate, (2, 12), x)
        computed = compute.record()

        save.wait(computed)
        result = await save.fetch(x)

    print(f"the kernel ended {computed - loaded:.3f} ms after the upload")  # events have times
    assert np.array_equal(result, -host) and computed - loaded >= 0


if __name__ == "__main__":
    asyncio.run(main())
