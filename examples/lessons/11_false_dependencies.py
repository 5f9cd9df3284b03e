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
# # 11 · Order that nobody needs
#
# Too little order is a race; too much is time lost. The **null stream** is the classic: a command in it waits for all
# that the other streams were given before, and all that they are given afterwards waits for it. So is a single event
# that is awaited too early. Both are invisible in the results. They are visible in the picture, and in virtual time.

# %%
import asyncio

import numpy as np

import atops
from atops import kernels as k

# %% tags=["judge"]
from atops.lessons import Lesson, Question, commands, nanoseconds


async def program(task, frames, size):
    device = atops.Device(0)
    loop = asyncio.get_running_loop()
    start = loop.time()
    results = await task(device, frames, size)
    took = round((loop.time() - start) * 1e9)
    assert isinstance(results, (tuple, list)) and len(results) == 3, f"expected three arrays, got {results!r}"
    left, right, firsts = results
    for name, got, more in (("left", left, 1), ("right", right, 2)):
        assert isinstance(got, np.ndarray), f"{name} is {got!r}; expected an array: was it awaited?"
        assert (got == more * np.arange(frames)[:, None]).all(), f"{name} is {got[:, 0]}, frame by frame"
    assert isinstance(firsts, np.ndarray), f"firsts is {firsts!r}; expected an array: was it awaited?"
    wanted = [[frame, 2 * frame] for frame in range(frames)]
    assert firsts.tolist() == wanted, f"firsts is {firsts.tolist()}, and should be {wanted}"
    return took


async def one_side(frames, size):
    """Compute one of the two sides alone."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.empty((frames, size), np.int32)
        for frame in range(frames):
            stream.launch(step, (1, 4), x[frame], 1)
        await stream.fetch(x)


def limit(frames, size):
    """Return somewhat more than what one of the two sides takes."""
    return 1.5 * nanoseconds(one_side, frames, size)


def work(seen, frames, size):
    launches = len(commands(seen, atops.Kind.LAUNCH))
    assert launches >= 2 * frames, f"the device has run {launches} of {2 * frames} kernels"
    gathered = sum(each.bytes for each in commands(seen, atops.Kind.COPY_D2D))
    assert launches > 2 * frames or gathered >= 8 * frames, "the first numbers were not gathered on the device"


async def by_the_null_stream():
    device = atops.Device(0)
    one, two = device.create_stream(name="one"), device.create_stream(name="two", nonblocking=True)
    x = device.zeros(1, np.int32)
    two.fill(x, 1)
    device.null_stream.fill(x, 2)
    one.fill(x, 3)
    await one
    await two
    seen = (await one.fetch(x))[0]
    assert seen == 3, f"x is {seen}"


lesson = Lesson(
    "Order that nobody needs",
    program,
    cases=[(3, 40), (2, 24), (4, 61), (5, 30), (6, 13)],
    hints={
        "too slow": (
            "Look at the picture: `left` and `right` never run at the same time. What stands between them each time?",
            "`count` is the null stream: it waits for both sides, and both wait for it. Does it have to?",
            "Gather in a stream of its own. It waits for an event of each side; the sides wait for nothing.",
        )
    },
    schedules=10,
    limit=limit,
    work=work,
    question=Question(
        "A nonblocking stream takes no part in the null stream's order. When is x not 3?",
        by_the_null_stream,
    ),
)

# %% [markdown]
# **Your task.** `left` and `right` each compute a row a frame, on a cluster of their own. `firsts` gathers, on the
# device, the first number of each row. All must take at most half as long again as one of the sides alone.


# %%
@k.kernel
def step(row, value):
    for at in range(k.thread_id(), row.size, k.thread_count()):
        row[at] = value
    k.cost(flops=200_000)


# %% tags=["task"]
async def play(device, frames, size):
    count = device.null_stream
    async with device.create_stream(name="left") as left, device.create_stream(name="right") as right:
        x, y = left.empty((frames, size), np.int32), right.empty((frames, size), np.int32)
        firsts = count.empty((frames, 2), np.int32)
        for frame in range(frames):
            left.launch(step, (1, 4), x[frame], frame)
            count.copy(firsts[frame][:1], x[frame][:1])
            right.launch(step, (1, 4), y[frame], 2 * frame)
            count.copy(firsts[frame][1:], y[frame][:1])
        return await left.fetch(x), await right.fetch(y), await count.fetch(firsts)


# %% tags=["solution"]
async def play(device, frames, size):
    async with (
        device.create_stream(name="left") as left,
        device.create_stream(name="right") as right,
        device.create_stream(name="count") as count,
    ):
        x, y = left.empty((frames, size), np.int32), right.empty((frames, size), np.int32)
        firsts = count.empty((frames, 2), np.int32)
        for frame in range(frames):
            left.launch(step, (1, 4), x[frame], frame)
            left_is_over = left.record()
            count.wait(left_is_over)
            count.copy(firsts[frame][:1], x[frame][:1])
            right.launch(step, (1, 4), y[frame], 2 * frame)
            right_is_over = right.record()
            count.wait(right_is_over)
            count.copy(firsts[frame][1:], y[frame][:1])
        return await left.fetch(x), await right.fetch(y), await count.fetch(firsts)


# %%
lesson.picture(play)

# %%
lesson.check(play)
