"""Tasks that wait for each other by asyncio's own means, in one run with the detectors, beside programs that end."""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import numpy as np
import pytest
import trio

import atops
from atops.base.errors import HostCallFailure, WouldDeadlock

Program = Callable[[bool], Coroutine[object, None, None]]


async def lock_order(bad: bool) -> None:
    one, two = asyncio.Lock(), asyncio.Lock()

    async def hold(first: asyncio.Lock, second: asyncio.Lock) -> None:
        async with first:
            await asyncio.sleep(0)
            async with second:
                pass

    await asyncio.gather(hold(one, two), hold(two, one) if bad else hold(one, two))


async def lost_wake_up(bad: bool) -> None:
    condition, ready = asyncio.Condition(), list[int]()

    async def consume() -> None:
        async with condition:
            await (condition.wait() if bad else condition.wait_for(lambda: ready))

    async def produce() -> None:
        async with condition:
            ready.append(1)
            condition.notify()

    await asyncio.gather(produce(), consume())


async def cancelled_holder(bad: bool) -> None:
    free = asyncio.Event()
    free.set()
    async with atops.Device(0).create_stream() as stream:

        async def use() -> None:
            await free.wait()
            free.clear()
            try:
                await stream.fetch(stream.zeros(16))
            finally:
                if not bad or (task := asyncio.current_task()) is None or not task.cancelling():
                    free.set()

        task = asyncio.ensure_future(use())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        await use()


async def semaphore_kept(bad: bool) -> None:
    places = asyncio.Semaphore(1)

    async def job() -> None:
        await places.acquire()
        await asyncio.sleep(0)
        if not bad:
            places.release()

    await asyncio.gather(job(), job())


PROGRAMS = {  # what a task waits in, and what the advice speaks of
    lock_order: ("Lock.aenter", "locks in one order"), lost_wake_up: ("Condition.wait", "`wait_for`"),
    cancelled_holder: ("Event.wait", "set the event"), semaphore_kept: ("Semaphore.acquire", "release a semaphore"),
}  # fmt: skip


