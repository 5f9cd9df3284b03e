"""Everything that can be awaited, and everything that can end the wait, at each turn of each kind of loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

import anyio
import numpy as np
import pytest
import trio
from anyio.lowlevel import checkpoint

import atops
from atops import tops
from atops.base.errors import AtopsError
from atops.runtime.driver import Driver, board_of
from atops.runtime.stream import queue_of
from atops.tops import aio
from tests.every import every
from tests.loop_guard import no_blocking_on_loops
from tests.runtime.boards import PATIENCE, abandon_an_asyncio_loop, board, leftovers, settle, settled, waiters, works

OPENED = 8  # the turn in which what is waited for is let go, where nothing else ends the wait
TURNS = 40  # more than any wait takes inline


class Bench(NamedTuple):
    """What one wait is about: a stream that waits for a word, and what can be done to it."""

    device: atops.Device
    word: atops.Buffer
    stream: atops.Stream
    opener: atops.Stream
    signal: int
    faults: list[Exception]
    tasks: list[asyncio.Task[Any]]  # which wait, where asyncio runs

    @classmethod
    def of(cls, device: atops.Device) -> Bench:
        """Hold a stream that fails, once it goes on, with what is in `faults` by then."""
        word = device.allocate(4)
        word.allocation.data[:] = 0
        streams = device.create_stream(name="the stream"), device.create_stream(nonblocking=True, name="opener")
        bench = cls(device, word, *streams, device.signals.allocate(), [], [])
        bench.stream.wait_value(word, 1, "Eq")
        bench.stream.call(bench.raise_fault)
        return bench

    def release(self) -> None:
        """Let the stream go on, and set the signal."""
        self.opener.write_value(self.word, 1)
        self.device.signals.write(self.signal, 1)

    def close(self) -> None:
        """Give back what it has."""
        for each in (self.stream, self.opener):
            each.clear_error()
            each.close()
        self.word.close()
        self.device.signals.free(self.signal)

    def raise_fault(self) -> None:
        """Raise the fault, if there is one. In the stream."""
        if self.faults:
            raise self.faults[0]


Wait = Callable[[Bench], Awaitable[Any]]


# ---- what is awaited


async def completion(bench: Bench) -> None:
    """A command."""
    await bench.stream.fetch(bench.stream.zeros(30))


async def event(bench: Bench) -> None:
    """A record, by another task's name for it."""
    await bench.stream.record().wait()


async def stream(bench: Bench) -> None:
    """All of a stream."""
    bench.stream.zeros(30)
    await bench.stream


async def stream_scope(bench: Bench) -> None:
    """The exit of a stream's scope."""
    async with bench.stream as stream:
        stream.zeros(30)


async def null_stream(bench: Bench) -> None:
    """All blocking streams."""
    await bench.device.null_stream.call(int)


async def device(bench: Bench) -> None:
    """All of a device."""
    await bench.device.wait()


async def another_stream(bench: Bench) -> None:
    """A stream that waits for the stream, in a scope of its own."""
    async with bench.device.create_stream() as other:
        other.wait(bench.stream)
        await other.fetch(other.zeros(30))


async def room(bench: Bench) -> None:
    """A place in a full stream."""
    async with bench.device.create_stream(capacity=1) as full:
        full.wait_value(bench.word, 1, "Eq")
        async with full.room(1):
            full.call(int)
        full.abort()


async def buffer_scope(bench: Bench) -> None:
    """The scope of a buffer."""
    async with bench.stream.empty(30) as array:
        await bench.stream.fill(array, 1)


async def pool_scope(bench: Bench) -> None:
    """The scope of a pool."""
    async with bench.device.create_pool() as pool:
        array = bench.stream.empty(30, np.float32, pool)
        await bench.stream.fill(array, 1)


async def coroutine(bench: Bench) -> None:
    """A coroutine in stream order."""
    await bench.stream.call(checkpoint)


async def pipeline(bench: Bench) -> None:
    """A pipeline, its source asynchronous, its second chunk behind the stream."""

    async def chunks() -> AsyncIterator[Any]:
        for _ in range(3):
            await checkpoint()
            yield np.zeros(30)

    def stage(stream: Any, array: Any) -> Any:
        stream.wait(bench.stream)
        return array

    async with atops.pipeline(chunks(), stage, device=bench.device, streams=2, in_flight=2) as results:
        async for _ in results:
            pass


async def signal(bench: Bench) -> None:
    """A kernel signal."""
    await bench.device.signals.wait(bench.signal, 1)


