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
# # Things that happen at once
#
# Four ideas: a stream, an event, double buffering, a barrier, and what each looks like. With the last three comes the
# program that forgets a wait and gets a wrong answer: every time, not now and then, so that there is something to
# look at.

# %%
# %load_ext atops_widgets
import numpy as np

import atops
from atops import kernels as k
from atops.trace.summary import summary
from atops_widgets import ClusterGrid

device = atops.Device(0)
tracer = atops.current_driver().tracer

# %% [markdown]
# ## A stream is a queue
#
# What you enqueue runs in order, later, while you go on. Here a **gate** makes that visible: the stream waits until a
# word of device memory becomes 1. We enqueue three fills behind it, look at the queue, and only then open the gate. The
# last fill wins, as the order says.

# %%
# %%timeline
stream, opener = device.create_stream(name="stream"), device.create_stream(name="opener")
gate = opener.zeros(1, np.int32)
await opener

stream.wait_value(gate, 1, "Eq")
x = stream.zeros(6, np.int32)
for value in (1, 2, 3):
    stream.fill(x, value)
print("before:", stream)
opener.write_value(gate, 1)
result = await stream.fetch(x)
assert (result == 3).all()
print("after: ", result)

# %% [markdown]
# ## An event is a promise between streams
#
# Two streams know nothing of each other. `reader` is meant to fetch what `writer` writes, and nothing says so: it
# reads what was there before. The gate holds `writer` back, so that it happens every time.

# %%
# %%timeline
writer, reader = device.create_stream(name="writer"), device.create_stream(name="reader")
shared = writer.zeros(4, np.int32)
await writer
opener.fill(gate, 0)
await opener

writer.wait_value(gate, 1, "Eq")
writer.fill(shared, 7)
too_early = await reader.fetch(shared)
opener.write_value(gate, 1)
await writer
assert (too_early == 0).all()
too_early

# %% [markdown]
# The missing edge is one line: `reader.wait(written)`. Then `reader` waits, though this notebook does not: the fetch
# is enqueued at once, and awaited after the gate was opened.

# %%
# %%timeline
opener.fill(gate, 0)
opener.fill(shared, 0)
await opener

writer.wait_value(gate, 1, "Eq")
writer.fill(shared, 7)
written = writer.record()
reader.wait(written)
fetched = reader.fetch(shared)
assert not fetched.done()
opener.write_value(gate, 1)
in_time = await fetched
assert (in_time == 7).all()
in_time

# %% [markdown]
# ## Double buffering
#
# To work through more data than fits, a program loads a piece, computes, saves, and starts again. In one stream these
# take turns: look at the gaps in the picture.

# %%
CHUNKS, SIZE, TILE = 12, 24 * 16_384, 16_384
chunks = np.random.default_rng(7).random((CHUNKS, SIZE), np.float32)


@k.kernel
async def root(y, x):
    tile = k.local(TILE, np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, TILE):
            await k.memcpy_async(dte, tile, x[part])
            np.sqrt(tile, out=tile)
            await k.memcpy_async(dte, y[part], tile)


def overlap(since):
    """Return which part of the copying went on beside a kernel."""
    return f"{summary(tracer.records(since)).overlap:.0%} of the copy time lay beside a kernel"


# %%
# %%timeline
since = tracer.statistics().emitted
x, y = stream.empty(SIZE), stream.empty(SIZE)
results = []
for chunk in chunks:
    stream.copy(x, chunk)
    stream.launch(root, (2, 12), y, x)
    results.append(stream.fetch(y))
assert np.array_equal([await result for result in results], np.sqrt(chunks))
print(overlap(since))

# %% [markdown]
# With two pairs of buffers and three streams, one chunk is loaded while the one before it is computed and the one
# before that is saved. What must not happen is that a chunk overwrites one that is still needed, so that two kinds of
# events go to and fro: *full* ("you may read this") and *free* ("you may overwrite it").

# %%
# %%timeline
since = tracer.statistics().emitted
load, compute, save = (device.create_stream(name=name) for name in ("load", "compute", "save"))
inputs, outputs = [load.empty(SIZE), load.empty(SIZE)], [load.empty(SIZE), load.empty(SIZE)]
read = [device.create_event(), device.create_event()]  # never recorded yet: waiting for them is no wait
saved = [device.create_event(), device.create_event()]
results = []
for number, chunk in enumerate(chunks):
    now = number % 2
    load.wait(read[now])  # free: the kernel that read this buffer is over
    load.copy(inputs[now], chunk)
    compute.wait(load.record())  # full
    compute.wait(saved[now])  # free
    compute.launch(root, (2, 12), outputs[now], inputs[now])
    compute.record(read[now])
    save.wait(read[now])  # full
    results.append(save.fetch(outputs[now]))
    save.record(saved[now])
assert np.array_equal([await result for result in results], np.sqrt(chunks))
print(overlap(since))

# %% [markdown]
# Without `load.wait(read[now])` the third chunk lands in the first one's buffer. If the kernel happens to be quick,
# that was read by then; so most runs are correct, until the machine is busy. Here the gate makes the kernel slow: the
# result of the first chunk is that of the third.

# %%
# %%timeline
opener.fill(gate, 0)
await opener
compute.wait_value(gate, 1, "Eq")
compute.launch(root, (2, 12), outputs[0], inputs[0])
for number in range(3):
    load.copy(inputs[number % 2], chunks[number])  # and no wait for the kernel that reads it
await load
opener.write_value(gate, 1)
first = await compute.fetch(outputs[0])
assert np.array_equal(first, np.sqrt(chunks[2])) and not np.array_equal(first, np.sqrt(chunks[0]))
print("expected", np.sqrt(chunks[0][:3]), "and got", first[:3])

# %% [markdown]
# ## A barrier
#
# Twelve threads of a block turn an array around by way of their shared memory: each brings one element and takes away
# the one opposite. Without a barrier the first thread looks for an element that is not there yet.


# %%
@k.kernel
async def around(y, x, careful: bool):
    me, count = k.threadIdx.x, k.blockDim.x
    meeting = k.shared(12, np.int32)
    meeting[me] = x[me]
    if careful:
        await k.syncthreads()
    y[me] = meeting[count - 1 - me]


numbers = stream.upload(np.arange(1, 13, dtype=np.int32))
turned = stream.zeros(12, np.int32)
stream.launch(around, (1, 12), turned, numbers, False)
wrong = await stream.fetch(turned)
stream.launch(around, (1, 12), turned, numbers, True)
right = await stream.fetch(turned)
assert np.array_equal(right, np.arange(12, 0, -1)) and not np.array_equal(wrong, right)
print("without:", wrong)
print("with:   ", right)

# %% [markdown]
# A barrier is for all threads of the block. One that leaves before it leaves the others waiting for good, which is
# found at the moment when no thread can go on:


# %%
@k.kernel
async def one_leaves(x):
    if k.threadIdx.x == 5:
        return
    await k.syncthreads()


grid = ClusterGrid(threads=True)  # records every step of every thread from now on, which is slow


# %% tags=["raises-exception"]
# %%timeline
stream.launch(one_leaves, (1, 12), numbers)
await stream

# %% [markdown]
# The grid has each thread where it stands: eleven at the barrier, one gone.

# %%
grid.feed.stop()
grid

# %%
stream.clear_error()
for each in (stream, opener, writer, reader, load, compute, save):
    await each.aclose()
# %atops
