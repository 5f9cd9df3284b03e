"""The failure contract: what a failed command does to its stream and to others, seen by the program or not."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import (
    AtopsError,
    ExecutionError,
    HostCallFailure,
    IllegalAddress,
    LaunchFailure,
    PriorLaunchFailure,
    Result,
    StreamAborted,
)
from atops.device.topology import Topology
from atops.runtime.commands.fill import Fill
from atops.runtime.commands.launch import Launch
from atops.runtime.core.commands import ROWS
from atops.runtime.driver import board_of
from atops.runtime.stream import queue_of
from tests.runtime.boards import settle
from tests.runtime.hosts import board, on_every_host
from tests.runtime.latch import hold


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


@k.kernel
def fails_at_once():
    """Raise in the first thread."""
    raise ZeroDivisionError("on purpose")


@k.kernel
async def broken(x):
    """Raise in one thread, while the others wait for it."""
    if k.blockIdx.x == 1 and k.threadIdx.x == 3:
        raise ZeroDivisionError("on purpose")
    await k.syncthreads()


@k.kernel
def store(x, value: np.int32):
    """Store one value."""
    x[0] = value


def fail():
    """Raise, as a host callable of a stream that is to fail."""
    raise RuntimeError("on purpose")


def causes(error: BaseException) -> list[type[BaseException]]:
    """Return the types along the chain of causes."""
    chain = []
    while (error := error.__cause__) is not None:
        chain.append(type(error))
    return chain


@on_every_host
async def test_a_kernels_exception_is_a_launch_failure(device):
    """It names the kernel, block and thread, and carries the kernel's own exception and traceback."""
    stream = device.create_stream()
    with pytest.raises(LaunchFailure, match=r"broken.*ZeroDivisionError: on purpose") as caught:
        await stream.launch(broken, (2, 4), device.empty(1))
    error = caught.value
    assert (error.block, error.thread) == ((1, 0, 0), (3, 0, 0))
    while not isinstance(error, ZeroDivisionError):
        error = error.__cause__
    frames = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert frames == ["broken"]
    stream.clear_error()


class Mute(BaseException):
    """An exception whose message cannot be had: str() and repr() raise `why`."""

    def __init__(self, why: BaseException) -> None:
        self.why = why

    def __str__(self) -> str:
        raise self.why

    __repr__ = __str__


class OfTheProgram(LaunchFailure):
    """A LaunchFailure that is made of two arguments."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")


class WithFields(LaunchFailure):
    """A LaunchFailure whose message needs what its __init__ sets."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.retry = True

    def __str__(self) -> str:
        return f"{self.args[0]}, {self.retry}"


class MadeOfTwo(LaunchFailure):
    """A LaunchFailure that cannot be made of one argument in any way."""

    def __new__(cls, place: str, _reason: str) -> Self:
        return super().__new__(cls, place)

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")


class Unplaced(LaunchFailure):
    """A LaunchFailure that takes no block."""

    block = property(lambda self: (3, 0, 0))  # type: ignore[assignment]


class Untold(LaunchFailure):
    """A LaunchFailure whose message needs what only its own arguments set."""

    def __init__(self, place: str, reason: str) -> None:
        self.said = f"{place}: {reason}"

    def __str__(self) -> str:
        return self.said


class Codeless(ExecutionError):
    """An execution error whose code cannot be had."""

    @property
    def code(self) -> Result:
        raise RuntimeError("code")


RAISED = {
    Mute(RuntimeError("mute")): LaunchFailure,
    Mute(SystemExit(1)): LaunchFailure,
    OfTheProgram("here", "on purpose"): OfTheProgram,
    WithFields("here"): WithFields,
    MadeOfTwo("here", "on purpose"): LaunchFailure,
    Unplaced("here"): LaunchFailure,
    Untold("here", "on purpose"): LaunchFailure,
    Codeless("here"): LaunchFailure,
}


@k.kernel
async def raises(which: np.int32):
    """Raise what the program chose."""
    raise list(RAISED)[which]