async def c_stream(bench: Bench) -> None:
    """A C-style wait."""
    bench.stream.zeros(30)
    raise_code(await aio.topsStreamSynchronize(bench.stream.__tops_stream__()[1]))


async def c_event(bench: Bench) -> None:
    """A C-style wait for an event."""
    handle = tops.check(tops.topsEventCreate())
    try:
        tops.check(tops.topsEventRecord(handle, bench.stream.__tops_stream__()[1]))
        raise_code(await aio.topsEventSynchronize(handle))
    finally:
        tops.topsEventDestroy(handle)


async def in_gather(bench: Bench) -> None:
    """Several at once, through asyncio where it runs, else in a task group."""
    things = [bench.stream.call(int), bench.stream.record()]
    if is_asyncio():
        await asyncio.gather(*things)
        return
    async with anyio.create_task_group() as tasks:
        for each in things:
            tasks.start_soon(each.wait)


async def in_wait(bench: Bench) -> None:
    """As futures, where asyncio runs."""
    things = [bench.stream.call(int), bench.stream.record()]
    if is_asyncio():
        await asyncio.wait(things)
    for each in things:
        await each


async def in_asyncio(bench: Bench) -> None:
    """By each function of asyncio's in turn, where it runs."""
    things = [bench.stream.call(int), bench.stream.record(), bench.stream.fetch(bench.stream.zeros(30))]
    if is_asyncio():
        await asyncio.shield(things[0])
        await asyncio.wait_for(things[1], PATIENCE)
        await asyncio.wrap_future(things[2])
        for each in asyncio.as_completed(things):
            await each
    for each in things:
        await each


async def joined(bench: Bench) -> None:
    """All of a stream, and what it is given meanwhile."""
    bench.stream.zeros(30)
    await bench.stream.join()


async def synchronized(bench: Bench) -> None:
    """The end of a block that synchronises."""
    async with bench.stream.auto_synchronize():
        bench.stream.zeros(30)


async def of_the_program(bench: Bench) -> None:
    """A stream that waits for a coroutine of the program, which waits for the stream."""
    async with bench.device.create_stream() as other:
        await other.wait(bench.stream.call(int).wait())


async def task(bench: Bench) -> None:
    """A coroutine object in stream order, as a task."""
    await bench.stream.create_task(checkpoint())


async def inside(bench: Bench) -> None:
    """A coroutine in a stream, which itself waits for the stream, in a scope of its own."""

    async def waits() -> None:
        async with bench.device.create_stream() as third:
            third.wait(bench.stream)
            await third.fetch(third.zeros(30))

    async with bench.device.create_stream(nonblocking=True) as other:
        await other.call(waits)


async def upload(bench: Bench) -> None:
    """Memory of no stream, behind the stream."""
    await bench.stream.call(int)
    array = await bench.device.upload(np.zeros(30))
    array.close()


async def consumers(bench: Bench) -> None:
    """Two tasks that take from one pipeline."""

    def stage(stream: Any, array: Any) -> Any:
        stream.wait(bench.stream)
        return array

    async def take(results: Any) -> None:
        async for _ in results:
            await checkpoint()

    chunks = (np.zeros(30) for _ in range(4))
    made = atops.pipeline(chunks, stage, device=bench.device, streams=2, in_flight=2)
    async with made as results, anyio.create_task_group() as tasks:
        tasks.start_soon(take, results)
        tasks.start_soon(take, results)


async def c_device(bench: Bench) -> None:
    """A C-style wait for a device."""
    raise_code(await aio.topsDeviceSynchronize())


async def c_copy(bench: Bench) -> None:
    """A C-style copy that blocks, behind the stream in null-stream order."""
    raise_code(await aio.topsMemcpyDtoH(np.zeros(4, np.uint8), bench.word.address, 4))


async def c_word(bench: Bench) -> None:
    """A C-style wait for a word."""
    raise_code(await aio.topsStreamWaitValue32(bench.word.address, 1, tops.topsStreamWaitValueEq))


def current_task() -> asyncio.Task[Any]:
    """Return the task that runs."""
    task = asyncio.current_task()
    assert task is not None
    return task


