"""Streams that wait for what is awaited outside of the board: futures, tasks, coroutines, and futures of threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect
import logging
import threading
import warnings
from contextlib import contextmanager
from unittest.mock import patch

import anyio
import anyio.lowlevel
import numpy as np
import pytest

from atops.base.errors import (
    AwaitableCancelled,
    CommandCancelled,
    HostCallFailure,
    IllegalState,
    InvalidHandle,
    InvalidType,
    LoopClosed,
    PriorLaunchFailure,
    StreamAborted,
    StreamFull,
    WouldDeadlock,
)
from tests.every import every
from tests.runtime.hosts import board, on_every_host, on_hosts
from tests.runtime.latch import KernelLatch, hold

ON_ASYNCIO = on_hosts("asyncio", "inline", "shuffled")


def new_future():
    """A future of this loop."""
    return asyncio.get_running_loop().create_future()


async def until(future):
    """Await a future, as a coroutine."""
    return await future


# Each makes what is waited for, and the future that ends it.
OF_A_LOOP = {
    "a future": lambda future: future,
    "a task": lambda future: asyncio.ensure_future(until(future)),
    "a coroutine": until,
    "a gathering": asyncio.gather,
    "a future of threads": lambda _: concurrent.futures.Future(),
    "an object with __await__": lambda future: type("Own", (), {"__await__": lambda _: future.__await__()})(),
}
ENDS = {
    "a result": (lambda future: future.set_result(5), None, ""),
    "an exception": (lambda future: future.set_exception(ValueError("no")), HostCallFailure, "raised ValueError"),
    "a cancellation": (lambda future: future.cancel(), AwaitableCancelled, "which was cancelled"),
}


@pytest.mark.slow
@every("ending", ENDS)
@every("kind", OF_A_LOOP)
@every("early", [False, True], ids=["pending", "over before"])
@ON_ASYNCIO
async def test_later_work_waits_for_an_awaitable(device, kind, ending, early):
    """It goes on at its end; a failure or a cancellation of it fails the wait, and so the stream."""
    (end, error, words), stream, log = ENDS[ending], device.create_stream(), []
    future = new_future()
    thing = OF_A_LOOP[kind](future)
    ended = thing if isinstance(thing, concurrent.futures.Future) else future
    if early:
        end(ended)
    wait, after = stream.wait(thing), stream.call(log.append, "after")
    if not early:
        await hold(device.create_stream()).passed()
        assert not log and not wait.done()
        end(ended)
    if error is None:
        await after
        assert await wait is None and log == ["after"]
        return
    with pytest.raises(error, match=words) as caught:
        await wait
    assert error is AwaitableCancelled or isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(PriorLaunchFailure):
        await after
    with pytest.raises(error):
        await stream
    stream.clear_error()
    assert not log and await stream.call(int) == 0


@on_every_host
async def test_a_coroutine_begins_at_the_call(device):
    """On asyncio and trio: on this loop, in a copy of this context, before the stream comes to the wait."""
    stream, begun, go, here = device.create_stream(), anyio.Event(), anyio.Event(), threading.get_ident()
    latch = hold(stream)

    async def outside():
        assert threading.get_ident() == here
        begun.set()
        await go.wait()

    wait = stream.wait(outside())
    await begun.wait()
    latch.release()
    await latch.passed()
    assert not wait.done()
    go.set()
    await stream


@on_every_host
async def test_a_wait_for_an_event_of_the_loop(device):
    """The `wait()` of an event of asyncio, trio or anyio; the event itself is refused, with the cure."""
    stream, event, log = device.create_stream(), anyio.Event(), []
    stream.wait(event.wait())
    stream.call(log.append, "after")
    event.set()
    await stream
    assert log == ["after"]
    with pytest.raises(InvalidType, match=r"got <.*>; give its wait\(\)"):
        stream.wait(event)


@on_every_host
async def test_a_wait_for_a_completion(device):
    """Of another stream: as for an event that was recorded right behind the command."""
    stream, other, log = device.create_stream(), device.create_stream(), []
    latch = hold(other)
    stream.wait(other.call(log.append, "first"))
    after = stream.call(log.append, "second")
    await latch.passed()
    assert not log
    latch.release()
    await after
    assert log == ["first", "second"]
    wait = stream.wait(other.call(lambda: 1 / 0))
    with pytest.raises(PriorLaunchFailure, match=r"waited for call \(command \d+\), which failed: .*ZeroDivisionError"):
        await wait
    with board() as foreign, pytest.raises(InvalidHandle, match="is of <Driver"):
        stream.wait(foreign.create_stream().call(int))


def test_a_wait_for_a_completion_of_another_driver_names_both():
    """It has a clock and an order of its own."""
    with board() as here, board() as there, pytest.raises(InvalidHandle, match="is of <Driver"):
        here.create_stream().wait(there.create_stream().call(int))


REFUSED = {
    "a number": (lambda: 7, "an Event, a Stream or an awaitable, got 7"),
    "a function": (lambda: print, "got <built-in function print>"),
    "a coroutine function": (lambda: until, r"call the coroutine function: wait\(function\(\)\)"),
    "an event of threads": (threading.Event, "got <threading.Event"),
}


@every("thing, words", REFUSED.values())
def test_what_cannot_be_awaited_is_refused(thing, words):
    """At the call, with the cure."""
    with board() as device:
        stream = device.create_stream()
        with pytest.raises(InvalidType, match=words):
            stream.wait(thing())
        assert stream.is_done


# ---- the end of the wait, and what it leaves


@contextmanager
def silence():
    """Fail if anything is reported as never awaited."""
    gc.collect()  # what others left
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert not heard, [str(each.message) for each in heard]


@on_every_host
async def test_an_abort_ends_the_wait_and_its_coroutine(device):
    """The wait's own coroutine is cancelled; the stream goes on."""
    stream, ended = device.create_stream(), anyio.Event()

    async def outside():
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    for error in (StreamAborted, CommandCancelled):
        ended = anyio.Event()
        wait, after = stream.wait(outside()), stream.call(int)
        await hold(device.create_stream()).passed()
        assert stream.abort() if error is StreamAborted else wait.cancel("no")
        with pytest.raises(error):
            await wait
        await ended.wait()
        if error is CommandCancelled:
            assert await after == 0


