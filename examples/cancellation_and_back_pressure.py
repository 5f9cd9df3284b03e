"""A producer that is faster than its stream waits for room; cancelled there, it takes back nothing that was accepted.

Look at: `stream.room()` is where the producer stops, not memory. Cancelling it ends its wait and gives its place to
the next in line; the work that is in the stream is done all the same.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import numpy as np

import atops

CAPACITY, ITEMS = 4, 100


async def main() -> None:
    """Fill a stream that stands still, cancel the producer, and let the stream go."""
    device, full = atops.Device(0), asyncio.Event()
    async with device.create_stream() as keeper, device.create_stream(capacity=CAPACITY) as stream:
        gate = keeper.zeros(1, np.int32)
        items = keeper.zeros(ITEMS, np.int32)
        await keeper

        async def produce() -> None:
            for number in range(ITEMS):
                if not stream.statistics().free:
                    full.set()
                async with stream.room():  # waits, first come, first served
                    stream.fill(items[number : number + 1], 1)

        stream.wait_value(gate, 1, "Eq")  # takes one place, and holds the stream
        producer = asyncio.create_task(produce())
        await full.wait()
        producer.cancel()
        with suppress(asyncio.CancelledError):
            await producer

        keeper.write_value(gate, 1)
        await stream
        accepted = int((await keeper.fetch(items)).sum())

    print(f"{accepted} of {ITEMS} items were accepted, and done")
    assert producer.cancelled() and accepted == CAPACITY - 1


if __name__ == "__main__":
    asyncio.run(main())