def is_asyncio() -> bool:
    """Tell whether asyncio runs here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def raise_code(answer: tuple[Any, ...]) -> None:
    """Raise what a C-style call answers."""
    if answer[0] != tops.topsSuccess:
        raise tops.TopsError(*answer) if hasattr(tops, "TopsError") else RuntimeError(answer)


WAITS: tuple[Wait, ...] = (
    completion, event, stream, stream_scope, null_stream, device, another_stream, room, buffer_scope, pool_scope,
    coroutine, pipeline, signal, c_stream, c_event, in_gather, in_wait, in_asyncio, joined, synchronized,
    of_the_program, task, inside, upload, consumers, c_device, c_copy, c_word,
)  # fmt: skip
UNTOLD = (room, signal, null_stream, stream_scope, c_copy, c_word)  # wait for something else, or log the failure


# ---- what ends the wait


class Stop(Exception):
    """Raised in a sibling."""


def cancel(bench: Bench, scope: anyio.CancelScope) -> None:
    """Cancel the task."""
    scope.cancel()


def cancel_the_task(bench: Bench, scope: anyio.CancelScope) -> None:
    """Cancel the task, once, as asyncio does it."""
    for each in bench.tasks or [scope]:
        each.cancel()


def cancel_the_task_twice(bench: Bench, scope: anyio.CancelScope) -> None:
    """Cancel it again before it has heard of the first time."""
    for each in 2 * (bench.tasks or [scope]):
        each.cancel()


def time_out(bench: Bench, scope: anyio.CancelScope) -> None:
    """Let its time be over."""
    scope.deadline = -math.inf


def fail(bench: Bench, scope: anyio.CancelScope) -> None:
    """Let the stream fail."""
    bench.faults.append(ZeroDivisionError("on purpose"))
    bench.release()


def abort(bench: Bench, scope: anyio.CancelScope) -> None:
    """Drop the work."""
    bench.stream.abort()


def cancel_the_command(bench: Bench, scope: anyio.CancelScope) -> None:
    """Cancel what is waited for, and what it stands behind."""
    for item in reversed(queue_of(bench.stream).pending()):
        item.cancel()


def leave(bench: Bench, scope: anyio.CancelScope) -> None:
    """Leave the scope around the wait by an exception."""
    raise Stop


ACTS = (cancel, cancel_the_task, cancel_the_task_twice, time_out, fail, abort, cancel_the_command, leave)


async def one(bench: Bench, wait: Wait, act: Any, twice: bool, turn: int) -> tuple[bool, list[BaseException]]:
    """Wait, and act in a turn of the loop. Returns whether it was over before, and what the wait ended with."""
    over, told = False, list[BaseException]()
    scope = anyio.CancelScope()

    async def run() -> None:
        nonlocal over
        if is_asyncio():
            bench.tasks.append(current_task())
        with scope:
            try:
                await wait(bench)
            except Exception as error:
                told.append(error)
        over = True

    before = False
    with contextlib.suppress(BaseExceptionGroup), anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            for now in range(turn):
                await checkpoint()
                if now == OPENED:
                    bench.release()
            before = over
            act(bench, scope)
            with anyio.CancelScope(shield=True):
                await checkpoint()
            if twice:
                tasks.cancel_scope.cancel()
            bench.release()
    bench.release()
    return before, told


async def enumerate_turns(driver: Driver, wait: Wait, act: Any, twice: bool, limit: int) -> None:
    """Act after 0, 1, 2, ... turns, until the wait is over before; after each the board is empty."""
    device = atops.Device(0, driver)
    for turn in range(limit):
        bench = Bench.of(device)
        with contextlib.nullcontext() if driver.inline else no_blocking_on_loops():
            before, told = await one(bench, wait, act, twice, turn)
        with anyio.CancelScope(shield=True):
            await settled(driver)
        assert waiters(driver) == 0, f"a waiter is left, turn {turn}"
        if act is fail and queue_of(bench.stream).failure is not None and not before and not twice:
            assert told or wait in UNTOLD, f"the failure was lost, turn {turn}"
        assert not (before and told), f"it failed by itself, turn {turn}"
        assert all(isinstance(each, AtopsError | RuntimeError) for each in flat(told)), (turn, told)
        bench.close()
        with anyio.CancelScope(shield=True):
            await settled(driver)
        assert leftovers(driver) == {}, f"turn {turn}"
        if before:
            return
    assert not driver.inline, "it never came to its end"


def flat(errors: list[BaseException]) -> list[BaseException]:
    """Return the errors in groups, too."""
    groups = [error for error in errors if isinstance(error, BaseExceptionGroup)]
    return [*(set(errors) - set(groups)), *(each for group in groups for each in flat(list(group.exceptions)))]


# ---- the loops


def on_asyncio(program: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Asyncio as it comes."""
    asyncio.run(program())


