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
# # 6 · Blocks and barriers
#
# The threads of one block share memory: `k.shared`. They run at the same time, in no order. A **barrier**,
# `await k.syncthreads()`, is where all of them wait for the last: what was stored before it may be read behind it.
#
# A sum of many numbers by many threads goes in rounds: in each one half of the threads add what another one has.

# %%
import numpy as np

import atops
from atops import kernels as k

# %% tags=["judge"]
from atops.lessons import Lesson, Question


async def program(task, blocks, size):
    host = np.random.default_rng(size).integers(-9, 9, size).astype(np.int32)
    async with atops.Device(0).create_stream(name="work") as stream:
        x = stream.upload(host)
        sums = stream.zeros(blocks, np.int32)
        stream.launch(task, (blocks, 8), sums, x)
        got = await stream.fetch(sums)
    wanted = [int(part.sum()) for part in (host[block * 8 : block * 8 + 8] for block in range(blocks))]
    assert got.tolist() == wanted, f"the sums of the blocks are {got.tolist()}, and should be {wanted}"


@k.kernel
async def early(out):
    """Have one thread fill what another one reads."""
    page, me = k.shared(1, np.int32), k.threadIdx.x
    if me == 0:
        page[0] = 7
    if me == 1:
        out[0] = page[0]


async def read_too_early():
    async with atops.Device(0).create_stream() as stream:
        out = stream.zeros(1, np.int32)
        stream.launch(early, (1, 2), out)
        got = (await stream.fetch(out))[0]
        assert got == 7, f"it read {got}"


lesson = Lesson(
    "Blocks and barriers",
    program,
    cases=[(1, 8), (2, 13), (1, 3), (3, 24), (4, 29)],
    hints={
        "race": (
            "Two threads meet in shared memory: one stores what the other one reads. Which of the two lines must be "
            "over, in all threads, before the other begins?",
            "Every round reads what the round before has stored; and the first round reads what `page[me] = ...` "
            "has stored.",
            "`await k.syncthreads()` behind the store into `page`, and at the end of every round, for all "
            "threads: outside of every `if`.",
        )
    },
    question=Question(
        "There is no barrier in this kernel, and mostly it works. In which order does it not?",
        read_too_early,
    ),
)

# %% [markdown]
# **Your task.** Each block of eight threads adds up its eight numbers, or what is left of them.


# %% tags=["task"]
@k.kernel
async def add_up(sums, x):
    me, at = k.threadIdx.x, k.blockIdx.x * 8 + k.threadIdx.x
    page = k.shared(8, np.int32)
    page[me] = x[at] if at < x.size else 0
    half = 4
    while half:
        if me < half:
            page[me] += page[me + half]
        half //= 2
    if me == 0:
        sums[k.blockIdx.x] = page[0]


# %% tags=["solution"]
@k.kernel
async def add_up(sums, x):
    me, at = k.threadIdx.x, k.blockIdx.x * 8 + k.threadIdx.x
    page = k.shared(8, np.int32)
    page[me] = x[at] if at < x.size else 0
    await k.syncthreads()
    half = 4
    while half:
        if me < half:
            page[me] += page[me + half]
        await k.syncthreads()
        half //= 2
    if me == 0:
        sums[k.blockIdx.x] = page[0]


# %%
lesson.picture(add_up)

# %%
lesson.check(add_up)
