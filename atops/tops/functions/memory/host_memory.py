"""Host memory that devices reach: allocated, registered, mapped, freed (TOPS Runtime API, 2.6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from atops.base.errors import InvalidValue
from atops.base.result_codes import Result
from atops.device.memory.allocation import Allocation
from atops.runtime.current_driver import current_driver
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.copy_ends import host_bytes
from atops.tops.bridge.arguments import flags_in, size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.codes import CodeError
from atops.tops.bridge.context import current_device
from atops.tops.bridge.pointers import disown, find_host, host_pointer, is_device_address, is_null, own
from atops.tops.functions.memory.free_waits import give_back
from atops.tops.functions.memory.host_origins import ORIGINS, HostOrigin
from atops.tops.functions.memory.host_pages import bytes_at
from atops.tops.types.constants import (
    topsExtHostRegisterCoarseGrained,
    topsHostMallocCoherent,
    topsHostMallocMapped,
    topsHostMallocNonCoherent,
    topsHostMallocNumaUser,
    topsHostMallocPortable,
    topsHostMallocWriteCombined,
    topsHostRegisterIoMemory,
    topsHostRegisterMapped,
    topsHostRegisterPortable,
)

__all__ = (
    "topsHostFree",
    "topsHostGetDevicePointer",
    "topsHostGetFlags",
    "topsHostMalloc",
    "topsHostRegister",
    "topsHostUnregister",
)

MALLOC_COHERENCE = topsHostMallocCoherent | topsHostMallocNonCoherent
MALLOC_FLAGS = (
    topsHostMallocPortable | topsHostMallocMapped | topsHostMallocWriteCombined | topsHostMallocNumaUser
    | MALLOC_COHERENCE
)  # fmt: skip
REGISTER_FLAGS = (
    topsHostRegisterPortable | topsHostRegisterMapped | topsHostRegisterIoMemory | topsExtHostRegisterCoarseGrained
)


@call
def topsHostMalloc(size: int, flags: int) -> int:
    """Return a host pointer to new pinned memory that every device reaches; 0 (null) for size 0.

    `host_view` gives its bytes as an array. All of it is mapped, portable and coherent; topsHostGetFlags tells the
    flags. OutOfMemory; InvalidValue: no size, other flags, or Coherent and NonCoherent at once.
    """
    nbytes = size_of(size)
    word = flags_in(flags, MALLOC_FLAGS)
    if word & MALLOC_COHERENCE == MALLOC_COHERENCE:
        raise InvalidValue(f"flags is {word:#x}; Coherent or NonCoherent is right, not both")
    device = current_device()
    if nbytes == 0:
        return 0
    array = device.host_malloc(nbytes, flags=word)
    _keep(array, device, registered=False)
    return array.host_address


@call
def topsHostGetDevicePointer(hostPtr: Any, flags: int) -> int:
    """Return the device pointer for a pointer into pinned or registered memory. It is the same on every device.

    InvalidValue: other memory, or flags that are not 0.
    """
    flags_in(flags, 0)
    host, offset = _found(hostPtr)
    return host.address + offset


@call
def topsHostGetFlags(hostPtr: Any) -> int:
    """Return the flags that pinned memory was allocated with, or registered. InvalidValue: other memory."""
    host, _ = _found(hostPtr)
    if host.managed:
        raise InvalidValue(f"hostPtr is in {host!r}; memory of topsHostMalloc or topsHostRegister is right")
    return host.flags


@call
def topsHostRegister(hostPtr: Any, sizeBytes: int, flags: int) -> None:
    """Let devices reach host memory: a writable array or buffer, or an address, whose memory the caller keeps.

    It is mapped and portable, whatever the flags; topsExtHostRegisterCoarseGrained has no effect. OutOfMemory;
    InvalidValue: null, read-only or no memory, size 0 or too large, other flags; HostMemoryAlreadyRegistered: some of
    it is; NotSupported: topsHostRegisterIoMemory.
    """
    nbytes = size_of(sizeBytes, "sizeBytes")
    word = flags_in(flags, REGISTER_FLAGS)
    if word & topsHostRegisterIoMemory:
        raise CodeError(Result.NotSupported, "flags has topsHostRegisterIoMemory; there is no such memory here")
    if is_null(hostPtr) or nbytes == 0:
        raise InvalidValue(f"{nbytes} bytes at hostPtr {hostPtr!r}; 1 or more, at no null pointer, are right")
    device = current_device()
    if hasattr(hostPtr, "__index__") and not isinstance(hostPtr, np.ndarray):
        address = whole(hostPtr, "hostPtr")
        if is_device_address(device.driver, address):  # its bytes may be mapped there too, but not for long
            raise InvalidValue(f"hostPtr {address:#x} is an address of device memory; host memory is right")
        found = bytes_at(address, nbytes)
    else:
        view = host_bytes(hostPtr, "hostPtr")
        if nbytes > view.nbytes:
            raise InvalidValue(f"hostPtr has {view.nbytes} bytes; sizeBytes is {nbytes}")
        found = np.frombuffer(view[:nbytes], np.uint8)
    _keep(device.register(found, flags=word), device, registered=True)


@call
async def topsHostUnregister(hostPtr: Any) -> None:
    """End a registration, by its first address, array or buffer, once the work that all devices have now is over.

    InvalidValue: null, or no pointer; HostMemoryNotRegistered: topsHostRegister was not called for it.
    """
    if is_null(hostPtr):
        raise InvalidValue("hostPtr is null; a pointer given to topsHostRegister is right")
    ours, driver = current_device(), current_driver()
    others = (Device(ordinal, driver) for ordinal in range(driver.devices) if ordinal != ours.ordinal)
    await give_back(_taken(hostPtr, registered=True), ours, *others)


@call
async def topsHostFree(ptr: int | None) -> None:
    """Free memory of topsHostMalloc, after an implicit topsDeviceSynchronize of the current device; null is fine.

    InvalidValue: interior, device, registered or dead pointers. What the synchronisation finds is answered, and the
    memory freed all the same; in a callback of the device the call is refused.
    """
    device = None if is_null(ptr) else current_device()
    if device is None:
        current_driver()
        return
    await give_back(_taken(ptr, registered=False), device)


def _keep(array: Buffer, device: Device, *, registered: bool) -> None:
    ORIGINS[array.allocation] = HostOrigin(device.ordinal, registered)
    own(array)


def _found(pointer: Any) -> tuple[Allocation, int]:
    """Return the host memory that a host pointer lies in, and where in it. Raises InvalidValue."""
    host = find_host(pointer, "hostPtr")
    return host, host_pointer(pointer, "hostPtr") - host.host_address


def _taken(pointer: Any, *, registered: bool) -> Buffer:
    """Return what owns the host memory that begins at a pointer; exactly one caller gets it.

    Raises CodeError InvalidValue for other memory, HostMemoryNotRegistered where it should be registered.
    """
    missing = Result.HostMemoryNotRegistered if registered else Result.InvalidValue
    try:
        host, offset = _found(pointer)
    except InvalidValue as error:
        raise CodeError(missing, str(error)) from None
    origin = ORIGINS.get(host)
    buffer = disown(host) if offset == 0 and origin is not None and origin.registered == registered else None
    if buffer is None:
        right = "topsHostRegister" if registered else "topsHostMalloc"
        raise CodeError(missing, f"the pointer is {offset} bytes into {host!r}; one that {right} knows is right")
    return buffer
