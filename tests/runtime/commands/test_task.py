"""Coroutine objects in stream order, and a stream as a queue: asyncio's names with asyncio's meanings."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import warnings
from contextlib import suppress
from contextvars import ContextVar, copy_context

import anyio
import pytest

import atops
from atops.base.errors import (
    CommandCancelled,
    HostCallFailure,
    IllegalState,
    InvalidHandle,
    InvalidType,
    PriorLaunchFailure,
    StreamAborted,
    StreamFull,
)
from atops.base.waiting.asyncio_loop import AsyncioHostTask
from atops.runtime.driver import board_of
from tests.every import every
from tests.runtime.hosts import board, on_every_host, on_hosts
from tests.runtime.latch import hold

PLACE: ContextVar[str] = ContextVar("place", default="none")


async def work(result=None):
    """Suspend once and return."""
    await anyio.lowlevel.checkpoint()
    return result


async def fail():
    """Raise."""
    raise ValueError("on purpose")


@on_every_host
async def test_a_task_runs_in_stream_order_on_this_loop(device):
    """It begins when the stream comes to it, and later work waits for its end."""
    stream, log, here = device.create_stream(), [], threading.get_ident()
    latch = hold(stream)

    async def task():
        log.append(threading.get_ident() == here)
        await anyio.lowlevel.checkpoint()
        log.append("end")
        return 7

    made = stream.create_task(task())
    stream.call(log.append, "after")
    await latch.passed()
    assert not log and not made.done()
    latch.release()
    assert await made == made.result() == 7
    await stream
    assert log == [True, "end", "after"]


@on_every_host
async def test_a_task_has_a_name_a_coroutine_and_a_context(device):
    """As asyncio's tasks: `name` and `context` are taken, and a context that is given is the one it runs in."""
    stream = device.create_stream()
    given = copy_context()

    async def look():
        before = PLACE.get()
        PLACE.set("inside")
        return before

    token = PLACE.set("outside")
    coroutine = look()
    copied, kept = stream.create_task(coroutine, name=5), stream.create_task(look(), context=given)
    PLACE.reset(token)
    assert isinstance(copied, atops.StreamTask) and isinstance(copied, atops.Completion)
    assert copied.get_coro() is coroutine and copied.get_name() == "5" and "'5'" in repr(copied)
    assert kept.get_name() == f"Task-{kept.seq} on {stream.label}"
    kept.set_name(6)
    assert kept.get_name() == "6" and kept.get_context() is given
    assert [await copied, await kept] == ["outside", "none"]
    assert given[PLACE] == "inside" and copied.get_context()[PLACE] == "inside" and PLACE.get() == "none"


@on_hosts("asyncio", "inline")
async def test_the_task_on_the_loop_has_the_name(device):
    """So asyncio's own reports say it; a name that is set before it begins counts."""
    stream = device.create_stream()

    async def name():
        return asyncio.current_task().get_name()

    tasks = [stream.create_task(name(), name="first"), stream.create_task(name()), stream.create_task(name())]
    tasks[2].set_name("third")
    assert await asyncio.gather(*tasks) == ["first", f"Task-{tasks[1].seq} on {stream.label}", "third"]


@on_every_host
async def test_what_a_task_raises_fails_its_stream(device):
    """As with `call`: the failure carries the exception, and what follows is skipped."""
    stream = device.create_stream()
    failing, skipped = stream.create_task(fail()), stream.create_task(work())
    with pytest.raises(HostCallFailure, match="fail raised ValueError") as caught:
        await failing
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(PriorLaunchFailure, match="on purpose"):
        await skipped
    stream.clear_error()
    assert await stream.create_task(work(3)) == 3


class Unusual(BaseException):
    """What is neither an Exception nor a cancellation."""


@on_every_host
async def test_what_is_no_cancellation_is_not_taken_for_one(device):
    """A coroutine that raises anything else fails with it, and not as one that its loop has left."""
    stream = device.create_stream()

    async def unusual():
        raise Unusual

    for verb in (stream.create_task, stream.wait):
        with pytest.raises(HostCallFailure, match="Unusual") as caught:
            await verb(unusual())
        assert isinstance(caught.value.__cause__, Unusual)
        stream.clear_error()


