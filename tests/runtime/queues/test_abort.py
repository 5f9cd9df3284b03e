"""Abort and close: what has not started is dropped, what runs ends at its next chance, and nothing hangs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import AtopsError, InvalidHandle, StreamAborted
from atops.runtime.commands.copy import HALVES
from atops.runtime.driver import board_of
from atops.runtime.driver_board import COPY_THREADS
from tests.runtime.hosts import board, on_every_host
from tests.runtime.latch import KernelLatch, StreamLatch, StubbornLatch, hold

LONG = 10.0  # seconds that no passing test waits


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


@k.kernel
def store(x, value: np.int32):
    """Store one value."""
    x[0] = value


@on_every_host
async def test_what_has_not_started_is_dropped(device):
    """Queued commands fail with StreamAborted and are counted; the stream is idle, healthy and usable at once."""
    stream, x, log = device.create_stream(), device.empty(4, np.int32), []
    x.allocation.data[:] = 7
    hold(stream)
    items = [stream.fill(x, 0), stream.call(log.append, 1), stream.launch(store, (1, 1), x, 1)]
    items.append(stream.record().completion)
    await StreamLatch(device).passed()
    assert stream.abort() == len(items)
    assert stream.is_done and stream.error is None
    for item in items:
        with pytest.raises(StreamAborted, match="was aborted"):
            await item
    await stream
    assert not log and (x.allocation.data == 7).all()
    assert (await stream.fetch(x) == 0x07070707).all()
    assert stream.abort() == 0


@on_every_host
async def test_parked_waits_end_at_once(device):
    """Waits for a value, an event and the null stream's work end with StreamAborted; what they waited for goes on."""
    other, word = device.create_stream(), device.empty(1, np.int32)
    word.allocation.data[:] = 0
    latch = StreamLatch(device)
    latch.hold(other)
    event = other.record()
    held = latch.hold(device.null_stream)
    for park in (
        lambda stream: stream.wait_value(word, 1),
        lambda stream: stream.wait(event),
        lambda stream: stream.fill(word, 1),
    ):
        stream = device.create_stream()
        item = park(stream)
        await latch.passed()
        assert not item.done()
        stream.abort()
        with pytest.raises(StreamAborted):
            await item
        assert stream.is_done and stream.error is None
    assert not held.done() and not event.is_done
    latch.release()
    await event
    await held


@on_every_host
async def test_a_kernel_is_closed_at_its_next_suspension(device):
    """Its threads' finally clauses run, its completion fails with StreamAborted, and the clusters are free again."""
    stream, latch = device.create_stream(), KernelLatch()
    item = latch.hold(stream, (device.arch.clusters, 3))
    behind = stream.fill(device.empty(1), 1)
    while not latch.started.is_set():
        await anyio.lowlevel.checkpoint()
    assert stream.abort() == 1
    for each in (item, behind):
        with pytest.raises(StreamAborted):
            await each
    assert latch.closed >= 1 and stream.error is None
    x = device.empty(1, np.int32)
    await stream.launch(store, (device.arch.clusters, 1), x, 5)
    assert (await stream.fetch(x))[0] == 5


@on_every_host
async def test_a_kernel_that_waits_for_clusters_is_dropped(device):
    """A launch that no cluster has taken yet ends at once, while the kernel that has them all goes on."""
    first, second, latch = device.create_stream(), device.create_stream(), KernelLatch()
    running = latch.hold(first, (device.arch.clusters, 1))
    while not latch.started.is_set():
        await anyio.lowlevel.checkpoint()
    waiting = second.launch(store, (1, 1), device.empty(1, np.int32), 5)
    await StreamLatch(device).passed()
    second.abort()
    with pytest.raises(StreamAborted):
        await waiting
    assert not running.done()
    latch.release()
    await running


@pytest.mark.slow
@on_every_host
async def test_other_streams_do_not_notice(device):
    """Only the aborted stream loses its work."""
    first, second = device.create_stream(), device.create_stream()
    latch = StreamLatch(device)
    latch.hold(first)
    latch.hold(second)
    kept = second.call(lambda: 7)
    first.call(int)
    first.abort()
    latch.release()
    assert await kept == 7


@on_every_host
async def test_an_abort_never_comes_too_early(device):
    """An abort between the start of a command and the moment it is parked ends it as well."""
    driver, other, word = device.driver, device.create_stream(nonblocking=True), device.empty(1, np.int32)
    word.allocation.data[:] = 0
    hold(other)
    never, latch, execute = other.record(), KernelLatch(), board_of(driver).execute

    def interrupted(command, item):
        if item.stream is not other:
            board_of(driver).execute = execute
            item.stream.abort()
        return execute[type(command)](command, item)

    for start in (
        lambda stream: stream.wait(never),
        lambda stream: stream.wait_value(word, 1),
        lambda stream: latch.hold(stream),
        lambda stream: stream.call(anyio.sleep_forever),
        lambda stream: stream.call(anyio.sleep_forever, holds=False),
    ):
        stream = device.create_stream(nonblocking=True)
        board_of(driver).execute = dict.fromkeys(execute, interrupted)
        with pytest.raises(StreamAborted):
            await start(stream)
        assert stream.is_done and stream.error is None
    other.abort()


