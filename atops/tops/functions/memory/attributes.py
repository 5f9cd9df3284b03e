"""What is known of a pointer: which memory it is in, where, and what devices may do there (TOPS Runtime API, 2.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from atops.base.errors import InvalidType, InvalidValue
from atops.tops.bridge.arguments import member, whole
from atops.tops.bridge.call import call
from atops.tops.functions.memory.pointer_facts import Facts, facts_of
from atops.tops.types.enumerations import topsMemAllocationHandleType, topsMemoryType, topsPointer_attribute
from atops.tops.types.structs import topsPointerAttribute_t

__all__ = ("topsDrvPointerGetAttributes", "topsPointerGetAttribute", "topsPointerGetAttributes")

Attribute = topsPointer_attribute

# None: the memory has no such thing. The attributes without an entry are of contexts, tokens and pools, which have no
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
def topsPointerGetAttributes(ptr: Any) -> topsPointerAttribute_t:
    """Return what is known of a pointer into memory of any kind.

    Host memory tells the device that was current when it was allocated or registered, and both its pointers.
    InvalidValue: null, or memory that the runtime does not know; InvalidDevice: the board has none.
    """
    facts = facts_of(ptr)
    return topsPointerAttribute_t(
        int(facts.memory_type), facts.device, facts.device_pointer, facts.host_pointer, int(facts.managed), facts.flags
    )


@call
def topsPointerGetAttribute(attribute: topsPointer_attribute, ptr: Any) -> int:
    """Return one fact about a pointer.

    BUFFER_ID never repeats in a process; MEM_BANK is the physical bank; ACCESS_FLAGS is what the current device may do.
    InvalidValue: unknown memory, no attribute, one that this memory has not (the host pointer of device memory), or
    one of contexts, tokens and pools; InvalidDevice: the board has none.
    """
    which = member(topsPointer_attribute, attribute, "attribute")
    value = _value(which, facts_of(ptr))
    if value is None:
        raise InvalidValue(f"the memory at {ptr!r} has no {which.name}")
    return value


@call
def topsDrvPointerGetAttributes(
    numAttributes: int | None, attributes: Sequence[topsPointer_attribute], ptr: Any
) -> list[int]:
    """Return several facts about a pointer, 0 for what its memory has not.

    InvalidValue: unknown memory, no attributes, one that does not exist, or another count than there are;
    InvalidDevice: the board has none.
    """
    if not isinstance(attributes, Sequence) or isinstance(attributes, str | bytes):
        raise InvalidType(f"attributes is {attributes!r}; a sequence of topsPointer_attribute is right")
    chosen = [member(topsPointer_attribute, each, "attributes") for each in attributes]
    if not chosen or (numAttributes is not None and whole(numAttributes, "numAttributes") != len(chosen)):
        raise InvalidValue(f"numAttributes is {numAttributes} and there are {len(chosen)}; None or that many is right")
    facts = facts_of(ptr)
    return [_value(which, facts) or 0 for which in chosen]


def _value(which: topsPointer_attribute, facts: Facts) -> int | None:
    return VALUES[which](facts) if which in VALUES else None
