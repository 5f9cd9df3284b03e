"""What a finalizer or a signal handler does in the middle of a call of its thread: it is done, later, or refused."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import AtopsError, IllegalState, WouldDeadlock
from atops.device.copy_engine import CopyEngines
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.runtime.stream import queue_of
from tests.interruption import Points, every_point, handled, interrupted
from tests.runtime.boards import PATIENCE, Latch, add_one, board, leftovers, settle, works

REFUSED = (IllegalState, WouldDeadlock)


class Desk:
    """What a handler may lay hands on: two streams, one of them busy with what it interrupts, and things to close."""

    def __init__(self, driver: Driver) -> None:
        self.device = Device(0, driver)
        self.busy = self.device.create_stream()
        self.other = self.device.create_stream()
        self.array = self.device.empty(24, "int32")
        self.spare = self.device.create_stream()
        self.buffer = self.spare.zeros(8)
        self.plain = self.device.allocate(8)
        self.pool = self.device.create_pool()

    def work(self) -> None:
        """Do what is interrupted: have memory, use it and give it back."""
        self.busy.launch(add_one, (2, 12), self.array)
        array = self.busy.zeros(100)
        self.busy.upload(np.ones(9))
        self.busy.free(array)
        self.busy.free(self.busy.allocate(64, self.pool))
        self.device.host_malloc(9).close()
        self.device.signals.free(self.device.signals.allocate())
        self.busy.copy(self.array, np.ones(24, "int32"))


def enqueue(desk: Desk) -> None:
    """Enqueue on both streams."""
    desk.other.record()
    desk.busy.record()


def wait(desk: Desk) -> None:
    """Block until both streams are through."""
    desk.other.sync(PATIENCE)
    desk.busy.sync(PATIENCE)


def result(desk: Desk) -> None:
    """Enqueue something and block until it is done."""
    desk.other.fetch(desk.array).wait_sync(PATIENCE)


def allocate(desk: Desk) -> None:
    """Have memory of both kinds, and give it back."""
    desk.device.allocate(99).close()
    desk.other.free(desk.other.empty(9))
    desk.other.free(desk.other.allocate(9, desk.pool))
    desk.device.host_malloc(9).close()
    desk.device.signals.free(desk.device.signals.allocate())


def close(desk: Desk) -> None:
    """Close all that there is to close."""
    desk.buffer.close()
    desk.plain.close()
    desk.spare.close()


def abort(desk: Desk) -> None:
    """Abort a stream."""
    desk.other.abort()


def look(desk: Desk) -> None:
    """Ask for everything that can be looked at."""
    repr((desk.busy, desk.array, desk.device.driver))
    desk.busy.statistics()
    queue_of(desk.busy).pending()
    desk.device.default_pool.statistics()
    desk.device.driver.tracer.records()
    desk.device.statistics()


# What a handler does, and whether it may be refused.
ACTS = ((enqueue, True), (wait, True), (result, True), (allocate, True), (look, True), (close, False), (abort, False))


@pytest.mark.slow
@pytest.mark.parametrize(("act", "refusable"), ACTS)
def test_a_signal_handler_never_deadlocks(act: Callable[[Desk], None], refusable: bool) -> None:
    """Wherever it comes in an enqueue or an allocation, it is done or refused, and the interrupted call goes on."""
    with board(devices=1, trace=64) as driver:
        assert works(driver)
        refusals = interrupt_everywhere(Desk(driver), act)
        assert works(driver)
        assert all("a finalizer or a signal handler" in said for said in refusals)
        assert refusable or not refusals
        gc.collect()
        assert leftovers(driver) == {}


def interrupt_everywhere(desk: Desk, act: Callable[[Desk], None]) -> list[str]:
    """Have a handler come at each point of the desk's work, and close all of it. Returns what was refused."""
    refusals: list[str] = []

    def handler() -> None:
        try:
            act(desk)
        except REFUSED as error:
            refusals.append(str(error))

    for points in every_point(desk.work, most=60):
        handled(points, desk.work, handler)
        desk.busy.sync(PATIENCE)
    for thing in (desk.busy, desk.other, desk.spare, desk.array, desk.buffer, desk.plain):
        thing.close()
    return refusals


def test_an_abort_in_a_handler_spares_what_comes_later() -> None:
    """Asked for in the middle of an enqueue it drops what was there before it, and nothing that is enqueued after."""
    with board(devices=1) as driver:
        device = Device(0, driver)
        stream, latch = device.create_stream(), Latch(device)
        times: list[int] = []
        for points in every_point(stream.record, most=40):
            latch.hold(stream)
            handled(points, stream.record, lambda: times.append(stream.abort()))
            if points.passed < points.chosen:  # a busy stream's record has fewer points: this one was not reached
                stream.abort()
            stream.record().sync(PATIENCE)
        assert times


@pytest.mark.parametrize("null_waits", [True, False])
def test_ctrl_c_in_an_enqueue_loses_no_null_stream_order(null_waits: bool) -> None:
    """Whether the interrupted command is there or not, the next one of its stream waits for the other side."""
    with board(devices=1) as driver:
        device = Device(0, driver)
        blocking, apart = device.create_stream(), device.create_stream(nonblocking=True)
        first, second = (blocking, device.null_stream) if null_waits else (device.null_stream, blocking)
        points = Points()
        while points.passed >= points.chosen:  # until the signal would come after the last point
            for _ in range(2):  # Python 3.13 traces all of it only when it has run traced to its end before
                Points().run(second.record)
            points, latch = Points(points.chosen + 1), Latch(device)
            latch.hold(first)
            interrupted(points, second.record)
            after = second.call(int)
            apart.call(int).wait_sync(PATIENCE)  # the driver has had its turn
            assert not after.done()
            latch.open()
            after.wait_sync(PATIENCE)
            latch.close()
        assert points.chosen > 10


