"""Two devices share the work, and the second hands its part to the first.

Look at: nothing is shared but what is copied. An event of one device orders a stream of the other, so the host need
not stand in between.
"""

from __future__ import annotations

import asyncio

import numpy as np

import atops
from atops import kernels as k

TILE = 2048


@k.kernel
async def square_root(x: k.Span) -> None:
    """Take the square root of x in place."""
    buffer = k.local(TILE, np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, TILE):
            tile = buffer[: part.stop - part.start]
            await k.memcpy_async(dte, tile, x[part])
            np.sqrt(tile, out=tile)
            await k.memcpy_async(dte, x[part], tile)


async def main() -> None:
    """Split an array over a board of two devices."""
    host = np.arange(400_000, dtype=np.float32)
    share = host.size // 4  # device 0 gets a quarter, for it has to collect
    async with atops.Driver(atops.EmulatorOptions(devices=2)) as driver:  # a board of this program's own
        first, second = (atops.Device(ordinal, driver) for ordinal in range(2))
        async with first.create_stream() as here, second.create_stream() as there:
            whole = here.upload(host)
            part = there.upload(host[share:])
            there.launch(square_root, (2, 12), part)  # each device has clusters of its own:
            here.launch(square_root, (2, 12), whole[:share])  # both kernels run at the same time

            here.wait(there.record())
            here.copy(whole[share:], part)  # from device 1 to device 0
            result = await here.fetch(whole)

    print(f"{host.size} square roots, {part.nbytes} bytes of them from device {part.device_id}")
    assert np.array_equal(result, np.sqrt(host))


if __name__ == "__main__":
    asyncio.run(main())
