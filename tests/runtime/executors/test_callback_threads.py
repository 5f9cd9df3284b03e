"""Threads for host calls, done callbacks and observers: as many as are needed, up to an option, and no longer."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import atops
from atops.base.errors import InvalidValue
from atops.runtime.driver import board_of
from atops.runtime.executors import threaded
from atops.runtime.queues import deadlock
from tests.runtime.boards import PATIENCE
from tests.runtime.hosts import board


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver whose host calls have as many threads as by default."""
    with board() as device:
        yield device


@pytest.fixture
def narrow() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver that runs two host calls at once."""
    with board(callback_threads=2) as device:
        yield device


class Gate:
    """Host calls that stand until `open`."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.opened = threading.Event()

    def __call__(self) -> threading.Thread:
        self.entered.release()
        assert self.opened.wait(PATIENCE)
        return threading.current_thread()


def callback_threads(device: atops.Device) -> list[threading.Thread]:
    """Return the threads of its driver for host calls, done callbacks and observers."""
    name = f"{board_of(device.driver).executor.name}-"
    return [each for each in threading.enumerate() if each.name.startswith(name) and "callback" in each.name]


@pytest.mark.parametrize("count", [5, 64])
@pytest.mark.parametrize("holds", [False, True])
def test_calls_may_meet(device: atops.Device, count: int, holds: bool) -> None:
    """As many as the option says run at once: they may wait for each other."""
    meeting = threading.Barrier(count)
    calls = [device.create_stream().call(meeting.wait, PATIENCE, holds=holds) for _ in range(count)]
    assert sorted(call.wait_sync(PATIENCE) for call in calls) == list(range(count))


def test_no_more_than_the_option_says(narrow: atops.Device) -> None:
    """A third call begins when one of two has ended, in the order in which they came."""
    gates = [Gate() for _ in range(4)]
    calls = []
    for gate in gates:
        calls.append(narrow.create_stream().call(gate))
        calls[-1].stream.record()
    for gate in gates[:2]:
        assert gate.entered.acquire(timeout=PATIENCE)
    assert not gates[2].entered.acquire(blocking=False)
    gates[1].opened.set()
    assert gates[2].entered.acquire(timeout=PATIENCE)
    assert not gates[3].entered.acquire(blocking=False)
    for gate in gates:
        gate.opened.set()
    assert len({call.wait_sync(PATIENCE) for call in calls}) == 2


def test_done_callbacks_and_observers_do_not_wait_behind_calls(narrow: atops.Device) -> None:
    """Where calls have every thread and more wait, they are called all the same; so they may be what the calls need."""
    gate, told, seen = Gate(), threading.Event(), threading.Event()
    calls = [narrow.create_stream().call(gate) for _ in range(5)]
    for _ in range(2):
        assert gate.entered.acquire(timeout=PATIENCE)
    narrow.driver.tracer.subscribe(lambda batch: seen.set())
    stream = narrow.create_stream()
    completion = stream.fill(narrow.empty(1), 1)
    completion.add_done_callback(lambda _: told.set())
    completion.wait_sync(PATIENCE)
    assert told.wait(PATIENCE) and seen.wait(PATIENCE)
    completion.add_done_callback(lambda _: gate.opened.set())  # it is done: this is called here
    for call in calls:
        call.wait_sync(PATIENCE)


def test_done_callbacks_may_meet(device: atops.Device) -> None:
    """Those of different completions have a thread each, too."""
    meeting, met = threading.Barrier(6), threading.Semaphore(0)

    def meet(_: object) -> None:
        meeting.wait(PATIENCE)
        met.release()

    gate = Gate()
    calls = [device.create_stream().call(gate) for _ in range(6)]
    for call in calls:
        call.add_done_callback(meet)
    gate.opened.set()
    assert all(met.acquire(timeout=PATIENCE) for _ in calls)


