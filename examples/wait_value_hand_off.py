"""Two streams pass a buffer to and fro through one word of memory, and the host only watches.

Look at: all rounds are enqueued before the first one runs. The word counts turns: even, the slot is empty; odd, it is
full. Events could not say this, because a wait needs a record that is there already.
"""

from __future__ import annotations

import asyncio

import numpy as np

import atops

ROUNDS, SIZE = 8, 256


async def main() -> None:
    """Move eight rows through one slot."""
    device = atops.Device(0)
    rows = np.arange(ROUNDS * SIZE, dtype=np.int32).reshape(ROUNDS, SIZE)
    async with device.create_stream(name="producer") as producer, device.create_stream(name="consumer") as consumer:
        source = producer.upload(rows)
        slot = producer.empty(SIZE, np.int32)
        target = consumer.empty(rows.shape, np.int32)
        turn = producer.zeros(1, np.int32)
        consumer.wait(producer.record())  # the word must be 0 before anybody looks at it

        for number in range(ROUNDS):
            consumer.wait_value(turn, 2 * number + 1, "Eq")  # enqueued first, and it waits
            consumer.copy(target[number], slot)
            consumer.write_value(turn, 2 * number + 2)

        for number in range(ROUNDS):
            producer.wait_value(turn, 2 * number, "Eq")
            producer.copy(slot, source[number])
            producer.write_value(turn, 2 * number + 1)

        result = await consumer.fetch(target)
        turns = await consumer.fetch(turn)

    print(f"{turns[0]} turns")
    assert np.array_equal(result, rows) and turns[0] == 2 * ROUNDS


if __name__ == "__main__":
    asyncio.run(main())
