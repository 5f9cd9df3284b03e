"""The enumerations about devices, pointers, copies and functions: as types, and each name by itself as in C."""

from __future__ import annotations

from enum import IntEnum

__all__ = (
    "TOPS_FUNC_ATTRIBUTE_BINARY_VERSION", "TOPS_FUNC_ATTRIBUTE_CACHE_MODE_CA",
    "TOPS_FUNC_ATTRIBUTE_CONST_SIZE_BYTES", "TOPS_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES", "TOPS_FUNC_ATTRIBUTE_MAX",
    "TOPS_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", "TOPS_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK",
    "TOPS_FUNC_ATTRIBUTE_NUM_REGS", "TOPS_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT",
    "TOPS_FUNC_ATTRIBUTE_PTX_VERSION", "TOPS_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES",
    "TOPS_POINTER_ATTRIBUTE_ACCESS_FLAGS", "TOPS_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES",
    "TOPS_POINTER_ATTRIBUTE_BUFFER_ID", "TOPS_POINTER_ATTRIBUTE_CONTEXT", "TOPS_POINTER_ATTRIBUTE_DEVICE_ORDINAL",
    "TOPS_POINTER_ATTRIBUTE_DEVICE_POINTER", "TOPS_POINTER_ATTRIBUTE_HOST_POINTER",
    "TOPS_POINTER_ATTRIBUTE_IS_GCU_DIRECT_RDMA_CAPABLE", "TOPS_POINTER_ATTRIBUTE_IS_LEGACY_TOPS_IPC_CAPABLE",
    "TOPS_POINTER_ATTRIBUTE_IS_MANAGED", "TOPS_POINTER_ATTRIBUTE_MAPPED", "TOPS_POINTER_ATTRIBUTE_MEMORY_TYPE",
    "TOPS_POINTER_ATTRIBUTE_MEMPOOL_HANDLE", "TOPS_POINTER_ATTRIBUTE_MEM_BANK", "TOPS_POINTER_ATTRIBUTE_P2P_TOKENS",
    "TOPS_POINTER_ATTRIBUTE_RANGE_SIZE", "TOPS_POINTER_ATTRIBUTE_RANGE_START_ADDR",
    "TOPS_POINTER_ATTRIBUTE_SYNC_MEMOPS", "topsComputeMode", "topsComputeModeDefault", "topsComputeModeExclusive",
    "topsComputeModeExclusiveProcess", "topsComputeModeProhibited", "topsDevP2PAttrAccessSupported",
    "topsDevP2PAttrNativeAtomicSupported", "topsDevP2PAttrPerformanceRank",
    "topsDevP2PAttrTopsArrayAccessSupported", "topsDeviceAttributeClockRate",
    "topsDeviceAttributeComputeCapabilityMajor", "topsDeviceAttributeComputeCapabilityMinor",
    "topsDeviceAttributeEnflameMcChannel", "topsDeviceAttributeEnflameSpecificBegin",
    "topsDeviceAttributeMaxBlockDimX", "topsDeviceAttributeMaxBlockDimY", "topsDeviceAttributeMaxBlockDimZ",
    "topsDeviceAttributeMaxGridDimX", "topsDeviceAttributeMaxGridDimY", "topsDeviceAttributeMaxGridDimZ",
    "topsDeviceAttributeMaxSharedMemoryPerBlock", "topsDeviceAttributeMaxThreadsPerBlock",
    "topsDeviceAttributeMultiprocessorCount", "topsDeviceAttribute_t", "topsDeviceP2PAttr", "topsFuncAttribute",
    "topsFuncAttributeMax", "topsFuncAttributeMaxDynamicSharedMemorySize",
    "topsFuncAttributePreferredSharedMemoryCarveout", "topsFuncCachePreferEqual", "topsFuncCachePreferL1",
    "topsFuncCachePreferNone", "topsFuncCachePreferShared", "topsFuncCache_t", "topsFunction_attribute",
    "topsJitOption", "topsJitOptionCacheMode", "topsJitOptionErrorLogBuffer",
    "topsJitOptionErrorLogBufferSizeBytes", "topsJitOptionFallbackStrategy", "topsJitOptionFastCompile",
    "topsJitOptionGenerateDebugInfo", "topsJitOptionGenerateLineInfo", "topsJitOptionInfoLogBuffer",
    "topsJitOptionInfoLogBufferSizeBytes", "topsJitOptionLogVerbose", "topsJitOptionMaxRegisters",
    "topsJitOptionNumOptions", "topsJitOptionOptimizationLevel", "topsJitOptionSm3xOpt", "topsJitOptionTarget",
    "topsJitOptionTargetFromContext", "topsJitOptionThreadsPerBlock", "topsJitOptionWallTime",
    "topsLaunchAttributeCooperative", "topsLaunchAttributeID", "topsLaunchAttributeIgnore",
    "topsLaunchAttributeThreadDimension", "topsLimitMallocHeapSize", "topsLimitPrintfFifoSize", "topsLimit_t",
    "topsMemcpyDefault", "topsMemcpyDeviceToDevice", "topsMemcpyDeviceToHost", "topsMemcpyHostToDevice",
    "topsMemcpyHostToHost", "topsMemcpyKind", "topsMemoryType", "topsMemoryTypeDevice", "topsMemoryTypeHost",
    "topsMemoryTypeLazy", "topsMemoryTypeScatter", "topsMemoryTypeUnified", "topsPointer_attribute",
    "topsSharedMemBankSizeDefault", "topsSharedMemBankSizeEightByte", "topsSharedMemBankSizeFourByte",
    "topsSharedMemConfig", "topsTopologyMapType", "topsTopologyMapTypeAuto", "topsTopologyMapTypeClsAsDev",
    "topsTopologyMapTypeEsl", "topsTopologyMapTypeLocal", "topsTopologyMapTypeP2P",
)  # fmt: skip


