"""The structs of the public header as plain dataclasses, by the header's field names, with their layout in C.

A struct is returned by the call that fills it in and passed by value; `to_bytes` and `from_bytes` are for programs that
keep or send it as C would have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from atops.bridge.structs import Field, Struct, c_field
from atops.tops.header.enumerations import (
    topsExtExecutableSectionHeaderType_t,
    topsHbmPolicy,
    topsResBundlMode,
    topsResLocMode,
)

__all__ = (
    "Field", "Struct", "dim3", "topsDeviceProp_t", "topsExtExecutableSectionInfo_t", "topsExtLaunchParams_t",
    "topsFuncAttributes", "topsIpcEventHandle_t", "topsIpcMemHandle_t", "topsKernelDescriptor_t",
    "topsPointerAttribute_t", "topsResourceBundle_t", "topsResourceRequestV2_t", "topsResourceRequest_t", "topsShape_t",
    "uint3",
)  # fmt: skip

IPC_HANDLE_SIZE = 64


@dataclass(frozen=True, slots=True)
class dim3(Struct):
    """The extent of a grid or a block (2.8)."""

    x: int = c_field("I", 1)
    y: int = c_field("I", 1)
    z: int = c_field("I", 1)

    def __iter__(self) -> Iterator[int]:
        return iter((self.x, self.y, self.z))

    SIZE: ClassVar = 12


@dataclass(frozen=True, slots=True)
class uint3(Struct):
    """Three unsigned integers."""

    x: int = c_field("I", 0)
    y: int = c_field("I", 0)
    z: int = c_field("I", 0)

    def __iter__(self) -> Iterator[int]:
        return iter((self.x, self.y, self.z))

    SIZE: ClassVar = 12


@dataclass(frozen=True, slots=True)
class topsIpcMemHandle_t(Struct):
    """What names a device allocation in other processes: 64 opaque bytes (2.2)."""

    reserved: bytes = c_field("64s", bytes(IPC_HANDLE_SIZE))

    SIZE: ClassVar = IPC_HANDLE_SIZE


@dataclass(frozen=True, slots=True)
class topsIpcEventHandle_t(Struct):
    """What names an event in other processes: 64 opaque bytes (2.2)."""

    reserved: bytes = c_field("64s", bytes(IPC_HANDLE_SIZE))

    SIZE: ClassVar = IPC_HANDLE_SIZE


@dataclass(slots=True)
class topsShape_t(Struct):
    """The shape of a tensor: `rank` of the `dims` count (2.11)."""

    rank: int = c_field("i", 0)
    dims: list[int] = c_field("8i", [0] * 8)

    SIZE: ClassVar = 36


@dataclass(slots=True)
class topsDeviceProp_t(Struct):
    """What topsGetDeviceProperties tells of a device (2.2)."""

    name: str = c_field("256s", "")
    totalGlobalMem: int = c_field("Q", 0)
    sharedMemPerBlock: int = c_field("Q", 0)
    maxThreadsPerBlock: int = c_field("i", 0)
    maxThreadsDim: tuple[int, int, int] = c_field("3i", (0, 0, 0))
    maxGridSize: tuple[int, int, int] = c_field("3i", (0, 0, 0))
    clockRate: int = c_field("i", 0)
    memoryClockRate: int = c_field("i", 0)
    memoryBusWidth: int = c_field("i", 0)
    major: int = c_field("i", 0)
    minor: int = c_field("i", 0)
    multiProcessorCount: int = c_field("i", 0)
    maxThreadsPerMultiProcessor: int = c_field("i", 0)
    computeMode: int = c_field("i", 0)
    clockInstructionRate: int = c_field("i", 0)
    arch: int = c_field("i", 0)
    concurrentKernels: int = c_field("i", 0)
    pciDomainID: int = c_field("i", 0)
    pciBusID: int = c_field("i", 0)
    pciDeviceID: int = c_field("i", 0)
    maxSharedMemoryPerMultiProcessor: int = c_field("Q", 0)
    canMapHostMemory: int = c_field("i", 0)
    gcuArchName: str = c_field("256s", "")
    cooperativeLaunch: int = c_field("i", 0)
    cooperativeMultiDeviceLaunch: int = c_field("i", 0)
    kernelExecTimeoutEnabled: int = c_field("i", 0)
    ECCEnabled: int = c_field("i", 0)
    isLargeBar: int = c_field("i", 0)
    managedMemory: int = c_field("i", 0)
    directManagedMemAccessFromHost: int = c_field("i", 0)
    concurrentManagedAccess: int = c_field("i", 0)
    pageableMemoryAccess: int = c_field("i", 0)
    unifiedAddressing: int = c_field("i", 0)
    mc_channel: int = c_field("i", 0)
    localMemPerThread: int = c_field("Q", 0)
    localUuidId: bytes = c_field("16s", bytes(16))
    remoteUuidId: bytes = c_field("96s", bytes(96))

    SIZE: ClassVar = 792


@dataclass(slots=True)
class topsPointerAttribute_t(Struct):
    """What topsPointerGetAttributes tells of a pointer (2.6)."""

    memoryType: int = c_field("i", 0)
    device: int = c_field("i", 0)
    device_pointer: int = c_field("Q", 0)
    host_pointer: int = c_field("Q", 0)
    isManaged: int = c_field("i", 0)
    allocationFlags: int = c_field("I", 0)

    SIZE: ClassVar = 32


@dataclass(slots=True)
class topsKernelDescriptor_t(Struct):
    """What an executable says of one of its kernels (2.11)."""

    kernarg_size: int = c_field("I", 0)
    shared_mem_size: int = c_field("I", 0)
    cdma_vc_num: tuple[int, int, int, int] = c_field("4I", (0, 0, 0, 0))
    sdma_vc_num: int = c_field("I", 0)
    sip_mbx_num: int = c_field("I", 0)
    factor: int = c_field("B", 0)
    sip_code_offset: int = c_field("I", 0)
    exception_offset: int = c_field("I", 0)
    sip_mode: int = c_field("I", 0)
    stack_size: int = c_field("I", 0)
    kernarg_readonly_num: int = c_field("I", 0)
    kernarg_writable_num: int = c_field("I", 0)
    global_gsync_entry_count: int = c_field("I", 0)
    global_gsync_counter_count: int = c_field("I", 0)
    shared_gsync_entry_count: int = c_field("I", 0)
    shared_gsync_counter_count: int = c_field("I", 0)
    shared_queue_count: int = c_field("I", 0)
    shared_latch_count: int = c_field("I", 0)
    shared_barrier_count: int = c_field("I", 0)
    shared_mutex_count: int = c_field("I", 0)
    global_queue_count: int = c_field("I", 0)
    global_latch_count: int = c_field("I", 0)
    global_barrier_count: int = c_field("I", 0)
    global_mutex_count: int = c_field("I", 0)

    SIZE: ClassVar = 108


@dataclass(slots=True)
class topsExtLaunchParams_t(Struct):
    """One block's kernel of topsExtLaunchCooperativeKernelMultiCluster (2.11)."""

    cluster_id: int = c_field("I", 0)
    func: int = c_field("Q", 0)
    code_size: int = c_field("Q", 0)
    args: int = c_field("Q", 0)
    args_size: int = c_field("Q", 0)
    rodata: int = c_field("Q", 0)
    rodata_size: int = c_field("Q", 0)
    tensor_table: int = c_field("Q", 0)
    tensor_table_size: int = c_field("Q", 0)
    debug_id: int = c_field("Q", 0)
    descriptor: topsKernelDescriptor_t = c_field("108s", topsKernelDescriptor_t())
    update_count: int = c_field("Q", 0)
    update_offset: int = c_field("Q", 0)

    SIZE: ClassVar = 208


