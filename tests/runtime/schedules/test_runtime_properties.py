"""What the runtime promises, whatever comes next: its parking lot, stream queues, pools and gangs under many schedules.

Each property is a program that asserts it, run by `atops.check`. A few of them are run once more with a fault planted
in the real class that they are about: then they must fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.waiting.parking_lot import ParkingLot
from atops.errors import AtopsError, CommandCancelled, HostCallFailure, StreamAborted
from atops.runtime.core.capacity import Capacity
from atops.runtime.pools.blocks import FreeBlocks

Program = Callable[[], Coroutine[Any, Any, object]]
PROPERTIES: dict[str, Program] = {}
QUICK, LONG = 25, 10_000  # schedules


def holds(program: Program) -> Program:
    """Keep a program whose assertions must hold under every schedule."""
    PROPERTIES[program.__name__] = program
    return program


async def until(reached: Callable[[], bool]) -> None:
    """Give others turns until something is so. What never is so is the step limit's affair."""
    while not reached():  # noqa: ASYNC110  # each turn is a choice
        await asyncio.sleep(0)


def statistics(stream: atops.Stream) -> tuple[int, int, int]:
    """Return commands that are not over, free places, and reservations that wait."""
    figures = stream.statistics()
    return figures.pending, figures.free or 0, figures.waiting_for_room


# ---- the parking lot: reservations of places in a stream


@holds
async def room_goes_to_those_who_came_first() -> None:
    order: list[int] = []

    async def enter(number: int) -> None:
        async with stream.room(1):
            order.append(number)

    async with atops.Device(0).create_stream(capacity=1) as stream:
        tasks = []
        async with stream.room(1):
            for number in range(4):
                tasks.append(asyncio.create_task(enter(number)))
                await until(lambda: statistics(stream)[2] == len(tasks))
        await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3]


@holds
async def every_wait_for_room_ends() -> None:
    async def produce() -> None:
        for _ in range(2):
            async with stream.room():
                stream.call(len, "")

    async with atops.Device(0).create_stream(capacity=1) as stream:
        await asyncio.gather(*(produce() for _ in range(3)))
        await stream
        assert statistics(stream) == (0, 1, 0)


@holds
async def a_stream_never_has_more_than_its_capacity() -> None:
    most: list[int] = []

    async def produce() -> None:
        for _ in range(3):
            async with stream.room():
                stream.call(lambda: most.append(stream.qsize()))

    async with atops.Device(0).create_stream(capacity=2) as stream:
        await asyncio.gather(produce(), produce())
        await stream
    assert len(most) == 6 and max(most) <= 2


