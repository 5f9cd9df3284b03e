"""The structs of the public header as dataclasses, by the header's field names, with their layout in C.

One that a call fills in is made empty and passed, as in C; texts are bytes, without the zeros that C has after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import ClassVar, Final

from atops.bridge.structs import Struct, c_field

__all__ = (
    "dim3", "hipDeviceArch_t", "hipDeviceProp_t", "hipFuncAttributes", "hipFunctionLaunchParams",
    "hipIpcEventHandle_t", "hipIpcMemHandle_t", "hipLaunchParams", "hipMemAccessDesc", "hipMemLocation",
    "hipMemPoolProps", "hipMemPoolPtrExportData", "hipPointerAttribute_t", "hipUUID",
)  # fmt: skip


@dataclass(slots=True)
class hipUUID(Struct):
    """What tells a device from all others: 16 bytes."""

    bytes: bytes = c_field("16s", b"")

    SIZE: ClassVar = 16


BITS: Final = (
    "hasGlobalInt32Atomics", "hasGlobalFloatAtomicExch", "hasSharedInt32Atomics", "hasSharedFloatAtomicExch",
    "hasFloatAtomicAdd", "hasGlobalInt64Atomics", "hasSharedInt64Atomics", "hasDoubles", "hasWarpVote",
    "hasWarpBallot", "hasWarpShuffle", "hasFunnelShift", "hasThreadFenceSystem", "hasSyncThreadsExt",
    "hasSurfaceFuncs", "has3dGrid", "hasDynamicParallelism",
)  # fmt: skip


@dataclass(slots=True)
class hipDeviceArch_t(Struct):
    """What kernels can do on a device: one bit each, from the lowest on, which are attributes here too."""

    word: int = c_field("I", 0)

    SIZE: ClassVar = 4

    def __getattr__(self, name: str) -> int:
        if name not in BITS:
            raise AttributeError(f"hipDeviceArch_t has no {name}", name=name, obj=self)
        return self.word >> BITS.index(name) & 1


@dataclass(slots=True)
class hipDeviceProp_t(Struct):
    """What hipGetDeviceProperties tells of a device."""

    name: bytes = c_field("256s", b"")
    uuid: hipUUID = c_field("16s", hipUUID())
    luid: bytes = c_field("8s", b"")
    luidDeviceNodeMask: int = c_field("I", 0)
    totalGlobalMem: int = c_field("Q", 0)
    sharedMemPerBlock: int = c_field("Q", 0)
    regsPerBlock: int = c_field("i", 0)
    warpSize: int = c_field("i", 0)
    memPitch: int = c_field("Q", 0)
    maxThreadsPerBlock: int = c_field("i", 0)
    maxThreadsDim: list[int] = c_field("3i", [0] * 3)
    maxGridSize: list[int] = c_field("3i", [0] * 3)
    clockRate: int = c_field("i", 0)
    totalConstMem: int = c_field("Q", 0)
    major: int = c_field("i", 0)
    minor: int = c_field("i", 0)
    textureAlignment: int = c_field("Q", 0)
    texturePitchAlignment: int = c_field("Q", 0)
    deviceOverlap: int = c_field("i", 0)
    multiProcessorCount: int = c_field("i", 0)
    kernelExecTimeoutEnabled: int = c_field("i", 0)
    integrated: int = c_field("i", 0)
    canMapHostMemory: int = c_field("i", 0)
    computeMode: int = c_field("i", 0)
    maxTexture1D: int = c_field("i", 0)
    maxTexture1DMipmap: int = c_field("i", 0)
    maxTexture1DLinear: int = c_field("i", 0)
    maxTexture2D: list[int] = c_field("2i", [0] * 2)
    maxTexture2DMipmap: list[int] = c_field("2i", [0] * 2)
    maxTexture2DLinear: list[int] = c_field("3i", [0] * 3)
    maxTexture2DGather: list[int] = c_field("2i", [0] * 2)
    maxTexture3D: list[int] = c_field("3i", [0] * 3)
    maxTexture3DAlt: list[int] = c_field("3i", [0] * 3)
    maxTextureCubemap: int = c_field("i", 0)
    maxTexture1DLayered: list[int] = c_field("2i", [0] * 2)
    maxTexture2DLayered: list[int] = c_field("3i", [0] * 3)
    maxTextureCubemapLayered: list[int] = c_field("2i", [0] * 2)
    maxSurface1D: int = c_field("i", 0)
    maxSurface2D: list[int] = c_field("2i", [0] * 2)
    maxSurface3D: list[int] = c_field("3i", [0] * 3)
    maxSurface1DLayered: list[int] = c_field("2i", [0] * 2)
    maxSurface2DLayered: list[int] = c_field("3i", [0] * 3)
    maxSurfaceCubemap: int = c_field("i", 0)
    maxSurfaceCubemapLayered: list[int] = c_field("2i", [0] * 2)
    surfaceAlignment: int = c_field("Q", 0)
    concurrentKernels: int = c_field("i", 0)
    ECCEnabled: int = c_field("i", 0)
    pciBusID: int = c_field("i", 0)
    pciDeviceID: int = c_field("i", 0)
    pciDomainID: int = c_field("i", 0)
    tccDriver: int = c_field("i", 0)
    asyncEngineCount: int = c_field("i", 0)
    unifiedAddressing: int = c_field("i", 0)
    memoryClockRate: int = c_field("i", 0)
    memoryBusWidth: int = c_field("i", 0)
    l2CacheSize: int = c_field("i", 0)
    persistingL2CacheMaxSize: int = c_field("i", 0)
    maxThreadsPerMultiProcessor: int = c_field("i", 0)
    streamPrioritiesSupported: int = c_field("i", 0)
    globalL1CacheSupported: int = c_field("i", 0)
    localL1CacheSupported: int = c_field("i", 0)
    sharedMemPerMultiprocessor: int = c_field("Q", 0)
    regsPerMultiprocessor: int = c_field("i", 0)
    managedMemory: int = c_field("i", 0)
    isMultiGpuBoard: int = c_field("i", 0)
    multiGpuBoardGroupID: int = c_field("i", 0)
    hostNativeAtomicSupported: int = c_field("i", 0)
    singleToDoublePrecisionPerfRatio: int = c_field("i", 0)
    pageableMemoryAccess: int = c_field("i", 0)
    concurrentManagedAccess: int = c_field("i", 0)
    computePreemptionSupported: int = c_field("i", 0)
    canUseHostPointerForRegisteredMem: int = c_field("i", 0)
    cooperativeLaunch: int = c_field("i", 0)
    cooperativeMultiDeviceLaunch: int = c_field("i", 0)
    sharedMemPerBlockOptin: int = c_field("Q", 0)
    pageableMemoryAccessUsesHostPageTables: int = c_field("i", 0)
    directManagedMemAccessFromHost: int = c_field("i", 0)
    maxBlocksPerMultiProcessor: int = c_field("i", 0)
    accessPolicyMaxWindowSize: int = c_field("i", 0)
    reservedSharedMemPerBlock: int = c_field("Q", 0)
    hostRegisterSupported: int = c_field("i", 0)
    sparseHipArraySupported: int = c_field("i", 0)
    hostRegisterReadOnlySupported: int = c_field("i", 0)
    timelineSemaphoreInteropSupported: int = c_field("i", 0)
    memoryPoolsSupported: int = c_field("i", 0)
    gpuDirectRDMASupported: int = c_field("i", 0)
    gpuDirectRDMAFlushWritesOptions: int = c_field("I", 0)
    gpuDirectRDMAWritesOrdering: int = c_field("i", 0)
    memoryPoolSupportedHandleTypes: int = c_field("I", 0)
    deferredMappingHipArraySupported: int = c_field("i", 0)
    ipcEventSupported: int = c_field("i", 0)
    clusterLaunch: int = c_field("i", 0)
    unifiedFunctionPointers: int = c_field("i", 0)
    reserved: list[int] = c_field("63i", [0] * 63)
    hipReserved: list[int] = c_field("32i", [0] * 32)
    gcnArchName: bytes = c_field("256s", b"")
    maxSharedMemoryPerMultiProcessor: int = c_field("Q", 0)
    clockInstructionRate: int = c_field("i", 0)
    arch: hipDeviceArch_t = c_field("4s", hipDeviceArch_t())
    hdpMemFlushCntl: int = c_field("Q", 0)
    hdpRegFlushCntl: int = c_field("Q", 0)
    cooperativeMultiDeviceUnmatchedFunc: int = c_field("i", 0)
    cooperativeMultiDeviceUnmatchedGridDim: int = c_field("i", 0)
    cooperativeMultiDeviceUnmatchedBlockDim: int = c_field("i", 0)
    cooperativeMultiDeviceUnmatchedSharedMem: int = c_field("i", 0)
    isLargeBar: int = c_field("i", 0)
    asicRevision: int = c_field("i", 0)

    SIZE: ClassVar = 1472

    @classmethod
    def PROPERTIES(cls) -> list[str]:
        """Return the names of all fields."""
        return [each.name for each in fields(cls)]


@dataclass(slots=True)
class hipPointerAttribute_t(Struct):
    """What hipPointerGetAttributes tells of a pointer."""

    type: int = c_field("i", 0)
    device: int = c_field("i", 0)
    devicePointer: int = c_field("Q", 0)
    hostPointer: int = c_field("Q", 0)
    isManaged: int = c_field("i", 0)
    allocationFlags: int = c_field("I", 0)

    SIZE: ClassVar = 32


@dataclass(slots=True)
class hipIpcMemHandle_t(Struct):
    """What names memory in other processes: 64 bytes."""

    reserved: bytes = c_field("64s", bytes(64))

    SIZE: ClassVar = 64


@dataclass(slots=True)
class hipIpcEventHandle_t(Struct):
    """What names an event in other processes: 64 bytes."""

    reserved: bytes = c_field("64s", bytes(64))

    SIZE: ClassVar = 64


@dataclass(slots=True)
class hipMemLocation(Struct):
    """A place for memory: its type, and its number."""

    type: int = c_field("i", 0)
    id: int = c_field("i", 0)

    SIZE: ClassVar = 8


@dataclass(slots=True)
class hipMemAccessDesc(Struct):
    """Which access a location has."""

    location: hipMemLocation = c_field("8s", hipMemLocation())
    flags: int = c_field("i", 0)

    SIZE: ClassVar = 12


@dataclass(slots=True)
class hipMemPoolProps(Struct):
    """What a pool is made of (001 hipMemPoolCreate); a `maxSize` of 0 is all of the device's memory."""

    allocType: int = c_field("i", 0)
    handleTypes: int = c_field("i", 0)
    location: hipMemLocation = c_field("8s", hipMemLocation())
    win32SecurityAttributes: int = c_field("Q", 0)
    maxSize: int = c_field("Q", 0)
    reserved: bytes = c_field("56s", b"")

    SIZE: ClassVar = 88