@on_every_host
async def test_a_command_ends_whatever_its_exception_is(device):
    """One that cannot tell its message, or be made of a message, fails the command as any other one does."""
    stream = device.create_stream()

    def call(which: int) -> None:
        raise list(RAISED)[which]

    for which, (error, kind) in enumerate(RAISED.items()):
        for enqueue, expected in (
            (lambda which=which: stream.launch(raises, (1, 1), which), kind),
            (lambda which=which: stream.call(call, which), HostCallFailure),
        ):
            with anyio.fail_after(5), pytest.raises(expected) as caught:
                await enqueue()
            assert (type(caught.value), caught.value.__cause__) == (expected, error)
            with anyio.fail_after(5), pytest.raises(PriorLaunchFailure, match="after a failure: "):
                await enqueue()
            stream.clear_error()
    assert str(caught.value) and stream.error is None


@on_every_host
async def test_later_commands_are_skipped(device):
    """L33: after a failure every kind of command is skipped with PriorLaunchFailure chained to the first error."""
    stream, x, log = device.create_stream(), device.empty(4, np.int32), []
    x.allocation.data[:] = 7
    latch = hold(stream)
    first = stream.launch(broken, (2, 4), x)
    skipped = [
        stream.fill(x, 0),
        stream.copy(x, np.zeros(4, np.int32)),
        stream.launch(store, (1, 1), x, 1),
        stream.write_value(x, 1),
        stream.wait_value(x, -1, "Eq"),
        stream.call(log.append, 1),
        stream.wait(device.create_event()),
        stream.record().completion,
    ]
    latch.release()
    for item in skipped:
        with pytest.raises(PriorLaunchFailure, match="skipped") as caught:
            await item
        assert LaunchFailure in causes(caught.value) and causes(caught.value)[-1] is ZeroDivisionError
    with pytest.raises(LaunchFailure):
        first.result()
    assert not log and (x.allocation.data == 7).all()
    with pytest.raises(PriorLaunchFailure):
        await stream.fill(x, 0)  # and so are those that are enqueued later
    stream.clear_error()


@on_every_host
async def test_the_trace_tells_how_commands_ended(device):
    """Each finished command is traced once: done, failed, skipped or aborted; duties of a failed stream are done."""
    stream, other = device.create_stream(), device.create_stream()
    x = stream.zeros(4)
    latch = hold(stream)
    items = {
        "DONE": stream.fill(x, 1), "FAILED": stream.call(fail), "SKIPPED": stream.fill(x, 2),
        "duty": stream.add_callback(lambda error: None),
    }  # fmt: skip
    latch.release()
    with pytest.raises(HostCallFailure):
        await stream
    hold(other)
    items["ABORTED"] = other.fill(x, 1)
    other.abort()
    await other
    ended = [(record.seq, record.status.name) for record in device.driver.tracer.records()]
    for status, item in items.items():
        assert [each for each in ended if each[0] == item.seq] == [(item.seq, "DONE" if status == "duty" else status)]
    stream.clear_error()


@on_every_host
async def test_other_streams_go_on(device):
    """A failure stays in its stream."""
    failing, other = device.create_stream(), device.create_stream()
    failing.call(fail)
    assert (await other.fetch(other.upload(np.arange(4))) == range(4)).all()
    with pytest.raises(HostCallFailure):
        await failing
    assert other.error is None
    failing.clear_error()


@on_every_host
async def test_the_first_error_stays_until_it_is_cleared(device):
    """`await stream` and `await device.wait()` raise it again and again; clear_error returns it and ends it."""
    stream, x = device.create_stream(), device.empty(1, np.int32)
    stream.call(fail)
    stream.launch(broken, (2, 4), x)
    for _ in range(2):
        with pytest.raises(HostCallFailure):
            await stream
        with pytest.raises(HostCallFailure):
            await device.wait()
    error = stream.error
    assert isinstance(error, HostCallFailure) and stream.clear_error() is error
    assert stream.error is None and stream.clear_error() is None
    await stream.fill(x, 1)
    await stream
    await device.wait()


