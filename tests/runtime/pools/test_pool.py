"""What a pool promises its users: figures, limits, lifetimes, access, and memory that ends when its free runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import atops.tops as tops
from atops.base.errors import IllegalAddress, InvalidDevice, InvalidHandle, InvalidType, InvalidValue, OutOfMemory
from atops.device.memory.allocation import Allocation, fill
from atops.device.memory.device_memory import DeviceMemory
from atops.runtime.pools.pool import Access, MemoryPool
from tests.runtime.hosts import board
from tests.runtime.pool_fakes import MIB, Item, Lane, make_context


@pytest.fixture
def context() -> Any:
    """A device of 64 MiB."""
    return make_context()


@pytest.fixture
def pool(context: Any) -> MemoryPool:
    """A pool on it without a limit."""
    return MemoryPool(context, name="test pool")


@pytest.fixture
def lane(context: Any) -> Lane:
    """A stream of the device."""
    return Lane(context, 1)


def test_a_free_counts_when_it_is_enqueued(pool: MemoryPool, lane: Lane) -> None:
    """Used bytes fall at the call of free, while the stream has still to come there; reserved bytes stay."""
    allocation = lane.take(pool, 1000)
    assert (pool.used_current, pool.reserved_current) == (1000, 1024)
    lane.free(pool, allocation)
    assert (pool.used_current, pool.reserved_current) == (0, 1024)
    assert pool.statistics().promised == 1024
    lane.run()
    assert (pool.statistics().promised, pool.statistics().idle) == (0, 1024)


def test_memory_lives_until_its_free_runs(context: Any, pool: MemoryPool, lane: Lane) -> None:
    """Work enqueued before the free still has its bytes; afterwards they are refused, naming what freed them."""
    allocation = lane.take(pool, 512)
    lane.free(pool, allocation)
    fill(allocation, 0, b"\x07", 512)
    assert context.memory.find(allocation.address + 5) is allocation
    lane.run()
    with pytest.raises(IllegalAddress, match="freed by stream 1, command 1"):
        allocation.check(0, 1)
    with pytest.raises(IllegalAddress, match="freed by stream 1, command 1"):
        context.memory.find(allocation.address)


def test_two_lives_of_one_range(context: Any, pool: MemoryPool, lane: Lane) -> None:
    """The next owner is another allocation over the same bytes; the end of the old one leaves it alone."""
    old = lane.take(pool, 4096)
    fill(old, 0, b"\x2a", 4096)
    lane.free(pool, old)
    new = lane.take(pool, 4000)
    assert (new.address, new.size, new.alive, old.alive) == (old.address, 4000, True, True)
    assert new.serial != old.serial
    assert context.memory.find(new.address + 100) is new
    lane.run()
    assert (new.alive, old.alive) == (True, False)
    assert bytes(new.view[:4]) == b"\x2a" * 4
    assert context.memory.find(new.address) is new
    lane.free(pool, new)
    lane.run()
    pool.release_excess()
    assert context.memory.statistics().used == 0


def test_release_gives_the_whole_range_back(context: Any, pool: MemoryPool, lane: Lane) -> None:
    """A range whose last owner used less of it goes back whole."""
    lane.free(pool, lane.take(pool, 40960))
    lane.free(pool, lane.take(pool, 36000))
    lane.free(pool, lane.take(pool, 40960))
    lane.free(pool, lane.take(pool, 36000))
    lane.run_all()
    assert pool.statistics().fresh == 1
    assert pool.trim() == 40960
    assert (context.memory.statistics().used, context.memory.statistics().live) == (0, 0)
    assert context.memory.allocate(64 * MIB).size == 64 * MIB


def test_synchronising_releases_what_exceeds_the_threshold(context: Any, pool: MemoryPool, lane: Lane) -> None:
    """Idle memory stays up to the threshold, the longest idle goes first."""
    first, second, third = (lane.take(pool, MIB) for _ in range(3))
    for allocation in (second, first, third):
        lane.free(pool, allocation)
    lane.run_all()
    pool.release_threshold = 2 * MIB
    assert pool.release_excess() == MIB
    assert pool.reserved_current == 2 * MIB
    assert {lane.take(pool, MIB).address, lane.take(pool, MIB).address} == {first.address, third.address}
    assert context.memory.statistics().used == 2 * MIB


@pytest.mark.parametrize(("keep", "left"), [(0, 0), (1, 32), (40, 64), (64, 64), (65, 96), (96, 96), (1000, 96)])
def test_trim_leaves_at_least_what_is_to_be_kept(pool: MemoryPool, lane: Lane, keep: int, left: int) -> None:
    """Of three idle blocks as many go back as can; the threshold is the most that stays, trim's number the least."""
    unit = 4096
    for allocation in [lane.take(pool, 32 * unit) for _ in range(3)]:
        lane.free(pool, allocation)
    lane.run_all()
    assert pool.trim(keep * unit) == (96 - left) * unit
    pool.release_threshold = 40 * unit
    pool.release_excess()
    assert pool.reserved_current == min(32, left) * unit


