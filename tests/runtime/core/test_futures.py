"""Completions and events as futures: asyncio's functions, done callbacks, contexts, and `cancel` of one command."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import logging
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import CommandCancelled, IllegalState, InvalidType, NotReady, PriorLaunchFailure
from tests.every import every
from tests.runtime.hosts import board, on_every_host, on_hosts
from tests.runtime.latch import KernelLatch, StreamLatch, hold

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nothing")
TURNS = 6  # of the loop, after which a task has come to its wait

on_inline_hosts = on_hosts("inline", "shuffled")


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


async def turns(count: int = TURNS) -> None:
    """Let the loop turn."""
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


# ---- asyncio's functions


async def in_wait(thing: Any) -> Any:
    """`asyncio.wait` gives back the objects that it was given."""
    done, pending = await asyncio.wait([thing])
    assert done == {thing} and not pending
    return thing.result()


async def in_wait_for_the_first_failure(thing: Any) -> Any:
    """It asks each for its exception."""
    done, _ = await asyncio.wait({thing}, return_when=asyncio.FIRST_EXCEPTION)
    return done.pop().result()


async def in_wait_with_a_timeout(thing: Any) -> Any:
    """What is not over in time is pending, and no callback is left."""
    done, pending = await asyncio.wait([thing], timeout=0)
    assert not done and pending == {thing}
    return await thing


async def in_as_completed(thing: Any) -> Any:
    """Each that is over, in turn."""
    for each in asyncio.as_completed([thing]):
        return await each


async def in_gather(thing: Any) -> Any:
    """The results of all."""
    return (await asyncio.gather(thing, asyncio.sleep(0)))[0]


async def in_timeout(thing: Any) -> Any:
    """A block with a deadline."""
    async with asyncio.timeout(60):
        return await thing


async def in_task_group(thing: Any) -> Any:
    """A task of a group."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(thing.wait())
    return task.result()


WAYS: list[Callable[[Any], Awaitable[Any]]] = [
    in_wait, in_wait_for_the_first_failure, in_wait_with_a_timeout, in_as_completed, in_gather, in_timeout,
    in_task_group, asyncio.shield, asyncio.ensure_future, asyncio.wrap_future,
    lambda thing: asyncio.wait_for(thing, 60),
    lambda thing: asyncio.create_task(thing.wait()),
    lambda thing: asyncio.wrap_future(asyncio.wrap_future(thing)),
]  # fmt: skip
KINDS: dict[str, Callable[[atops.Stream], Any]] = {
    "completion": lambda stream: stream.call(lambda: 7),
    "event": lambda stream: stream.record(),
}


@every("way, kind, cancelled", [(way, kind, bad) for way in WAYS for kind in KINDS for bad in (False, True)])
def test_functions_of_asyncio(device: atops.Device, way: Any, kind: str, cancelled: bool) -> None:
    """Each takes completions and events as they are; cancelling the task that waits leaves the command alone."""

    async def main() -> None:
        stream = device.create_stream()
        latch = hold(stream)
        thing = KINDS[kind](stream)
        result = 7 if kind == "completion" else None

        async def waits() -> Any:
            return await way(thing)

        task = asyncio.create_task(waits())
        await turns()
        assert not task.done()
        if cancelled:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await turns()
            assert not thing.done() and not thing.cancelled()
            latch.release()
            assert await thing is thing.result() is result
        else:
            latch.release()
            assert await task == result
        await stream.aclose()

    asyncio.run(main())


def test_the_first_of_several(device: atops.Device) -> None:
    """`asyncio.wait` returns when the first is over, events and completions mixed; the rest can be waited for again."""

    async def main() -> None:
        quick, slow = device.create_stream(), device.create_stream()
        latch = hold(slow)
        first, last, event = quick.call(lambda: 1), slow.call(lambda: 2), slow.record()
        done, pending = await asyncio.wait([first, last, event], return_when=asyncio.FIRST_COMPLETED)
        assert done == {first} and pending == {last, event}
        latch.release()
        done, pending = await asyncio.wait(pending)
        assert done == {last, event} and not pending

    asyncio.run(main())


