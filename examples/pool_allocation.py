"""Memory in stream order: what one step frees the next one gets, though neither has run yet.

Look at: `free` and `empty` are commands like any other, so a loop of a thousand temporaries needs the memory of one.
"""

from __future__ import annotations

import asyncio

import numpy as np

import atops

STEPS, SIZE = 1000, 65_536


async def main() -> None:
    """Allocate and free a thousand temporaries from a pool of one's own."""
    device = atops.Device(0)
    async with device.create_pool(name="scratch") as pool, device.create_stream() as stream:
        total = stream.zeros(STEPS, np.int32)
        addresses = set()
        for step in range(STEPS):
            scratch = stream.empty(SIZE, np.int32, pool=pool)
            addresses.add(scratch.address)
            stream.fill(scratch, step)
            stream.copy(total[step : step + 1], scratch[SIZE - 1 :])
            stream.free(scratch)  # after the copy, in stream order: nothing waits
        result = await stream.fetch(total)
        figures = pool.statistics()

    print(f"{STEPS} allocations at {len(addresses)} address; {figures.reserved_high} bytes reserved at most")
    assert np.array_equal(result, np.arange(STEPS))
    assert len(addresses) == 1 and figures.same_stream == STEPS - 1 and figures.used_high == SIZE * 4


if __name__ == "__main__":
    asyncio.run(main())
