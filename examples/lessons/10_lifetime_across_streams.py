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
# # 10 · How long memory lives
#
# `stream.empty(...)` and `stream.free(...)` are commands like any other: the memory is there from the one to the other,
# **in the order of that stream**. Other streams may use it, if an event says that it is there already, and another one
# that it is still there. What is freed goes to whoever asks next, and holds somebody else's numbers then.

# %%
import contextlib

import numpy as np

import atops
from atops import kernels as k

# %% tags=["judge"]
from atops.lessons import Lesson, Question, commands


async def program(task, rounds, size):
    host = np.random.default_rng(size).integers(0, 99, (rounds, size)).astype(np.float32)
    host.setflags(write=False)
    device = atops.Device(0)
    got = await task(device, host)
    assert isinstance(got, (list, tuple)), f"expected a list of {rounds} arrays, got {got!r}"
    assert len(got) == rounds, f"expected {rounds} results, got {len(got)}"
    for number, (result, wanted) in enumerate(zip(got, host * host + 1, strict=True)):
        assert isinstance(result, np.ndarray), f"results[{number}] is {result!r}; expected an array: was it awaited?"
        assert np.array_equal(result, wanted), f"results[{number}] is {result[:3]}..., and should be {wanted[:3]}..."
    left = device.default_pool.statistics().used_current
    assert left == 0, f"{left} bytes of device memory were not freed"


def work(seen, rounds, size):
    launches = commands(seen, atops.Kind.LAUNCH)
    assert len(launches) >= rounds, f"the device has run {len(launches)} kernels in {rounds} rounds"
    last = max(each.seq for each in commands(seen, atops.Kind.COPY_D2H))
    freed = sum(each.seq < last for each in commands(seen, atops.Kind.FREE))
    early = 2 * (rounds - 1)
    assert freed >= early, f"of {early} buffers {freed} were freed before the last round: free x and y in each"
    owners = {each.stream for each in commands(seen, atops.Kind.COPY_H2D)}
    assert not owners & {each.stream for each in launches}, "a kernel ran in the stream that copies: `helper` computes"


async def freed_early():
    device = atops.Device(0)
    async with device.create_stream(name="owner") as owner, device.create_stream(name="guest") as guest:
        x = owner.empty(4, np.int32)
        owner.fill(x, 1)
        guest.wait(owner.record())
        seen = guest.fetch(x)
        owner.free(x)
        y = owner.empty(4, np.int32)
        owner.fill(y, 9)
        owner.free(y)
        with contextlib.suppress(atops.errors.AtopsError):
            await seen
            raise AssertionError("the guest came in time")
        owner.clear_error()


lesson = Lesson(
    "How long memory lives",
    program,
    cases=[(2, 12), (1, 5), (3, 30), (4, 7), (3, 101)],
    hints={
        "race": (
            "Memory is freed here while it is used, and used before it holds what it has to. Which stream has to wait "
            "for which?",
            "`helper` must wait for what `main` did up to the copy; and `main` must wait for `helper` before it frees.",
            "ready = main.record() behind the copy, helper.wait(ready) before the launch; used = helper.record() "
            "behind the fetch, main.wait(used) before the two frees.",
        )
    },
    work=work,
    question=Question(
        "The owner frees x too early. In which order does the guest come in time all the same?",
        freed_early,
    ),
)

# %% [markdown]
# **Your task.** `main` gets the memory of each round, `helper` computes in it, and in that round it is given back.
# Nothing may be used too early or too late, and nothing may be left at the end.


# %%
@k.kernel
def square_and_one(y, x):
    for at in range(k.thread_id(), x.size, k.thread_count()):
        y[at] = x[at] * x[at] + 1


# %% tags=["task"]
async def rounds(device, data):
    async with device.create_stream(name="main") as main, device.create_stream(name="helper") as helper:
        results = []
        for row in data:
            x, y = main.empty(row.size, np.float32), main.empty(row.size, np.float32)
            main.copy(x, row)
            helper.launch(square_and_one, (1, 4), y, x)
            results.append(helper.fetch(y))
            main.free(x)
            main.free(y)
        return [await result for result in results]


# %% tags=["solution"]
async def rounds(device, data):
    async with device.create_stream(name="main") as main, device.create_stream(name="helper") as helper:
        results = []
        for row in data:
            x, y = main.empty(row.size, np.float32), main.empty(row.size, np.float32)
            main.copy(x, row)
            ready = main.record()
            helper.wait(ready)
            helper.launch(square_and_one, (1, 4), y, x)
            results.append(helper.fetch(y))
            used = helper.record()
            main.wait(used)
            main.free(x)
            main.free(y)
        return [await result for result in results]


# %%
lesson.picture(rounds)

# %%
lesson.check(rounds)
