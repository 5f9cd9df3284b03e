"""Devices, their figures, their peers; errors.

A device's figures come from the architecture's table; what is not known, or does not exist there, is 0.
"""

from __future__ import annotations

from dataclasses import fields
from inspect import unwrap
from typing import Any, Final

import numpy as np

from atops.base.errors import InvalidDevice, InvalidValue
from atops.base.result_codes import Result, explain
from atops.bridge.arguments import flags_in, instance, member, whole
from atops.bridge.handles import current_device, device_at
from atops.hip.functions.api import call, derived, forget, last
from atops.hip.functions.host import host_bytes_of
from atops.hip.header.constants import VERSION, hipDeviceLmemResizeToMax
from atops.hip.header.enumerations import hipDeviceAttribute_t, hipMemAllocationHandleType
from atops.hip.header.error_codes import hipError_t
from atops.hip.header.structs import BITS, hipDeviceArch_t, hipDeviceProp_t, hipUUID
from atops.runtime.device import Device
from atops.tops.functions import device as tops

__all__ = (
    "hipDeviceCanAccessPeer", "hipDeviceDisablePeerAccess", "hipDeviceEnablePeerAccess", "hipDeviceGet",
    "hipDeviceGetAttribute", "hipDeviceGetName", "hipDeviceReset", "hipDeviceSynchronize", "hipDeviceTotalMem",
    "hipDriverGetVersion", "hipGetDevice", "hipGetDeviceCount", "hipGetDeviceFlags", "hipGetDeviceProperties",
    "hipGetErrorName", "hipGetErrorString", "hipGetLastError", "hipInit", "hipPeekAtLastError",
    "hipRuntimeGetVersion", "hipSetDevice", "hipSetDeviceFlags",
)  # fmt: skip

hipInit = derived(tops.topsInit)
hipGetDeviceCount = derived(tops.topsGetDeviceCount)
hipSetDevice = derived(tops.topsSetDevice)
hipGetDevice = derived(tops.topsGetDevice)
hipDeviceGet = derived(tops.topsDeviceGet)
hipDeviceTotalMem = derived(tops.topsDeviceTotalMem)
hipDeviceSynchronize = derived(tops.topsDeviceSynchronize)
hipDeviceReset = derived(tops.topsDeviceReset)
hipGetDeviceFlags = derived(tops.topsGetDeviceFlags)


@call
def hipDriverGetVersion() -> int:
    """Return the driver's version: 10000000 * major + 100000 * minor."""
    return VERSION


@call
def hipRuntimeGetVersion() -> int:
    """Return the runtime's version: 10000000 * major + 100000 * minor."""
    return VERSION


@call
def hipSetDeviceFlags(flags: int) -> None:
    """Choose how blocking waits of the current device pass their time.

    One of hipDeviceScheduleAuto, Spin (polls), Yield and BlockingSync (sleep); hipDeviceMapHost and
    hipDeviceLmemResizeToMax are ignored. InvalidValue: more than one, or other bits. SetOnActiveProcess: the flag
    changes while a command of the device is unfinished.
    """
    unwrap(tops.topsSetDeviceFlags)(whole(flags, "flags") & ~hipDeviceLmemResizeToMax)


@call
def hipDeviceGetName(name: object, len: int, device: int) -> None:
    """Store the device's name in `name`, `len` bytes of host memory, cut where it is longer, and end it with a zero.

    InvalidDevice; InvalidValue: null, `len` below 1, too little room.
    """
    found, room = device_at(device), whole(len, "len")
    if room < 1:
        raise InvalidValue(f"len must be 1 or more, with the end of the text, got {room}")
    text = found.name.encode()[: room - 1] + b"\0"
    host_bytes_of(name, room, "name", writable=True)[: text.__len__()] = np.frombuffer(text, np.uint8)


# ---- figures


@call
def hipGetDeviceProperties(prop: hipDeviceProp_t, deviceId: int) -> None:
    """Fill in all figures of a device. InvalidDevice; InvalidValue: `prop` is no hipDeviceProp_t."""
    into, known = instance(prop, hipDeviceProp_t, "prop"), _properties_of(device_at(deviceId))
    for each in fields(hipDeviceProp_t):
        setattr(into, each.name, getattr(known, each.name))


