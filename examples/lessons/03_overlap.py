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
# # 3 · Copies beside kernels
#
# The engines that copy and the clusters that compute are different machines. In one stream they take turns: while a
# chunk is copied nothing computes, and while it is computed nothing is copied. In several streams they can work at the
# same time, each on another chunk. Look at the gaps in the picture.
#
# Time here is **virtual**: computed from what the device would do, the same on every machine.

# %%
import asyncio

import numpy as np

import atops
from atops import kernels as k

# %% tags=["judge"]
from atops.lessons import Lesson, Question, commands, nanoseconds


async def program(task, chunks, size):
    data = np.random.default_rng(chunks).integers(0, 99, (chunks, size)).astype(np.float32)
    data.setflags(write=False)
    loop = asyncio.get_running_loop()
    start = loop.time()
    results = await task(atops.Device(0), data)
    took = round((loop.time() - start) * 1e9)
    assert isinstance(results, (list, tuple)), f"expected a list of {chunks} arrays, got {results!r}"
    assert len(results) == chunks, f"expected {chunks} results, got {len(results)}"
    for number, (got, wanted) in enumerate(zip(results, np.sqrt(data), strict=True)):
        assert isinstance(got, np.ndarray), f"results[{number}] is {got!r}; expected an array: was it awaited?"
        assert np.allclose(got, wanted), f"results[{number}] is {got[:3]}..., and should be {wanted[:3]}..."
    return took


def limit(chunks, size):
    """Return four fifths of what one stream takes."""
    return 0.8 * nanoseconds(one_after_the_other, chunks, size)


async def one_after_the_other(chunks, size):
    async with atops.Device(0).create_stream() as stream:
        x = stream.empty(size, np.float32)
        for _ in range(chunks):
            stream.copy(x, np.zeros(size, np.float32))
            stream.launch(root, (1, 12), x)
            stream.fetch(x)


def work(seen, chunks, size):
    launches = len(commands(seen, atops.Kind.LAUNCH))
    assert launches >= chunks, f"the device has run {launches} kernels for {chunks} chunks"
    for kind, words in ((atops.Kind.COPY_H2D, "to"), (atops.Kind.COPY_D2H, "from")):
        moved = sum(each.bytes for each in commands(seen, kind))
        assert moved >= 4 * chunks * size, f"{moved:,} bytes of {4 * chunks * size:,} were copied {words} the device"


async def meet():
    device = atops.Device(0)
    async with device.create_stream(name="one") as one, device.create_stream(name="two") as two:
        x = device.zeros(2, np.int32)
        one.fill(x, 1)
        two.fill(x[:1], 2)
        one.fill(x[1:], 3)
        await one
        await two
        seen = (await one.fetch(x)).tolist()
        assert seen == [2, 3], f"x is {seen}"


lesson = Lesson(
    "Copies beside kernels",
    program,
    cases=[(4, 30_000), (3, 24_001), (5, 20_000), (6, 35_001), (7, 17_000)],
    hints={
        "too slow": (
            "Look at the picture: what is the copy of chunk 1 waiting for? Does it need anything of chunk 0?",
            "Give each chunk a stream of its own, or give loading, computing and saving a stream each, with "
            "events between.",
            "With a buffer for each chunk nothing has to wait for a buffer: create a stream for each chunk and "
            "enqueue its three commands there.",
        )
    },
    schedules=10,
    limit=limit,
    work=work,
    question=Question("Nothing orders these fills. Find the order in which x is not [2, 3].", meet),
)

# %% [markdown]
# **Your task.** Take the square root of every chunk, in at most four fifths of the time that one stream takes.


# %%
@k.kernel
async def root(x):
    part = -(-x.size // k.thread_count())
    mine = slice(k.thread_id() * part, min((k.thread_id() + 1) * part, x.size))
    count = max(0, mine.stop - mine.start)
    tile = k.local(part, np.float32)
    if count:
        with k.dte_scope() as dte:
            await k.memcpy_async(dte, tile[:count], x[mine])
            np.sqrt(tile[:count], out=tile[:count])
            k.cost(flops=60 * count)
            await k.memcpy_async(dte, x[mine], tile[:count])


# %% tags=["task"]
async def roots(device, data):
    async with device.create_stream(name="all") as stream:
        results = []
        for chunk in data:
            x = stream.upload(chunk)
            stream.launch(root, (1, 12), x)
            results.append(await stream.fetch(x))
        return results


# %% tags=["solution"]
async def roots(device, data):
    async with (
        device.create_stream(name="load") as load,
        device.create_stream(name="compute") as compute,
        device.create_stream(name="save") as save,
    ):
        results = []
        for chunk in data:
            x = load.upload(chunk)
            loaded = load.record()
            compute.wait(loaded)
            compute.launch(root, (1, 12), x)
            computed = compute.record()
            save.wait(computed)
            results.append(save.fetch(x))
        return [await result for result in results]


# %%
lesson.picture(roots)

# %%
lesson.check(roots)
