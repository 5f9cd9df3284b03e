"""The structs of the public header as plain dataclasses, by the header's field names, with their layout in C.

A struct is returned by the call that fills it in and passed by value; `to_bytes` and `from_bytes` are for programs that
keep or send it as C would have it.
"""

from __future__ import annotations

import copy
import dataclasses
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast

from atops.base.errors import InvalidValue
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
T = TypeVar("T")


class Field(NamedTuple):
    """Where a field lies in C: its offset in bytes, and its type in the letters of Python's struct module."""

    name: str
    offset: int
    type: str


def _c(type_: str, default: T) -> T:
    """Declare a field: its type in C, in the letters of Python's struct module, and its default, copied if mutable."""
    if isinstance(default, Struct | list):
        return cast("T", field(default_factory=lambda: copy.copy(default), metadata={"c": type_}))
    return field(default=default, metadata={"c": type_})


class Struct:
    """A struct of the header. `SIZE` is its sizeof; its fields are in the header's order."""

    SIZE: ClassVar[int]
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]  # each struct is a dataclass

    def layout(self) -> Iterator[Field]:
        """Yield the fields that C has in this struct, each at the next offset that its type may have."""
        end = 0
        for each in fields(self):
            if self.has(each.name):
                type_ = each.metadata["c"]
                end += -end % struct.calcsize(f"<{type_[-1]}")
                yield Field(each.name, end, type_)
                end += struct.calcsize(f"<{type_}")

    def has(self, name: str) -> bool:
        """Tell whether C has a field now: all, unless some share their place."""
        return True

    def to_bytes(self) -> bytes:
        """Return the struct as C has it in memory. Raises InvalidValue naming a field whose value does not fit."""
        data = bytearray(self.SIZE)
        for name, offset, type_ in self.layout():
            value = getattr(self, name)
            if isinstance(value, str):
                value = value.encode()
            elif isinstance(value, Struct):
                value = value.to_bytes()
            try:
                struct.pack_into(f"<{type_}", data, offset, *(value if isinstance(value, tuple | list) else (value,)))
            except struct.error as error:
                raise InvalidValue(f"{type(self).__name__}.{name} is {value!r}: {error}") from None
        return bytes(data)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the struct that C has as `data`. Raises InvalidValue for another size."""
        if len(data) != cls.SIZE:
            raise InvalidValue(f"{cls.__name__}.from_bytes() expects {cls.SIZE} bytes, got {len(data)}")
        made = cls()
        for name, offset, type_ in made.layout():
            values = struct.unpack_from(f"<{type_}", data, offset)
            before = getattr(made, name)
            if isinstance(before, str):
                value: Any = values[0].split(b"\0", 1)[0].decode(errors="replace")
            elif isinstance(before, Struct):
                value = type(before).from_bytes(values[0][: before.SIZE])
            elif isinstance(before, tuple | list):
                value = type(before)(values)
            else:
                value = type(before)(values[0])
            object.__setattr__(made, name, value)
        return made


@dataclass(frozen=True, slots=True)
class dim3(Struct):
    """The extent of a grid or a block (2.8)."""

    x: int = _c("I", 1)
    y: int = _c("I", 1)
    z: int = _c("I", 1)

    def __iter__(self) -> Iterator[int]:
        return iter((self.x, self.y, self.z))

    SIZE: ClassVar = 12


@dataclass(frozen=True, slots=True)
class uint3(Struct):
    """Three unsigned integers."""

    x: int = _c("I", 0)
    y: int = _c("I", 0)
    z: int = _c("I", 0)

    def __iter__(self) -> Iterator[int]:
        return iter((self.x, self.y, self.z))

    SIZE: ClassVar = 12


@dataclass(frozen=True, slots=True)
class topsIpcMemHandle_t(Struct):
    """What names a device allocation in other processes: 64 opaque bytes (2.2)."""

    reserved: bytes = _c("64s", bytes(IPC_HANDLE_SIZE))

    SIZE: ClassVar = IPC_HANDLE_SIZE


@dataclass(frozen=True, slots=True)
class topsIpcEventHandle_t(Struct):
    """What names an event in other processes: 64 opaque bytes (2.2)."""

    reserved: bytes = _c("64s", bytes(IPC_HANDLE_SIZE))

    SIZE: ClassVar = IPC_HANDLE_SIZE


@dataclass(slots=True)
class topsShape_t(Struct):
    """The shape of a tensor: `rank` of the `dims` count (2.11)."""

    rank: int = _c("i", 0)
    dims: list[int] = _c("8i", [0] * 8)

    SIZE: ClassVar = 36


@dataclass(slots=True)
class topsDeviceProp_t(Struct):
    """What topsGetDeviceProperties tells of a device (2.2)."""

    name: str = _c("256s", "")
    totalGlobalMem: int = _c("Q", 0)
    sharedMemPerBlock: int = _c("Q", 0)
    maxThreadsPerBlock: int = _c("i", 0)
    maxThreadsDim: tuple[int, int, int] = _c("3i", (0, 0, 0))
    maxGridSize: tuple[int, int, int] = _c("3i", (0, 0, 0))
    clockRate: int = _c("i", 0)
    memoryClockRate: int = _c("i", 0)
    memoryBusWidth: int = _c("i", 0)
    major: int = _c("i", 0)
    minor: int = _c("i", 0)
    multiProcessorCount: int = _c("i", 0)
    maxThreadsPerMultiProcessor: int = _c("i", 0)
    computeMode: int = _c("i", 0)
    clockInstructionRate: int = _c("i", 0)
    arch: int = _c("i", 0)
    concurrentKernels: int = _c("i", 0)
    pciDomainID: int = _c("i", 0)
    pciBusID: int = _c("i", 0)
    pciDeviceID: int = _c("i", 0)
    maxSharedMemoryPerMultiProcessor: int = _c("Q", 0)
    canMapHostMemory: int = _c("i", 0)
    gcuArchName: str = _c("256s", "")
    cooperativeLaunch: int = _c("i", 0)
    cooperativeMultiDeviceLaunch: int = _c("i", 0)
    kernelExecTimeoutEnabled: int = _c("i", 0)
    ECCEnabled: int = _c("i", 0)
    isLargeBar: int = _c("i", 0)
    managedMemory: int = _c("i", 0)
    directManagedMemAccessFromHost: int = _c("i", 0)
    concurrentManagedAccess: int = _c("i", 0)
    pageableMemoryAccess: int = _c("i", 0)
    unifiedAddressing: int = _c("i", 0)
    mc_channel: int = _c("i", 0)
    localMemPerThread: int = _c("Q", 0)
    localUuidId: bytes = _c("16s", bytes(16))
    remoteUuidId: bytes = _c("96s", bytes(96))

    SIZE: ClassVar = 792


@dataclass(slots=True)
class topsPointerAttribute_t(Struct):
    """What topsPointerGetAttributes tells of a pointer (2.6)."""

    memoryType: int = _c("i", 0)
    device: int = _c("i", 0)
    device_pointer: int = _c("Q", 0)
    host_pointer: int = _c("Q", 0)
    isManaged: int = _c("i", 0)
    allocationFlags: int = _c("I", 0)

    SIZE: ClassVar = 32


@dataclass(slots=True)
class topsKernelDescriptor_t(Struct):
    """What an executable says of one of its kernels (2.11)."""

    kernarg_size: int = _c("I", 0)
    shared_mem_size: int = _c("I", 0)
    cdma_vc_num: tuple[int, int, int, int] = _c("4I", (0, 0, 0, 0))
    sdma_vc_num: int = _c("I", 0)
    sip_mbx_num: int = _c("I", 0)
    factor: int = _c("B", 0)
    sip_code_offset: int = _c("I", 0)
    exception_offset: int = _c("I", 0)
    sip_mode: int = _c("I", 0)
    stack_size: int = _c("I", 0)
    kernarg_readonly_num: int = _c("I", 0)
    kernarg_writable_num: int = _c("I", 0)
    global_gsync_entry_count: int = _c("I", 0)
    global_gsync_counter_count: int = _c("I", 0)
    shared_gsync_entry_count: int = _c("I", 0)
    shared_gsync_counter_count: int = _c("I", 0)
    shared_queue_count: int = _c("I", 0)
    shared_latch_count: int = _c("I", 0)
    shared_barrier_count: int = _c("I", 0)
    shared_mutex_count: int = _c("I", 0)
    global_queue_count: int = _c("I", 0)
    global_latch_count: int = _c("I", 0)
    global_barrier_count: int = _c("I", 0)
    global_mutex_count: int = _c("I", 0)

    SIZE: ClassVar = 108


@dataclass(slots=True)
class topsExtLaunchParams_t(Struct):
    """One block's kernel of topsExtLaunchCooperativeKernelMultiCluster (2.11)."""

    cluster_id: int = _c("I", 0)
    func: int = _c("Q", 0)
    code_size: int = _c("Q", 0)
    args: int = _c("Q", 0)
    args_size: int = _c("Q", 0)
    rodata: int = _c("Q", 0)
    rodata_size: int = _c("Q", 0)
    tensor_table: int = _c("Q", 0)
    tensor_table_size: int = _c("Q", 0)
    debug_id: int = _c("Q", 0)
    descriptor: topsKernelDescriptor_t = _c("108s", topsKernelDescriptor_t())
    update_count: int = _c("Q", 0)
    update_offset: int = _c("Q", 0)

    SIZE: ClassVar = 208


