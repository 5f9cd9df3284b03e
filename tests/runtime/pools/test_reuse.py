"""Which stream may have a freed block next: the rules of reuse, one by one, by switches, and under random orders."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import anyio.lowlevel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.errors import OutOfMemory
from atops.device.memory.allocation import Allocation, fill
from atops.device.memory.device_memory import DeviceMemory
from atops.runtime.device import Device
from atops.runtime.driver import Driver
from atops.runtime.pools.blocks import PoolBlock
from atops.runtime.pools.pool import MemoryPool
from tests.every import every
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
    large, small = one.take(pool, 6 * MIB), one.take(pool, 4 * MIB)
    assert large.address < small.address
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


VERBS = ["take", "take", "free", "free", "run", "run", "wait", "wait for the host", "put off", "late", "cancel", "trim"]
ACTIONS = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 2), st.integers(0, 40)), max_size=120)
LIMIT = 16 << 10


class Model:
    """Three streams on a small pool, and what each allocation must be ordered after."""

    def __init__(self, opportunistic: bool = True, events: bool = True, internal: bool = True) -> None:
        self.context = make_context(MIB)
        self.pool = MemoryPool(self.context, max_size=LIMIT)
        self.pool.reuse_allow_opportunistic, self.pool.reuse_follow_event_dependencies = opportunistic, events
        self.pool.reuse_allow_internal_dependencies = internal
        self.lanes = [Lane(self.context, number) for number in (1, 2, 3)]
        self.live: list[Allocation] = []
        self.late: list[Allocation] = []  # their frees have run and are put off
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
        elif verb == "wait for the host":
            lane.run_all()
            self.context.order.host[lane.number] = lane.item().seq
            self.pool.release_excess()
        elif verb == "put off" and lane.queue:
            _, allocation, item = lane.queue.popleft()
            self.pool.put_off(allocation)
            self.late.append(allocation)
            item.over = True
        elif verb == "late" and self.late:
            self.pool.returned(self.late.pop(number % len(self.late)), "late")
        elif verb == "cancel" and self.live:
            self.pool.cancel(self.live.pop(number % len(self.live)))
        elif verb == "trim":
            self.pool.trim(number << 9)

    def take(self, lane: Lane, nbytes: int) -> None:
        """Allocate, and check that the last users of these bytes are done with them by then."""
        try:
            allocation, after, own = self.pool.take(nbytes, lane)
        except OutOfMemory:
            assert not self.fits(lane, nbytes)
            return
        for other in (*self.live, *self.late):
            assert not overlap(allocation, other)
        for other, (freer, item) in self.frees.items():
            if other.alive and overlap(allocation, other):
                # A later free of the same lane implies this one.
                later = [each for stream, each in self.frees.values() if stream is freer and each.seq >= item.seq]
                assert any(each in (own if freer is lane else after) for each in later)
        self.live.append(allocation)

    def fits(self, lane: Lane, nbytes: int) -> bool:
        """Tell whether free blocks in a row that `lane` may have hold so many bytes, or whether the device does."""
        pool, need = self.pool, max(-(-nbytes // 256), 1) * 256
        if pool.reserved_current - pool.statistics().idle + need <= LIMIT:
            return True
        end = run = longest = 0
        for block in sorted(self.blocks(), key=lambda each: each.newest.offset):
            theirs = block.order != lane.number
            barred = not pool.reuse_allow_internal_dependencies if block.left else not pool.reuse_allow_opportunistic
            if block.lent or block.held or (theirs and barred):
                continue
            run = block.size + (run if block.newest.offset == end else 0)
            end, longest = block.newest.offset + block.size, max(longest, run)
        return longest >= need

    def blocks(self) -> list[PoolBlock]:
        """Return what the pool is made of."""
        ledger = self.pool._ledger
        shelves = (ledger.blocks.idle, ledger.blocks.held, *ledger.blocks.promised.values())
        return [*ledger.lent.values(), *(block for shelf in shelves for block in shelf.largest(None))]

    def check(self) -> None:
        """Check the figures, and that the blocks are apart and as many bytes as are reserved."""
        memory, figures = self.context.memory, self.pool.statistics()
        assert figures.used_current == sum(each.size for each in self.live)
        assert figures.used_current <= figures.reserved_current <= LIMIT
        assert figures.reserved_current == memory.statistics().used
        assert all(each.alive and memory.find(each.address) is each for each in self.live)
        blocks = sorted(self.blocks(), key=lambda each: each.newest.offset)
        assert sum(each.size for each in blocks) == figures.reserved_current
        assert all(one.newest.offset + one.size <= two.newest.offset for one, two in pairwise(blocks))
        assert figures.idle + figures.promised == sum(each.size for each in blocks if not each.lent)
        assert all(each.left >= each.held >= 0 for each in blocks)
        in_use = self.live or self.late or any(lane.queue for lane in self.lanes)
        assert in_use or figures.promised == 0


def overlap(one: Allocation, two: Allocation) -> bool:
    """Tell whether two allocations share bytes."""
    return one.offset < two.offset + max(two.size, 1) and two.offset < one.offset + max(one.size, 1)


@pytest.mark.slow
@given(ACTIONS, st.booleans(), st.booleans(), st.booleans())
def test_no_two_owners_at_once(
    actions: list[tuple[str, int, int]], opportunistic: bool, events: bool, internal: bool
) -> None:
    """Bytes are shared in stream order only, what fits is found, the figures add up, and nothing is lost."""
    run_program(actions, Model(opportunistic, events, internal))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))])
def test_long_programs(seed: int) -> None:
    """As above, in programs of hundreds of steps."""
    random = Random(seed)
    for _ in range(40 if seed == 0 else 2000):
        steps = [
            (random.choice(VERBS), random.randrange(3), random.randrange(random.choice((6, 41))))
            for _ in range(random.randrange(20, 250))
        ]
        run_program(steps, Model(*(random.random() < 0.7 for _ in range(3))))


def run_program(actions: list[tuple[str, int, int]], model: Model) -> None:
    """Do all of it, then end it, and check that all memory is back."""
    pool, memory = model.pool, model.context.memory
    for verb, lane, number in actions:
        model.act(verb, model.lanes[lane], number)
        model.check()
    for allocation in model.live:
        model.lanes[0].free(pool, allocation)
    for lane_ in model.lanes:
        lane_.run_all()
    for allocation in model.late:
        pool.returned(allocation, "late")
    pool.trim()
    assert (pool.reserved_current, memory.statistics().used, memory.statistics().live) == (0, 0, 0)


def test_a_cut_block_across_banks(context: Any) -> None:
    """Its parts are in the banks that they lie in, and are one range again."""
    context.memory = DeviceMemory(64 * MIB, 4, 0, 1 << 36, 0)
    pool, lane = MemoryPool(context, max_size=64 * MIB), Lane(context, 1)
    lane.free(pool, lane.take(pool, 64 * MIB))
    parts = [lane.take(pool, 24 * MIB), lane.take(pool, 40 * MIB)]
    assert [part.bank for part in parts] == [0, 1]
    for part in parts:
        lane.free(pool, part)
    whole = lane.take(pool, 64 * MIB)
    lane.run_all()
    pool.cancel(whole)
    pool.trim()
    assert [bank.used for bank in context.memory.statistics().banks] == [0] * 4
    assert context.memory.allocate(64 * MIB).size == 64 * MIB


def test_before_idle_blocks_go_back_their_neighbours_are_looked_at(context: Any) -> None:
    """Half of a pool is idle, the other half in use by the stream that asks for three quarters, and no more is free."""
    context.memory.allocate(16 * MIB)
    pool, lane = MemoryPool(context), Lane(context, 1)
    pool.release_threshold = 64 * MIB
    halves = [lane.take(pool, 24 * MIB) for _ in range(2)]
    lane.free(pool, halves[0])
    lane.run()
    lane.free(pool, halves[1])
    parts = [lane.take(pool, 36 * MIB), lane.take(pool, 12 * MIB)]
    assert [part.offset - halves[0].offset for part in parts] == [0, 36 * MIB]


def test_the_rest_of_a_block_whose_free_is_put_off(context: Any) -> None:
    """It is given to nothing until that is over, not to the stream that freed it either."""
    pool, lane = MemoryPool(context, max_size=MIB), Lane(context, 1)
    whole = lane.take(pool, MIB)
    lane.free(pool, whole)
    lane.queue.popleft()
    front = lane.take(pool, MIB // 2)
    pool.put_off(whole)
    with pytest.raises(OutOfMemory, match="may be in use"):
        lane.take(pool, MIB // 2)
    pool.returned(whole, "later")
    assert lane.take(pool, MIB // 2).offset == front.offset + MIB // 2


def test_an_idle_block_before_one_in_use(context: Any) -> None:
    """The idle one is long enough: it goes back to the device, and its neighbour stays as it is."""
    pool, lane = MemoryPool(context, max_size=2 * MIB), Lane(context, 1)
    pool.release_threshold = 2 * MIB
    idle, used = lane.take(pool, MIB), lane.take(pool, MIB // 4)
    lane.free(pool, idle)
    lane.run()
    lane.free(pool, used)
    lane.take(pool, 3 * MIB // 4)
    assert lane.take(pool, MIB // 2).size == MIB // 2
    assert pool.reserved_current <= 2 * MIB


def test_the_parts_of_a_block_in_quarantine(context: Any) -> None:
    """What an abandoned kernel may still write to is given to nothing again, cut or whole."""
    pool, lane = MemoryPool(context, max_size=MIB), Lane(context, 1)
    whole = lane.take(pool, MIB)
    lane.free(pool, whole)
    parts = [lane.take(pool, MIB // 2) for _ in range(2)]
    context.memory.quarantine(whole)
    lane.run()
    for part in parts:
        lane.free(pool, part)
    lane.run_all()
    assert pool.reserved_current == 0
    assert not any(overlap(lane.take(pool, MIB // 2), whole) for _ in range(2))
    assert context.memory.statistics().used == 2 * MIB


def test_neighbours_are_as_old_as_the_oldest(context: Any) -> None:
    """A lost command that came before one of them was allocated may use the other, and so the whole."""
    pool, lane = MemoryPool(context, max_size=MIB), Lane(context, 1)
    low = lane.take(pool, MIB // 2)
    lost = lane.item()
    high = lane.take(pool, MIB // 2)
    for part in (low, high):
        lane.free(pool, part)
    lane.free(pool, lane.take(pool, MIB))
    lane.lost, lane.lost_since = [lost], lambda seq: [lost] if lost.seq > seq else []
    with pytest.raises(OutOfMemory):
        lane.take(pool, MIB)


def test_neighbours_that_an_event_is_behind(context: Any) -> None:
    """Of two that follow one another one was freed after the event: they are no range for what waits for it."""
    pool = MemoryPool(context, max_size=MIB)
    pool.reuse_allow_internal_dependencies = False
    one, two = Lane(context, 1), Lane(context, 2)
    low, high = (one.take(pool, MIB // 2) for _ in range(2))
    one.free(pool, high)
    two.wait_for(one)
    item = one.free(pool, low)
    with pytest.raises(OutOfMemory):
        two.take(pool, MIB)
    two.wait_for(one)
    whole, after, _ = pool.take(MIB, two)
    assert (whole.offset, after, pool.statistics().after_event) == (low.offset, (item,), 1)


@every("first, second", [(0, 1), (1, 0)])
def test_neighbours_are_behind_all_their_frees(context: Any, first: int, second: int) -> None:
    """Of one stream the newest stands for all."""
    pool, one, two = MemoryPool(context, max_size=MIB), Lane(context, 1), Lane(context, 2)
    halves = [one.take(pool, MIB // 2) for _ in range(2)]
    one.free(pool, halves[first])
    item = one.free(pool, halves[second])
    assert pool.take(MIB, two)[1] == (item,)
    assert pool.statistics().internal_dependency == 1


def test_no_neighbour_is_taken_that_is_not_needed(context: Any) -> None:
    """Of blocks of 2, 4 and 4 a request of 8 takes two, and what is left serves another one."""
    pool, lane = MemoryPool(context, max_size=10 * MIB), Lane(context, 1)
    for part in [lane.take(pool, size * MIB) for size in (2, 4, 4)]:
        lane.free(pool, part)
    assert [lane.take(pool, size * MIB).offset for size in (8, 2)] == [2 * MIB, 0]


def test_a_block_in_use_is_cut_and_joined_again(context: Any) -> None:
    """However far ahead of the stream, and in time that grows with the number of blocks only."""
    pool, lane = MemoryPool(context, max_size=64 * MIB), Lane(context, 1)
    lane.free(pool, lane.take(pool, 64 * MIB))
    for _ in range(300):
        for part in [lane.take(pool, size * MIB) for size in (16, 32, 16)]:
            lane.free(pool, part)
        lane.free(pool, lane.take(pool, 64 * MIB))
    assert (pool.reserved_current, pool.statistics().fresh) == (64 * MIB, 1)
    lane.run_all()
    pool.trim()
    assert pool.reserved_current == context.memory.statistics().used == 0
