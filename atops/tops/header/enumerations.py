"""The enumerations of the public header: as types, and each name by itself as in C."""

from __future__ import annotations

from enum import EnumType, IntEnum, IntFlag
from typing import TYPE_CHECKING


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
    """Which threads may use a device (2.2)."""

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


class topsMemoryAdvise(IntEnum):
    """What a program can say about its use of managed memory."""

    topsMemAdviseSetReadMostly = 1
    topsMemAdviseUnsetReadMostly = 2
    topsMemAdviseSetPreferredLocation = 3
    topsMemAdviseUnsetPreferredLocation = 4
    topsMemAdviseSetAccessedBy = 5
    topsMemAdviseUnsetAccessedBy = 6
    topsMemAdviseSetCoarseGrain = 100
    topsMemAdviseUnsetCoarseGrain = 101


class topsMemRangeCoherencyMode(IntEnum):
    """How coherent a range of managed memory is."""

    topsMemRangeCoherencyModeFineGrain = 0
    topsMemRangeCoherencyModeCoarseGrain = 1
    topsMemRangeCoherencyModeIndeterminate = 2


class topsMemRangeAttribute(IntEnum):
    """What can be asked about a range of managed memory."""

    topsMemRangeAttributeReadMostly = 1
    topsMemRangeAttributePreferredLocation = 2
    topsMemRangeAttributeAccessedBy = 3
    topsMemRangeAttributeLastPrefetchLocation = 4
    topsMemRangeAttributeCoherencyMode = 100


class topsMemPoolAttr(IntEnum):
    """What can be set and asked of a memory pool."""

    topsMemPoolReuseFollowEventDependencies = 1
    topsMemPoolReuseAllowOpportunistic = 2
    topsMemPoolReuseAllowInternalDependencies = 3
    topsMemPoolAttrReleaseThreshold = 4
    topsMemPoolAttrReservedMemCurrent = 5
    topsMemPoolAttrReservedMemHigh = 6
    topsMemPoolAttrUsedMemCurrent = 7
    topsMemPoolAttrUsedMemHigh = 8


class topsMemLocationType(IntEnum):
    """What kind of place memory is in."""

    topsMemLocationTypeInvalid = 0
    topsMemLocationTypeDevice = 1


class topsMemAccessFlags(IntFlag):
    """What a device may do with a pool's memory; Read and Write are bits."""

    topsMemAccessFlagsProtNone = 0
    topsMemAccessFlagsProtRead = 1
    topsMemAccessFlagsProtReadWrite = 3


class topsMemAllocationType(IntEnum):
    """How a pool allocates."""

    topsMemAllocationTypeInvalid = 0
    topsMemAllocationTypePinned = 1
    topsMemAllocationTypeMax = 2147483647


class topsMemAllocationHandleType(IntFlag):
    """How a pool's memory can be handed to another process; bits."""

    topsMemHandleTypeNone = 0
    topsMemHandleTypePosixFileDescriptor = 1
    topsMemHandleTypeWin32 = 2
    topsMemHandleTypeWin32Kmt = 4


class topsResLocMode(IntEnum):
    """Whether resources are in one place."""

    TOPS_RES_LOC__SAME = 0
    TOPS_RES_LOC__DIST = 1


class topsHbmPolicy(IntEnum):
    """From which banks a bundle's memory comes (2.11)."""

    TOPS_HBM_POLICY__BEST_FIT = 0
    TOPS_HBM_POLICY__AFFINITY_ONLY = 1
    TOPS_HBM_POLICY__NONE = 2


class topsResBundlMode(IntEnum):
    """What a resource bundle consists of (2.11)."""

    TOPS_RES_BUNDLE_MODE__UNKNOWN = 0
    TOPS_RES_BUNDLE_MODE__DEVICE = 1
    TOPS_RES_BUNDLE_MODE__CLUSTER = 2
    TOPS_RES_BUNDLE_MODE__VG = 3
    TOPS_RES_BUNDLE_MODE__PG = 4
    TOPS_RES_BUNDLE_MODE__USER = 5