@dataclass(slots=True)
class topsFuncAttributes(Struct):
    """What topsFuncGetAttributes tells of a function (2.8)."""

    binaryVersion: int = c_field("i", 0)
    cacheModeCA: int = c_field("i", 0)
    constSizeBytes: int = c_field("Q", 0)
    localSizeBytes: int = c_field("Q", 0)
    maxDynamicSharedSizeBytes: int = c_field("I", 0)
    maxThreadsPerBlock: int = c_field("i", 0)
    numRegs: int = c_field("i", 0)
    preferredShmemCarveout: int = c_field("i", 0)
    ptxVersion: int = c_field("i", 0)
    sharedSizeBytes: int = c_field("Q", 0)

    SIZE: ClassVar = 56


@dataclass(slots=True)
class topsResourceBundle_t(Struct):
    """Which compute resources and how much memory a bundle is made of.

    `cluster_num` counts in mode CLUSTER, `pg_mask` in PG, `sip_num`, `cdma_num` and `cdma_vc_num` in VG: in C they
    share their place, here each has its own.
    """

    mode: topsResBundlMode = c_field("i", topsResBundlMode.TOPS_RES_BUNDLE_MODE__UNKNOWN)
    sys_mem_size: int = c_field("Q", 0)
    hbm_mem_size: int = c_field("Q", 0)
    hbm_policy: topsHbmPolicy = c_field("i", topsHbmPolicy.TOPS_HBM_POLICY__BEST_FIT)
    hcve_num: int = c_field("I", 0)
    hcve_loc: topsResLocMode = c_field("i", topsResLocMode.TOPS_RES_LOC__SAME)
    vdec_core_num: int = c_field("I", 0)
    cluster_num: int = c_field("I", 0)
    sip_num: int = c_field("I", 0)
    cdma_num: int = c_field("I", 0)
    cdma_vc_num: int = c_field("I", 0)
    pg_mask: int = c_field("I", 0)

    SIZE: ClassVar = 56
    UNION: ClassVar = {
        "cluster_num": topsResBundlMode.TOPS_RES_BUNDLE_MODE__CLUSTER,
        "sip_num": topsResBundlMode.TOPS_RES_BUNDLE_MODE__VG,
        "cdma_num": topsResBundlMode.TOPS_RES_BUNDLE_MODE__VG,
        "cdma_vc_num": topsResBundlMode.TOPS_RES_BUNDLE_MODE__VG,
        "pg_mask": topsResBundlMode.TOPS_RES_BUNDLE_MODE__PG,
    }

    def has(self, name: str) -> bool:
        """Tell whether a field is one of all modes, or of the mode that is set."""
        return self.UNION.get(name, self.mode) is self.mode


