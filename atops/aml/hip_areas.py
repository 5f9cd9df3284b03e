"""Areas of device memory: pinned, unified and mapped memory too (AML, area/hip).

Their memory is that of the other C-style functions: an address of it goes to topsMemcpy, to `hipHostGetDevicePointer`
and to kernels, and `host_view` shows the host's side of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from inspect import unwrap
from typing import Any, Final, TextIO

from atops.aml.areas import aml_area, aml_area_ops
from atops.aml.codes import (
    AML_AREA_HIP_FLAG_ALLOC_GLOBAL,
    AML_AREA_HIP_FLAG_ALLOC_HOST,
    AML_AREA_HIP_FLAG_ALLOC_MAPPED,
    AML_AREA_HIP_FLAG_ALLOC_UNIFIED,
    AML_AREA_HIP_FLAG_DEFAULT,
    AML_EINVAL,
    AML_SUCCESS,
    ERRNO,
    FLAGS,
    AmlError,
    code_of,
    host_flags,
)
from atops.base.errors import AtopsError, InvalidValue
from atops.bridge.arguments import flags_in, size_of, whole
from atops.bridge.call import Bridge, Work
from atops.bridge.declarations import Declarations, Function
from atops.bridge.handles import current_board, current_device, device_at
from atops.bridge.pointers import find_device, host_pointer, is_device_address, is_null, own, owned, pinned_at, pointed
from atops.runtime.memory.buffer import Buffer
from atops.tops.functions import memory

__all__ = (
    "aml_area_hip", "aml_area_hip_create", "aml_area_hip_data", "aml_area_hip_destroy", "aml_area_hip_mmap",
    "aml_area_hip_mmap_options", "aml_area_hip_munmap", "aml_area_hip_ops", "aml_area_hip_unified",
)  # fmt: skip

FUNCTIONS: Final = {
    each.name: each
    for each in Declarations("int").family(
        "areas",
        "aml_area_hip",
        """
        aml_area_hip_create(out struct aml_area * area, int device, int flags)
        aml_area_hip_mmap(out void * ptr, const struct aml_area_data * area_data, size_t size,
          struct aml_area_mmap_options * options)
        waits aml_area_hip_munmap(const struct aml_area_data * area_data, void * ptr, size_t size)
        """,
    )
}


def _translate(error: BaseException, function: Function, instead: object) -> AmlError:
    return code_of(error)


def _remember(code: AmlError, message: str) -> None:
    """Keep nothing: AML's errors are returned, or in `aml_errno`."""


_CALLS: Final = Bridge("atops.aml", FUNCTIONS, {}, AmlError.AML_SUCCESS, _translate, _remember, {})

# What the kinds of memory are made with and given back to: the functions of TOPS without their codes.
_malloc: Callable[[int], int] = unwrap(memory.topsMalloc)
_host_malloc: Callable[[int, int], int] = unwrap(memory.topsHostMalloc)
_register: Callable[[object, int, int], None] = unwrap(memory.topsHostRegister)
_free: Callable[[int], Work[None]] = unwrap(memory.topsFree)
_host_free: Callable[[int], Work[None]] = unwrap(memory.topsHostFree)
_unregister: Callable[[int], Work[None]] = unwrap(memory.topsHostUnregister)


@dataclass(slots=True)
class aml_area_hip_data:
    """What an area of this kind is: its flags, and the device of its memory; below 0 the current one of each call."""

    flags: int = AML_AREA_HIP_FLAG_DEFAULT
    device: int = -1


@dataclass(slots=True)
class aml_area_hip_mmap_options:
    """Options of one mapping: above 0, `device` is where it is made; `ptr` is host memory to map.

    `ptr` is an address, also as `ctypes.c_void_p`, a writable array or a buffer, and stays the caller's.
    """

    device: int = -1
    ptr: object = None


def aml_area_hip_create(device: int, flags: int) -> tuple[int, aml_area | None]:
    """Make an area of memory on a device, by number; below 0 on whichever is current when memory is mapped.

    Returns `(AML_SUCCESS, area)`; on failure None for the area, and -AML_EINVAL for a device that does not exist or
    other flags, -AML_FAILURE where the number of devices cannot be had.
    """
    code, area = _create(device, flags)
    return -int(code), area


def aml_area_hip_destroy(area: aml_area | None) -> None:
    """End an area, which maps and unmaps nothing from then on; memory of it stays. None, and the predefined: nothing.

    Memory that it mapped is unmapped by `aml_area_hip_munmap(None, ptr, size)`.
    """
    if isinstance(area, aml_area) and area is not aml_area_hip and area is not aml_area_hip_unified:
        area.ops = area.data = None


def aml_area_hip_mmap(
    area_data: aml_area_hip_data, size: int, options: aml_area_hip_mmap_options | None = None
) -> int | None:
    """Return a pointer to `size` new bytes: on the device without a flag, else as the flags of the area say.

    - ALLOC_UNIFIED: managed memory, one pointer for the host and all devices; HOST and MAPPED are ignored.
    - ALLOC_HOST: pinned memory, the host's pointer. With ALLOC_MAPPED too: the same, and mapped.
    - ALLOC_MAPPED without ALLOC_HOST: maps `options.ptr`, and returns the host's pointer to it.
      `hipHostGetDevicePointer` or topsHostGetDevicePointer gives the device's.
    - ALLOC_GLOBAL: for all devices. Here all host memory is.

    The device is `options.device` above 0, else the area's, else the current one, which stays the caller's. On failure
    it returns None, and `aml_errno` is -AML_EINVAL (no such device, no host memory to map, a size or data that are
    none), -AML_EBUSY (host memory that is registered already), -AML_ENOMEM, -AML_ENOTSUP (a board without devices) or
    -AML_FAILURE. 0 bytes are None too, and no failure.
    """
    code, pointer = _mmap(area_data, size, options)
    if code:
        ERRNO.value = -int(code)
    return pointer or None


