"""Drivers, devices and errors: TOPS Runtime API, 2.1 to 2.3, without the functions between processes.

A device's figures come from the architecture's table; a figure that is not known is 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final

from atops.base.errors import InvalidDevice, InvalidValue
from atops.base.result_codes import Result
from atops.bridge.arguments import flags_in, instance, member, size_of, text_of, whole
from atops.bridge.call import SCHEDULES, Wait, until
from atops.bridge.codes import CodeError
from atops.bridge.handles import current_board, current_device, device_at
from atops.bridge.pointers import host_copy
from atops.device.arch import Architecture
from atops.runtime.device import Device
from atops.runtime.resources.bundle import resources_of
from atops.tops.functions.api import call, forget, last
from atops.tops.header.constants import (
    DRIVER_VERSION,
    topsDeviceLmemResizeToMax,
    topsDeviceMapHost,
    topsDeviceScheduleMask,
)
from atops.tops.header.enumerations import topsDeviceAttribute_t, topsLimit_t
from atops.tops.header.error_codes import topsError_t
from atops.tops.header.structs import topsDeviceProp_t, topsResourceRequestV2_t

__all__ = (
    "topsChooseDevice", "topsDeviceComputeCapability", "topsDeviceGet", "topsDeviceGetAttribute",
    "topsDeviceGetByPCIBusId", "topsDeviceGetLimit", "topsDeviceGetName", "topsDeviceGetPCIBusId", "topsDeviceReset",
    "topsDeviceSynchronize", "topsDeviceTotalMem", "topsDriverGetVersion", "topsExtSetProfileMeta", "topsGetDevice",
    "topsGetDeviceCount", "topsGetDeviceFlags", "topsGetDeviceProperties", "topsGetErrorName", "topsGetErrorString",
    "topsGetLastError", "topsInit", "topsPeekAtLastError", "topsRuntimeGetVersion", "topsSetDevice",
    "topsSetDeviceAndResourceReservation", "topsSetDeviceFlags",
)  # fmt: skip

# ---- drivers, and devices by number (2.1); errors (2.3)

# Domain, bus, device and function; a board's devices are device 0 of the buses from 1 on.
BUS_ID = "0000:{:02x}:00.0"
BUS_ID_ROOM = 13  # its characters and the end that C puts after them
BUS_ID_FORM = re.compile(r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE)


@call
def topsInit(flags: int) -> None:
    """Start the runtime, as every other call does. `flags` must be 0."""
    flags_in(flags, 0)
    current_board()


@call
def topsDriverGetVersion() -> int:
    """Return the driver's version: 1000 * major + 10 * minor."""
    return DRIVER_VERSION


@call
def topsRuntimeGetVersion() -> int:
    """Return the runtime's version: 1000 * major + 10 * minor."""
    return DRIVER_VERSION


@call
def topsDeviceGet(ordinal: int) -> int:
    """Return the handle of device `ordinal`, which is its ordinal. InvalidDevice: there is none."""
    return device_at(ordinal).ordinal


@call
def topsDeviceComputeCapability(device: int) -> tuple[int, int]:
    """Return the major and the minor number of the device's compute capability. InvalidDevice."""
    return device_at(device).arch.compute_capability


@call
def topsDeviceGetName(len: int, device: int) -> str:
    """Return the device's name, of at most `len - 1` characters. InvalidDevice; InvalidValue: `len` below 1."""
    found = device_at(device)
    room = whole(len, "len")
    if room < 1:
        raise InvalidValue(f"len must be 1 or more, with the end of the text, got {room}")
    return found.name[: room - 1]


@call
def topsDeviceGetPCIBusId(len: int, device: int) -> str:
    """Return where the device is on the PCI bus: "0000:01:00.0". InvalidDevice; InvalidValue: `len` below 13."""
    found = device_at(device)
    room = whole(len, "len")
    if room < BUS_ID_ROOM:
        raise InvalidValue(f"len must be {BUS_ID_ROOM} or more, got {room}")
    return BUS_ID.format(found.ordinal + 1)


