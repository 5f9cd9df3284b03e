"""Ctrl-C in the middle of any call of the package: the board stays whole, and what was enqueued runs or never was."""

from __future__ import annotations

import _thread
import gc
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops import tops
from atops.runtime.board.current_device import enter, leave
from atops.runtime.cooperative_launch import launch_together
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.runtime.stream import Stream
from tests.runtime.boards import PATIENCE, add_one, board, leftovers, works

pytestmark = pytest.mark.slow

ONES = np.ones(24, "int32")
LONGEST = 0.003  # seconds until Ctrl-C comes


@k.cooperative
async def meet() -> None:
    """Meet the other grid."""
    await k.syncblocks()


class Bench:
    """A board that has run everything once, with a stream, an array that outlives all, and the actions on them."""

    def __init__(self, driver: Driver) -> None:
        self.device = Device(0, driver)
        self.stream: Stream = self.device.create_stream()
        self.array = self.device.empty(24, "int32")

    def copy(self) -> None:
        """Copy up, and down again."""
        self.stream.copy(self.array, ONES)
        self.stream.fetch(self.array)

    def launch(self) -> None:
        """Launch a kernel between two events, and wait for it."""
        start, stop = self.stream.record(), self.device.create_event()
        self.stream.launch(add_one, (2, 12), self.array, stop=stop)
        self.stream.wait(start)
        stop.sync(PATIENCE)

    def allocate_in_order(self) -> None:
        """Have memory of the pool, and give it back."""
        array = self.stream.zeros(100)
        self.stream.free(array)
        self.stream.upload(ONES).close()
        self.stream.sync(PATIENCE)

    def allocate_now(self) -> None:
        """Have memory of the device, give it back, and let some be collected."""
        self.device.allocate(100).close()
        self.device.empty(10)

    def abort(self) -> None:
        """Abort a stream whose head waits for a value."""
        word = self.stream.empty(1, "uint32")
        self.stream.fill(word, 0)
        self.stream.wait_value(word, 1, "Eq")
        self.stream.fetch(word)
        self.stream.abort()

    def live_and_die(self) -> None:
        """Make a stream, use it and close it."""
        stream = self.device.create_stream(capacity=4)
        stream.fill(stream.empty(9), 1)
        stream.call(len, ())
        stream.close()
        stream.sync(PATIENCE)

    def together(self) -> None:
        """Enqueue on two streams in one step, of which one has few places; the grids are to meet."""
        other = self.device.create_stream(nonblocking=True, capacity=2)
        launch_together([(each, meet, (1, 2)) for each in (self.stream, other)], cooperative=True)
        other.close()
        self.stream.sync(PATIENCE)
        other.sync(PATIENCE)

    def copy_by_pointer(self) -> None:
        """Copy as C-style programs do: the caller carries it out itself."""
        tops.topsMemcpy(self.array.address, ONES, 96, tops.topsMemcpyKind.topsMemcpyHostToDevice)
        tops.topsMemcpyAsync(self.array.address, ONES, 96, tops.topsMemcpyKind.topsMemcpyHostToDevice, 0)
        tops.topsStreamSynchronize(0)


@contextmanager
def bench() -> Iterator[Bench]:
    """Have a board of its own for the block; what it holds afterwards is a failure, and so is one that never closes."""
    with board(devices=1) as driver:
        enter(driver, board_of(driver))
        assert works(driver)
        made = Bench(driver)
        try:
            yield made
        finally:
            leave(driver)
        assert made.stream.clear_error() is None
        made.stream.close()
        made.array.close()
        del made
        gc.collect()
        assert leftovers(driver) == {}
        closing = driver.close()
        assert closing is not None
        while not closing.is_done:
            board_of(driver).executor._thread.join(0.001)


ACTIONS = (
    Bench.copy,
    Bench.launch,
    Bench.allocate_in_order,
    Bench.allocate_now,
    Bench.abort,
    Bench.live_and_die,
    Bench.together,
    Bench.copy_by_pointer,
)