@call
def hipDeviceGetAttribute(attr: hipDeviceAttribute_t, deviceId: int) -> int:
    """Return one figure of a device. InvalidDevice; InvalidValue: not an attribute."""
    device = device_at(deviceId)
    attribute = member(hipDeviceAttribute_t, attr, "attr")
    name = attribute.name.removeprefix("hipDeviceAttribute")
    if name.endswith(("End", "Begin")) or name.startswith("Unused"):
        raise InvalidValue(f"attr must be an attribute of a device, got {attribute.name}")
    if attribute in OTHERS:
        return int(OTHERS[attribute](device))
    field, index = NAMED.get(name, (name[0].lower() + name[1:], None))
    value: Any = getattr(_properties_of(device), field, 0)
    if index is not None:
        value = value[index]
    return min(value, MOST) if isinstance(value, int) else 0


MOST: Final = (1 << 31) - 1  # an int in C
# Attributes that the struct calls otherwise, and the position in a list.
NAMED: Final[dict[str, tuple[str, int | None]]] = {
    "EccEnabled": ("ECCEnabled", None), "ComputeCapabilityMajor": ("major", None),
    "ComputeCapabilityMinor": ("minor", None), "MaxBlockDimX": ("maxThreadsDim", 0),
    "MaxBlockDimY": ("maxThreadsDim", 1), "MaxBlockDimZ": ("maxThreadsDim", 2), "MaxThreadsDim": ("maxThreadsDim", 0),
    "MaxGridDimX": ("maxGridSize", 0), "MaxGridDimY": ("maxGridSize", 1), "MaxGridDimZ": ("maxGridSize", 2),
    "MultiprocessorCount": ("multiProcessorCount", None), "MaxSharedMemoryPerBlock": ("sharedMemPerBlock", None),
    "TotalConstantMemory": ("totalConstMem", None), "KernelExecTimeout": ("kernelExecTimeoutEnabled", None),
    "MaxPitch": ("memPitch", None), "PciBusId": ("pciBusID", None), "PciDeviceId": ("pciDeviceID", None),
    "MaxRegistersPerBlock": ("regsPerBlock", None), "MaxRegistersPerMultiprocessor": ("regsPerMultiprocessor", None),
    "MaxSharedMemoryPerMultiprocessor": ("maxSharedMemoryPerMultiProcessor", None),
    "SharedMemPerMultiprocessor": ("sharedMemPerMultiprocessor", None),
}  # fmt: skip
OTHERS: Final[dict[hipDeviceAttribute_t, Any]] = {
    hipDeviceAttribute_t.hipDeviceAttributeCanUseStreamWaitValue: lambda device: 1,
    hipDeviceAttribute_t.hipDeviceAttributeFineGrainSupport: lambda device: 1,
    hipDeviceAttribute_t.hipDeviceAttributeWallClockRate: lambda device: 1_000_000,  # nanoseconds
    hipDeviceAttribute_t.hipDeviceAttributePhysicalMultiProcessorCount: lambda device: (
        device.arch.clusters * device.arch.sips_per_cluster
    ),
}