@on_every_host
async def test_calls_that_stand_in_line_are_dropped(device):
    """Of those that do not hold the stream the first runs and is cancelled; those behind it never start."""
    stream, begun, log = device.create_stream(), anyio.Event(), []

    async def first() -> None:
        begun.set()
        await anyio.sleep_forever()

    async def last(*_: object) -> None:
        log.append("callback")

    calls = [stream.call(first, holds=False), stream.call(log.append, 1, holds=False)]
    calls += [stream.call(anyio.sleep_forever, holds=False), stream.add_callback(last)]
    await stream.fill(device.empty(1), 1)
    await begun.wait()
    stream.abort()
    with anyio.fail_after(LONG):
        for call in calls[:3]:
            with pytest.raises(StreamAborted):
                await call
        await calls[3]
    assert stream.is_done and log == ["callback"]


@on_every_host
async def test_a_call_in_line_is_cancelled_alone(device):
    """It never starts, and is over at once; the calls before and behind it run."""
    stream, opened, log = device.create_stream(), anyio.Event(), []
    calls = [stream.call(opened.wait, holds=False)]
    calls += [stream.call(log.append, number, holds=False) for number in range(3)]
    await stream.fill(device.empty(1), 1)
    assert calls[2].cancel() and calls[2].cancelled()
    opened.set()
    with anyio.fail_after(LONG):
        await stream
    assert log == [0, 2]