@on_every_host
async def test_a_failure_that_was_seen_goes_with_its_stream(device):
    """The device reports a failure as long as its stream is open, and after that only if it was not seen."""
    stream = device.create_stream()
    call = stream.call(fail)
    with pytest.raises(HostCallFailure):
        await call
    assert device.statistics().poisoned_streams == 1
    stream.close()
    assert device.statistics().poisoned_streams == 0
    await device.wait()


@on_every_host
async def test_each_waiter_gets_a_fresh_exception(device):
    """No two waiters share an exception: one's traceback does not grow into another's."""
    stream = device.create_stream()
    call = stream.call(fail)
    caught = []
    for wait in (lambda: call, lambda: call, lambda: stream, lambda: stream, lambda: device.wait()):
        with pytest.raises(HostCallFailure) as each:
            await wait()
        caught.append(each.value)
    with pytest.raises(HostCallFailure) as each:
        call.result()
    caught.append(each.value)
    assert len({id(error) for error in caught}) == len(caught)
    assert len({str(error) for error in caught}) == 1
    assert all(RuntimeError in causes(error) for error in caught)
    stream.clear_error()


@on_every_host
async def test_frees_run_after_a_failure(device):
    """Duties survive: what was freed, and what the scope owns, goes back though the stream failed."""
    free_before, _ = device.memory_info()
    async with device.create_stream() as stream:
        x, y = stream.zeros(1 << 20), stream.zeros(1 << 20)
        latch = hold(stream)
        stream.call(fail)
        stream.free(x)
        latch.release()
        with pytest.raises(HostCallFailure):
            await stream
        assert not x.allocation.alive and y.allocation.alive
    assert not y.allocation.alive
    device.context.default_pool.trim()
    assert device.memory_info()[0] >= free_before - (1 << 20)


@on_every_host
async def test_memory_freed_before_the_command_runs(device):
    """A copy whose memory is gone when it runs fails with IllegalAddress naming what freed it; at the call as well."""
    first, second = device.create_stream(), device.create_stream()
    x = first.upload(np.arange(4))
    await first
    latch = hold(second)
    late = second.copy(np.empty(4, np.int64), x)
    first.free(x)
    await first
    latch.release()
    with pytest.raises(IllegalAddress, match="freed by"):
        await late
    with pytest.raises(IllegalAddress, match="freed by"):
        second.fill(x, 0)
    second.clear_error()


@on_every_host
async def test_a_refused_command_poisons_nothing(device):
    """What is wrong at the call raises there: nothing was enqueued, the stream is well."""
    stream = device.create_stream()
    for wrong in (lambda: stream.fill(device.empty(1), "x"), lambda: stream.launch(broken, (1, 99), device.empty(1))):
        with pytest.raises(AtopsError):
            wrong()
    assert stream.is_done and stream.error is None


# ---- failures that were never looked at


@pytest.mark.anyio
@pytest.mark.parametrize(
    "look", [None, "result", "exception", "error", "sync", "callback", "event", "device", "skipped"]
)
async def test_an_unseen_failure_is_logged_once(device, caplog, look):
    """At the close of the stream; not if the program awaited it, was given it or asked for it."""
    caplog.set_level(logging.ERROR, "atops")
    stream, other = device.create_stream(name="the stream"), device.create_stream()
    call = stream.call(fail)
    later, event = stream.call(int), stream.record()
    while not (later.done() and event.is_done):
        await anyio.lowlevel.checkpoint()
    looks = {
        "result": lambda: call.result(), "exception": lambda: call.exception(), "error": lambda: stream.error,
        "sync": lambda: stream.sync(), "event": lambda: event.sync(), "device": lambda: device.sync(),
        "skipped": lambda: later.result(), "callback": lambda: call.add_done_callback(lambda done: done.exception()),
    }  # fmt: skip
    if look is not None:
        with suppress(AtopsError):
            looks[look]()
    for _ in range(3):  # a done callback is called soon
        await anyio.lowlevel.checkpoint()
    await stream.aclose()
    await stream.aclose()
    await other.aclose()
    logged = [record.getMessage() for record in caplog.records]
    if look is None:
        assert len(logged) == 1 and "the stream" in logged[0] and "a failure that was never looked at" in logged[0]
        assert caplog.records[0].exc_info is not None
    else:
        assert not logged


