"""Which stream may have a freed block next: the rules of reuse, one by one, by switches, and under random orders."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import anyio.lowlevel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.errors import OutOfMemory
from atops.device.memory.allocation import Allocation, fill
from atops.runtime.device import Device
from atops.runtime.driver import Driver
from atops.runtime.pools.pool import MemoryPool
from tests.runtime.pool_fakes import MIB, Item, Lane, make_context


@pytest.fixture
def context() -> Any:
    """A device of 64 MiB."""
    return make_context()


@pytest.fixture
def pool(context: Any) -> MemoryPool:
    """A pool on it that keeps what is freed."""
    pool = MemoryPool(context)
    pool.release_threshold = 64 * MIB
    return pool


def test_same_stream_at_once(context: Any, pool: MemoryPool) -> None:
    """The stream that freed gets the block back before it has come to the free, the newest first."""
    lane = Lane(context, 1)
    first, second = lane.take(pool, 4096), lane.take(pool, 4096)
    lane.free(pool, first)
    lane.free(pool, second)
    assert lane.take(pool, 4096).address == second.address
    assert lane.take(pool, 4096).address == first.address
    assert pool.statistics().same_stream == 2


def test_many_lives_in_one_queue(context: Any, pool: MemoryPool) -> None:
    """A loop that allocates and frees needs one block, however far ahead of the stream it runs."""
    lane = Lane(context, 1)
    for _ in range(100):
        lane.free(pool, lane.take(pool, 4096))
    assert pool.reserved_current == 4096
    lane.run_all()
    assert pool.statistics().idle == 4096


def test_other_stream_when_the_free_has_run(context: Any, pool: MemoryPool) -> None:
    """Another stream gets a block that is idle, not one whose free has still to run."""
    one, two = Lane(context, 1), Lane(context, 2)
    freed = one.take(pool, 4096)
    one.free(pool, freed)
    assert two.take(pool, 4096).address != freed.address
    one.run()
    assert two.take(pool, 4096).address == freed.address
    assert pool.statistics().opportunistic == 1


def test_without_opportunistic_reuse(context: Any, pool: MemoryPool) -> None:
    """Switched off, idle memory of another stream is left to that stream."""
    pool.reuse_allow_opportunistic = False
    one, two = Lane(context, 1), Lane(context, 2)
    freed = one.take(pool, 4096)
    one.free(pool, freed)
    one.run()
    assert two.take(pool, 4096).address != freed.address
    assert one.take(pool, 4096).address == freed.address


@pytest.mark.parametrize("ran", [False, True])
def test_other_stream_after_an_event(context: Any, pool: MemoryPool, ran: bool) -> None:
    """A stream that waits for an event recorded after the free may have the block; before the free it may not."""
    pool.reuse_allow_opportunistic = False
    one, early, late = Lane(context, 1), Lane(context, 2), Lane(context, 3)
    freed = one.take(pool, 4096)
    early.wait_for(one)
    one.free(pool, freed)
    late.wait_for(one)
    if ran:
        one.run()
    assert early.take(pool, 4096).address != freed.address
    got, after, _ = pool.take(4096, late)
    assert got.address == freed.address
    assert len(after) == (not ran)
    assert pool.statistics().after_event == 1


def test_an_event_finds_every_size(context: Any, pool: MemoryPool) -> None:
    """A block that was freed after the event does not hide a larger one that was freed before it."""
    one, two = Lane(context, 1), Lane(context, 2)
    large, small = one.take(pool, 4352), one.take(pool, 4096)
    item = one.free(pool, large)
    two.wait_for(one)
    one.free(pool, small)
    got, after, _ = pool.take(4096, two)
    assert (got.address, after) == (large.address, (item,))


def test_what_was_freed_first_is_found_first(context: Any, pool: MemoryPool) -> None:
    """A block of which an older free has run keeps its place before what was freed after the event."""
    one, two, three = (Lane(context, number) for number in (1, 2, 3))
    one.free(pool, one.take(pool, 4096))
    two.wait_for(one)
    block, _, _ = pool.take(4096, two)
    other = two.take(pool, 4096)
    item = two.free(pool, block)
    three.wait_for(two)
    two.free(pool, other)
    one.run()
    got, after, _ = pool.take(4096, three)
    assert (got.address, after) == (block.address, (item,))


def test_without_event_dependencies(context: Any, pool: MemoryPool) -> None:
    """Switched off, an event makes no difference."""
    pool.reuse_follow_event_dependencies = False
    one, two = Lane(context, 1), Lane(context, 2)
    freed = one.take(pool, 4096)
    one.free(pool, freed)
    two.wait_for(one)
    assert two.take(pool, 4096).address != freed.address


def test_null_streams_of_two_devices(context: Any, pool: MemoryPool) -> None:
    """Both have number 0, and are not one order."""
    pool.set_access(1, "readwrite")
    here, there = Lane(context, 0), Lane(make_context(MIB, 1, context.board), 0)
    freed = here.take(pool, 4096)
    here.free(pool, freed)
    assert there.take(pool, 4096).address != freed.address
    there.wait_for(there)
    assert there.take(pool, 4096).address != freed.address
    assert here.take(pool, 4096).address == freed.address


def test_internal_dependency_is_the_last_resort(context: Any) -> None:
    """Only when nothing else is left does an allocation wait for what another stream frees, the best fit first."""
    pool = MemoryPool(context, max_size=10 * MIB)
    one, two, three = (Lane(context, number) for number in (1, 2, 3))
    small, large = one.take(pool, 4 * MIB), one.take(pool, 6 * MIB)
    two.free(pool, large)
    item = one.free(pool, small)
    got, after, _ = pool.take(3 * MIB, three)
    assert (got.address, after) == (small.address, (item,))
    one.run_all()
    assert got.alive
    assert pool.statistics().internal_dependency == 1


def test_without_internal_dependencies(context: Any) -> None:
    """Switched off, exhausted is exhausted."""
    pool = MemoryPool(context, max_size=4 * MIB)
    pool.reuse_allow_internal_dependencies = False
    one, two = Lane(context, 1), Lane(context, 2)
    one.free(pool, one.take(pool, 4 * MIB))
    with pytest.raises(OutOfMemory):
        two.take(pool, 4 * MIB)
    assert one.take(pool, 256).size == 256  # the whole block, rather than none


def test_wasteful_reuse(context: Any, pool: MemoryPool) -> None:
    """A block serves a request that needs most of it; a much smaller one gets memory of its own."""
    lane = Lane(context, 1)
    block = lane.take(pool, 10 * MIB)
    lane.free(pool, block)
    assert lane.take(pool, MIB).address != block.address
    assert lane.take(pool, 8 * MIB).address == block.address
    assert pool.used_current == 9 * MIB


def test_the_wait_survives_an_abort(context: Any) -> None:
    """A free of one stream that still has to run is waited for, though another stream has freed the block since."""
    pool = MemoryPool(context, max_size=MIB)
    one, two = Lane(context, 1), Lane(context, 2)
    item = one.free(pool, one.take(pool, MIB))
    middle, after, _ = pool.take(MIB, two)
    assert after == (item,)
    two.free(pool, middle)
    two.run()  # an abort has dropped the wait
    assert pool.statistics().idle == 0
    assert pool.take(MIB, two)[1] == (item,)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a held stream waits for; open at the end in any case."""
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.mark.anyio
async def test_reuse_in_a_held_stream(gate: threading.Event) -> None:
    """Of a stream that stands still, the stream itself gets the freed bytes at once, and another one does not."""
    async with Driver() as driver:
        device = Device(0, driver)
        async with device.create_stream() as one, device.create_stream() as two:
            first = one.allocate(4096)
            address = first.address
            one.call(gate.wait)
            one.fill(first, np.uint8(1))
            one.free(first)
            again, other = one.allocate(4096), two.allocate(4096)
            one.fill(again, np.uint8(2))
            back = one.fetch(again)
            assert (again.address, other.address == address) == (address, False)
            gate.set()
            assert set(await back) == {2}
            assert one.error is None
            assert not first.is_live