def test_a_stall_for_want_of_threads_is_reported_once(
    narrow: atops.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record names the option, and the calls."""
    monkeypatch.setattr(deadlock, "PATIENCE_NS", 1_000_000)
    records, said = list[logging.LogRecord](), threading.Event()

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)
            said.set()

    log, handler = logging.getLogger("atops.stall"), Heard()
    log.addHandler(handler)
    try:
        meeting = threading.Barrier(3)
        calls = [narrow.create_stream(name=f"guest {each}").call(meeting.wait) for each in range(3)]
        assert said.wait(PATIENCE)
        meeting.abort()
        for call in calls:
            with pytest.raises(atops.errors.HostCallFailure):
                call.wait_sync(PATIENCE)
    finally:
        log.removeHandler(handler)
    (record,) = records
    text = record.getMessage()
    assert "have all 2 threads, and 1 more wait for one" in text and "callback_threads=2" in text
    assert all(f"guest {each}: " in text for each in range(3)) and "waits for the host callable Barrier.wait" in text
    assert text.count("has run the host function Barrier.wait") == 2


def test_there_is_none_before_the_first_call(device: atops.Device) -> None:
    """Other commands need none; a call makes one, and one more that waits for the next."""
    stream = device.create_stream()
    stream.fetch(stream.zeros(4)).wait_sync(PATIENCE)
    assert callback_threads(device) == []
    for _ in range(20):
        stream.call(int).wait_sync(PATIENCE)
    assert 1 <= len(callback_threads(device)) <= 2


def test_idle_ones_end(device: atops.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, after a while, and later calls have new ones; while a call stands there is one for the next."""
    monkeypatch.setattr(threaded, "IDLE", 0.001)
    meeting, gate = threading.Barrier(10), Gate()

    def meet() -> threading.Thread:
        meeting.wait(PATIENCE)
        return threading.current_thread()

    standing = device.create_stream().call(gate)
    calls = [device.create_stream().call(meet) for _ in range(10)]
    threads = [call.wait_sync(PATIENCE) for call in calls]
    for _ in range(50):
        assert device.create_stream().call(int).wait_sync(PATIENCE) == 0
    gate.opened.set()
    for thread in (*threads, standing.wait_sync(PATIENCE), *callback_threads(device)):
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert device.create_stream().call(int).wait_sync(PATIENCE) == 0


@pytest.mark.slow
@pytest.mark.parametrize("idle", [0.0, 0.0001])
def test_no_call_is_lost_while_threads_come_and_go(
    idle: float, monkeypatch: pytest.MonkeyPatch, tiny_switch_interval: None
) -> None:
    """Whenever a thread ends, what was enqueued at that very moment finds another one."""
    monkeypatch.setattr(threaded, "IDLE", idle)
    with board(callback_threads=3) as device, ThreadPoolExecutor(4) as pool:

        def enqueue(_: int) -> int:
            stream = device.create_stream()
            return sum(stream.call(int, "1").wait_sync(PATIENCE) for _ in range(100))

        assert list(pool.map(enqueue, range(4))) == [100] * 4


def test_threads_end_with_their_driver() -> None:
    """Those that stand in a call when it closes end when the call does."""
    gate = Gate()
    with board(abort_grace=0) as device:
        for _ in range(3):
            device.create_stream().call(gate)
        for _ in range(3):
            assert gate.entered.acquire(timeout=PATIENCE)
        threads = callback_threads(device)
    gate.opened.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


STANDING = """
import threading, atops
streams = [atops.Device(0).create_stream() for _ in range(6)]
entered = threading.Semaphore(0)
for stream in streams:
    stream.call(lambda: (entered.release(), threading.Event().wait()))
for stream in streams:
    assert entered.acquire(timeout=60)
print("ends")
"""


@pytest.mark.slow
def test_calls_that_stand_do_not_keep_the_process() -> None:
    """The interpreter ends though six calls never do."""
    command = [sys.executable, "-c", STANDING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == "ends\n"


@pytest.mark.parametrize("value", [0, -1, 5000, 1.5, True, "8", None])
def test_a_limit_that_makes_no_sense_is_refused(value: object) -> None:
    """By the options, which name it."""
    with pytest.raises(InvalidValue, match=r"callback_threads is .*; expected 1 to 4096"):
        atops.EmulatorOptions(callback_threads=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("wants_error", [False, True])
def test_one_thread_is_enough_for_calls_that_end(wants_error: bool) -> None:
    """They run one after another then, each exactly once."""
    seen: list[int] = []
    with board(callback_threads=1) as device:
        streams = [device.create_stream() for _ in range(8)]
        for turn in range(5):
            for stream in streams:
                if wants_error:
                    stream.add_callback(lambda _, turn: seen.append(turn), turn)
                else:
                    stream.call(seen.append, turn)
        device.sync(PATIENCE)
        assert len([each for each in callback_threads(device) if "done" not in each.name]) == 1
    assert sorted(seen) == [turn for turn in range(5) for _ in streams]


def test_a_finalizer_amid_the_start_of_a_thread_may_wait_for_a_call(monkeypatch):
    """The collector may come while a thread starts: that thread serves what a finalizer waits for then."""
    lane, waited = threaded.GrowingLane("calls", 4), []

    class Server(threaded._Server):
        def begin(self) -> bool:
            started = super().begin()
            if not waited:
                waited.append(None)
                done = threading.Event()
                lane.put(done.set)
                waited[0] = done.wait(PATIENCE)
            return started

    monkeypatch.setattr(threaded, "_Server", Server)
    ended = threading.Event()
    lane.put(ended.set)
    assert waited == [True] and ended.wait(PATIENCE)
    lane.close()