class topsMemcpyKind(IntEnum):
    """Which way a copy goes; Default finds out from the pointers (2.6)."""

    topsMemcpyHostToHost = 0
    topsMemcpyHostToDevice = 1
    topsMemcpyDeviceToHost = 2
    topsMemcpyDeviceToDevice = 3
    topsMemcpyDefault = 4


class topsFunction_attribute(IntEnum):
    """What topsFuncGetAttribute can be asked for (2.8)."""

    TOPS_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0
    TOPS_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1
    TOPS_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2
    TOPS_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3
    TOPS_FUNC_ATTRIBUTE_NUM_REGS = 4
    TOPS_FUNC_ATTRIBUTE_PTX_VERSION = 5
    TOPS_FUNC_ATTRIBUTE_BINARY_VERSION = 6
    TOPS_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7
    TOPS_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    TOPS_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9
    TOPS_FUNC_ATTRIBUTE_MAX = 10


class topsPointer_attribute(IntEnum):
    """What topsPointerGetAttribute can be asked for (2.6)."""

    TOPS_POINTER_ATTRIBUTE_CONTEXT = 1
    TOPS_POINTER_ATTRIBUTE_MEMORY_TYPE = 2
    TOPS_POINTER_ATTRIBUTE_DEVICE_POINTER = 3
    TOPS_POINTER_ATTRIBUTE_HOST_POINTER = 4
    TOPS_POINTER_ATTRIBUTE_P2P_TOKENS = 5
    TOPS_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6
    TOPS_POINTER_ATTRIBUTE_BUFFER_ID = 7
    TOPS_POINTER_ATTRIBUTE_IS_MANAGED = 8
    TOPS_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9
    TOPS_POINTER_ATTRIBUTE_IS_LEGACY_TOPS_IPC_CAPABLE = 10
    TOPS_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11
    TOPS_POINTER_ATTRIBUTE_RANGE_SIZE = 12
    TOPS_POINTER_ATTRIBUTE_MAPPED = 13
    TOPS_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14
    TOPS_POINTER_ATTRIBUTE_IS_GCU_DIRECT_RDMA_CAPABLE = 15
    TOPS_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16
    TOPS_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17
    TOPS_POINTER_ATTRIBUTE_MEM_BANK = 18


class topsMemoryType(IntEnum):
    """What kind of memory a pointer points into (2.6)."""

    topsMemoryTypeHost = 1
    topsMemoryTypeDevice = 2
    topsMemoryTypeScatter = 4
    topsMemoryTypeLazy = 8
    topsMemoryTypeUnified = 9


class topsTopologyMapType(IntEnum):
    """Over which kind of link peers are to meet (2.7)."""

    topsTopologyMapTypeAuto = 0
    topsTopologyMapTypeLocal = 1
    topsTopologyMapTypeEsl = 2
    topsTopologyMapTypeP2P = 3
    topsTopologyMapTypeClsAsDev = 4