@on_every_host
async def test_the_protocol_of_a_future(device):
    """The methods answer as a future's do, before and after the end; nothing but the stream settles it."""
    stream = device.create_stream()
    for make in KINDS.values():
        latch = hold(stream)
        thing = make(stream)
        assert isinstance(thing, Future) and not asyncio.isfuture(thing)
        assert not (thing.done() or thing.is_done or thing.cancelled() or thing.running())
        for ask in (thing.result, thing.exception):
            with pytest.raises(NotReady):
                ask()
        for settle in (thing.set_result, thing.set_exception):
            with pytest.raises(IllegalState, match="settled by its stream"):
                settle(None)
        latch.release()
        result = await thing
        assert thing.done() and thing.is_done and not thing.cancelled() and not thing.running()
        assert thing.result() == result and thing.exception() is None and not thing.cancel()


@on_every_host
async def test_an_event_goes_by_its_current_record(device):
    """`completion` is the record of the moment; an event without a record is over, and gives callbacks itself."""
    stream, event, seen = device.create_stream(), device.create_event(), []
    assert event.completion is None and event.done() and event.result() is None and event.exception() is None
    assert not event.cancelled() and not event.running() and not event.cancel() and await event.wait() is None
    event.add_done_callback(seen.append)
    assert event.remove_done_callback(seen.append) == 0
    stream.record(event)
    old = event.completion
    await old
    latch = hold(stream)
    stream.record(event)
    assert old.done() and not event.done() and event.completion is not old
    event.add_done_callback(seen.append)
    latch.release()
    await event
    await turns()
    assert seen == [event, event.completion]


# ---- done callbacks


@pytest.mark.anyio
async def test_a_done_callback_runs_on_its_loop_and_in_its_context(device):
    """Where it was added, with the variables of that moment or those given, and before a task that waited later."""
    stream, seen, here = device.create_stream(), [], threading.get_ident()
    latch = hold(stream)
    call = stream.call(int)

    def note(done: Any) -> None:
        seen.append((NAME.get(), threading.get_ident() == here))

    own = contextvars.copy_context()
    own.run(NAME.set, "given")
    NAME.set("task")
    call.add_done_callback(note)
    call.add_done_callback(note, context=own)
    NAME.set("later")
    latch.release()
    await call
    assert seen == [("task", True), ("given", True)]
    call.add_done_callback(note)
    assert len(seen) == 2, "it is called soon, not at once"
    await turns()
    assert seen[2:] == [("later", True)]
    with pytest.raises(InvalidType, match=r"expects a contextvars\.Context as context, got 3"):
        call.add_done_callback(note, context=3)


def test_a_done_callback_of_plain_code_has_its_context(device: atops.Device) -> None:
    """On a callback thread, with a copy of the caller's variables; at once where the command is over."""
    stream, seen, called = device.create_stream(), [], threading.Event()
    latch = hold(stream)
    call = stream.call(int)

    def note(done: object) -> None:
        seen.append((NAME.get(), threading.get_ident()))
        called.set()

    def program() -> None:
        NAME.set("plain")
        call.add_done_callback(note)

    contextvars.copy_context().run(program)
    latch.release()
    call.wait_sync()
    assert called.wait(10)
    call.add_done_callback(note)
    assert [name for name, _ in seen] == ["plain", "nothing"]
    assert seen[0][1] != threading.get_ident() == seen[1][1]


def test_a_done_callback_of_a_loop_that_has_closed(device: atops.Device) -> None:
    """It is called on a callback thread, in its context."""
    stream, seen, called = device.create_stream(), [], threading.Event()
    latch = hold(stream)
    call = stream.call(int)

    def note(done: object) -> None:
        seen.append(NAME.get())
        called.set()

    async def main() -> None:
        NAME.set("closed")
        call.add_done_callback(note)

    asyncio.run(main())
    latch.release()
    assert called.wait(10) and seen == ["closed"]


