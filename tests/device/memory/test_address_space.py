"""One question for the whole board: whose byte is this?"""

from __future__ import annotations

import pytest

from atops.base.errors import IllegalAddress
from atops.device.memory.address_space import AddressSpace, device_base
from atops.device.memory.device_memory import GlobalMemory
from atops.device.memory.host_memory import HostMemory


def test_every_kind_of_address_finds_its_allocation():
    """Addresses of each device, and pinned, registered and managed ones, lead to their allocations."""
    memories = [GlobalMemory(48 << 30, 4, device, device_base(device), 0) for device in range(8)]
    host = HostMemory()
    space = AddressSpace(memories, host)
    made = [memory.allocate(1000, top_down=device % 2 == 1) for device, memory in enumerate(memories)]
    made += [host.allocate(1000), host.register(bytearray(1000)), host.managed(1000)]
    for allocation in made:
        for offset in (0, 500, 999):
            assert space.find(allocation.address + offset) is allocation
    assert [allocation.device for allocation in made] == [*range(8), None, None, None]
    assert all(allocation.address < 1 << 40 for allocation in made[:-1])
    assert "8 devices" in repr(space)
    for memory in memories:
        memory.close()
    host.close()


def test_device_addresses_are_odd_slots_of_forty_bits():
    """Device d begins at (2 d + 1) << 36, and the eighth still ends within 40 bits."""
    assert [device_base(device) for device in range(3)] == [1 << 36, 3 << 36, 5 << 36]
    assert device_base(7) + (48 << 30) <= 1 << 40


@pytest.mark.parametrize("address", [0, 1 << 20, 1 << 36, (1 << 36) + 1000, 3 << 36, 2 << 36, 1 << 45, -1])
def test_nobodys_address_names_the_asker(address: int):
    """An address of no allocation, of no device and of no window is IllegalAddress with the address and who asked."""
    space = AddressSpace([GlobalMemory(1 << 30, 4, 0, device_base(0), 0)], HostMemory())
    with pytest.raises(IllegalAddress, match=f"copy 12: {address:#x}"):
        space.find(address, "copy 12")