@call
def topsDeviceGetByPCIBusId(pciBusId: str | bytes) -> int:
    """Return the device at "domain:bus:device.function" (domain and function may be left out).

    InvalidValue: another form. InvalidDevice: no device there.
    """
    text = text_of(pciBusId, "pciBusId")
    match = BUS_ID_FORM.fullmatch(text)
    if match is None:
        raise InvalidValue(f"pciBusId must have the form '0000:01:00.0', got {pciBusId!r}")
    domain, bus, slot, function = (int(part or "0", 16) for part in match.groups())
    if domain or slot or function or not 1 <= bus <= current_board().devices:
        raise InvalidDevice(f"no device of the board is at {text}")
    return bus - 1


@call
def topsDeviceTotalMem(device: int) -> int:
    """Return the bytes of memory on the device. InvalidDevice."""
    return device_at(device).memory_info()[1]


@call
def topsGetLastError() -> topsError_t | None:
    """Answer the last failure of this context, and reset it. A success in between does not erase it."""
    error = last()
    forget()
    return None if error is None else error.code


@call
def topsPeekAtLastError() -> topsError_t | None:
    """Answer the last failure of this context, and keep it."""
    error = last()
    return None if error is None else error.code


@call
def topsGetErrorName(tops_error: object) -> str:
    """Return the name of a code: "topsErrorUnknown" for other values."""
    return _name_of(tops_error)


@call
def topsGetErrorString(topsError: object) -> str:
    """Return the name of a code, as topsGetErrorName does; `atops.base.result_codes.explain` explains it."""
    return _name_of(topsError)


def _name_of(code: object) -> str:
    try:
        return topsError_t(code).name  # type: ignore[arg-type]  # ValueError for other types too
    except ValueError:
        return topsError_t.topsErrorUnknown.name


# ---- the current device (2.2)


@call
def topsDeviceSynchronize() -> Wait | None:
    """Wait for all work of the current device, and answer the first failure of one of its streams."""
    device = current_device()
    context = device.context
    given = context.board.seq
    if context.active:
        return until(device)
    device.end_wait(context, given)  # there is nothing to wait for, in either form
    return None


class _ResetWait(Wait):
    """The wait for a device to be reset."""

    __slots__ = ("device",)

    def __init__(self, device: Device) -> None:
        self.device = device

    def blocking(self) -> None:
        self.device.reset_sync()

    async def awaiting(self) -> None:
        await self.device.reset()


@call
async def topsDeviceReset() -> None:
    """Discard everything on the current device: work, streams, events, memory. Waits for it end with an error."""
    await _ResetWait(current_device())


@call
def topsSetDevice(deviceId: int) -> None:
    """Make a device the current one of this task, or of this thread outside of tasks. InvalidDevice."""
    device_at(deviceId).set_current()


@call
def topsGetDevice() -> int:
    """Return the current device. InvalidDevice: the board has none."""
    return current_device().ordinal


@call
def topsGetDeviceCount() -> int:
    """Return how many devices the board has. NoDevice: none."""
    count = current_board().devices
    if not count:
        raise CodeError(Result.NoDevice, "the board has no device; ATOPS_DEVICES sets how many it has")
    return count


@call
def topsDeviceGetAttribute(attr: topsDeviceAttribute_t, deviceId: int) -> int:
    """Return one figure of a device. InvalidDevice; InvalidValue: not an attribute."""
    device = device_at(deviceId)
    attribute = member(topsDeviceAttribute_t, attr, "attr")
    if attribute not in ATTRIBUTES:  # it bounds a range
        raise InvalidValue(f"attr must be an attribute of a device, got {attribute.name}")
    return ATTRIBUTES[attribute](device.geometry)


@call
def topsGetDeviceProperties(deviceId: int) -> topsDeviceProp_t:
    """Return all figures of a device. InvalidDevice."""
    return _properties_of(device_at(deviceId))


@call
def topsDeviceGetLimit(limit: topsLimit_t) -> int:
    """Return a limit of the current device: topsLimitMallocHeapSize is its memory. UnsupportedLimit: any other."""
    device = current_device()
    if whole(limit, "limit") != topsLimit_t.topsLimitMallocHeapSize:
        raise CodeError(Result.UnsupportedLimit, f"limit must be topsLimitMallocHeapSize, got {limit!r}")
    return device.memory_info()[1]


