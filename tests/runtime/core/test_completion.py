"""Completions: many waiters of all kinds, results before their time, callbacks, and waits that are given up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import atops
from atops.base.errors import HostCallFailure, InvalidType, InvalidValue, NotReady
from atops.runtime.stream import queue_of
from tests.runtime.hosts import board, on_every_host, on_hosts
from tests.runtime.latch import hold


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


@on_every_host
async def test_the_states_of_a_completion(device):
    """pending, running, done or failed; asking before the end raises NotReady and waits for nothing."""
    stream = device.create_stream()
    latch = hold(stream)
    fetch = stream.fetch(device.empty(2, np.int8))
    assert (fetch.state, fetch.done()) == ("pending", False)
    for ask in (fetch.result, fetch.exception):
        with pytest.raises(NotReady, match="not done"):
            ask()
    await latch.passed()
    assert queue_of(stream).pending()[0].state == "running"
    latch.release()
    assert await fetch is fetch.result() is await fetch
    assert (fetch.state, fetch.done(), fetch.exception()) == ("done", True, None)

    def fail():
        raise RuntimeError

    call = stream.call(fail)
    with pytest.raises(HostCallFailure):
        await call
    assert call.state == "failed" and call.done() and isinstance(call.exception(), HostCallFailure)
    assert "call on" in repr(call) and "failed" in repr(call)
    stream.clear_error()


@on_every_host
async def test_the_results_of_commands(device):
    """A fetch gives an array, a copy to the host its target, a call its value, anything else None."""
    stream = device.create_stream()
    x, target = stream.upload(np.arange(3)), np.empty(3, np.int64)
    assert (await stream.fetch(x)).tolist() == [0, 1, 2]
    assert await stream.copy(target, x) is target and target.tolist() == [0, 1, 2]
    assert await stream.call(lambda: 5) == 5
    assert await stream.fill(x, 1) is None and await stream.copy(x, target) is None
    assert await stream.record() is None


@on_every_host
async def test_many_tasks_await_one_completion(device):
    """All are woken, each once."""
    stream, results = device.create_stream(), []
    latch = hold(stream)
    call = stream.call(lambda: 7)

    async def wait():
        results.append(await call)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(wait)
        await latch.passed()
        assert not results
        latch.release()
    assert results == [7] * 20


@on_every_host
async def test_cancelling_a_waiter_leaves_the_work(device):
    """M13: the command goes on, the other waiters are woken, and nothing is left parked."""
    stream, results = device.create_stream(), []
    latch = hold(stream)
    call = stream.call(lambda: 7)

    async def wait(scope):
        with scope:
            results.append(await call)

    scopes = [anyio.CancelScope() for _ in range(4)]
    async with anyio.create_task_group() as tasks:
        for scope in scopes:
            tasks.start_soon(wait, scope)
        await latch.passed()
        for scope in scopes[::2]:
            scope.cancel()
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        assert not call.done() and not results
        latch.release()
    assert results == [7, 7]


@on_every_host
async def test_done_callbacks(device):
    """Each is called once with the completion, before or after the end, and after a failure as well."""
    stream, seen = device.create_stream(), []
    woken = [anyio.Event() for _ in range(2)]
    latch = hold(stream)

    def fail():
        raise RuntimeError

    first, second = stream.call(int), stream.call(fail)

    async def both():
        for event in woken:
            await event.wait()

    def note(done):
        seen.append(done)

    for item in (first, second):
        item.add_done_callback(note)
        item.add_done_callback(note)
    assert not seen
    latch.release()
    await first
    with pytest.raises(HostCallFailure):
        await second
    first.add_done_callback(seen.append)
    while len(seen) < 5:
        await anyio.lowlevel.checkpoint()
    assert sorted(seen, key=id) == sorted([first] * 3 + [second] * 2, key=id)
    stream.clear_error()


def test_done_callbacks_of_plain_code_are_called_in_order(device: atops.Device) -> None:
    """One after another as they were added, though there are several callback threads and the first takes its time."""
    stream, seen, running = device.create_stream(), list[int](), list[int]()
    latch = hold(stream)
    call = stream.call(int)
    event, over = threading.Event(), threading.Event()

    def note(number: int) -> None:
        running.append(number)
        if not number:
            event.wait(0.05)  # it is never set: time for another thread to begin with the next, were it to
        assert running == [number]
        seen.append(running.pop())

    for number in range(20):
        call.add_done_callback(lambda done, number=number: note(number))  # type: ignore[misc]  # a default binds it
    call.add_done_callback(lambda done: over.set())
    latch.release()
    assert over.wait(10)
    assert seen == list(range(20))


@on_every_host
async def test_done_callbacks_of_a_loop_are_called_in_order(device):
    """As they were added, and before a task that came later goes on."""
    stream, seen = device.create_stream(), []
    latch = hold(stream)
    call = stream.call(int)
    for number in range(20):
        call.add_done_callback(lambda done, number=number: seen.append(number))
    latch.release()
    await call
    assert seen == list(range(20))


def test_a_done_callback_that_raises_changes_nothing(device, caplog):
    """In plain code it is logged, whether it is called later or at once; the others are called."""
    caplog.set_level(logging.ERROR, "atops")
    stream, called = device.create_stream(), threading.Semaphore(0)
    latch = hold(stream)
    call = stream.call(int)

    def broken(done: atops.Completion) -> None:
        raise ValueError("on purpose")

    call.add_done_callback(broken)
    call.add_done_callback(lambda done: called.release())
    latch.release()
    assert call.wait_sync() == 0
    assert called.acquire(timeout=10), "it is called after the one that raises"
    call.add_done_callback(broken)
    assert ["a callback raised" in record.getMessage() for record in caplog.records] == [True, True]
    assert stream.error is None


def test_a_blocking_wait_with_a_timeout(device: atops.Device):
    """`wait_sync` raises TimeoutError when the time is over first, and the command goes on."""
    stream = device.create_stream()
    latch = hold(stream)
    call = stream.call(lambda: 7)
    for wait in (call.wait_sync, stream.sync, device.sync, stream.record().sync):
        with pytest.raises(TimeoutError):
            wait(0.001)
    latch.release()
    assert call.wait_sync(10) == call.wait_sync(0) == call.wait_sync() == 7
    stream.sync(10)


def test_threads_and_loops_wait_for_one_completion(device: atops.Device):
    """Plain threads, asyncio and trio all get the result of one command."""
    stream, results = device.create_stream(), []
    latch = hold(stream)
    call = stream.call(lambda: 7)
    ready = threading.Barrier(7)

    async def wait() -> None:
        ready.wait()
        results.append(await call)

    def block() -> None:
        ready.wait()
        results.append(call.wait_sync())

    threads = [threading.Thread(target=block) for _ in range(2)]
    for loop in ("asyncio", "trio") * 2:
        threads.append(threading.Thread(target=anyio.run, args=(wait,), kwargs={"backend": loop}))
    for thread in threads:
        thread.start()
    ready.wait()
    latch.release()
    for thread in threads:
        thread.join()
    assert results == [7] * 6


@pytest.mark.slow
def test_waiters_come_and_go_while_a_command_ends(device: atops.Device, tiny_switch_interval: None):
    """Each waiter is told that there is nothing to wait for, or is woken once; one that gave up, at most once."""

    class Counted(threading.Event):
        woken = 0

        def wake(self) -> None:
            self.woken += 1
            self.set()

    stream = device.create_stream()
    wrong: list[object] = []

    def wait(start: threading.Barrier, item: atops.Completion, seen: list[tuple[bool, Counted]]) -> None:
        start.wait()
        for number in range(20):
            waiter = Counted()
            parked = item.add_waiter(waiter)
            if number % 3 == 2:
                item.discard_waiter(waiter)
            else:
                seen.append((parked, waiter))

    for _ in range(100):
        latch, start = hold(stream), threading.Barrier(4)
        item, seen = stream.call(int), list[tuple[bool, Counted]]()
        threads = [threading.Thread(target=wait, args=(start, item, seen)) for _ in range(3)]
        for thread in threads:
            thread.start()
        start.wait()
        latch.release()
        for thread in threads:
            thread.join()
        assert all(waiter.wait(10) for parked, waiter in seen if parked)
        wrong += [(parked, waiter.woken) for parked, waiter in seen if waiter.woken != parked]
    assert not wrong


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_loop_that_closed_is_not_woken(device: atops.Device, loop: str):
    """M15: a waiter whose loop closed before the completion is dropped quietly; others are woken."""
    stream, results = device.create_stream(), []
    latch = hold(stream)
    call = stream.call(lambda: 7)

    async def give_up() -> None:
        with anyio.move_on_after(0):
            await call

    async def wait() -> None:
        call.add_done_callback(lambda done: results.append(done.result()))
        latch.release()
        results.append(await call)

    anyio.run(give_up, backend=loop)
    anyio.run(wait, backend=loop)
    stream.call(int).wait_sync()
    device.sync()
    assert results.count(7) >= 1 and call.result() == 7


@on_hosts("asyncio", "inline", "shuffled")
async def test_awaiting_what_is_done_does_not_park(device):
    """A completion that is done answers at once, any number of times; under trio that is a checkpoint."""
    stream = device.create_stream()
    call = stream.call(lambda: 7)
    await stream
    with pytest.raises(StopIteration) as stop:
        call.__await__().send(None)
    assert stop.value.value == 7


@pytest.mark.parametrize("timeout", [0, -1, -0.5, -1e300])
def test_no_time_to_wait(device, timeout):
    """A limit of nothing, or less, is over at once: -1 is no sign for ever."""
    stream = device.create_stream()
    latch = hold(stream)
    held = stream.record()
    for wait in (stream.call(int).wait_sync, held.sync, stream.sync, device.sync):
        with pytest.raises(TimeoutError):
            wait(timeout)
    latch.release()
    stream.sync()


@pytest.mark.parametrize("timeout", ["1", [], float("nan"), 1j])
def test_a_timeout_that_is_none(device, timeout):
    """What is no number of seconds is refused by name, and changes nothing."""
    stream = device.create_stream()
    latch = hold(stream)
    for wait in (stream.call(int).wait_sync, stream.sync, device.sync):
        with pytest.raises((InvalidType, InvalidValue), match=r"the timeout is .*; expected seconds, or None"):
            wait(timeout)
    latch.release()
    for wait in (stream.call(int).wait_sync, stream.sync, device.sync):
        wait(float("inf"))
