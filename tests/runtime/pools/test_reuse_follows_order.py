"""Which freed block a stream may have: random programs on real streams against a model of what comes before what."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import numpy as np
import pytest

import atops
from atops.errors import IllegalAddress, OutOfMemory
from atops.runtime.stream import queue_of
from tests.every import every
from tests.runtime.boards import PATIENCE, Latch, device

MIB = 1 << 20
SIZE = 4096


class Model:
    """Happens-before of one program as bits: of each command, those that are over when it begins."""

    def __init__(self, streams: list[Any]) -> None:
        self.streams = streams
        self.before: list[int] = []
        self.last = dict.fromkeys(streams, 0)  # the bits behind each stream's newest command, its own too
        self.null = 0  # and behind the null stream's newest one
        self.freed: dict[int, tuple[Any, int]] = {}  # by address: the stream and the command that freed it

    def add(self, stream: Any, after: int = 0, wait: bool = False) -> int:
        """Add a command, and return its bit with those of all that comes before it."""
        bits = self.last[stream] | after
        if queue_of(stream).null:
            for other in self.streams:
                bits |= 0 if other.is_nonblocking else self.last[other]
        elif not stream.is_nonblocking and not wait:
            bits |= self.null
        bits |= 1 << len(self.before)
        self.before.append(bits)
        self.last[stream] = bits
        if queue_of(stream).null:
            self.null = bits
        return bits


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in (1, 2, 3))])
def test_reuse_follows_dependencies(part: int) -> None:
    """A block that is still to be freed goes to a stream just where the free comes before what the stream does next.

    By events, through third streams, and by null-stream order; its own stream has it in any case.
    """
    followed = fresh = 0
    for seed in range(part * 60, part * 60 + 60):
        with device() as place:
            counts = run_program(Random(seed), place)
            followed, fresh = followed + counts[0], fresh + counts[1]
    assert followed > 40 and fresh > 300


def run_program(random: Random, place: atops.Device) -> tuple[int, int]:
    """Check one program; no command of it runs until all are enqueued."""
    gate, pool = Latch(place), place.create_pool()
    streams = [place.null_stream, *(place.create_stream(nonblocking=random.random() < 0.5) for _ in range(4))]
    for stream in streams:
        gate.hold(stream)
    model, live, events = Model(streams), [], []
    for stream in streams:
        model.add(stream)
    followed = fresh = 0
    for _ in range(50):
        stream = random.choice(streams)
        verb = random.choice(("allocate", "allocate", "free", "free", "record", "wait", "wait", "work"))
        if verb == "allocate":
            known = model.add(stream)
            own = [at for at, (by, _) in model.freed.items() if by is stream]
            behind = [at for at, (by, free) in model.freed.items() if by is not stream and known >> free & 1]
            before = pool.statistics()
            buffer = stream.allocate(SIZE, pool)
            after = pool.statistics()
            if own:
                assert buffer.address in own and after.same_stream == before.same_stream + 1
            elif behind:
                assert buffer.address in behind and after.after_event == before.after_event + 1
                followed += 1
            else:
                assert buffer.address not in model.freed and after.fresh == before.fresh + 1
                fresh += 1
            model.freed.pop(buffer.address, None)
            live.append(buffer)
        elif verb == "free" and live:
            buffer = live.pop(random.randrange(len(live)))
            owner = next(each for each in streams if buffer.allocation in queue_of(each).owned)
            owner.free(buffer)
            model.freed[buffer.address] = owner, model.add(owner).bit_length() - 1
        elif verb == "record":
            events.append((stream.record(), model.add(stream)))
        elif verb == "wait" and events:
            event, bits = random.choice(events)
            stream.wait(event)
            model.add(stream, bits, wait=True)
        elif verb == "work":
            stream.call(len, ())
            model.add(stream)
    gate.open()
    place.sync(PATIENCE)
    for stream in streams[1:]:
        stream.close()
    return followed, fresh


def test_neighbours_of_one_stream_are_one_at_once() -> None:
    """Within the limit of a pool, with no command run; the bytes are one range, and so they stay when it is freed."""
    with device() as place:
        gate, stream, pool = Latch(place), place.create_stream(nonblocking=True), place.create_pool(max_size=8 * MIB)
        gate.hold(stream)
        halves = [stream.allocate(4 * MIB, pool) for _ in range(2)]
        stream.fill(halves[1], 7)
        first = min(each.address for each in halves)
        for each in halves:
            stream.free(each)
        whole = stream.empty(8 * MIB, np.uint8, pool)
        assert whole.address == first and pool.reserved_current == pool.used_current == 8 * MIB
        stream.fill(whole, 3)
        value = stream.fetch(whole)
        stream.free(whole)
        again = stream.allocate(8 * MIB, pool)
        gate.open()
        assert (value.wait_sync(PATIENCE) == 3).all() and again.address == first
        stream.free(again)
        stream.sync(PATIENCE)
        assert pool.reserved_current == pool.used_current == 0 == len(place.context.memory._kept)
        assert stream.allocate(8 * MIB, pool).address == first


@pytest.mark.slow
def test_a_block_in_use_is_cut() -> None:
    """Within the limit of a pool, with no command run; earlier work keeps the bytes till it is over."""
    with device() as place:
        gate, stream, pool = Latch(place), place.create_stream(nonblocking=True), place.create_pool(max_size=8 * MIB)
        gate.hold(stream)
        others = place.context.memory.used
        whole = stream.allocate(8 * MIB, pool)
        stream.fill(whole, 7)
        before = stream.fetch(whole)
        stream.free(whole)
        halves = [stream.allocate(4 * MIB, pool) for _ in range(2)]
        assert [each.address for each in halves] == [whole.address, whole.address + 4 * MIB]
        for at, each in enumerate(halves):
            stream.fill(each, at)
        with pytest.raises(OutOfMemory):
            stream.allocate(1, pool)
        values = [stream.fetch(each) for each in halves]
        stream.free(halves[1])
        quarter = stream.allocate(MIB, pool)
        assert quarter.address == halves[1].address and pool.statistics().promised == 3 * MIB
        gate.open()
        assert (before.wait_sync(PATIENCE) == 7).all()
        assert [set(each.wait_sync(PATIENCE)) for each in values] == [{0}, {1}]
        for each in (halves[0], quarter):
            stream.free(each)
        stream.sync(PATIENCE)
        assert pool.reserved_current == 0 == len(place.context.memory._kept) and place.context.memory.used == others
        with pytest.raises(IllegalAddress, match="was freed by"):
            stream.fill(whole, 1).wait_sync(PATIENCE)


def test_a_cut_block_of_another_stream_is_waited_for() -> None:
    """Each part waits for the free; what is left of it is found by an event behind the free, as the whole was."""
    with device() as place:
        gate, pool = Latch(place), place.create_pool(max_size=4 * MIB)
        one, other, third = (place.create_stream(nonblocking=True) for _ in range(3))
        whole = one.allocate(4 * MIB, pool)
        gate.hold(one)
        one.fill(whole, 7)
        before = one.fetch(whole)
        one.free(whole)
        third.wait(one.record())
        parts = [stream.allocate(MIB, pool) for stream in (other, third)]
        fills = [stream.fill(part, 1) for stream, part in zip((other, third), parts, strict=True)]
        counts = pool.statistics()
        assert (counts.internal_dependency, counts.after_event) == (1, 1)
        assert [part.address - whole.address for part in parts] == [0, MIB]
        assert not any(fill.done() for fill in fills)
        gate.open()
        assert (before.wait_sync(PATIENCE) == 7).all()
        place.sync(PATIENCE)
        assert not fills[0].exception() and not fills[1].exception()


def test_neighbours_without_a_limit() -> None:
    """Two blocks that fit together are taken before fresh memory is; of three the two that fit; a gap is none."""
    with device() as place:
        gate, stream, pool = Latch(place), place.create_stream(nonblocking=True), place.create_pool()
        gate.hold(stream)
        one, two, three, four = (stream.allocate(MIB, pool) for _ in range(4))
        for each in (one, three):
            stream.free(each)
        fresh = stream.allocate(2 * MIB, pool)
        assert fresh.address > four.address
        stream.free(two)
        joined, alone = stream.allocate(2 * MIB, pool), stream.allocate(MIB, pool)
        assert joined.address == one.address and alone.address == three.address
        assert pool.statistics().fresh == 5 and pool.statistics().same_stream == 2
        gate.open()
        stream.sync(PATIENCE)


def test_neighbours_of_other_streams_are_not_joined() -> None:
    """The other stream has not come to its free, and nothing orders it."""
    with device() as place:
        gate, pool = Latch(place), place.create_pool(max_size=2 * MIB)
        pool.reuse_allow_internal_dependencies = False
        one, other = (place.create_stream(nonblocking=True) for _ in range(2))
        buffers = [(each, each.allocate(MIB, pool)) for each in (one, other)]
        for stream, buffer in buffers:
            gate.hold(stream)
            stream.free(buffer)
        with pytest.raises(OutOfMemory):
            one.allocate(2 * MIB, pool)
        gate.open()
        place.sync(PATIENCE)
        assert one.allocate(2 * MIB, pool).nbytes == 2 * MIB


@every("how", ["stream", "event", "device", "a stream behind it", "await", "nothing", "another stream", "too early"])
def test_what_the_host_has_synchronised_behind(how: str) -> None:
    """It is free for every stream, with all switches off; what has only run is not."""
    with device() as place:
        pool = place.create_pool()
        pool.release_threshold = 64 * MIB
        pool.reuse_allow_opportunistic = pool.reuse_follow_event_dependencies = False
        pool.reuse_allow_internal_dependencies = False
        one, other, third = (place.create_stream(nonblocking=True) for _ in range(3))
        buffer = one.allocate(SIZE, pool)
        if how == "too early":
            one.sync(PATIENCE)
        one.free(buffer)
        event = one.record()
        if how == "stream":
            one.sync(PATIENCE)
        elif how == "event":
            event.sync(PATIENCE)
        elif how == "device":
            place.sync(PATIENCE)
        elif how == "a stream behind it":
            third.wait(event)
            third.sync(PATIENCE)
        elif how == "await":
            async def wait() -> None:
                await event

            asyncio.run(wait())
        else:
            third.sync(PATIENCE)
            one.call(len, ()).wait_sync(PATIENCE)  # it has run, and the host has synchronised with nothing behind it
        reused = other.allocate(SIZE, pool).address == buffer.address
        assert reused is (how not in ("nothing", "another stream", "too early"))
        place.sync(PATIENCE)
