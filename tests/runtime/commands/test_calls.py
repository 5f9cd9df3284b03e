"""Host work in stream order: functions on callback threads, coroutines on their submitter's loop, each exactly once."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import atops
from atops.base.errors import (
    HostCallFailure,
    IllegalState,
    InvalidType,
    LoopClosed,
    PriorLaunchFailure,
    StreamAborted,
)
from tests.every import every
from tests.runtime.hosts import board, on_every_host, on_hosts
from tests.runtime.latch import hold

CALLER: ContextVar[str] = ContextVar("caller", default="none")


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


def fail() -> None:
    """Raise, as a host callable of a stream that is to fail."""
    raise RuntimeError("on purpose")


# ---- functions


@on_every_host
async def test_a_call_gets_its_arguments_and_gives_its_result(device):
    """D3: the exact arguments arrive, and what the function returns is the completion's result."""
    stream, token = device.create_stream(), object()
    assert await stream.call(lambda *given: given, 0xFFFFFFFF, None, token) == (0xFFFFFFFF, None, token)
    assert await stream.call(functools.partial(int, "12"), 16) == 18
    assert await stream.add_callback(lambda error, *given: (error, *given), token) == (None, token)


@on_every_host
async def test_calls_work_on_every_kind_of_stream(device):
    """D10: on created streams, blocking or not, and on the null stream."""
    for stream in (device.create_stream(), device.create_stream(nonblocking=True), device.null_stream):
        x = device.empty(4, np.int32)
        stream.fill(x, 6)
        assert await stream.call(lambda x=x: x.allocation.data.view(np.int32)[:4].tolist()) == [6] * 4


@on_every_host
async def test_a_call_sees_its_submitters_context(device):
    """A call runs in a copy of the context that enqueued it, wherever it runs."""
    stream = device.create_stream()

    async def later():
        return CALLER.get()

    token = CALLER.set("submitter")
    calls = [stream.call(CALLER.get), stream.call(later)]
    CALLER.reset(token)
    assert [await call for call in calls] == ["submitter", "submitter"]


@on_every_host
async def test_what_is_no_function_is_refused(device):
    """D1: a call of None raises at the call."""
    stream = device.create_stream()
    for verb in (stream.call, stream.add_callback):
        with pytest.raises(InvalidType, match="None"):
            verb(None)
    assert stream.is_done