def aml_area_hip_munmap(area_data: object, ptr: object, size: int) -> int:
    """Release memory of `aml_area_hip_mmap`, after the work that its device has; `area_data` and `size` are ignored.

    Host memory that was mapped is unregistered, and stays the caller's. Null is fine. Returns AML_SUCCESS, or
    -AML_EINVAL for a pointer that no mapping returned, or that was unmapped, and where the call could never return (in
    a callback of the device). A failure of the device's work stays with its stream.
    """
    (code,) = _munmap(area_data, ptr, size)
    return -AML_EINVAL if code else AML_SUCCESS


def _describe(data: aml_area_hip_data, stream: TextIO, prefix: str) -> int:
    """Write what an area of this kind is to a text file."""
    if not isinstance(data, aml_area_hip_data):
        return -AML_EINVAL
    unified, host = data.flags & AML_AREA_HIP_FLAG_ALLOC_UNIFIED, data.flags & AML_AREA_HIP_FLAG_ALLOC_HOST
    rows = {
        "area-hip": f"{id(data):#x}",
        "device": data.device,
        "flags": "unified" if unified else "host" if host else "default",
        "mapped": "yes" if data.flags & AML_AREA_HIP_FLAG_ALLOC_MAPPED else "no",
        "global": "yes" if data.flags & AML_AREA_HIP_FLAG_ALLOC_GLOBAL else "no",
    }
    for name, value in rows.items():
        stream.write(f"{prefix}: {name}: {value}\n")
    return AML_SUCCESS


aml_area_hip_ops: Final = aml_area_ops(aml_area_hip_mmap, aml_area_hip_munmap, _describe)
aml_area_hip: Final = aml_area(aml_area_hip_ops, aml_area_hip_data())
aml_area_hip_unified: Final = aml_area(aml_area_hip_ops, aml_area_hip_data(AML_AREA_HIP_FLAG_ALLOC_UNIFIED))


# ---- what the functions do, as implementations of calls that are traced


def _named(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a call of an implementation, under the name of the function."""

    def make(implementation: Callable[..., object]) -> Callable[..., object]:
        implementation.__name__ = name
        return _CALLS(implementation)

    return make


@_named("aml_area_hip_create")
def _create(device: int, flags: int) -> aml_area:
    ordinal = whole(device, "device")
    word = flags_in(flags, FLAGS)
    try:
        devices = current_board().options.devices
    except AtopsError as error:
        raise _NoCount(f"the number of devices cannot be had: {error}") from error
    if ordinal >= devices:
        raise InvalidValue(f"device must be below {devices}, the number of devices, got {ordinal}")
    return aml_area(aml_area_hip_ops, aml_area_hip_data(word, max(ordinal, -1)))


class _NoCount(AtopsError):
    """There is no driver to ask for the number of devices."""


@_named("aml_area_hip_mmap")
def _mmap(area_data: aml_area_hip_data, size: int, options: aml_area_hip_mmap_options | None) -> int:
    if not isinstance(area_data, aml_area_hip_data):
        raise InvalidValue(f"area_data must be the data of an area of this kind, got {area_data!r}")
    if not (options is None or isinstance(options, aml_area_hip_mmap_options)):
        raise InvalidValue(f"options must be aml_area_hip_mmap_options or None, got {options!r}")
    nbytes, flags = size_of(size), flags_in(area_data.flags, FLAGS)
    asked = -1 if options is None else whole(options.device, "options.device")
    ordinal = asked if asked > 0 else whole(area_data.device, "the area's device")
    with nullcontext() if ordinal < 0 else device_at(ordinal):
        return _map(nbytes, flags, None if options is None else pointed(options.ptr))


def _map(nbytes: int, flags: int, host: object) -> int:
    """Return a pointer to new memory of the current device, or to host memory that is mapped now."""
    if nbytes == 0:
        current_device()  # there is one
        return 0
    if flags & AML_AREA_HIP_FLAG_ALLOC_UNIFIED:
        return own(current_device().malloc_managed(nbytes)).address
    if flags & AML_AREA_HIP_FLAG_ALLOC_HOST:
        return _host_malloc(nbytes, host_flags(flags))
    if flags & AML_AREA_HIP_FLAG_ALLOC_MAPPED:
        if is_null(host):
            raise InvalidValue("there is no host memory to map; set options.ptr, or AML_AREA_HIP_FLAG_ALLOC_HOST")
        _register(host, nbytes, host_flags(flags))
        return host_pointer(host)
    return _malloc(nbytes)


@_named("aml_area_hip_munmap")
async def _munmap(area_data: object, ptr: object, size: int) -> None:
    pointer = pointed(ptr)
    if is_null(pointer):
        return
    board = current_board()
    address = pointer.address if isinstance(pointer, Buffer) else host_pointer(pointer, "ptr")
    host = None if is_device_address(board, address) else pinned_at(address)
    found = find_device(board, address, "ptr") if host is None else host
    origin = memory.ORIGINS.get(found)
    mine = owned(found)
    try:
        await (_free if origin is None else _unregister if origin.registered else _host_free)(address)
    except AtopsError:
        if mine is None or owned(found) is not None:
            raise  # it was not released; else work of the device has failed, which its stream keeps
