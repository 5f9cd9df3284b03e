"""The structs that describe devices and pointers, by the header's field names, with their layout in C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from atops.tops.types.structs import Field, Struct

__all__ = ("topsDeviceProp_t", "topsPointerAttribute_t")


@dataclass(slots=True)
class topsDeviceProp_t(Struct):
    """What topsGetDeviceProperties tells of a device (2.2)."""

    name: str = ""
    totalGlobalMem: int = 0
    sharedMemPerBlock: int = 0
    maxThreadsPerBlock: int = 0
    maxThreadsDim: tuple[int, int, int] = (0, 0, 0)
    maxGridSize: tuple[int, int, int] = (0, 0, 0)
    clockRate: int = 0
    memoryClockRate: int = 0
    memoryBusWidth: int = 0
    major: int = 0
    minor: int = 0
    multiProcessorCount: int = 0
    maxThreadsPerMultiProcessor: int = 0
    computeMode: int = 0
    clockInstructionRate: int = 0
    arch: int = 0
    concurrentKernels: int = 0
    pciDomainID: int = 0
    pciBusID: int = 0
    pciDeviceID: int = 0
    maxSharedMemoryPerMultiProcessor: int = 0
    canMapHostMemory: int = 0
    gcuArchName: str = ""
    cooperativeLaunch: int = 0
    cooperativeMultiDeviceLaunch: int = 0
    kernelExecTimeoutEnabled: int = 0
    ECCEnabled: int = 0
    isLargeBar: int = 0
    managedMemory: int = 0
    directManagedMemAccessFromHost: int = 0
    concurrentManagedAccess: int = 0
    pageableMemoryAccess: int = 0
    unifiedAddressing: int = 0
    mc_channel: int = 0
    localMemPerThread: int = 0
    localUuidId: bytes = bytes(16)
    remoteUuidId: bytes = bytes(96)

    SIZE: ClassVar = 792
    LAYOUT: ClassVar = (
        Field("name", 0, "256s"),
        Field("totalGlobalMem", 256, "Q"),
        Field("sharedMemPerBlock", 264, "Q"),
        Field("maxThreadsPerBlock", 272, "i"),
        Field("maxThreadsDim", 276, "3i"),
        Field("maxGridSize", 288, "3i"),
        Field("clockRate", 300, "i"),
        Field("memoryClockRate", 304, "i"),
        Field("memoryBusWidth", 308, "i"),
        Field("major", 312, "i"),
        Field("minor", 316, "i"),
        Field("multiProcessorCount", 320, "i"),
        Field("maxThreadsPerMultiProcessor", 324, "i"),
        Field("computeMode", 328, "i"),
        Field("clockInstructionRate", 332, "i"),
        Field("arch", 336, "i"),
        Field("concurrentKernels", 340, "i"),
        Field("pciDomainID", 344, "i"),
        Field("pciBusID", 348, "i"),
        Field("pciDeviceID", 352, "i"),
        Field("maxSharedMemoryPerMultiProcessor", 360, "Q"),
        Field("canMapHostMemory", 368, "i"),
        Field("gcuArchName", 372, "256s"),
        Field("cooperativeLaunch", 628, "i"),
        Field("cooperativeMultiDeviceLaunch", 632, "i"),
        Field("kernelExecTimeoutEnabled", 636, "i"),
        Field("ECCEnabled", 640, "i"),
        Field("isLargeBar", 644, "i"),
        Field("managedMemory", 648, "i"),
        Field("directManagedMemAccessFromHost", 652, "i"),
        Field("concurrentManagedAccess", 656, "i"),
        Field("pageableMemoryAccess", 660, "i"),
        Field("unifiedAddressing", 664, "i"),
        Field("mc_channel", 668, "i"),
        Field("localMemPerThread", 672, "Q"),
        Field("localUuidId", 680, "16s"),
        Field("remoteUuidId", 696, "96s"),
    )


@dataclass(slots=True)
class topsPointerAttribute_t(Struct):
    """What topsPointerGetAttributes tells of a pointer (2.6)."""

    memoryType: int = 0
    device: int = 0
    device_pointer: int = 0
    host_pointer: int = 0
    isManaged: int = 0
    allocationFlags: int = 0

    SIZE: ClassVar = 32
    LAYOUT: ClassVar = (
        Field("memoryType", 0, "i"),
        Field("device", 4, "i"),
        Field("device_pointer", 8, "Q"),
        Field("host_pointer", 16, "Q"),
        Field("isManaged", 24, "i"),
        Field("allocationFlags", 28, "I"),
    )