@dataclass(slots=True)
class hipMemPoolPtrExportData(Struct):
    """What names an allocation of a shared pool in other processes: 64 bytes."""

    reserved: bytes = c_field("64s", bytes(64))

    SIZE: ClassVar = 64


@dataclass(slots=True)
class dim3(Struct):
    """The extent of a grid or a block; `*dim3(2)` is three numbers, `dim3(2)[0]` the first. A whole float is an int."""

    x: int = c_field("I", 1)
    y: int = c_field("I", 1)
    z: int = c_field("I", 1)

    def __post_init__(self) -> None:
        for name in ("x", "y", "z"):
            value: object = getattr(self, name)
            if isinstance(value, float) and value.is_integer():
                setattr(self, name, int(value))

    def __iter__(self) -> Iterator[int]:
        return iter((self.x, self.y, self.z))

    def __getitem__(self, index: int) -> int:
        return (self.x, self.y, self.z)[index]

    SIZE: ClassVar = 12


@dataclass(slots=True)
class hipFuncAttributes(Struct):
    """What hipFuncGetAttributes tells of a function (004)."""

    binaryVersion: int = c_field("i", 0)
    cacheModeCA: int = c_field("i", 0)
    constSizeBytes: int = c_field("Q", 0)
    localSizeBytes: int = c_field("Q", 0)
    maxDynamicSharedSizeBytes: int = c_field("i", 0)
    maxThreadsPerBlock: int = c_field("i", 0)
    numRegs: int = c_field("i", 0)
    preferredShmemCarveout: int = c_field("i", 0)
    ptxVersion: int = c_field("i", 0)
    sharedSizeBytes: int = c_field("Q", 0)

    SIZE: ClassVar = 56


@dataclass(slots=True)
class hipLaunchParams:
    """One launch of several: a kernel, or the handle of a function; `args` as `kernelParams` (004)."""

    func: object = None
    gridDim: object = field(default_factory=dim3)
    blockDim: object = field(default_factory=dim3)
    args: object = None
    sharedMem: int = 0
    stream: object = None


@dataclass(slots=True)
class hipFunctionLaunchParams:
    """One launch of a module's function among several (004)."""

    function: object = None
    gridDimX: int = 1
    gridDimY: int = 1
    gridDimZ: int = 1
    blockDimX: int = 1
    blockDimY: int = 1
    blockDimZ: int = 1
    sharedMemBytes: int = 0
    hStream: object = None
    kernelParams: object = None