class topsExecutableInfoType_t(IntEnum):
    """What topsExecutableQueryInfo can be asked for (2.11)."""

    topsExecutableInfoInputCount = 0
    topsExecutableInfoOutputCount = 1
    topsExecutableInfoInputSizeList = 2
    topsExecutableInfoOutputSizeList = 3
    topsExecutableInfoInputRank = 4
    topsExecutableInfoInputDimsList = 5
    topsExecutableInfoOutputRank = 6
    topsExecutableInfoOutputDimsList = 7
    topsExecutableInfoInputDataTypeList = 8
    topsExecutableInfoOutputDataTypeList = 9
    topsExecutableInfoTensorTableSize = 10
    topsExecutableInfoInputMinDimsList = 11
    topsExecutableInfoInputMaxDimsList = 12
    topsExecutableInfoOutputMaxDimsList = 13
    topsExecutableInfoBlockCount = 14
    topsExecutableInfoInputBankList = 15
    topsExecutableInfoOutputBankList = 16
    topsExecutableInfoThreadNumberPerBlock = 17


class topsResourceBundleInfoType_t(IntEnum):
    """What topsResourceBundleGetAttribute can be asked for (2.11)."""

    topsResourceBundleProcessorCount = 0


class topsReduceOpType(IntEnum):
    """How topsMemoryReduceAsync combines two elements (2.11)."""

    REDUCE_SUM = 0
    REDUCE_PROD = 1
    REDUCE_MAX = 2
    REDUCE_MIN = 3
    REDUCE_UNKNOW = 4


class topsReduceDataType(IntEnum):
    """Of what type the elements of topsMemoryReduceAsync are (2.11)."""

    INT8 = 0
    CHAR = 0
    UINT8 = 1
    INT32 = 2
    INT = 2
    UINT32 = 3
    INT64 = 4
    UINT64 = 5
    FLOAT16 = 6
    HALF = 6
    FLOAT32 = 7
    FLOAT = 7
    LFLOAT64 = 8
    DOUBLE = 8
    BFLOAT16 = 9
    UNKNOW = 10


class topsExtExecutableSectionHeaderType_t(IntEnum):
    """The sections of an executable (2.11)."""

    SHT_NULL_ = 0
    SHT_HEADER = 1
    SHT_RESOURCE = 2
    SHT_INPUT = 3
    SHT_OUT = 4
    SHT_CONSTANT = 5
    SHT_SIPCODE = 6
    SHT_SIP_FUNC_PARAM = 7
    SHT_SIP_FUNC_PARAM_UPDATE = 8
    SHT_STREAM = 9
    SHT_PACKET = 10
    SHT_PACKET_UPDATE = 11
    SHT_CLUSTER = 12
    SHT_JITBINARY = 13
    SHT_CPU_FUNC_PARAM = 14
    SHT_CPU_FUNC_DATA = 15
    SHT_CPU_FUNCTION = 16
    SHT_PROFILE = 17
    SHT_HOST_CONST = 18
    SHT_TASK = 19
    SHT_SIP_CALLBACK = 20
    SHT_TARGET_RESOURCE = 21
    SHT_TENSOR_TABLE = 22
    SHT_KERNEL_ASSERT_INFO = 23
    SHT_RAND_STATE = 24
    SHT_HOST_PROGRAM = 25
    SHT_RODATA = 26
    SHT_MANAGED_CONSTANT = 27
    SHT_USER5 = 28
    SHT_USER6 = 29
    SHT_USER7 = 30
    SHT_USER8 = 31
    SHT_USER9 = 32
    SHT_LAST_TYPE = 33


class topsGraphNodeType(IntEnum):
    """What a node of a graph does."""

    topsGraphNodeTypeKernel = 1
    topsGraphNodeTypeMemcpy = 2
    topsGraphNodeTypeMemset = 3
    topsGraphNodeTypeHost = 4
    topsGraphNodeTypeGraph = 5
    topsGraphNodeTypeEmpty = 6
    topsGraphNodeTypeWaitEvent = 7
    topsGraphNodeTypeEventRecord = 8
    topsGraphNodeTypeMemcpy1D = 9
    topsGraphNodeTypeMemcpyFromSymbol = 10
    topsGraphNodeTypeMemcpyToSymbol = 11
    topsGraphNodeTypeCount = 12


