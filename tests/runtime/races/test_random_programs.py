"""Random programs beside a brute-force happens-before: no false alarm, and no byte with a race that is not named."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

import atops
from atops.device.races.race import Race

BYTES = 48  # of each memory
LENGTH = 28  # steps of a program
STREAMS = 4


@dataclass
class Node:
    """A command of a program: what it touches, and the commands that are over before it begins."""

    number: int
    before: set[int] = field(default_factory=set)
    touches: list[tuple[int, int, int, bool]] = field(default_factory=list)


class Model:
    """What a program's commands come after, by the rules of docs/streams.md alone."""

    def __init__(self, blocking: list[bool]) -> None:
        self.nodes: dict[int, Node] = {}
        self.blocking = blocking  # of each stream; the last one is the null stream
        self.newest: list[int | None] = [None] * len(blocking)
        self.ordered: dict[int, int] = {}  # by blocking stream, its newest command that null-stream order counts
        self.null: int | None = None
        self.host: set[int] = set()

    def add(self, stream: int, seq: int, touches: list[tuple[int, int, int, bool]], waits: int | None = None) -> None:
        """Add a command; `waits` is the record that a wait for an event waits for: it is over when that is, too."""
        null, node = len(self.blocking) - 1, Node(seq, touches=touches)
        direct = set(self.host)
        if (last := self.newest[stream]) is not None:
            direct.add(last)
        if stream == null:
            direct |= set(self.ordered.values())
            self.null = seq
        elif self.blocking[stream]:
            if self.null is not None and waits is None:
                direct.add(self.null)
            self.ordered[stream] = seq
        if waits is not None:
            direct.add(waits)
        node.before = direct.union(*(self.nodes[each].before for each in direct)) if direct else set()
        self.nodes[seq] = node
        self.newest[stream] = seq
        if stream == null:
            self.ordered[stream] = seq

    def told(self, seq: int) -> None:
        """Have the host know that a command is over."""
        self.host |= {seq} | self.nodes[seq].before

    def races(self) -> dict[tuple[int, int], set[int]]:
        """Return by (memory, byte) the commands of which some pair races there, and all such pairs' numbers."""
        found: dict[tuple[int, int], set[int]] = {}
        nodes = sorted(self.nodes.values(), key=lambda node: node.number)
        for at, later in enumerate(nodes):
            for earlier in nodes[:at]:
                if earlier.number in later.before or later.number in earlier.before:
                    continue
                for memory, start, stop, write in later.touches:
                    for other, begin, end, wrote in earlier.touches:
                        if memory == other and (write or wrote):
                            for byte in range(max(start, begin), min(stop, end)):
                                found.setdefault((memory, byte), set()).update((earlier.number, later.number))
        return found

    def unordered(self, one: int, two: int) -> bool:
        """Return whether nothing orders two commands."""
        return one not in self.nodes[two].before and two not in self.nodes[one].before


