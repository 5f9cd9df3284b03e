// The TOPS runtime API for host code in C++, written from tables by `python -m atops.tops.header.cxx`.
#pragma once

#include "atops/host.h"

enum topsError_t {
    topsSuccess = 0,
    topsErrorInvalidValue = 1,
    topsErrorOutOfMemory = 2,
    topsErrorMemoryAllocation = 2,
    topsErrorNotInitialized = 3,
    topsErrorInitializationError = 3,
    topsErrorDeinitialized = 4,
    topsErrorProfilerDisabled = 5,
    topsErrorProfilerNotInitialized = 6,
    topsErrorProfilerAlreadyStarted = 7,
    topsErrorProfilerAlreadyStopped = 8,
    topsErrorInvalidConfiguration = 9,
    topsErrorInvalidPitchValue = 12,
    topsErrorInvalidSymbol = 13,
    topsErrorInvalidDevicePointer = 17,
    topsErrorInvalidMemcpyDirection = 21,
    topsErrorInsufficientDriver = 35,
    topsErrorMissingConfiguration = 52,
    topsErrorPriorLaunchFailure = 53,
    topsErrorInvalidDeviceFunction = 98,
    topsErrorNoDevice = 100,
    topsErrorInvalidDevice = 101,
    topsErrorInvalidImage = 200,
    topsErrorInvalidContext = 201,
    topsErrorContextAlreadyCurrent = 202,
    topsErrorMapFailed = 205,
    topsErrorMapBufferObjectFailed = 205,
    topsErrorUnmapFailed = 206,
    topsErrorArrayIsMapped = 207,
    topsErrorAlreadyMapped = 208,
    topsErrorNoBinaryForGcu = 209,
    topsErrorAlreadyAcquired = 210,
    topsErrorNotMapped = 211,
    topsErrorNotMappedAsArray = 212,
    topsErrorNotMappedAsPointer = 213,
    topsErrorECCNotCorrectable = 214,
    topsErrorUnsupportedLimit = 215,
    topsErrorContextAlreadyInUse = 216,
    topsErrorPeerAccessUnsupported = 217,
    topsErrorInvalidKernelFile = 218,
    topsErrorInvalidGraphicsContext = 219,
    topsErrorInvalidSource = 300,
    topsErrorFileNotFound = 301,
    topsErrorSharedObjectSymbolNotFound = 302,
    topsErrorSharedObjectInitFailed = 303,
    topsErrorOperatingSystem = 304,
    topsErrorInvalidHandle = 400,
    topsErrorInvalidResourceHandle = 400,
    topsErrorIllegalState = 401,
    topsErrorNotFound = 500,
    topsErrorNotReady = 600,
    topsErrorIllegalAddress = 700,
    topsErrorLaunchOutOfResources = 701,
    topsErrorLaunchTimeOut = 702,
    topsErrorPeerAccessAlreadyEnabled = 704,
    topsErrorPeerAccessNotEnabled = 705,
    topsErrorSetOnActiveProcess = 708,
    topsErrorContextIsDestroyed = 709,
    topsErrorAssert = 710,
    topsErrorHostMemoryAlreadyRegistered = 712,
    topsErrorHostMemoryNotRegistered = 713,
    topsErrorLaunchFailure = 719,
    topsErrorCooperativeLaunchTooLarge = 720,
    topsErrorNotSupported = 801,
    topsErrorStreamCaptureUnsupported = 900,
    topsErrorStreamCaptureInvalidated = 901,
    topsErrorStreamCaptureMerge = 902,
    topsErrorStreamCaptureUnmatched = 903,
    topsErrorStreamCaptureUnjoined = 904,
    topsErrorStreamCaptureIsolation = 905,
    topsErrorStreamCaptureImplicit = 906,
    topsErrorCapturedEvent = 907,
    topsErrorStreamCaptureWrongThread = 908,
    topsErrorGraphExecUpdateFailure = 910,
    topsErrorUnknown = 999,
    topsErrorRuntimeMemory = 1052,
    topsErrorRuntimeOther = 1053,
    topsErrorTbd = 1054,
    topsErrorDeInitialized = 4,
    topsErrorDeviceAlreadyInUse = 216,
    topsErrorTooManyPeers = 711,
    topsErrorMemoryFree = 999,
    topsInvalidDevice = 101,
};
enum topsrtcResult {
    TOPSRTC_SUCCESS = 0,
    TOPSRTC_ERROR_OUT_OF_MEMORY = 1,
    TOPSRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    TOPSRTC_ERROR_INVALID_INPUT = 3,
    TOPSRTC_ERROR_INVALID_PROGRAM = 4,
    TOPSRTC_ERROR_INVALID_OPTION = 5,
    TOPSRTC_ERROR_COMPILATION = 6,
    TOPSRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7,
    TOPSRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10,
    TOPSRTC_ERROR_INTERNAL_ERROR = 11,
};
enum topsMemcpyKind {
    topsMemcpyHostToHost = 0,
    topsMemcpyHostToDevice = 1,
    topsMemcpyDeviceToHost = 2,
    topsMemcpyDeviceToDevice = 3,
    topsMemcpyDefault = 4,
};
enum topsFunction_attribute {
    TOPS_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    TOPS_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    TOPS_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
    TOPS_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    TOPS_FUNC_ATTRIBUTE_NUM_REGS = 4,
    TOPS_FUNC_ATTRIBUTE_PTX_VERSION = 5,
    TOPS_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
    TOPS_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
    TOPS_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    TOPS_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
    TOPS_FUNC_ATTRIBUTE_MAX = 10,
};
enum topsPointer_attribute {
    TOPS_POINTER_ATTRIBUTE_CONTEXT = 1,
    TOPS_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    TOPS_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
    TOPS_POINTER_ATTRIBUTE_HOST_POINTER = 4,
    TOPS_POINTER_ATTRIBUTE_P2P_TOKENS = 5,
    TOPS_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
    TOPS_POINTER_ATTRIBUTE_BUFFER_ID = 7,
    TOPS_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    TOPS_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    TOPS_POINTER_ATTRIBUTE_IS_LEGACY_TOPS_IPC_CAPABLE = 10,
    TOPS_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    TOPS_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
    TOPS_POINTER_ATTRIBUTE_MAPPED = 13,
    TOPS_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
    TOPS_POINTER_ATTRIBUTE_IS_GCU_DIRECT_RDMA_CAPABLE = 15,
    TOPS_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
    TOPS_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
    TOPS_POINTER_ATTRIBUTE_MEM_BANK = 18,
};
enum topsMemoryType {
    topsMemoryTypeHost = 1,
    topsMemoryTypeDevice = 2,
    topsMemoryTypeScatter = 4,
    topsMemoryTypeLazy = 8,
    topsMemoryTypeUnified = 9,
};
enum topsTopologyMapType {
    topsTopologyMapTypeAuto = 0,
    topsTopologyMapTypeLocal = 1,
    topsTopologyMapTypeEsl = 2,
    topsTopologyMapTypeP2P = 3,
    topsTopologyMapTypeClsAsDev = 4,
};
enum topsDeviceAttribute_t {
    topsDeviceAttributeClockRate = 0,
    topsDeviceAttributeComputeCapabilityMajor = 1,
    topsDeviceAttributeComputeCapabilityMinor = 2,
    topsDeviceAttributeMaxBlockDimX = 3,
    topsDeviceAttributeMaxBlockDimY = 4,
    topsDeviceAttributeMaxBlockDimZ = 5,
    topsDeviceAttributeMaxGridDimX = 6,
    topsDeviceAttributeMaxGridDimY = 7,
    topsDeviceAttributeMaxGridDimZ = 8,
    topsDeviceAttributeMaxThreadsPerBlock = 9,
    topsDeviceAttributeMultiprocessorCount = 10,
    topsDeviceAttributeMaxSharedMemoryPerBlock = 11,
    topsDeviceAttributeEnflameSpecificBegin = 10000,
    topsDeviceAttributeEnflameMcChannel = 10001,
};
enum topsComputeMode {
    topsComputeModeDefault = 0,
    topsComputeModeExclusive = 1,
    topsComputeModeProhibited = 2,
    topsComputeModeExclusiveProcess = 3,
};
enum topsDeviceP2PAttr {
    topsDevP2PAttrPerformanceRank = 0,
    topsDevP2PAttrAccessSupported = 1,
    topsDevP2PAttrNativeAtomicSupported = 2,
    topsDevP2PAttrTopsArrayAccessSupported = 3,
};
enum topsLimit_t {
    topsLimitPrintfFifoSize = 1,
    topsLimitMallocHeapSize = 2,
};
enum topsJitOption {
    topsJitOptionMaxRegisters = 0,
    topsJitOptionThreadsPerBlock = 1,
    topsJitOptionWallTime = 2,
    topsJitOptionInfoLogBuffer = 3,
    topsJitOptionInfoLogBufferSizeBytes = 4,
    topsJitOptionErrorLogBuffer = 5,
    topsJitOptionErrorLogBufferSizeBytes = 6,
    topsJitOptionOptimizationLevel = 7,
    topsJitOptionTargetFromContext = 8,
    topsJitOptionTarget = 9,
    topsJitOptionFallbackStrategy = 10,
    topsJitOptionGenerateDebugInfo = 11,
    topsJitOptionLogVerbose = 12,
    topsJitOptionGenerateLineInfo = 13,
    topsJitOptionCacheMode = 14,
    topsJitOptionSm3xOpt = 15,
    topsJitOptionFastCompile = 16,
    topsJitOptionNumOptions = 17,
};
enum topsFuncAttribute {
    topsFuncAttributeMaxDynamicSharedMemorySize = 8,
    topsFuncAttributePreferredSharedMemoryCarveout = 9,
    topsFuncAttributeMax = 10,
};
enum topsFuncCache_t {
    topsFuncCachePreferNone = 0,
    topsFuncCachePreferShared = 1,
    topsFuncCachePreferL1 = 2,
    topsFuncCachePreferEqual = 3,
};
enum topsSharedMemConfig {
    topsSharedMemBankSizeDefault = 0,
    topsSharedMemBankSizeFourByte = 1,
    topsSharedMemBankSizeEightByte = 2,
};
enum topsLaunchAttributeID {
    topsLaunchAttributeIgnore = 0,
    topsLaunchAttributeCooperative = 2,
    topsLaunchAttributeThreadDimension = 4,
};
enum topsMemoryAdvise {
    topsMemAdviseSetReadMostly = 1,
    topsMemAdviseUnsetReadMostly = 2,
    topsMemAdviseSetPreferredLocation = 3,
    topsMemAdviseUnsetPreferredLocation = 4,
    topsMemAdviseSetAccessedBy = 5,
    topsMemAdviseUnsetAccessedBy = 6,
    topsMemAdviseSetCoarseGrain = 100,
    topsMemAdviseUnsetCoarseGrain = 101,
};
enum topsMemRangeCoherencyMode {
    topsMemRangeCoherencyModeFineGrain = 0,
    topsMemRangeCoherencyModeCoarseGrain = 1,
    topsMemRangeCoherencyModeIndeterminate = 2,
};
enum topsMemRangeAttribute {
    topsMemRangeAttributeReadMostly = 1,
    topsMemRangeAttributePreferredLocation = 2,
    topsMemRangeAttributeAccessedBy = 3,
    topsMemRangeAttributeLastPrefetchLocation = 4,
    topsMemRangeAttributeCoherencyMode = 100,
};
enum topsMemPoolAttr {
    topsMemPoolReuseFollowEventDependencies = 1,
    topsMemPoolReuseAllowOpportunistic = 2,
    topsMemPoolReuseAllowInternalDependencies = 3,
    topsMemPoolAttrReleaseThreshold = 4,
    topsMemPoolAttrReservedMemCurrent = 5,
    topsMemPoolAttrReservedMemHigh = 6,
    topsMemPoolAttrUsedMemCurrent = 7,
    topsMemPoolAttrUsedMemHigh = 8,
};
enum topsMemLocationType {
    topsMemLocationTypeInvalid = 0,
    topsMemLocationTypeDevice = 1,
};
enum topsMemAccessFlags {
    topsMemAccessFlagsProtNone = 0,
    topsMemAccessFlagsProtRead = 1,
    topsMemAccessFlagsProtReadWrite = 3,
};
enum topsMemAllocationType {
    topsMemAllocationTypeInvalid = 0,
    topsMemAllocationTypePinned = 1,
    topsMemAllocationTypeMax = 2147483647,
};
enum topsMemAllocationHandleType {
    topsMemHandleTypeNone = 0,
    topsMemHandleTypePosixFileDescriptor = 1,
    topsMemHandleTypeWin32 = 2,
    topsMemHandleTypeWin32Kmt = 4,
};
enum topsResLocMode {
    TOPS_RES_LOC__SAME = 0,
    TOPS_RES_LOC__DIST = 1,
};
enum topsHbmPolicy {
    TOPS_HBM_POLICY__BEST_FIT = 0,
    TOPS_HBM_POLICY__AFFINITY_ONLY = 1,
    TOPS_HBM_POLICY__NONE = 2,
};
enum topsResBundlMode {
    TOPS_RES_BUNDLE_MODE__UNKNOWN = 0,
    TOPS_RES_BUNDLE_MODE__DEVICE = 1,
    TOPS_RES_BUNDLE_MODE__CLUSTER = 2,
    TOPS_RES_BUNDLE_MODE__VG = 3,
    TOPS_RES_BUNDLE_MODE__PG = 4,
    TOPS_RES_BUNDLE_MODE__USER = 5,
};
enum topsExecutableInfoType_t {
    topsExecutableInfoInputCount = 0,
    topsExecutableInfoOutputCount = 1,
    topsExecutableInfoInputSizeList = 2,
    topsExecutableInfoOutputSizeList = 3,
    topsExecutableInfoInputRank = 4,
    topsExecutableInfoInputDimsList = 5,
    topsExecutableInfoOutputRank = 6,
    topsExecutableInfoOutputDimsList = 7,
    topsExecutableInfoInputDataTypeList = 8,
    topsExecutableInfoOutputDataTypeList = 9,
    topsExecutableInfoTensorTableSize = 10,
    topsExecutableInfoInputMinDimsList = 11,
    topsExecutableInfoInputMaxDimsList = 12,
    topsExecutableInfoOutputMaxDimsList = 13,
    topsExecutableInfoBlockCount = 14,
    topsExecutableInfoInputBankList = 15,
    topsExecutableInfoOutputBankList = 16,
    topsExecutableInfoThreadNumberPerBlock = 17,
};
enum topsResourceBundleInfoType_t {
    topsResourceBundleProcessorCount = 0,
};
namespace atops::bare {
enum topsReduceOpType {
    REDUCE_SUM = 0,
    REDUCE_PROD = 1,
    REDUCE_MAX = 2,
    REDUCE_MIN = 3,
    REDUCE_UNKNOW = 4,
};
}
using atops::bare::topsReduceOpType;
namespace atops::bare {
enum topsReduceDataType {
    INT8 = 0,
    CHAR = 0,
    UINT8 = 1,
    INT32 = 2,
    INT = 2,
    UINT32 = 3,
    INT64 = 4,
    UINT64 = 5,
    FLOAT16 = 6,
    HALF = 6,
    FLOAT32 = 7,
    FLOAT = 7,
    LFLOAT64 = 8,
    DOUBLE = 8,
    BFLOAT16 = 9,
    UNKNOW = 10,
};
}
using atops::bare::topsReduceDataType;
namespace atops::bare {
enum topsExtExecutableSectionHeaderType_t {
    SHT_NULL_ = 0,
    SHT_HEADER = 1,
    SHT_RESOURCE = 2,
    SHT_INPUT = 3,
    SHT_OUT = 4,
    SHT_CONSTANT = 5,
    SHT_SIPCODE = 6,
    SHT_SIP_FUNC_PARAM = 7,
    SHT_SIP_FUNC_PARAM_UPDATE = 8,
    SHT_STREAM = 9,
    SHT_PACKET = 10,
    SHT_PACKET_UPDATE = 11,
    SHT_CLUSTER = 12,
    SHT_JITBINARY = 13,
    SHT_CPU_FUNC_PARAM = 14,
    SHT_CPU_FUNC_DATA = 15,
    SHT_CPU_FUNCTION = 16,
    SHT_PROFILE = 17,
    SHT_HOST_CONST = 18,
    SHT_TASK = 19,
    SHT_SIP_CALLBACK = 20,
    SHT_TARGET_RESOURCE = 21,
    SHT_TENSOR_TABLE = 22,
    SHT_KERNEL_ASSERT_INFO = 23,
    SHT_RAND_STATE = 24,
    SHT_HOST_PROGRAM = 25,
    SHT_RODATA = 26,
    SHT_MANAGED_CONSTANT = 27,
    SHT_USER5 = 28,
    SHT_USER6 = 29,
    SHT_USER7 = 30,
    SHT_USER8 = 31,
    SHT_USER9 = 32,
    SHT_LAST_TYPE = 33,
};
}
using atops::bare::topsExtExecutableSectionHeaderType_t;
enum topsGraphNodeType {
    topsGraphNodeTypeKernel = 1,
    topsGraphNodeTypeMemcpy = 2,
    topsGraphNodeTypeMemset = 3,
    topsGraphNodeTypeHost = 4,
    topsGraphNodeTypeGraph = 5,
    topsGraphNodeTypeEmpty = 6,
    topsGraphNodeTypeWaitEvent = 7,
    topsGraphNodeTypeEventRecord = 8,
    topsGraphNodeTypeMemcpy1D = 9,
    topsGraphNodeTypeMemcpyFromSymbol = 10,
    topsGraphNodeTypeMemcpyToSymbol = 11,
    topsGraphNodeTypeCount = 12,
};
enum topsGraphExecUpdateResult {
    topsGraphExecUpdateSuccess = 0,
    topsGraphExecUpdateError = 1,
    topsGraphExecUpdateErrorTopologyChanged = 2,
    topsGraphExecUpdateErrorNodeTypeChanged = 3,
    topsGraphExecUpdateErrorFunctionChanged = 4,
    topsGraphExecUpdateErrorParametersChanged = 5,
    topsGraphExecUpdateErrorNotSupported = 6,
    topsGraphExecUpdateErrorUnsupportedFunctionChange = 7,
};
enum topsStreamCaptureMode {
    topsStreamCaptureModeGlobal = 0,
    topsStreamCaptureModeThreadLocal = 1,
    topsStreamCaptureModeRelaxed = 2,
};
enum topsStreamCaptureStatus {
    topsStreamCaptureStatusNone = 0,
    topsStreamCaptureStatusActive = 1,
    topsStreamCaptureStatusInvalidated = 2,
};
enum topsStreamUpdateCaptureDependenciesFlags {
    topsStreamAddCaptureDependencies = 0,
    topsStreamSetCaptureDependencies = 1,
};