@pytest.mark.anyio
async def test_the_internal_dependency_is_waited_for(gate: threading.Event) -> None:
    """Bytes that another stream has still to free are written by their next owner only after that."""
    async with Driver() as driver:
        device = Device(0, driver)
        pool = device.create_pool(max_size=4096)
        async with device.create_stream() as one, device.create_stream() as two:
            first = one.allocate(4096, pool)
            one.call(gate.wait)
            one.fill(first, np.uint8(1))
            before = one.fetch(first)
            one.free(first)
            second = two.allocate(4096, pool)
            filled = two.fill(second, np.uint8(2))
            assert second.address == first.address
            await anyio.lowlevel.checkpoint()
            assert not filled.done()
            gate.set()
            assert set(await before) == {1}
            assert set(await two.fetch(second)) == {2}


@pytest.mark.anyio
async def test_an_event_orders_reuse(gate: threading.Event) -> None:
    """A stream that waits for the freeing stream's event gets the same bytes, and its work comes after."""
    async with Driver() as driver:
        device = Device(0, driver)
        async with device.create_stream() as one, device.create_stream() as two:
            first = one.allocate(4096)
            one.call(gate.wait)
            one.fill(first, np.uint8(1))
            before = one.fetch(first)
            one.free(first)
            two.wait(one.record())
            second = two.allocate(4096)
            two.fill(second, np.uint8(2))
            after = two.fetch(second)
            assert second.address == first.address
            gate.set()
            assert (set(await before), set(await after)) == ({1}, {2})


