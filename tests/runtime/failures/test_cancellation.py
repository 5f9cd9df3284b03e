"""Cancelling at any await: the wait ends, the board stays whole, and nothing that the task made is left behind."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import numpy as np
import pytest
from anyio.lowlevel import checkpoint

import atops
from atops import kernels as k
from atops.base.errors import StreamAborted
from atops.base.options import EmulatorOptions
from atops.runtime.device import Device
from atops.runtime.driver import Driver
from atops.runtime.pipeline import pipeline
from tests.runtime.boards import (
    PATIENCE,
    Latch,
    add_one,
    board,
    leftovers,
    settled,
    suspended_forever,
    works,
)

Work = Callable[[Device, Latch], Awaitable[Any]]

anyio_test = pytest.mark.anyio


async def await_a_completion(device: Device, latch: Latch) -> None:
    """Await the end of a copy that a closed latch holds up."""
    async with device.create_stream() as stream:
        array = stream.zeros(300)
        latch.hold(stream)
        await stream.fetch(array)


async def await_an_event(device: Device, latch: Latch) -> None:
    """Await the event of a stream that waits for another stream's event."""
    async with device.create_stream() as first, device.create_stream() as second:
        latch.hold(first)
        second.wait(first.record())
        await second.record()


async def await_a_stream(device: Device, latch: Latch) -> None:
    """Await everything that a stream has, a kernel before and after the latch."""
    async with device.create_stream() as stream:
        array = stream.zeros(24, "int32")
        stream.launch(add_one, (2, 12), array)
        latch.hold(stream)
        stream.launch(add_one, (2, 12), array)
        await stream


async def await_the_device(device: Device, latch: Latch) -> None:
    """Await all work of the device, that of other tasks too."""
    async with device.create_stream() as stream:
        latch.hold(stream)
        await device.wait()


async def await_room(device: Device, latch: Latch) -> None:
    """Await room in a stream that is full, twice at once."""
    async with device.create_stream(capacity=2) as stream, anyio.create_task_group() as tasks:
        latch.hold(stream)

        async def reserve(places: int) -> None:
            async with stream.room(places):
                await stream.record()

        tasks.start_soon(reserve, 2)
        tasks.start_soon(reserve, 1)


async def await_aclose(device: Device, latch: Latch) -> None:
    """Await the end of a stream that still has work and memory."""
    stream = device.create_stream()
    stream.fill(stream.empty(1000), 1)
    latch.hold(stream)
    stream.zeros(1000)
    await stream.aclose()


async def await_a_pipeline(device: Device, latch: Latch) -> None:
    """Consume a pipeline whose third chunk a latch holds up."""

    async def chunks() -> AsyncIterator[Any]:
        for number in range(6):
            await checkpoint()
            yield np.full(24, number, "int32")

    seen: list[int] = []

    def stage(stream: Any, array: Any) -> Any:
        seen.append(0)
        if len(seen) == 3:
            latch.hold(stream)
        stream.launch(add_one, (2, 12), array)
        return array

    async with pipeline(chunks(), stage, device=device, streams=2, in_flight=3) as results:
        async for _ in results:
            pass


async def await_a_host_coroutine(device: Device, latch: Latch) -> None:
    """Await a coroutine in stream order that awaits another stream."""
    async with device.create_stream() as stream, device.create_stream(nonblocking=True) as other:
        held = latch.hold(other)

        async def host() -> None:
            await held

        await stream.call(host)


async def await_a_kernel(device: Device, latch: Latch) -> None:
    """Await a kernel that only an abort ends, until the latch says so."""
    async with device.create_stream() as stream:
        stream.launch(suspended_forever, (1, 12))
        async with device.create_stream() as other:
            await latch.hold(other)
        stream.abort()


WAITS: tuple[Work, ...] = (
    await_a_completion,
    await_an_event,
    await_a_stream,
    await_room,
    await_aclose,
    await_a_pipeline,
    await_a_host_coroutine,
    await_a_kernel,
)


async def cancelled_after(turns: int, work: Callable[[], Awaitable[Any]]) -> bool:
    """Run `work`, and cancel it when the loop has turned so often. Returns whether it was over by then."""
    over = False

    async def run() -> None:
        nonlocal over
        await work()
        over = True

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            for _ in range(turns):
                await checkpoint()
            tasks.cancel_scope.cancel()
    return over