@pytest.mark.anyio
async def test_what_a_callback_raises_behind_a_failure_is_logged(device, caplog):
    """The stream tells of its first failure; one of a callback that was told of it is not lost."""
    caplog.set_level(logging.ERROR, "atops")
    stream = device.create_stream(name="the stream")
    stream.call(fail)
    callback = stream.add_callback(lambda error: {}["missing"])
    while not callback.done():
        await anyio.lowlevel.checkpoint()
    stream.clear_error()
    await stream.aclose()
    settle(device.driver)
    with anyio.fail_after(60):  # it is logged by a thread for callbacks, where there is one
        while not caplog.records:
            await anyio.lowlevel.checkpoint()
    [record] = caplog.records
    assert record.getMessage().startswith("the stream raised behind a failure: ") and "'missing'" in record.getMessage()


@pytest.mark.parametrize("seen", [True, False])
def test_closing_a_driver_logs_what_was_never_looked_at(caplog, seen):
    """The failures of streams that are open then, once."""
    driver = atops.Driver()
    stream = atops.Device(0, driver).create_stream(name="the stream")
    call = stream.call(fail)
    while not call.done():
        stream.device.create_stream().call(int).wait_sync(5)
    if seen:
        assert stream.error is not None
    driver.close()
    driver.close()
    assert ["the stream" in record.getMessage() for record in caplog.records] == ([] if seen else [True])


class Handler(logging.Handler):
    """A handler of the log that uses the runtime, as it may, and notes what it is told and by which thread."""

    def __init__(self, device: atops.Device) -> None:
        super().__init__(logging.ERROR)
        self.device, self.told = device, list[str]()
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Note it."""
        self.device.create_stream().close()
        self.told.append(record.getMessage())
        self.came.set()


@pytest.mark.slow
def test_a_failed_stream_that_is_never_closed_is_collected_and_logged(device):
    """Its error, with the frames of the kernel, does not keep it. A collection under the driver's lock is no harm."""
    handler, over = Handler(device), threading.Event()
    logging.getLogger("atops.stream").addHandler(handler)
    try:
        stream = device.create_stream(name="the stream")
        gone = weakref.ref(queue_of(stream))
        stream.launch(fails_at_once, (1, 1))
        stream.call(int).add_done_callback(lambda skipped: over.set())
        assert over.wait(60)
        del stream
        while gone() is not None:  # the threads that settled it may still be on their way out
            with board_of(device.driver).lock:
                gc.collect()
        assert handler.came.wait(60)
    finally:
        logging.getLogger("atops.stream").removeHandler(handler)
    assert len(handler.told) == 1
    assert handler.told[0].startswith("the stream ended with a failure that was never looked at")
    assert not device.context.poisoned


# ---- from plain code


def test_every_blocking_wait_raises_the_failure(device: atops.Device):
    """The stream's, the event's and the device's `sync`, and the completion's `wait_sync`."""
    stream = device.create_stream()
    call, event = stream.call(fail), stream.record()
    for wait, error in (
        (stream.sync, HostCallFailure),
        (device.sync, HostCallFailure),
        (call.wait_sync, HostCallFailure),
        (event.sync, PriorLaunchFailure),
    ):
        for _ in range(2):
            with pytest.raises(error):
                wait()
    stream.clear_error()
    device.sync()


def test_a_reset_ends_the_failure(device: atops.Device):
    """L33: sticky until the device's reset; then the device is fresh and the old stream is dead."""
    stream = device.create_stream()
    stream.call(fail)
    with pytest.raises(HostCallFailure):
        device.sync()
    device.reset_sync()
    device.sync()
    device.create_stream().fill(device.empty(1), 1).wait_sync()
    with pytest.raises(AtopsError, match="reset"):
        stream.fill(device.empty(1), 1)


def undescribed(*_):
    """Raise, as a mistake in what describes a command to the tracer would."""
    raise KeyError("no description")