@on_every_host
@pytest.mark.parametrize("end", ["cancel", "abort"])
async def test_what_a_cancelled_coroutine_raises_is_not_lost(device, end):
    """It is the cause of the error that says that it was cancelled; the stream goes on."""
    stream, begun = device.create_stream(), anyio.Event()

    async def work():
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            raise ValueError("on purpose")

    task = stream.create_task(work())
    await begun.wait()
    getattr(task if end == "cancel" else stream, end)()
    with pytest.raises(StreamAborted, match=r"it raised ValueError\('on purpose'\)") as caught:
        await task
    assert isinstance(caught.value.__cause__, ValueError) and task.cancelled() is (end == "cancel")
    assert await stream.call(int) == 0


def refusals(device):
    """Yield a stream, the error of `create_task` there, and words of it."""
    full = device.create_stream(capacity=1)
    latch = hold(full)
    yield full, asyncio.QueueFull, "holds 1 of 1"
    yield full, StreamFull, "holds 1 of 1"
    latch.release()
    closed = device.create_stream()
    closed.close()
    yield closed, InvalidHandle, "is closed"


@on_every_host
async def test_a_coroutine_that_never_runs_is_closed(device):
    """Refused, skipped, dropped, cancelled: nothing says that it was never awaited."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for stream, error, words in refusals(device):
            coroutine = work()
            with pytest.raises(error, match=words):
                stream.create_task(coroutine)
            assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
        stream = device.create_stream()
        latch = hold(stream)
        cancelled, aborted = stream.create_task(work()), stream.create_task(work())
        assert cancelled.cancel("no") and stream.abort()
        latch.release()
        stream.call(lambda: 1 / 0)
        skipped = stream.create_task(work())
        for task, error in ((cancelled, CommandCancelled), (aborted, StreamAborted), (skipped, PriorLaunchFailure)):
            with pytest.raises(error):
                await task
        for verb in (stream.call, stream.add_callback):
            with pytest.raises(InvalidType, match=r"coroutine object work .*; use create_task\(\)"):
                verb(work())
        del cancelled, aborted, skipped, task
        gc.collect()
    assert not heard, [str(each.message) for each in heard]


NO_COROUTINES = {
    "a coroutine function": (lambda: work, r"create_task\(function\(\)\)"),
    "a function": (lambda: print, r"use call\(function"),
    "a future": (lambda: asyncio.get_running_loop().create_future(), r"wait\(awaitable\)"),
    "nothing": (lambda: None, "got None"),
}


@every("thing, words", NO_COROUTINES.values())
def test_what_is_no_coroutine_is_refused(thing, words):
    """A TypeError with the cure, as asyncio raises one."""

    async def main():
        stream = atops.Device(0).create_stream()
        with pytest.raises(TypeError, match=words):
            stream.create_task(thing())
        with pytest.raises(InvalidType, match="Context as context, got 3"):
            stream.create_task(work(), context=3)
        assert stream.qsize() == 0

    atops.run(main)


def test_a_task_needs_a_loop():
    """In plain code it is refused, and the coroutine closed."""
    with board() as device:
        coroutine = work()
        with pytest.raises(IllegalState, match="where no loop runs"):
            device.create_stream().create_task(coroutine)
        assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


def test_a_loop_that_closes_first_leaves_no_coroutine():
    """A task whose turn comes when its loop is closed fails, and its coroutine is closed."""
    with board() as device:
        stream = device.create_stream()
        latch = hold(stream)

        async def enqueue():
            return stream.create_task(work())

        task = asyncio.run(enqueue())
        latch.release()
        with pytest.raises(atops.errors.LoopClosed):
            task.wait_sync(60)
        assert inspect.getcoroutinestate(task.get_coro()) == inspect.CORO_CLOSED


# ---- the stream as a queue


@on_every_host
async def test_a_stream_counts_as_a_queue_does(device):
    """`qsize` counts what is not over, `full` says whether a command would be refused, in rooms too."""
    stream, free = device.create_stream(capacity=2), device.create_stream()
    latch = hold(stream)
    assert (stream.qsize(), stream.full()) == (1, False)
    dropped = stream.call(int)
    assert (stream.qsize(), stream.full()) == (2, True)
    with pytest.raises(asyncio.QueueFull):
        stream.call(int)
    assert dropped.cancel()
    assert stream.qsize() == 1
    latch.release()
    await stream.join()
    assert (stream.qsize(), stream.full()) == (0, False)
    async with stream.room(1):
        assert not stream.full()
        stream.call(int)
        assert stream.full()
    hold(free).release()
    assert not free.full()
    await free.join()


@on_every_host
async def test_join_waits_for_what_is_enqueued_meanwhile(device):
    """As asyncio's: until nothing is left, where `await stream` waits for what is there by now."""
    stream, log = device.create_stream(), []

    async def grow(left):
        log.append(left)
        if left:
            stream.create_task(grow(left - 1))

    stream.create_task(grow(3))
    await stream.join()
    assert log == [3, 2, 1, 0] and stream.qsize() == 0
    stream.create_task(fail())
    with pytest.raises(HostCallFailure, match="on purpose"):
        await stream.join()
    stream.clear_error()
    await stream.join()


