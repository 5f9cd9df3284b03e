"""Host functions that wait for each other by the program's locks, events and queues: the report names them."""

from __future__ import annotations

import logging
import queue
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import anyio
import pytest

import atops
from atops.runtime.queues import deadlock
from tests.every import every
from tests.runtime.boards import PATIENCE, device
from tests.runtime.latch import hold

LOOK_NS = 20_000_000
LOOKS = 5  # after which what will ever be reported has been


class Program(NamedTuple):
    """Commands that stand still: what ends them, and what the report must say."""

    end: Callable[[], object]
    says: tuple[str, ...]


def an_event(load: atops.Stream, save: atops.Stream) -> Program:
    """A function waits for an event that the next one sets."""
    ready = threading.Event()

    def first() -> None:
        ready.wait()  # the wait

    load.call(first)
    load.call(ready.set)
    load.record()
    return Program(ready.set, (
        r"load: .* has run the host function an_event\.<locals>\.first for \d+\.\d s, which waits at "
        r".*test_host_stalls\.py:\d+ in an_event\.<locals>\.first: `ready\.wait\(\)  # the wait`; "
        r"behind it: Event\.set \(command \d+\), record \(command \d+\)",
        "what comes behind a host function in its stream begins when it is over",
    ))  # fmt: skip


def a_queue(load: atops.Stream, save: atops.Stream) -> Program:
    """The function itself is one that waits."""
    items: queue.Queue[int] = queue.Queue()
    load.call(items.get)
    load.call(items.put, 1)
    return Program(lambda: items.put(0), (r"the host function Queue\.get for .*, which waits in Queue\.get; behind",))


def a_method_in_c(load: atops.Stream, save: atops.Stream) -> Program:
    """A lock has no frame."""
    lock = threading.Lock()
    lock.acquire()
    load.call(lock.acquire)
    load.call(lock.release)
    return Program(lock.release, (r"waits in lock\.acquire; behind it: lock\.release",))


def locks_in_turn(load: atops.Stream, save: atops.Stream) -> Program:
    """Two functions that take two locks in turn: nothing is queued behind them."""
    one, two, both = threading.Lock(), threading.Lock(), threading.Barrier(2)

    def up() -> None:
        with one:
            both.wait()
            with two:  # up waits
                pass

    def down() -> None:
        two.acquire()
        both.wait()
        one.acquire()  # down waits
        one.release()

    load.call(up)
    save.call(down)
    return Program(two.release, (r"load: .*`with two:  # up waits`", r"save: .*`one\.acquire\(\)  # down waits`"))


def crosswise(load: atops.Stream, save: atops.Stream) -> Program:
    """Each of two functions waits for what is behind the other one."""
    left, right = threading.Event(), threading.Event()
    load.call(left.wait)
    save.call(right.wait)
    load.call(right.set)
    save.call(left.set)
    return Program(left.set, (r"load: .*behind it: Event\.set", r"save: .*behind it: Event\.set"))


def a_stream_that_waits(load: atops.Stream, save: atops.Stream) -> Program:
    """Another stream is parked behind a function that waits for it."""
    done: Future[None] = Future()

    def first() -> None:
        done.result()

    call = load.call(first)
    save.wait(call)
    save.call(lambda: done.done() or done.set_result(None))
    return Program(lambda: done.set_result(None), (r"load: .*`done\.result\(\)`", r"save: .* waits for <Completion"))


def a_call_that_holds_nothing(load: atops.Stream, save: atops.Stream) -> Program:
    """The calls of a stream run one after another all the same."""
    ready: queue.SimpleQueue[int] = queue.SimpleQueue()
    load.call(lambda: ready.get(), holds=False)
    load.call(ready.put, 1, holds=False)
    return Program(lambda: ready.put(0), (r"load: .*: `load\.call\(lambda: ready\.get\(\), holds=False\)`; behind it",))


def a_wait_for_the_board(load: atops.Stream, save: atops.Stream) -> Program:
    """A function waits for a stream whose function waits for the first one."""
    ready, begun = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        save.sync()

    save.call(ready.wait)
    load.call(first)
    load.call(ready.set)
    begun.wait(PATIENCE)
    return Program(ready.set, (r"load: .*`save\.sync\(\)`; behind it: Event\.set", r"save: .*waits in Event\.wait"))


