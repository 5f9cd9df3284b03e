"""Blocking where it could never end raises WouldDeadlock; where it can end it is allowed; a stall is reported once."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import anyio
import pytest

import atops
from atops import kernels as k
from atops.base.errors import AtopsError, HostCallFailure, IllegalState, LaunchFailure, WouldDeadlock
from atops.kernels.sync import signal_wait
from atops.runtime.stream import queue_of
from tests.runtime.hosts import board, on_every_host, on_hosts
from tests.runtime.latch import StreamLatch, hold


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


def innermost(error: BaseException) -> BaseException:
    """Return the last cause of an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


async def refused(completion: atops.Completion) -> str:
    """Return the message of the WouldDeadlock that a host callable or kernel failed with."""
    with pytest.raises((HostCallFailure, LaunchFailure)) as caught:
        await completion
    completion.stream.clear_error()
    cause = innermost(caught.value)
    assert isinstance(cause, WouldDeadlock), cause
    return str(cause)


def waits_in(stream: atops.Stream, device: atops.Device) -> dict[str, Callable[[], Any]]:
    """Return every blocking wait for what `stream` has."""
    return {
        "stream": stream.sync,
        "device": device.sync,
        "null stream": device.null_stream.sync,
        "event": lambda: stream.record().sync(),
        "completion": lambda: stream.call(int).wait_sync(),
    }


# ---- callbacks


@pytest.mark.parametrize("wait", ["stream", "device", "null stream", "event", "completion"])
@on_every_host
async def test_a_call_must_not_wait_for_its_own_stream(device, wait):
    """A call that holds its stream and waits for it, for the device or for what comes after it is refused at once."""
    stream = device.create_stream()
    wait = waits_in(stream, device)[wait]
    assert "which waits for the callback" in await refused(stream.call(wait))
    assert await stream.call(int) == 0


@on_every_host
async def test_a_call_must_not_wait_for_a_task_that_waits_for_it(device):
    """The chain may go through events, null-stream order and other streams."""
    stream, middle, far = device.create_stream(), device.create_stream(), device.create_stream(nonblocking=True)
    latch = hold(stream)
    call = stream.call(lambda: far.sync())
    middle.wait(stream.record())
    device.null_stream.fill(device.empty(1), 1)
    event = device.null_stream.record()
    far.wait(event)
    latch.release()
    assert "waits for the callback" in await refused(call)
    await far


@on_every_host
async def test_a_call_that_holds_nothing_may_wait_for_later_work(device):
    """Later commands of its stream do not wait for it, so it may wait for them; but not for itself, nor later calls."""
    stream = device.create_stream()
    latch, later = hold(stream), []
    call = stream.call(lambda: later[0].wait_sync(), holds=False)
    later.append(stream.fill(device.empty(1), 1))
    latch.release()
    assert await call is None
    assert "waits for the callback" in await refused(stream.call(stream.sync, holds=False))
    latch = hold(stream)
    call = stream.call(lambda: later[1].wait_sync(), holds=False)
    later.append(stream.call(int, holds=False))
    latch.release()
    assert "waits for the callback" in await refused(call)


@on_every_host
async def test_a_call_may_wait_for_another_stream(device):
    """D15: a wait that can end is allowed, also in a callback."""
    stream, other = device.create_stream(), device.create_stream()

    def fetch():
        return other.fetch(other.zeros(3)).wait_sync().tolist()

    assert await stream.call(fetch) == [0, 0, 0]


@on_every_host
async def test_a_kernel_must_not_wait(device):
    """Executor threads never wait for device work."""
    stream, other = device.create_stream(), device.create_stream()
    latch = hold(other)

    @k.kernel
    def waits():
        other.sync()

    assert "executor" in await refused(stream.launch(waits, (1, 1)))
    latch.release()
    await other


# ---- loops


@on_every_host
async def test_a_loop_must_not_wait_for_what_it_owes(device):
    """A loop that owes a coroutine upstream of the wait is not blocked, whether the coroutine has begun or not."""
    stream, other, opened = device.create_stream(), device.create_stream(), anyio.Event()
    latch = hold(stream)
    call = stream.call(opened.wait)
    other.wait(stream.record())
    last = other.fill(device.empty(1), 1)
    for _ in range(2):
        for wait in (stream.sync, other.sync, device.sync, call.wait_sync, last.wait_sync):
            with pytest.raises(WouldDeadlock, match="the loop itself must run"):
                wait()
        latch.release()
        await latch.passed()
    opened.set()
    await other
    other.sync()
    device.sync()