@pytest.mark.slow
@anyio_test
@pytest.mark.parametrize("wait", [*WAITS, await_the_device])
async def test_a_cancelled_wait_leaves_nothing(wait: Work) -> None:
    """Whatever is awaited, cancelling it after 1, 2, 3 ... turns of the loop leaves a board that is empty and works."""
    with board(abort_grace=PATIENCE) as driver:  # no kernel is given up because the machine is busy
        device = Device(0, driver)
        latch = Latch(device)
        for turns in range(1, 20):
            assert not await cancelled_after(turns, lambda: wait(device, latch))
            await settled(driver)
        latch.close()
        assert leftovers(driver) == {}
        assert works(driver)


@pytest.mark.slow
@pytest.mark.parametrize("wait", WAITS)
def test_cancelled_at_every_await(wait: Work) -> None:
    """Inline, where turns are exact: cancelling at every single one, up to the last, leaves nothing."""

    async def main() -> int:
        driver = atops.current_driver()
        device = Device(0)
        for turns in range(10_000):
            latch = Latch(device)

            async def opened(latch: Latch = latch) -> None:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(wait, device, latch)
                    for _ in range(25):
                        await checkpoint()
                    latch.open()

            over = await cancelled_after(turns, opened)
            await settled(driver)
            latch.close()
            assert leftovers(driver) == {}, f"cancelled after {turns} turns"
            if over:
                return turns
        raise AssertionError("it never came to its end")

    assert atops.run(main, EmulatorOptions(trace=0)) > 25


async def storm(driver: Driver, seed: int, tasks: int) -> None:
    """Start many tasks that wait for all sorts of things, and cancel each at a moment that the seed chooses."""
    choose = random.Random(seed)
    device = Device(0, driver)
    latch = Latch(device)

    async def one(wait: Work, turns: int) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(wait, device, latch)
            for _ in range(turns):
                await checkpoint()
            group.cancel_scope.cancel()

    with anyio.fail_after(2 * PATIENCE):
        async with anyio.create_task_group() as group:
            for _ in range(tasks):
                group.start_soon(one, choose.choice(WAITS), choose.randrange(60))
                if choose.random() < 0.2:
                    await checkpoint()
    await settled(driver)
    latch.close()


@pytest.mark.slow
@anyio_test
@pytest.mark.parametrize("seed", range(2))
async def test_a_storm_of_cancellations(seed: int) -> None:
    """Three hundred tasks, each cancelled at its own moment: afterwards the board is empty and works."""
    with board(devices=1, abort_grace=PATIENCE) as driver:  # no kernel is given up because the machine is busy
        await storm(driver, seed, 300)
        assert leftovers(driver) == {}
        assert works(driver)


@anyio_test
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
async def test_many_storms(seed: int) -> None:
    """Thirty more seeds, eight hundred tasks each."""
    with board(devices=1, abort_grace=PATIENCE) as driver:  # no kernel is given up because the machine is busy
        await storm(driver, seed, 800)
        assert leftovers(driver) == {}
        assert works(driver)


@anyio_test
async def test_cancelling_a_wait_leaves_the_work_alone() -> None:
    """Of two waiters of one copy one is cancelled: the copy still runs, and the other gets its result."""
    with board() as driver:
        device = Device(0, driver)
        latch = Latch(device)
        async with device.create_stream() as stream:
            array = stream.upload(np.arange(100))
            latch.hold(stream)
            fetched = stream.fetch(array)
            got: list[Any] = []

            async def wait() -> None:
                got.append(await fetched)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                assert not await cancelled_after(3, wait)
                latch.open()
            assert len(got) == 1
            assert (got[0] == np.arange(100)).all()
            assert (await fetched == np.arange(100)).all()