@on_hosts("inline")
async def test_a_program_may_poll_a_queue(device):
    """Inline, asking lets the device go on: it has the same thread."""
    stream = device.create_stream(capacity=1)
    stream.fill(device.empty(4), 1)
    while stream.full():
        pass
    stream.fill(device.empty(4), 1)
    while stream.qsize():
        pass


def turns_of(begin, ending):
    """Return what happens in each turn of a loop: to a task that `begin` makes, and to what waits for it."""
    log = []

    async def task():
        log.append("begins")
        try:
            await (asyncio.sleep(0) if ending != "cancelled" else asyncio.Event().wait())
            if ending == "failed":
                raise ValueError("on purpose")
        finally:
            log.append("ends")

    async def wait_for(made):
        with suppress(ValueError, HostCallFailure, CommandCancelled, asyncio.CancelledError):
            await made
        log.append("woken")

    async def main():
        made = begin(task)
        waiting = asyncio.create_task(wait_for(made))
        for turn in range(7):
            log.append((turn, made.done()))
            if turn == 2 and ending == "cancelled":
                made.cancel()
            await asyncio.sleep(0)
        await waiting

    asyncio.run(main())
    return log


@every("ending", ("well", "failed", "cancelled"))
def test_an_idle_streams_coroutine_takes_the_turns_of_asyncios_tasks(ending):
    """It begins in the next turn, is done in that of its last step, and wakes what waits for it in the one after."""
    expected = turns_of(lambda task: asyncio.create_task(task()), ending)
    with board() as device:
        for begin in (
            lambda task: device.create_stream().create_task(task()),
            lambda task: device.create_stream().call(task),
            lambda task: device.null_stream.call(task, holds=False),
        ):
            assert turns_of(begin, ending) == expected
            device.null_stream.clear_error()


def test_coroutines_that_hold_nothing_run_one_after_another():
    """The first begins on the idle stream at once, the second only when it has ended."""

    async def main(device):
        log, stream = [], device.create_stream()
        for name in "ab":
            stream.call(note_both, log, name, holds=False)
        await stream
        return log

    async def note_both(log, name):
        log.append(f"{name} begins")
        await asyncio.sleep(0)
        log.append(f"{name} ends")

    with board() as device:
        assert asyncio.run(main(device)) == ["a begins", "a ends", "b begins", "b ends"]


@pytest.mark.parametrize("at", ["start", "look_later"])
def test_ctrl_c_while_a_coroutine_is_begun(at, monkeypatch):
    """Wherever it comes, the coroutine has ended or never began, and the stream works afterwards."""

    def interrupted(*_arguments):
        monkeypatch.undo()
        raise KeyboardInterrupt

    async def main(device):
        stream = device.create_stream()
        await stream.create_task(work())
        monkeypatch.setattr(AsyncioHostTask if at == "start" else type(board_of(device.driver).stall), at, interrupted)
        task = work()
        with pytest.raises(KeyboardInterrupt):
            stream.create_task(task)
        assert await stream.create_task(work(7)) == 7 and inspect.getcoroutinestate(task) == inspect.CORO_CLOSED
        assert stream.is_done and stream.error is None

    with board() as device:
        asyncio.run(main(device))