@call
def topsGetDeviceFlags() -> int:
    """Return the schedule flag of the current device: 0 (topsDeviceScheduleAuto) until it is set."""
    return SCHEDULES.get(current_device().context, 0)


@call
def topsSetDeviceFlags(flags: int) -> None:
    """Choose how blocking waits of the current device pass their time.

    One of topsDeviceScheduleAuto, Spin (polls), Yield and BlockingSync (sleep); LmemResizeToMax and MapHost are
    ignored. InvalidValue: more than one, or other bits. SetOnActiveProcess: the flag changes while a command of the
    device is unfinished.
    """
    device = current_device()
    word = whole(flags, "flags")
    if word & topsDeviceLmemResizeToMax == topsDeviceLmemResizeToMax:
        word &= ~topsDeviceLmemResizeToMax
    word = flags_in(word & ~topsDeviceMapHost, topsDeviceScheduleMask)
    if word.bit_count() > 1:
        raise InvalidValue(f"flags must have at most one of Spin (1), Yield (2) and BlockingSync (4), got {flags:#x}")
    if word == SCHEDULES.get(device.context, 0):
        return
    if device.outstanding():
        raise CodeError(Result.SetOnActiveProcess, f"{device!r} has unfinished work; call topsDeviceSynchronize first")
    SCHEDULES[device.context] = word


@call
def topsChooseDevice(prop: object) -> int:
    """Return the device that matches most of what `prop` asks for; a field of 0, "" or the like asks for nothing.

    A size or a number asks for at least that much, compute capability and names for exactly this. The first of equals
    wins. InvalidValue: not a topsDeviceProp_t.
    """
    wanted = instance(prop, topsDeviceProp_t, "prop")
    current_device()
    board = current_board()
    return min(range(board.devices), key=lambda ordinal: _mismatch(_properties_of(device_at(ordinal)), wanted))


@call
def topsSetDeviceAndResourceReservation(deviceId: int, resRequest: topsResourceRequestV2_t) -> None:
    """As topsSetDevice, and have all launches on the device use only `reserved_threads` SIP threads, until its reset.

    Up to one cluster's SIPs on one cluster, more in whole clusters, rounded up; the device's properties tell what is
    reserved. 0 reserves nothing. InvalidDevice; InvalidValue: more than the device has, not a request;
    DeviceAlreadyInUse: another number is reserved, or exclusive bundles leave too few. On failure the current device
    stays.
    """
    device = device_at(deviceId)
    request = instance(resRequest, topsResourceRequestV2_t, "resRequest")
    threads = size_of(request.reserved_threads, "reserved_threads")
    if threads:
        resources_of(device.context).reserve(threads)
    device.set_current()


# ---- figures of a device

A = topsDeviceAttribute_t

ATTRIBUTES: Final[Mapping[topsDeviceAttribute_t, Callable[[Architecture], int]]] = MappingProxyType(
    {
        A.topsDeviceAttributeClockRate: lambda arch: arch.clock_khz,
        A.topsDeviceAttributeComputeCapabilityMajor: lambda arch: arch.compute_capability[0],
        A.topsDeviceAttributeComputeCapabilityMinor: lambda arch: arch.compute_capability[1],
        A.topsDeviceAttributeMaxBlockDimX: lambda arch: arch.max_block.x,
        A.topsDeviceAttributeMaxBlockDimY: lambda arch: arch.max_block.y,
        A.topsDeviceAttributeMaxBlockDimZ: lambda arch: arch.max_block.z,
        A.topsDeviceAttributeMaxGridDimX: lambda arch: arch.max_grid.x,
        A.topsDeviceAttributeMaxGridDimY: lambda arch: arch.max_grid.y,
        A.topsDeviceAttributeMaxGridDimZ: lambda arch: arch.max_grid.z,
        A.topsDeviceAttributeMaxThreadsPerBlock: lambda arch: arch.max_threads_per_block,
        A.topsDeviceAttributeMultiprocessorCount: lambda arch: arch.clusters,
        A.topsDeviceAttributeMaxSharedMemoryPerBlock: lambda arch: arch.l2_usable,
        # The first number of the vendor's own range is the range's beginning and no attribute; this is the next.
        A.topsDeviceAttributeEnflameMcChannel: lambda arch: arch.banks,
    }
)
# Fields that must be equal; every other field asks for at least as much.
EXACT: Final = frozenset(
    {
        "name", "gcuArchName", "major", "minor", "arch", "computeMode", "pciDomainID", "pciBusID", "pciDeviceID",
        "localUuidId", "remoteUuidId",
    }
)  # fmt: skip