def on_uvloop(program: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Another loop for asyncio."""
    with asyncio.Runner(loop_factory=uvloop_loop) as runner:
        runner.run(program())


def uvloop_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop's, which is loaded now."""
    import uvloop

    return uvloop.new_event_loop()


def on_eager_tasks(program: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Tasks that begin where they are made, which Python has from 3.12 on."""

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        await program()

    asyncio.run(main())


def on_trio(program: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Trio."""
    trio.run(program)


THREADED = (on_asyncio, on_eager_tasks, on_trio) if sys.version_info >= (3, 12) else (on_asyncio, on_trio)
if os.environ.get("ATOPS_ON_UVLOOP"):
    THREADED = (on_uvloop,)


@pytest.mark.slow
@pytest.mark.parametrize("twice", [False, True], ids=["once", "then cancelled"])
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("loop", THREADED, ids=lambda loop: loop.__name__)
def test_every_end_of_every_wait_on_loops(loop: Any, act: Any, twice: bool) -> None:
    """Nothing is used after it is freed, no failure is lost, nothing is left and nothing blocks the loop."""
    with board(devices=1) as driver:
        for wait in WAITS:

            async def main(wait: Wait = wait) -> None:
                with atops.Device(0, driver):
                    await enumerate_turns(driver, wait, act, twice, OPENED + 3)

            loop(main)
        assert works(driver)


@pytest.mark.parametrize("seed", [
    pytest.param(seed, marks=pytest.mark.slow if seed is None else pytest.mark.soak) for seed in (None, *range(3, 13))
])  # fmt: skip
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@every("wait", WAITS, ids=lambda wait: wait.__name__)
def test_every_end_of_every_wait_inline(wait: Wait, act: Any, seed: int | None) -> None:
    """Under `atops.run`, where turns are exact, up to the end of the wait."""

    async def main() -> None:
        driver = atops.current_driver()
        await enumerate_turns(driver, wait, act, False, TURNS)
        assert works(driver)

    atops.run(main, atops.EmulatorOptions(devices=1, seed=seed, trace=0))


@pytest.mark.slow
@pytest.mark.parametrize("loop", THREADED, ids=lambda loop: loop.__name__)
def test_a_loop_that_closes_in_every_wait(loop: Any) -> None:
    """The program ends while a task waits: the work goes on, and the board is empty afterwards."""
    with board(devices=1) as driver:
        device = atops.Device(0, driver)
        for wait in WAITS:
            for turns in range(6):
                bench = Bench.of(device)

                async def main(wait: Wait = wait, bench: Bench = bench, turns: int = turns) -> None:
                    with device:
                        async with anyio.create_task_group() as tasks:
                            tasks.start_soon(wait, bench)
                            for _ in range(turns):
                                await checkpoint()
                            raise Stop

                with contextlib.suppress(BaseExceptionGroup):
                    loop(main)
                bench.release()
                board_of(driver).wait_all(device.outstanding(), PATIENCE)
                bench.close()
                assert leftovers(driver) == {}, (wait, turns)
        assert works(driver)


@pytest.mark.slow
@pytest.mark.parametrize("loop", THREADED[:1], ids=lambda loop: loop.__name__)  # trio has no such end
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # tasks that had not begun
def test_a_loop_that_is_closed_under_every_wait(loop: Any) -> None:
    """Nothing is cancelled, no `finally` of the program runs on its loop: the board is empty all the same."""
    made = uvloop_loop if loop is on_uvloop else asyncio.new_event_loop
    with board(devices=1) as driver:
        device = atops.Device(0, driver)
        for wait in WAITS:
            for turns in range(6):
                bench = Bench.of(device)
                with device:
                    abandon_an_asyncio_loop(partial(wait, bench), turns, made())
                gc.collect()  # the task, and what it alone had
                bench.release()
                board_of(driver).wait_all(device.outstanding(), PATIENCE)
                bench.close()
                settle(driver)
                assert leftovers(driver) == {}, (wait, turns)
        assert works(driver)


@pytest.mark.skipif("ATOPS_ON_UVLOOP" in os.environ, reason="this is the process of its own")
@pytest.mark.parametrize("which", [
    pytest.param("on_uvloop and not cancelled", marks=pytest.mark.slow, id="once"),
    pytest.param("on_uvloop and cancelled", marks=pytest.mark.soak, id="then cancelled"),
])  # fmt: skip
def test_uvloop_in_a_process_of_its_own(which: str) -> None:
    """The tests on loops hold on uvloop too; its C code stays out of the process that runs the other tests."""
    plugins = ("-p", "no:xdist", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-k", which, __file__]
    done = subprocess.run(command, env={**os.environ, "ATOPS_ON_UVLOOP": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