def _properties_of(device: Device) -> hipDeviceProp_t:
    """Return what is known of a device. A cluster is a multiprocessor."""
    known, arch = device.properties, device.geometry
    return hipDeviceProp_t(
        name=known.name.encode(),
        uuid=hipUUID(known.uuid),
        totalGlobalMem=known.total_memory,
        sharedMemPerBlock=known.max_shared_memory_per_block,
        warpSize=1,
        memPitch=MOST,
        maxThreadsPerBlock=known.max_threads_per_block,
        maxThreadsDim=list(known.max_block_dim),
        maxGridSize=list(known.max_grid_dim),
        clockRate=known.clock_rate,
        major=known.compute_capability[0],
        minor=known.compute_capability[1],
        deviceOverlap=1,
        multiProcessorCount=known.multiprocessor_count,
        canMapHostMemory=int(known.can_map_host_memory),
        concurrentKernels=int(known.concurrent_kernels),
        pciBusID=known.pci_bus_id,
        pciDeviceID=known.pci_device_id,
        pciDomainID=known.pci_domain_id,
        asyncEngineCount=arch.clusters * arch.copy_engines_per_cluster,
        unifiedAddressing=int(known.unified_addressing),
        l2CacheSize=arch.l2_bytes,
        maxThreadsPerMultiProcessor=known.max_threads_per_multiprocessor,
        streamPrioritiesSupported=1,
        sharedMemPerMultiprocessor=known.max_shared_memory_per_multiprocessor,
        managedMemory=int(known.managed_memory),
        pageableMemoryAccess=int(known.pageable_memory_access),
        concurrentManagedAccess=int(known.concurrent_managed_access),
        cooperativeLaunch=int(known.cooperative_launch),
        cooperativeMultiDeviceLaunch=1,
        sharedMemPerBlockOptin=known.max_shared_memory_per_block,
        directManagedMemAccessFromHost=int(known.direct_managed_memory_access_from_host),
        maxBlocksPerMultiProcessor=1,
        hostRegisterSupported=1,
        hostRegisterReadOnlySupported=1,
        memoryPoolsSupported=1,
        memoryPoolSupportedHandleTypes=hipMemAllocationHandleType.hipMemHandleTypePosixFileDescriptor,
        ipcEventSupported=1,
        unifiedFunctionPointers=1,
        gcnArchName=arch.name.encode(),
        maxSharedMemoryPerMultiProcessor=known.max_shared_memory_per_multiprocessor,
        clockInstructionRate=known.clock_instruction_rate,
        arch=hipDeviceArch_t(1 << BITS.index("has3dGrid")),
        isLargeBar=int(known.large_bar),
    )


# ---- peers


@call
def hipDeviceCanAccessPeer(deviceId: int, peerDeviceId: int) -> int:
    """Return whether a device can reach another's memory: 1 with a link between them; 0 for itself. InvalidDevice."""
    return int(device_at(deviceId).can_access_peer(device_at(peerDeviceId)) != 0)


@call
def hipDeviceEnablePeerAccess(peerDeviceId: int, flags: int) -> None:
    """Let kernels of the current device reach another's memory, until the current device is reset.

    InvalidDevice: no such device, the current one itself, no link. InvalidValue: flags other than 0.
    PeerAccessAlreadyEnabled: twice.
    """
    flags_in(flags, 0)
    device, peer = current_device(), _peer(peerDeviceId)
    if not device.can_access_peer(peer):
        raise InvalidDevice(f"device {device.ordinal} has no link to device {peer.ordinal}")
    device.enable_peer_access(peer)


@call
def hipDeviceDisablePeerAccess(peerDeviceId: int) -> None:
    """Take the access back. InvalidDevice: no such device, the current one itself; PeerAccessNotEnabled."""
    current_device().disable_peer_access(_peer(peerDeviceId))


def _peer(ordinal: object) -> Device:
    peer = device_at(ordinal)
    if peer.ordinal == current_device().ordinal:
        raise InvalidDevice(f"device {peer.ordinal} is no peer of itself")
    return peer


# ---- errors


@call
def hipGetLastError() -> hipError_t | None:
    """Answer the last failure of this context, and reset it. A success in between does not erase it."""
    error = last()
    forget()
    return None if error is None else error.code


@call
def hipPeekAtLastError() -> hipError_t | None:
    """Answer the last failure of this context, and keep it."""
    error = last()
    return None if error is None else error.code


@call
def hipGetErrorName(hip_error: object) -> bytes:
    """Return the name of a code; that of hipErrorUnknown for other values."""
    return _code_of(hip_error).name.encode()


@call
def hipGetErrorString(hipError: object) -> bytes:
    """Return what a code means, in words; for other values what hipErrorUnknown does."""
    code = _code_of(hipError)
    return (explain(Result(int(code))) if int(code) in RESULTS else code.name).encode()


RESULTS: Final = frozenset(map(int, Result))


def _code_of(code: object) -> hipError_t:
    try:
        return hipError_t(code)  # type: ignore[arg-type]  # ValueError for other types too
    except ValueError:
        return hipError_t.hipErrorUnknown