def test_used_bytes_are_those_asked_for(pool: MemoryPool, lane: Lane) -> None:
    """What is used counts exactly, what is reserved in whole granules."""
    held = [lane.take(pool, size) for size in (1000, 1, 0)]
    assert pool.used_current == pool.used_high == 1001 <= pool.reserved_current
    lane.free(pool, held[0])
    lane.run_all()
    assert pool.used_current == 1
    assert lane.take(pool, 1010).size == 1010 and pool.used_current == 1011


def test_what_is_used_counts_for_the_threshold(pool: MemoryPool, lane: Lane) -> None:
    """The threshold is of reserved memory, so memory in use leaves less of it to idle memory."""
    pool.release_threshold = MIB
    lane.take(pool, MIB)
    lane.free(pool, lane.take(pool, 4096))
    lane.run()
    assert pool.release_excess() == 4096


def test_idle_memory_is_bounded_without_synchronising(pool: MemoryPool, lane: Lane) -> None:
    """A program that never synchronises does not hoard: above 32 idle MiB the oldest go back as frees run."""
    held = [lane.take(pool, 12 * MIB) for _ in range(4)]
    for allocation in held:
        lane.free(pool, allocation)
    lane.run_all()
    assert pool.reserved_current == 24 * MIB
    pool.release_threshold = 64 * MIB
    held = [lane.take(pool, 12 * MIB) for _ in range(4)]
    for allocation in held:
        lane.free(pool, allocation)
    lane.run_all()
    assert pool.reserved_current == 48 * MIB


@pytest.mark.parametrize("name", ["used", "reserved"])
def test_high_watermarks(pool: MemoryPool, lane: Lane, name: str) -> None:
    """They hold the most there was, start again from what is current when set to 0, and take nothing else."""
    low = lane.take(pool, 256)
    high = lane.take(pool, 1024)
    lane.free(pool, high)
    lane.run()
    pool.trim()
    assert getattr(pool, f"{name}_high") == 1280
    setattr(pool, f"{name}_high", 0)
    assert getattr(pool, f"{name}_high") == 256
    with pytest.raises(InvalidValue, match="expected 0"):
        setattr(pool, f"{name}_high", 5)
    lane.free(pool, low)
    assert getattr(pool, f"{name}_high") == 256


def test_a_setting_that_there_is_not(pool: MemoryPool) -> None:
    """A setting that is misspelt is refused, and not kept where nothing reads it."""
    with pytest.raises(AttributeError, match="release_treshold"):
        pool.release_treshold = 1 << 20  # type: ignore[attr-defined]  # misspelt, as the test wants it