@ON_ASYNCIO
async def test_an_abort_leaves_the_programs_futures_alone(device):
    """Cancelling a waiter never cancels work: a future or a task that the program made goes on."""
    stream, future = device.create_stream(), new_future()
    task = asyncio.create_task(until(future))
    threads = concurrent.futures.Future()
    waits = [stream.wait(future), stream.wait(task), stream.wait(threads)]
    stream.abort()
    for wait in waits:
        with pytest.raises(StreamAborted):
            await wait
    future.set_result(5)
    threads.set_result(6)
    assert await task == 5 and await stream.call(int) == 0


@pytest.mark.slow
@on_every_host
async def test_a_coroutine_that_is_never_awaited_is_closed(device):
    """Refused or dropped before it began: nothing says that it was never awaited."""
    with silence():
        full, closed, failed = device.create_stream(capacity=1), device.create_stream(), device.create_stream()
        latch = hold(full)
        closed.close()
        for stream, error in ((full, StreamFull), (closed, InvalidHandle)):
            coroutine = anyio.sleep_forever()
            with pytest.raises(error):
                stream.wait(coroutine)
            assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
        latch.release()
        await full
        failed.call(lambda: 1 / 0)
        for stream in (failed, full):
            wait = stream.wait(anyio.sleep_forever())
            stream.abort()
            with pytest.raises((StreamAborted, PriorLaunchFailure)):
                await wait
        await full
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        del wait


def test_a_coroutine_needs_a_loop():
    """In plain code it is refused and closed; a future of threads needs none."""
    with board() as device:
        stream, coroutine, future = device.create_stream(), anyio.sleep_forever(), concurrent.futures.Future()
        with pytest.raises(IllegalState, match="where no loop runs"):
            stream.wait(coroutine)
        assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
        stream.wait(future)
        call = stream.call(int)
        future.set_result(1)
        assert call.wait_sync(60) == 0
        stream.sync(60)


# ---- loops and threads


@pytest.fixture
def elsewhere():
    """An asyncio loop that runs in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@on_every_host
async def test_a_future_belongs_to_its_own_loop(device, elsewhere):
    """Which may run in another thread, whatever loop runs here."""
    stream, future = device.create_stream(), elsewhere.create_future()
    stream.wait(future)
    call = stream.call(int)
    elsewhere.call_soon_threadsafe(future.set_result, 5)
    assert await call == 0
    stream.wait(future)
    await stream


@pytest.fixture
def pool():
    """A thread of the program's own."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        yield pool


@on_every_host
async def test_a_thread_may_end_the_wait(device, pool):
    """Inline, too: the program's one thread sees it in its own loop, and no wait is taken for one without an end."""
    stream, gate = device.create_stream(), threading.Event()
    stream.wait(pool.submit(gate.wait, 60))
    call = stream.call(int)
    await hold(device.create_stream()).passed()
    assert not call.done()
    gate.set()
    assert await call == 0


@pytest.mark.parametrize("kind", ["a future", "a task", "a coroutine"])
def test_a_loop_that_closes_first_ends_the_wait(kind):
    """With an error that says so; nothing hangs, and nothing is reported as never awaited."""
    with board() as device, silence():
        stream = device.create_stream()
        loop = asyncio.new_event_loop()

        async def enqueue():
            return stream.wait(OF_A_LOOP[kind](new_future()))

        wait = loop.run_until_complete(enqueue())
        for task in asyncio.all_tasks(loop) if kind == "a task" else ():
            task._log_destroy_pending = False  # the test's own
        loop.close()
        with pytest.raises(LoopClosed, match="whose event loop closed before it ended"):
            wait.wait_sync(60)


