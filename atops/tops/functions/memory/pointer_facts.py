"""What is known of a pointer, of whatever kind of memory, looked up when it is asked. It knows no attribute's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.commands.launch import reachable
from atops.runtime.current_driver import current_driver
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.aliases import alias_at
from atops.tops.bridge.context import current_device
from atops.tops.bridge.pointers import address_of, host_pointer, known_memory
from atops.tops.functions.memory.host_origins import ORIGINS
from atops.tops.types.enumerations import topsMemAccessFlags, topsMemoryType

__all__ = ("Facts", "facts_of")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a pointer. `host_pointer` is 0 for device memory, `bank` and `serial` None where there is none.

    `access` is what the current device may do there.
    """

    memory_type: int
    device: int
    device_pointer: int
    host_pointer: int
    managed: bool
    flags: int
    start: int
    size: int
    access: topsMemAccessFlags
    serial: int | None = None
    bank: int | None = None


def facts_of(pointer: Any) -> Facts:
    """Look a pointer up. Raises CodeError InvalidDevicePointer (InvalidValue) for one that is not known."""
    ours = current_device().context
    bare = pointer is None or isinstance(pointer, Buffer) or hasattr(pointer, "__index__")
    address = address_of(pointer, "ptr") if bare and not isinstance(pointer, np.ndarray) else host_pointer(pointer)
    alias = alias_at(current_driver(), address)
    kind = getattr(alias.owner, "memory_type", None) if alias is not None else None
    if alias is not None and kind is not None:
        both = topsMemAccessFlags.topsMemAccessFlagsProtReadWrite
        return Facts(kind, ours.ordinal, address, 0, False, 0, alias.address, alias.size, both)
    buffer = known_memory(address)
    memory, offset = buffer.allocation, buffer.offset
    if memory.device is not None:
        imported = alias is not None and memory.address == alias.address  # its place is another process's affair
        owner = current_driver().context(memory.device).memory
        return Facts(
            topsMemoryType.topsMemoryTypeDevice, memory.device, memory.address + offset, 0, False, memory.flags,
            memory.address, memory.size, _access(ours, memory), memory.serial,
            None if imported else owner.bank_of(memory.address + offset),
        )  # fmt: skip
    origin = ORIGINS.get(memory)
    kind = topsMemoryType.topsMemoryTypeUnified if memory.managed else topsMemoryType.topsMemoryTypeHost
    return Facts(
        kind, ours.ordinal if origin is None else origin.device, memory.address + offset, memory.host_address + offset,
        memory.managed, memory.flags, memory.address, memory.size,
        topsMemAccessFlags.topsMemAccessFlagsProtReadWrite, memory.serial,
    )  # fmt: skip


def _access(ours: DeviceContext, memory: Allocation) -> topsMemAccessFlags:
    if reachable(ours, memory):
        return topsMemAccessFlags.topsMemAccessFlagsProtReadWrite
    return topsMemAccessFlags.topsMemAccessFlagsProtNone
