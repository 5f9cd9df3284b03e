"""The attributes of a pointer: which memory it is in, where, and what devices may do there (TOPS Runtime API, 2.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from atops.base.errors import InvalidValue
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.commands.launch import reachable
from atops.runtime.current_driver import current_driver
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.aliases import alias_at
from atops.tops.bridge.arguments import listed, member
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device
from atops.tops.bridge.pointers import address_of, host_pointer, known_memory
from atops.tops.functions.memory.host_memory import ORIGINS
from atops.tops.types.enumerations import (
    topsMemAccessFlags,
    topsMemAllocationHandleType,
    topsMemoryType,
    topsPointer_attribute,
)
from atops.tops.types.structs import topsPointerAttribute_t

__all__ = ("Facts", "facts_of", "topsDrvPointerGetAttributes", "topsPointerGetAttribute", "topsPointerGetAttributes")

Attribute = topsPointer_attribute

# None: the memory has no such attribute. Attributes without an entry are of contexts, tokens and pools, which have no
# handles here.
VALUES: Final[dict[topsPointer_attribute, Callable[[Facts], int | None]]] = {
    Attribute.TOPS_POINTER_ATTRIBUTE_MEMORY_TYPE: lambda facts: topsMemoryType(facts.memory_type),
    Attribute.TOPS_POINTER_ATTRIBUTE_DEVICE_POINTER: lambda facts: facts.device_pointer,
    Attribute.TOPS_POINTER_ATTRIBUTE_HOST_POINTER: lambda facts: facts.host_pointer or None,
    Attribute.TOPS_POINTER_ATTRIBUTE_SYNC_MEMOPS: lambda facts: False,
    Attribute.TOPS_POINTER_ATTRIBUTE_BUFFER_ID: lambda facts: facts.serial,
    Attribute.TOPS_POINTER_ATTRIBUTE_IS_MANAGED: lambda facts: facts.managed,
    Attribute.TOPS_POINTER_ATTRIBUTE_DEVICE_ORDINAL: lambda facts: facts.device,
    Attribute.TOPS_POINTER_ATTRIBUTE_IS_LEGACY_TOPS_IPC_CAPABLE: lambda facts: facts.bank is not None,
    Attribute.TOPS_POINTER_ATTRIBUTE_RANGE_START_ADDR: lambda facts: facts.start,
    Attribute.TOPS_POINTER_ATTRIBUTE_RANGE_SIZE: lambda facts: facts.size,
    Attribute.TOPS_POINTER_ATTRIBUTE_MAPPED: lambda facts: True,
    Attribute.TOPS_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: lambda facts: (
        topsMemAllocationHandleType.topsMemHandleTypeNone
    ),
    Attribute.TOPS_POINTER_ATTRIBUTE_IS_GCU_DIRECT_RDMA_CAPABLE: lambda facts: False,
    Attribute.TOPS_POINTER_ATTRIBUTE_ACCESS_FLAGS: lambda facts: facts.access,
    Attribute.TOPS_POINTER_ATTRIBUTE_MEM_BANK: lambda facts: facts.bank,
}


@call
def topsPointerGetAttributes(ptr: object) -> topsPointerAttribute_t:
    """Return what is known of a pointer into memory of any kind.

    Host memory tells the device that was current when it was allocated or registered, and both its pointers.
    InvalidValue: null, or memory that the runtime does not know; InvalidDevice: the board has none.
    """
    facts = facts_of(ptr)
    return topsPointerAttribute_t(
        int(facts.memory_type), facts.device, facts.device_pointer, facts.host_pointer, int(facts.managed), facts.flags
    )


@call
def topsPointerGetAttribute(attribute: topsPointer_attribute, ptr: object) -> int:
    """Return one fact about a pointer.

    BUFFER_ID never repeats in a process; MEM_BANK is the physical bank; ACCESS_FLAGS is what the current device may do.
    InvalidValue: unknown memory, not an attribute, one that this memory lacks (the host pointer of device memory), or
    one of contexts, tokens and pools; InvalidDevice: the board has none.
    """
    which = member(topsPointer_attribute, attribute, "attribute")
    value = _value(which, facts_of(ptr))
    if value is None:
        raise InvalidValue(f"the memory at {ptr!r} has no {which.name}")
    return value


@call
def topsDrvPointerGetAttributes(
    numAttributes: int | None, attributes: Sequence[topsPointer_attribute], ptr: object
) -> list[int]:
    """Return several facts about a pointer, 0 for those that its memory lacks.

    InvalidValue: unknown memory, no attributes, one that does not exist, or another count than there are;
    InvalidDevice: the board has none.
    """
    given = listed(attributes, numAttributes, "attributes")
    chosen = [member(topsPointer_attribute, each, "attributes") for each in given]
    if not chosen:
        raise InvalidValue("attributes must have 1 element or more, got none")
    facts = facts_of(ptr)
    return [_value(which, facts) or 0 for which in chosen]


def _value(which: topsPointer_attribute, facts: Facts) -> int | None:
    return VALUES[which](facts) if which in VALUES else None


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


def facts_of(pointer: object) -> Facts:
    """Look a pointer up. Raises CodeError InvalidDevicePointer (InvalidValue) for an unknown one."""
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
        imported = alias is not None and memory.address == alias.address  # its bank is known to the other process only
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
