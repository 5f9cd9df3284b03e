"""Device memory: placement, figures, lookups that explain themselves, warm pages, and the ends of allocations."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from atops.base.errors import IllegalAddress, InvalidValue, NotInitialized, OutOfMemory
from atops.device.memory.allocation import Allocation
from atops.device.memory.device_memory import DeviceMemory
from atops.device.memory.memory_reports import MemoryStatistics

GIB, MIB, BASE = 1 << 30, 1 << 20, 7 << 36


def make(total: int = 4 * GIB, *, banks: int = 4) -> DeviceMemory:
    """Make the memory of device 3."""
    return DeviceMemory(total, banks, 3, BASE, 256 * MIB)


@pytest.fixture
def memory() -> Iterator[DeviceMemory]:
    """4 GiB in four banks."""
    memory = make()
    yield memory
    memory.close()


# ---- placement


def test_addresses_are_base_plus_offset_in_granules(memory: DeviceMemory):
    """Addresses begin at the base, are multiples of 256, and stay the same from run to run."""
    sizes = (1, 256, 257, 1000, 5)
    found = [memory.allocate(size) for size in sizes]
    assert [allocation.address - BASE for allocation in found] == [0, 256, 512, 1024, 2048]
    assert [allocation.size for allocation in found] == list(sizes)
    assert all(allocation.address == BASE + allocation.offset for allocation in found)
    assert {allocation.device for allocation in found} == {3}


def test_nothing_is_mapped_before_the_first_allocation():
    """3,000 untouched memories of 48 GiB cost no address space."""
    memories = [make(48 * GIB) for _ in range(3_000)]
    assert all(memory.arena is None for memory in memories)
    for memory in memories:
        memory.close()


def test_zero_bytes_have_distinct_addresses(memory: DeviceMemory):
    """Each empty allocation has its own address, is found by it, and is freed once."""
    empty = [memory.allocate(0) for _ in range(3)]
    assert len({allocation.address for allocation in empty}) == 3
    assert all(memory.find(allocation.address) is allocation for allocation in empty)
    with pytest.raises(IllegalAddress):
        memory.find(empty[0].address + 1)
    memory.free(empty[0])
    with pytest.raises(IllegalAddress, match="freed twice"):
        memory.free(empty[0])
    with pytest.raises(InvalidValue, match="1 or more"):
        memory.allocate(0, zero_ok=False)


@pytest.mark.parametrize("bad", [{"size": -1}, {"size": 1, "bank": 4}, {"size": 1, "bank": -1}])
def test_wrong_sizes_and_banks_are_refused(memory: DeviceMemory, bad: dict[str, int]):
    """Negative sizes and unknown banks are InvalidValue and take nothing."""
    with pytest.raises(InvalidValue):
        memory.allocate(**bad)  # type: ignore[arg-type]  # the parameters are all numbers
    assert memory.statistics().used == 0
    with pytest.raises(InvalidValue, match="no 0 banks"):
        DeviceMemory(GIB, 0, 0, BASE, 0)


def test_banks_hold_what_is_placed_on_them(memory: DeviceMemory):
    """An allocation on a bank lies in it; `bank_of` and the statistics agree; a full bank does not spill."""
    for bank in range(4):
        allocation = memory.allocate(3 * MIB, bank=bank)
        assert allocation.bank == memory.bank_of(allocation.address) == bank
        assert memory.statistics().banks[bank].used == 3 * MIB
    memory.allocate(GIB - 3 * MIB, bank=1)
    with pytest.raises(OutOfMemory, match="bank 1 of device 3"):
        memory.allocate(1, bank=1)
    assert memory.bank_of(BASE + 4 * GIB - 1) == 3
    for outside in (BASE - 1, BASE + 4 * GIB):
        with pytest.raises(InvalidValue, match=f"{BASE:#x} to "):
            memory.bank_of(outside)


def test_top_down_takes_the_highest_address(memory: DeviceMemory):
    """Top down allocations grow from the end of the memory, or of their bank, towards its beginning."""
    first, second = memory.allocate(1000, top_down=True), memory.allocate(1000, top_down=True)
    assert first.offset == 4 * GIB - 1024
    assert second.offset == 4 * GIB - 2048
    assert memory.allocate(1000, top_down=True, bank=0).offset == GIB - 1024


def test_one_allocation_may_be_the_whole_memory(memory: DeviceMemory):
    """Without a bank a request may be as large as all of them; every bank counts its part."""
    whole = memory.allocate(4 * GIB)
    seen = memory.statistics()
    assert whole.data.size == 4 * GIB
    assert seen.free == seen.largest_free == 0
    assert [bank.used for bank in seen.banks] == [GIB] * 4
    memory.free(whole)
    assert memory.statistics().largest_free == 4 * GIB


def test_out_of_memory_tells_the_figures(memory: DeviceMemory):
    """The message has what was asked for, what is free, the largest range and the fragmentation."""
    parts = [memory.allocate(GIB // 2) for _ in range(8)]
    for part in parts[::2]:
        memory.free(part)
    with pytest.raises(OutOfMemory) as raised:
        memory.allocate(GIB)
    for figure in (f"{GIB} bytes", f"{2 * GIB} of {4 * GIB} bytes are free", f"has {GIB // 2}", "75%", "device 3"):
        assert figure in str(raised.value)
    assert memory.statistics().fragmentation == 0.75


# ---- lookups


def test_every_byte_of_an_allocation_leads_to_it(memory: DeviceMemory):
    """First, middle and last byte are found; the padding behind it and freed memory are not."""
    before, allocation, after = (memory.allocate(1000) for _ in range(3))
    for offset in (0, 1, 500, 999):
        assert memory.find(allocation.address + offset) is allocation
    for offset in (1000, 1023):
        with pytest.raises(IllegalAddress):
            memory.find(allocation.address + offset)
    memory.free(allocation)
    with pytest.raises(IllegalAddress):
        memory.find(allocation.address + 500)
    assert memory.find(before.address + 999) is before
    assert memory.find(after.address) is after


def test_lookups_agree_with_a_plain_search(memory: DeviceMemory):
    """After many allocations and frees every address belongs to whom a search of all of them says."""
    random = np.random.default_rng(3)
    live: list[Allocation] = []
    for step in range(3_000):
        if live and random.random() < 0.45:
            memory.free(live.pop(int(random.integers(len(live)))))
        else:
            live.append(memory.allocate(int(random.integers(0, 3000))))
        if step % 10 == 0:
            address = BASE + int(random.integers(0, 1 << 20))
            owner = [one for one in live if one.address <= address < one.address + max(one.size, 1)]
            if owner:
                assert memory.find(address) is owner[0]
            else:
                with pytest.raises(IllegalAddress):
                    memory.find(address)
    assert memory.live() == sorted(live, key=lambda one: one.serial)


def test_an_illegal_address_explains_itself(memory: DeviceMemory):
    """The message names the address, its user, both neighbours, and what was there and what freed it."""
    below, gone, above = (memory.allocate(1000, label=label) for label in ("below", "gone", "above"))
    memory.free(gone, by="stream 2, command #8")
    with pytest.raises(IllegalAddress) as raised:
        memory.find(gone.address + 100, "kernel add")
    text = str(raised.value)
    for part in (f"kernel add: {gone.address + 100:#x}", "device 3", f"{1024 + 100 - 1000} bytes after the end of",
                 "'below'", f"{above.address - gone.address - 100} bytes before", "'above'", "it was in", "'gone'",
                 "freed by stream 2, command #8", "test_device_memory.py"):
        assert part in text
    assert below.alive
    with pytest.raises(IllegalAddress, match="its addresses are"):
        memory.find(BASE - 1)


def test_freed_memory_names_the_last_of_several_owners(memory: DeviceMemory):
    """Where several allocations were freed one after the other, the newest is named."""
    for name in ("first", "second"):
        memory.free(memory.allocate(256), by=name)
    with pytest.raises(IllegalAddress, match="freed by second"):
        memory.find(BASE)


# ---- ends


def test_a_double_free_names_the_first(memory: DeviceMemory):
    """The second free is IllegalAddress with both names; the range may have a new owner, which is not harmed."""
    allocation = memory.allocate(1000)
    memory.free(allocation, by="command #3")
    heir = memory.allocate(1000)
    assert heir.address == allocation.address
    with pytest.raises(IllegalAddress, match=r"now by command #4; it was freed by command #3"):
        memory.free(allocation, by="command #4")
    assert memory.find(heir.address) is heir
    assert heir.serial != allocation.serial


def test_free_names_its_caller(memory: DeviceMemory):
    """Without a name the place of the call is remembered."""
    allocation = memory.allocate(10)
    memory.free(allocation)
    assert str(allocation.freed_by).startswith("test_device_memory.py:")
    assert str(allocation.site).endswith("in test_free_names_its_caller")


def test_foreign_allocations_are_refused(memory: DeviceMemory):
    """An allocation of another memory cannot be freed or quarantined here, and stays alive."""
    other = make()
    foreign = other.allocate(100)
    for refuse in (memory.free, memory.quarantine):
        with pytest.raises(InvalidValue, match="not memory of device 3"):
            refuse(foreign)
    assert foreign.alive
    other.close()


def test_a_quarantined_range_is_not_used_again_before_a_reset(memory: DeviceMemory):
    """It is dead for users and counted as used; other allocations avoid it; a reset brings it back."""
    allocation = memory.allocate(MIB)
    writer = allocation.data
    memory.quarantine(allocation, "abandoned kernel")
    with pytest.raises(IllegalAddress, match="abandoned kernel"):
        allocation.check(0, 1)
    with pytest.raises(IllegalAddress, match="abandoned kernel"):
        memory.find(allocation.address + 10)
    with pytest.raises(IllegalAddress, match="freed twice"):
        memory.free(allocation)
    others = [memory.allocate(MIB) for _ in range(8)]
    writer[:] = 1
    assert all(other.offset >= MIB and not other.data.any() for other in others)
    assert memory.statistics().quarantined == MIB
    assert memory.statistics().used == 9 * MIB
    memory.reset()
    assert memory.statistics().quarantined == 0
    assert memory.allocate(MIB).offset == 0


def test_a_reset_ends_everything_and_starts_fresh(memory: DeviceMemory):
    """All allocations die, bytes are 0 again, peaks restart, late writers reach nothing."""
    old = [memory.allocate(MIB) for _ in range(5)]
    late = old[0].data
    late[:] = 5
    memory.reset("reset of device 3")
    assert not any(allocation.alive for allocation in old)
    with pytest.raises(IllegalAddress, match="reset of device 3"):
        old[1].check(0, 1)
    assert memory.live() == []
    assert memory.statistics().peak == memory.statistics().used == 0
    fresh = memory.allocate(MIB)
    late[:] = 6
    assert fresh.offset == 0
    assert not fresh.data.any()
    with pytest.raises(IllegalAddress, match="freed twice"):
        memory.free(old[0])


def test_a_closed_memory_refuses():
    """After close, twice, allocations are dead and new ones raise NotInitialized; a reset does not reopen it."""
    memory = make()
    allocation = memory.allocate(100)
    memory.close()
    memory.close()
    memory.reset()
    assert not allocation.alive
    assert memory.arena is None
    with pytest.raises(NotInitialized, match="device 3"):
        memory.allocate(1)


def test_a_finalizer_may_free_while_the_lock_is_held(memory: DeviceMemory):
    """A free that comes while this thread is inside the memory takes effect at once and is booked later."""
    allocation = memory.allocate(1000)
    with memory.lock:
        memory.free(allocation, by="a finalizer")
        assert not allocation.alive
    with pytest.raises(IllegalAddress, match="a finalizer"):
        memory.find(allocation.address + 1)
    assert memory.statistics().used == 0
    assert memory.allocate(1000).address == allocation.address


# ---- ranges with several lives


def test_a_range_can_have_a_next_owner_before_its_last_one_ends(memory: DeviceMemory):
    """Renewed, the range answers to its new owner; the old one's end frees nothing, the new one's frees all of it."""
    old = memory.allocate(1000)
    new = memory.renew(old, 300, label="next")
    assert new.address == old.address
    assert memory.find(old.address + 299) is new
    memory.free(old)
    assert memory.statistics().used == 1024
    assert memory.find(old.address) is new
    with pytest.raises(IllegalAddress, match="not its own any more"):
        memory.renew(old, 10)
    third = memory.renew(new, 1024)
    with pytest.raises(InvalidValue, match="0 to 1024"):
        memory.renew(third, 1025)
    memory.free(new)
    memory.free(third)
    assert memory.statistics().used == memory.statistics().live == 0


def test_a_retired_range_stays_set_aside_until_released(memory: DeviceMemory):
    """Retired memory is dead for users, not given to others, and free once released."""
    allocation = memory.allocate(1000)
    assert memory.set_aside(allocation, "pool")
    assert not memory.set_aside(allocation, "pool")
    assert memory.allocate(1000).offset == 1024
    with pytest.raises(IllegalAddress, match="freed by pool"):
        memory.find(allocation.address + 5)
    memory.release(allocation)
    assert memory.allocate(1000).offset == 0


# ---- figures


def test_figures_add_up(memory: DeviceMemory):
    """Used and free make the total, in sum and per bank; peaks stay when memory is freed."""
    kept = [memory.allocate(size, bank=bank) for bank, size in enumerate((MIB, 2 * MIB, 3 * MIB, 5))]
    memory.free(kept[2])
    seen = memory.statistics()
    assert seen.total == seen.used + seen.free == 4 * GIB
    assert (seen.used, seen.peak, seen.live) == (3 * MIB + 256, 6 * MIB + 256, 3)
    assert [bank.peak for bank in seen.banks] == [MIB, 2 * MIB, 3 * MIB, 256]
    for bank in seen.banks:
        assert bank.used + bank.free == bank.total == GIB
        assert bank.largest_free <= bank.free
    assert 0 <= seen.fragmentation <= 1
    assert "3 allocations" in repr(memory)


def check_whole(memory: DeviceMemory, seen: MemoryStatistics) -> None:
    """Assert that nothing is left and nothing was lost."""
    assert seen.live == seen.used == 0
    assert seen.largest_free == seen.total
    assert seen.fragmentation == 0
    assert memory.live() == []


# ---- threads


@pytest.mark.slow
def test_threads_share_one_memory(memory: DeviceMemory):
    """Four threads allocate, mark, look up and free at once: ranges never overlap and nothing is lost."""
    ready = threading.Barrier(4)

    def work(mark: int) -> int:
        random = np.random.default_rng(mark)
        live: list[Allocation] = []
        ready.wait()
        for _ in range(1_500):
            if live and random.random() < 0.5:
                allocation = live.pop(int(random.integers(len(live))))
                assert (allocation.data == mark).all()
                memory.free(allocation)
            else:
                bank = None if random.random() < 0.5 else int(random.integers(4))
                live.append(memory.allocate(int(random.integers(1, 5_000)), bank=bank))
                live[-1].data[:] = mark
                assert memory.find(live[-1].address + live[-1].size - 1) is live[-1]
        for allocation in live:
            assert (allocation.data == mark).all()
            memory.free(allocation)
        return mark

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(work, range(1, 5))) == [1, 2, 3, 4]
    check_whole(memory, memory.statistics())


def test_one_of_many_concurrent_frees_wins(memory: DeviceMemory):
    """When several threads free the same allocations each is freed exactly once, and the others are told."""
    targets = [memory.allocate(100) for _ in range(500)]
    ready = threading.Barrier(4)

    def work(_: int) -> int:
        ready.wait()
        won = 0
        for allocation in targets:
            try:
                memory.free(allocation)
                won += 1
            except IllegalAddress:
                pass
        return won

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) == len(targets)
    check_whole(memory, memory.statistics())


@pytest.mark.slow
def test_a_memory_lets_go_of_its_bytes():
    """A closed memory leaves no descriptor behind, even while views of its allocations live on."""
    gc.collect()  # what others have left behind
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    memory = make()
    view = memory.allocate(100).data
    memory.close()
    gc.collect()
    view[:] = 3
    assert (view == 3).all()
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before
