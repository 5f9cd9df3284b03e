"""Completions, events and tasks of streams as futures of threads: timeouts, and the functions of concurrent.futures."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import atops
from atops.base.errors import (
    CommandCancelled,
    IllegalState,
    InvalidType,
    NotReady,
    NotSupported,
    PriorLaunchFailure,
    WouldDeadlock,
)
from tests.every import every
from tests.runtime.boards import PATIENCE
from tests.runtime.hosts import board, on_every_host, on_hosts
from tests.runtime.latch import hold

WAYS: dict[str, Callable[[Any, float | None], Any]] = {
    "result(2)": lambda thing, timeout: thing.result(timeout),
    "result(timeout=2)": lambda thing, timeout: thing.result(timeout=timeout),
    "exception(2)": lambda thing, timeout: thing.exception(timeout),
    "exception(timeout=2)": lambda thing, timeout: thing.exception(timeout=timeout),
}
KINDS: dict[str, Callable[[atops.Stream], Any]] = {
    "a completion": lambda stream: stream.call(lambda: 7),
    "an event": lambda stream: stream.record(),
}


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


@on_hosts("inline", "shuffled")
async def test_a_timeout_blocks_inline(device):
    """Where the program's thread runs the board, too: the steps of the driver are run until then."""
    check_timeouts(device)


def test_a_timeout_blocks_in_plain_code(device: atops.Device) -> None:
    """As a future of concurrent.futures does; without one NotReady, as from a future of asyncio."""
    check_timeouts(device)


def check_timeouts(device: atops.Device) -> None:
    """Ask for results with each timeout, before the end and after it."""
    stream = device.create_stream()
    for kind, make in KINDS.items():
        for way, ask in WAYS.items():
            label = (kind, way)
            latch = hold(stream)
            thing = make(stream)
            with pytest.raises(NotReady, match=r"await it, or call wait_sync\(\) or result\(timeout\)"):
                thing.result()
            with pytest.raises(NotReady):
                thing.exception()
            for timeout in (0, -1, 0.001):
                with pytest.raises(TimeoutError, match="was not done within"):
                    ask(thing, timeout)
            with pytest.raises(InvalidType, match="the timeout is 'soon'"):
                ask(thing, "soon")
            latch.release()
            expected = 7 if kind == "a completion" and way.startswith("result") else None
            assert ask(thing, PATIENCE) == expected, label
            for timeout in (None, 0, -1, PATIENCE):  # what is over is there at once
                assert ask(thing, timeout) == expected, label
            make(stream).result(None)


def test_a_timeout_of_what_fails_and_is_cancelled(device: atops.Device) -> None:
    """`result` raises the failure, `exception` returns it: also where they blocked for it."""
    stream = device.create_stream()
    for way, ask in WAYS.items():
        for kind, expected in (("a completion", ZeroDivisionError), ("an event", PriorLaunchFailure)):
            latch = hold(stream)
            call = stream.call(lambda: 1 / 0)
            thing = call if kind == "a completion" else stream.record()
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(ask, thing, PATIENCE)
                latch.release()
                error = asked.result(PATIENCE) if way.startswith("exception") else asked.exception(PATIENCE)
            assert isinstance(error.__cause__ if kind == "a completion" else error, expected), (way, kind, error)
            stream.clear_error()
        latch = hold(stream)
        call = stream.call(int)
        assert call.cancel()
        latch.release()
        error = call.exception(PATIENCE)
        assert isinstance(error, CommandCancelled)
        with pytest.raises(CommandCancelled):
            call.result(PATIENCE)


@pytest.mark.asyncio
async def test_a_timeout_never_blocks_a_loop_for_what_it_must_run():
    """A task of a stream runs on this loop, so a blocking wait for it, or behind it, is refused."""
    with board() as device:
        stream = device.create_stream()
        go = asyncio.Event()
        task = stream.create_task(go.wait())
        behind = stream.record()
        for thing in (task, behind, behind.completion):
            for ask in (lambda thing: thing.result(1), lambda thing: thing.exception(timeout=None), wait_for_one):
                with pytest.raises(WouldDeadlock, match="await it"):
                    ask(thing)
        go.set()
        assert await task is True
        assert task.result(0) is True and task.exception(timeout=2) is None
        await stream.aclose()