@on_every_host
async def test_a_coroutine_must_not_wait_for_its_own_stream(device):
    """A coroutine in stream order that blocks its loop until it ends itself is refused."""
    stream = device.create_stream()

    async def wrong():
        stream.sync()

    assert "the loop itself must run" in await refused(stream.call(wrong))


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_another_loop_may_wait_for_a_coroutine(device: atops.Device, loop: str):
    """A loop may block until a coroutine of another loop has run: that one goes on."""
    stream, submitted = device.create_stream(), threading.Event()
    results: list[int] = []

    async def owing() -> None:
        done = anyio.Event()

        async def answer() -> int:
            done.set()
            return 7

        call = stream.call(answer)
        results.append(call)
        submitted.set()
        await done.wait()
        await call

    thread = threading.Thread(target=anyio.run, args=(owing,), kwargs={"backend": loop})
    thread.start()
    submitted.wait()

    async def blocking() -> int:
        return results[0].wait_sync()

    assert anyio.run(blocking, backend=loop) == 7
    thread.join()


# ---- inline


@on_hosts("inline", "shuffled")
async def test_a_blocking_wait_pumps_the_driver(device):
    """Inline a blocking wait runs the driver's steps itself: kernels, copies and calls of all streams."""
    stream, other, log = device.create_stream(), device.create_stream(), []
    latch = hold(stream)
    stream.call(log.append, 1)
    event = stream.record()
    other.wait(event)
    fetch = other.fetch(other.zeros(2))
    latch.release()
    assert fetch.wait_sync().tolist() == [0, 0]
    event.sync()
    device.sync()
    assert log == [1]


@on_hosts("inline", clock="virtual")
async def test_a_wait_that_nothing_can_end_is_refused(device):
    """Inline, when no step and no timer is left that could end the wait, it raises instead of hanging."""
    stream = device.create_stream()
    latch = hold(stream)
    with pytest.raises(WouldDeadlock, match="nothing is left to run"):
        stream.sync()
    with pytest.raises(TimeoutError):
        stream.sync(timeout=5)
    latch.release()
    stream.sync()


@on_hosts("inline")
async def test_a_foreign_thread_is_refused(device):
    """Inline, only the thread of the run may use its driver; a refused call changes nothing."""
    stream, refusals = device.create_stream(), []
    x, event = device.empty(1), device.create_event()
    stream.record(event)
    await event
    stream.fill(x, 1)

    def foreign():
        for verb in (
            lambda: stream.fill(x, 1), lambda: stream.record(event), lambda: stream.call(int), stream.abort, stream.sync
        ):  # fmt: skip
            try:
                verb()
            except IllegalState:
                refusals.append(verb)

    thread = threading.Thread(target=foreign)
    thread.start()
    thread.join()
    assert len(refusals) == 5
    assert event.is_done and len(queue_of(stream).pending()) == 1
    await stream


# ---- stalls


@pytest.fixture
def reports() -> Iterator[list[str]]:
    """What the driver has said of stalls."""
    log, messages = logging.getLogger("atops.stall"), []

    class Collect(logging.Handler):
        """Keep the messages."""

        def emit(self, record):
            messages.append(record.getMessage())

    handler = Collect()
    log.addHandler(handler)
    yield messages
    log.removeHandler(handler)


@on_hosts("inline", clock="virtual")
async def test_a_stall_is_reported_once(device, reports):
    """When every stream has been parked for a second, one report says what waits for what."""
    first, second = device.create_stream(name="first"), device.create_stream(name="second")
    latch = hold(first)
    second.wait(first.record())
    await anyio.sleep(60)
    assert len(reports) == 1
    assert "first: " in reports[0] and "waits for a value" in reports[0]
    assert "second: " in reports[0] and "waits for <Event" in reports[0]
    latch.release()
    await second
    latch = StreamLatch(device)
    latch.hold(first)
    await anyio.sleep(60)
    assert len(reports) == 2 and "second: " not in reports[1]
    latch.release()
    await first


@on_hosts("inline", clock="virtual")
async def test_a_host_call_that_has_not_begun_hides_no_stall(device, reports):
    """The null stream's order holds it, as any other command: no function runs, and what it waits for is named."""
    first, last = device.create_stream(name="first"), device.create_stream(name="last")
    latch = hold(first)
    call = device.null_stream.call(int)
    behind = last.record()
    await anyio.sleep(60)
    assert len(reports) == 1
    assert re.search(r"call on null stream, pending> waits for .* on first, .* \(null-stream order\)", reports[0])
    latch.release()
    assert await call == 0
    await behind