class topsGraphExecUpdateResult(IntEnum):
    """What became of an update of an instantiated graph."""

    topsGraphExecUpdateSuccess = 0
    topsGraphExecUpdateError = 1
    topsGraphExecUpdateErrorTopologyChanged = 2
    topsGraphExecUpdateErrorNodeTypeChanged = 3
    topsGraphExecUpdateErrorFunctionChanged = 4
    topsGraphExecUpdateErrorParametersChanged = 5
    topsGraphExecUpdateErrorNotSupported = 6
    topsGraphExecUpdateErrorUnsupportedFunctionChange = 7


class topsStreamCaptureMode(IntEnum):
    """How strict a capture is with other calls."""

    topsStreamCaptureModeGlobal = 0
    topsStreamCaptureModeThreadLocal = 1
    topsStreamCaptureModeRelaxed = 2


class topsStreamCaptureStatus(IntEnum):
    """Whether a stream is captured."""

    topsStreamCaptureStatusNone = 0
    topsStreamCaptureStatusActive = 1
    topsStreamCaptureStatusInvalidated = 2


class topsStreamUpdateCaptureDependenciesFlags(IntEnum):
    """How new dependencies of a capture are taken."""

    topsStreamAddCaptureDependencies = 0
    topsStreamSetCaptureDependencies = 1