# ---- concurrent.futures


def wait_for_one(thing: Any) -> Any:
    """Wait for a thing with `concurrent.futures.wait`."""
    return concurrent.futures.wait([thing])


@every("kind", KINDS)
@every("ending", ("done", "failed", "cancelled"))
@every("others", (False, True))
def test_functions_of_concurrent_futures(device: atops.Device, kind: str, ending: str, others: bool) -> None:
    """`wait` and `as_completed` give back what they were given, beside futures of threads; a timeout leaves nothing."""
    stream = device.create_stream()
    latch = hold(stream)
    if ending == "failed":
        stream.call(lambda: 1 / 0)
    thing = KINDS[kind](stream)
    future: Future[None] = Future()
    things = {thing, future} if others else {thing}
    assert concurrent.futures.wait(things, timeout=0) == (set(), things)
    with pytest.raises(TimeoutError):
        next(concurrent.futures.as_completed(things, timeout=0))
    with ThreadPoolExecutor(4) as pool:
        waits = [
            pool.submit(concurrent.futures.wait, things, PATIENCE, "FIRST_COMPLETED"),
            pool.submit(concurrent.futures.wait, things, PATIENCE, "FIRST_EXCEPTION"),
            pool.submit(concurrent.futures.wait, things, PATIENCE),
            pool.submit(lambda: [*concurrent.futures.as_completed(things, PATIENCE)]),
        ]
        if ending == "cancelled":
            assert thing.cancel()
        latch.release()
        assert thing in waits[0].result().done
        future.set_result(None)
        assert thing in waits[1].result().done
        assert waits[2].result() == (things, set())
        assert set(waits[3].result()) == things
    assert concurrent.futures.wait(things) == (things, set())
    assert set(concurrent.futures.as_completed(things)) == things
    stream.clear_error()


@every("order", (0, 1))
def test_a_refusal_leaves_other_futures_alone(order: int) -> None:
    """Inline no thread could end the wait; the futures beside it are not left locked."""

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        latch = hold(stream)
        thing, future = stream.record(), Future[int]()
        things: list[Any] = [thing, thing.completion, future]
        for wait in (concurrent.futures.wait, lambda things: next(concurrent.futures.as_completed(things))):
            with pytest.raises(NotSupported, match=r"cannot wait for .*: this thread is the only one"):
                wait(things[::-1] if order else things)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(future.set_result, 1).result(PATIENCE)
        latch.release()
        await thing
        assert concurrent.futures.wait(things) == (set(things), set())

    atops.run(main)


def test_a_wait_for_an_event_is_for_the_record_of_the_moment(device: atops.Device) -> None:
    """One that begins while a thread waits for an earlier record is refused, and `completion` taken."""
    stream, other = device.create_stream(), device.create_stream()
    event = device.create_event()
    latch, second = hold(stream), hold(other)
    stream.record(event)
    first = event.completion
    assert first is not None

    quick = Future[None]()
    quick.set_result(None)
    with ThreadPoolExecutor(1) as pool:
        things = concurrent.futures.as_completed([event, quick], PATIENCE)
        assert next(things) is quick  # from here on it waits for the event
        other.record(event)
        with pytest.raises(IllegalState, match=r"earlier record of .*; give its `completion`"):
            concurrent.futures.wait([event], timeout=0)
        assert event.completion is not None
        assert concurrent.futures.wait([event.completion, first], timeout=0).done == set()
        latch.release()
        assert pool.submit(next, things).result(PATIENCE) is event and first.done() and not event.done()
        things.close()
    assert concurrent.futures.wait([event], timeout=0) == (set(), {event})
    second.release()
    assert concurrent.futures.wait([event], timeout=PATIENCE) == ({event}, set())


@on_every_host
async def test_what_python_3_14_copies_from_a_future(device):
    """A loop takes state, result and failure in one call there."""
    stream = device.create_stream()
    latch = hold(stream)
    call, event = stream.call(lambda: 7), stream.record()
    assert call._get_snapshot() == event._get_snapshot() == (False, False, None, None)
    latch.release()
    await event
    assert call._get_snapshot() == (True, False, 7, None) and event._get_snapshot() == (True, False, None, None)
