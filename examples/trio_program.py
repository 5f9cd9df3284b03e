"""The same objects under trio: tasks in a nursery, each with a stream, and one event that all of them wait for.

Look at: nothing here names a loop but `trio` itself. A cancelled wait cancels the wait, never the work.
"""

from __future__ import annotations

import numpy as np
import trio

import atops

WORKERS, SIZE = 4, 1024


async def worker(number: int, base: atops.DeviceArray, ready: atops.Event, results: dict[int, np.ndarray]) -> None:
    """Wait for the shared data, then work on a copy of it in a stream of this task's own."""
    await ready  # many tasks may await one event
    async with atops.Device(0).create_stream() as stream:
        mine = stream.empty_like(base)
        stream.copy(mine, base)
        stream.fill(mine[:number], -1)
        results[number] = await stream.fetch(mine)


async def main() -> None:
    """Give up on a wait, then start four tasks that wait for the same event."""
    results: dict[int, np.ndarray] = {}
    async with atops.Device(0).create_stream() as stream, trio.open_nursery() as nursery:
        gate = stream.zeros(1, np.int32)
        await stream

        stream.wait_value(gate, 1, "Eq")  # holds the stream until a 1 is stored
        base = stream.upload(np.arange(SIZE, dtype=np.int32))
        ready = stream.record()
        with trio.move_on_after(0.1) as patience:
            await ready
        print(f"gave up: {patience.cancelled_caught}; the work is {ready.state}")

        for number in range(WORKERS):
            nursery.start_soon(worker, number, base, ready, results)
        async with atops.Device(0).create_stream() as opener:
            opener.write_value(gate, 1)

    assert patience.cancelled_caught and sorted(results) == list(range(WORKERS))
    assert all(np.array_equal(row, np.where(np.arange(SIZE) < n, -1, np.arange(SIZE))) for n, row in results.items())


if __name__ == "__main__":
    trio.run(main)