STANDS = (
    an_event, a_queue, a_method_in_c, locks_in_turn, crosswise, a_stream_that_waits, a_call_that_holds_nothing,
    a_wait_for_the_board,
)  # fmt: skip


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Look often. Returns what waits until the board was looked at so many more times."""
    seen, look = threading.Semaphore(0), deadlock.StallWatch._look
    monkeypatch.setattr(deadlock, "PATIENCE_NS", LOOK_NS)

    def counted(watch: Any) -> None:
        look(watch)
        seen.release()

    monkeypatch.setattr(deadlock.StallWatch, "_look", counted)

    def wait(count: int) -> None:
        while seen.acquire(blocking=False):
            pass
        for _ in range(count):
            assert seen.acquire(timeout=PATIENCE)

    return wait


class Reports(logging.Handler):
    """The reports of stalls."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.first = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.texts.append(record.getMessage())
        self.first.set()


@pytest.fixture
def reports() -> Any:
    """What was said of stalls."""
    log, handler = logging.getLogger("atops.stall"), Reports()
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


@pytest.mark.parametrize("build", STANDS)
def test_host_functions_that_stand_are_named(build: Any, looks: Any, reports: Reports) -> None:
    """Which functions run, for how long, on which line, and what is queued behind them; once."""
    with device() as place:
        load, save = place.create_stream(name="load"), place.create_stream(name="save")
        program = build(load, save)
        assert reports.first.wait(PATIENCE)
        for each in program.says:
            assert re.search(each, reports.texts[0]), reports.texts[0]
        program.end()
        place.sync(PATIENCE)
        assert len(reports.texts) == 1


def alone(load: atops.Stream, save: atops.Stream) -> Callable[[], object]:
    """Nothing waits for the function."""
    ready = threading.Event()
    load.call(ready.wait)
    return ready.set


def sleeps(load: atops.Stream, save: atops.Stream) -> Callable[[], object]:
    """A function that polls is no wait for another thread."""
    over: list[int] = []

    def poll() -> None:
        while not over:
            time.sleep(0.001)

    load.call(poll)
    load.record()
    return lambda: over.append(1)


def works(load: atops.Stream, save: atops.Stream) -> Callable[[], object]:
    """A function that waits again and again goes on meanwhile."""
    items: queue.SimpleQueue[bool] = queue.SimpleQueue()
    over: list[int] = []

    def serve() -> None:
        while not items.get():
            pass

    def feed() -> None:
        while not over:
            items.put(False)
            time.sleep(0.001)
        items.put(True)

    load.call(serve)
    load.record()
    save.call(feed)
    return lambda: over.append(1)


@pytest.mark.slow
@every("build", (alone, sleeps, works))
def test_host_functions_that_go_on_are_no_stall(build: Any, looks: Any, reports: Reports) -> None:
    """Work that takes long, and what nothing waits for, is no business of the report."""
    with device() as place:
        load, save = place.create_stream(name="load"), place.create_stream(name="save")
        end = build(load, save)
        looks(LOOKS)
        end()
        place.sync(PATIENCE)
        assert reports.texts == []


def test_a_stall_of_others_names_the_functions_that_run(looks: Any, reports: Reports) -> None:
    """A coroutine beside them does not keep the report back."""
    ready = threading.Event()

    async def main() -> None:
        load, save, other = (place.create_stream(name=name) for name in ("load", "save", "other"))
        latch, ends = hold(other), anyio.Event()
        load.call(ready.wait)
        load.record()
        coroutine = save.call(ends.wait)
        assert await anyio.to_thread.run_sync(reports.first.wait, PATIENCE)
        ready.set()
        ends.set()
        latch.release()
        await coroutine
        await other

    with device() as place:
        anyio.run(main)
        place.sync(PATIENCE)
    assert "waits in Event.wait; behind it" in reports.texts[0] and "other: " in reports.texts[0]