typedef struct topsStream_handle *topsStream_t;
typedef struct topsEvent_handle *topsEvent_t;
typedef struct topsModule_handle *topsModule_t;
typedef struct topsFunction_handle *topsFunction_t;
typedef struct topsExecutable_handle *topsExecutable_t;
typedef struct topsResource_handle *topsResource_t;
typedef struct topsrtcProgram_handle *topsrtcProgram;
typedef int topsDevice_t;
typedef void *topsDeviceptr_t;
typedef void (*topsStreamCallback_t)(topsStream_t stream, topsError_t status, void *userData);
struct topsIpcMemHandle_t {
    char reserved[64];
};
static_assert(sizeof(topsIpcMemHandle_t) == 64);
struct topsIpcEventHandle_t {
    char reserved[64];
};
static_assert(sizeof(topsIpcEventHandle_t) == 64);
struct topsShape_t {
    int rank;
    int dims[8];
};
static_assert(sizeof(topsShape_t) == 36);
struct topsDeviceProp_t {
    char name[256];
    size_t totalGlobalMem;
    size_t sharedMemPerBlock;
    int maxThreadsPerBlock;
    int maxThreadsDim[3];
    int maxGridSize[3];
    int clockRate;
    int memoryClockRate;
    int memoryBusWidth;
    int major;
    int minor;
    int multiProcessorCount;
    int maxThreadsPerMultiProcessor;
    int computeMode;
    int clockInstructionRate;
    int arch;
    int concurrentKernels;
    int pciDomainID;
    int pciBusID;
    int pciDeviceID;
    size_t maxSharedMemoryPerMultiProcessor;
    int canMapHostMemory;
    char gcuArchName[256];
    int cooperativeLaunch;
    int cooperativeMultiDeviceLaunch;
    int kernelExecTimeoutEnabled;
    int ECCEnabled;
    int isLargeBar;
    int managedMemory;
    int directManagedMemAccessFromHost;
    int concurrentManagedAccess;
    int pageableMemoryAccess;
    int unifiedAddressing;
    int mc_channel;
    size_t localMemPerThread;
    char localUuidId[16];
    char remoteUuidId[96];
};
static_assert(sizeof(topsDeviceProp_t) == 792);
struct topsPointerAttribute_t {
    int memoryType;
    int device;
    void *device_pointer;
    void *host_pointer;
    int isManaged;
    unsigned allocationFlags;
};
static_assert(sizeof(topsPointerAttribute_t) == 32);
struct topsKernelDescriptor_t {
    unsigned kernarg_size;
    unsigned shared_mem_size;
    unsigned cdma_vc_num[4];
    unsigned sdma_vc_num;
    unsigned sip_mbx_num;
    unsigned char factor;
    unsigned sip_code_offset;
    unsigned exception_offset;
    unsigned sip_mode;
    unsigned stack_size;
    unsigned kernarg_readonly_num;
    unsigned kernarg_writable_num;
    unsigned global_gsync_entry_count;
    unsigned global_gsync_counter_count;
    unsigned shared_gsync_entry_count;
    unsigned shared_gsync_counter_count;
    unsigned shared_queue_count;
    unsigned shared_latch_count;
    unsigned shared_barrier_count;
    unsigned shared_mutex_count;
    unsigned global_queue_count;
    unsigned global_latch_count;
    unsigned global_barrier_count;
    unsigned global_mutex_count;
};
static_assert(sizeof(topsKernelDescriptor_t) == 108);
struct topsExtLaunchParams_t {
    unsigned cluster_id;
    void *func;
    size_t code_size;
    void *args;
    size_t args_size;
    void *rodata;
    size_t rodata_size;
    void *tensor_table;
    size_t tensor_table_size;
    size_t debug_id;
    topsKernelDescriptor_t descriptor;
    size_t update_count;
    size_t update_offset;
};
static_assert(sizeof(topsExtLaunchParams_t) == 208);
struct topsFuncAttributes {
    int binaryVersion;
    int cacheModeCA;
    size_t constSizeBytes;
    size_t localSizeBytes;
    unsigned maxDynamicSharedSizeBytes;
    int maxThreadsPerBlock;
    int numRegs;
    int preferredShmemCarveout;
    int ptxVersion;
    size_t sharedSizeBytes;
};
static_assert(sizeof(topsFuncAttributes) == 56);
struct topsResourceBundle_t {
    int mode;
    size_t sys_mem_size;
    size_t hbm_mem_size;
    int hbm_policy;
    unsigned hcve_num;
    int hcve_loc;
    unsigned vdec_core_num;
    union {
        struct { unsigned cluster_num; };
        struct { unsigned sip_num; unsigned cdma_num; unsigned cdma_vc_num; };
        struct { unsigned pg_mask; };
    };
};
static_assert(sizeof(topsResourceBundle_t) == 56);
struct topsResourceRequest_t {
    size_t cluster_count;
    unsigned char compute_res_claim;
    bool need_alloc_cluster;
    bool mem_alloc_affinity_only;
    union { topsResourceBundle_t res_bundle_cfg; char res_bundle_cfg_bytes[512]; };
};
static_assert(sizeof(topsResourceRequest_t) == 528);
struct topsResourceRequestV2_t {
    size_t reserved_threads;
};
static_assert(sizeof(topsResourceRequestV2_t) == 8);
struct topsExtExecutableSectionInfo_t {
    long index;
    size_t sh_type;
    size_t size;
    size_t device_load_size;
    size_t offset_in_exe;
    size_t loaded_address;
    size_t key;
    bool is_sub_section;
};
static_assert(sizeof(topsExtExecutableSectionInfo_t) == 64);
constexpr unsigned topsStreamDefault = 0;
constexpr unsigned topsStreamNonBlocking = 1;
constexpr unsigned topsStreamCallbackBlocking = 2;
constexpr unsigned topsStreamNonMerging = 4;
constexpr unsigned topsEventDefault = 0;
constexpr unsigned topsEventBlockingSync = 1;
constexpr unsigned topsEventDisableTiming = 2;
constexpr unsigned topsEventInterprocess = 4;
constexpr unsigned topsEventRecordOnce = 8;
constexpr unsigned topsEventStrongOrder = 16;
constexpr unsigned topsEventDisableQueryAndSync = 32;
constexpr unsigned topsEventReleaseToDevice = 1073741824;
constexpr unsigned topsEventReleaseToSystem = 2147483648u;
constexpr unsigned topsStreamWaitValueGte = 0;
constexpr unsigned topsStreamWaitValueEq = 1;
constexpr unsigned topsStreamWaitValueAnd = 2;
constexpr unsigned topsStreamWaitValueNor = 3;
#define topsStreamPerThread (reinterpret_cast<topsStream_t>(2))
constexpr unsigned topsHostMallocDefault = 0;
constexpr unsigned topsHostMallocPortable = 1;
constexpr unsigned topsHostMallocMapped = 2;
constexpr unsigned topsHostMallocWriteCombined = 4;
constexpr unsigned topsHostMallocNumaUser = 536870912;
constexpr unsigned topsHostMallocCoherent = 1073741824;
constexpr unsigned topsHostMallocNonCoherent = 2147483648u;
constexpr unsigned topsMemAttachGlobal = 1;
constexpr unsigned topsMemAttachHost = 2;
constexpr unsigned topsMemAttachSingle = 4;
constexpr unsigned topsDeviceMallocDefault = 0;
constexpr unsigned topsDeviceMallocFinegrained = 1;
constexpr unsigned topsMallocSignalMemory = 2;
constexpr unsigned topsMallocTopDown = 4;
constexpr unsigned topsMallocForbidMergeMove = 8;
constexpr unsigned topsMallocPreferHighSpeedMem = 16;
constexpr unsigned topsMallocHostAccessable = 32;
constexpr unsigned topsHostRegisterDefault = 0;
constexpr unsigned topsHostRegisterPortable = 1;
constexpr unsigned topsHostRegisterMapped = 2;
constexpr unsigned topsHostRegisterIoMemory = 4;
constexpr unsigned topsExtHostRegisterCoarseGrained = 8;
constexpr unsigned topsArrayDefault = 0;
constexpr unsigned topsArrayLayered = 1;
constexpr unsigned topsArraySurfaceLoadStore = 2;
constexpr unsigned topsArrayCubemap = 4;
constexpr unsigned topsArrayTextureGather = 8;
constexpr unsigned topsDeviceScheduleAuto = 0;
constexpr unsigned topsDeviceScheduleSpin = 1;
constexpr unsigned topsDeviceScheduleYield = 2;
constexpr unsigned topsDeviceScheduleBlockingSync = 4;
constexpr unsigned topsDeviceScheduleMask = 7;
constexpr unsigned topsDeviceMapHost = 8;
constexpr unsigned topsDeviceLmemResizeToMax = 22;
constexpr unsigned topsOccupancyDefault = 0;
constexpr unsigned topsCooperativeLaunchMultiDeviceNoPreSync = 1;
constexpr unsigned topsCooperativeLaunchMultiDeviceNoPostSync = 2;
constexpr int topsCpuDeviceId = -1;
constexpr int topsInvalidDeviceId = -2;
constexpr unsigned topsExtAnyOrderLaunch = 1;
#define TOPS_LAUNCH_PARAM_BUFFER_POINTER (reinterpret_cast<void *>(1))
#define TOPS_LAUNCH_PARAM_BUFFER_SIZE (reinterpret_cast<void *>(2))
#define TOPS_LAUNCH_PARAM_END (reinterpret_cast<void *>(3))
constexpr unsigned topsIpcMemLazyEnablePeerAccess = 0;
constexpr unsigned TOPS_IPC_HANDLE_SIZE = 64;
constexpr unsigned TOPS_SHAPE_INFER_MAX_DIMS = 8;

