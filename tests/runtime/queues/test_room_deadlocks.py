"""Waits for room that can never come, because what waits keeps the places itself: refused inline, else reported."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import atops
from atops.errors import AtopsError, HostCallFailure, StreamFull, WouldDeadlock
from atops.runtime.stream import queue_of
from tests.runtime.boards import PATIENCE
from tests.runtime.hosts import board, on_every_host
from tests.runtime.latch import hold

Streams = list[atops.Stream]


@contextmanager
def reported() -> Iterator[list[str]]:
    """Collect what is logged of stalls."""
    said: list[str] = []

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    log, handler = logging.getLogger("atops.stall"), Heard()
    log.addHandler(handler)
    try:
        yield said
    finally:
        log.removeHandler(handler)


async def enters(stream: atops.Stream, places: int | None = None) -> None:
    """Enter room, and enqueue something there."""
    async with stream.room(places):
        stream.record()


def own_place(one: atops.Stream, other: atops.Stream) -> None:
    """Want the only place of the stream, which the coroutine has."""
    one.call(enters, one, 1)


def own_place_without_a_number(one: atops.Stream, other: atops.Stream) -> None:
    """As many places as there are."""
    one.call(enters, one)


def own_place_as_a_task(one: atops.Stream, other: atops.Stream) -> None:
    """As a coroutine object."""
    one.create_task(enters(one, 1))


def own_place_of_a_wait(one: atops.Stream, other: atops.Stream) -> None:
    """The stream waits for a coroutine that wants the place of this wait."""
    one.wait(enters(one, 1))


def all_places_of_its_stream(one: atops.Stream, other: atops.Stream) -> None:
    """One place is free and will never be enough; what holds nothing has a place, too."""
    other.call(enters, other, 2, holds=False)


def places_of_what_waits_for_it(one: atops.Stream, other: atops.Stream) -> None:
    """Two coroutines that hold nothing have both places, and the second one begins when the first has ended."""
    other.call(enters, other, 1, holds=False)
    other.call(enters, other, 1, holds=False)


def a_place_behind_its_stream(one: atops.Stream, other: atops.Stream) -> None:
    """The place belongs to a command that waits for the coroutine's stream."""
    other.call(enters, one, 1)
    one.wait(other.record())


def each_others_places(one: atops.Stream, other: atops.Stream) -> None:
    """Two coroutines, each of which has what the other one wants."""
    one.call(enters, other, 2)
    other.call(enters, one, 1)


def a_task_that_it_awaits(one: atops.Stream, other: atops.Stream) -> None:
    """The task that waits for room is not the coroutine's own, but the coroutine waits for that."""

    async def coroutine() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enters, other, 1)
            await enters(one, 1)

    one.call(coroutine)


def work_whose_coroutine_wants_the_place(one: atops.Stream, other: atops.Stream) -> None:
    """The last wait of the cycle is one for a command."""

    async def coroutine() -> None:
        await wanting

    wanting = other.call(enters, one, 1)
    one.call(coroutine)


CYCLES = [
    own_place, own_place_without_a_number, own_place_as_a_task, own_place_of_a_wait, all_places_of_its_stream,
    places_of_what_waits_for_it, a_place_behind_its_stream, each_others_places, a_task_that_it_awaits,
    work_whose_coroutine_wants_the_place,
]  # fmt: skip


@pytest.mark.parametrize("build", CYCLES)
@on_every_host
async def test_room_that_can_never_come(device, build: Callable[[atops.Stream, atops.Stream], None]):
    """Inline the wait raises WouldDeadlock, elsewhere it is logged, once; both name the room, and the streams go on."""
    one, other = device.create_stream(capacity=1, name="one"), device.create_stream(capacity=2, name="other")
    with anyio.fail_after(PATIENCE), reported() as said:
        build(one, other)
        items = [item for stream in (one, other) for item in queue_of(stream).pending()]
        while not said and not all(item.is_done for item in items):
            await anyio.lowlevel.checkpoint()
        if device.driver.inline:
            said += [str(each) for item in items for each in causes(item.exception()) if type(each) is WouldDeadlock]
        for stream in (one, other):
            stream.abort()
        for item in items:
            with suppress(AtopsError):
                await item
        for stream in (one, other):
            stream.clear_error()
            async with stream.room():
                assert await stream.call(int) == 0
    assert len(set(said)) == 1
    assert "awaits what waits for it: <" in said[0] and "<Room for " in said[0]


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield every exception that an error consists of or comes from."""
    if error is not None:
        yield error
        for each in (error.__cause__, *getattr(error, "exceptions", ())):
            yield from causes(each)


@on_every_host
async def test_room_behind_a_wait_for_more(device):
    """A small reservation does not overtake a large one: where that wants the coroutine's place, both stand."""
    stream = device.create_stream(capacity=2, name="narrow")
    begun = anyio.Event()

    async def coroutine() -> None:
        begun.set()
        while queue_of(stream).places.waiting == 0:
            await anyio.lowlevel.checkpoint()
        await enters(stream, 1)

    with anyio.fail_after(PATIENCE), reported() as said:
        item = stream.call(coroutine)
        await begun.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enters, stream, 2)
            while not said and not item.is_done:
                await anyio.lowlevel.checkpoint()
            if device.driver.inline:
                said += [str(each) for each in causes(item.exception()) if type(each) is WouldDeadlock]
            stream.abort()
            stream.clear_error()
    assert len(said) == 1 and "<Room for 1 in narrow" in said[0]