@pytest.mark.slow
def test_aborts_and_submissions_of_several_threads(device: atops.Device, tiny_switch_interval: None):
    """Streams that are filled and aborted at the same time stay whole: everything ends, and they work afterwards."""
    streams = [device.create_stream(), device.create_stream(), device.null_stream]
    x = device.empty(1, np.int32)
    ready = threading.Barrier(5)
    items: list[atops.Completion] = []

    def submit(stream: atops.Stream) -> None:
        ready.wait()
        for number in range(200):
            items.append(stream.fill(x, number))
            items.append(stream.call(int, holds=number % 2 == 0))
            if number % 20 == 0:
                items.append(stream.launch(store, (1, 1), x, number))

    def abort() -> None:
        ready.wait()
        for number in range(100):
            streams[number % 3].abort()

    threads = [threading.Thread(target=submit, args=(stream,)) for stream in streams]
    threads += [threading.Thread(target=abort) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device.sync(LONG)
    assert all(item.done() for item in items)
    assert all(item.exception() is None or isinstance(item.exception(), StreamAborted) for item in items)
    for stream in streams:
        assert stream.call(lambda: 7).wait_sync(LONG) == 7


# ---- kernels that never suspend


def test_a_kernel_that_never_suspends_is_abandoned(caplog):
    """After the grace it is named, its thread is given up and its memory quarantined; the device goes on."""
    caplog.set_level(logging.ERROR, "atops")
    latch = StubbornLatch()
    with board(abort_grace=0.02) as device:
        stream, x = device.create_stream(), device.empty(64)
        item = latch.hold(stream, x, (device.arch.clusters, 2))
        assert latch.started.wait(LONG)
        behind = stream.fill(x, 1)
        stream.abort()
        with pytest.raises(StreamAborted, match=r"kernel stubborn .* never suspended and was abandoned"):
            item.wait_sync(LONG)
        with pytest.raises(StreamAborted):
            behind.result()
        assert any("kernel stubborn" in record.getMessage() for record in caplog.records)
        y = device.empty(1, np.int32)
        stream.launch(store, (device.arch.clusters, 1), y, 5)
        assert stream.fetch(y).wait_sync(LONG)[0] == 5
        address = x.address
        x.close()
        device.sync(LONG)
        assert device.statistics().memory.quarantined >= 256
        assert all(device.empty(64).address != address for _ in range(20))
        latch.release()
        assert latch.left.wait(LONG)
        assert stream.launch(store, (1, 1), y, 6).wait_sync(LONG) is None


def test_a_kernel_that_ends_within_the_grace_is_not_abandoned(caplog):
    """A kernel that suspends late, but in time, is closed and not named."""
    caplog.set_level(logging.ERROR, "atops")
    latch = StubbornLatch()
    with board(abort_grace=LONG) as device:
        stream = device.create_stream()
        item = latch.hold(stream, device.empty(4))
        assert latch.started.wait(LONG)
        stream.abort()
        latch.release()
        with pytest.raises(StreamAborted):
            item.wait_sync(LONG)
        device.sync(LONG)
    assert not caplog.records


# ---- scopes


@pytest.mark.slow
@pytest.mark.parametrize("way", ["up", "within", "down"])
def test_an_abort_during_a_large_copy(device: atops.Device, way: str):
    """A 64 MiB copy that is under way goes on: its memory is not freed under it, though the program has let go of it;
    what stands behind it is dropped, and the stream is usable.
    """
    size, gate, halves = 64 << 20, threading.Event(), board_of(device.driver).executor
    stream = device.create_stream()
    x, y = stream.zeros(size, np.uint8), stream.zeros(size, np.uint8)
    stream.sync()
    host = np.ones(size, np.uint8)
    begun = threading.Semaphore(0)
    for _ in range(COPY_THREADS):  # the copy's first half runs, its second waits for one of these
        halves.run(HALVES, lambda: (begun.release(), gate.wait(LONG)))
    for _ in range(COPY_THREADS):
        assert begun.acquire(timeout=LONG)
    copy = stream.copy(*{"up": (x, host), "within": (x, y), "down": (host, x)}[way])
    behind = stream.fill(x, 7)
    while copy.state != "running" or copy.parked is not device.context.engines:
        assert not copy.done()
    stream.abort()
    x.close()
    y.close()
    assert not copy.done() and x.allocation.alive and y.allocation.alive
    other = device.create_stream()
    apart = other.zeros(size, np.uint8)
    other.sync()
    assert min(apart.address + size, x.address + size) <= max(apart.address, x.address)
    assert x.allocation.alive
    gate.set()
    with pytest.raises(StreamAborted):
        behind.wait_sync(LONG)
    stream.sync(LONG)
    assert copy.done() and (copy.exception() is None or isinstance(copy.exception(), StreamAborted))
    assert not x.allocation.alive and not y.allocation.alive
    assert not other.fetch(apart).wait_sync(LONG).any()
    assert (stream.fetch(stream.upload(host)).wait_sync(LONG) == host).all()
    assert way != "down" or not host.any()


@on_every_host
async def test_leaving_the_scope_waits_for_the_work(device):
    """Left normally, the scope waits, frees what the stream's verbs made, and closes."""
    async with device.create_stream() as stream:
        x = stream.zeros(4)
        latch = hold(stream)
        item = stream.fill(x, 1)
        latch.release()
    assert item.done() and stream.is_done and not x.allocation.alive
    with pytest.raises(InvalidHandle, match="closed"):
        stream.fill(device.empty(1), 1)


@on_every_host
async def test_leaving_the_scope_by_an_exception_aborts(device):
    """Left by an exception, the scope drops the work, frees and closes; the exception goes on."""
    with pytest.raises(ZeroDivisionError):
        async with device.create_stream() as stream:
            x = stream.zeros(4)
            hold(stream)
            item = stream.fill(x, 1)
            raise ZeroDivisionError
    assert stream.is_done and not x.allocation.alive
    with pytest.raises(StreamAborted):
        item.result()


@on_every_host
async def test_leaving_the_scope_by_cancellation_aborts(device):
    """A cancelled task leaves nothing of its stream behind, whether it was in the body or in the closing."""
    for closing in (False, True):
        stream = device.create_stream()
        with anyio.CancelScope() as scope:
            async with stream:
                x = stream.zeros(4)
                latch = hold(stream)
                await latch.passed()
                scope.cancel()
                if not closing:
                    await stream
        assert scope.cancelled_caught
        await device.wait()
        assert stream.is_done and not x.allocation.alive


@on_every_host
async def test_aclose_is_idempotent(device):
    """Twice, and by several tasks at once; on a stream that never worked; after an abort."""
    stream = device.create_stream()
    latch = hold(stream)
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(stream.aclose)
        await latch.passed()
        latch.release()
    await stream.aclose()
    await device.create_stream().aclose()
    other = device.create_stream()
    hold(other)
    other.abort()
    await other.aclose()
    await other.aclose()
    assert stream.is_done and other.is_done


@on_every_host
async def test_a_cancelled_aclose_has_closed(device):
    """When the wait of aclose is cancelled the work is aborted; the stream is closed, its buffers go, nothing hangs."""
    stream = device.create_stream()
    x = stream.zeros(4)
    latch = hold(stream)
    item = stream.fill(x, 1)
    await latch.passed()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await stream.aclose()
    with pytest.raises(StreamAborted):
        await item
    await stream.aclose()
    assert not x.allocation.alive
    with pytest.raises(AtopsError):
        stream.fill(x, 1)
