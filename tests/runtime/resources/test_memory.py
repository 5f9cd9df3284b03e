"""A bundle's reservation: what it takes, what it hands out, and what comes back."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from atops.base.errors import IllegalAddress, OutOfMemory
from atops.device.memory.device_memory import DeviceMemory
from atops.runtime.resources.bundle import ReservedMemory

KIB = 1 << 10
BANK = 64 * KIB
SITE = "the test"


@pytest.fixture
def memory():
    """Four banks of 64 KiB."""
    memory = DeviceMemory(4 * BANK, 4, 0, 1 << 36, 0)
    yield memory
    memory.close(SITE)


def used(memory):
    """Return the bytes in use, bank by bank."""
    return [bank.used for bank in memory.statistics().banks]


def test_it_takes_from_its_banks_in_their_order(memory):
    """A full bank goes before a part of the next; what is in use already is left alone."""
    taken = memory.allocate(16 * KIB, bank=2)
    reserved = ReservedMemory(memory, (2, 0))
    reserved.reserve(BANK)
    assert used(memory) == [16 * KIB, 0, BANK, 0]
    assert taken.alive
    reserved.close()
    assert used(memory) == [0, 0, 16 * KIB, 0]


def test_holes_are_taken_too(memory):
    """Free bytes that lie apart are as good as any."""
    blocks = [memory.allocate(16 * KIB, bank=0) for _ in range(4)]
    for block in blocks[::2]:
        memory.free(block, SITE)
    reserved = ReservedMemory(memory, (0,))
    reserved.reserve(32 * KIB)
    assert reserved.free == 32 * KIB
    with pytest.raises(OutOfMemory, match=r"none of banks \(0,\) has 32768 bytes"):
        reserved.allocate(32 * KIB, SITE)
    assert {reserved.allocate(16 * KIB, SITE).offset for _ in range(2)} == {0, 32 * KIB}


def test_too_much_leaves_nothing_behind(memory):
    """What was taken before the banks were empty is given back."""
    reserved = ReservedMemory(memory, (0, 1))
    with pytest.raises(OutOfMemory, match="1 are not there"):
        reserved.reserve(2 * BANK + 1)
    assert used(memory) == [0] * 4
    assert reserved.free == 0


def test_an_allocation_is_freed_once(memory):
    """A second end is an error and does not make the reservation grow."""
    reserved = ReservedMemory(memory, (0,))
    reserved.reserve(4 * KIB)
    found = reserved.allocate(1000, SITE)
    assert reserved.free == 3 * KIB
    reserved.give_back(found, SITE)
    assert reserved.free == 4 * KIB
    with pytest.raises(IllegalAddress):
        reserved.give_back(found, SITE)
    assert reserved.free == 4 * KIB


def test_what_another_process_has_mapped_is_not_reserved_again(memory):
    """Its range belongs to no stream until it is unpinned, and the device's then."""
    reserved = ReservedMemory(memory, (0,))
    reserved.reserve(4 * KIB)
    found = reserved.allocate(KIB, SITE)
    assert memory.pin(found)
    reserved.give_back(found, SITE)
    assert reserved.free == 3 * KIB
    assert used(memory)[0] == 4 * KIB
    memory.unpin(found)
    assert used(memory)[0] == 3 * KIB


def test_what_crosses_banks_is_found_when_all_are_its_own(memory):
    """An allocation larger than a bank needs all of them among the policy's."""
    assert ReservedMemory(memory, (3, 2, 1, 0)).allocate(2 * BANK, SITE).size == 2 * BANK
    with pytest.raises(OutOfMemory):
        ReservedMemory(memory, (3, 2, 1)).allocate(BANK + 1, SITE)


def test_a_reset_ends_it_without_an_error(memory):
    """Closing after the memory was reset frees nothing twice."""
    reserved = ReservedMemory(memory, (0,))
    reserved.reserve(4 * KIB)
    memory.reset(SITE)
    reserved.close()
    assert used(memory) == [0] * 4


def test_threads_share_it(memory):
    """Four threads allocate and free at once; no two get the same bytes, and all is one piece at the end."""
    reserved = ReservedMemory(memory, (0,))
    reserved.reserve(BANK)

    def churn(seed):
        chance = random.Random(seed)
        for _ in range(100):
            held = []
            for _ in range(4):
                allocation = reserved.allocate(chance.randint(1, 2000), SITE)
                allocation.data[:] = seed
                held.append(allocation)
            assert all((each.data == seed).all() for each in held)
            for each in chance.sample(held, len(held)):
                reserved.give_back(each, SITE)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(churn, range(1, 5)))
    assert reserved.free == BANK
    assert reserved.allocate(BANK, SITE).size == BANK