@on_every_host
async def test_room_that_comes(device):
    """Nothing is said where a command that does not wait for the coroutine gives its place back, or another room."""
    one, other = device.create_stream(capacity=1), device.create_stream(capacity=2)
    with anyio.fail_after(PATIENCE), reported() as said:
        latch = hold(other)
        other.record()
        item = one.call(enters, other, 2)
        while queue_of(other).places.waiting == 0:
            await anyio.lowlevel.checkpoint()
        latch.release()
        await item
        async with one.room(1):
            item = other.call(enters, one, 1)
            while queue_of(one).places.waiting == 0:
                await anyio.lowlevel.checkpoint()
        await item
    assert said == []


# ---- host functions


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


def test_host_functions_that_want_their_own_places(device: atops.Device):
    """Their own, one that waits for them, each other's: refused; of two functions one goes on."""
    one, other = device.create_stream(capacity=1), device.create_stream(capacity=1)

    def asks(stream: atops.Stream) -> int:
        with stream.room_sync(1):
            return 1

    with pytest.raises(HostCallFailure, match=r"WouldDeadlock.*a callback waits for <Room for 1"):
        one.call(asks, one).wait_sync(PATIENCE)
    one.clear_error()
    latch = hold(one)
    latch.release()
    one.sync(PATIENCE)
    both = threading.Barrier(2)

    def asks_together(stream: atops.Stream) -> int:
        both.wait(PATIENCE)
        return asks(stream)

    items = one.call(asks_together, other), other.call(asks_together, one)
    refused = 0
    for item in items:
        try:
            assert item.wait_sync(PATIENCE) == 1
        except HostCallFailure as error:
            assert isinstance(error.__cause__, WouldDeadlock)
            refused += 1
    assert refused == 1


def test_a_host_function_may_wait_for_room_that_comes(device: atops.Device):
    """Of the commands that have the places only one waits for the function; the other one gives its place back."""
    one, other = device.create_stream(), device.create_stream(capacity=2)
    gate = threading.Event()

    def asks() -> int:
        gate.wait(PATIENCE)
        with other.room_sync(1, PATIENCE):
            return 1

    latch = hold(other)
    item = one.call(asks)
    other.wait(one.record())
    gate.set()
    while queue_of(other).places is not None and queue_of(other).places.waiting == 0 and not item.is_done:
        pass
    latch.release()
    assert item.wait_sync(PATIENCE) == 1


# ---- random programs


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no other thread, for which an inline run would wait."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)


Step = tuple[str, int, int, float]  # what, where, how many places, and a share


async def take(step: Step, streams: Streams, items: list[atops.Completion[Any]]) -> None:
    """Take a step of a coroutine."""
    kind, place, places, share = step
    stream = streams[place]
    if kind in ("room", "any"):
        async with stream.room(min(places, stream.capacity or 1) if kind == "room" else None):
            if share < 0.7:
                items.append(stream.record().completion)
    elif kind == "await" and items:
        await items[int(share * len(items))]
    elif kind == "sync":
        await stream
    else:
        await asyncio.sleep(0)


def enqueue(kind: str, stream: atops.Stream, other: atops.Stream, call: Callable[[], Any]) -> atops.Completion[Any]:
    """Enqueue a command of a kind. Raises StreamFull."""
    if kind in ("call", "loose"):
        return stream.call(call, holds=kind == "call")
    return stream.wait(other.record()) if kind == "event" else stream.call(int)


def program(seed: int) -> Callable[[], Any]:
    """Return a program of coroutines in narrow streams that wait for room, for each other and for events."""
    chance = random.Random(seed)
    capacities = [chance.randint(1, 3) for _ in range(chance.randint(1, 3))]

    def step() -> Step:
        kind = chance.choice(["room", "room", "any", "await", "sync", "sleep"])
        return kind, chance.randrange(len(capacities)), chance.randint(1, 3), chance.random()

    def command() -> tuple[str, int, int, list[Step]]:
        here, there = (chance.randrange(len(capacities)) for _ in range(2))
        kind = chance.choice(["call", "call", "call", "loose", "event", "plain"])
        return kind, here, there, [step() for _ in range(chance.randint(1, 2))]

    plan = [command() for _ in range(chance.randint(2, 7))]

    async def main() -> None:
        streams = [atops.Device(0).create_stream(capacity=each, nonblocking=True) for each in capacities]
        items: list[atops.Completion[Any]] = []

        async def coroutine(steps: list[Step]) -> None:
            for each in steps:
                await take(each, streams, items)

        for kind, here, there, steps in plan:
            with suppress(StreamFull):
                items.append(enqueue(kind, streams[here], streams[there], partial(coroutine, steps)))
        for item in list(items):
            try:
                await item
            except WouldDeadlock:
                raise
            except AtopsError:
                continue

    return main


@pytest.mark.slow
def test_random_programs(monkeypatch: pytest.MonkeyPatch, alone: None):
    """A wait is refused in exactly those that come to a stand where none is."""
    from atops.runtime import driver_board

    check, refused = driver_board.check_awaiting, []

    def noted(*arguments: Any) -> None:
        try:
            check(*arguments)
        except WouldDeadlock:
            refused.append(1)
            raise

    seen = set()
    for seed in range(150):
        monkeypatch.setattr(driver_board, "check_awaiting", lambda *arguments: None)
        try:
            atops.run(program(seed), atops.EmulatorOptions(clock="virtual", seed=seed))
            stands = False
        except WouldDeadlock:
            stands = True
        monkeypatch.setattr(driver_board, "check_awaiting", noted)
        refused.clear()
        with suppress(WouldDeadlock):
            atops.run(program(seed), atops.EmulatorOptions(clock="virtual", seed=seed))
        assert bool(refused) == stands, seed
        seen.add(stands)
    assert seen == {True, False}