@pytest.mark.anyio
async def test_done_callbacks_are_removed(device):
    """All of a function, however often and wherever it was added; those of others stay."""
    stream, seen, kept = device.create_stream(), [], []
    latch = hold(stream)
    call = stream.call(int)
    for _ in range(2):
        call.add_done_callback(seen.append)
        await anyio.to_thread.run_sync(call.add_done_callback, seen.append)
    call.add_done_callback(kept.append)
    assert call.remove_done_callback(seen.append) == 4 and call.remove_done_callback(seen.append) == 0
    latch.release()
    await call
    await turns()
    assert (seen, kept) == ([], [call])


def test_what_a_done_callback_raises_goes_to_the_loops_handler(device: atops.Device) -> None:
    """As what `call_soon` was given; the task that waits goes on."""
    reports: list[dict[str, Any]] = []

    def broken(done: object) -> None:
        raise ValueError("on purpose")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, report: reports.append(report))
        stream = device.create_stream()
        latch = hold(stream)
        call = stream.call(lambda: 7)
        call.add_done_callback(broken)
        latch.release()
        assert await call == 7

    asyncio.run(main())
    assert [str(each["exception"]) for each in reports] == ["on purpose"]


@on_every_host
async def test_kernels_and_calls_see_the_launchers_variables(device):
    """Those of the moment of the call, in every block; what a kernel sets, no other block and no host sees."""
    stream, seen = device.create_stream(), []

    @k.kernel
    async def look():
        seen.append(NAME.get())
        NAME.set(f"block {k.blockIdx.x}")
        await k.syncthreads()
        seen.append(NAME.get())

    async def coroutine() -> None:
        seen.append(NAME.get())

    NAME.set("launcher")
    latch = hold(stream)
    launch, *_ = stream.launch(look, (2, 1)), stream.call(lambda: seen.append(NAME.get())), stream.call(coroutine)
    NAME.set("later")
    latch.release()
    await launch
    assert sorted(seen[:4]) == ["block 0", "block 1", "launcher", "launcher"]
    await stream
    assert seen[4:] == ["launcher", "launcher"] and NAME.get() == "later"


# ---- cancel


@on_every_host
async def test_cancelling_a_command_that_has_not_started(device):
    """It is over at once with its error; what comes before and behind it runs, and the stream has not failed."""
    stream = device.create_stream()
    x = stream.upload(np.zeros(4, np.int32))
    await stream
    latch = hold(stream)
    before, dropped, behind = stream.fill(x[:1], 1), stream.fill(x[1:2], 1), stream.fill(x[2:], 1)
    assert dropped.cancel("not wanted") is True
    assert dropped.done() and dropped.cancelled() and not before.done() and not behind.done()
    with pytest.raises(CommandCancelled, match=r"fill \(command \d+\) on .* was cancelled: not wanted"):
        await dropped
    assert isinstance(dropped.exception(), CommandCancelled) and not dropped.cancel()
    latch.release()
    assert (await stream.fetch(x)).tolist() == [1, 0, 1, 1]
    assert stream.error is None and behind.done() and not behind.cancelled()


@on_every_host
async def test_cancelling_a_wait_that_is_parked(device):
    """Waits for a value and for an event end, and what comes behind them runs."""
    stream, other, word = device.create_stream(), device.create_stream(), device.empty(1, np.uint32)
    await stream.fill(word, 0)
    latch = hold(other)
    event = other.record()
    for wait in (lambda: stream.wait_value(word, 1, "Eq"), lambda: stream.wait(event)):
        parked = wait()
        behind = stream.call(lambda: 7)
        await latch.passed()
        assert parked.running() and parked.cancel()
        with pytest.raises(CommandCancelled):
            await parked
        assert await behind == 7 and stream.error is None
    latch.release()
    await event


