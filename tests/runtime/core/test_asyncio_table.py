"""The tables of docs/streams.md for users of asyncio: each line of them is a program here."""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
import selectors
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import CommandCancelled
from tests.every import every
from tests.runtime.hosts import board
from tests.runtime.latch import KernelLatch, hold

PAGE = Path(__file__).parents[3] / "docs" / "streams.md"
Program = Callable[[atops.Device], Awaitable[None]]
PROGRAMS: dict[str, Program] = {}
ASKS: dict[str, Program] = {}
PLACE: ContextVar[str] = ContextVar("place", default="none")


def line(left: str) -> Callable[[Program], Program]:
    """Make a program that of the line whose left side begins so."""

    def enter(program: Program) -> Program:
        PROGRAMS[left] = program
        return program

    return enter


def ask(left: str) -> Callable[[Program], Program]:
    """Make a program that of the line of the second table whose left side begins so."""

    def enter(program: Program) -> Program:
        ASKS[left] = program
        return program

    return enter


def two(device: atops.Device) -> tuple[atops.Completion, atops.Event]:
    """A command with the result 7, and an event behind it."""
    stream = device.create_stream()
    return stream.call(lambda: 7), stream.record()


@line("await future")
async def _await(device: atops.Device) -> None:
    completion, event = two(device)
    assert await completion == 7 and await event is None


@line("queue.put_nowait(job)")
async def _put(device: atops.Device) -> None:
    @k.kernel
    def nothing() -> None:
        """Do nothing."""

    stream = device.create_stream()
    for each in (stream.call(int), stream.launch(nothing, (1, 1))):
        assert isinstance(each, atops.Completion)
        await each


@line("await queue.join()")
async def _join(device: atops.Device) -> None:
    stream = device.create_stream()
    call = stream.call(lambda: 1 / 0)
    for wait in (stream.join(), stream):
        with pytest.raises(atops.errors.HostCallFailure):
            await wait
    assert call.done()
    stream.clear_error()


@line("queue.qsize()")
async def _count(device: atops.Device) -> None:
    stream = device.create_stream(capacity=2)
    latch = hold(stream)
    assert (stream.qsize(), stream.full(), stream.is_done) == (1, False, False)
    stream.call(int)
    assert (stream.qsize(), stream.full()) == (2, True)
    latch.release()
    await stream.join()
    assert (stream.qsize(), stream.full(), stream.is_done) == (0, False, True)


@line("except asyncio.QueueFull")
async def _queue_full(device: atops.Device) -> None:
    stream = device.create_stream(capacity=1)
    latch = hold(stream)
    with pytest.raises(asyncio.QueueFull) as caught:
        stream.call(int)
    assert isinstance(caught.value, atops.errors.StreamFull)
    latch.release()
    await stream


@line("asyncio.create_task(work())")
async def _task_in_order(device: atops.Device) -> None:
    stream, log = device.create_stream(), list[str]()

    async def work(name: str) -> str:
        await asyncio.sleep(0)
        log.append(name)
        return name

    tasks = [stream.create_task(work("first")), stream.create_task(work("second"), name="last")]
    stream.call(log.append, "after")
    assert await asyncio.gather(*tasks) == ["first", "second"] and tasks[1].get_name() == "last"
    await stream
    assert log == ["first", "second", "after"]


@line("future.done()")
async def _ask(device: atops.Device) -> None:
    completion, event = two(device)
    await event
    assert completion.done() and event.done() and completion.is_done and event.is_done
    assert completion.result() == 7 and completion.exception() is None and event.result() is None


@line("future.add_done_callback(function)")
async def _call_back(device: atops.Device) -> None:
    stream, seen = device.create_stream(), list[object]()
    latch = hold(stream)
    completion, here = stream.call(lambda: 7), threading.get_ident()
    completion.add_done_callback(lambda done: seen.append((done.result(), threading.get_ident() == here)))
    latch.release()
    await completion
    assert seen == [(7, True)]


@line("future.remove_done_callback(function)")
async def _remove(device: atops.Device) -> None:
    stream, seen = device.create_stream(), list[object]()
    latch = hold(stream)
    completion = stream.call(lambda: 7)
    completion.add_done_callback(seen.append)
    assert completion.remove_done_callback(seen.append) == 1
    latch.release()
    await completion
    assert not seen


@line("future.cancel()")
async def _cancel(device: atops.Device) -> None:
    stream = device.create_stream()
    latch = hold(stream)
    completion = stream.call(lambda: 7)
    assert completion.cancel("no") and completion.cancelled()
    with pytest.raises(CommandCancelled):
        await completion
    latch.release()
    await stream


@line("await asyncio.wait({future, ...})")
async def _wait(device: atops.Device) -> None:
    things = set(two(device))
    done, pending = await asyncio.wait(things)
    assert done == things and not pending


@line("asyncio.as_completed([future, ...])")
async def _as_completed(device: atops.Device) -> None:
    results = [await each for each in asyncio.as_completed(list(two(device)))]
    assert sorted(results, key=str) == [7, None]


