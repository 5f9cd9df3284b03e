"""Which memory of the board an address belongs to. It owns nothing; it only knows whom to ask."""

from __future__ import annotations

from collections.abc import Sequence

from atops.device.memory.allocation import Allocation
from atops.device.memory.device_memory import GlobalMemory
from atops.device.memory.host_memory import HostMemory

__all__ = ("SLOT_SHIFT", "AddressSpace", "device_base")

SLOT_SHIFT = 36


def device_base(device: int) -> int:
    """Return the first address of device `device`: slot 2 * device + 1 of 64 GiB each, so that 8 fit in 40 bits."""
    return 2 * device + 1 << SLOT_SHIFT


class AddressSpace:
    """All device addresses of one board: each device's memory in its slot, host and managed memory elsewhere."""

    __slots__ = ("_host", "_slots")

    def __init__(self, memories: Sequence[GlobalMemory], host: HostMemory) -> None:
        """Know the memories of the board, one to a slot."""
        self._slots = {memory.base_address >> SLOT_SHIFT: memory for memory in memories}
        self._host = host

    def find(self, address: int, who: object = "") -> Allocation:
        """Return the live allocation that `address` lies in, on any device or on the host.

        Raises IllegalAddress naming the address, `who` asked and what lies near it.
        """
        memory = self._slots.get(address >> SLOT_SHIFT)
        return self._host.find(address, who) if memory is None else memory.find(address, who)

    def __repr__(self) -> str:
        """Say how many memories there are."""
        return f"<AddressSpace of {len(self._slots)} devices>"