@on_hosts("inline", clock="virtual")
async def test_a_stall_of_a_kernel_names_what_its_threads_wait_for(device, reports):
    """The report has the kernel, and a line of each wait in it."""
    stream, question = device.create_stream(), device.signals.allocate()

    @k.kernel
    async def asks(question):
        await signal_wait(question, 7, "eq")

    stream.launch(asks, (2, 1), question)
    await anyio.sleep(60)
    assert len(reports) == 1
    assert re.search(r"runs kernel asks; .*signal 0", reports[0]), reports[0]
    device.signals.write(question, 7)
    await stream


@on_hosts("inline", clock="virtual")
async def test_a_stream_that_moves_slowly_is_no_stall(device, reports):
    """At every look something waits, but never what waited a second before."""
    stream = device.create_stream()
    latches = [hold(stream) for _ in range(10)]
    for latch in latches:
        await anyio.sleep(0.9)
        latch.release()
    await stream
    assert reports == []


# ---- coroutines that await what waits for them

Build = Callable[[atops.Device, atops.Stream, atops.Stream], atops.Completion]


def awaits_its_stream(device: atops.Device, first: atops.Stream, second: atops.Stream) -> atops.Completion:
    """Enqueue a coroutine that awaits its own stream."""

    async def coroutine() -> None:
        await first

    return first.call(coroutine)


def awaits_itself(device: atops.Device, first: atops.Stream, second: atops.Stream) -> atops.Completion:
    """Enqueue a coroutine that awaits its own completion."""

    async def coroutine() -> None:
        await own

    own = first.call(coroutine)
    return own


def awaits_what_is_behind_it(device: atops.Device, first: atops.Stream, second: atops.Stream) -> atops.Completion:
    """Enqueue a coroutine that awaits a later event of its stream."""

    async def coroutine() -> None:
        await first.record()

    return first.call(coroutine)


def awaits_a_stream_that_waits_for_its_own(
    device: atops.Device, first: atops.Stream, second: atops.Stream
) -> atops.Completion:
    """Enqueue a coroutine that awaits another stream's work, which waits for its own."""

    async def coroutine() -> None:
        second.wait(first.record())
        await second.record()

    return first.call(coroutine)


def awaits_the_null_stream(device: atops.Device, first: atops.Stream, second: atops.Stream) -> atops.Completion:
    """Enqueue a coroutine that awaits a command of the null stream, which comes after it."""

    async def coroutine() -> None:
        await device.null_stream.record()

    return first.call(coroutine)


def awaits_its_device(device: atops.Device, first: atops.Stream, second: atops.Stream) -> atops.Completion:
    """Enqueue a coroutine that holds nothing and awaits all of the device: itself, too."""
    return first.call(device.wait, holds=False)


def awaits_the_other(device: atops.Device, first: atops.Stream, second: atops.Stream) -> atops.Completion:
    """Enqueue two coroutines that await each other."""

    async def one() -> None:
        await there

    async def other() -> None:
        await here

    here = first.call(one)
    there = second.call(other)
    return here


CYCLES = [
    awaits_its_stream, awaits_itself, awaits_what_is_behind_it, awaits_a_stream_that_waits_for_its_own,
    awaits_the_null_stream, awaits_its_device, awaits_the_other,
]  # fmt: skip


@pytest.mark.parametrize("build", CYCLES)
@on_hosts("inline", "shuffled")
async def test_a_coroutine_must_not_await_what_waits_for_it(device, build: Build):
    """Inline the await raises WouldDeadlock, which names the cycle; the streams are usable afterwards."""
    first, second = device.create_stream(name="first"), device.create_stream(name="second")
    with anyio.fail_after(5):
        message = await refused(build(device, first, second))
    assert "awaits what waits for it: <Completion" in message
    for stream in (first, second, device.null_stream):
        with suppress(AtopsError):  # what came behind fails with it
            await stream
        stream.clear_error()
    assert await first.call(int) == await second.call(int) == 0


