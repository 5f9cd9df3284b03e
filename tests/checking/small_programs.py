"""Programs of all kinds with few enough schedules that all of them can be run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np

import atops
from atops import kernels as k
from tests.checking.small_kernels import apart, behind_a_barrier, by_dte, counted, lost_update, signalled

Program = Callable[[], Any]


@k.kernel
async def stores(x: Any) -> None:
    x[k.threadIdx.x] = x[k.threadIdx.x] * 2 + 1


async def _launched(kernel: k.Kernel, config: Any, size: int) -> list[int]:
    """Launch a kernel with zeros, and return what they are then."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.zeros(size, np.int32)
        stream.launch(kernel, config, x)
        return (await stream.fetch(x)).tolist()


async def a_barrier() -> Any:
    return await _launched(behind_a_barrier, (1, 2), 8)


async def three_at_a_barrier() -> Any:
    return await _launched(behind_a_barrier, (1, 3), 8)


async def a_lost_update() -> Any:
    return await _launched(lost_update, (1, 2), 1)


async def threads_apart() -> Any:
    return await _launched(apart, (1, 2), 16)


async def transfers() -> Any:
    return await _launched(by_dte, (1, 2), 1)


async def a_signal() -> Any:
    return await _launched(signalled, (1, 2), 2)


async def a_counted_barrier() -> Any:
    return await _launched(counted, (1, 2), 8)


async def blocks_that_lose_an_update() -> Any:
    return await _launched(lost_update, (2, 1), 1)


@k.kernel
async def once(x: Any) -> None:
    x[k.blockIdx.x] = 1


@k.kernel
async def waits_for_another(x: Any) -> None:
    if k.blockIdx.x == 0:
        await k.signal_wait(0, 1)
        x[1] = x[0]
    elif x[0] == 0:
        x[0] = 1
        k.signal_write(0, 1)


@k.cooperative
@k.kernel
async def some_stay_away(x: Any) -> None:
    x[k.blockIdx.x] = 1
    if k.blockIdx.x == 0 or x[0] == 0:
        await k.syncblocks()


async def blocks_apart() -> Any:
    return await _launched(once, (2, 1), 2)


async def blocks_and_a_signal() -> Any:
    return await _launched(waits_for_another, (2, 1), 2)


async def blocks_that_stand_in_some_orders() -> Any:
    return await _launched(some_stay_away, (2, 1), 2)


async def two_fills() -> Any:
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        x = device.empty(1, np.int32)
        one.fill(x, 1)
        two.fill(x, 2)
        await one
        await two
        return int((await one.fetch(x))[0])


async def an_event() -> Any:
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        x = device.empty(1, np.int32)
        one.fill(x, 1)
        two.wait(one.record())
        two.fill(x, 2)
        return int((await two.fetch(x))[0])


async def a_value() -> Any:
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        x, word = device.empty(1, np.int32), device.zeros(1, np.uint32)
        one.fill(x, 1)
        one.write_value(word, 1)
        two.wait_value(word, 1)
        two.fill(x, 2)
        return int((await two.fetch(x))[0])


async def a_value_too_early() -> Any:
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        x, word = device.zeros(1, np.int32), device.zeros(1, np.uint32)
        one.write_value(word, 1)
        one.fill(x, 1)
        two.wait_value(word, 1)
        found = int((await two.fetch(x))[0])
        await one
        return found


async def opposite_copies() -> Any:
    """One waits for the link until the other is over."""
    device = atops.Device(0)
    async with device.create_stream() as up, device.create_stream() as down:
        x, y, found = device.zeros(2, np.int32), device.zeros(2, np.int32), np.ones(2, np.int32)
        up.copy(x, np.full(2, 7, np.int32))
        down.copy(found, y)
    return found.tolist()


async def opposite_copies_of_one_memory() -> Any:
    """The second waits for the link, or comes first."""
    device = atops.Device(0)
    async with device.create_stream() as up, device.create_stream() as down:
        x, found = device.zeros(2, np.int32), np.ones(2, np.int32)
        up.copy(x, np.full(2, 7, np.int32))
        down.copy(found, x)
    return found.tolist()


async def two_devices() -> Any:
    device, other = atops.Device(0), atops.Device(1)
    async with device.create_stream() as one, other.create_stream() as two:
        x = device.empty(1, np.int32)
        one.fill(x, 1)
        two.fill(x, 2)
        await two.record()
        return int((await one.fetch(x))[0])


async def an_event_between_devices() -> Any:
    device, other = atops.Device(0), atops.Device(1)
    async with device.create_stream() as one, other.create_stream() as two:
        x = device.empty(1, np.int32)
        one.fill(x, 1)
        two.wait(one.record())
        two.fill(x, 2)
        return int((await two.fetch(x))[0])


async def a_task_and_a_stream() -> Any:
    device = atops.Device(0)
    order: list[object] = []
    async with device.create_stream() as stream:
        x = device.empty(1, np.int32)

        async def work() -> None:
            order.append("begins")
            await stream.fill(x, 1)
            order.append("done")

        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        order.append("main")
        await task
    return order


async def two_tasks() -> Any:
    order: list[int] = []

    async def work(which: int) -> None:
        order.append(which)
        await asyncio.sleep(0)
        order.append(which)

    await asyncio.gather(work(1), work(2))
    return order


async def tasks_that_fail() -> Any:
    order: list[int] = []

    async def work(which: int) -> None:
        order.append(which)
        await asyncio.sleep(0)
        assert order[0] == 1

    async with asyncio.TaskGroup() as group:
        group.create_task(work(1))
        group.create_task(work(2))


async def a_task_left_behind() -> Any:
    order: list[int] = []

    async def work() -> None:
        order.append(1)
        await asyncio.sleep(0)
        order.append(2)

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    seen = len(order)
    task.cancel()
    return seen


async def too_early() -> Any:
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        x = two.zeros(1, np.int32)
        await two
        one.fill(x, 1)
        result = await two.fetch(x)
    assert result[0] == 1
