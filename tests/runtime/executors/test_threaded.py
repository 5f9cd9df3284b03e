"""The threads of a driver where the system gives none: clear failures, and work again once it does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from atops.base.errors import ExecutionError, WouldDeadlock
from atops.base.waiting.parking_lot import ThreadWaiter
from atops.device.copy_engine import Direction
from atops.kernels import kernel
from atops.runtime.cooperative_launch import launch_together
from atops.runtime.executors.executor import Lane
from atops.runtime.executors.threaded import ThreadedExecutor
from atops.runtime.stream import Stream, queue_of
from tests.runtime.boards import PATIENCE, Latch, device

WORK = Lane("work")


class Scarce:
    """Threads as the system gives them: as many as `left` says, and then an error that says `why`."""

    def __init__(self, start):
        self.left = 1 << 20
        self.why = "can't start new thread"
        self._start = start

    def start(self, thread: threading.Thread) -> None:
        """Start a thread, if one is left."""
        if self.left <= 0:
            raise RuntimeError(self.why)
        self.left -= 1
        self._start(thread)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Scarce:
    """What every thread of this process is started by."""
    scarce = Scarce(threading.Thread.start)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: scarce.start(thread))
    return scarce


@pytest.fixture
def executor() -> Iterator[ThreadedExecutor]:
    """A threaded executor."""
    executor = ThreadedExecutor()
    yield executor
    executor.close()


@pytest.mark.parametrize("on_lane", [False, True])
def test_no_thread_at_all(executor: ThreadedExecutor, threads: Scarce, on_lane: bool):
    """The caller gets the error, nothing was queued, and the next one gets the thread that there is by then."""
    ran, ended = [], threading.Event()

    def ask(work) -> None:
        executor.run(WORK, work) if on_lane else executor.post(work)

    threads.left = 1 if on_lane else 0  # that of the driver itself
    with pytest.raises(RuntimeError, match="can't start new thread"):
        ask(lambda: ran.append("refused"))
    threads.left = 1
    ask(lambda: ran.append("asked again"))
    ask(ended.set)
    assert ended.wait(PATIENCE) and ran == ["asked again"]


def test_fewer_threads_than_a_lane_may_have(executor: ThreadedExecutor, threads: Scarce, caplog):
    """The lane goes on with those it has, says so once for each that is missing, and starts it when there is one."""
    executor.widen(WORK, 2)
    threads.left = 2  # the driver's, and one of the lane
    meeting, done = threading.Barrier(2), threading.Event()
    executor.run(WORK, lambda: None)
    with caplog.at_level(logging.WARNING, "atops.driver"):
        executor.run(WORK, meeting.wait)
    assert "has no thread" in caplog.text
    threads.left = 1
    executor.run(WORK, meeting.wait)  # the two meet: there are two threads
    executor.run(WORK, done.set)
    assert done.wait(PATIENCE)


@pytest.mark.parametrize("failures", [1, 2])
def test_a_command_that_finds_no_thread_was_never_enqueued(threads: Scarce, failures: int):
    """Its caller is told, its place is free again, and the stream goes on when there are threads."""
    with device() as place:
        stream = place.create_stream(capacity=2)
        begin, left = threads.start, [failures]

        def start(thread: threading.Thread) -> None:
            left[0] -= 1
            if left[0] >= 0:
                raise RuntimeError("can't start new thread")
            begin(thread)

        threads.start = start
        with pytest.raises(RuntimeError, match="can't start new thread"):
            stream.record()
        assert queue_of(stream).pending() == ()
        memory = place.allocate(64)
        for _ in range(2):
            stream.fill(memory, 2)
        stream.sync(PATIENCE)
        assert stream.fetch(memory).wait_sync(PATIENCE)[0] == 2


@kernel
def nothing() -> None:
    """Do nothing."""


def two_at_once(stream: Stream, other: Stream) -> None:
    """Enqueue on two streams together."""
    launch_together([(each, nothing, (1, 1)) for each in (stream, other)])


@pytest.mark.parametrize("enqueue", [lambda stream, other: stream.launch(nothing, (1, 1)), two_at_once])
def test_commands_that_find_no_thread_were_never_enqueued(threads: Scarce, enqueue: Callable[..., object]):
    """None of those that go together is left behind, and their streams go on when there are threads."""
    with device() as place:
        streams = [place.create_stream(capacity=2) for _ in range(2)]
        threads.left = 0
        with pytest.raises(RuntimeError, match="can't start new thread"):
            enqueue(*streams)
        threads.left = 100
        for stream in streams:
            assert queue_of(stream).pending() == () and stream.statistics().free == 2
            stream.record()
            stream.sync(PATIENCE)


@pytest.mark.parametrize("on_lane", [False, True])
@pytest.mark.parametrize("begun", [False, True])
def test_ctrl_c_in_the_middle_of_a_start(executor: ThreadedExecutor, threads: Scarce, on_lane: bool, begun: bool):
    """The thread that had begun serves, or another one in its place, and never both."""
    begin, names = threads.start, []

    def start(thread: threading.Thread) -> None:
        if begun:
            begin(thread)
            thread._started.wait(PATIENCE)
        raise KeyboardInterrupt

    def ask(work) -> None:
        executor.run(WORK, work) if on_lane else executor.post(work)

    if on_lane:
        executor.post(lambda: None)  # so that the driver's own thread is there
    threads.start = start
    with pytest.raises(KeyboardInterrupt):
        ask(lambda: None)
    threads.start = begin
    ended = threading.Event()
    for work in (lambda: names.append(threading.current_thread().name), ended.set):
        ask(work)
    assert ended.wait(PATIENCE)
    serving = [each.name for each in threading.enumerate() if each.name.startswith(names[0].rpartition("-")[0])]
    assert [name for name in serving if ("work" in name) == on_lane] == names


@pytest.mark.parametrize("on_lane", [False, True])
def test_the_interpreter_ends(executor: ThreadedExecutor, threads: Scarce, on_lane: bool):
    """Python 3.12 starts no thread then: what is asked for is left undone, without a complaint."""
    threads.left, threads.why = 0, "can't create new thread at interpreter shutdown"
    ran = []
    executor.run(WORK, lambda: ran.append(1)) if on_lane else executor.post(lambda: ran.append(1))
    assert ran == []


@pytest.mark.parametrize("holds", [False, True])
def test_a_call_that_finds_no_thread_fails_alone(threads: Scarce, holds: bool):
    """It fails with the system's reason, so do those that stand behind it by then; later calls of its stream run."""
    with device() as place:
        stream = place.create_stream()
        stream.record().sync(PATIENCE)
        threads.left = 0
        refused = [stream.call(len, (), holds=holds) for _ in range(3)]
        for item in refused:
            with pytest.raises(ExecutionError, match=r"can't start new thread|after a failure"):
                item.wait_sync(PATIENCE)
        threads.left = 100
        stream.clear_error()
        assert stream.call(len, "two").wait_sync(PATIENCE) == 3
        stream.sync(PATIENCE)