def test_many_threads(context: Any, pool: MemoryPool) -> None:
    """Threads that allocate, free and run at the same time end with every byte back, and never hold the same bytes."""
    failures: list[BaseException] = []

    def work(lane: Lane) -> None:
        try:
            for step in range(300):
                allocation = lane.take(pool, 256 + 512 * (step % 5))
                fill(allocation, 0, bytes([lane.number]), allocation.size)
                assert bytes(allocation.view) == bytes([lane.number]) * allocation.size
                lane.free(pool, allocation)
                if step % 7 == 0:
                    lane.run_all()
                if step % 50 == 0:
                    pool.trim()
            lane.run_all()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(Lane(context, number),)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    pool.trim()
    assert (pool.used_current, pool.reserved_current, context.memory.statistics().used) == (0, 0, 0)


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["take", "free", "run", "wait"]), st.integers(0, 2), st.integers(0, 9)), max_size=60
)


class Model:
    """Three streams on a small pool, and what each allocation must be ordered after."""

    def __init__(self) -> None:
        self.context = make_context(MIB)
        self.pool = MemoryPool(self.context, max_size=16 << 10)
        self.lanes = [Lane(self.context, number) for number in (1, 2, 3)]
        self.live: list[Allocation] = []
        self.frees: dict[Allocation, tuple[Lane, Item]] = {}

    def act(self, verb: str, lane: Lane, number: int) -> None:
        """Do one thing; a verb that makes no sense now does nothing."""
        if verb == "take":
            self.take(lane, number * 400)
        elif verb == "free" and self.live:
            allocation = self.live.pop(number % len(self.live))
            self.frees[allocation] = lane, lane.free(self.pool, allocation)
        elif verb == "run" and lane.queue:
            lane.run()
        elif verb == "wait":
            lane.wait_for(self.lanes[number % 3])

    def take(self, lane: Lane, nbytes: int) -> None:
        """Allocate, and check that the last user of these bytes is done with them by then."""
        try:
            allocation, after, _ = self.pool.take(nbytes, lane)
        except OutOfMemory:
            return
        for other in self.live:
            assert not overlap(allocation, other)
        for other, (freer, item) in self.frees.items():
            if other.alive and overlap(allocation, other):
                # A later free of the same lane implies this one.
                later = [each for stream, each in self.frees.values() if stream is freer and each.seq >= item.seq]
                assert freer is lane or any(each in after for each in later)
        self.live.append(allocation)


def overlap(one: Allocation, two: Allocation) -> bool:
    """Tell whether two allocations share bytes."""
    return one.offset < two.offset + max(two.size, 1) and two.offset < one.offset + max(one.size, 1)


@pytest.mark.slow
@given(ACTIONS)
def test_no_two_owners_at_once(actions: list[tuple[str, int, int]]) -> None:
    """Whatever the order, bytes are never shared but in stream order, the figures add up, and nothing is lost."""
    model = Model()
    pool, memory = model.pool, model.context.memory
    for verb, lane, number in actions:
        model.act(verb, model.lanes[lane], number)
        statistics = pool.statistics()
        assert statistics.used_current == sum(each.size for each in model.live)
        assert statistics.used_current <= statistics.reserved_current <= 16 << 10
        assert statistics.reserved_current == memory.statistics().used
        assert all(each.alive and memory.find(each.address) is each for each in model.live)
    for allocation in model.live:
        model.lanes[0].free(pool, allocation)
    for lane_ in model.lanes:
        lane_.run_all()
    pool.trim()
    assert (pool.reserved_current, memory.statistics().used, memory.statistics().live) == (0, 0, 0)