def test_max_size(context: Any, lane: Lane) -> None:
    """A pool reserves no more than its limit, and says what it had when that is not enough."""
    pool = MemoryPool(context, max_size=8 * MIB, name="small pool")
    first = lane.take(pool, 4 * MIB)
    with pytest.raises(OutOfMemory) as caught:
        lane.take(pool, 4 * MIB + 1)
    parts = "small pool", str(4 * MIB + 1), f"{4 * MIB} are used", f"limit of {8 * MIB}", f"{60 * MIB} bytes free"
    for part in parts:
        assert part in str(caught.value)
    lane.free(pool, first)
    lane.run()
    assert lane.take(pool, 8 * MIB).size == 8 * MIB


def test_what_is_freed_later_is_told_of(context: Any, lane: Lane) -> None:
    """Blocks whose stream has still to come to their frees make no larger one yet: the message says what to do."""
    pool = MemoryPool(context, max_size=8 * MIB)
    pool.reuse_allow_internal_dependencies = False
    for allocation in [lane.take(pool, 4 * MIB) for _ in range(2)]:
        lane.free(pool, allocation)
    with pytest.raises(OutOfMemory, match=rf"{8 * MIB} were freed in streams that have still to come to it: await"):
        Lane(context, 2).take(pool, 8 * MIB)  # another stream; their own would have them as one
    lane.run_all()
    assert lane.take(pool, 8 * MIB).size == 8 * MIB


def test_device_out_of_memory(context: Any, pool: MemoryPool, lane: Lane) -> None:
    """Without a limit the device is the limit, and the message has its free bytes and fragmentation."""
    context.memory.allocate(40 * MIB)
    with pytest.raises(OutOfMemory, match=rf"device 0 has {24 * MIB} bytes free.*largest.*fragmentation 0%"):
        lane.take(pool, 30 * MIB)
    with pytest.raises(OutOfMemory):
        lane.take(pool, 2**64 - 1)


def test_idle_memory_goes_before_anything_fails(context: Any, pool: MemoryPool, lane: Lane) -> None:
    """Idle blocks that are too small make room for a larger one."""
    pool.release_threshold = 64 * MIB
    for allocation in [lane.take(pool, 16 * MIB) for _ in range(4)]:
        lane.free(pool, allocation)
    lane.run_all()
    assert lane.take(pool, 60 * MIB).size == 60 * MIB


def test_zero_bytes(pool: MemoryPool, lane: Lane) -> None:
    """An empty allocation has an address of its own and no bytes."""
    first, second = lane.take(pool, 0), lane.take(pool, 0)
    assert first.size == 0
    assert first.address != second.address
    with pytest.raises(IllegalAddress):
        first.check(0, 1)


@pytest.mark.parametrize("nbytes", [-1, 1.5, "4", None])
def test_sizes_that_are_none(pool: MemoryPool, lane: Lane, nbytes: Any) -> None:
    """A negative size, or something that is no int, is the caller's mistake and changes nothing."""
    with pytest.raises(InvalidValue, match="allocation of"):
        pool.take(nbytes, lane)
    assert pool.reserved_current == 0


@pytest.mark.parametrize("changes", [{"max_size": 0}, {"max_size": -1}, {"max_size": 1.5}])
def test_limits_that_are_none(context: Any, changes: dict[str, Any]) -> None:
    """A limit is at least one byte."""
    with pytest.raises(InvalidValue, match="max_size"):
        MemoryPool(context, **changes)
    with pytest.raises(InvalidValue, match="release_threshold"):
        MemoryPool(context).release_threshold = -1
    with pytest.raises(InvalidValue, match="keep"):
        MemoryPool(context).trim(-1)
    with pytest.raises(InvalidType):
        MemoryPool(context).trim(True)