def test_a_copy_that_finds_no_thread_gives_its_engine_back(threads: Scarce):
    """It fails with the system's reason, and later copies find as many engines as there were."""
    with device() as place:
        stream, memory = place.create_stream(), place.allocate(1 << 20)
        stream.record().sync(PATIENCE)
        engines = place.context.engines
        for _ in range(engines.engines + 1):
            threads.left = 0
            with pytest.raises(ExecutionError, match="can't start new thread"):
                stream.copy(memory, bytes(1 << 20)).wait_sync(PATIENCE)
            stream.clear_error()
        threads.left = 100
        stream.copy(memory, bytes(1 << 20)).wait_sync(PATIENCE)
        assert engines.quiet(Direction.DEVICE_TO_HOST) and not engines.full


def test_a_done_callback_that_finds_no_thread_delays_no_other_waiter(threads: Scarce, caplog):
    """The log says so, and what else waits for the completion is woken."""
    with device() as place:
        latch, stream = Latch(place), place.create_stream()
        item = latch.hold(stream)
        item.add_done_callback(lambda item: None)
        waiter = ThreadWaiter()
        assert item.add_waiter(waiter)
        threads.left = 0
        with caplog.at_level(logging.ERROR, "atops.driver"):
            latch.open()
            assert waiter.wait(PATIENCE)
        assert "could not be woken" in caplog.text
        threads.left = 100
        stream.record().sync(PATIENCE)
        latch.close()


def test_the_threads_of_a_driver_do_not_keep_the_process(executor: ThreadedExecutor):
    """They are daemons: a program that ends ends them."""
    found, noted = [], threading.Semaphore(0)

    def note() -> None:
        found.append(threading.current_thread())
        noted.release()

    executor.post(note)
    executor.run(WORK, note)
    assert all(noted.acquire(timeout=PATIENCE) for _ in range(2))
    assert len(set(found)) == 2 and all(thread.daemon for thread in found)


def test_a_wait_on_the_drivers_own_thread_is_named(executor: ThreadedExecutor):
    """What would never end is refused, with the thread's role."""
    said, done = [], threading.Event()

    def wait() -> None:
        try:
            executor.block(None, 1)
        except WouldDeadlock as error:
            said.append(str(error))
        done.set()

    executor.post(wait)
    assert done.wait(PATIENCE) and "driver thread" in said[0]
