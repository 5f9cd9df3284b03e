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
# # 7 · A barrier is for every thread
#
# A barrier ends when **all** threads of the block have come to it. One that left the kernel before, or that went round
# it in a branch, never comes, and the others stand there for ever. The device sees it and ends the launch with
# `KernelDeadlock`, which says who waits where and who is gone.

# %%
import numpy as np

import atops
from atops import kernels as k

# %% tags=["judge"]
from atops.lessons import Lesson, Question


async def program(task, blocks, size):
    host = np.random.default_rng(size).integers(0, 99, size).astype(np.int32)
    async with atops.Device(0).create_stream(name="work") as stream:
        x = stream.upload(host)
        stream.launch(task, (blocks, 6), x)
        got = await stream.fetch(x)
    parts = [host[block * 6 : block * 6 + 6] for block in range(blocks)]
    wanted = np.concatenate([np.roll(part[::-1], 1) for part in parts])
    assert got.tolist() == wanted.tolist(), f"it is {got.tolist()}, and should be {wanted.tolist()}"


@k.kernel
async def same_page(out):
    """Use a page for two rounds, with a barrier inside each round and none between them."""
    page, me = k.shared(2, np.int32), k.threadIdx.x
    for number in range(2):
        page[me] = number
        await k.syncthreads()
        out[2 * number + me] = page[1 - me]


async def too_early():
    async with atops.Device(0).create_stream() as stream:
        out = stream.zeros(4, np.int32)
        stream.launch(same_page, (1, 2), out)
        got = (await stream.fetch(out)).tolist()
        assert got == [0, 1, 1, 1], f"out is {got}"


lesson = Lesson(
    "A barrier is for every thread",
    program,
    cases=[(1, 4), (2, 9), (1, 6), (3, 18), (4, 23)],
    hints={
        "deadlock": (
            "Which threads never come to the barrier at which the others wait, and where did they leave?",
            "Threads beyond the end of x have nothing to store, and come to the barriers all the same.",
            "Drop the `return`; guard each store and load with `if mine:`, and keep every `await k.syncthreads()` "
            "outside of the guards.",
        )
    },
    question=Question(
        "Between the rounds of this kernel there is no barrier, so that thread 1 reads a number of the next "
        "round. When does thread 0?",
        too_early,
    ),
)

# %% [markdown]
# **Your task.** Each block turns its six numbers around, and then moves them by one place. Where x ends inside a block,
# some of its threads have no number.


# %% tags=["task"]
@k.kernel
async def turn_and_move(x):
    me, start = k.threadIdx.x, k.blockIdx.x * 6
    count = min(6, x.size - start)
    page = k.shared(6, np.int32)
    if me >= count:
        return
    page[me] = x[start + me]
    await k.syncthreads()
    value = page[count - 1 - me]
    await k.syncthreads()
    page[(me + 1) % count] = value
    await k.syncthreads()
    x[start + me] = page[me]


# %% tags=["solution"]
@k.kernel
async def turn_and_move(x):
    me, start = k.threadIdx.x, k.blockIdx.x * 6
    count = min(6, x.size - start)
    page = k.shared(6, np.int32)
    mine = me < count
    if mine:
        page[me] = x[start + me]
    await k.syncthreads()
    value = page[count - 1 - me] if mine else 0
    await k.syncthreads()
    if mine:
        page[(me + 1) % count] = value
    await k.syncthreads()
    if mine:
        x[start + me] = page[me]


# %%
lesson.picture(turn_and_move)

# %%
lesson.check(turn_and_move)