def test_free_twice_or_elsewhere(context: Any, pool: MemoryPool, lane: Lane) -> None:
    """A second free, and memory of something else, are refused; memory that a reset has ended is ignored."""
    allocation = lane.take(pool, 256)
    assert allocation in pool
    lane.free(pool, allocation)
    assert allocation not in pool
    with pytest.raises(InvalidHandle, match="freed already"):
        pool.give(allocation, lane, Item(9, lane))
    with pytest.raises(InvalidHandle, match="no memory of"):
        pool.give(context.memory.allocate(256), lane, Item(9, lane))
    ended = context.memory.allocate(256)
    context.memory.free(ended)
    pool.give(ended, lane, Item(9, lane))
    assert pool.used_current == 0


def test_cancel(context: Any, pool: MemoryPool, lane: Lane) -> None:
    """An allocation that could not be enqueued leaves nothing behind, and what was promised is promised as before."""
    pool.cancel(lane.take(pool, 256))
    assert (pool.used_current, pool.statistics().live, pool.statistics().idle) == (0, 0, 256)
    first = lane.take(pool, 256)
    lane.free(pool, first)
    pool.cancel(lane.take(pool, 256))
    assert pool.statistics().promised == 256
    assert first.alive
    assert Lane(context, 2).take(pool, 256).address != first.address
    assert lane.take(pool, 256).address == first.address


def test_the_free_may_run_before_it_is_told(pool: MemoryPool, lane: Lane) -> None:
    """The driver can be faster than the threads that enqueued the frees."""
    allocation, other = lane.take(pool, 256), lane.take(pool, 512)
    for each in (allocation, other):
        pool.returned(each, "the driver")
        assert not each.alive
    assert pool.used_current == 768
    pool.give(allocation, lane, lane.item())
    assert (pool.used_current, pool.statistics().idle) == (512, 256)
    assert lane.take(pool, 256).address == allocation.address
    pool.give(other, lane, lane.item())
    assert (pool.statistics().idle, pool.statistics().promised) == (512, 0)


def test_a_finalizer_may_free_inside_of_take(pool: MemoryPool, context: Any) -> None:
    """A free that comes while this very thread is inside of the pool neither hangs nor gets lost."""
    lane, other = Lane(context, 1), Lane(context, 2)
    orphan = lane.take(pool, 512)

    class Collects(Item):
        """A completion at whose sight the garbage collector finds a buffer."""

        @property
        def queue(self) -> Lane:
            if orphan in pool:
                lane.free(pool, orphan)
            return lane

        @queue.setter
        def queue(self, queue: Lane) -> None:
            pass

    big = lane.take(pool, 60 * MIB)
    pool.give(big, lane, Collects(1, lane))
    assert len(pool.take(60 * MIB, other)[1]) == 1
    assert pool.used_current == 60 * MIB


@pytest.mark.parametrize("told", ["first", "last"])
def test_a_free_that_is_put_off_keeps_its_block(pool: MemoryPool, context: Any, told: str) -> None:
    """No rule gives the block out before it is returned, whether or not the pool was told of the free by then."""
    lane, other = Lane(context, 1), Lane(context, 2)
    memory = lane.take(pool, 60 * MIB)
    item = lane.item()
    if told == "first":
        pool.give(memory, lane, item)
    pool.put_off(memory)
    if told == "last":
        pool.give(memory, lane, item)
    item.over = True
    other.wait_for(lane)
    for each in (lane, other):
        with pytest.raises(OutOfMemory, match="left out waits"):
            pool.take(60 * MIB, each)
    assert pool.statistics().promised == 60 * MIB
    pool.returned(memory, "the free")
    assert pool.statistics().promised == 0
    assert other.take(pool, 60 * MIB).offset == memory.offset


def test_a_free_that_is_over_and_has_not_returned_its_memory_is_waited_for(pool: MemoryPool, context: Any) -> None:
    """It may be about to be put off: an allocation in between looks at it once more."""
    lane, other = Lane(context, 1), Lane(context, 2)
    memory = lane.take(pool, 60 * MIB)
    item = lane.item()
    pool.give(memory, lane, item)
    other.wait_for(lane)
    item.over = True
    assert pool.take(60 * MIB, other)[1] == (item,)