def test_a_future_of_a_closed_loop():
    """Is over at once where it is done, and fails the wait where it is not."""
    with board() as device:
        stream, loop = device.create_stream(), asyncio.new_event_loop()
        done, pending = loop.create_future(), loop.create_future()
        done.set_result(1)
        loop.close()
        stream.wait(done).wait_sync(60)
        with pytest.raises(LoopClosed):
            stream.wait(pending).wait_sync(60)


def test_a_run_that_ends_by_a_cancellation_of_all_its_tasks():
    """`asyncio.run` cancels what is left; the wait ends with an error."""
    with board() as device:
        stream = device.create_stream()

        async def main():
            return stream.wait(anyio.sleep_forever()), stream.wait(asyncio.create_task(anyio.sleep_forever()))

        waits = asyncio.run(main())
        with pytest.raises(LoopClosed):
            waits[0].wait_sync(60)
        with pytest.raises((PriorLaunchFailure, AwaitableCancelled)):
            waits[1].wait_sync(60)


# ---- what cannot end


@pytest.mark.slow
@on_hosts("inline", "shuffled")
async def test_a_future_that_nothing_can_set(device):
    """In an inline run an await of the stream raises, for there is nothing else that runs."""
    stream = device.create_stream()
    stream.wait(new_future())
    alone = patch.object(threading, "active_count", lambda: 1)  # another test's thread might set it for all one knows
    with alone, pytest.raises(WouldDeadlock, match=r"(?s)nothing is left to run .* waits for <Future pending"):
        await stream


@pytest.mark.slow
@on_hosts("inline", "shuffled")
async def test_a_task_that_awaits_what_waits_for_it(device):
    """Inline, both awaits raise: the task's, and that of the stream."""
    stream, later = device.create_stream(), []

    async def outside():
        await later[0]

    wait = stream.wait(asyncio.create_task(outside()))
    later.append(stream.call(int))
    with pytest.raises((WouldDeadlock, HostCallFailure)):
        await wait


@on_hosts("inline", "shuffled")
async def test_a_coroutine_that_awaits_what_waits_for_it(device):
    """The await in it raises and names the cycle."""
    stream, later = device.create_stream(), []

    async def outside():
        await later[0]

    wait = stream.wait(outside())
    later.append(stream.call(int))
    with pytest.raises(HostCallFailure, match="awaits what waits for it") as caught:
        await wait
    assert isinstance(caught.value.__cause__, WouldDeadlock)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a task", "a coroutine"])
def test_a_cycle_through_an_awaitable_is_logged(kind):
    """Where threads run; an abort ends it."""
    said, heard = [], threading.Event()
    handler = logging.Handler()
    handler.emit = lambda record: (said.append(record.getMessage()), heard.set())

    async def main(device):
        stream, later = device.create_stream(), []

        async def outside():
            await later[0]

        stream.wait(outside() if kind == "a coroutine" else asyncio.create_task(outside()))
        later.append(stream.call(int))
        assert await anyio.to_thread.run_sync(heard.wait, 60)
        assert "outside" in said[0]
        stream.abort()

    logging.getLogger("atops.stall").addHandler(handler)
    try:
        with board() as device:
            anyio.run(main, device)
    finally:
        logging.getLogger("atops.stall").removeHandler(handler)


@ON_ASYNCIO
async def test_blocking_the_loop_that_must_end_it_is_refused(device):
    """As with a coroutine in a stream; a future that is done by then does not hold the wait."""
    stream, future = device.create_stream(), new_future()
    for thing in (future, until(future)):
        stream.wait(thing)
        with pytest.raises(WouldDeadlock, match="await it"):
            stream.sync()
    future.set_result(1)
    await stream
    done = new_future()
    stream.wait(done)
    done.set_result(1)
    stream.sync(60)


# ---- memory


@on_every_host
async def test_what_is_freed_behind_a_dropped_wait_stays_until_the_work_is_over(device):
    """The awaitable may come behind any work: what the stream frees is not given out before that is over."""
    reader, owner, latch = device.create_stream(), device.create_stream(), KernelLatch()
    source, sink = owner.upload(np.full(64, 7, np.uint8)), device.empty(64, np.uint8)
    await owner
    latch.hold(reader)
    reader.copy(sink, source)
    mark = reader.record()

    async def outside():
        await mark

    for wait in (lambda: owner.wait(outside()), lambda: owner.create_task(outside())):
        wait()
        owner.abort()
    owner.free(source)
    fresh = owner.empty(64, np.uint8)
    assert fresh.address != source.address
    latch.release()
    assert (await reader.fetch(sink)).tolist() == [7] * 64
