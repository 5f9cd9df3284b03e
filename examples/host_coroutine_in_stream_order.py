"""A coroutine as a step of the stream: between two copies the program asks something that only its loop can answer.

Look at: everything is enqueued before the first copy runs. `ask` runs on the loop that enqueued it when its turn comes;
the stream waits for it and the loop does not. The array is pinned memory, which is read when the copy runs: of a small
numpy array the contents are taken when the copy is enqueued.
"""

from __future__ import annotations

import asyncio

import numpy as np

import atops

SIZE = 1000


async def service(questions: asyncio.Queue[float], answers: asyncio.Queue[float]) -> None:
    """Stand for a database or another machine: answer each question with half of it."""
    while True:
        await answers.put(await questions.get() / 2)


async def main() -> None:
    """Fetch an array, let a coroutine cut it off, and send it back."""
    questions: asyncio.Queue[float] = asyncio.Queue()
    answers: asyncio.Queue[float] = asyncio.Queue()
    serving = asyncio.create_task(service(questions, answers))
    device = atops.Device(0)
    host = np.arange(SIZE, dtype=np.float64)

    async with device.create_stream() as stream, device.host_malloc(SIZE, np.float64) as staging:

        async def ask() -> float:
            """Ask for half of the maximum, and cut the array off there."""
            await questions.put(staging.array.max())
            limit = await answers.get()
            np.minimum(staging.array, limit, out=staging.array)
            return limit

        x = stream.upload(host)
        stream.copy(staging, x)  # to the host
        limit = stream.call(ask)  # a completion, like what every verb returns
        stream.copy(x, staging)  # back to the device, once the coroutine has ended
        result = await stream.fetch(x)

    serving.cancel()
    print(f"cut off at {limit.result()}")
    assert np.array_equal(result, np.minimum(host, (SIZE - 1) / 2))


if __name__ == "__main__":
    asyncio.run(main())
