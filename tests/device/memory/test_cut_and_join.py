"""Cutting and joining ranges that are set aside: bytes stay, figures stay, and they are not given out."""

from __future__ import annotations

import pytest

from atops.base.errors import IllegalAddress, InvalidValue
from atops.device.memory.device_memory import DeviceMemory

GRANULE = 256
BY = "the test"


@pytest.fixture
def memory():
    """Two banks of 64 KiB."""
    memory = DeviceMemory(128 << 10, 2, 0, 1 << 36, 0, GRANULE)
    yield memory
    memory.close(BY)


@pytest.mark.parametrize(("size", "front", "rest"), [(1, 256, 3840), (256, 256, 3840), (257, 512, 3584)])
def test_a_cut_gives_two_that_lie_side_by_side(memory, size, front, rest):
    """The first has the size asked for, the second the whole granules behind it; bytes and figures stay."""
    old = memory.allocate(4096, bank=1)
    old.data[:] = 7
    first, second = memory.cut(old, size, BY)
    assert (first.size, first.address) == (size, old.address)
    assert (second.size, second.address) == (rest, old.address + front)
    assert (first.bank, second.bank, old.freed_by) == (1, 1, BY)
    assert not old.alive
    assert (first.data == 7).all()
    assert (second.data == 7).all()
    assert memory.statistics().used == 4096
    assert memory.find(second.address + 1) is second
    assert memory.find(first.address) is first


@pytest.mark.parametrize("size", [4000, 4096, None])
def test_a_cut_of_everything_leaves_nothing(memory, size):
    """Where the last granule is taken there is no second part."""
    first, second = memory.cut(memory.allocate(4096), size, BY)
    assert (first.size, second) == (size or 4096, None)


@pytest.mark.parametrize("size", [0, -1, 4097])
def test_what_does_not_fit_is_not_cut(memory, size):
    """The allocation stays as it is."""
    old = memory.allocate(4096)
    with pytest.raises(InvalidValue, match="1 to 4096"):
        memory.cut(old, size, BY)
    assert old.alive


def test_what_is_over_is_not_cut(memory):
    """A dead allocation is an error that names what freed it, and its range is left alone."""
    old = memory.allocate(4096)
    memory.free(old, "the first user")
    with pytest.raises(IllegalAddress, match="the first user"):
        memory.cut(old, 256, BY)
    assert memory.statistics().used == 0


def test_parts_are_freed_each_by_itself(memory):
    """A free of one gives back its granules and no more."""
    first, second = memory.cut(memory.allocate(4096), 300, BY)
    memory.free(first, BY)
    assert memory.statistics().used == 4096 - 512
    memory.free(second, BY)
    assert memory.statistics().used == 0
    assert memory.allocate(64 << 10, bank=0).size == 64 << 10


def test_neighbours_are_joined_to_the_last_granule(memory):
    """The whole has the bytes of both; the two are over."""
    first, second = memory.cut(memory.allocate(4096), 300, BY)
    whole = memory.join(first, second, BY)
    assert (whole.size, whole.address) == (4096, first.address)
    assert not first.alive
    assert not second.alive
    assert memory.find(whole.address + 4095) is whole
    memory.free(whole, BY)
    assert memory.statistics().used == 0


def test_only_live_neighbours_of_one_bank_are_joined(memory):
    """Others stay as they are: apart, in the wrong order, dead, or of two banks."""
    first, second = memory.cut(memory.allocate(4096, bank=0), 256, BY)
    second, third = memory.cut(second, 256, BY)
    assert memory.join(first, third, BY) is None
    assert memory.join(second, first, BY) is None
    low, high = memory.allocate((64 << 10) - 4096, bank=0), memory.allocate(4096, bank=1)
    assert low.offset + low.size == high.offset
    assert memory.join(low, high, BY) is None
    memory.free(second, BY)
    assert memory.join(first, second, BY) is None
    assert all(each.alive for each in (first, third, low, high))


def test_the_index_of_addresses_follows(memory):
    """Lookups between the first ones that were made and later cuts and joins find the newest allocation."""
    old = memory.allocate(4096)
    assert memory.find(old.address + 100) is old
    first, second = memory.cut(old, 1024, BY)
    assert memory.find(old.address + 1500) is second
    whole = memory.join(first, second, BY)
    assert memory.find(old.address + 1500) is whole
    memory.free(whole, BY)
    with pytest.raises(IllegalAddress, match="no live allocation"):
        memory.find(old.address + 1500)
