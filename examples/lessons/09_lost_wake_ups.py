# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 9 · Words of memory, and wake-ups that are lost
#
# Streams can also hand over by a word of device memory: `stream.write_value(word, 3)` stores it in stream order, and
# `stream.wait_value(word, 3, "Gte")` holds a stream until the word is at least 3. Unlike an event, the wait may be
# enqueued before the write is. And unlike an event a word forgets: one that is overwritten before the waiting stream
# has looked at it was never seen.

# %%
import numpy as np

import atops

# %% tags=["judge"]
from atops.lessons import Lesson, Question, commands


async def program(task, rows, size, slots):
    host = np.random.default_rng(rows).integers(0, 99, (rows, size)).astype(np.int32)
    host.setflags(write=False)
    device = atops.Device(0)
    async with device.create_stream(name="before") as stream:
        used = device.empty(room(rows, size, slots) // 4 - 64, np.int32)
        await stream.fill(used, 99)
    used.close()  # what is allocated now holds what was there before
    got = await task(device, host, slots)
    assert isinstance(got, np.ndarray), f"the task returned {got!r}; expected an array: was it awaited?"
    assert np.array_equal(got, host), f"row {np.argwhere(got != host)[0][0]} is of another row, {got[got != host][:3]}"


def room(rows, size, slots):
    """Return how many bytes `rows`, the result, the slots and some words take."""
    return 4 * size * (2 * rows + slots) + 256 * (slots + 8)


def work(seen, rows, size, slots):
    moves = commands(seen, atops.Kind.COPY_H2D, atops.Kind.COPY_D2D, atops.Kind.COPY_D2H)
    assert len(moves) >= 2 * rows, f"the device has made {len(moves)} copies: {rows} rows go into a slot, and out of it"
    if rows > 1:
        moves = [each for each in moves if each.bytes == 4 * size]  # those of one row
        assert len({each.stream for each in moves}) > 1, "one stream filled the slots and emptied them"
        first = min(each.finished_ns for each in moves)
        waited = "the program waited for a row before it enqueued the next: have the streams wait, by words"
        assert all(each.submitted_ns < first for each in moves), waited
    most = max(each.used_bytes for each in seen.trace.counters)
    assert most <= room(rows, size, slots), f"{most:,} bytes of the device were in use at once: more than {slots} slots"


async def pulse():
    device = atops.Device(0)
    word = device.zeros(1, np.int32)
    async with device.create_stream(name="rings") as rings, device.create_stream(name="waits") as waits:
        rings.write_value(word, 1)
        rings.write_value(word, 2)
        waits.wait_value(word, 1, "Eq")


lesson = Lesson(
    "Lost wake-ups",
    program,
    cases=[(3, 4, 2), (1, 5, 1), (4, 3, 1), (5, 10, 3), (9, 300, 2)],
    hints=dict.fromkeys(
        ("race", "deadlock"),
        (
            "The consumer waits for one number alone. What if the producer has stored the next one before the "
            "consumer looks?",
            '"Gte" cannot miss a count that only grows. And what keeps the producer from writing a slot that is '
            "still full?",
            "Let the consumer count too: `consumer.write_value(taken, number + 1)` behind its copy, and before it "
            'fills a slot again `producer.wait_value(taken, number - slots + 1, "Gte")`.',
        ),
    ),
    work=work,
    question=Question("`rings` stores 1, then 2. In which order does `waits` wait for ever?", pulse, kind="deadlock"),
)

# %% [markdown]
# **Your task.** The producer moves rows into a few slots, the consumer moves them on into `result`. `filled` counts
# the rows that are in. A row may be lost, and a wake-up too.


# %% tags=["task"]
async def hand_over(device, rows, slots):
    count, size = rows.shape
    source, result = await device.upload(rows), device.empty(rows.shape, np.int32)
    slot = device.empty((slots, size), np.int32)
    filled = device.zeros(1, np.int32)
    async with device.create_stream(name="producer") as producer, device.create_stream(name="consumer") as consumer:
        for number in range(count):
            producer.copy(slot[number % slots], source[number])
            producer.write_value(filled, number + 1)
        for number in range(count):
            consumer.wait_value(filled, number + 1, "Eq")
            consumer.copy(result[number], slot[number % slots])
        return await consumer.fetch(result)


# %% tags=["solution"]
async def hand_over(device, rows, slots):
    count, size = rows.shape
    source, result = await device.upload(rows), device.empty(rows.shape, np.int32)
    slot = device.empty((slots, size), np.int32)
    filled, taken = device.zeros(1, np.int32), device.zeros(1, np.int32)
    async with device.create_stream(name="producer") as producer, device.create_stream(name="consumer") as consumer:
        for number in range(count):
            producer.wait_value(taken, number - slots + 1, "Gte")
            producer.copy(slot[number % slots], source[number])
            producer.write_value(filled, number + 1)
        for number in range(count):
            consumer.wait_value(filled, number + 1, "Gte")
            consumer.copy(result[number], slot[number % slots])
            consumer.write_value(taken, number + 1)
        return await consumer.fetch(result)


# %%
lesson.picture(hand_over)

# %%
lesson.check(hand_over)
