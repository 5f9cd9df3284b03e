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
# # 2 · Events are futures
#
# Two streams know nothing of each other, until an **event** ties them: `event = load.record()` stands for everything
# that `load` was given so far, and `work.wait(event)` keeps what `work` is given from now on behind it. Neither line
# waits: your program goes on, and the *device* keeps the order.
#
# Your program can wait for an event too: `await event`. It is a future that the device completes.

# %%
import numpy as np

import atops
from atops import kernels as k

# %% tags=["judge"]
from atops.lessons import Lesson, Question, commands


async def program(task, size, seed):
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(0, 99, size).astype(np.float32) for _ in range(2))
    x.setflags(write=False)
    y.setflags(write=False)
    results = await task(atops.Device(0), x, y)
    assert isinstance(results, (tuple, list)) and len(results) == 2, f"expected two arrays, got {results!r}"
    total, difference = results
    for name, got, wanted in (("total", total, x + y), ("difference", difference, x - y)):
        assert isinstance(got, np.ndarray), f"{name} is {got!r}; expected an array: was it awaited?"
        assert np.array_equal(got, wanted), f"{name} is {got[:3]}..., and should be {wanted[:3]}..."


def work(seen, size, seed):
    launches, copies = commands(seen, atops.Kind.LAUNCH), commands(seen, atops.Kind.COPY_H2D)
    assert len(launches) >= 2, f"the device has run {len(launches)} of two kernels"
    assert len({each.stream for each in launches}) >= 2, "both kernels were in one stream"
    first = min(each.finished_ns for each in copies)
    waited = "the program waited for a copy before it enqueued a kernel: have the stream wait, by an event"
    assert all(each.submitted_ns < first for each in launches), waited


async def hand_over():
    device = atops.Device(0)
    async with device.create_stream(name="left") as left, device.create_stream(name="right") as right:
        x = device.zeros(1, np.int32)
        left.fill(x, 1)
        early = left.record()
        left.fill(x, 2)
        right.wait(early)
        seen = (await right.fetch(x))[0]
        assert seen == 1, f"right saw {seen}"


lesson = Lesson(
    "Events are futures",
    program,
    cases=[(8, 1), (1, 2), (30, 3), (100, 4), (257, 5)],
    hints={
        "race": (
            "Which copies does each kernel need, and in which streams are they?",
            "`event = stream.record()` behind the last command that must be over, `other.wait(event)` before the "
            "one that needs it.",
            "Both kernels need x and y. `add` runs in `left`, which copied x itself; so it waits for `right`'s "
            "copy of y alone. And at the end?",
        )
    },
    work=work,
    question=Question(
        "`right` waits for an event behind the first fill, and sees 1. In which order does it see 2?",
        hand_over,
    ),
)

# %% [markdown]
# **Your task.** `left` loads x, `right` loads y; `left` computes x + y, `right` x - y. Each kernel needs what the
# *other* stream has loaded. Tie the streams together, with events and not by waiting in between.


# %%
@k.kernel
def add(out, x, y):
    for at in range(k.thread_id(), x.size, k.thread_count()):
        out[at] = x[at] + y[at]


@k.kernel
def subtract(out, x, y):
    for at in range(k.thread_id(), x.size, k.thread_count()):
        out[at] = x[at] - y[at]


# %% tags=["task"]
async def add_and_subtract(device, host_x, host_y):
    async with device.create_stream(name="left") as left, device.create_stream(name="right") as right:
        x, y, total, difference = (device.empty(host_x.size, np.float32) for _ in range(4))
        left.copy(x, host_x)
        right.copy(y, host_y)
        left.launch(add, (1, 4), total, x, y)
        right.launch(subtract, (1, 4), difference, x, y)
        return await left.fetch(total), await right.fetch(difference)


# %% tags=["solution"]
async def add_and_subtract(device, host_x, host_y):
    async with device.create_stream(name="left") as left, device.create_stream(name="right") as right:
        x, y, total, difference = (device.empty(host_x.size, np.float32) for _ in range(4))
        left.copy(x, host_x)
        x_is_there = left.record()
        right.copy(y, host_y)
        y_is_there = right.record()
        left.wait(y_is_there)
        left.launch(add, (1, 4), total, x, y)
        right.wait(x_is_there)
        right.launch(subtract, (1, 4), difference, x, y)
        return await left.fetch(total), await right.fetch(difference)


# %%
lesson.picture(add_and_subtract)

# %%
lesson.check(add_and_subtract)