inline topsError_t topsInit(unsigned int flags) {
    return atops::host_function<topsError_t (*)(unsigned int)>(0, "topsInit")(flags);
}
inline topsError_t topsDriverGetVersion(int *driverVersion) {
    return atops::host_function<topsError_t (*)(int *)>(1, "topsDriverGetVersion")(driverVersion);
}
inline topsError_t topsRuntimeGetVersion(int *runtimeVersion) {
    return atops::host_function<topsError_t (*)(int *)>(2, "topsRuntimeGetVersion")(runtimeVersion);
}
inline topsError_t topsDeviceGet(topsDevice_t *device, int ordinal) {
    return atops::host_function<topsError_t (*)(topsDevice_t *, int)>(3, "topsDeviceGet")(device, ordinal);
}
inline topsError_t topsDeviceComputeCapability(int *major, int *minor, topsDevice_t device) {
    return atops::host_function<topsError_t (*)(int *, int *, topsDevice_t)>(4, "topsDeviceComputeCapability")(major, minor, device);
}
inline topsError_t topsDeviceGetName(char *name, int len, topsDevice_t device) {
    return atops::host_function<topsError_t (*)(char *, int, topsDevice_t)>(5, "topsDeviceGetName")(name, len, device);
}
inline topsError_t topsDeviceGetPCIBusId(char *pciBusId, int len, int device) {
    return atops::host_function<topsError_t (*)(char *, int, int)>(6, "topsDeviceGetPCIBusId")(pciBusId, len, device);
}
inline topsError_t topsDeviceGetByPCIBusId(int *device, const char *pciBusId) {
    return atops::host_function<topsError_t (*)(int *, const char *)>(7, "topsDeviceGetByPCIBusId")(device, pciBusId);
}
inline topsError_t topsDeviceTotalMem(size_t *bytes, topsDevice_t device) {
    return atops::host_function<topsError_t (*)(size_t *, topsDevice_t)>(8, "topsDeviceTotalMem")(bytes, device);
}
inline topsError_t topsDeviceSynchronize() {
    return atops::host_function<topsError_t (*)()>(9, "topsDeviceSynchronize")();
}
inline topsError_t topsDeviceReset() {
    return atops::host_function<topsError_t (*)()>(10, "topsDeviceReset")();
}
inline topsError_t topsSetDevice(int deviceId) {
    return atops::host_function<topsError_t (*)(int)>(11, "topsSetDevice")(deviceId);
}
inline topsError_t topsGetDevice(int *deviceId) {
    return atops::host_function<topsError_t (*)(int *)>(12, "topsGetDevice")(deviceId);
}
inline topsError_t topsGetDeviceCount(int *count) {
    return atops::host_function<topsError_t (*)(int *)>(13, "topsGetDeviceCount")(count);
}
inline topsError_t topsDeviceGetAttribute(int *pi, topsDeviceAttribute_t attr, int deviceId) {
    return atops::host_function<topsError_t (*)(int *, topsDeviceAttribute_t, int)>(14, "topsDeviceGetAttribute")(pi, attr, deviceId);
}
inline topsError_t topsGetDeviceProperties(topsDeviceProp_t *prop, int deviceId) {
    return atops::host_function<topsError_t (*)(topsDeviceProp_t *, int)>(15, "topsGetDeviceProperties")(prop, deviceId);
}
inline topsError_t topsDeviceGetLimit(size_t *pValue, topsLimit_t limit) {
    return atops::host_function<topsError_t (*)(size_t *, topsLimit_t)>(16, "topsDeviceGetLimit")(pValue, limit);
}
inline topsError_t topsGetDeviceFlags(unsigned int *flags) {
    return atops::host_function<topsError_t (*)(unsigned int *)>(17, "topsGetDeviceFlags")(flags);
}
inline topsError_t topsSetDeviceFlags(unsigned flags) {
    return atops::host_function<topsError_t (*)(unsigned)>(18, "topsSetDeviceFlags")(flags);
}
inline topsError_t topsChooseDevice(int *device, const topsDeviceProp_t *prop) {
    return atops::host_function<topsError_t (*)(int *, const topsDeviceProp_t *)>(19, "topsChooseDevice")(device, prop);
}
inline topsError_t topsIpcGetMemHandle(topsIpcMemHandle_t *handle, void *devPtr) {
    return atops::host_function<topsError_t (*)(topsIpcMemHandle_t *, void *)>(20, "topsIpcGetMemHandle")(handle, devPtr);
}
inline topsError_t topsIpcOpenMemHandle(void **devPtr, topsIpcMemHandle_t handle, unsigned int flags) {
    return atops::host_function<topsError_t (*)(void **, topsIpcMemHandle_t, unsigned int)>(21, "topsIpcOpenMemHandle")(devPtr, handle, flags);
}
template <class T> inline topsError_t topsIpcOpenMemHandle(T **devPtr, topsIpcMemHandle_t handle, unsigned int flags = 0) {
    return topsIpcOpenMemHandle(reinterpret_cast<void **>(devPtr), handle, flags);
}
inline topsError_t topsIpcCloseMemHandle(void *devPtr) {
    return atops::host_function<topsError_t (*)(void *)>(22, "topsIpcCloseMemHandle")(devPtr);
}
inline topsError_t topsIpcGetEventHandle(topsIpcEventHandle_t *handle, topsEvent_t event) {
    return atops::host_function<topsError_t (*)(topsIpcEventHandle_t *, topsEvent_t)>(23, "topsIpcGetEventHandle")(handle, event);
}
inline topsError_t topsIpcOpenEventHandle(topsEvent_t *event, topsIpcEventHandle_t handle) {
    return atops::host_function<topsError_t (*)(topsEvent_t *, topsIpcEventHandle_t)>(24, "topsIpcOpenEventHandle")(event, handle);
}
inline topsError_t topsIpcOpenEventHandleExt(topsEvent_t *event, topsIpcEventHandle_t handle, topsTopologyMapType map, int port) {
    return atops::host_function<topsError_t (*)(topsEvent_t *, topsIpcEventHandle_t, topsTopologyMapType, int)>(25, "topsIpcOpenEventHandleExt")(event, handle, map, port);
}
inline topsError_t topsGetLastError() {
    return atops::host_function<topsError_t (*)()>(26, "topsGetLastError")();
}
inline topsError_t topsPeekAtLastError() {
    return atops::host_function<topsError_t (*)()>(27, "topsPeekAtLastError")();
}
inline const char * topsGetErrorName(topsError_t tops_error) {
    return atops::host_function<const char * (*)(topsError_t)>(28, "topsGetErrorName")(tops_error);
}
inline const char * topsGetErrorString(topsError_t topsError) {
    return atops::host_function<const char * (*)(topsError_t)>(29, "topsGetErrorString")(topsError);
}
inline topsError_t topsStreamCreate(topsStream_t *stream) {
    return atops::host_function<topsError_t (*)(topsStream_t *)>(30, "topsStreamCreate")(stream);
}
inline topsError_t topsStreamCreateWithFlags(topsStream_t *stream, unsigned int flags) {
    return atops::host_function<topsError_t (*)(topsStream_t *, unsigned int)>(31, "topsStreamCreateWithFlags")(stream, flags);
}
inline topsError_t topsStreamDestroy(topsStream_t stream) {
    return atops::host_function<topsError_t (*)(topsStream_t)>(32, "topsStreamDestroy")(stream);
}
inline topsError_t topsStreamQuery(topsStream_t stream) {
    return atops::host_function<topsError_t (*)(topsStream_t)>(33, "topsStreamQuery")(stream);
}
inline topsError_t topsStreamSynchronize(topsStream_t stream) {
    return atops::host_function<topsError_t (*)(topsStream_t)>(34, "topsStreamSynchronize")(stream);
}
inline topsError_t topsStreamWaitEvent(topsStream_t stream, topsEvent_t event, unsigned int flags) {
    return atops::host_function<topsError_t (*)(topsStream_t, topsEvent_t, unsigned int)>(35, "topsStreamWaitEvent")(stream, event, flags);
}
inline topsError_t topsStreamAddCallback(topsStream_t stream, topsStreamCallback_t callback, void *userData, unsigned int flags) {
    return atops::host_function<topsError_t (*)(topsStream_t, topsStreamCallback_t, void *, unsigned int)>(36, "topsStreamAddCallback")(stream, callback, userData, flags);
}
inline topsError_t topsStreamWriteValue32(topsDeviceptr_t dst, int value, unsigned int flags) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, int, unsigned int)>(37, "topsStreamWriteValue32")(dst, value, flags);
}
inline topsError_t topsStreamWriteValue32Async(topsDeviceptr_t dst, int value, unsigned int flags, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, int, unsigned int, topsStream_t)>(38, "topsStreamWriteValue32Async")(dst, value, flags, stream);
}
inline topsError_t topsStreamWaitValue32(topsDeviceptr_t dst, int value, unsigned int flags) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, int, unsigned int)>(39, "topsStreamWaitValue32")(dst, value, flags);
}
inline topsError_t topsStreamWaitValue32Async(topsDeviceptr_t dst, int value, unsigned int flags, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, int, unsigned int, topsStream_t)>(40, "topsStreamWaitValue32Async")(dst, value, flags, stream);
}
inline topsError_t topsEventCreateWithFlags(topsEvent_t *event, unsigned flags) {
    return atops::host_function<topsError_t (*)(topsEvent_t *, unsigned)>(41, "topsEventCreateWithFlags")(event, flags);
}
inline topsError_t topsEventCreate(topsEvent_t *event) {
    return atops::host_function<topsError_t (*)(topsEvent_t *)>(42, "topsEventCreate")(event);
}
inline topsError_t topsEventRecord(topsEvent_t event, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsEvent_t, topsStream_t)>(43, "topsEventRecord")(event, stream);
}
inline topsError_t topsEventDestroy(topsEvent_t event) {
    return atops::host_function<topsError_t (*)(topsEvent_t)>(44, "topsEventDestroy")(event);
}
inline topsError_t topsEventSynchronize(topsEvent_t event) {
    return atops::host_function<topsError_t (*)(topsEvent_t)>(45, "topsEventSynchronize")(event);
}
inline topsError_t topsEventElapsedTime(float *ms, topsEvent_t start, topsEvent_t stop) {
    return atops::host_function<topsError_t (*)(float *, topsEvent_t, topsEvent_t)>(46, "topsEventElapsedTime")(ms, start, stop);
}
inline topsError_t topsEventQuery(topsEvent_t event) {
    return atops::host_function<topsError_t (*)(topsEvent_t)>(47, "topsEventQuery")(event);
}
inline topsError_t topsPointerGetAttributes(topsPointerAttribute_t *attributes, const void *ptr) {
    return atops::host_function<topsError_t (*)(topsPointerAttribute_t *, const void *)>(48, "topsPointerGetAttributes")(attributes, ptr);
}
inline topsError_t topsPointerGetAttribute(void *data, topsPointer_attribute attribute, topsDeviceptr_t ptr) {
    return atops::host_function<topsError_t (*)(void *, topsPointer_attribute, topsDeviceptr_t)>(49, "topsPointerGetAttribute")(data, attribute, ptr);
}
inline topsError_t topsDrvPointerGetAttributes(unsigned int numAttributes, topsPointer_attribute *attributes, void **data, topsDeviceptr_t ptr) {
    return atops::host_function<topsError_t (*)(unsigned int, topsPointer_attribute *, void **, topsDeviceptr_t)>(50, "topsDrvPointerGetAttributes")(numAttributes, attributes, data, ptr);
}
inline topsError_t topsMalloc(void **ptr, size_t size) {
    return atops::host_function<topsError_t (*)(void **, size_t)>(51, "topsMalloc")(ptr, size);
}
template <class T> inline topsError_t topsMalloc(T **ptr, size_t size) {
    return topsMalloc(reinterpret_cast<void **>(ptr), size);
}
inline topsError_t topsExtCodecMemHandle(void **pointer, uint64_t dev_addr, size_t size) {
    return atops::host_function<topsError_t (*)(void **, uint64_t, size_t)>(52, "topsExtCodecMemHandle")(pointer, dev_addr, size);
}
template <class T> inline topsError_t topsExtCodecMemHandle(T **pointer, uint64_t dev_addr, size_t size) {
    return topsExtCodecMemHandle(reinterpret_cast<void **>(pointer), dev_addr, size);
}
inline topsError_t topsExtMallocWithFlags(void **ptr, size_t sizeBytes, unsigned int flags) {
    return atops::host_function<topsError_t (*)(void **, size_t, unsigned int)>(53, "topsExtMallocWithFlags")(ptr, sizeBytes, flags);
}
template <class T> inline topsError_t topsExtMallocWithFlags(T **ptr, size_t sizeBytes, unsigned int flags = 0) {
    return topsExtMallocWithFlags(reinterpret_cast<void **>(ptr), sizeBytes, flags);
}
inline topsError_t topsHostMalloc(void **ptr, size_t size, unsigned int flags) {
    return atops::host_function<topsError_t (*)(void **, size_t, unsigned int)>(54, "topsHostMalloc")(ptr, size, flags);
}
template <class T> inline topsError_t topsHostMalloc(T **ptr, size_t size, unsigned int flags = 0) {
    return topsHostMalloc(reinterpret_cast<void **>(ptr), size, flags);
}
inline topsError_t topsHostGetDevicePointer(void **devPtr, void *hostPtr, unsigned int flags) {
    return atops::host_function<topsError_t (*)(void **, void *, unsigned int)>(55, "topsHostGetDevicePointer")(devPtr, hostPtr, flags);
}
template <class T> inline topsError_t topsHostGetDevicePointer(T **devPtr, void *hostPtr, unsigned int flags = 0) {
    return topsHostGetDevicePointer(reinterpret_cast<void **>(devPtr), hostPtr, flags);
}
inline topsError_t topsHostGetFlags(unsigned int *flagsPtr, void *hostPtr) {
    return atops::host_function<topsError_t (*)(unsigned int *, void *)>(56, "topsHostGetFlags")(flagsPtr, hostPtr);
}
inline topsError_t topsHostRegister(void *hostPtr, size_t sizeBytes, unsigned int flags) {
    return atops::host_function<topsError_t (*)(void *, size_t, unsigned int)>(57, "topsHostRegister")(hostPtr, sizeBytes, flags);
}
inline topsError_t topsHostUnregister(void *hostPtr) {
    return atops::host_function<topsError_t (*)(void *)>(58, "topsHostUnregister")(hostPtr);
}
inline topsError_t topsFree(void *ptr) {
    return atops::host_function<topsError_t (*)(void *)>(59, "topsFree")(ptr);
}
inline topsError_t topsHostFree(void *ptr) {
    return atops::host_function<topsError_t (*)(void *)>(60, "topsHostFree")(ptr);
}
inline topsError_t topsMemcpy(void *dst, const void *src, size_t sizeBytes, topsMemcpyKind kind) {
    return atops::host_function<topsError_t (*)(void *, const void *, size_t, topsMemcpyKind)>(61, "topsMemcpy")(dst, src, sizeBytes, kind);
}
inline topsError_t topsMemcpyWithStream(void *dst, const void *src, size_t sizeBytes, topsMemcpyKind kind, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(void *, const void *, size_t, topsMemcpyKind, topsStream_t)>(62, "topsMemcpyWithStream")(dst, src, sizeBytes, kind, stream);
}
inline topsError_t topsMemcpyHtoD(topsDeviceptr_t dst, void *src, size_t sizeBytes) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, void *, size_t)>(63, "topsMemcpyHtoD")(dst, src, sizeBytes);
}
inline topsError_t topsMemcpyDtoH(void *dst, topsDeviceptr_t src, size_t sizeBytes) {
    return atops::host_function<topsError_t (*)(void *, topsDeviceptr_t, size_t)>(64, "topsMemcpyDtoH")(dst, src, sizeBytes);
}
inline topsError_t topsMemcpyDtoD(topsDeviceptr_t dst, topsDeviceptr_t src, size_t sizeBytes) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, topsDeviceptr_t, size_t)>(65, "topsMemcpyDtoD")(dst, src, sizeBytes);
}
inline topsError_t topsMemcpyHtoDAsync(topsDeviceptr_t dst, void *src, size_t sizeBytes, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, void *, size_t, topsStream_t)>(66, "topsMemcpyHtoDAsync")(dst, src, sizeBytes, stream);
}
inline topsError_t topsMemcpyDtoHAsync(void *dst, topsDeviceptr_t src, size_t sizeBytes, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(void *, topsDeviceptr_t, size_t, topsStream_t)>(67, "topsMemcpyDtoHAsync")(dst, src, sizeBytes, stream);
}
inline topsError_t topsMemcpyDtoDAsync(topsDeviceptr_t dst, topsDeviceptr_t src, size_t sizeBytes, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, topsDeviceptr_t, size_t, topsStream_t)>(68, "topsMemcpyDtoDAsync")(dst, src, sizeBytes, stream);
}
inline topsError_t topsModuleGetGlobal(topsDeviceptr_t *dptr, size_t *bytes, topsModule_t hmod, const char *name) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t *, size_t *, topsModule_t, const char *)>(69, "topsModuleGetGlobal")(dptr, bytes, hmod, name);
}
inline topsError_t topsGetSymbolAddress(void **devPtr, const void *symbol) {
    return atops::host_function<topsError_t (*)(void **, const void *)>(70, "topsGetSymbolAddress")(devPtr, symbol);
}
template <class T> inline topsError_t topsGetSymbolAddress(T **devPtr, const void *symbol) {
    return topsGetSymbolAddress(reinterpret_cast<void **>(devPtr), symbol);
}
inline topsError_t topsGetSymbolSize(size_t *size, const void *symbol) {
    return atops::host_function<topsError_t (*)(size_t *, const void *)>(71, "topsGetSymbolSize")(size, symbol);
}
inline topsError_t topsMemcpyToSymbol(const void *symbol, const void *src, size_t sizeBytes, size_t offset = 0, topsMemcpyKind kind = topsMemcpyHostToDevice) {
    return atops::host_function<topsError_t (*)(const void *, const void *, size_t, size_t, topsMemcpyKind)>(72, "topsMemcpyToSymbol")(symbol, src, sizeBytes, offset, kind);
}
inline topsError_t topsMemcpyToSymbolAsync(const void *symbol, const void *src, size_t sizeBytes, size_t offset, topsMemcpyKind kind, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(const void *, const void *, size_t, size_t, topsMemcpyKind, topsStream_t)>(73, "topsMemcpyToSymbolAsync")(symbol, src, sizeBytes, offset, kind, stream);
}
inline topsError_t topsMemcpyFromSymbol(void *dst, const void *symbol, size_t sizeBytes, size_t offset = 0, topsMemcpyKind kind = topsMemcpyDeviceToHost) {
    return atops::host_function<topsError_t (*)(void *, const void *, size_t, size_t, topsMemcpyKind)>(74, "topsMemcpyFromSymbol")(dst, symbol, sizeBytes, offset, kind);
}
inline topsError_t topsMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t sizeBytes, size_t offset, topsMemcpyKind kind, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(void *, const void *, size_t, size_t, topsMemcpyKind, topsStream_t)>(75, "topsMemcpyFromSymbolAsync")(dst, symbol, sizeBytes, offset, kind, stream);
}
inline topsError_t topsMemcpyAsync(void *dst, const void *src, size_t sizeBytes, topsMemcpyKind kind, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(void *, const void *, size_t, topsMemcpyKind, topsStream_t)>(76, "topsMemcpyAsync")(dst, src, sizeBytes, kind, stream);
}
inline topsError_t topsMemset(void *dst, int value, size_t sizeBytes) {
    return atops::host_function<topsError_t (*)(void *, int, size_t)>(77, "topsMemset")(dst, value, sizeBytes);
}
inline topsError_t topsMemsetD8(topsDeviceptr_t dest, unsigned char value, size_t count) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, unsigned char, size_t)>(78, "topsMemsetD8")(dest, value, count);
}
inline topsError_t topsMemsetD8Async(topsDeviceptr_t dest, unsigned char value, size_t count, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, unsigned char, size_t, topsStream_t)>(79, "topsMemsetD8Async")(dest, value, count, stream);
}
inline topsError_t topsMemsetD16(topsDeviceptr_t dest, unsigned short value, size_t count) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, unsigned short, size_t)>(80, "topsMemsetD16")(dest, value, count);
}
inline topsError_t topsMemsetD16Async(topsDeviceptr_t dest, unsigned short value, size_t count, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, unsigned short, size_t, topsStream_t)>(81, "topsMemsetD16Async")(dest, value, count, stream);
}
inline topsError_t topsMemsetD32(topsDeviceptr_t dest, int value, size_t count) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, int, size_t)>(82, "topsMemsetD32")(dest, value, count);
}
inline topsError_t topsMemsetAsync(void *dst, int value, size_t sizeBytes, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(void *, int, size_t, topsStream_t)>(83, "topsMemsetAsync")(dst, value, sizeBytes, stream);
}
inline topsError_t topsMemsetD32Async(topsDeviceptr_t dst, int value, size_t count, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, int, size_t, topsStream_t)>(84, "topsMemsetD32Async")(dst, value, count, stream);
}
inline topsError_t topsMemGetInfo(size_t *free, size_t *total) {
    return atops::host_function<topsError_t (*)(size_t *, size_t *)>(85, "topsMemGetInfo")(free, total);
}
inline topsError_t topsMemPtrGetInfo(void *ptr, size_t *size) {
    return atops::host_function<topsError_t (*)(void *, size_t *)>(86, "topsMemPtrGetInfo")(ptr, size);
}
inline topsError_t topsMemGetAddressRange(topsDeviceptr_t *pbase, size_t *psize, topsDeviceptr_t dptr) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t *, size_t *, topsDeviceptr_t)>(87, "topsMemGetAddressRange")(pbase, psize, dptr);
}
inline topsError_t topsDeviceCanAccessPeer(int *canAccess, int deviceId, int peerDeviceId) {
    return atops::host_function<topsError_t (*)(int *, int, int)>(88, "topsDeviceCanAccessPeer")(canAccess, deviceId, peerDeviceId);
}
inline topsError_t topsDeviceEnablePeerAccess(int peerDeviceId, unsigned int flags) {
    return atops::host_function<topsError_t (*)(int, unsigned int)>(89, "topsDeviceEnablePeerAccess")(peerDeviceId, flags);
}
inline topsError_t topsDeviceEnablePeerAccessRegion(int peerDeviceId, void *peerDevPtr, size_t size, void **devPtr) {
    return atops::host_function<topsError_t (*)(int, void *, size_t, void **)>(90, "topsDeviceEnablePeerAccessRegion")(peerDeviceId, peerDevPtr, size, devPtr);
}
inline topsError_t topsDeviceDisablePeerAccessRegion(int peerDeviceId, void *peerDevPtr, size_t size) {
    return atops::host_function<topsError_t (*)(int, void *, size_t)>(91, "topsDeviceDisablePeerAccessRegion")(peerDeviceId, peerDevPtr, size);
}
inline topsError_t topsMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t sizeBytes) {
    return atops::host_function<topsError_t (*)(void *, int, const void *, int, size_t)>(92, "topsMemcpyPeer")(dst, dstDevice, src, srcDevice, sizeBytes);
}
inline topsError_t topsMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t sizeBytes, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(void *, int, const void *, int, size_t, topsStream_t)>(93, "topsMemcpyPeerAsync")(dst, dstDevice, src, srcDevice, sizeBytes, stream);
}
inline topsError_t topsMemcpyPeerExt(void *dst, int dstDevice, const void *src, int srcDevice, size_t sizeBytes, topsTopologyMapType map, int port) {
    return atops::host_function<topsError_t (*)(void *, int, const void *, int, size_t, topsTopologyMapType, int)>(94, "topsMemcpyPeerExt")(dst, dstDevice, src, srcDevice, sizeBytes, map, port);
}
inline topsError_t topsMemcpyPeerExtAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t sizeBytes, topsTopologyMapType map, int port, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(void *, int, const void *, int, size_t, topsTopologyMapType, int, topsStream_t)>(95, "topsMemcpyPeerExtAsync")(dst, dstDevice, src, srcDevice, sizeBytes, map, port, stream);
}
inline topsError_t topsModuleLoad(topsModule_t *module, const char *fname) {
    return atops::host_function<topsError_t (*)(topsModule_t *, const char *)>(96, "topsModuleLoad")(module, fname);
}
inline topsError_t topsModuleUnload(topsModule_t module) {
    return atops::host_function<topsError_t (*)(topsModule_t)>(97, "topsModuleUnload")(module);
}
inline topsError_t topsModuleGetFunction(topsFunction_t *function, topsModule_t module, const char *kname) {
    return atops::host_function<topsError_t (*)(topsFunction_t *, topsModule_t, const char *)>(98, "topsModuleGetFunction")(function, module, kname);
}
inline topsError_t topsFuncGetAttributes(topsFuncAttributes *attr, const void *func) {
    return atops::host_function<topsError_t (*)(topsFuncAttributes *, const void *)>(99, "topsFuncGetAttributes")(attr, func);
}
inline topsError_t topsFuncGetAttribute(int *value, topsFunction_attribute attrib, topsFunction_t hfunc) {
    return atops::host_function<topsError_t (*)(int *, topsFunction_attribute, topsFunction_t)>(100, "topsFuncGetAttribute")(value, attrib, hfunc);
}
inline topsError_t topsModuleLoadData(topsModule_t *module, const void *image) {
    return atops::host_function<topsError_t (*)(topsModule_t *, const void *)>(101, "topsModuleLoadData")(module, image);
}
inline topsError_t topsModuleLoadDataEx(topsModule_t *module, const void *image, unsigned int numOptions, topsJitOption *options, void **optionValues) {
    return atops::host_function<topsError_t (*)(topsModule_t *, const void *, unsigned int, topsJitOption *, void **)>(102, "topsModuleLoadDataEx")(module, image, numOptions, options, optionValues);
}
inline topsError_t topsModuleLaunchKernel(topsFunction_t f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, topsStream_t stream, void **kernelParams, void **extra) {
    return atops::host_function<topsError_t (*)(topsFunction_t, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, topsStream_t, void **, void **)>(103, "topsModuleLaunchKernel")(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, stream, kernelParams, extra);
}
inline topsError_t topsLaunchCooperativeKernel(const void *f, dim3 gridDim, dim3 blockDimX, void **kernelParams, size_t sharedMemBytes, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(const void *, dim3, dim3, void **, size_t, topsStream_t)>(104, "topsLaunchCooperativeKernel")(f, gridDim, blockDimX, kernelParams, sharedMemBytes, stream);
}
inline topsError_t topsConfigureCall(dim3 gridDim, dim3 blockDim, size_t sharedMem = 0, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(dim3, dim3, size_t, topsStream_t)>(105, "topsConfigureCall")(gridDim, blockDim, sharedMem, stream);
}
inline topsError_t topsSetupArgument(const void *arg, size_t size, size_t offset) {
    return atops::host_function<topsError_t (*)(const void *, size_t, size_t)>(106, "topsSetupArgument")(arg, size, offset);
}
inline topsError_t topsLaunchByPtr(const void *func) {
    return atops::host_function<topsError_t (*)(const void *)>(107, "topsLaunchByPtr")(func);
}
inline topsError_t __topsPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem = 0, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(dim3, dim3, size_t, topsStream_t)>(108, "__topsPushCallConfiguration")(gridDim, blockDim, sharedMem, stream);
}
inline topsError_t __topsPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem, topsStream_t *stream) {
    return atops::host_function<topsError_t (*)(dim3 *, dim3 *, size_t *, topsStream_t *)>(109, "__topsPopCallConfiguration")(gridDim, blockDim, sharedMem, stream);
}
inline topsError_t topsLaunchKernel(const void *function_address, dim3 numBlocks, dim3 dimBlocks, void **args, size_t sharedMemBytes = 0, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(const void *, dim3, dim3, void **, size_t, topsStream_t)>(110, "topsLaunchKernel")(function_address, numBlocks, dimBlocks, args, sharedMemBytes, stream);
}
inline const char * topsrtcGetErrorString(topsrtcResult result) {
    return atops::host_function<const char * (*)(topsrtcResult)>(111, "topsrtcGetErrorString")(result);
}
inline topsrtcResult topsrtcVersion(int *major, int *minor) {
    return atops::host_function<topsrtcResult (*)(int *, int *)>(112, "topsrtcVersion")(major, minor);
}
inline topsrtcResult topsrtcAddNameExpression(topsrtcProgram program, const char *name_expression) {
    return atops::host_function<topsrtcResult (*)(topsrtcProgram, const char *)>(113, "topsrtcAddNameExpression")(program, name_expression);
}
inline topsrtcResult topsrtcCompileProgram(topsrtcProgram program, int num_options, const char **options) {
    return atops::host_function<topsrtcResult (*)(topsrtcProgram, int, const char **)>(114, "topsrtcCompileProgram")(program, num_options, options);
}
inline topsrtcResult topsrtcCreateProgram(topsrtcProgram *program, const char *source, const char *name, int num_headers, const char **headers, const char **include_names) {
    return atops::host_function<topsrtcResult (*)(topsrtcProgram *, const char *, const char *, int, const char **, const char **)>(115, "topsrtcCreateProgram")(program, source, name, num_headers, headers, include_names);
}
inline topsrtcResult topsrtcDestroyProgram(topsrtcProgram *program) {
    return atops::host_function<topsrtcResult (*)(topsrtcProgram *)>(116, "topsrtcDestroyProgram")(program);
}
inline topsrtcResult topsrtcGetLoweredName(topsrtcProgram program, const char *name_expression, const char **lowered_name) {
    return atops::host_function<topsrtcResult (*)(topsrtcProgram, const char *, const char **)>(117, "topsrtcGetLoweredName")(program, name_expression, lowered_name);
}
inline topsrtcResult topsrtcGetProgramLog(topsrtcProgram program, char *log) {
    return atops::host_function<topsrtcResult (*)(topsrtcProgram, char *)>(118, "topsrtcGetProgramLog")(program, log);
}
inline topsrtcResult topsrtcGetProgramLogSize(topsrtcProgram program, size_t *log_size) {
    return atops::host_function<topsrtcResult (*)(topsrtcProgram, size_t *)>(119, "topsrtcGetProgramLogSize")(program, log_size);
}
inline topsrtcResult topsrtcGetCode(topsrtcProgram program, char *code) {
    return atops::host_function<topsrtcResult (*)(topsrtcProgram, char *)>(120, "topsrtcGetCode")(program, code);
}
inline topsrtcResult topsrtcGetCodeSize(topsrtcProgram program, size_t *codeSizeRet) {
    return atops::host_function<topsrtcResult (*)(topsrtcProgram, size_t *)>(121, "topsrtcGetCodeSize")(program, codeSizeRet);
}
inline topsError_t topsMemorySetDims(const void *devPtr, int64_t *dims, size_t dims_count) {
    return atops::host_function<topsError_t (*)(const void *, int64_t *, size_t)>(122, "topsMemorySetDims")(devPtr, dims, dims_count);
}
inline topsError_t topsMemoryGetDims(const void *devPtr, int64_t *dims, size_t *dims_count) {
    return atops::host_function<topsError_t (*)(const void *, int64_t *, size_t *)>(123, "topsMemoryGetDims")(devPtr, dims, dims_count);
}
inline topsError_t topsCreateExecutable(topsExecutable_t *exe, const void *bin, size_t size) {
    return atops::host_function<topsError_t (*)(topsExecutable_t *, const void *, size_t)>(124, "topsCreateExecutable")(exe, bin, size);
}
inline topsError_t topsCreateExecutableFromFile(topsExecutable_t *exe, const char *filepath) {
    return atops::host_function<topsError_t (*)(topsExecutable_t *, const char *)>(125, "topsCreateExecutableFromFile")(exe, filepath);
}
inline topsError_t topsDestroyExecutable(topsExecutable_t exe) {
    return atops::host_function<topsError_t (*)(topsExecutable_t)>(126, "topsDestroyExecutable")(exe);
}
inline topsError_t topsCreateResource(topsResource_t *res, topsResourceRequest_t req) {
    return atops::host_function<topsError_t (*)(topsResource_t *, topsResourceRequest_t)>(127, "topsCreateResource")(res, req);
}
inline topsError_t topsCreateResourceForExecutable(topsResource_t *res, topsExecutable_t exe) {
    return atops::host_function<topsError_t (*)(topsResource_t *, topsExecutable_t)>(128, "topsCreateResourceForExecutable")(res, exe);
}
inline topsError_t topsDestroyResource(topsResource_t res) {
    return atops::host_function<topsError_t (*)(topsResource_t)>(129, "topsDestroyResource")(res);
}
inline topsError_t topsResourceBundleGetAttribute(topsResource_t res, topsResourceBundleInfoType_t type, uint64_t *data) {
    return atops::host_function<topsError_t (*)(topsResource_t, topsResourceBundleInfoType_t, uint64_t *)>(130, "topsResourceBundleGetAttribute")(res, type, data);
}
inline topsError_t topsMallocForResource(void **ptr, size_t size, topsResource_t res) {
    return atops::host_function<topsError_t (*)(void **, size_t, topsResource_t)>(131, "topsMallocForResource")(ptr, size, res);
}
template <class T> inline topsError_t topsMallocForResource(T **ptr, size_t size, topsResource_t res) {
    return topsMallocForResource(reinterpret_cast<void **>(ptr), size, res);
}
inline topsError_t topsLaunchExecutableV2(topsExecutable_t exe, topsResource_t res, void **inputs, size_t input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, topsResource_t, void **, size_t, int64_t *, size_t *, void **, size_t, topsStream_t)>(132, "topsLaunchExecutableV2")(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream);
}
inline topsError_t topsLaunchExecutableV3(topsExecutable_t exe, topsResource_t res, void **inputs, size_t input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, int64_t *output_dims, size_t *output_rank, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, topsResource_t, void **, size_t, int64_t *, size_t *, void **, size_t, int64_t *, size_t *, topsStream_t)>(133, "topsLaunchExecutableV3")(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, output_dims, output_rank, stream);
}
inline topsError_t topsLaunchExecutable(topsExecutable_t exe, topsResource_t res, void **inputs, size_t input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, int64_t *output_dims, size_t *output_rank, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, topsResource_t, void **, size_t, int64_t *, size_t *, void **, size_t, int64_t *, size_t *, topsStream_t)>(134, "topsLaunchExecutable")(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, output_dims, output_rank, stream);
}
inline topsError_t topsLaunchExecutableWithConstData(topsExecutable_t exe, topsResource_t res, void **inputs, size_t input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, int64_t *output_dims, size_t *output_rank, void **const_datas, size_t const_datas_count, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, topsResource_t, void **, size_t, int64_t *, size_t *, void **, size_t, int64_t *, size_t *, void **, size_t, topsStream_t)>(135, "topsLaunchExecutableWithConstData")(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, output_dims, output_rank, const_datas, const_datas_count, stream);
}
inline topsError_t topsLaunchExecutableWithConstDataV2(topsExecutable_t exe, topsResource_t res, void **inputs, size_t input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, void **const_datas, size_t const_datas_count, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, topsResource_t, void **, size_t, int64_t *, size_t *, void **, size_t, void **, size_t, topsStream_t)>(136, "topsLaunchExecutableWithConstDataV2")(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, const_datas, const_datas_count, stream);
}
inline topsError_t topsLaunchExecutableWithConstDataV3(topsExecutable_t exe, topsResource_t res, void **inputs, size_t input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, int64_t *output_dims, size_t *output_rank, void **const_datas, size_t const_datas_count, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, topsResource_t, void **, size_t, int64_t *, size_t *, void **, size_t, int64_t *, size_t *, void **, size_t, topsStream_t)>(137, "topsLaunchExecutableWithConstDataV3")(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, output_dims, output_rank, const_datas, const_datas_count, stream);
}
inline topsError_t topsExecutableGetConstManagedData(topsExecutable_t exe, unsigned int *numOptions, char **name, void **address, uint64_t *size, int64_t *uid, void **flag) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, unsigned int *, char **, void **, uint64_t *, int64_t *, void **)>(138, "topsExecutableGetConstManagedData")(exe, numOptions, name, address, size, uid, flag);
}
inline topsError_t topsExecutableUpdateConstantKey(topsExecutable_t exe) {
    return atops::host_function<topsError_t (*)(topsExecutable_t)>(139, "topsExecutableUpdateConstantKey")(exe);
}
inline topsError_t topsExecutableUpdateRuntimeResource(topsExecutable_t exe, topsResource_t res, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, topsResource_t, topsStream_t)>(140, "topsExecutableUpdateRuntimeResource")(exe, res, stream);
}
inline topsError_t topsExecutableLoadConstData(topsExecutable_t exe, topsResource_t res, void **&dev_ptr, size_t *dev_ptr_count) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, topsResource_t, void **&, size_t *)>(141, "topsExecutableLoadConstData")(exe, res, dev_ptr, dev_ptr_count);
}
inline topsError_t topsExecutableGetSubFuncInfo(topsExecutable_t exe, char **info_raw_data, size_t *info_size, int **param_info, int *param_count) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, char **, size_t *, int **, int *)>(142, "topsExecutableGetSubFuncInfo")(exe, info_raw_data, info_size, param_info, param_count);
}
inline topsError_t topsExecutableGetRefitFlag(topsExecutable_t exe, int *refit_flag) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, int *)>(143, "topsExecutableGetRefitFlag")(exe, refit_flag);
}
inline topsError_t topsExecutableCallSubFunc(topsExecutable_t exe, const char *func_name, void **inputs, size_t input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, const char *, void **, size_t, int64_t *, size_t *, void **, size_t, topsStream_t)>(144, "topsExecutableCallSubFunc")(exe, func_name, inputs, input_count, input_dims, input_rank, outputs, output_count, stream);
}
inline topsError_t topsDeviceSetResource(topsResource_t res) {
    return atops::host_function<topsError_t (*)(topsResource_t)>(145, "topsDeviceSetResource")(res);
}
inline topsError_t topsConstBufferGet(uint64_t hash_key, void *init_data, size_t size, void **ptr, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(uint64_t, void *, size_t, void **, topsStream_t)>(146, "topsConstBufferGet")(hash_key, init_data, size, ptr, stream);
}
inline topsError_t topsConstBufferPut(uint64_t hash_key, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(uint64_t, topsStream_t)>(147, "topsConstBufferPut")(hash_key, stream);
}
inline topsError_t topsExecutableQueryInfo(topsExecutable_t exe, topsExecutableInfoType_t info_type, uint64_t *data) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, topsExecutableInfoType_t, uint64_t *)>(148, "topsExecutableQueryInfo")(exe, info_type, data);
}
inline topsError_t topsExecutableQueryInfoV2(topsExecutable_t exe, topsExecutableInfoType_t info_type, int64_t *data) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, topsExecutableInfoType_t, int64_t *)>(149, "topsExecutableQueryInfoV2")(exe, info_type, data);
}
inline topsError_t topsExecutableQueryInputName(topsExecutable_t exe, int index, char **name) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, int, char **)>(150, "topsExecutableQueryInputName")(exe, index, name);
}
inline topsError_t topsExecutableQueryOutputName(topsExecutable_t exe, int index, char **name) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, int, char **)>(151, "topsExecutableQueryOutputName")(exe, index, name);
}
inline topsError_t topsExecutableSaveToFile(topsExecutable_t exe, const char *path) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, const char *)>(152, "topsExecutableSaveToFile")(exe, path);
}
inline topsError_t topsExtMallocWithBank(void **ptr, size_t size, uint64_t bank) {
    return atops::host_function<topsError_t (*)(void **, size_t, uint64_t)>(153, "topsExtMallocWithBank")(ptr, size, bank);
}
template <class T> inline topsError_t topsExtMallocWithBank(T **ptr, size_t size, uint64_t bank) {
    return topsExtMallocWithBank(reinterpret_cast<void **>(ptr), size, bank);
}
inline topsError_t topsExtMallocWithBankV2(void **ptr, size_t size, uint64_t bank, unsigned int flags) {
    return atops::host_function<topsError_t (*)(void **, size_t, uint64_t, unsigned int)>(154, "topsExtMallocWithBankV2")(ptr, size, bank, flags);
}
template <class T> inline topsError_t topsExtMallocWithBankV2(T **ptr, size_t size, uint64_t bank, unsigned int flags = 0) {
    return topsExtMallocWithBankV2(reinterpret_cast<void **>(ptr), size, bank, flags);
}
inline topsError_t topsExtMallocWithAffinity(void **ptr, size_t size, uint64_t bank, unsigned int flags) {
    return atops::host_function<topsError_t (*)(void **, size_t, uint64_t, unsigned int)>(155, "topsExtMallocWithAffinity")(ptr, size, bank, flags);
}
template <class T> inline topsError_t topsExtMallocWithAffinity(T **ptr, size_t size, uint64_t bank, unsigned int flags = 0) {
    return topsExtMallocWithAffinity(reinterpret_cast<void **>(ptr), size, bank, flags);
}
inline topsError_t topsExtLaunchCooperativeKernelMultiCluster(const topsExtLaunchParams_t *launchParamsList, int numClusters, dim3 gridDim, dim3 blockDim, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(const topsExtLaunchParams_t *, int, dim3, dim3, topsStream_t)>(156, "topsExtLaunchCooperativeKernelMultiCluster")(launchParamsList, numClusters, gridDim, blockDim, stream);
}
inline topsError_t topsExtSetProfileMeta(uint8_t *meta, uint32_t size, int64_t compilation_id) {
    return atops::host_function<topsError_t (*)(uint8_t *, uint32_t, int64_t)>(157, "topsExtSetProfileMeta")(meta, size, compilation_id);
}
inline topsError_t topsScatterMemoryGetInfo(const void *dev_ptr, int index, int64_t *win_pos, size_t *win_size, int64_t *map_ctrl, size_t *map_size) {
    return atops::host_function<topsError_t (*)(const void *, int, int64_t *, size_t *, int64_t *, size_t *)>(158, "topsScatterMemoryGetInfo")(dev_ptr, index, win_pos, win_size, map_ctrl, map_size);
}
inline topsError_t topsScatterMemoryGetSubNum(const void *dev_ptr, size_t *size) {
    return atops::host_function<topsError_t (*)(const void *, size_t *)>(159, "topsScatterMemoryGetSubNum")(dev_ptr, size);
}
inline topsError_t topsMallocScatter(void **ptr, size_t size) {
    return atops::host_function<topsError_t (*)(void **, size_t)>(160, "topsMallocScatter")(ptr, size);
}
template <class T> inline topsError_t topsMallocScatter(T **ptr, size_t size) {
    return topsMallocScatter(reinterpret_cast<void **>(ptr), size);
}
inline topsError_t topsScatterClearSubMemory(const void *dev_ptr) {
    return atops::host_function<topsError_t (*)(const void *)>(161, "topsScatterClearSubMemory")(dev_ptr);
}
inline topsError_t topsScatterSetSubMem(const void *dev_ptr, void *sub_dptr, int64_t *win_pos, size_t win_size, int64_t *map_ctrl, size_t map_size) {
    return atops::host_function<topsError_t (*)(const void *, void *, int64_t *, size_t, int64_t *, size_t)>(162, "topsScatterSetSubMem")(dev_ptr, sub_dptr, win_pos, win_size, map_ctrl, map_size);
}
inline topsError_t topsScatterPopulateSub(const void *dev_ptr, size_t bpe, uint64_t bank, int64_t *dims, int64_t *win_pos, int64_t *map_ctrl, size_t rank_size) {
    return atops::host_function<topsError_t (*)(const void *, size_t, uint64_t, int64_t *, int64_t *, int64_t *, size_t)>(163, "topsScatterPopulateSub")(dev_ptr, bpe, bank, dims, win_pos, map_ctrl, rank_size);
}
inline topsError_t topsScatterInplace(const void *dev_ptr, size_t sub_count, size_t bpe, uint64_t *bank_list, int64_t **dims_list, int64_t **win_pos_list, int64_t **map_ctrl_list, size_t rank_size) {
    return atops::host_function<topsError_t (*)(const void *, size_t, size_t, uint64_t *, int64_t **, int64_t **, int64_t **, size_t)>(164, "topsScatterInplace")(dev_ptr, sub_count, bpe, bank_list, dims_list, win_pos_list, map_ctrl_list, rank_size);
}
inline topsError_t topsScatterGetSubMem(const void *dev_ptr, int index, void **sub_dptr) {
    return atops::host_function<topsError_t (*)(const void *, int, void **)>(165, "topsScatterGetSubMem")(dev_ptr, index, sub_dptr);
}
inline topsError_t topsMemoryReduceAsync(void *lhs, void *rhs, void *result, topsReduceOpType op, topsReduceDataType dtype, uint32_t element_cnt, topsStream_t stream = nullptr) {
    return atops::host_function<topsError_t (*)(void *, void *, void *, topsReduceOpType, topsReduceDataType, uint32_t, topsStream_t)>(166, "topsMemoryReduceAsync")(lhs, rhs, result, op, dtype, element_cnt, stream);
}
inline topsError_t topsMemCachePrefetch(topsDeviceptr_t dptr, size_t size) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, size_t)>(167, "topsMemCachePrefetch")(dptr, size);
}
inline topsError_t topsMemCacheInvalidate(topsDeviceptr_t dptr, size_t size) {
    return atops::host_function<topsError_t (*)(topsDeviceptr_t, size_t)>(168, "topsMemCacheInvalidate")(dptr, size);
}
inline topsError_t topsExtGetMcAvailableMemSize(uint64_t mc, uint64_t *size) {
    return atops::host_function<topsError_t (*)(uint64_t, uint64_t *)>(169, "topsExtGetMcAvailableMemSize")(mc, size);
}
inline topsError_t topsExecutableGetSectionCount(topsExecutable_t exe, topsExtExecutableSectionHeaderType_t sh_type, uint64_t *count) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, topsExtExecutableSectionHeaderType_t, uint64_t *)>(170, "topsExecutableGetSectionCount")(exe, sh_type, count);
}
inline topsError_t topsExecutableGetSectionInfo(topsExecutable_t exe, topsExtExecutableSectionHeaderType_t sh_type, int mc, topsExtExecutableSectionInfo_t *info) {
    return atops::host_function<topsError_t (*)(topsExecutable_t, topsExtExecutableSectionHeaderType_t, int, topsExtExecutableSectionInfo_t *)>(171, "topsExecutableGetSectionInfo")(exe, sh_type, mc, info);
}
inline topsError_t topsGetMemUsageInfo(size_t *current_used_bytes, size_t *peek_used_bytes, int bank_total) {
    return atops::host_function<topsError_t (*)(size_t *, size_t *, int)>(172, "topsGetMemUsageInfo")(current_used_bytes, peek_used_bytes, bank_total);
}
inline topsError_t topsGetAffinityBankList(int *affinity_bank_list, int bank_total) {
    return atops::host_function<topsError_t (*)(int *, int)>(173, "topsGetAffinityBankList")(affinity_bank_list, bank_total);
}
inline topsError_t topsGetAffinityBankListV2(topsResource_t res, int *affinity_bank_list, int bank_total) {
    return atops::host_function<topsError_t (*)(topsResource_t, int *, int)>(174, "topsGetAffinityBankListV2")(res, affinity_bank_list, bank_total);
}
inline topsError_t topsMemGetInfoExt(size_t *used_list, size_t *free_list, size_t *max_available_list, size_t *total_list, int bank_total) {
    return atops::host_function<topsError_t (*)(size_t *, size_t *, size_t *, size_t *, int)>(175, "topsMemGetInfoExt")(used_list, free_list, max_available_list, total_list, bank_total);
}
inline topsError_t topsKernelSignalMaxNumGet(int *num) {
    return atops::host_function<topsError_t (*)(int *)>(176, "topsKernelSignalMaxNumGet")(num);
}
inline topsError_t topsKernelSignalAvailableNumGet(int *num) {
    return atops::host_function<topsError_t (*)(int *)>(177, "topsKernelSignalAvailableNumGet")(num);
}
inline topsError_t topsKernelSignalAlloc(int *handle) {
    return atops::host_function<topsError_t (*)(int *)>(178, "topsKernelSignalAlloc")(handle);
}
inline topsError_t topsKernelSignalFree(int handle) {
    return atops::host_function<topsError_t (*)(int)>(179, "topsKernelSignalFree")(handle);
}
inline topsError_t topsKernelSignalRead(int handle, uint32_t *value) {
    return atops::host_function<topsError_t (*)(int, uint32_t *)>(180, "topsKernelSignalRead")(handle, value);
}
inline topsError_t topsKernelSignalWrite(int handle, uint32_t value) {
    return atops::host_function<topsError_t (*)(int, uint32_t)>(181, "topsKernelSignalWrite")(handle, value);
}
inline topsError_t topsSetDeviceAndResourceReservation(int deviceId, topsResourceRequestV2_t *resRequest) {
    return atops::host_function<topsError_t (*)(int, topsResourceRequestV2_t *)>(182, "topsSetDeviceAndResourceReservation")(deviceId, resRequest);
}