@on_every_host
async def test_cancelling_a_coroutine(device):
    """Its task is cancelled: it may tidy up, and the stream goes on when it has ended."""
    stream, log = device.create_stream(), []
    begun = anyio.Event()

    async def work() -> None:
        try:
            begun.set()
            await anyio.sleep(3600)
        finally:
            log.append("tidied")

    call, behind = stream.call(work), stream.call(lambda: log.append("behind"))
    await begun.wait()
    assert call.cancel() and not call.done()
    with pytest.raises(CommandCancelled):
        await call
    await behind
    assert log == ["tidied", "behind"] and stream.error is None and call.cancelled()


@on_every_host
async def test_cancelling_a_call_behind_one_that_runs(device):
    """Nothing waits for calls that do not hold the stream but the next ones: one that is cancelled never runs."""
    log: list[str] = []
    go_on = anyio.Event()

    async def first() -> None:
        await go_on.wait()
        log.append("first")

    async def later(name: str) -> None:
        log.append(name)

    stream = device.create_stream()
    stream.call(first, holds=False)
    dropped = stream.call(later, "dropped", holds=False)
    last = stream.call(later, "last", holds=False)
    await stream.fill(device.empty(4, np.uint8), 1)
    assert dropped.running() and dropped.cancel() and dropped.cancelled()
    go_on.set()
    await last
    assert log == ["first", "last"] and stream.error is None


@on_every_host
async def test_cancelling_a_kernel(device):
    """It is closed at its next suspension, and the stream goes on."""
    stream, latch = device.create_stream(), KernelLatch()
    launch = latch.hold(stream)
    while not latch.started.is_set():
        await anyio.lowlevel.checkpoint()
    assert launch.cancel()
    with pytest.raises(CommandCancelled):
        await launch
    assert latch.closed == 1 and await stream.call(lambda: 7) == 7
    latch.release()


def test_what_cannot_be_cancelled(device: atops.Device) -> None:
    """A function that runs, a callback, and what is over: False, and nothing changes."""
    stream, begun, gate, told = device.create_stream(), threading.Event(), threading.Event(), []

    def work() -> int:
        begun.set()
        assert gate.wait(10)
        return 7

    call, callback = stream.call(work), stream.add_callback(told.append)
    assert begun.wait(10)
    assert not call.cancel() and not callback.cancel()
    gate.set()
    assert call.wait_sync() == 7 and not call.cancel()
    callback.wait_sync()
    assert told == [None]


def test_cancelling_copies_that_wait_for_an_engine() -> None:
    """One that moves bytes goes on, and says so; one that waits for the link is dropped."""

    async def main() -> None:
        device = atops.Device(0)
        one, two = device.create_stream(), device.create_stream()
        host = np.zeros(1 << 20, np.uint8)
        array = device.empty(host.size, np.uint8)
        moving, waiting = one.copy(array, host), two.fetch(array)
        await asyncio.sleep(1e-6)
        assert not moving.cancel() and waiting.cancel()
        await moving
        with pytest.raises(CommandCancelled):
            await waiting
        await two

    atops.run(main, atops.EmulatorOptions(clock="virtual"))


@on_every_host
async def test_a_cancelled_record_fails_its_event(device):
    """So does what waits for it, as for any record that failed; the event can be recorded again."""
    stream, other = device.create_stream(), device.create_stream()
    latch = hold(stream)
    event = stream.record()
    wait = other.wait(event)
    assert event.cancel() and event.cancelled() and event.state == "failed"
    with pytest.raises(CommandCancelled):
        await event
    with pytest.raises(PriorLaunchFailure):
        await wait
    other.clear_error()
    latch.release()
    await stream.record(event)
    assert event.state == "recorded"


