"""Memory of devices, and host memory that devices reach."""

from __future__ import annotations

from inspect import unwrap
from typing import Final

import numpy as np

from atops.base.errors import InvalidValue
from atops.bridge.arguments import member, size_of, whole
from atops.bridge.call import Work
from atops.bridge.handles import current_device, device_at, usable_stream_of
from atops.bridge.pointers import memory_from, own
from atops.hip.functions.api import call, derived
from atops.hip.functions.host import value_into
from atops.hip.header.constants import hipCpuDeviceId, hipMemAttachGlobal, hipMemAttachHost
from atops.hip.header.enumerations import hipMemoryAdvise, hipMemoryType, hipPointer_attribute
from atops.hip.header.pointers import DeviceArray
from atops.hip.header.structs import hipPointerAttribute_t
from atops.tops.functions import memory as tops
from atops.tops.header.enumerations import topsMemoryType

__all__ = (
    "hipFree", "hipHostFree", "hipHostGetDevicePointer", "hipHostGetFlags", "hipHostMalloc", "hipHostRegister",
    "hipHostUnregister", "hipMalloc", "hipMallocManaged", "hipMemAdvise", "hipMemGetInfo", "hipMemPrefetchAsync",
    "hipPointerGetAttribute", "hipPointerGetAttributes",
)  # fmt: skip

hipFree = derived(tops.topsFree)
hipHostMalloc = derived(tops.topsHostMalloc)
hipHostFree = derived(tops.topsHostFree)
hipHostGetFlags = derived(tops.topsHostGetFlags)
hipMemGetInfo = derived(tops.topsMemGetInfo)


@call
def hipMalloc(size: int) -> DeviceArray:
    """Return a pointer to new memory of the current device, with methods of arrays; null for size 0.

    OutOfMemory; InvalidValue: not a size.
    """
    device, nbytes = current_device(), size_of(size)
    return DeviceArray.of(own(device.allocate(nbytes)).address, nbytes) if nbytes else DeviceArray(0)


@call
def hipMallocManaged(size: int, flags: int = hipMemAttachGlobal) -> DeviceArray:
    """Return one pointer to new memory for the host and every device; hipFree gives it back.

    `flags` are hipMemAttachGlobal or hipMemAttachHost, which are the same here. OutOfMemory; InvalidValue: size 0, not
    a size, other flags.
    """
    device, nbytes = current_device(), size_of(size)
    if whole(flags, "flags") not in (hipMemAttachGlobal, hipMemAttachHost):
        raise InvalidValue(f"flags must be hipMemAttachGlobal or hipMemAttachHost, got {flags!r}")
    if not nbytes:
        raise InvalidValue("the size must be 1 or more, got 0")
    return DeviceArray.of(own(device.malloc_managed(nbytes, np.uint8)).address, nbytes)


@call
def hipHostRegister(hostPtr: object, sizeBytes: int, flags: int) -> None:
    """Let devices reach host memory: a writable array or buffer, or an address, whose memory the caller keeps.

    It is mapped and portable, whatever the flags; hipHostRegisterReadOnly has no effect. OutOfMemory; InvalidValue:
    null, read-only or not memory, size 0 or too large, other flags; HostMemoryAlreadyRegistered: some of it is;
    NotSupported: hipHostRegisterIoMemory.
    """
    unwrap(tops.topsHostRegister)(hostPtr, sizeBytes, flags)


@call
def hipHostUnregister(hostPtr: object) -> Work[None]:
    """End a registration, by its first address, array or buffer, once the work that all devices have now is over.

    InvalidValue: null, or not a pointer; HostMemoryNotRegistered: hipHostRegister was not called for it.
    """
    work: Work[None] = unwrap(tops.topsHostUnregister)(hostPtr)
    return work


@call
def hipHostGetDevicePointer(hstPtr: object, flags: int) -> int:
    """Return the device pointer for a pointer into pinned or registered memory. It is the same on every device.

    InvalidValue: other memory, or flags that are not 0.
    """
    address: int = unwrap(tops.topsHostGetDevicePointer)(hstPtr, flags)
    return address


KINDS: Final = {
    topsMemoryType.topsMemoryTypeHost: hipMemoryType.hipMemoryTypeHost,
    topsMemoryType.topsMemoryTypeUnified: hipMemoryType.hipMemoryTypeManaged,
}  # everything else is memory of a device


@call
def hipPointerGetAttributes(ptr: object) -> hipPointerAttribute_t:
    """Return what is known of a pointer into memory of any kind.

    Host memory tells the device that was current when it was allocated or registered, and both its pointers.
    InvalidValue: null, or memory that the runtime does not know.
    """
    known = unwrap(tops.topsPointerGetAttributes)(ptr)
    kind = KINDS.get(known.memoryType, hipMemoryType.hipMemoryTypeDevice)
    return hipPointerAttribute_t(
        kind, known.device, known.device_pointer, known.host_pointer, known.isManaged, known.allocationFlags
    )


# Attributes that C stores in 32 bits; the others have 64.
NARROW: Final = frozenset(
    (
        hipPointer_attribute.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, hipPointer_attribute.HIP_POINTER_ATTRIBUTE_IS_MANAGED,
        hipPointer_attribute.HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, hipPointer_attribute.HIP_POINTER_ATTRIBUTE_MAPPED,
        hipPointer_attribute.HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS,
        hipPointer_attribute.HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE,
    )
)  # fmt: skip


@call
def hipPointerGetAttribute(data: object, attribute: hipPointer_attribute, ptr: object) -> None:
    """Store one fact about a pointer where `data` points to: 32 bits for types, numbers of devices and truth values.

    InvalidValue: null, unknown memory, not an attribute, one that this memory lacks (the host pointer of device
    memory), or one of contexts, tokens and pools.
    """
    which = member(hipPointer_attribute, attribute, "attribute")
    value = unwrap(tops.topsPointerGetAttribute)(which, ptr)
    if which is hipPointer_attribute.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
        value = KINDS.get(value, hipMemoryType.hipMemoryTypeDevice)
    value_into(data, value, 4 if which in NARROW else 8, "data")


def _range(dev_ptr: object, count: object, device: object) -> None:
    """Check a range of memory and a device, or -1 for the host. Raises InvalidValue, CodeError InvalidDevice."""
    size = size_of(count, "count")
    if not size:
        raise InvalidValue("count must be 1 byte or more, got 0")
    if whole(device, "device") != hipCpuDeviceId:
        device_at(device)
    if (found := memory_from(dev_ptr, "dev_ptr")).nbytes < size:
        raise InvalidValue(f"count must be at most {found.nbytes}, the bytes from dev_ptr on, got {size}")


@call
def hipMemAdvise(dev_ptr: object, count: int, advice: hipMemoryAdvise, device: int) -> None:
    """Check an advice on `count` bytes; it has no effect: managed memory has one place, which all devices reach.

    `device` may be hipCpuDeviceId. InvalidValue: null, unknown or too little memory, not an advice; InvalidDevice.
    """
    _range(dev_ptr, count, device)
    member(hipMemoryAdvise, advice, "advice")


@call
def hipMemPrefetchAsync(dev_ptr: object, count: int, device: int, stream: int | None = 0) -> None:
    """Check `count` bytes that a device is to have soon; nothing is moved: managed memory has one place.

    `device` may be hipCpuDeviceId. InvalidValue: null, unknown or too little memory; InvalidDevice; InvalidHandle.
    """
    _range(dev_ptr, count, device)
    usable_stream_of(stream)
