"""A device's figures by the names of the public header: as topsDeviceProp_t and as topsDeviceAttribute_t.

Everything comes from the architecture's table; a figure that is not known is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final

from atops.device.arch import Architecture
from atops.runtime.device import Device
from atops.tops.types.enumerations import topsDeviceAttribute_t
from atops.tops.types.structs import topsDeviceProp_t

__all__ = ("attribute_of", "mismatch", "properties_of")

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


def attribute_of(device: Device, attribute: topsDeviceAttribute_t) -> int:
    """Return one figure. Raises ValueError for a member that only bounds a range."""
    if attribute not in ATTRIBUTES:
        raise ValueError(f"expected an attribute of a device, got {attribute.name}")
    return ATTRIBUTES[attribute](device.geometry)


def properties_of(device: Device) -> topsDeviceProp_t:
    """Return all figures of a device."""
    arch = device.geometry
    major, minor = arch.compute_capability
    return topsDeviceProp_t(
        name=device.name,
        totalGlobalMem=device.memory_info()[1],
        sharedMemPerBlock=arch.l2_usable,
        maxThreadsPerBlock=arch.max_threads_per_block,
        maxThreadsDim=(arch.max_block.x, arch.max_block.y, arch.max_block.z),
        maxGridSize=(arch.max_grid.x, arch.max_grid.y, arch.max_grid.z),
        clockRate=arch.clock_khz,
        major=major,
        minor=minor,
        multiProcessorCount=arch.clusters,
        maxThreadsPerMultiProcessor=arch.sips_per_cluster,
        clockInstructionRate=arch.clock_khz,
        arch=arch.gcu_arch,
        concurrentKernels=1,
        pciBusID=device.ordinal + 1,
        maxSharedMemoryPerMultiProcessor=arch.l2_usable,
        canMapHostMemory=1,
        gcuArchName=arch.gcu_arch_name,
        cooperativeLaunch=1,
        isLargeBar=1,
        managedMemory=1,
        directManagedMemAccessFromHost=1,
        concurrentManagedAccess=1,
        unifiedAddressing=1,
        mc_channel=arch.banks,
        localMemPerThread=arch.l1_usable,
        localUuidId=f"atops device {device.ordinal}".encode().ljust(16, b"\0"),
    )


def mismatch(properties: topsDeviceProp_t, wanted: topsDeviceProp_t) -> int:
    """Count the fields of `wanted` that ask for something which a device does not have."""
    count = 0
    for each in fields(topsDeviceProp_t):
        has, asked = getattr(properties, each.name), getattr(wanted, each.name)
        if not _asks(asked):
            continue
        enough = has == asked if each.name in EXACT else _at_least(has, asked)
        count += not enough
    return count


def _asks(value: object) -> bool:
    """Return whether a field's value asks for anything: no zero, empty text or zeros."""
    return any(value) if isinstance(value, tuple | bytes) else bool(value)


def _at_least(has: Any, asked: Any) -> bool:
    return all(a >= b for a, b in zip(has, asked, strict=True)) if isinstance(asked, tuple) else has >= asked
