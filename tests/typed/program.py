"""A program of a user who checks types: each `assert_type` says what its last lines hold. Checked, and run."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Callable
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import atops
from atops import kernels as k
from atops import tops

Floats = k.Span[np.float32]
SIZE = 64
ONCE = np.int32(1)
RUNS = k.device_variable(np.int32)


@k.kernel
async def axpy(y: Floats, x: Floats, a: float, n: int) -> None:
    """Add a number to each element, by way of L1."""
    row = k.local(n, np.float32)
    assert_type(row, npt.NDArray[np.float32])
    assert_type(x[:n], Floats)
    with k.dte_scope() as dte:
        await k.memcpy_async(dte, row, x[:n])
        row += np.float32(a)
        await k.memcpy_async(dte, y[:n], row)


@k.kernel(cooperative=True)
async def doubled(x: k.restrict[np.float32], times: np.int32 = ONCE) -> None:
    """Double in place."""
    x[:] = x[:] * np.float32(2**times)
    await k.syncblocks()


@k.kernel
def count(x: k.Span[np.int32]) -> None:
    """Store the position of each element."""
    for part in k.tiles(x.size, 16):
        assert_type(part.stop - part.start, int)
        x[part] = np.arange(part.start, part.stop, dtype=np.int32)
    assert_type(x.reshape(2, -1), k.Span[np.int32])
    assert_type(x[:4] + 1, npt.NDArray[Any])
    assert_type(2 * x[:4], npt.NDArray[Any])
    assert_type(-x[:4], npt.NDArray[Any])
    assert_type(x[:4] < 3, npt.NDArray[Any])
    RUNS[...] += 1


def total(values: npt.NDArray[np.float32], scale: float) -> float:
    """Host work that has a result."""
    return float(values.sum()) * scale


async def later(word: str) -> list[str]:
    """Host work in a coroutine."""
    await asyncio.sleep(0)
    return [word]


def told(error: atops.errors.AtopsError | None, done: list[bool]) -> None:
    """Note how the work ended."""
    done.append(error is None)


async def on_a_stream(device: atops.Device) -> float:
    """Use each verb of a stream, and what it gives."""
    async with device.create_stream(name="typed") as stream:
        host = np.arange(SIZE, dtype=np.float32)
        x = stream.upload(host)
        y = stream.zeros(SIZE)
        whole = stream.empty(SIZE, np.int32)
        assert_type(x, atops.DeviceArray[np.float32])
        assert_type(y, atops.DeviceArray[np.float32])
        assert_type(whole, atops.DeviceArray[np.int32])
        assert_type(stream.empty_like(whole), atops.DeviceArray[np.int32])
        assert_type(stream.upload(b"bytes"), atops.DeviceArray[np.uint8])
        assert_type(x[1:], atops.DeviceArray[np.float32])
        assert_type(x.reshape(8, -1), atops.DeviceArray[np.float32])
        assert_type(x.view(np.uint32), atops.DeviceArray[np.uint32])

        launched = stream.launch(axpy, (1, 1), y, x, 0.5, SIZE)
        stream.launch(axpy, atops.LaunchConfig(1, 1), y=y, x=x, a=2, n=SIZE)
        stream.launch(doubled, (1, 1), y, cooperative=True)
        stream.launch(doubled, (1, 1), y, 1, shared=None)
        stream.launch(count, (1, 1), whole)
        assert_type(launched, atops.Completion[None])
        fetched = stream.fetch(y)
        assert_type(fetched, atops.Completion[npt.NDArray[np.float32]])
        values = await fetched
        assert_type(values, npt.NDArray[np.float32])

        back: npt.NDArray[np.float32] = np.empty(SIZE, np.float32)
        assert_type(await stream.copy(back, y), npt.NDArray[np.float32])
        assert_type(stream.copy(y, host), atops.Completion[None])
        assert_type(await stream.fetch(stream.allocate(4)), npt.NDArray[np.uint8])

        result = await stream.call(total, values, 0.5)
        assert_type(result, float)
        assert_type(await stream.call(later, "word", holds=False), list[str])
        assert_type(await stream.call(len, "four"), int)
        done: list[bool] = []
        stream.add_callback(told, done)

        event = stream.record()
        assert_type(event, atops.Event)
        await stream.wait(event)
        await stream.wait(stream.wait(later("word")))
        assert_type(await stream.create_task(later("word"), name="words"), list[str])
        assert_type((await stream.fetch(whole)).dtype, np.dtype[np.int32])
        return result


async def as_futures(device: atops.Device) -> int:
    """Give completions and events to the functions of asyncio, as docs/streams.md says."""
    async with device.create_stream(capacity=16) as stream, device.create_pool(name="typed") as pool:
        size, event = stream.call(len, "four"), stream.record()
        done, pending = await asyncio.wait({size}, return_when=asyncio.FIRST_COMPLETED)
        assert_type(done, set[atops.Completion[int]])
        assert not pending
        assert_type(await asyncio.gather(size, event, stream.call(str, 4)), tuple[int, None, str])
        assert_type(await asyncio.wait_for(size, 60), int)
        assert_type(await asyncio.shield(size), int)
        assert_type(await asyncio.wrap_future(size), int)
        assert_type(await asyncio.create_task(size.wait()), int)
        for each in asyncio.as_completed([size]):
            assert_type(await each, int)
        assert_type(size.result(), int)
        assert_type(event.completion, atops.Completion[None] | None)
        last = stream.record()
        await last
        assert_type(last - event, float)
        as_of_threads: concurrent.futures.Future[int] = size

        async with stream.room(2):
            buffer = stream.allocate(64, pool=pool)
            stream.launch(count, (1, 1), buffer.view(np.int32))
        [together] = atops.launch_together([(stream, count, (1, 1), buffer.view(np.int32))])
        assert_type(together, atops.Completion[None])
        assert_type(pool.statistics().fresh, int)
        runs = device.symbol(RUNS)
        assert_type(runs, atops.Symbol[np.int32])
        assert_type(await stream.fetch(runs), npt.NDArray[np.int32])
        return as_of_threads.result() + int(await stream.fetch(runs))


def profiled() -> int:
    """Run a program with its arguments, and measure it."""
    with atops.profile() as measured:
        answer = atops.run(later, atops.EmulatorOptions(seed=1), "word")
    assert_type(answer, list[str])
    assert_type(measured.summary().idle, float)
    return len(measured.records)


def in_c_style() -> int:
    """Call what C programs call."""
    error, pointer = tops.topsMalloc(SIZE)
    assert_type(error, tops.topsError_t)
    assert_type(pointer, int)
    assert_type(tops.check(tops.topsMemGetInfo()), tuple[int, int])
    assert_type(tops.check(tops.topsMemset(pointer, 7, SIZE)), None)
    tops.check(tops.topsFree(pointer))
    return pointer


async def through_a_pipeline(device: atops.Device) -> list[float]:
    """Have chunks worked on, as arrays, as results of calls, and as pairs."""

    def twice(stream: atops.Stream, x: atops.DeviceArray[np.float32]) -> atops.DeviceArray[np.float32]:
        stream.launch(doubled, (1, 1), x, cooperative=True)
        return x

    def ended(stream: atops.Stream, x: atops.DeviceArray[np.float32]) -> atops.Completion[str]:
        return stream.call(str, x.size)

    def both(
        stream: atops.Stream, x: atops.DeviceArray[np.float32]
    ) -> tuple[atops.DeviceArray[np.float32], atops.Completion[str]]:
        return x, ended(stream, x)

    async def chunks() -> AsyncIterator[npt.NDArray[np.float32]]:
        for first in range(3):
            yield np.full(4, first, np.float32)

    sums: list[float] = []
    async with atops.pipeline(chunks(), twice, device=device) as results:
        assert_type(results, atops.Pipeline[npt.NDArray[np.float32]])
        async for each in results:
            assert_type(each, npt.NDArray[np.float32])
            sums.append(float(each.sum()))
    async for word in atops.pipeline(chunks(), twice, ended, device=device):
        assert_type(word, str)
    async for pair in atops.pipeline(chunks(), twice, both, device=device):
        assert_type(pair, tuple[npt.NDArray[np.float32], str])
    return sums


def in_plain_code(device: atops.Device) -> npt.NDArray[np.int32]:
    """Wait without a loop; use memory of the host."""
    with device.host_malloc(SIZE, np.int32) as pinned:
        assert_type(pinned, atops.HostArray[np.int32])
        assert_type(pinned.array, npt.NDArray[np.int32])
        assert_type(np.asarray(pinned), npt.NDArray[np.int32])
        pinned[...] = 3
        stream = device.null_stream
        stream.fill(pinned, 7).wait_sync()
        stream.launch(count, (1, 1), pinned)
        return stream.fetch(pinned).wait_sync(timeout=60)


def decorated() -> Callable[..., object]:
    """Return a kernel, as code that handles kernels of any kind does."""
    kernels: list[k.Kernel] = [axpy, doubled, count]
    return kernels[0]


def main() -> tuple[float, list[float], int]:
    """Run all of it."""
    device = atops.Device(0)
    assert asyncio.run(as_futures(device)) > 4
    assert profiled() == 0 < in_c_style()
    first = asyncio.run(on_a_stream(device))
    sums = asyncio.run(through_a_pipeline(device))
    return first, sums, int(in_plain_code(device)[-1])


if __name__ == "__main__":
    print(main())