// What the text does not have and published programs call: the same, less asynchronous.
template <class T> inline topsError_t topsMallocAsync(T **ptr, size_t size, topsStream_t, unsigned = 0) {
    return topsMalloc(reinterpret_cast<void **>(ptr), size);
}
inline topsError_t topsFreeAsync(void *ptr, topsStream_t stream) {
    topsError_t done = topsStreamSynchronize(stream);
    return done == topsSuccess ? topsFree(ptr) : done;
}
// Names of another runtime. The advice is the compiler's error where one is called.
template <class... T> __attribute__((error("the function is topsHostMalloc"))) topsError_t topsMallocHost(T &&...);
template <class... T> __attribute__((error("the function is topsHostFree"))) topsError_t topsFreeHost(T &&...);
template <class... T>
__attribute__((error("there is no managed memory: call topsMalloc and topsMemcpy, or topsHostMalloc")))
topsError_t topsMallocManaged(T &&...);
// A kernel is its function, as the text has it, or the pointer to it.
template <class... P>
inline topsError_t topsLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **args, size_t shared = 0,
                                    topsStream_t stream = nullptr) {
    return topsLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, args, shared, stream);
}
template <class... P>
inline topsError_t topsLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **args,
                                               size_t shared = 0, topsStream_t stream = nullptr) {
    return topsLaunchCooperativeKernel(reinterpret_cast<const void *>(kernel), grid, block, args, shared, stream);
}
template <class... P>
inline topsError_t topsFuncGetAttributes(topsFuncAttributes *attributes, void (*kernel)(P...)) {
    return topsFuncGetAttributes(attributes, reinterpret_cast<const void *>(kernel));
}
// A variable of the device is named by its address, as the text has it, or by itself.
template <class T>
concept topsSymbol = !std::is_pointer_v<T> && !std::is_array_v<T> && !std::is_null_pointer_v<T>;
template <topsSymbol T, class... Rest>
inline topsError_t topsMemcpyToSymbol(const T &symbol, const void *src, size_t size, Rest... rest) {
    return topsMemcpyToSymbol(static_cast<const void *>(&symbol), src, size, rest...);
}
template <topsSymbol T, class... Rest>
inline topsError_t topsMemcpyToSymbolAsync(const T &symbol, const void *src, size_t size, Rest... rest) {
    return topsMemcpyToSymbolAsync(static_cast<const void *>(&symbol), src, size, rest...);
}
template <topsSymbol T, class... Rest>
inline topsError_t topsMemcpyFromSymbol(void *dst, const T &symbol, size_t size, Rest... rest) {
    return topsMemcpyFromSymbol(dst, static_cast<const void *>(&symbol), size, rest...);
}
template <topsSymbol T, class... Rest>
inline topsError_t topsMemcpyFromSymbolAsync(void *dst, const T &symbol, size_t size, Rest... rest) {
    return topsMemcpyFromSymbolAsync(dst, static_cast<const void *>(&symbol), size, rest...);
}
template <class A, topsSymbol T>
inline topsError_t topsGetSymbolAddress(A **address, const T &symbol) {
    return topsGetSymbolAddress(address, static_cast<const void *>(&symbol));
}
template <topsSymbol T>
inline topsError_t topsGetSymbolSize(size_t *size, const T &symbol) {
    return topsGetSymbolSize(size, static_cast<const void *>(&symbol));
}