@line("await asyncio.gather(future, ...)")
async def _gather(device: atops.Device) -> None:
    assert await asyncio.gather(*two(device)) == [7, None]


@line("await asyncio.wait_for(future, 1)")
async def _wait_for(device: atops.Device) -> None:
    stream = device.create_stream()
    latch = hold(stream)
    completion = stream.call(lambda: 7)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(completion, 0.001)
    latch.release()
    assert await asyncio.wait_for(completion, 60) == 7


@line("async with asyncio.timeout(1): ...")
async def _timeout(device: atops.Device) -> None:
    stream = device.create_stream()
    latch = hold(stream)
    completion = stream.call(lambda: 7)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await completion
    latch.release()
    assert await completion == 7


@line("await asyncio.shield(future)")
async def _shield(device: atops.Device) -> None:
    stream = device.create_stream()
    latch = hold(stream)
    completion = stream.call(lambda: 7)
    task = asyncio.create_task(completion.wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    latch.release()
    assert await completion == 7


@line("asyncio.create_task(coroutine())")
async def _create_task(device: atops.Device) -> None:
    completion, event = two(device)
    assert await asyncio.create_task(completion.wait()) == await asyncio.ensure_future(completion) == 7
    await asyncio.create_task(event.wait())


@line("group.create_task(coroutine())")
async def _group(device: atops.Device) -> None:
    completion, event = two(device)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(completion.wait()), group.create_task(event.wait())]
    assert [task.result() for task in tasks] == [7, None]


@line("asyncio.wrap_future(future)")
async def _wrap(device: atops.Device) -> None:
    completion, event = two(device)
    assert await asyncio.wrap_future(completion) == 7 and await asyncio.wrap_future(event) is None


@line("future.result(2)")
async def _result(device: atops.Device) -> None:
    completion, event = two(device)
    assert await asyncio.to_thread(completion.result, 20) == 7 and await asyncio.to_thread(event.result, 20) is None
    assert completion.exception(timeout=2) is event.exception(2) is None


@line("concurrent.futures.wait([future, ...])")
async def _threads(device: atops.Device) -> None:
    things = set(two(device))
    done, pending = await asyncio.to_thread(concurrent.futures.wait, things, 20)
    assert done == things and not pending
    assert set(await asyncio.to_thread(lambda: [*concurrent.futures.as_completed(things)])) == things


@line("await future; work()")
async def _wait_for_outside(device: atops.Device) -> None:
    stream, log = device.create_stream(), list[str]()
    future, event = asyncio.get_running_loop().create_future(), asyncio.Event()
    threads = concurrent.futures.Future[None]()
    for each in (future, asyncio.create_task(event.wait()), event.wait(), threads):
        stream.wait(each)
    after = stream.call(log.append, "after")
    future.set_result(None)
    event.set()
    await asyncio.sleep(0)
    assert not log
    threads.set_result(None)
    await after
    assert log == ["after"]


@line("event.set()")
async def _event(device: atops.Device) -> None:
    stream, event = device.create_stream(), device.create_event()
    stream.record(event)
    await event
    assert event.is_done