def test_destroy(context: Any, pool: MemoryPool, lane: Lane) -> None:
    """A destroyed pool allocates no more; what is out stays valid and goes back to the device when it is freed."""
    context.pool = pool
    kept = lane.take(pool, MIB)
    lane.free(pool, lane.take(pool, 256))
    lane.run()
    pool.destroy()
    pool.destroy()
    assert pool.is_destroyed
    assert context.pool is None
    assert context.memory.statistics().used == MIB
    with pytest.raises(InvalidHandle, match=r"'test pool'.*is destroyed"):
        lane.take(pool, 256)
    fill(kept, 0, b"x", 16)
    lane.free(pool, kept)
    lane.run()
    assert context.memory.statistics().used == 0


def test_destroying_a_pool_that_is_not_current(context: Any, pool: MemoryPool) -> None:
    """Only the current pool's end changes what is current, and a default pool cannot be destroyed."""
    context.pool = MemoryPool(context)
    pool.destroy()
    assert context.pool is not None
    context.default_pool = MemoryPool(context)
    with pytest.raises(InvalidValue, match="default pool"):
        context.default_pool.destroy()


@pytest.mark.anyio
async def test_scope(context: Any) -> None:
    """Leaving the scope destroys the pool."""
    async with MemoryPool(context) as pool:
        assert not pool.is_destroyed
    assert pool.is_destroyed


def test_a_forgotten_pool_gives_its_memory_back(context: Any, lane: Lane) -> None:
    """Idle memory does not outlive the last reference to its pool."""
    pool = MemoryPool(context)
    pool.release_threshold = MIB
    lane.free(pool, lane.take(pool, 4096))
    lane.run()
    del pool
    assert context.memory.statistics().used == 0


@pytest.mark.parametrize("order", ["give returned", "returned give", "cancel"])
def test_quarantined_memory_is_not_used_again(context: Any, pool: MemoryPool, lane: Lane, order: str) -> None:
    """A range that may still be written leaves the pool, by whatever way it would come back."""
    allocation = lane.take(pool, 4096)
    context.memory.quarantine(allocation)
    lane.free(pool, lane.take(pool, 4096))
    for step in order.split():
        if step == "give":
            pool.give(allocation, lane, lane.item())
        elif step == "returned":
            pool.returned(allocation, "the driver")
        else:
            pool.cancel(allocation)
    lane.run_all()
    assert pool.reserved_current == 4096
    assert {lane.take(pool, 4096).address for _ in range(8)}.isdisjoint({allocation.address})


def test_reset(context: Any, pool: MemoryPool, lane: Lane) -> None:
    """After a reset of the device the pool is dead, and frees that come late are ignored."""
    old = lane.take(pool, 256)
    lane.free(pool, old)
    new = lane.take(pool, 256)
    context.memory.close()
    context.dead = InvalidHandle("device 0 was reset")
    assert (old.alive, new.alive) == (False, False)
    lane.run()
    pool.give(new, lane, lane.item())
    with pytest.raises(InvalidHandle, match="was reset"):
        lane.take(pool, 256)


def test_access(context: Any, pool: MemoryPool) -> None:
    """The owner has all rights for good; others get what they are given."""
    assert pool.get_access(0) is Access.readwrite
    assert pool.get_access(1) is Access.none
    pool.set_access([1], "read")
    assert pool.get_access(1) is Access.read
    pool.set_access(1, Access.readwrite)
    pool.set_access([0, 1], 3)
    assert pool.get_access(1) is Access.readwrite
    pool.set_access([1], "none")
    assert pool.get_access(1) is Access.none