@dataclass(slots=True)
class topsFuncAttributes(Struct):
    """What topsFuncGetAttributes tells of a function (2.8)."""

    binaryVersion: int = _c("i", 0)
    cacheModeCA: int = _c("i", 0)
    constSizeBytes: int = _c("Q", 0)
    localSizeBytes: int = _c("Q", 0)
    maxDynamicSharedSizeBytes: int = _c("I", 0)
    maxThreadsPerBlock: int = _c("i", 0)
    numRegs: int = _c("i", 0)
    preferredShmemCarveout: int = _c("i", 0)
    ptxVersion: int = _c("i", 0)
    sharedSizeBytes: int = _c("Q", 0)

    SIZE: ClassVar = 56


@dataclass(slots=True)
class topsResourceBundle_t(Struct):
    """Which compute resources and how much memory a bundle is made of.

    `cluster_num` counts in mode CLUSTER, `pg_mask` in PG, `sip_num`, `cdma_num` and `cdma_vc_num` in VG: in C they
    share their place, here each has its own.
    """

    mode: topsResBundlMode = _c("i", topsResBundlMode.TOPS_RES_BUNDLE_MODE__UNKNOWN)
    sys_mem_size: int = _c("Q", 0)
    hbm_mem_size: int = _c("Q", 0)
    hbm_policy: topsHbmPolicy = _c("i", topsHbmPolicy.TOPS_HBM_POLICY__BEST_FIT)
    hcve_num: int = _c("I", 0)
    hcve_loc: topsResLocMode = _c("i", topsResLocMode.TOPS_RES_LOC__SAME)
    vdec_core_num: int = _c("I", 0)
    cluster_num: int = _c("I", 0)
    sip_num: int = _c("I", 0)
    cdma_num: int = _c("I", 0)
    cdma_vc_num: int = _c("I", 0)
    pg_mask: int = _c("I", 0)

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

    cluster_count: int = _c("Q", 0)
    compute_res_claim: int = _c("B", 0)
    need_alloc_cluster: bool = _c("?", False)
    mem_alloc_affinity_only: bool = _c("?", False)
    res_bundle_cfg: topsResourceBundle_t = _c("512s", topsResourceBundle_t())

    SIZE: ClassVar = 528


@dataclass(slots=True)
class topsResourceRequestV2_t(Struct):
    """What topsSetDeviceAndResourceReservation is asked for: SIP threads of the device for this process."""

    reserved_threads: int = _c("Q", 0)

    SIZE: ClassVar = 8


@dataclass(slots=True)
class topsExtExecutableSectionInfo_t(Struct):
    """What topsExecutableGetSectionInfo tells of a section."""

    index: int = _c("q", 0)
    sh_type: topsExtExecutableSectionHeaderType_t = _c("Q", topsExtExecutableSectionHeaderType_t.SHT_NULL_)
    size: int = _c("Q", 0)
    device_load_size: int = _c("Q", 0)
    offset_in_exe: int = _c("Q", 0)
    loaded_address: int = _c("Q", 0)
    key: int = _c("Q", 0)
    is_sub_section: bool = _c("?", False)

    SIZE: ClassVar = 64