# Each field, by the property of the device that it is.
PROPERTIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "name": "name", "totalGlobalMem": "total_memory", "sharedMemPerBlock": "max_shared_memory_per_block",
        "maxThreadsPerBlock": "max_threads_per_block", "maxThreadsDim": "max_block_dim", "maxGridSize": "max_grid_dim",
        "clockRate": "clock_rate", "memoryClockRate": "memory_clock_rate", "memoryBusWidth": "memory_bus_width",
        "multiProcessorCount": "multiprocessor_count", "maxThreadsPerMultiProcessor": "max_threads_per_multiprocessor",
        "computeMode": "compute_mode", "clockInstructionRate": "clock_instruction_rate", "arch": "arch",
        "concurrentKernels": "concurrent_kernels", "pciDomainID": "pci_domain_id", "pciBusID": "pci_bus_id",
        "pciDeviceID": "pci_device_id", "canMapHostMemory": "can_map_host_memory", "gcuArchName": "arch_name",
        "maxSharedMemoryPerMultiProcessor": "max_shared_memory_per_multiprocessor",
        "cooperativeLaunch": "cooperative_launch", "cooperativeMultiDeviceLaunch": "cooperative_multi_device_launch",
        "kernelExecTimeoutEnabled": "kernel_exec_timeout_enabled", "ECCEnabled": "ecc_enabled",
        "isLargeBar": "large_bar", "managedMemory": "managed_memory",
        "directManagedMemAccessFromHost": "direct_managed_memory_access_from_host",
        "concurrentManagedAccess": "concurrent_managed_access", "pageableMemoryAccess": "pageable_memory_access",
        "unifiedAddressing": "unified_addressing", "mc_channel": "memory_channels",
        "localMemPerThread": "local_memory_per_thread", "localUuidId": "uuid", "remoteUuidId": "remote_uuid",
    }
)  # fmt: skip


def _properties_of(device: Device) -> topsDeviceProp_t:
    known = device.properties
    major, minor = known.compute_capability
    told = topsDeviceProp_t(major=major, minor=minor)
    for name, source in PROPERTIES.items():
        value = getattr(known, source)
        setattr(told, name, int(value) if isinstance(value, bool) else value)
    return told


def _mismatch(properties: topsDeviceProp_t, wanted: topsDeviceProp_t) -> int:
    """Count the fields of `wanted` that ask for something, no zero or empty text, which a device does not have."""
    count = 0
    for each in fields(topsDeviceProp_t):
        has, asked = getattr(properties, each.name), getattr(wanted, each.name)
        if any(asked) if isinstance(asked, tuple | bytes) else asked:
            count += not (has == asked if each.name in EXACT else _at_least(has, asked))
    return count


def _at_least(has: Any, asked: Any) -> bool:
    return all(a >= b for a, b in zip(has, asked, strict=True)) if isinstance(asked, tuple) else has >= asked


# ---- notes for a profiler (2.11)


@call
def topsExtSetProfileMeta(meta: object, size: int, compilation_id: int) -> None:
    """Keep a copy of `size` bytes under a compilation id; the last one wins, and size 0 removes.

    Trace records that are called "compilation <id>" carry the bytes, as text if they are UTF-8. InvalidValue: not host
    memory of so many bytes, a size of more than 32 bits, an id of more than 64.
    """
    nbytes, number = size_of(size, "size", 32), whole(compilation_id, "compilation_id")
    if not -(1 << 63) <= number < 1 << 63:
        raise InvalidValue(f"compilation_id must be in 64 bits, got {number}")
    note = b"" if meta is None and not nbytes else host_copy(meta, nbytes, "meta")
    current_board().tracer.annotate(f"compilation {number}", note)