@pytest.mark.parametrize(
    ("devices", "flags", "error"),
    [
        ([2], "read", InvalidDevice),
        ([-1], "read", InvalidDevice),
        ([1, 1, 1], "read", InvalidDevice),
        ([1, 0], "none", InvalidDevice),
        ([0], "read", InvalidDevice),
        ([1], "write", InvalidValue),
        ([1], 2, InvalidValue),
    ],
)
def test_access_that_cannot_be(pool: MemoryPool, devices: list[int], flags: Any, error: type[Exception]) -> None:
    """A wrong request changes nothing, for no device of the list."""
    with pytest.raises(error):
        pool.set_access(devices, flags)
    assert pool.get_access(1) is Access.none
    with pytest.raises(InvalidDevice):
        pool.get_access(2)


def test_streams_of_other_devices(context: Any, pool: MemoryPool) -> None:
    """They need access, and get memory of the pool's device; streams of another board never do."""
    peer = Lane(make_context(MIB, 1, context.board), 7)
    with pytest.raises(InvalidHandle, match=r"device 1 .*no access"):
        peer.take(pool, 256)
    pool.set_access(1, "readwrite")
    assert peer.take(pool, 256).device == 0
    with pytest.raises(InvalidHandle, match="another board"):
        Lane(make_context(MIB), 1).take(pool, 256)


def test_figures(pool: MemoryPool, lane: Lane) -> None:
    """A pool says how full it is."""
    lane.take(pool, 1000)
    assert repr(pool) == "<MemoryPool 'test pool': 1000 bytes used, 1024 reserved>"
    statistics = pool.statistics()
    assert (statistics.device, statistics.name, statistics.live, statistics.fresh) == (0, "test pool", 1, 1)


@pytest.mark.parametrize("wait", ["sync", "await", "C-style"])
def test_synchronising_an_event_releases_what_exceeds_the_threshold(wait: str) -> None:
    """As synchronising a stream does; asking whether it is complete releases nothing."""
    with board() as device:
        stream, pool = device.create_stream(), device.context.default_pool
        stream.allocate(MIB).close()
        event = stream.record()
        event.completion.wait_sync(20)
        assert event.is_done and pool.reserved_current == MIB
        if wait == "sync":
            event.sync()
        elif wait == "C-style":
            tops.check(tops.topsEventSynchronize(event))
        else:

            async def main() -> None:
                await event

            asyncio.run(main())
        assert pool.reserved_current == 0


def test_shared_memory_leaves_the_pool(context: Any, pool: MemoryPool, lane: Lane) -> None:
    """What other processes may have goes to the device when it is freed; what is freed already cannot be shared."""
    shared, kept = lane.take(pool, 4096), lane.take(pool, 4096)
    pool.share(shared)
    for each in shared, kept:
        lane.free(pool, each)
    lane.run_all()
    assert (pool.reserved_current, pool.used_current, pool.statistics().idle) == (4096, 0, 4096)
    assert context.memory.statistics().used == 4096
    with pytest.raises(InvalidHandle, match="freed already"):
        pool.share(kept)


def test_a_free_that_ran_before_the_pool_heard_of_it(pool: MemoryPool, lane: Lane) -> None:
    """The driver may come to a free while the call that enqueued it is still on its way to the pool."""
    allocation, item = lane.take(pool, 4096), lane.item()
    pool.returned(allocation, "its free")
    assert pool.trim() == 0
    pool.give(allocation, lane, item)
    assert pool.trim() == 4096
    assert (pool.reserved_current, pool.used_current) == (0, 0)


def test_a_trim_that_is_interrupted_loses_no_memory(
    context: Any, pool: MemoryPool, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C just before the device takes a block back: it takes it all the same, and the call raises."""
    lane.free(pool, lane.take(pool, 4096))
    lane.run()
    release, calls = DeviceMemory.release, iter([KeyboardInterrupt])

    def interrupted(memory: DeviceMemory, allocation: Allocation) -> None:
        for error in calls:
            raise error
        release(memory, allocation)

    monkeypatch.setattr(DeviceMemory, "release", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pool.trim()
    assert (pool.reserved_current, context.memory.statistics().used) == (0, 0)
