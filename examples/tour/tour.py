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
# # Ten minutes with atops
#
# An emulated accelerator, driven from this notebook. A **stream** is a queue of work, an **event** is something to
# await, a **kernel** is a coroutine that 24 hardware threads run at once. Nothing here needs a device, a network or a
# setting.
#
# Run the cells from top to bottom. The first one loads the notebook extension, with `%%timeline`, `%%kernel` and
# `%atops`.

# %%
# %load_ext atops_widgets
import numpy as np

import atops
from atops import kernels as k
from atops_widgets import ClusterGrid, watch

# %% [markdown]
# ## The device
#
# The chip has two clusters. Each has twelve SIPs (the cores) and a memory of its own, L2; each SIP has a small fast
# L1. All share L3, the global memory. The first use of a device starts it.

# %%
device = atops.Device(0)
device

# %%
# %atops

# %% [markdown]
# ## A stream and two buffers
#
# `upload` allocates device memory and enqueues a copy into it. It returns at once: nothing has waited yet. `fetch`
# enqueues the copy back, and its `await` is the first wait of all. `%%timeline` draws what the device did during the
# cell: drag to move, turn the wheel to zoom, click a bar to see what it waited for.

# %%
# %%timeline
stream = device.create_stream(name="stream")
host = np.arange(1 << 20, dtype=np.float32)
x = stream.upload(host)
y = stream.empty_like(x)
stream.fill(y, 0)
back = await stream.fetch(x)
assert np.array_equal(back, host)
x

# %% [markdown]
# ## A kernel
#
# All 24 threads run this function, each on its own share of `x`. A thread computes in its L1; a **DTE**, an engine
# beside the core, moves data to and fro. Its transfers are asynchronous, so they are awaited, and each `await` is a
# point where another thread may go on.

# %%
TILE = 8192


@k.kernel
async def scale(y, x, alpha: np.float32):
    tile = k.local(TILE, np.float32)  # in this thread's L1
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, TILE):  # this thread's share of x, a tile at a time
            await k.memcpy_async(dte, tile, x[part])
            tile *= alpha
            await k.memcpy_async(dte, y[part], tile)


# %%
# %%timeline
stream.launch(scale, (2, 12), y, x, 3.0)  # two blocks, one for each cluster, of twelve threads
result = await stream.fetch(y)
assert np.array_equal(result, host * 3)
print(f"{result[:4]} ... {result[-1]:,.0f}")

# %% [markdown]
# ## The wait that was forgotten
#
# On a device, a kernel that does not wait for its transfer often works all the same: the data happened to be there.
# Here a transfer takes effect as late as is legal, at its `await`, so that the mistake shows the first time.


# %%
@k.kernel
async def hasty(y, x):
    tile = k.local(16, np.float32)
    tile[:] = -1
    with k.dte_scope() as dte:
        arriving = k.memcpy_async(dte, tile, x[:16])
        seen = tile.copy()  # too early
        await arriving
        tile[:] = seen
        k.memcpy(dte, y[:16], tile)


stream.launch(hasty, (1, 1), y, x)
early = (await stream.fetch(y))[:16]
assert (early == -1).all()
print(early)

# %% [markdown]
# ## Threads that meet
#
# The threads of a block share its L2. Here each leaves a partial sum there; the first adds them up, and must not
# begin before the last has written. That is what the **barrier** says, `await k.syncthreads()`.


# %%
@k.kernel
async def total(sums, x):
    tile = k.local(TILE, np.float32)
    line = k.local(1, np.float64)
    partial = k.shared(12, np.float64)  # one memory for the twelve threads of the block
    line[0] = 0
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, TILE):
            await k.memcpy_async(dte, tile, x[part])
            line[0] += tile.sum(dtype=np.float64)
        partial[k.threadIdx.x] = line[0]
        await k.syncthreads()
        if k.threadIdx.x == 0:
            line[0] = partial.sum()
            k.memcpy(dte, sums[k.blockIdx.x : k.blockIdx.x + 1], line)


sums = stream.empty(2, np.float64)
stream.launch(total, (2, 12), sums, x)
by_block = await stream.fetch(sums)
assert by_block.sum() == host.sum(dtype=np.float64)
by_block

# %% [markdown]
# ## A failure that names itself
#
# Now two of twelve threads leave before the barrier. On a device that hangs, and you reach for the power switch. Here
# it is an error which names the threads that wait, at which line, and those that will never come; below it is the line
# of the notebook that waited for the kernel. (`%tb` shows the runtime's lines as well.)


# %%
@k.kernel
async def careless():
    if k.threadIdx.x < 10:
        await k.syncthreads()


grid = ClusterGrid(threads=True)  # records every step of every thread from now on, which is slow


# %% tags=["raises-exception"]
# %%timeline
stream.launch(careless, (1, 12))
await stream

# %% [markdown]
# The grid has each thread where it stands: ten at the barrier, two gone. Press `x` for the failure, Left and Right for
# the steps that led there.

# %%
grid.feed.stop()
grid

# %% [markdown]
# The stream has failed, others go on. What is enqueued on it now is skipped, until the program says that the error was
# seen.

# %%
print(stream)
stream.clear_error()
print(stream)

# %% [markdown]
# ## Events between streams
#
# Two streams run beside each other. Where one needs what the other makes, it waits for an **event**: not you, and not
# the notebook, only that stream. Events have times, and can be awaited too.

# %%
# %%timeline
other = device.create_stream(name="other")
stream.launch(scale, (2, 12), y, x, 0.5)
scaled = stream.record()
other.wait(scaled)
other.launch(total, (2, 12), sums, y)
summed = other.record()
await summed
print(f"the sum came {summed - scaled:.2f} ms after the scaling")
assert (await other.fetch(sums)).sum() == (host * np.float32(0.5)).sum(dtype=np.float64)

# %% [markdown]
# ## A pipeline, watched
#
# `watch()` shows what the device does while it does it. The pipeline sends forty chunks through three streams, at
# most six of them in flight: a slow consumer would hold back the source. A **stage** enqueues what happens to one
# chunk.

# %%
watched = watch(threads=True)  # from now on, with the steps of kernel threads
watched


# %%
def tripled(stream, chunk):
    out = stream.empty_like(chunk)
    stream.launch(scale, (2, 12), out, chunk, 3.0)
    return out


chunks = [np.full(24 * TILE, number, np.float32) for number in range(40)]
firsts = []
async with atops.pipeline(iter(chunks), tripled, streams=3, in_flight=6) as results:
    async for result in results:
        firsts.append(int(result[0]))
assert firsts == [3 * number for number in range(40)]
firsts[-5:]

# %% [markdown]
# When you have seen enough, stop watching. The pictures stay, and `watched.to_html("run.html")` keeps them as one page
# that needs no notebook. Leaving a stream's scope waits for its work and frees its memory; without a scope, `aclose`
# does.

# %%
watched.stop()
await stream.aclose()
await other.aclose()
# %atops

# %% [markdown]
# ## From here
#
# - `../notebooks/photographs.py`: photographs on two devices, and kernels from cells of source.
# - `../notebooks/concurrency.py`: streams, events, barriers and double buffering, each with its mistake.
# - `../puzzles/`: fourteen kernels to write yourself, with a judge.