@on_every_host
async def test_a_cancelled_commands_order_stays(device):
    """What waits for its place, in its stream, another one or by a synchronisation, waits for what comes before it."""
    null, stream, log = device.null_stream, device.create_stream(), []
    latch = hold(stream)
    first, last = stream.call(lambda: log.append("first")), stream.call(lambda: log.append("last"))
    ordered = null.call(lambda: log.append("null"))  # waits for `last` in null-stream order
    behind = stream.call(lambda: log.append("behind"))  # waits for `ordered`
    assert last.cancel() and ordered.cancel()
    other = device.create_stream().call(lambda: log.append("other"))
    late = null.call(lambda: log.append("late"))

    async def synchronise() -> None:
        await stream
        log.append("synchronised")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(synchronise)
        await latch.passed()
        await turns()
        assert log == [] and not stream.is_done and not first.done() and not behind.done() and not other.done()
        behind.cancel()
        await turns()
        assert log == []
        latch.release()
    await late
    assert log[0] == "first" and log.index("other") < log.index("late") and "synchronised" in log
    assert {"last", "null", "behind"}.isdisjoint(log)


@on_every_host
@pytest.mark.parametrize("which", ["a parked wait", "a wait that has not started", "the record waited for"])
async def test_memory_is_safe_where_a_wait_is_cancelled(device, which):
    """What a stream frees after a wait that was cancelled is given to nothing until what it waited for is over."""
    user, owner = device.create_stream(nonblocking=True), device.create_stream(nonblocking=True)
    x = owner.zeros(64, np.int32)
    await owner
    latch, other = hold(user), StreamLatch(device)
    used = user.fill(x, 1)
    event = user.record()
    if which == "a wait that has not started":
        other.hold(owner)
    wait = owner.wait(event)
    owner.free(x)
    await latch.passed()
    assert (event if which == "the record waited for" else wait).cancel()
    other.release()
    with contextlib.suppress(atops.errors.ExecutionError):
        await owner
    owner.clear_error()
    y = owner.zeros(64, np.int32)
    assert not used.done() and y.address != x.address
    zeros = await owner.fetch(y)
    latch.release()
    await user
    assert not zeros.any() and not (await owner.fetch(y)).any()


@on_every_host
async def test_synchronising_with_what_is_cancelled_meanwhile(device):
    """A wait for the newest command of a stream, which is then cancelled, is over when those before it are."""
    stream, done = device.create_stream(), []
    latch = hold(stream)
    first, newest = stream.call(int), stream.call(int)

    async def synchronise() -> None:
        await stream
        done.append(first.done())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(synchronise)
        await latch.passed()
        newest.cancel()
        await turns()
        assert done == []
        latch.release()
    assert done == [True]


@on_every_host
async def test_the_place_of_a_cancelled_command_is_free(device):
    """In a stream with a capacity, at once; nothing of the command is kept, and nothing is left."""
    stream, array = device.create_stream(capacity=3), np.zeros(1000)
    latch = StreamLatch(device)
    latch.hold(stream)
    dropped = [stream.call(len, array) for _ in range(2)]
    with pytest.raises(atops.errors.StreamFull):
        stream.call(int)
    for each in dropped:
        assert each.cancel()
    again = [stream.call(lambda: 7) for _ in range(2)]
    latch.release()
    assert [await each for each in again] == [7, 7]
    await stream
    gc.collect()
    assert stream.statistics().pending == 0 and stream.statistics().free == 3


@on_every_host
async def test_cancelling_one_grid_of_a_cooperative_launch(device):
    """The other grids cannot start, and fail by that; nothing is left waiting."""
    one, two = device.create_stream(), device.create_stream()
    latch = hold(one)

    @k.kernel(cooperative=True)
    async def meet():
        await k.syncblocks()

    first, second = atops.launch_together([(one, meet, (1, 1)), (two, meet, (1, 1))], cooperative=True)
    await latch.passed()
    assert first.cancel()
    with pytest.raises(atops.errors.LaunchFailure, match="could not start"):
        await second
    latch.release()
    await one
    two.clear_error()