class CtrlC:
    """Sends SIGINT to the main thread at a random moment of each block. A thread of its own; `close` ends it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._times: SimpleQueue[float | None] = SimpleQueue()
        self._came = self._armed = self._raised = self._ended = False
        self._report = sys.unraisablehook
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        while (after := self._times.get()) is not None:
            until = time.perf_counter() + after
            while time.perf_counter() < until:
                time.sleep(0)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _handle(self, number: int, frame: object) -> None:
        self._came = True
        if self._armed:
            self._raised = True
            raise KeyboardInterrupt

    def _end_in_finalizer(self, unraisable: Any) -> None:
        """Forget a Ctrl-C that ended a finalizer; report anything else.

        The hook of pytest keeps the traceback until the test is over. A finalizer may run in the middle of any
        function; then the frames there hold the memory of that function, which would look lost.
        """
        if unraisable.exc_type is KeyboardInterrupt:
            self._ended = True
        else:
            self._report(unraisable)

    def interrupt(self, action: Callable[[], object], once: bool = False) -> bool:
        """Run an action again and again until Ctrl-C has come. Returns whether it came out: not of a finalizer, say.

        Nothing else swallows it.
        """
        self._came = self._raised = self._ended = out = False
        before = signal.signal(signal.SIGINT, self._handle)
        self._report, sys.unraisablehook = sys.unraisablehook, self._end_in_finalizer
        try:
            self._repeat(action, once)
        except KeyboardInterrupt:
            out = True
        while not self._came:  # here it raises no more
            time.sleep(0.0001)
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = self._report
        assert out or self._ended or not self._raised, "it was raised, and came out nowhere"
        return out

    def _repeat(self, action: Callable[[], object], once: bool) -> None:
        """Run the action. A frame of its own: from 3.12 on the jump back of a loop is outside of a `try` around it."""
        after = self._random.uniform(0, LONGEST)
        self._armed = True  # first: on a busy machine the other thread may be through before this one goes on
        self._times.put(after)
        action()
        while not (once or self._came):
            action()
        self._armed = False

    def close(self) -> None:
        """End the thread."""
        self._times.put(None)
        self._thread.join()


@pytest.fixture
def ctrl_c() -> Iterator[CtrlC]:
    """What sends Ctrl-C."""
    made = CtrlC(0)
    yield made
    made.close()


@pytest.mark.parametrize("times", [50, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(600)])])
@pytest.mark.parametrize("action", ACTIONS)
def test_ctrl_c_leaves_a_whole_board(ctrl_c: CtrlC, action: Callable[[Bench], None], times: int) -> None:
    """At random moments: the stream and others go on, nothing is lost, no lock is held, the board closes."""
    interrupted = 0
    with bench() as used:
        for _ in range(times):
            interrupted += ctrl_c.interrupt(lambda: action(used))
            if action is Bench.abort:
                used.stream.abort()  # what waits for a value that never comes
            used.stream.record().sync(PATIENCE)
            assert works(used.device.driver)
    assert interrupted  # the others came into finalizers, which let nothing out


def test_a_place_is_given_back_when_ctrl_c_comes(ctrl_c: CtrlC) -> None:
    """A stream with a capacity loses none of its places, and a command that took one is over at the end."""
    with bench() as used:
        stream = used.device.create_stream(capacity=3)

        def enqueue() -> None:
            stream.copy(used.array, ONES)
            stream.record()
            stream.sync(PATIENCE)

        for _ in range(200):
            ctrl_c.interrupt(enqueue)
            stream.sync(PATIENCE)
            assert stream.statistics().free == 3
        stream.close()


def test_an_interrupted_close_is_finished_by_the_next(ctrl_c: CtrlC) -> None:
    """Closing a driver again ends what Ctrl-C kept the first close from."""
    for _ in range(20):
        with board(devices=1) as driver:
            works(driver)
            ctrl_c.interrupt(driver.close, once=True)
            closing = driver.close()
            assert closing is not None
            while not closing.is_done:
                board_of(driver).executor._thread.join(0.001)


def reserved(used: Bench) -> int:
    """Return the bytes of device memory that are not free."""
    free, total = used.device.memory_info()
    return total - free


class Tripwire:
    """Makes SIGINT pending when it is dropped, without looking for signals itself."""

    __del__ = _thread.interrupt_main


@pytest.mark.parametrize("make", [lambda used: used.device.empty(10), lambda used: used.device.host_malloc(9)])
def test_ctrl_c_at_the_start_of_a_finalizer_loses_no_memory(make: Callable[[Bench], object]) -> None:
    """A buffer that is collected while SIGINT is pending is given back all the same."""
    with bench() as used:
        for _ in range(3):
            dropped = [(make(used), Tripwire())]  # the tripwire goes first
            with pytest.raises(KeyboardInterrupt):
                dropped.clear()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what comes in a finalizer ends there
def test_ctrl_c_at_the_start_of_a_finalizer_loses_no_idle_memory() -> None:
    """A pool that is collected while SIGINT is pending gives back what it has reserved all the same."""
    with bench() as used:
        for _ in range(3):
            dropped = [(used.device.create_pool(), Tripwire())]
            dropped[0][0].release_threshold = 2 << 20
            used.stream.free(used.stream.allocate(1 << 20, dropped[0][0]))
            used.stream.sync(PATIENCE)
            assert reserved(used) >= 1 << 20
            with suppress(KeyboardInterrupt):
                dropped.clear()
            used.stream.record().sync(PATIENCE)  # the driver's thread has come to what was left to it
            assert reserved(used) < 1 << 20