class topsDeviceAttribute_t(IntEnum):
    """What topsDeviceGetAttribute can be asked for (2.2)."""

    topsDeviceAttributeClockRate = 0
    topsDeviceAttributeComputeCapabilityMajor = 1
    topsDeviceAttributeComputeCapabilityMinor = 2
    topsDeviceAttributeMaxBlockDimX = 3
    topsDeviceAttributeMaxBlockDimY = 4
    topsDeviceAttributeMaxBlockDimZ = 5
    topsDeviceAttributeMaxGridDimX = 6
    topsDeviceAttributeMaxGridDimY = 7
    topsDeviceAttributeMaxGridDimZ = 8
    topsDeviceAttributeMaxThreadsPerBlock = 9
    topsDeviceAttributeMultiprocessorCount = 10
    topsDeviceAttributeMaxSharedMemoryPerBlock = 11
    topsDeviceAttributeEnflameSpecificBegin = 10000
    topsDeviceAttributeEnflameMcChannel = 10001


class topsComputeMode(IntEnum):
    """Who may use a device."""

    topsComputeModeDefault = 0
    topsComputeModeExclusive = 1
    topsComputeModeProhibited = 2
    topsComputeModeExclusiveProcess = 3


class topsDeviceP2PAttr(IntEnum):
    """What can be asked about a pair of devices."""

    topsDevP2PAttrPerformanceRank = 0
    topsDevP2PAttrAccessSupported = 1
    topsDevP2PAttrNativeAtomicSupported = 2
    topsDevP2PAttrTopsArrayAccessSupported = 3


class topsLimit_t(IntEnum):
    """What topsDeviceGetLimit can be asked for (2.2)."""

    topsLimitPrintfFifoSize = 1
    topsLimitMallocHeapSize = 2


class topsJitOption(IntEnum):
    """Options of topsModuleLoadDataEx (2.8)."""

    topsJitOptionMaxRegisters = 0
    topsJitOptionThreadsPerBlock = 1
    topsJitOptionWallTime = 2
    topsJitOptionInfoLogBuffer = 3
    topsJitOptionInfoLogBufferSizeBytes = 4
    topsJitOptionErrorLogBuffer = 5
    topsJitOptionErrorLogBufferSizeBytes = 6
    topsJitOptionOptimizationLevel = 7
    topsJitOptionTargetFromContext = 8
    topsJitOptionTarget = 9
    topsJitOptionFallbackStrategy = 10
    topsJitOptionGenerateDebugInfo = 11
    topsJitOptionLogVerbose = 12
    topsJitOptionGenerateLineInfo = 13
    topsJitOptionCacheMode = 14
    topsJitOptionSm3xOpt = 15
    topsJitOptionFastCompile = 16
    topsJitOptionNumOptions = 17


class topsFuncAttribute(IntEnum):
    """What can be set on a function."""

    topsFuncAttributeMaxDynamicSharedMemorySize = 8
    topsFuncAttributePreferredSharedMemoryCarveout = 9
    topsFuncAttributeMax = 10


class topsFuncCache_t(IntEnum):
    """Which on-chip memory a function prefers."""

    topsFuncCachePreferNone = 0
    topsFuncCachePreferShared = 1
    topsFuncCachePreferL1 = 2
    topsFuncCachePreferEqual = 3


class topsSharedMemConfig(IntEnum):
    """How wide the banks of shared memory are."""

    topsSharedMemBankSizeDefault = 0
    topsSharedMemBankSizeFourByte = 1
    topsSharedMemBankSizeEightByte = 2


class topsLaunchAttributeID(IntEnum):
    """What a launch can be told beside its geometry."""

    topsLaunchAttributeIgnore = 0
    topsLaunchAttributeCooperative = 2
    topsLaunchAttributeThreadDimension = 4


