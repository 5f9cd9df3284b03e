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
# # 5 · A thread and its DMA engine
#
# Inside a kernel a thread computes on its own memory (`k.local`), and a **DTE** engine carries data to and from it: on
# this chip, a gcu210, threads reach global memory in no other way.
# `k.memcpy_async(dte, target, source)` gives the engine a transfer and returns an event at once. Until that event was
# awaited, the target may hold anything, and the source must not be changed: the engine may not have come to it yet.
#
# So a thread can compute on one tile while the engine brings the next.

# %%
import asyncio

import numpy as np

import atops
from atops import kernels as k

# %% tags=["judge"]
from atops.lessons import Lesson, Question, nanoseconds


async def program(task, blocks, size):
    host = np.random.default_rng(size).integers(0, 99, size).astype(np.float32)
    async with atops.Device(0).create_stream(name="work") as stream:
        x = stream.upload(host)
        y = stream.zeros(size, np.float32)
        took = await duration(stream, task, blocks, y, x)
        got = await stream.fetch(y)
    assert np.array_equal(got, 3 * host), f"y[{np.flatnonzero(got != 3 * host)[0]}] is wrong: {got[got != 3 * host][0]}"
    return took


async def duration(stream, kernel, blocks, y, x):
    await stream
    start = asyncio.get_running_loop().time()
    await stream.launch(kernel, (blocks, 2), y, x)
    return round((asyncio.get_running_loop().time() - start) * 1e9)


@k.kernel
async def one_at_a_time(y, x):
    tile = k.local(TILE, np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, TILE):
            count = x[part].size
            await k.memcpy_async(dte, tile[:count], x[part])
            k.cost(flops=50_000 * count)
            await k.memcpy_async(dte, y[part], tile[:count])


async def in_turns(blocks, size):
    async with atops.Device(0).create_stream() as stream:
        x, y = stream.zeros(size, np.float32), stream.zeros(size, np.float32)
        stream.launch(one_at_a_time, (blocks, 2), y, x)


def limit(blocks, size):
    """Return what the kernel may take: less than with one transfer at a time, where threads have several tiles."""
    several = size > 3 * 2 * blocks * TILE
    return (0.9 if several else 1.1) * nanoseconds(in_turns, blocks, size)


@k.kernel
async def hasty(out):
    """Copy a word that is changed while it is under way."""
    mine = k.local(1, np.int32)
    with k.dte_scope() as dte:
        mine[0] = 1
        sent = k.memcpy_async(dte, out, mine)
        mine[0] = 2
        await sent


async def sent_too_late():
    async with atops.Device(0).create_stream() as stream:
        out = stream.zeros(1, np.int32)
        stream.launch(hasty, (1, 1), out)
        got = (await stream.fetch(out))[0]
        assert got == 2, f"{got} arrived"


lesson = Lesson(
    "A thread and its DMA engine",
    program,
    cases=[(1, 64), (2, 40), (1, 7), (2, 129), (3, 200)],
    hints=(
        "Which line reads a tile that a transfer may still be bringing, and which one writes what another transfer "
        "may still be taking away?",
        "Await the event that brings this turn's tile before you compute on it; and of the buffer that you "
        "compute into?",
        "Two turns ago `outputs[now]` was sent off: `await leaving[now]` before it is written again, and both "
        "of them at the end.",
    ),
    about=("race",),
    limit=limit,
    arch="gcu210",
    question=Question(
        "A word is changed while it is under way, and 2 arrives. The engine decides when it reads: when does 1 arrive?",
        sent_too_late,
    ),
)

# %% [markdown]
# **Your task.** `triple` goes through its tiles in turns, with two buffers for what comes and two for what goes. Each
# transfer gives an event; no event is awaited yet. Await those that must be over, and no sooner: while a thread
# computes, its engine has something to do.

# %%
TILE = 8


# %% tags=["task"]
@k.kernel
async def triple(y, x):
    inputs, outputs = k.local((2, TILE), np.float32), k.local((2, TILE), np.float32)
    arriving, leaving = [k.event(), k.event()], [k.event(), k.event()]  # of no transfer yet: over
    with k.dte_scope() as in0, k.dte_scope() as in1, k.dte_scope() as out0, k.dte_scope() as out1:
        reader, writer = (in0, in1), (out0, out1)
        tiles = list(k.tiles(x.size, TILE))
        for part in tiles[:1]:
            arriving[0] = k.memcpy_async(reader[0], inputs[0, : x[part].size], x[part])
        for turn, part in enumerate(tiles):
            now, other, count = turn % 2, (turn + 1) % 2, x[part].size
            for following in tiles[turn + 1 : turn + 2]:
                arriving[other] = k.memcpy_async(reader[other], inputs[other, : x[following].size], x[following])
            np.multiply(inputs[now, :count], 3, out=outputs[now, :count])
            k.cost(flops=50_000 * count)
            leaving[now] = k.memcpy_async(writer[now], y[part], outputs[now, :count])


# %% tags=["solution"]
@k.kernel
async def triple(y, x):
    inputs, outputs = k.local((2, TILE), np.float32), k.local((2, TILE), np.float32)
    arriving, leaving = [k.event(), k.event()], [k.event(), k.event()]  # of no transfer yet: over
    with k.dte_scope() as in0, k.dte_scope() as in1, k.dte_scope() as out0, k.dte_scope() as out1:
        reader, writer = (in0, in1), (out0, out1)
        tiles = list(k.tiles(x.size, TILE))
        for part in tiles[:1]:
            arriving[0] = k.memcpy_async(reader[0], inputs[0, : x[part].size], x[part])
        for turn, part in enumerate(tiles):
            now, other, count = turn % 2, (turn + 1) % 2, x[part].size
            for following in tiles[turn + 1 : turn + 2]:
                arriving[other] = k.memcpy_async(reader[other], inputs[other, : x[following].size], x[following])
            await arriving[now]
            await leaving[now]
            np.multiply(inputs[now, :count], 3, out=outputs[now, :count])
            k.cost(flops=50_000 * count)
            leaving[now] = k.memcpy_async(writer[now], y[part], outputs[now, :count])
        await leaving[0]
        await leaving[1]


# %%
lesson.picture(triple)

# %%
lesson.check(triple)