if not TYPE_CHECKING:  # checkers cannot compute it, and take every name
    __all__ = tuple(
        sorted(
            name
            for each in list(vars().values())
            if isinstance(each, EnumType) and each.__module__ == __name__
            for name in (each.__name__, *each.__members__)
        )
    )

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
(
    topsMemAdviseSetReadMostly, topsMemAdviseUnsetReadMostly, topsMemAdviseSetPreferredLocation,
    topsMemAdviseUnsetPreferredLocation, topsMemAdviseSetAccessedBy, topsMemAdviseUnsetAccessedBy,
    topsMemAdviseSetCoarseGrain, topsMemAdviseUnsetCoarseGrain,
) = topsMemoryAdvise
(
    topsMemRangeCoherencyModeFineGrain, topsMemRangeCoherencyModeCoarseGrain,
    topsMemRangeCoherencyModeIndeterminate,
) = topsMemRangeCoherencyMode
(
    topsMemRangeAttributeReadMostly, topsMemRangeAttributePreferredLocation, topsMemRangeAttributeAccessedBy,
    topsMemRangeAttributeLastPrefetchLocation, topsMemRangeAttributeCoherencyMode,
) = topsMemRangeAttribute
(
    topsMemPoolReuseFollowEventDependencies, topsMemPoolReuseAllowOpportunistic,
    topsMemPoolReuseAllowInternalDependencies, topsMemPoolAttrReleaseThreshold, topsMemPoolAttrReservedMemCurrent,
    topsMemPoolAttrReservedMemHigh, topsMemPoolAttrUsedMemCurrent, topsMemPoolAttrUsedMemHigh,
) = topsMemPoolAttr
(topsMemLocationTypeInvalid, topsMemLocationTypeDevice) = topsMemLocationType
topsMemAccessFlagsProtNone = topsMemAccessFlags.topsMemAccessFlagsProtNone
topsMemAccessFlagsProtRead = topsMemAccessFlags.topsMemAccessFlagsProtRead
topsMemAccessFlagsProtReadWrite = topsMemAccessFlags.topsMemAccessFlagsProtReadWrite
(topsMemAllocationTypeInvalid, topsMemAllocationTypePinned, topsMemAllocationTypeMax) = topsMemAllocationType
topsMemHandleTypeNone = topsMemAllocationHandleType.topsMemHandleTypeNone
topsMemHandleTypePosixFileDescriptor = topsMemAllocationHandleType.topsMemHandleTypePosixFileDescriptor
topsMemHandleTypeWin32 = topsMemAllocationHandleType.topsMemHandleTypeWin32
topsMemHandleTypeWin32Kmt = topsMemAllocationHandleType.topsMemHandleTypeWin32Kmt
(TOPS_RES_LOC__SAME, TOPS_RES_LOC__DIST) = topsResLocMode
(TOPS_HBM_POLICY__BEST_FIT, TOPS_HBM_POLICY__AFFINITY_ONLY, TOPS_HBM_POLICY__NONE) = topsHbmPolicy
(
    TOPS_RES_BUNDLE_MODE__UNKNOWN, TOPS_RES_BUNDLE_MODE__DEVICE, TOPS_RES_BUNDLE_MODE__CLUSTER,
    TOPS_RES_BUNDLE_MODE__VG, TOPS_RES_BUNDLE_MODE__PG, TOPS_RES_BUNDLE_MODE__USER,
) = topsResBundlMode
(
    topsExecutableInfoInputCount, topsExecutableInfoOutputCount, topsExecutableInfoInputSizeList,
    topsExecutableInfoOutputSizeList, topsExecutableInfoInputRank, topsExecutableInfoInputDimsList,
    topsExecutableInfoOutputRank, topsExecutableInfoOutputDimsList, topsExecutableInfoInputDataTypeList,
    topsExecutableInfoOutputDataTypeList, topsExecutableInfoTensorTableSize, topsExecutableInfoInputMinDimsList,
    topsExecutableInfoInputMaxDimsList, topsExecutableInfoOutputMaxDimsList, topsExecutableInfoBlockCount,
    topsExecutableInfoInputBankList, topsExecutableInfoOutputBankList, topsExecutableInfoThreadNumberPerBlock,
) = topsExecutableInfoType_t
(topsResourceBundleProcessorCount,) = topsResourceBundleInfoType_t
(REDUCE_SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_UNKNOW) = topsReduceOpType
(INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, LFLOAT64, BFLOAT16, UNKNOW) = topsReduceDataType
CHAR = topsReduceDataType.CHAR
INT = topsReduceDataType.INT
HALF = topsReduceDataType.HALF
FLOAT = topsReduceDataType.FLOAT
DOUBLE = topsReduceDataType.DOUBLE
(
    SHT_NULL_, SHT_HEADER, SHT_RESOURCE, SHT_INPUT, SHT_OUT, SHT_CONSTANT, SHT_SIPCODE, SHT_SIP_FUNC_PARAM,
    SHT_SIP_FUNC_PARAM_UPDATE, SHT_STREAM, SHT_PACKET, SHT_PACKET_UPDATE, SHT_CLUSTER, SHT_JITBINARY,
    SHT_CPU_FUNC_PARAM, SHT_CPU_FUNC_DATA, SHT_CPU_FUNCTION, SHT_PROFILE, SHT_HOST_CONST, SHT_TASK,
    SHT_SIP_CALLBACK, SHT_TARGET_RESOURCE, SHT_TENSOR_TABLE, SHT_KERNEL_ASSERT_INFO, SHT_RAND_STATE,
    SHT_HOST_PROGRAM, SHT_RODATA, SHT_MANAGED_CONSTANT, SHT_USER5, SHT_USER6, SHT_USER7, SHT_USER8, SHT_USER9,
    SHT_LAST_TYPE,
) = topsExtExecutableSectionHeaderType_t
(
    topsGraphNodeTypeKernel, topsGraphNodeTypeMemcpy, topsGraphNodeTypeMemset, topsGraphNodeTypeHost,
    topsGraphNodeTypeGraph, topsGraphNodeTypeEmpty, topsGraphNodeTypeWaitEvent, topsGraphNodeTypeEventRecord,
    topsGraphNodeTypeMemcpy1D, topsGraphNodeTypeMemcpyFromSymbol, topsGraphNodeTypeMemcpyToSymbol,
    topsGraphNodeTypeCount,
) = topsGraphNodeType
(
    topsGraphExecUpdateSuccess, topsGraphExecUpdateError, topsGraphExecUpdateErrorTopologyChanged,
    topsGraphExecUpdateErrorNodeTypeChanged, topsGraphExecUpdateErrorFunctionChanged,
    topsGraphExecUpdateErrorParametersChanged, topsGraphExecUpdateErrorNotSupported,
    topsGraphExecUpdateErrorUnsupportedFunctionChange,
) = topsGraphExecUpdateResult
(topsStreamCaptureModeGlobal, topsStreamCaptureModeThreadLocal, topsStreamCaptureModeRelaxed) = topsStreamCaptureMode
(
    topsStreamCaptureStatusNone, topsStreamCaptureStatusActive, topsStreamCaptureStatusInvalidated,
) = topsStreamCaptureStatus
(topsStreamAddCaptureDependencies, topsStreamSetCaptureDependencies) = topsStreamUpdateCaptureDependenciesFlags
