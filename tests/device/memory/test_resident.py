"""Freed pages stay resident up to a limit, the oldest go back to the system, and live bytes are never touched."""

from __future__ import annotations

import os

import numpy as np
import pytest

from atops.device.memory.allocation import Allocation
from atops.device.memory.arena import PAGE
from atops.device.memory.banks import Banks
from atops.device.memory.device_memory import DeviceMemory
from atops.device.memory.free_ranges import WarmIndex

MIB = 1 << 20

linux_only = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="pages go back only where there is a memfd")


def make(*, warm: int) -> DeviceMemory:
    """Make a memory of 4 GiB that keeps `warm` bytes of freed pages."""
    return DeviceMemory(4 << 30, 4, 3, 7 << 36, warm)


def resident(memory: DeviceMemory) -> int:
    """Return the bytes that the memory really occupies."""
    assert memory.arena is not None and memory.arena.fd is not None
    return os.fstat(memory.arena.fd).st_blocks * 512


def test_a_hull_follows_its_free_range():
    """Cut, it stays with the rest as far as it reached there; merged, it grows to cover both parts."""
    free = {0: 100}
    index = WarmIndex(free)
    assert (index.total, list(index)) == (0, [])
    for start, stop in ((10, 20), (50, 60)):
        index.cut(0, start, stop, 100)
        index.join(0, start, stop, 100)
    assert list(index) == [(10, 60)]
    index.cut(0, 15, 40, 100)
    free.clear()
    free.update({0: 15, 40: 60})
    assert list(index) == [(10, 15), (40, 60)]
    assert index.total == 25
    assert index.cool(3) == ((10, 13), (0, 15))
    assert index.cool(100) == ((13, 15), (0, 15))
    assert index.cool(100) == ((40, 60), (40, 100))
    assert index.total == 0


def test_what_has_cooled_does_not_become_warm_by_itself():
    """Once forgotten, freed bytes do not count again when their free range is cut."""
    banks = Banks(1 << 20, 1, 256)
    banks.free(banks.allocate(100 * 256), 100 * 256)
    banks.free(banks.allocate(50 * 256), 50 * 256)
    assert banks.warm.total == 100
    banks.cool(1 << 20, PAGE)
    assert banks.warm.total == 0
    banks.allocate(256)
    assert list(banks.warm) == []


@linux_only
def test_freed_pages_stay_warm_up_to_the_limit():
    """Up to `warm_bytes` of freed pages stay resident; beyond that the oldest go back to the system."""
    memory = make(warm=2 * MIB)
    parts = [memory.allocate(MIB) for _ in range(8)]
    gaps = [memory.allocate(256) for _ in range(8)]  # nothing merges: each part is a range of its own
    del gaps
    for part in parts:
        part.data[:] = 1
    for number, part in enumerate(parts, start=1):
        memory.free(part)
        assert resident(memory) == (8 - max(0, number - 2)) * MIB
        assert memory.statistics().warm == min(number, 2) * MIB
    memory.close()


@linux_only
def test_memory_in_turnover_stays_warm():
    """A buffer that is allocated and freed again and again within the limit never loses its pages."""
    memory = make(warm=8 * MIB)
    for _ in range(50):
        allocation = memory.allocate(6 * MIB)
        allocation.data[:: PAGE] = 1
        assert resident(memory) == 6 * MIB
        memory.free(allocation)
    assert resident(memory) == 6 * MIB
    memory.close()


@linux_only
def test_small_frees_give_their_pages_back_too():
    """Pages shared by many small allocations go when the last of them is free; live neighbours keep their bytes."""
    memory = make(warm=0)
    small = [memory.allocate(256) for _ in range(16 * 100)]
    for number, allocation in enumerate(small):
        allocation.data[:] = number % 251
    assert resident(memory) == 100 * PAGE
    kept = small[16 * 50 + 3]
    for allocation in small[1::2] + small[::2]:
        if allocation is not kept:
            memory.free(allocation)
    assert resident(memory) == PAGE
    assert (kept.data == (16 * 50 + 3) % 251).all()
    memory.free(kept)
    assert resident(memory) == 0
    memory.close()


@pytest.mark.slow
@linux_only
def test_live_bytes_are_never_punched():
    """Through a random life with a tiny limit every live allocation keeps its bytes, and little else stays resident."""
    memory = make(warm=64 * 1024)
    random = np.random.default_rng(11)
    live: list[tuple[Allocation, int]] = []
    for step in range(3_000):
        if live and random.random() < 0.48:
            allocation, mark = live.pop(int(random.integers(len(live))))
            assert (allocation.data == mark).all()
            memory.free(allocation)
        else:
            allocation = memory.allocate(int(random.integers(1, 60_000)), top_down=random.random() < 0.2)
            allocation.data[:] = step % 255 + 1
            live.append((allocation, step % 255 + 1))
        assert memory.statistics().warm <= 64 * 1024
    for allocation, mark in live:
        assert (allocation.data == mark).all()
    held = sum(allocation.size + 2 * PAGE for allocation, _ in live)
    assert resident(memory) <= held + 64 * 1024
    memory.close()
