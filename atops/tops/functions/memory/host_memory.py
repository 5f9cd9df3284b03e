"""Host memory that devices reach: allocated, registered, mapped, freed (TOPS Runtime API, 2.6)."""

from __future__ import annotations

import ctypes
import mmap
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from atops.base.errors import InvalidValue
from atops.base.result_codes import Result
from atops.device.memory.allocation import Allocation, Bytes
from atops.runtime.current_driver import current_driver
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.copy_ends import host_bytes
from atops.tops.bridge.arguments import flags_in, size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.codes import CodeError
from atops.tops.bridge.context import current_device
from atops.tops.bridge.pointers import disown, find_host, give_back, host_pointer, is_device_address, is_null, own
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
    "ORIGINS", "HostOrigin", "bytes_at", "topsHostFree", "topsHostGetDevicePointer", "topsHostGetFlags",
    "topsHostMalloc", "topsHostRegister", "topsHostUnregister",
)  # fmt: skip

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
    flags. OutOfMemory; InvalidValue: not a size, other flags, or Coherent and NonCoherent at once.
    """
    nbytes = size_of(size)
    word = flags_in(flags, MALLOC_FLAGS)
    if word & MALLOC_COHERENCE == MALLOC_COHERENCE:
        raise InvalidValue(f"flags must not have Coherent and NonCoherent at once, got {word:#x}")
    device = current_device()
    if nbytes == 0:
        return 0
    array = device.host_malloc(nbytes, flags=word)
    _keep(array, device, registered=False)
    return array.host_address


@call
def topsHostGetDevicePointer(hostPtr: object, flags: int) -> int:
    """Return the device pointer for a pointer into pinned or registered memory. It is the same on every device.

    InvalidValue: other memory, or flags that are not 0.
    """
    flags_in(flags, 0)
    host, offset = _found(hostPtr)
    return host.address + offset


@call
def topsHostGetFlags(hostPtr: object) -> int:
    """Return the flags that pinned memory was allocated with, or registered. InvalidValue: other memory."""
    host, _ = _found(hostPtr)
    if host.managed:
        raise InvalidValue(f"hostPtr must be in memory of topsHostMalloc or topsHostRegister, got {host!r}")
    return host.flags


@call
def topsHostRegister(hostPtr: object, sizeBytes: int, flags: int) -> None:
    """Let devices reach host memory: a writable array or buffer, or an address, whose memory the caller keeps.

    It is mapped and portable, whatever the flags; topsExtHostRegisterCoarseGrained has no effect. OutOfMemory;
    InvalidValue: null, read-only or not memory, size 0 or too large, other flags; HostMemoryAlreadyRegistered: some of
    it is; NotSupported: topsHostRegisterIoMemory.
    """
    nbytes = size_of(sizeBytes, "sizeBytes")
    word = flags_in(flags, REGISTER_FLAGS)
    if word & topsHostRegisterIoMemory:
        raise CodeError(Result.NotSupported, "topsHostRegisterIoMemory is not supported: there is no such memory here")
    if is_null(hostPtr) or nbytes == 0:
        raise InvalidValue(f"expected 1 byte or more at a pointer that is not null, got {nbytes} at {hostPtr!r}")
    device = current_device()
    if hasattr(hostPtr, "__index__") and not isinstance(hostPtr, np.ndarray):
        address = whole(hostPtr, "hostPtr")
        if is_device_address(device.driver, address):  # its bytes may be mapped in this process, but not for long
            raise InvalidValue(f"hostPtr must be host memory, got {address:#x}, an address of device memory")
        found = bytes_at(address, nbytes)
    else:
        view = host_bytes(hostPtr, "hostPtr")
        if nbytes > view.nbytes:
            raise InvalidValue(f"sizeBytes must be at most {view.nbytes}, the size of hostPtr, got {nbytes}")
        found = np.frombuffer(view[:nbytes], np.uint8)
    _keep(device.register(found, flags=word), device, registered=True)


@call
async def topsHostUnregister(hostPtr: object) -> None:
    """End a registration, by its first address, array or buffer, once the work that all devices have now is over.

    InvalidValue: null, or not a pointer; HostMemoryNotRegistered: topsHostRegister was not called for it.
    """
    if is_null(hostPtr):
        raise InvalidValue("hostPtr must be a pointer given to topsHostRegister, got null")
    ours, driver = current_device(), current_driver()
    others = (Device(ordinal, driver) for ordinal in range(driver.devices) if ordinal != ours.ordinal)
    await give_back(_taken(hostPtr, registered=True), ours, *others)


@call
async def topsHostFree(ptr: int | None) -> None:
    """Free memory of topsHostMalloc, after an implicit topsDeviceSynchronize of the current device; null is fine.

    InvalidValue: interior, device, registered or dead pointers. A failure that the synchronisation finds is
    answered, and the memory freed all the same; in a callback of the device the call is refused.
    """
    device = None if is_null(ptr) else current_device()
    if device is None:
        current_driver()
        return
    await give_back(_taken(ptr, registered=False), device)


def _keep(array: Buffer, device: Device, *, registered: bool) -> None:
    ORIGINS[array.allocation] = HostOrigin(device.ordinal, registered)
    own(array)


def _found(pointer: object) -> tuple[Allocation, int]:
    """Return the host memory that a host pointer lies in, and where in it. Raises InvalidValue."""
    host = find_host(pointer, "hostPtr")
    return host, host_pointer(pointer, "hostPtr") - host.host_address


def _taken(pointer: object, *, registered: bool) -> Buffer:
    """Return the owner of the host memory that begins at a pointer; of several calls at once exactly one gets it.

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
        maker = "topsHostRegister" if registered else "topsHostMalloc"
        raise CodeError(missing, f"expected a pointer of {maker}, got one {offset} bytes into {host!r}")
    return buffer


class HostOrigin(NamedTuple):
    """The device that was current when host memory was allocated or registered, and which of the two it was."""

    device: int
    registered: bool


ORIGINS: WeakKeyDictionary[Allocation, HostOrigin] = WeakKeyDictionary()


LIBC = ctypes.CDLL(None, use_errno=True)
MS_ASYNC = 1  # msync of this kind only makes the system look each page up


def bytes_at(address: int, nbytes: int) -> Bytes:
    """Return `nbytes` from a host address as an array, which the caller of the C-style function keeps alive.

    Raises InvalidValue where some of them are in no memory of this process.
    """
    first = address // mmap.PAGESIZE * mmap.PAGESIZE
    end = address + nbytes
    if end >= 1 << 64 or LIBC.msync(ctypes.c_void_p(first), ctypes.c_size_t(end - first), MS_ASYNC):
        raise InvalidValue(f"{nbytes} bytes at host address {address:#x} are not all memory of this process")
    found: Bytes = np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(address)), np.uint8)
    return found