@every("failure", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
@on_every_host
async def test_what_a_function_raises_fails_its_stream(device, failure):
    """D14: the failure is HostCallFailure with the exception as its cause; no thread of the runtime dies of it."""
    stream, other = device.create_stream(), device.create_stream()

    def broken():
        raise failure

    with pytest.raises(HostCallFailure, match="broken") as caught:
        await stream.call(broken)
    assert caught.value.__cause__ is failure
    with pytest.raises(PriorLaunchFailure):
        await stream.call(int)
    assert await other.call(int) == 0
    stream.clear_error()
    assert await stream.call(int) == 0


@on_every_host
async def test_a_function_may_enqueue(device):
    """D15: no lock is held while user code runs; a call may enqueue on its own stream and on others."""
    stream, other, log = device.create_stream(), device.create_stream(), []

    def more():
        stream.call(log.append, "own")
        return other.call(log.append, "other")

    await (await stream.call(more))
    await stream
    assert sorted(log) == ["other", "own"]


# ---- coroutine functions


@on_every_host
async def test_a_coroutine_runs_on_its_submitters_loop(device):
    """`stream.call(async_fn)` runs as a task of the loop that enqueued it, in stream order."""
    stream, log = device.create_stream(), []
    here = threading.get_ident()

    async def first(name):
        await anyio.lowlevel.checkpoint()
        log.append((name, threading.get_ident() == here))
        return name

    call = stream.call(first, "first")
    stream.call(lambda: log.append(("second", None)))
    assert await call == "first"
    await stream
    assert log == [("first", True), ("second", None)]


@on_every_host
async def test_a_coroutine_may_await_the_device(device):
    """A coroutine in stream order may await other streams, with the loop going on."""
    stream, other = device.create_stream(), device.create_stream()

    async def round_trip():
        return (await other.fetch(other.upload(np.arange(3)))).tolist()

    assert await stream.call(round_trip) == [0, 1, 2]
    assert await stream.call(functools.partial(round_trip)) == [0, 1, 2]


@on_every_host
async def test_what_a_coroutine_raises_fails_its_stream(device):
    """As for functions."""
    stream = device.create_stream()

    async def broken():
        raise ValueError("no")

    with pytest.raises(HostCallFailure, match="broken") as caught:
        await stream.call(broken)
    assert isinstance(caught.value.__cause__, ValueError)
    stream.clear_error()


def test_a_coroutine_needs_a_loop(device: atops.Device):
    """Where no loop runs there is none to run it on: IllegalState at the call."""

    async def never() -> None:
        """Never run."""

    with pytest.raises(IllegalState, match="no loop runs here"):
        device.create_stream().call(never)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_loop_that_closes_owes_nothing(device: atops.Device, loop: str, begun: bool):
    """A loop that closes first fails the completion with LoopClosed, begun or not; the stream ends, others go on."""
    stream = device.create_stream()
    latch = None if begun else hold(stream)
    calls: list[Any] = []

    async def submit() -> None:
        running = anyio.Event()

        async def for_ever() -> None:
            running.set()
            await anyio.sleep_forever()

        calls.append(stream.call(for_ever))
        if begun:
            await running.wait()

    anyio.run(submit, backend=loop)
    if latch is not None:
        latch.release()
    with pytest.raises(LoopClosed, match="for_ever"):
        calls[0].wait_sync()
    with pytest.raises(LoopClosed):
        stream.sync()
    device.create_stream().call(int).wait_sync()


# ---- holding and not holding


@on_every_host
async def test_a_call_that_holds_holds(device):
    """D5, flag 2: later work waits for the function, and for the coroutine."""
    stream = device.create_stream()
    for verb in (stream.call, functools.partial(stream.add_callback, holds=True)):
        opened = anyio.Event()

        async def wait(*_, opened=opened):
            await opened.wait()

        verb(wait)
        after = stream.fill(device.empty(1), 1)
        await hold(device.create_stream(nonblocking=True)).passed()
        assert not after.done()
        opened.set()
        await after


@on_every_host
async def test_a_call_that_does_not_hold(device):
    """D5, flag 0: later work goes on; synchronising with the stream and the device waits for it (D6)."""
    stream = device.create_stream()
    for verb in (functools.partial(stream.call, holds=False), stream.add_callback):
        opened, log = anyio.Event(), []

        async def wait(*_, opened=opened, log=log):
            await opened.wait()
            log.append(stream.is_done)

        call = verb(wait)
        await stream.fill(device.empty(1), 1)
        event = stream.record()
        await event
        assert not call.done() and not stream.is_done
        opened.set()
        await (stream if verb is stream.add_callback else device.wait())
        assert call.done() and stream.is_done and log == [False]


@on_every_host
async def test_calls_of_one_stream_keep_their_order(device):
    """In both modes, mixed: a call starts when the call before it has ended, and its own place has come."""
    stream, log = device.create_stream(), []

    async def slow(number):
        log.append(number)
        await anyio.lowlevel.checkpoint()
        log.append(number)

    def fast(number):
        log.extend((number, number))

    for number in range(30):
        stream.call(slow if number % 3 else fast, number, holds=number % 2 == 0)
    await stream
    assert log == [number for number in range(30) for _ in range(2)]


@on_every_host
async def test_calls_of_two_streams_go_on_beside_each_other(device):
    """A coroutine that holds one stream does not hold the calls of another."""
    first, second, opened = device.create_stream(), device.create_stream(), anyio.Event()

    async def opener():
        opened.set()

    held = first.call(opened.wait)
    await second.call(opener)
    await held


# ---- exactly once


@on_every_host
async def test_callbacks_run_once_after_a_failure(device):
    """Callbacks are duties: after a failure they run with it as their status; calls are skipped."""
    stream, log = device.create_stream(), []

    async def note(error, name):
        log.append((name, type(error)))

    latch = hold(stream)
    stream.add_callback(note, "before")
    stream.call(fail)
    skipped = stream.call(log.append, "never")
    stream.add_callback(note, "after")
    stream.add_callback(lambda error, name: log.append((name, type(error))), "holding", holds=True)
    latch.release()
    with pytest.raises(HostCallFailure):
        await stream
    with pytest.raises(PriorLaunchFailure):
        await skipped
    assert log == [("before", type(None)), ("after", HostCallFailure), ("holding", HostCallFailure)]
    stream.clear_error()


@on_every_host
async def test_callbacks_run_once_after_an_abort(device):
    """An abort drops calls and leaves callbacks, whether they hold or not, in their order, with the abort as status."""
    stream, log = device.create_stream(), []
    hold(stream)
    dropped = []
    for number in range(6):
        dropped.append(stream.call(log.append, "never"))
        stream.add_callback(lambda error, number: log.append((number, type(error))), number, holds=number % 2 == 0)
    stream.abort()
    await stream
    assert log == [(number, StreamAborted) for number in range(6)]
    for call in dropped:
        with pytest.raises(StreamAborted):
            call.result()
    assert await stream.call(int) == 0 and stream.error is None


@on_every_host
async def test_an_abort_leaves_a_callback_that_runs(device):
    """A coroutine callback that has begun is a duty: an abort does not cancel it."""
    stream, begun, opened = device.create_stream(), anyio.Event(), anyio.Event()

    async def callback(error):
        begun.set()
        await opened.wait()
        return error

    call = stream.add_callback(callback)
    await begun.wait()
    stream.abort()
    assert not call.done() and not stream.is_done
    opened.set()
    assert await call is None


@on_every_host
async def test_an_abort_cancels_a_coroutine(device):
    """A coroutine of `call` that runs is cancelled; calls that stand in line behind it are dropped; no poison."""
    for holds in (True, False):
        stream, begun, log = device.create_stream(), anyio.Event(), []

        async def for_ever(begun=begun, log=log):
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                log.append("cancelled")

        running = stream.call(for_ever, holds=holds)
        in_line = stream.call(log.append, "never", holds=holds)
        status = stream.add_callback(lambda error, log=log: log.append(type(error)))
        await begun.wait()
        if not holds:
            await stream.fill(device.empty(1), 1)  # so that both calls have left the queue
        stream.abort()
        for call in (running, in_line):
            with pytest.raises(StreamAborted):
                await call
        await status
        assert log == ["cancelled", StreamAborted] and stream.error is None
        assert await stream.call(int) == 0


@pytest.mark.parametrize("end", ["driver", "reset"])
def test_callbacks_run_once_when_the_board_goes(end: str):
    """The driver's close and the device's reset let every callback run, with an error, before they are through."""
    log: list[tuple[int, str]] = []
    with board() as device:
        stream, other = device.create_stream(), device.create_stream(nonblocking=True)
        for each in (stream, other):
            hold(each)
            for number in range(5):
                each.add_callback(lambda error, *key: log.append((*key, type(error))), each.number, number,
                                  holds=number % 2 == 0)  # fmt: skip
        ended = threading.Semaphore(0)
        for each in (stream, other):
            each.add_callback(lambda error: ended.release())
        if end == "reset":
            device.reset_sync()
        else:
            device.driver.close()
        assert ended.acquire(timeout=10) and ended.acquire(timeout=10)
    assert sorted(log) == [(each.number, number, StreamAborted) for each in (stream, other) for number in range(5)]


@on_hosts("asyncio", "trio")
async def test_leaving_a_scope_by_an_error_runs_callbacks(device):
    """`async with stream` left by an exception aborts the work, and its callbacks have run when the scope is left."""
    log = []
    with pytest.raises(ZeroDivisionError):
        async with device.create_stream() as stream:
            hold(stream)
            stream.add_callback(lambda error: log.append(type(error)))
            raise ZeroDivisionError
    assert log == [StreamAborted] and stream.is_done


@pytest.mark.slow
def test_thousands_of_callbacks_from_several_threads(device: atops.Device):
    """D7: each of some thousands of callbacks of several threads runs exactly once, though the stream fails midway."""
    stream, log = device.create_stream(), []
    ready = threading.Barrier(4)

    def submit(sender: int) -> None:
        ready.wait()
        for number in range(500):
            stream.add_callback(lambda error, key: log.append(key), (sender, number), holds=number % 7 == 0)
            if sender == 0 and number == 250:
                stream.call(fail)

    threads = [threading.Thread(target=submit, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pytest.raises(HostCallFailure):
        stream.sync()
    assert sorted(log) == [(sender, number) for sender in range(4) for number in range(500)]


@pytest.mark.parametrize("own", ["raised", "awaited"])
def test_a_coroutine_that_was_not_cancelled(device, own):
    """CancelledError out of a coroutine whose task was not cancelled is its own failure; its loop is not blamed."""

    async def cancelled() -> None:
        if own == "raised":
            raise asyncio.CancelledError
        other = asyncio.get_running_loop().create_future()
        other.cancel()
        await other

    async def main() -> None:
        stream = device.create_stream()
        with pytest.raises(HostCallFailure, match="CancelledError, though it was not cancelled"):
            await stream.call(cancelled)
        stream.clear_error()
        assert await stream.call(int) == 0

    asyncio.run(main())