# An enumeration yields its members without aliases, in the header's order.
(
    topsMemcpyHostToHost, topsMemcpyHostToDevice, topsMemcpyDeviceToHost, topsMemcpyDeviceToDevice,
    topsMemcpyDefault,
) = topsMemcpyKind
(
    TOPS_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, TOPS_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
    TOPS_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, TOPS_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, TOPS_FUNC_ATTRIBUTE_NUM_REGS,
    TOPS_FUNC_ATTRIBUTE_PTX_VERSION, TOPS_FUNC_ATTRIBUTE_BINARY_VERSION, TOPS_FUNC_ATTRIBUTE_CACHE_MODE_CA,
    TOPS_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, TOPS_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    TOPS_FUNC_ATTRIBUTE_MAX,
) = topsFunction_attribute
(
    TOPS_POINTER_ATTRIBUTE_CONTEXT, TOPS_POINTER_ATTRIBUTE_MEMORY_TYPE, TOPS_POINTER_ATTRIBUTE_DEVICE_POINTER,
    TOPS_POINTER_ATTRIBUTE_HOST_POINTER, TOPS_POINTER_ATTRIBUTE_P2P_TOKENS, TOPS_POINTER_ATTRIBUTE_SYNC_MEMOPS,
    TOPS_POINTER_ATTRIBUTE_BUFFER_ID, TOPS_POINTER_ATTRIBUTE_IS_MANAGED, TOPS_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    TOPS_POINTER_ATTRIBUTE_IS_LEGACY_TOPS_IPC_CAPABLE, TOPS_POINTER_ATTRIBUTE_RANGE_START_ADDR,
    TOPS_POINTER_ATTRIBUTE_RANGE_SIZE, TOPS_POINTER_ATTRIBUTE_MAPPED, TOPS_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
    TOPS_POINTER_ATTRIBUTE_IS_GCU_DIRECT_RDMA_CAPABLE, TOPS_POINTER_ATTRIBUTE_ACCESS_FLAGS,
    TOPS_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, TOPS_POINTER_ATTRIBUTE_MEM_BANK,
) = topsPointer_attribute
(
    topsMemoryTypeHost, topsMemoryTypeDevice, topsMemoryTypeScatter, topsMemoryTypeLazy, topsMemoryTypeUnified,
) = topsMemoryType
(
    topsTopologyMapTypeAuto, topsTopologyMapTypeLocal, topsTopologyMapTypeEsl, topsTopologyMapTypeP2P,
    topsTopologyMapTypeClsAsDev,
) = topsTopologyMapType
(
    topsDeviceAttributeClockRate, topsDeviceAttributeComputeCapabilityMajor,
    topsDeviceAttributeComputeCapabilityMinor, topsDeviceAttributeMaxBlockDimX, topsDeviceAttributeMaxBlockDimY,
    topsDeviceAttributeMaxBlockDimZ, topsDeviceAttributeMaxGridDimX, topsDeviceAttributeMaxGridDimY,
    topsDeviceAttributeMaxGridDimZ, topsDeviceAttributeMaxThreadsPerBlock, topsDeviceAttributeMultiprocessorCount,
    topsDeviceAttributeMaxSharedMemoryPerBlock, topsDeviceAttributeEnflameSpecificBegin,
    topsDeviceAttributeEnflameMcChannel,
) = topsDeviceAttribute_t
(
    topsComputeModeDefault, topsComputeModeExclusive, topsComputeModeProhibited, topsComputeModeExclusiveProcess,
) = topsComputeMode
(
    topsDevP2PAttrPerformanceRank, topsDevP2PAttrAccessSupported, topsDevP2PAttrNativeAtomicSupported,
    topsDevP2PAttrTopsArrayAccessSupported,
) = topsDeviceP2PAttr
(topsLimitPrintfFifoSize, topsLimitMallocHeapSize) = topsLimit_t
(
    topsJitOptionMaxRegisters, topsJitOptionThreadsPerBlock, topsJitOptionWallTime, topsJitOptionInfoLogBuffer,
    topsJitOptionInfoLogBufferSizeBytes, topsJitOptionErrorLogBuffer, topsJitOptionErrorLogBufferSizeBytes,
    topsJitOptionOptimizationLevel, topsJitOptionTargetFromContext, topsJitOptionTarget,
    topsJitOptionFallbackStrategy, topsJitOptionGenerateDebugInfo, topsJitOptionLogVerbose,
    topsJitOptionGenerateLineInfo, topsJitOptionCacheMode, topsJitOptionSm3xOpt, topsJitOptionFastCompile,
    topsJitOptionNumOptions,
) = topsJitOption
(
    topsFuncAttributeMaxDynamicSharedMemorySize, topsFuncAttributePreferredSharedMemoryCarveout,
    topsFuncAttributeMax,
) = topsFuncAttribute
(topsFuncCachePreferNone, topsFuncCachePreferShared, topsFuncCachePreferL1, topsFuncCachePreferEqual) = topsFuncCache_t
(topsSharedMemBankSizeDefault, topsSharedMemBankSizeFourByte, topsSharedMemBankSizeEightByte) = topsSharedMemConfig
(topsLaunchAttributeIgnore, topsLaunchAttributeCooperative, topsLaunchAttributeThreadDimension) = topsLaunchAttributeID