@line("task.cancel()")
async def _cancel_running(device: atops.Device) -> None:
    stream, latch, begun = device.create_stream(), KernelLatch(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await asyncio.sleep(3600)

    call = stream.call(work)
    await begun.wait()
    launch = latch.hold(stream)
    assert call.cancel()
    assert await asyncio.to_thread(latch.started.wait, 10)
    assert launch.cancel()
    for each in (call, launch):
        with pytest.raises(CommandCancelled):
            await each


@ask("to await a stream")
async def _await_a_stream(device: atops.Device) -> None:
    stream, turns = device.create_stream(), list[int]()
    latch = hold(stream)
    task = asyncio.create_task(stream.join())
    for turn in range(3):
        await asyncio.sleep(0)
        turns.append(turn)
    assert not task.done()
    latch.release()
    assert await stream is stream and await task is None


@ask("asyncio's futures")
async def _futures_for_callbacks(device: atops.Device) -> None:
    stream, future = device.create_stream(), asyncio.get_running_loop().create_future()
    completion = stream.fetch(stream.upload(np.arange(3)))
    completion.add_done_callback(lambda done: future.set_result(done.result()))
    assert (await future).tolist() == (await asyncio.wrap_future(completion)).tolist() == [0, 1, 2]


@ask("a scheduler with a seed")
async def _seeds(device: atops.Device) -> None:
    async def race() -> list[int]:
        order = list[int]()
        streams = [atops.Device(0).create_stream() for _ in range(4)]
        for turn in range(16):
            streams[turn % 4].call(order.append, turn)
        for stream in streams:
            await stream
        return order

    def replay(seed: int) -> list[int]:
        return atops.run(race, atops.EmulatorOptions(seed=seed))

    first, again, *others = await asyncio.to_thread(lambda: [replay(seed) for seed in (7, 7, 8, 9, 10)])
    assert first == again and any(order != first for order in others)


@ask("an error with the fault")
async def _faults(device: atops.Device) -> None:
    @k.kernel
    def broken() -> None:
        raise ValueError("on purpose")

    stream, other = device.create_stream(), device.create_stream()
    fine, launch, later = other.call(int), stream.launch(broken, (1, 1)), stream.call(int)
    with pytest.raises(atops.errors.LaunchFailure) as caught:
        await launch
    assert isinstance(caught.value.__cause__, ValueError) and caught.value.block == caught.value.thread == (0, 0, 0)
    with pytest.raises(atops.errors.PriorLaunchFailure, match="on purpose"):
        await later
    assert await fine == 0


@ask("to wait for a record")
async def _wait_before_record(device: atops.Device) -> None:
    early, late, log = device.create_stream(), device.create_stream(), list[str]()
    recorded, word = asyncio.get_running_loop().create_future(), late.zeros(1, np.uint32)
    await late
    early.wait(recorded)
    early.wait_value(word, 1)
    after = early.call(log.append, "after")
    late.call(log.append, "before")
    late.record().add_done_callback(recorded.set_result)
    late.write_value(word, 1)
    await after
    assert log == ["before", "after"]


@ask("waits that are no busy loop")
async def _no_busy_loop(device: atops.Device) -> None:
    stream, future, asked = device.create_stream(), concurrent.futures.Future[None](), list[float | None]()
    stream.wait(future)
    loop: Any = asyncio.get_running_loop()
    selector: selectors.BaseSelector = loop._selector
    select = selector.select

    def asking(timeout: float | None = None) -> Any:
        asked.append(timeout)
        if timeout is None and asked.count(None) == 1:  # the loop is about to sleep: what it sleeps for comes now
            threading.Thread(target=future.set_result, args=(None,)).start()
        return select(timeout)

    selector.select = asking  # type: ignore[method-assign]
    try:
        await stream
    finally:
        del selector.select
    assert set(asked) <= {None, 0} and 1 <= len(asked) < 10


@ask("context variables in callbacks")
async def _context(device: atops.Device) -> None:
    stream, seen = device.create_stream(), dict[str, str]()

    def look(name: str) -> None:
        seen[name] = PLACE.get()

    async def coroutine() -> None:
        look("coroutine")

    @k.kernel
    def kernel() -> None:
        look("kernel")

    PLACE.set("inside")
    latch = hold(stream)
    stream.call(look, "call")
    stream.create_task(coroutine())
    stream.launch(kernel, (1, 1)).add_done_callback(lambda _: look("done callback"))
    PLACE.set("outside")
    latch.release()
    await stream
    await asyncio.sleep(0)
    assert seen == dict.fromkeys(("call", "coroutine", "kernel", "done callback"), "inside")


@ask("no deadlock of a callback")
async def _no_gil(device: atops.Device) -> None:
    streams, log = [device.create_stream() for _ in range(4)], list[str]()

    def block() -> None:
        for stream in streams:
            stream.sync(60)

    def work() -> None:
        log.append(threading.current_thread().name)

    for stream in streams:
        stream.call(work)
    await asyncio.gather(*(asyncio.to_thread(block) for _ in range(4)))
    assert len(log) == 4


@ask("a cancellation that never frees early")
async def _never_early(device: atops.Device) -> None:
    stream, other, latch = device.create_stream(), device.create_stream(), KernelLatch()
    sink, addresses = device.empty(64, np.uint8), list[int]()
    entered = asyncio.Event()

    async def use() -> None:
        async with stream.upload(np.full(64, 7, np.uint8)) as array:
            addresses.append(array.address)
            latch.hold(stream)
            copied = stream.copy(sink, array)
            entered.set()
            await copied

    task = asyncio.create_task(use())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert other.empty(64, np.uint8).address not in addresses
    latch.release()
    assert (await stream.fetch(sink)).tolist() == [7] * 64


def lefts_of(header: str) -> list[str]:
    """The left sides of a table of the page."""
    table = PAGE.read_text(encoding="utf-8").split(header)[1].split("\n\n")[0]
    return [each.split("|")[1].strip() for each in table.splitlines()[2:]]


def test_each_line_that_was_asked_for_is_a_program() -> None:
    """The left sides are those of the programs here, in order."""
    lefts = lefts_of("| asked for | here |")
    assert len(lefts) == len(ASKS) and all(map(str.startswith, lefts, ASKS))


def test_each_line_of_the_table_is_a_program() -> None:
    """The left sides are those of the programs here, in order."""
    table = PAGE.read_text(encoding="utf-8").split("| an asyncio user writes | here |")[1].split("\n\n")[0]
    lefts = [match[1] for each in table.splitlines()[2:] if (match := re.match(r"\| `([^`]+)`", each))]
    assert lefts == list(PROGRAMS)


@every("left", [*PROGRAMS, *ASKS])
def test_a_line_of_the_table(left: str) -> None:
    """It does what the line says."""
    with board() as device:

        async def main() -> Any:
            await (PROGRAMS | ASKS)[left](device)

        asyncio.run(main())