@on_every_host
async def test_a_command_that_cannot_be_described_fails(device):
    """What goes wrong in making its trace record fails the command and its stream, which then go on by their rules."""
    stream, x = device.create_stream(), device.empty(4, np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ROWS, Fill, ROWS[Fill]._replace(describe=undescribed))
        failed, skipped = stream.fill(x, 0), stream.copy(x, np.zeros(4, np.int32))
        with pytest.raises(ExecutionError, match=r"trace record of fill \(command \d+\).*KeyError"):
            await failed
        with pytest.raises(PriorLaunchFailure, match="trace record of fill"):
            await skipped
        assert isinstance(stream.clear_error(), ExecutionError)
        stream.call(fail)
        own = stream.fill(x, 0)  # skipped: it keeps the error that it has
        with pytest.raises(PriorLaunchFailure):
            await own
        assert isinstance(stream.clear_error(), HostCallFailure)
        await stream.copy(x, np.ones(4, np.int32))
    await stream.fill(x, 0)


@on_every_host
async def test_an_aborted_command_that_cannot_be_described(device):
    """It is dropped as any other, and so are those behind it."""
    stream, x = device.create_stream(), device.empty(4, np.int32)
    latch = hold(stream)
    dropped = [stream.fill(x, 0), stream.copy(x, np.zeros(4, np.int32))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ROWS, Fill, ROWS[Fill]._replace(describe=undescribed))
        assert stream.abort() >= 2  # what holds the stream may not have begun
    latch.release()
    for each in dropped:
        with pytest.raises(StreamAborted):
            await each
    await stream.fill(x, 0)


@on_every_host
async def test_details_of_a_command_that_cannot_be_told(device):
    """A mistake in telling a viewer of a queued command fails that command, not the thread that enqueues it."""
    stream, x = device.create_stream(), device.empty(4, np.int32)
    with pytest.MonkeyPatch.context() as patch, device.driver.tracer.detailed():
        patch.setitem(ROWS, Launch, ROWS[Launch]._replace(uses=undescribed))
        patch.setitem(ROWS, Fill, ROWS[Fill]._replace(describe=undescribed))
        for failed in (stream.fill(x, 0), stream.launch(store, (1, 1), x, 1)):
            with pytest.raises(ExecutionError, match="no description"):
                await failed
            stream.clear_error()
    await stream.fill(x, 0)


def test_a_relayed_copy_whose_first_half_cannot_be_described(monkeypatch):
    """A copy between devices without a link fails as a whole, and its stream goes on."""
    with board(devices=2, trace=100) as device:
        board_of(device.driver).topology = Topology(2, switch=1, across_roots=False)
        monkeypatch.setattr("atops.runtime.driver_board.trace_tuple", undescribed)
        there = atops.Device(1, device.driver).empty(4, np.int32)
        stream = device.create_stream()
        with pytest.raises(ExecutionError, match="trace record of copy"):
            stream.copy(there, device.empty(4, np.int32)).wait_sync(30)
        monkeypatch.undo()
        stream.clear_error()
        stream.fill(device.empty(4), 0).wait_sync(30)


@on_every_host
async def test_a_device_raises_the_failure_of_its_first_stream(device):
    """Of several streams that have failed it is that of the one made first, whichever failed first."""

    def fail(number):
        raise ValueError(f"number {number}")

    streams = [device.create_stream() for _ in range(8)]
    for number in reversed(range(8)):
        with pytest.raises(HostCallFailure):
            await streams[number].call(fail, number)
    for number, stream in enumerate(streams):
        with pytest.raises(HostCallFailure, match=f"number {number}"):
            await device.wait()
        stream.clear_error()
    await device.wait()


def test_a_stream_that_fails_often_leaves_one_finalizer(device: atops.Device):
    """What logs a failure that the program never saw is made for the newest failure alone."""
    stream, registry = device.create_stream(), weakref.finalize._registry
    before = len(registry)
    for _ in range(20):
        with pytest.raises(ExecutionError):
            stream.launch(fails_at_once, (1, 1)).wait_sync(20)
        stream.clear_error()
    assert len(registry) <= before + 1