@anyio_test
async def test_a_cancelled_reservation_lets_the_next_one_in() -> None:
    """Rooms are given in order of arrival; one that gives up does not hold back those behind it."""
    with board() as driver:
        device = Device(0, driver)
        latch = Latch(device)
        async with device.create_stream(capacity=2) as stream:
            latch.hold(stream)
            entered = anyio.Event()

            async def small() -> None:
                async with stream.room(1):
                    entered.set()

            async with anyio.create_task_group() as tasks:
                async with anyio.create_task_group() as large:
                    large.start_soon(stream.room(2).__aenter__)
                    while not stream.statistics().waiting_for_room:
                        await checkpoint()
                    tasks.start_soon(small)
                    while stream.statistics().waiting_for_room < 2:
                        await checkpoint()
                    assert not entered.is_set()
                    large.cancel_scope.cancel()
                with anyio.fail_after(PATIENCE):
                    await entered.wait()
            assert stream.statistics().free == 1
            latch.open()
        assert stream.statistics().free == 2


@anyio_test
async def test_a_scope_left_by_an_exception_aborts() -> None:
    """Leaving `async with stream` by an error drops the work at once, ends waits for it with an error, frees memory."""
    with board() as driver:
        device = Device(0, driver)
        latch = Latch(device)
        with pytest.raises(ZeroDivisionError):
            async with device.create_stream() as stream:
                held = latch.hold(stream)
                fetched = stream.fetch(stream.zeros(10_000))
                raise ZeroDivisionError
        for completion in (held, fetched):
            with pytest.raises(StreamAborted):
                await completion
        latch.close()
        assert leftovers(driver) == {}


class Running:
    """A kernel and a coroutine that never end, each in a stream of its own; `ended` has what has ended of the two."""

    def __init__(self) -> None:
        self.ended: set[str] = set()

        @k.kernel
        async def endless() -> None:
            self._begun.set()
            try:
                while True:
                    await k.syncthreads()
            finally:
                self.ended.add("kernel")

        self._kernel = endless
        self._begun = threading.Event()
        self.started = anyio.Event()

    async def _endless(self) -> None:
        while not self._begun.is_set():
            await checkpoint()
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(50):  # it takes its time to end
                    await checkpoint()
                self.ended.add("coroutine")

    async def begin(self, first: atops.Stream, second: atops.Stream) -> None:
        """Enqueue both. Returns when they run."""
        first.launch(self._kernel, (1, 1))
        second.call(self._endless)
        await self.started.wait()


async def in_its_wait() -> None:
    """Return when every task that was ready has come to its next wait."""
    for _ in range(5):
        await checkpoint()


async def left_inside(device: Device, running: Running) -> None:
    """Leave two streams' blocks from inside."""
    async with device.create_stream() as first, device.create_stream() as second:
        await running.begin(first, second)
        await anyio.sleep_forever()


async def left_at_the_end(device: Device, running: Running) -> None:
    """Leave two streams' blocks while their ends wait for the work."""
    async with device.create_stream() as first, device.create_stream() as second:
        await running.begin(first, second)


async def closed(device: Device, running: Running) -> None:
    """Cancel `aclose`, of one stream: the other's block is left by the cancellation."""
    async with device.create_stream() as first:
        second = device.create_stream()
        await running.begin(first, second)
        await second.aclose()


async def left_with_its_driver(device: Device, running: Running) -> None:
    """Leave a driver's block."""
    async with device.driver:
        await running.begin(device.create_stream(), device.create_stream())
        await anyio.sleep_forever()


async def left_as_a_pipeline(device: Device, running: Running) -> None:
    """Leave a pipeline's block while its stages run."""
    streams: list[atops.Stream] = []

    def stage(stream: atops.Stream, array: Any) -> Any:
        streams.append(stream)
        return array

    async with atops.pipeline([np.arange(4)] * 2, stage, device=device, streams=2) as results:
        async for _ in results:
            if len(set(streams)) == 2:
                break
        await running.begin(*dict.fromkeys(streams))
        await anyio.sleep_forever()


@anyio_test
@pytest.mark.parametrize("level", ["level", "edge"])
@pytest.mark.parametrize("leave", [left_inside, left_at_the_end, closed, left_with_its_driver, left_as_a_pipeline])
async def test_what_a_cancelled_scope_ran_has_ended_behind_it(
    anyio_backend_name: str, leave: Callable[[Device, Running], Awaitable[None]], level: str
) -> None:
    """Cancelled as anyio and trio do it, at every wait from then on, and as asyncio does, once: nothing runs on."""
    with board(abort_grace=PATIENCE) as driver:  # no kernel is given up because the machine is busy
        device = Device(0, driver)
        running = Running()

        async def program() -> None:
            await leave(device, running)

        with anyio.fail_after(PATIENCE):
            if level == "edge":
                if anyio_backend_name == "trio":
                    return  # it has none
                task = asyncio.ensure_future(program())
                await running.started.wait()
                await in_its_wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(program)
                    await running.started.wait()
                    await in_its_wait()
                    tasks.cancel_scope.cancel()
        assert running.ended == {"kernel", "coroutine"}