@pytest.mark.slow
def test_cancelling_while_commands_run(device: atops.Device, tiny_switch_interval: None) -> None:
    """From another thread, at any moment: each command either runs or is cancelled, in order, and none twice."""
    stream, ran = device.create_stream(), list[int]()
    items = [stream.call(ran.append, number) for number in range(300)]
    answers = {}

    def cancel() -> None:
        for number, item in reversed(list(enumerate(items))):
            answers[number] = item.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    thread.join()
    stream.sync()
    assert ran == sorted(ran) == [number for number in range(300) if not answers[number]]
    assert all(item.cancelled() == answers[number] for number, item in enumerate(items))


def test_cancelling_with_null_stream_order_from_many_threads(device: atops.Device, tiny_switch_interval: None) -> None:
    """Ordered commands that have just come to the head of their stream are cancelled for good, or run in order."""
    null, ran = device.null_stream, list[int]()
    for turn in range(60):
        latch = hold(null)
        stream = device.create_stream()
        item, behind = stream.call(ran.append, turn), stream.call(ran.append, -turn)
        assert item.cancel(), "it waits for the null stream, so it has not begun"
        latch.release()
        behind.wait_sync()
        assert item.cancelled()
        stream.close()
    assert ran == [-turn for turn in range(60)]


# ---- what a task shows


def test_a_tasks_repr_names_what_it_waits_for(device: atops.Device) -> None:
    """`repr(task)` has the completion in place of the waiter's type."""

    async def main() -> None:
        stream = device.create_stream(name="load")
        latch = hold(stream)
        call = stream.call(int)
        tasks = [asyncio.ensure_future(call), asyncio.create_task(stream.record().wait())]
        await turns()
        assert "wait_for=<Completion" in repr(tasks[0]) and "call on load, pending" in repr(tasks[0])
        assert "record on load" in repr(tasks[1])
        latch.release()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_debug_mode_names_the_task_that_is_slow(device: atops.Device, caplog: pytest.LogCaptureFixture) -> None:
    """The report of a slow step is about the program's task or callback, not about the bell of the runtime."""
    caplog.set_level(logging.WARNING, "asyncio")

    def slow(done: object) -> None:
        """Be reported."""

    async def waits(call: atops.Completion) -> None:
        await call

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stream = device.create_stream()
        latch = hold(stream)
        call = stream.call(int)
        call.add_done_callback(slow)
        task = asyncio.create_task(waits(call))
        await turns()
        caplog.clear()
        loop.slow_callback_duration = 0  # every step is reported
        latch.release()
        await task
        loop.slow_callback_duration = 1e9

    asyncio.run(main(), debug=True)
    said = [record.getMessage() for record in caplog.records]
    assert any("waits" in each for each in said) and any("slow" in each for each in said)


NESTED = """
import asyncio, threading, nest_asyncio2, atops

async def main():
    loop, gate = asyncio.get_running_loop(), threading.Event()
    call = atops.Device(0).create_stream().call(gate.wait)

    async def last():
        return await call

    async def nested():
        await call
        return loop.run_until_complete(second)

    first, second = asyncio.create_task(nested()), asyncio.create_task(last())
    for _ in range(5):
        await asyncio.sleep(0)
    gate.set()
    assert await first is True

loop = asyncio.new_event_loop()
nest_asyncio2.apply(loop)
for _ in range(20):
    loop.run_until_complete(main())
"""


@pytest.mark.slow
def test_a_task_that_runs_its_loop_until_another_wakes() -> None:
    """Two tasks are woken by one completion; the first runs the loop nested until the second is over."""
    pytest.importorskip("nest_asyncio2")
    subprocess.run([sys.executable, "-c", NESTED], check=True, timeout=60)  # it patches asyncio for the whole process
