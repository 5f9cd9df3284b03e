"""Memory of devices, and host memory that devices reach."""

from __future__ import annotations

from inspect import unwrap
from typing import Any, Final

import numpy as np

from atops.base.errors import InvalidValue
from atops.bridge.arguments import size_of, whole
from atops.bridge.call import Work
from atops.bridge.handles import current_device
from atops.bridge.pointers import own
from atops.hip.functions.api import call, derived
from atops.hip.header.constants import hipMemAttachGlobal, hipMemAttachHost
from atops.hip.header.enumerations import hipMemoryType
from atops.hip.header.pointers import DeviceArray
from atops.hip.header.structs import hipPointerAttribute_t
from atops.tops.functions import memory as tops
from atops.tops.header.enumerations import topsMemoryType

__all__ = (
    "hipFree", "hipHostFree", "hipHostGetDevicePointer", "hipHostGetFlags", "hipHostMalloc", "hipHostRegister",
    "hipHostUnregister", "hipMalloc", "hipMallocManaged", "hipMemGetInfo", "hipPointerGetAttributes",
)  # fmt: skip

hipFree = derived(tops.topsFree)
hipHostMalloc = derived(tops.topsHostMalloc)
hipHostFree = derived(tops.topsHostFree)
hipHostGetFlags = derived(tops.topsHostGetFlags)
hipMemGetInfo = derived(tops.topsMemGetInfo)

FUNCTIONS: Final[Any] = {
    each.__name__: unwrap(each)
    for each in (
        tops.topsHostGetDevicePointer, tops.topsHostRegister, tops.topsHostUnregister, tops.topsPointerGetAttributes
    )
}


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
    FUNCTIONS["topsHostRegister"](hostPtr, sizeBytes, flags)


@call
def hipHostUnregister(hostPtr: object) -> Work[None]:
    """End a registration, by its first address, array or buffer, once the work that all devices have now is over.

    InvalidValue: null, or not a pointer; HostMemoryNotRegistered: hipHostRegister was not called for it.
    """
    work: Work[None] = FUNCTIONS["topsHostUnregister"](hostPtr)
    return work


@call
def hipHostGetDevicePointer(hstPtr: object, flags: int) -> int:
    """Return the device pointer for a pointer into pinned or registered memory. It is the same on every device.

    InvalidValue: other memory, or flags that are not 0.
    """
    address: int = FUNCTIONS["topsHostGetDevicePointer"](hstPtr, flags)
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
    known = FUNCTIONS["topsPointerGetAttributes"](ptr)
    kind = KINDS.get(known.memoryType, hipMemoryType.hipMemoryTypeDevice)
    return hipPointerAttribute_t(
        kind, known.device, known.device_pointer, known.host_pointer, known.isManaged, known.allocationFlags
    )