@holds
async def a_cancelled_wait_for_room_loses_no_place() -> None:
    async def produce() -> None:
        async with stream.room(1):
            await asyncio.sleep(0)
            stream.call(len, "")

    async with atops.Device(0).create_stream(capacity=1) as stream:
        tasks = [asyncio.create_task(produce()) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.sleep(0)
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await stream
        assert statistics(stream) == (0, 1, 0)


@holds
async def room_for_several_is_granted_whole() -> None:
    held: list[int] = []

    async def take(places: int) -> None:
        async with stream.room(places):
            held.append(places)
            assert sum(held) <= 3
            await asyncio.sleep(0)
            held.remove(places)

    async with atops.Device(0).create_stream(capacity=3) as stream:
        await asyncio.gather(*(take(places) for places in (1, 3, 2, 1, 3)))
        assert statistics(stream) == (0, 3, 0)


@holds
async def closing_ends_every_wait_for_room() -> None:
    ends: list[str] = []

    async def produce() -> None:
        try:
            async with stream.room(1):
                await asyncio.sleep(0)
            ends.append("entered")
        except AtopsError:
            ends.append("refused")

    stream = atops.Device(0).create_stream(capacity=1)
    tasks = [asyncio.create_task(produce()) for _ in range(3)]
    await asyncio.sleep(0)
    await stream.aclose()
    await asyncio.gather(*tasks)
    assert len(ends) == 3


# ---- the parking lot: signals, events, the end of a driver


@holds
async def a_signal_wakes_all_that_wait_for_it() -> None:
    signals = atops.Device(0).signals
    handle = signals.allocate()

    async def wait(value: int) -> int:
        return await signals.wait(handle, value)

    waits = [asyncio.create_task(wait(value)) for value in (1, 2, 2)]
    await asyncio.sleep(0)
    signals.write(handle, 1)
    await asyncio.sleep(0)
    signals.write(handle, 2)
    assert all(value in (1, 2) for value in await asyncio.gather(*waits))
    signals.free(handle)


@holds
async def an_event_wakes_all_that_await_it() -> None:
    async with atops.Device(0).create_stream() as stream:
        seen: list[int] = []
        stream.call(seen.append, 1)
        event = stream.record()

        async def wait() -> None:
            await event
            assert seen == [1]

        tasks = [asyncio.create_task(wait()) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert results[1:] == [None, None]


@holds
async def a_store_wakes_every_wait_for_the_word() -> None:
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two, device.create_stream() as writer:
        word = device.zeros(1, np.uint32)
        waits = [one.wait_value(word, 2, "eq"), two.wait_value(word, 1, "Gte")]
        writer.write_value(word, 1)
        writer.write_value(word, 2)
        await asyncio.gather(*waits)


# ---- stream queues


@holds
async def a_stream_is_first_in_first_out() -> None:
    done: list[int] = []

    async def host(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    async with atops.Device(0).create_stream() as stream:
        for number in range(5):
            stream.call(host if number % 2 else done.append, number)
        await stream
    assert done == list(range(5))


@holds
async def an_event_puts_streams_in_order() -> None:
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        x = device.zeros(4, np.int32)
        one.fill(x, 1)
        two.wait(one.record())
        two.fill(x, 2)
        one.wait(two.record())
        assert (await one.fetch(x)).tolist() == [2] * 4


@holds
async def a_wait_keeps_the_record_that_it_saw() -> None:
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        word = device.zeros(1, np.uint32)
        event = one.record()
        two.wait(event)
        one.wait_value(word, 1)
        one.record(event)  # which two does not wait for: it ends this wait itself
        two.write_value(word, 1)
        await event
        assert two.is_done or await two is two


@holds
async def the_null_stream_comes_between() -> None:
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        x = device.zeros(1, np.int32)
        one.fill(x, 1)
        device.null_stream.fill(x, 2)
        two.fill(x, 3)
        await device.wait()
        assert (await one.fetch(x)).tolist() == [3]


@holds
async def what_fails_skips_what_is_behind_it() -> None:
    ran: list[int] = []

    def fail() -> None:
        raise ValueError("on purpose")

    async with atops.Device(0).create_stream() as stream:
        failed = stream.call(fail)
        behind = [stream.call(ran.append, number) for number in range(2)]
        results = await asyncio.gather(failed, *behind, return_exceptions=True)
        assert isinstance(results[0], HostCallFailure) and ran == []
        assert all(isinstance(each, AtopsError) for each in results)
        assert stream.clear_error() is not None
        await stream.call(ran.append, 7)
    assert ran == [7]


@holds
async def a_command_runs_or_is_cancelled_and_never_both() -> None:
    ran: list[int] = []
    async with atops.Device(0).create_stream() as stream:
        items = [stream.call(ran.append, number) for number in range(4)]

        async def cancel() -> None:
            items[2].cancel()

        task = asyncio.create_task(cancel())
        results = await asyncio.gather(*items, return_exceptions=True)
        await task
    cancelled = isinstance(results[2], CommandCancelled)
    assert ran == ([0, 1, 3] if cancelled else [0, 1, 2, 3])


@holds
async def join_waits_for_what_comes_meanwhile() -> None:
    ran: list[int] = []
    async with atops.Device(0).create_stream() as stream:

        async def more() -> None:
            ran.append(1)
            stream.call(ran.append, 2)

        stream.call(more)
        await stream.join()
        assert ran == [1, 2] and stream.qsize() == 0


@holds
async def done_callbacks_come_once_and_in_order() -> None:
    called: list[int] = []
    async with atops.Device(0).create_stream() as stream:
        item = stream.call(len, "")
        for number in range(3):
            item.add_done_callback(lambda _, number=number: called.append(number))
            await asyncio.sleep(0)
        await item
        await until(lambda: len(called) >= 3)
        await asyncio.sleep(0)
    assert called == [0, 1, 2]


@holds
async def an_abort_ends_every_wait() -> None:
    device = atops.Device(0)
    async with device.create_stream() as stream, device.create_stream() as other:
        word = device.zeros(1, np.uint32)
        items = [stream.wait_value(word, 1), stream.call(len, ""), stream.record().completion]
        waits = [asyncio.create_task(each.wait()) for each in items]
        behind = other.wait(items[2])
        await asyncio.sleep(0)
        stream.abort()
        results = await asyncio.gather(*waits, behind, return_exceptions=True)
        assert all(isinstance(each, StreamAborted | AtopsError) for each in results[:3])
        other.clear_error()


@holds
async def a_scope_leaves_no_task_behind() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("ended")

    async def scope() -> None:
        async with atops.Device(0).create_stream() as stream:
            stream.create_task(work())
            await asyncio.sleep(0)
            raise ValueError("left")

    task = asyncio.create_task(scope())
    with suppress(ValueError):
        await task
    assert ended in (["ended"], [])  # it may never have begun
    assert not [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]


# ---- pools


async def user_of(pool: atops.MemoryPool, number: int) -> None:
    """Allocate, fill, look and free, in a stream of one's own."""
    async with pool.device.create_stream() as stream:
        for size in (64, 256, 128):
            memory = stream.empty(size, np.uint8, pool)
            stream.fill(memory, number)
            found = stream.fetch(memory)
            stream.free(memory)
            assert (await found == number).all()


@holds
async def memory_in_use_is_never_given_to_another() -> None:
    pool = atops.Device(0).create_pool(max_size=4096)
    await asyncio.gather(*(user_of(pool, number) for number in range(1, 4)))
    assert pool.used_current == 0
    pool.destroy()


@holds
async def a_block_is_reused_behind_its_free() -> None:
    device = atops.Device(0)
    pool = device.create_pool(max_size=4096)  # for one of the two at a time
    async with device.create_stream() as one, device.create_stream() as two, device.create_stream() as third:
        word = device.zeros(1, np.uint32)
        first = one.empty(4096, np.uint8, pool)
        one.wait_value(word, 1)
        one.fill(first, 1)
        seen = one.fetch(first)
        one.free(first)
        second = two.empty(4096, np.uint8, pool)
        two.fill(second, 2)
        third.write_value(word, 1)
        again = two.fetch(second)
        assert (await seen == 1).all() and (await again == 2).all()
        two.free(second)
    pool.destroy()


@holds
async def a_trim_takes_nothing_that_is_used() -> None:
    pool = atops.Device(0).create_pool()

    async def trim() -> None:
        for _ in range(3):
            pool.trim()
            await asyncio.sleep(0)

    await asyncio.gather(user_of(pool, 5), trim(), user_of(pool, 6))
    pool.trim()
    assert (pool.used_current, pool.reserved_current) == (0, 0)
    pool.destroy()


@holds
async def an_aborted_stream_gives_its_memory_back() -> None:
    device = atops.Device(0)
    pool = device.create_pool()
    async with device.create_stream() as stream:
        word = device.zeros(1, np.uint32)
        memory = stream.empty(256, np.uint8, pool)
        stream.wait_value(word, 1)
        stream.fill(memory, 1)
        stream.free(memory)
        await asyncio.sleep(0)
        stream.abort()
        with suppress(AtopsError):
            await stream
    assert pool.used_current == 0
    pool.destroy()


# ---- gangs: launches that run at once or not at all


@k.kernel
async def meet(x: Any) -> None:
    """Store a number from each block, meet, and look for that of the other block."""
    mine = k.blockIdx.x
    if k.threadIdx.x == 0:
        x[mine] = x[mine] + 1
    await k.syncblocks()
    k.assert_(x[1 - mine] > 0)
    await k.syncblocks()


@holds
async def cooperative_launches_never_wait_for_each_other() -> None:
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        x = device.zeros(2, np.int32)
        for stream in (one, two, one):
            stream.launch(meet, (2, 2), x, cooperative=True)
        await one
        await two


@holds
async def launches_on_two_devices_meet() -> None:
    devices = atops.Device(0), atops.Device(1)
    async with devices[0].create_stream() as one, devices[1].create_stream() as two:
        x, y = devices[0].zeros(2, np.int32), devices[1].zeros(2, np.int32)
        alone = one.launch(meet, (2, 1), x, cooperative=True)
        together = atops.launch_together(
            [(one, meet, (2, 1), x), (two, meet, (2, 1), y)], cooperative=True
        )
        other = two.launch(meet, (2, 1), y, cooperative=True)
        await asyncio.gather(alone, *together, other)


@holds
async def a_cancelled_gang_leaves_its_place() -> None:
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        x = device.zeros(2, np.int32)
        first, second = (each.launch(meet, (2, 1), x, cooperative=True) for each in (one, two))
        await asyncio.sleep(0)
        second.cancel()
        with suppress(AtopsError):
            await second
        two.clear_error()
        await two.launch(meet, (2, 1), x, cooperative=True)
        await first


# ---- the tests


def checked(program: Program, schedules: int, strategy: str = "random", seed: int = 0) -> Any:
    """Return the report of a program under so many schedules."""
    return atops.check(program, schedules, strategy, seed=seed, options=atops.EmulatorOptions(devices=2), steps=5000)


def lose_a_wake_up(capacity: Capacity) -> None:
    """Forget to hand a free place on."""


def newest_first(lot: ParkingLot[Any]) -> Iterator[Any]:
    """Go through the waiters from the wrong end."""
    return reversed(list(lot._waiters))


def no_frees(blocks: FreeBlocks, block: object) -> dict[int, Any]:
    """Forget what has to give a block back first."""
    return {}


FAULTS: dict[str, tuple[type, str, Callable[..., Any], Program]] = {
    "a wake-up is lost": (Capacity, "hand_on", lose_a_wake_up, every_wait_for_room_ends),
    "the newest goes first": (ParkingLot, "__iter__", newest_first, room_goes_to_those_who_came_first),
    "a block is taken before its free": (FreeBlocks, "frees_of", no_frees, a_block_is_reused_behind_its_free),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The property of the class fails, so its program looks at what it is about."""
    owner, attribute, fault, program = FAULTS[name]
    monkeypatch.setattr(owner, attribute, fault)
    assert checked(program, 200).verdict == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_holds(name: str) -> None:
    """Under each of some schedules."""
    assert len(PROPERTIES) >= 20
    report = checked(PROPERTIES[name], QUICK)
    assert report.verdict in ("proved", f"explored {QUICK}"), report


@pytest.mark.soak
@pytest.mark.parametrize("strategy", ["random", "pct"])
@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_holds_under_thousands(name: str, strategy: str) -> None:
    """Under ten thousand others."""
    report = checked(PROPERTIES[name], LONG, strategy, seed=1)
    assert report.verdict in ("proved", f"explored {LONG}"), report