@pytest.mark.parametrize("schedule", [None, "plain"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_deadlock_of_tasks_is_named(
    program: Program, schedule: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The bug ends its run, with the lines of the tasks and what they wait in; its twin is clean."""
    monkeypatch.setattr("threading.active_count", lambda: 1)  # those that the tests' runner may have are not the run's
    options = atops.EmulatorOptions(detect=True, schedule=schedule)
    with pytest.raises(WouldDeadlock, match=r"waits at test_task_deadlocks\.py"):
        atops.run(program, options, True)
    [race] = atops.report().races
    assert race.kind == "deadlock" and race.first.site is not None
    waits, advice = PROGRAMS[program]
    assert waits in race.first.what and advice in race.advice
    atops.run(program, options, False)
    assert atops.report().verdict == "clean"


def test_deadlock_of_tasks_of_trio_is_named() -> None:
    """Under a schedule, which knows them."""
    ready = trio.Event()

    async def program() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ready.wait)

    with pytest.raises(WouldDeadlock, match=r"waits at test_task_deadlocks\.py"):
        atops.run(program, atops.EmulatorOptions(detect=True, schedule="plain"), backend="trio")
    [race] = atops.report().races
    assert race.kind == "deadlock" and race.first.actor == "the program"


def test_tasks_of_trio_are_called_by_their_functions() -> None:
    """By the last part of the names that trio has for them, which begin with their modules."""
    doors = trio.Event(), trio.Event()

    async def first() -> None:
        await doors[1].wait()
        doors[0].set()

    async def second() -> None:
        await doors[0].wait()
        doors[1].set()

    async def program() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            nursery.start_soon(second)

    with pytest.raises(WouldDeadlock):
        atops.run(program, atops.EmulatorOptions(detect=True, schedule="plain"), backend="trio")
    [race] = atops.report().races
    assert [race.first.actor, race.second.actor] == ["task first", "task second"]


def test_tasks_are_called_by_the_names_that_they_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the line is the innermost of the program, also in an async generator and a context manager made of one."""
    monkeypatch.setattr("threading.active_count", lambda: 1)  # as above
    door = asyncio.Event()

    @asynccontextmanager
    async def slot() -> AsyncIterator[None]:
        await door.wait()  # here
        yield

    async def chunks() -> AsyncIterator[int]:
        await door.wait()  # here
        yield 1

    async def enter() -> None:
        async with slot():
            pass

    async def read() -> None:
        async for _ in chunks():
            pass

    async def program() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(enter(), name="left")
            group.create_task(read(), name="right")

    with pytest.raises(WouldDeadlock):
        atops.run(program, atops.EmulatorOptions(detect=True))
    [race] = atops.report().races
    lines, start = inspect.getsourcelines(test_tasks_are_called_by_the_names_that_they_were_given)
    here = [at for at, line in enumerate(lines, start) if line.endswith("# here\n")]
    sides = race.first, race.second
    assert [each.actor for each in sides] == ["task left", "task right"]
    assert [each.site.line for each in sides if each.site] == here
    assert all("Event.wait" in each.what for each in sides)


async def too_few_for_a_barrier() -> None:
    await asyncio.Barrier(2).wait()


async def item_never_done() -> None:
    items = asyncio.Queue[int]()
    items.put_nowait(1)
    await items.get()
    await items.join()


async def future_never_set() -> None:
    await asyncio.get_running_loop().create_future()


async def item_never_put() -> None:
    await asyncio.Queue[int]().get()


async def signal_never_written() -> None:
    signals = atops.Device(0).signals
    await signals.wait(signals.allocate(), 1)


async def room_in_a_room() -> None:
    async with atops.Device(0).create_stream(capacity=1) as stream, stream.room(1), stream.room(1):
        pass


ADVICE = {
    too_few_for_a_barrier: "as many tasks", item_never_done: "task_done", future_never_set: "each future",
    item_never_put: "put an item", signal_never_written: "write the signal", room_in_a_room: "ask once",
}  # fmt: skip


@pytest.mark.parametrize("program", ADVICE)
def test_advice_is_of_what_the_tasks_wait_in(
    program: Callable[[], Coroutine[Any, Any, None]], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Locks are advised where there are some."""
    monkeypatch.setattr("threading.active_count", lambda: 1)  # as above
    with pytest.raises(WouldDeadlock):
        atops.run(program, atops.EmulatorOptions(detect=True))
    [race] = atops.report().races
    assert ADVICE[program] in race.advice and "locks" not in race.advice


@asynccontextmanager
async def both(one: asyncio.Lock, two: asyncio.Lock) -> AsyncIterator[None]:
    async with one:  # taken
        await asyncio.sleep(0)
        async with two:  # waits
            yield


async def nested_blocks() -> None:
    one, two = asyncio.Lock(), asyncio.Lock()
    async with asyncio.TaskGroup() as group:
        group.create_task(use(both(one, two)), name="left")
        group.create_task(use(both(two, one)), name="right")


async def use(places: AbstractAsyncContextManager[object]) -> None:
    async with places:
        pass


async def held_by_a_context_manager() -> None:
    """The one holds both, in a generator that is not run, and waits for what the other one is to set in its block."""
    one, told = asyncio.Lock(), asyncio.Event()

    async def hold() -> None:
        with suppress(KeyError):
            async with both(one, asyncio.Lock()):
                with suppress(ValueError):
                    await told.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(hold(), name="left")
        await asyncio.sleep(0)
        async with one:  # waits
            told.set()


HELD = {
    nested_blocks: ("left waits at {waits} for what right took at {taken}",
                    "right waits at {waits} for what left took at {taken}"),
    held_by_a_context_manager: ("the program waits at {waits} for what left took at {taken}",),
}  # fmt: skip


@pytest.mark.parametrize("program", HELD)
def test_who_holds_what_is_waited_for(
    program: Callable[[], Coroutine[Any, Any, None]], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The task that stands in a block of it, and where that begins; who only waits to enter one does not hold it."""
    monkeypatch.setattr("threading.active_count", lambda: 1)  # as above
    lines = {}
    for function in both, program:
        source, start = inspect.getsourcelines(function)
        for at, line in enumerate(source, start):
            if (mark := line.partition("# ")[2].strip()) in ("waits", "taken"):
                lines[mark] = f"test_task_deadlocks.py:{at}"
    with pytest.raises(WouldDeadlock) as caught:
        atops.run(program, atops.EmulatorOptions(detect=True))
    for told in HELD[program]:
        assert told.format(**lines) in str(caught.value)
    text = str(atops.report())
    assert text.count(f"took at {lines['taken']}") == len(HELD[program]) == text.count(" took at ")


def test_a_thread_may_end_the_wait() -> None:
    """A task that waits for a thread is no deadlock."""

    async def main() -> int:
        return await asyncio.get_running_loop().run_in_executor(None, sum, (1, 2))

    assert atops.run(main, atops.EmulatorOptions(detect=True)) == 3


@pytest.fixture(name="ours")
def _ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the threads of the tests' runner, which read files."""
    every, theirs = threading.enumerate, frozenset(threading.enumerate()) - {threading.main_thread()}
    monkeypatch.setattr(threading, "enumerate", lambda: [each for each in every() if each not in theirs])


async def pool_without_work() -> None:
    await asyncio.to_thread(sum, (1, 2))


async def threads_that_wait() -> None:
    waits = threading.Thread(target=queue.Queue[int]().get, daemon=True)
    waits.start()
    threading.Thread(target=waits.join, daemon=True).start()


async def driver_without_work() -> None:
    stream = atops.Device(0, atops.Driver()).create_stream()
    await stream.fill(stream.zeros(4), 1)


@pytest.mark.parametrize("begin", [pool_without_work, threads_that_wait, driver_without_work])
@pytest.mark.usefixtures("ours")
def test_threads_at_rest_end_no_wait(begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Idle ones of a pool or of a driver, and those that wait for others."""

    async def main() -> None:
        await begin()
        await lock_order(True)

    with pytest.raises(WouldDeadlock):
        atops.run(main, atops.EmulatorOptions(detect=True))
    assert [race.kind for race in atops.report().races] == ["deadlock"]


@pytest.mark.slow
@pytest.mark.usefixtures("ours")
def test_a_thread_that_acts_later_ends_a_wait() -> None:
    """It sleeps at first, or works for a driver of its own."""

    async def main() -> int:
        loop = asyncio.get_running_loop()
        told = loop.create_future()
        threading.Timer(0.3, loop.call_soon_threadsafe, (told.set_result, 3)).start()
        stream = atops.Device(0, atops.Driver()).create_stream()
        await stream.call(time.sleep, 0.3)
        return int(await told)

    assert atops.run(main, atops.EmulatorOptions(detect=True)) == 3


async def step_behind_its_setter(device: atops.Device) -> None:
    """A coroutine in a stream waits for a task that waits for that stream."""
    ready = asyncio.Event()
    async with device.create_stream(name="work") as work:

        async def step() -> None:
            await ready.wait()  # here

        async def setter() -> None:
            await work.fill(device.zeros(2, np.int32), 1)  # here
            ready.set()

        work.call(step)
        await asyncio.create_task(setter())  # here


async def two_steps(device: atops.Device) -> None:
    """Each awaits the other one's call."""
    calls: list[atops.Completion[None]] = []
    async with device.create_stream(name="one") as one, device.create_stream(name="two") as two:

        async def first() -> None:
            await calls[1]  # here

        async def second() -> None:
            await calls[0]  # here

        calls += [one.call(first), two.call(second)]
        await two


@pytest.mark.parametrize("program", [step_behind_its_setter, two_steps])
def test_deadlock_through_a_stream_names_the_line_of_each_await(
    program: Callable[[atops.Device], Coroutine[Any, Any, None]], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Of the coroutine in the stream, of the tasks that wait, and of the program."""
    monkeypatch.setattr("threading.active_count", lambda: 1)  # as above

    async def main() -> None:
        await program(atops.Device(0))

    with pytest.raises((WouldDeadlock, HostCallFailure)):
        atops.run(main, atops.EmulatorOptions(detect=True))
    [race] = atops.report().races
    lines, start = inspect.getsourcelines(program)
    for at, line in enumerate(lines, start):
        assert ("# here" not in line) or f"test_task_deadlocks.py:{at}" in str(race), line
    assert "HostTask" not in str(race)
