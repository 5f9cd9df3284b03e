"""Blocking in a running loop is refused exactly where the loop must run a coroutine first, and found out in no time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

import atops
from atops.base.errors import WouldDeadlock
from tests.runtime.hosts import board
from tests.runtime.latch import StreamLatch

STREAMS = 4  # the last one takes no part in null-stream order
COMMANDS = 60
MANY = 20_000


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver, without traces."""
    with board(trace=0) as device:
        yield device


async def owed() -> None:
    """Do nothing, on the loop."""


class Model:
    """Which commands of a random program need a coroutine: written down beside the program, set by set."""

    def __init__(self, device: atops.Device, chance: random.Random) -> None:
        self.latch = StreamLatch(device)
        self.null = device.null_stream
        self.streams = [device.create_stream(nonblocking=each == STREAMS - 1) for each in range(STREAMS)]
        self.all = [*self.streams, self.null]
        self.chance = chance
        self.needs: dict[atops.Completion, bool] = {}  # whether it needs a coroutine
        self.order = dict.fromkeys(self.all, False)  # whether what comes next in a stream does
        self.line = dict.fromkeys(self.all, False)  # and its next call
        self.held = dict.fromkeys(self.all, False)  # and what null-stream order puts behind the stream
        self.in_stream: dict[atops.Stream, list[atops.Completion]] = {each: [] for each in self.all}
        self.records: list[tuple[atops.Event, bool]] = []
        self.buffer = device.empty(1)

    def blocking(self, stream: atops.Stream) -> bool:
        """Whether a stream takes part in null-stream order."""
        return stream is not self.streams[-1]

    def enqueue(self) -> None:
        """Enqueue a command of any kind in any stream."""
        chance, stream = self.chance, self.chance.choice(self.all)
        kind = chance.choice(["fill", "fill", "record", "wait", "wait", "call", "coroutine"])
        before = self.order[stream]
        if stream is self.null:
            before |= any(self.held[each] for each in self.streams[:-1])
        elif self.blocking(stream) and kind != "wait":
            before |= self.held[self.null]
        needs, holds = before, True
        if kind == "fill":
            item = stream.fill(self.buffer, 1)
        elif kind == "record":
            event = stream.record()
            item = event.completion
            self.records.append((event, needs))
        elif kind == "wait":
            if not self.records:
                return
            event, after = chance.choice(self.records[-8:])
            item = stream.wait(event)
            needs |= after
        else:
            holds = chance.random() < 0.5
            item = stream.call(owed if (mine := kind == "coroutine" and chance.random() < 0.3) else int, holds=holds)
            needs |= mine or self.line[stream]
            self.line[stream] |= needs
        self.needs[item] = needs
        self.in_stream[stream].append(item)
        self.order[stream] |= needs if holds else before
        if self.blocking(stream) and holds:
            self.held[stream] |= needs


def refused(wait: Callable[[float], Any]) -> bool:
    """Return whether a wait of no time would never end; else it has not ended by then, or it has."""
    try:
        wait(0)
    except WouldDeadlock:
        return True
    except TimeoutError:
        pass
    return False


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_random_programs(device: atops.Device, backend: str) -> None:
    """Each blocking wait in a loop is refused if what it waits for needs a coroutine of that loop, and only then."""
    seen = set()

    async def program(seed: int) -> None:
        model = Model(device, random.Random(seed))
        for stream in model.streams:
            model.latch.hold(stream)
        for _ in range(COMMANDS):
            model.enqueue()
        found = {item: refused(item.wait_sync) for item in model.needs if not item.done()}
        assert found == {item: model.needs[item] for item in found}, seed
        seen.update(found.values())
        blocking = [*model.streams[:-1], model.null]
        for stream in model.all:
            parts = blocking if stream is model.null else [stream]
            assert refused(stream.sync) == any(model.needs[item] for each in parts for item in model.in_stream[each])
        assert refused(device.sync) == any(model.needs.values())
        model.latch.release()
        await device.wait()
        assert not refused(device.sync)

    for seed in range(12):
        anyio.run(program, seed, backend=backend)
    assert seen == {False, True}


def interleaved(device: atops.Device, latch: StreamLatch) -> list[atops.Stream]:
    """Enqueue many commands in many streams, each of which waits for the null stream and the null stream for it."""
    streams = [device.create_stream() for _ in range(200)]
    latch.hold(streams[0])
    buffer = device.empty(1)
    for turn in range(MANY // len(streams)):
        for stream in streams:
            stream.fill(buffer, turn)
        device.null_stream.fill(buffer, turn)
    return streams


def took(wait: Callable[[], object]) -> float:
    """Return the seconds that a wait in vain takes, the best of three times."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        with pytest.raises(TimeoutError):
            wait()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.slow
@pytest.mark.parametrize("owes", [False, True], ids=["owes nothing", "owes a coroutine"])
def test_timeouts_hold_behind_many_commands(device: atops.Device, owes: bool) -> None:
    """Also in a loop, and if that must run a coroutine somewhere else: it took a second for each of these."""

    async def program() -> None:
        latch, other = StreamLatch(device), device.create_stream(nonblocking=True)
        streams = interleaved(device, latch)
        if owes:
            latch.hold(other)
            other.call(owed)
        else:
            await asyncio.sleep(0)
        event = streams[-1].record()
        completion = streams[-1].fill(device.empty(1), 1)
        waits: dict[str, Callable[[], object]] = {
            "stream": lambda: streams[-1].sync(0),
            "null stream": lambda: device.null_stream.sync(0),
            "completion": lambda: completion.wait_sync(0),
            "event": lambda: event.sync(0),
        }
        if not owes:
            waits["device"] = lambda: device.sync(0)
        slow = {name: seconds for name, wait in waits.items() if (seconds := took(wait)) > 0.1}
        assert not slow
        latch.release()
        await device.wait()

    asyncio.run(program())


@pytest.mark.parametrize("task", [False, True], ids=["call", "create_task"])
def test_a_coroutine_that_is_over_is_owed_no_more(device: atops.Device, task: bool) -> None:
    """However it ended: blocking in its loop is allowed again, and nothing keeps the coroutine's completion alive."""

    async def fails() -> None:
        raise ValueError

    async def program() -> None:
        latch = StreamLatch(device)
        for function in (owed, fails):
            for end in ("run", "abort", "cancel"):
                stream, other = device.create_stream(), device.create_stream()
                latch.hold(stream)
                call = stream.create_task(function()) if task else stream.call(function)
                other.wait(stream)
                with pytest.raises(WouldDeadlock):
                    other.sync()
                if end == "abort":
                    stream.abort()
                elif end == "cancel":
                    call.cancel()
                latch.release()
                await asyncio.wait({call})
                for each in (stream, other):
                    each.abort()
                    each.clear_error()
                    each.sync()
        device.sync()

    asyncio.run(program())
