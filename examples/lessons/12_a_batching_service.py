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
# # 12 · A service
#
# All of it together: requests come one by one; a launch for each would be slow, so a service gathers a few into a
# batch. Memory is bounded, so that only so many batches may be on the device at once. Clients give up, and then the
# others still get their answer. And the service itself can be cancelled: nobody may be left waiting, no memory held.

# %%
import asyncio

import numpy as np

import atops
from atops import kernels as k

# %% tags=["judge"]
from atops.lessons import Lesson, Question, commands


async def program(task, requests, batch, leaving):
    device, queue = atops.Device(0), asyncio.Queue()
    rng = np.random.default_rng(requests)
    numbers = [np.frombuffer(rng.integers(0, 99, 6, np.int32).tobytes(), np.int32) for _ in range(requests)]  # to read

    async def client(mine):
        answer = asyncio.get_running_loop().create_future()
        await queue.put((mine, answer))
        got = await answer
        assert np.array_equal(got, mine + 1), f"a client sent {mine[:3]}... and got {got[:3]}..."

    async with device.create_pool(name="batches", max_size=512) as pool:
        service = asyncio.create_task(task(device, pool, queue, batch), name="service")
        clients = [asyncio.create_task(client(each), name=f"client {at}") for at, each in enumerate(numbers)]
        for gone in clients[:leaving]:
            await asyncio.sleep(0)
            gone.cancel()
        ended = asyncio.gather(*clients, return_exceptions=True)
        await asyncio.wait((service, ended), return_when=asyncio.FIRST_COMPLETED)
        if service.done():
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)
            service.result()  # raises what it died of
            raise AssertionError("the service returned, and clients wait: it takes requests until it is cancelled")
        for at, error in enumerate((await ended)[leaving:], leaving):
            assert error is None, f"client {at} was left with {error!r}"
        late = [asyncio.get_running_loop().create_future() for _ in range(2 * batch + 1)]  # more than there is room for
        for answer in late:
            queue.put_nowait((numbers[0], answer))
            for _ in range(requests):  # so that it may be taken, computed, or neither
                await asyncio.sleep(0)
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)
        died = None if service.cancelled() else service.exception()
        assert died is None, f"the service was cancelled, and died of {died!r}"
        assert service.cancelled(), "the service was cancelled, and returned: let CancelledError go on"
        assert all(answer.done() for answer in late), "the service was cancelled, and a client waits for ever"
        pooled = pool.statistics()
        assert pooled.used_current == 0, f"{pooled.used_current} bytes of the pool were not freed"
        assert pooled.used_high > 0, "no memory was taken from the pool"


def work(seen, requests, batch, leaving):
    assert commands(seen, atops.Kind.LAUNCH), "the device has run no kernel"
    most = max(each.bytes for each in commands(seen, atops.Kind.COPY_H2D)) // 24
    assert most <= batch, f"{most} requests were computed in one launch, and at most {batch} may be"
    assert most > 1 or min(batch, requests - leaving) < 3, f"{requests} requests came, each was computed alone"


async def too_late():
    queue = asyncio.Queue()

    async def service():
        while True:
            answer = await queue.get()
            await asyncio.sleep(0)
            answer.set_result(1)

    async def client():
        answer = asyncio.get_running_loop().create_future()
        queue.put_nowait(answer)
        return await answer

    serving, asking = asyncio.create_task(service(), name="service"), asyncio.create_task(client(), name="client")
    for _ in range(4):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not serving.done(), f"the service died of {serving.exception()!r}"
    serving.cancel()


lesson = Lesson(
    "A service",
    program,
    cases=[(5, 2, 1), (3, 4, 0), (1, 1, 0), (7, 3, 2), (4, 2, 3)],
    schedules=15,
    work=work,
    hints=(
        "Three things are missing: room for a batch may not be there, an answer may be of a client that is "
        "gone, and a cancelled service leaves clients behind.",
        "A semaphore counts the batches that have memory; `if not answer.done()` asks whether a client is "
        "still there; `finally` cancels every answer that is left, of batches and of the queue. A task that "
        "is cancelled before its first step never runs its `finally`.",
        "`await places.acquire()` before a batch is gathered, `places.release()` in a `finally` of its task; "
        "the answers that were taken in a list, whose rest `serve` itself cancels in its `finally`.",
    ),
    question=Question("A client gives up. In which order does the service die of it?", too_late),
)

# %% [markdown]
# **Your task.** `serve` takes `(numbers, answer)` from the queue for ever, answers each with `numbers + 1`, and
# computes up to `batch` of them in one launch. `pool` has room for two batches.


# %%
@k.kernel
def add_one(x):
    for at in range(k.thread_id(), x.size, k.thread_count()):
        x[at] += 1
    k.cost(flops=10**12)  # a large model


# %% tags=["task"]
async def serve(device, pool, requests, batch):
    async def compute(taken):
        async with device.create_stream(name="batch") as stream:
            x = stream.empty(6 * len(taken), np.int32, pool=pool)
            stream.copy(x, np.concatenate([numbers for numbers, _ in taken]))
            stream.launch(add_one, (1, 4), x)
            results = (await stream.fetch(x)).reshape(len(taken), 6)
            stream.free(x)
        for (_, answer), result in zip(taken, results, strict=True):
            answer.set_result(result)

    async with asyncio.TaskGroup() as group:
        while True:
            taken = [await requests.get()]
            while len(taken) < batch and not requests.empty():
                taken.append(requests.get_nowait())
            group.create_task(compute(taken), name="batch")


# %% tags=["solution"]
async def serve(device, pool, requests, batch):
    places, waiting = asyncio.Semaphore(2), []  # room for batches, and the answers that clients wait for

    async def compute(taken):
        try:
            async with device.create_stream(name="batch") as stream:
                x = stream.empty(6 * len(taken), np.int32, pool=pool)
                try:
                    stream.copy(x, np.concatenate([numbers for numbers, _ in taken]))
                    stream.launch(add_one, (1, 4), x)
                    results = (await stream.fetch(x)).reshape(len(taken), 6)
                finally:
                    stream.free(x)
            for (_, answer), result in zip(taken, results, strict=True):
                if not answer.done():
                    answer.set_result(result)
        finally:
            places.release()

    try:
        async with asyncio.TaskGroup() as group:
            while True:
                await places.acquire()
                taken = [await requests.get()]
                while len(taken) < batch and not requests.empty():
                    taken.append(requests.get_nowait())
                waiting = [answer for answer in waiting if not answer.done()]
                waiting += [answer for _, answer in taken]
                group.create_task(compute(taken), name="batch")
    finally:  # not in `compute`: a task that is cancelled before its first step never runs its own
        while not requests.empty():
            waiting.append(requests.get_nowait()[1])
        for answer in waiting:
            answer.cancel()


# %%
lesson.picture(serve)

# %%
lesson.check(serve)