class Run:
    """One random program, on a device and in the model at once."""

    def __init__(self, device: atops.Device, choose: random.Random) -> None:
        self.device, self.choose = device, choose
        blocking = [choose.random() < 0.6 for _ in range(STREAMS)]
        self.streams = [device.create_stream(nonblocking=not each) for each in blocking] + [device.null_stream]
        self.memories = [device.allocate(BYTES) for _ in range(2)]
        self.names = {repr(memory.allocation): number for number, memory in enumerate(self.memories)}
        self.model = Model([*blocking, True])
        self.events: list[tuple[atops.Event, int]] = []
        self.items: list[tuple[Any, int]] = []

    async def steps(self) -> None:
        for _ in range(LENGTH):
            await self.step()
        await self.device.wait()

    async def step(self) -> None:
        choose = self.choose
        number = choose.randrange(STREAMS + 1) if choose.random() < 0.3 else choose.randrange(STREAMS)
        stream = self.streams[number]
        what = choose.choices(
            ("fill", "copy", "record", "wait", "await", "sync", "null"), (30, 20, 14, 18, 8, 5, 3)
        )[0]  # fmt: skip
        if what in ("fill", "copy"):
            self.use(number, stream, what)
        elif what == "record":
            event = stream.record()
            assert event.completion is not None
            self.model.add(number, event.completion.seq, [])
            self.events.append((event, event.completion.seq))
        elif what == "wait" and self.events:
            event, record = choose.choice(self.events[-4:])
            item = stream.wait(event)
            self.model.add(number, item.seq, [], waits=record)
            self.items.append((item, item.seq))
        elif what == "await" and self.items:
            item, seq = choose.choice(self.items[-6:])
            await item
            self.model.told(seq)
        elif what == "sync":
            await stream
            streams = [number]
            if number == STREAMS:
                streams += [each for each in range(STREAMS) if self.model.blocking[each]]
            for each in streams:
                if (newest := self.model.newest[each]) is not None:
                    self.model.told(newest)
        elif what == "null" and choose.random() < 0.4:
            await self.device.wait()
            for newest in self.model.newest:
                if newest is not None:
                    self.model.told(newest)

    def use(self, number: int, stream: atops.Stream, what: str) -> None:
        memory, start, size = self.place()
        part = self.memories[memory][start : start + size]
        if what == "fill":
            item, touches = stream.fill(part, 1), [(memory, start, start + size, True)]
        else:
            at = self.choose.randrange(BYTES - size + 1)
            item = stream.copy(self.memories[1 - memory][at : at + size], part)
            touches = [(memory, start, start + size, False), (1 - memory, at, at + size, True)]
        self.model.add(number, item.seq, touches)
        self.items.append((item, item.seq))

    def place(self) -> tuple[int, int, int]:
        size = self.choose.randrange(1, 9)
        return self.choose.randrange(2), self.choose.randrange(BYTES - size + 1), size


def check(run: Run, races: list[Race]) -> None:
    """Each pair that is named has no order; each byte with a race is in one that is named."""
    model = run.model
    expected = model.races()
    named: set[tuple[int, int]] = set()
    for race in races:
        one, two = (int(side.command.split()[1]) for side in (race.first, race.second))
        assert model.unordered(one, two), f"a false alarm: {race}"
        memory = run.names[race.memory]
        for start, stop in race.ranges:
            for byte in range(start, stop):
                assert {one, two} <= expected[memory, byte]
                named.add((memory, byte))
    missed = expected.keys() - named
    assert not missed, f"bytes with a race that none names: {sorted(missed)}"


@pytest.fixture
def races(monkeypatch: pytest.MonkeyPatch) -> list[Race]:
    """Every race that is found, those of the same lines too."""
    from atops.runtime.races.report import Findings

    found: list[Race] = []
    monkeypatch.setattr(Findings, "add", lambda self, more, item=None: found.extend(more))
    return found


@pytest.mark.slow
def test_random_programs_inline(races: list[Race]) -> None:
    """Each in an order of its own."""
    for seed in range(300):
        async def main(seed: int = seed) -> Run:
            run = Run(atops.Device(0), random.Random(seed))
            await run.steps()
            return run

        races.clear()
        options = atops.EmulatorOptions(detect=True, seed=None if seed % 3 == 0 else seed)
        try:
            check(atops.run(main, options), races)
        except AssertionError as error:
            raise AssertionError(f"program {seed}: {error}") from error


@pytest.mark.slow
@pytest.mark.anyio
async def test_random_programs_on_threads(races: list[Race]) -> None:
    """With the driver's own threads."""
    async with atops.Driver(atops.EmulatorOptions(detect=True)) as driver:
        for seed in range(100):
            run = Run(atops.Device(0, driver), random.Random(1000 + seed))
            races.clear()
            await run.steps()
            check(run, races)
            for stream in run.streams[:-1]:
                await stream.aclose()