def test_what_a_command_held_is_let_go_without_the_lock() -> None:
    """The finalizer of a dropped completion may enqueue: it does not run while the drain holds the lock."""
    with board(devices=1) as driver:
        device = Device(0, driver)
        stream, other, word = device.create_stream(), device.create_stream(), device.allocate(4)
        done: list[Any] = []
        for value in range(100):
            weakref.finalize(stream.write_value(word, value), lambda: done.append(other.record()))
        stream.sync(PATIENCE)
        other.sync(PATIENCE)
        assert len(done) == 100


@pytest.mark.slow
def test_garbage_that_calls_the_runtime_from_every_thread() -> None:
    """Cycles are collected anywhere, the driver's threads and its locks' holders included; what they do never hangs."""
    failures: list[BaseException] = []
    with board(devices=1, trace=64) as driver:
        device = Device(0, driver)
        array, target = device.empty(24, "int32"), device.create_stream()
        acts: tuple[Callable[[Garbage], object], ...] = (
            lambda me: me.buffer.close(), lambda me: target.record(), lambda me: target.sync(PATIENCE),
            lambda me: device.allocate(5).close(), lambda me: target.free(target.zeros(9)),
            lambda me: me.stream.close(), lambda me: me.stream.abort(),
            lambda me: driver.tracer.records(), lambda me: device.statistics(),
            lambda me: target.call(len, ()), lambda me: target.launch(add_one, (2, 12), array),
        )  # fmt: skip

        class Garbage:
            def __init__(self, number: int) -> None:
                self.me, self.act = self, acts[number % len(acts)]
                self.buffer, self.stream = device.allocate(64), device.create_stream()
                self.stream.zeros(4)

            def __del__(self) -> None:
                try:
                    with suppress(*REFUSED):
                        self.act(self)
                except BaseException as error:
                    failures.append(error)

        def work(start: int) -> None:
            with device.create_stream() as stream:
                for number in range(start, start + 44):
                    try:
                        Garbage(number)
                        stream.launch(add_one, (2, 12), array)
                        stream.free(stream.zeros(10))
                        stream.call(len, ())
                        device.allocate(100).close()
                    except AtopsError as error:
                        failures.append(error)
                stream.close()

        threshold = gc.get_threshold()
        gc.set_threshold(3, 2, 2)
        try:
            threads = [threading.Thread(target=work, args=(start,)) for start in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
        finally:
            gc.set_threshold(*threshold)
        assert not any(thread.is_alive() for thread in threads)
        for _ in range(3):  # what a finalizer hands to the driver lives until that has done it
            gc.collect()
            settle(driver)
        array.close()
        target.close()
        assert not failures
        assert leftovers(driver) == {}
        assert works(driver)


@pytest.mark.slow
def test_a_driver_can_be_closed_in_a_handler() -> None:
    """In the middle of an enqueue too: the interrupted call ends, well or not, and so does the driver."""
    with board(devices=1) as driver:
        chosen = list(every_point(Device(0, driver).create_stream().record))
    for points in chosen:
        with board(devices=1) as driver:
            stream = Device(0, driver).create_stream()
            with suppress(AtopsError):
                handled(points, stream.record, driver.close)
            closing = driver.close()
            assert closing is not None
            while not closing.is_done:
                board_of(driver).executor._thread.join(0.001)


@k.kernel
async def endless() -> None:
    """Run until it is aborted."""
    while True:
        await k.syncthreads()


@pytest.mark.parametrize("share", [False, True])
def test_an_abort_in_the_middle_of_the_schedulers(share: bool) -> None:
    """Where a handler comes while its thread has the lock of the engines or of the clusters, the driver aborts."""
    with board() as driver:
        device = Device(0, driver)
        context, size = device.context, 1 << 20
        running, copying = device.create_stream(), device.create_stream()
        kernel = running.launch(endless, (1, 1))
        engines = CopyEngines(1, context.engines.lock) if share else context.engines
        with engines.lock, context.clusters.lock:  # it cannot start
            copy = copying.copy(device.allocate(size), bytes(size))
            counts: list[int] = []

            def handler() -> None:
                with engines.lock:
                    counts.append(copying.abort())
                with context.clusters.lock:
                    counts.append(running.abort())

        thread = threading.Thread(target=handler, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert counts == [0, 0]
        with pytest.raises(AtopsError):
            kernel.wait_sync(PATIENCE)
        with suppress(AtopsError):  # it may have been faster
            copy.wait_sync(PATIENCE)
        assert works(driver)


def test_a_look_in_the_middle_of_the_schedulers() -> None:
    """A handler may ask what a stream waits for while its thread has the lock of the clusters."""
    with board() as driver:
        device = Device(0, driver)
        stream = device.create_stream()
        stream.launch(endless, (1, 1))
        looked: list[object] = []

        def handler() -> None:
            with device.context.clusters.lock, device.context.engines.lock:
                looked.extend((repr(stream), stream.statistics(), queue_of(stream).pending()))

        thread = threading.Thread(target=handler, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert len(looked) == 3
        stream.abort()
