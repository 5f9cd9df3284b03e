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
# # 4 · Two buffers, and the wait that is forgotten
#
# Memory is small: there is room for two chunks, not for all. While one buffer is computed on, the other is loaded;
# then they change roles. Two things must be said, in both directions: *this buffer is full*, you may compute, and
# *this buffer is free*, you may load the next chunk into it. Everybody remembers the first.

# %%
import numpy as np

import atops
from atops import kernels as k

# %% tags=["judge"]
from atops.lessons import Lesson, Question, commands


async def program(task, chunks, size):
    data = np.random.default_rng(size).integers(0, 99, (chunks, size)).astype(np.float32)
    data.setflags(write=False)
    device = atops.Device(0)
    results = await task(device, data)
    assert isinstance(results, (list, tuple)), f"expected a list of {chunks} arrays, got {results!r}"
    assert len(results) == chunks, f"expected {chunks} results, got {len(results)}"
    for number, (got, wanted) in enumerate(zip(results, data * 2, strict=True)):
        assert isinstance(got, np.ndarray), f"results[{number}] is {got!r}; expected an array: was it awaited?"
        assert np.array_equal(got, wanted), f"results[{number}] is {got[:3]}..., and should be {wanted[:3]}..."


def work(seen, chunks, size):
    launches, loads = commands(seen, atops.Kind.LAUNCH), commands(seen, atops.Kind.COPY_H2D)
    assert len(launches) >= chunks, f"the device has run {len(launches)} kernels for {chunks} chunks"
    most, room = max(each.used_bytes for each in seen.trace.counters), 2 * (4 * size + 256) + 1024
    assert most <= room, f"{most:,} bytes were in use at once: more than two chunks of {4 * size:,}"
    assert len(loads) >= chunks, f"{len(loads)} of {chunks} chunks were loaded"
    meanwhile = sum(load.started_ns < launch.finished_ns for load, launch in zip(loads[1:], launches, strict=False))
    words = f"{meanwhile} of {chunks} chunks were loaded while the one before was not computed yet"
    assert meanwhile >= chunks // 2, f"{words}: one buffer is to be loaded while the other is computed on"


async def one_slot():
    device = atops.Device(0)
    async with device.create_stream(name="load") as load, device.create_stream(name="save") as save:
        slot = device.zeros(1, np.int32)
        load.fill(slot, 1)
        full = load.record()
        save.wait(full)
        first = save.fetch(slot)
        load.fill(slot, 2)
        assert (await first)[0] == 1, "the second chunk came before the first was saved"


lesson = Lesson(
    "Two buffers",
    program,
    cases=[(3, 40), (1, 7), (2, 24), (6, 13), (5, 400)],
    hints={
        "race": (
            "Before the next chunk is copied into a buffer, something that uses the last one must be over. What, and "
            "in which stream is it?",
            "Before `load` copies into a buffer again it must wait until the fetch of what was in it is over.",
            "Keep an event for each buffer, recorded in `save` behind the fetch; `load.wait(saved[now])` before "
            "the copy. A stream does not wait for an event that was never recorded.",
        )
    },
    work=work,
    question=Question("In which order does the first chunk get lost?", one_slot),
)

# %% [markdown]
# **Your task.** Double every chunk, by way of two buffers and three streams. Here *full* is said, and *free* is not.


# %%
@k.kernel
def double(x):
    for at in range(k.thread_id(), x.size, k.thread_count()):
        x[at] = 2 * x[at]


# %% tags=["task"]
async def doubled(device, data):
    async with (
        device.create_stream(name="load") as load,
        device.create_stream(name="compute") as compute,
        device.create_stream(name="save") as save,
    ):
        buffers = [device.empty(data.shape[1], np.float32) for _ in range(2)]
        results = []
        for number, chunk in enumerate(data):
            buffer = buffers[number % 2]
            load.copy(buffer, chunk)
            full = load.record()
            compute.wait(full)
            compute.launch(double, (1, 4), buffer)
            computed = compute.record()
            save.wait(computed)
            results.append(save.fetch(buffer))
        return [await result for result in results]


# %% tags=["solution"]
async def doubled(device, data):
    async with (
        device.create_stream(name="load") as load,
        device.create_stream(name="compute") as compute,
        device.create_stream(name="save") as save,
    ):
        buffers = [device.empty(data.shape[1], np.float32) for _ in range(2)]
        saved = [device.create_event() for _ in range(2)]
        results = []
        for number, chunk in enumerate(data):
            now = number % 2
            load.wait(saved[now])
            load.copy(buffers[now], chunk)
            full = load.record()
            compute.wait(full)
            compute.launch(double, (1, 4), buffers[now])
            computed = compute.record()
            save.wait(computed)
            results.append(save.fetch(buffers[now]))
            save.record(saved[now])
        return [await result for result in results]


# %%
lesson.picture(doubled)

# %%
lesson.check(doubled)