@pytest.mark.parametrize("build", CYCLES)
@on_hosts("asyncio", "trio")
async def test_a_coroutine_that_awaits_what_waits_for_it_is_reported(device, build: Build):
    """Where threads run, the cycle is logged within a second, once; an abort ends it."""
    first, second = device.create_stream(name="first"), device.create_stream(name="second")
    said: list[str] = []
    news = anyio.Event()

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())
            news.set()

    handler = Heard()
    logging.getLogger("atops.stall").addHandler(handler)
    try:
        stuck = build(device, first, second)
        with anyio.fail_after(1):
            await news.wait()
        first.abort()
        second.abort()
        with pytest.raises((atops.errors.StreamAborted, HostCallFailure)):  # the latter where its wait ended first
            await stuck
    finally:
        logging.getLogger("atops.stall").removeHandler(handler)
    assert len(said) == 1
    assert "awaits what waits for it" in said[0]
    assert "waits for the host callable" in said[0] and "which awaits <Completion" in said[0]


@on_every_host
async def test_a_coroutine_may_await_other_work(device):
    """Another stream, and later work of its own stream that does not wait for it; a task of its own may await more."""
    first, second = device.create_stream(), device.create_stream()
    behind: list[int] = []

    async def other_stream() -> None:
        await second.record()

    async def later_work() -> int:
        return len(await first.fetch(first.zeros(3)))

    with anyio.fail_after(20):
        await first.call(other_stream)
        assert await second.call(later_work) == 3
        assert await first.call(later_work, holds=False) == 3
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                await first.record()
                behind.append(1)

            async def leaves_a_task() -> None:
                tasks.start_soon(watch)

            await first.call(leaves_a_task)
    assert behind == [1]


async def awaits_a_value(device: atops.Device, stream: atops.Stream) -> None:
    """Await a word that nothing writes."""
    await stream.wait_value(stream.zeros(1, "int32"), 1)


async def awaits_values_in_a_group(device: atops.Device, stream: atops.Stream) -> None:
    """Await two of them, in tasks."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(awaits_a_value(device, stream))
        tasks.create_task(awaits_a_value(device, device.create_stream()))


async def awaits_values_together(device: atops.Device, stream: atops.Stream) -> None:
    """Await two of them by gather."""
    await asyncio.gather(awaits_a_value(device, stream), awaits_a_value(device, device.create_stream()))


async def awaits_room(device: atops.Device, stream: atops.Stream) -> None:
    """Await room in a stream whose only command waits for a word."""
    narrow = device.create_stream(capacity=1)
    narrow.wait_value(stream.zeros(1, "int32"), 1)
    async with narrow.room(1):
        raise AssertionError


async def awaits_a_task_that_awaits_its_stream(device: atops.Device, stream: atops.Stream) -> None:
    """Await a coroutine in a stream that awaits a task group, a task of which awaits what is behind the coroutine."""

    async def inner() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(awaits_a_record(stream))

    await stream.call(inner)


async def awaits_a_record(stream: atops.Stream) -> None:
    """Await an event of the stream."""
    await stream.record()


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield every exception that an error consists of or comes from."""
    yield error
    for each in (error.__cause__, *getattr(error, "exceptions", ())):
        if each is not None:
            yield from causes(each)


@pytest.mark.parametrize("clock", ["virtual", pytest.param("wall", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "wait",
    [
        awaits_a_value, awaits_values_in_a_group, awaits_values_together, awaits_room,
        awaits_a_task_that_awaits_its_stream,
    ],
)  # fmt: skip
def test_an_await_that_nothing_can_end_is_refused(wait: Callable[..., Any], clock: str, monkeypatch) -> None:
    """Inline, as the blocking form is: WouldDeadlock says what each stream waits for."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # other tests' threads

    async def main() -> None:
        device = atops.Device(0)
        with pytest.raises((WouldDeadlock, HostCallFailure, BaseExceptionGroup)) as caught:
            await wait(device, device.create_stream(name="alone"))
        (found, *_) = [each for each in causes(caught.value) if isinstance(each, WouldDeadlock)]
        assert "nothing is left to run that could end this wait" in str(found)
        assert "waits for" in str(found)

    atops.run(main, atops.EmulatorOptions(clock=clock))


@on_hosts("inline", clock="virtual")
async def test_an_await_that_a_timer_may_end_goes_on(device):
    """A task that sleeps may write the word, however late; a deadline ends the wait as a deadline."""
    stream, other = device.create_stream(), device.create_stream(nonblocking=True)
    word = other.zeros(1, "int32")
    await other

    async def late() -> None:
        await anyio.sleep(30)
        other.write_value(word, 1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(late)
        await stream.wait_value(word, 1)
    with pytest.raises(TimeoutError), anyio.fail_after(10):
        await stream.wait_value(word, 5)
