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
from atops.lessons import Lesson, Question, given


async def program(task, blocks, size):
    host = np.random.default_rng(size).permutation(size).astype(np.float32)  # no number twice
    computed = []

    @given
    def times_three(result, tile):
        """Multiply a tile by 3, and take as long as two transfers."""
        if tile.size > TILE:
            raise ValueError(f"times_three(result, tile) takes a tile of at most {TILE} numbers, got {tile.size}")
        computed.extend(tile.tolist())
        np.multiply(tile, 3, out=result)
        k.cost(flops=66_667 * tile.size)

    async with atops.Device(0).create_stream(name="work") as stream:
        x = stream.upload(host)
        y = stream.zeros(size, np.float32)
        await stream
        start = asyncio.get_running_loop().time()
        await stream.launch(task, (blocks, 2), y, x, times_three)
        took = round((asyncio.get_running_loop().time() - start) * 1e9) - stream.device.arch.launch_latency_ns
        got = await stream.fetch(y)
    assert np.array_equal(got, 3 * host), f"y[{np.flatnonzero(got != 3 * host)[0]}] is wrong: {got[got != 3 * host][0]}"
    missed = len(set(host.tolist()) - set(computed))
    assert not missed, f"y is right, but times_three(result, tile) was not called for {missed} of {size} numbers of x"
    return took


def limit(blocks, size):
    """Return seven tenths of what one thing after the other takes, where a thread has tiles enough to overlap."""
    turns, rounds = -(-size // (2 * blocks * TILE)), -(-blocks // 2)  # of tiles in a thread, of blocks on two clusters
    return (0.7 if turns > 3 else 1.1) * rounds * turns * 800


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
    hints={
        "race": (
            "Which line reads a tile that a transfer may still be bringing, and which one writes what another transfer "
            "may still be taking away?",
            "Await the event that brings this turn's tile before you compute on it; and of the buffer that you "
            "compute into?",
            "Two turns ago `outputs[now]` was sent off: `await leaving[now]` before it is written again, and both "
            "of them at the end.",
        ),
        "too slow": (
            "While `times_three` runs, has the engine something to bring or to take away? Which `await` keeps the "
            "thread from giving it that sooner?",
            "Begin the transfer of the next tile before you await this turn's; and do not await what leaves where it "
            "leaves.",
            "`await leaving[now]` stands right before `times_three`, two turns after that transfer has begun: only "
            "there, and at the end, has it to be over.",
        ),
    },
    limit=limit,
    arch="gcu210",
    question=Question(
        "A word is changed while it is under way, and 2 arrives. The engine decides when it reads: when does 1 arrive?",
        sent_too_late,
    ),
)

# %% [markdown]
# **Your task.** `triple` goes through its tiles in turns, with two buffers for what comes and two for what goes. It is
# given `times_three(result, tile)`, which computes one tile and takes as long as two transfers. Each transfer gives an
# event; no event is awaited yet. Await those that must be over, and no sooner: while a thread computes, its engine
# has something to do. The kernel may take seven tenths of the time that it takes with one thing after the other.

# %%
TILE = 8


# %% tags=["task"]
@k.kernel
async def triple(y, x, times_three):
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
            times_three(outputs[now, :count], inputs[now, :count])
            leaving[now] = k.memcpy_async(writer[now], y[part], outputs[now, :count])


# %% tags=["solution"]
@k.kernel
async def triple(y, x, times_three):
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
            times_three(outputs[now, :count], inputs[now, :count])
            leaving[now] = k.memcpy_async(writer[now], y[part], outputs[now, :count])
        await leaving[0]
        await leaving[1]


# %%
lesson.picture(triple)

# %%
lesson.check(triple)