@pytest.mark.slow
@anyio_test
async def test_a_cancelled_scope_waits_for_what_nothing_can_end_no_longer_than_its_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A plain host function that blocks is left running behind the bound, and named in the log."""
    gate, entered = threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        gate.wait()

    with board(abort_grace=0.0) as driver:
        with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
            async with Device(0, driver).create_stream(name="held") as stream:
                stream.call(block)
                while not entered.is_set():
                    await checkpoint()
                scope.cancel()
                await checkpoint()
        gate.set()
    assert "call on held, running> did not end within 1.0 s of its abort" in caplog.text


@pytest.mark.asyncio
@pytest.mark.parametrize("again", [1, 2, 5])
@pytest.mark.parametrize("scoped", [True, False])
async def test_a_source_has_ended_behind_a_consumer_that_was_cancelled_again_and_again(
    again: int, scoped: bool
) -> None:
    """Each cancellation reaches the source, as if it ran in the consumer's task, and none leaves it behind."""
    cancelled: list[int] = []
    at_work = asyncio.Event()

    async def source() -> AsyncIterator[Any]:
        try:
            yield np.arange(4)
            at_work.set()
            await asyncio.sleep(PATIENCE)
        finally:
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                cancelled.append(1)

    async def consume(device: Device) -> None:
        results = pipeline(source(), device=device)
        if scoped:
            async with results:
                async for _ in results:
                    pass
        else:
            async for _ in results:
                pass

    with board() as driver:
        task = asyncio.ensure_future(consume(Device(0, driver)))
        await at_work.wait()
        task.cancel()
        while not task.done():
            for _ in range(again):
                await asyncio.sleep(0)
            task.cancel()
        assert cancelled == [1]
        assert asyncio.all_tasks() == {asyncio.current_task()}


@anyio_test
async def test_a_scope_left_normally_finishes_the_work() -> None:
    """Leaving `async with stream` waits for all that was enqueued, then nothing is allocated."""
    with board() as driver:
        async with Device(0, driver).create_stream() as stream:
            array = stream.zeros(24, "int32")
            for _ in range(20):
                stream.launch(add_one, (2, 12), array)
            fetched = stream.fetch(array)
        assert (fetched.result() == 20).all()
        assert leftovers(driver) == {}


@anyio_test
async def test_aclose_is_idempotent_and_safe_at_once() -> None:
    """Ten tasks close one stream, half of them cancelled: all end, and so does the stream."""
    with board() as driver:
        device = Device(0, driver)
        latch = Latch(device)
        stream = device.create_stream()
        stream.zeros(100)
        latch.hold(stream)

        async def close(scope: anyio.CancelScope) -> None:
            with scope:
                await stream.aclose()

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                scopes = [anyio.CancelScope() for _ in range(10)]
                for scope in scopes:
                    tasks.start_soon(close, scope)
                for scope in scopes[::2]:
                    await checkpoint()
                    scope.cancel()
        await stream.aclose()
        latch.close()
        assert leftovers(driver) == {}


def test_memory_outlives_the_kernel_that_uses_it() -> None:
    """A buffer closed behind a running kernel stays until that has ended, though an abort drops all that followed."""
    with board() as driver:
        device = Device(0, driver)
        stream, gate, started = device.create_stream(), threading.Event(), threading.Event()

        @k.kernel
        def uses(x: Any) -> None:
            started.set()
            gate.wait(PATIENCE)

        array = device.empty(100)
        launched = stream.launch(uses, (1, 1), array)
        fetched = stream.fetch(array)
        assert started.wait(PATIENCE)
        array.close()
        stream.abort()
        with pytest.raises(StreamAborted):
            fetched.wait_sync(PATIENCE)
        alive = array.is_live
        gate.set()
        with pytest.raises(StreamAborted):
            launched.wait_sync(PATIENCE)
        assert alive
        assert leftovers(driver) == {}
        assert not array.is_live