@dataclass(slots=True)
class topsResourceRequest_t(Struct):
    """What topsCreateResource is asked for."""

    cluster_count: int = c_field("Q", 0)
    compute_res_claim: int = c_field("B", 0)
    need_alloc_cluster: bool = c_field("?", False)
    mem_alloc_affinity_only: bool = c_field("?", False)
    res_bundle_cfg: topsResourceBundle_t = c_field("512s", topsResourceBundle_t())

    SIZE: ClassVar = 528


@dataclass(slots=True)
class topsResourceRequestV2_t(Struct):
    """What topsSetDeviceAndResourceReservation is asked for: SIP threads of the device for this process."""

    reserved_threads: int = c_field("Q", 0)

    SIZE: ClassVar = 8


@dataclass(slots=True)
class topsExtExecutableSectionInfo_t(Struct):
    """What topsExecutableGetSectionInfo tells of a section."""

    index: int = c_field("q", 0)
    sh_type: topsExtExecutableSectionHeaderType_t = c_field("Q", topsExtExecutableSectionHeaderType_t.SHT_NULL_)
    size: int = c_field("Q", 0)
    device_load_size: int = c_field("Q", 0)
    offset_in_exe: int = c_field("Q", 0)
    loaded_address: int = c_field("Q", 0)
    key: int = c_field("Q", 0)
    is_sub_section: bool = c_field("?", False)

    SIZE: ClassVar = 64
