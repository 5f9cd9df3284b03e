"""The functions of the TOPS Runtime API as declarations, which `atops.bridge.declarations` reads."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from atops.bridge.declarations import Declarations, Function

__all__ = ("FUNCTIONS",)

family = Declarations("topsError_t", ("const char *", "topsrtcResult")).family

_DECLARED: tuple[Function, ...] = (
    *family("Driver", "2.1", """
        topsInit(unsigned int flags)
        topsDriverGetVersion(out int *driverVersion) -> InvalidValue
        topsRuntimeGetVersion(out int *runtimeVersion) -> InvalidValue
        topsDeviceGet(out topsDevice_t *device, int ordinal) -> InvalidDevice
        topsDeviceComputeCapability(out int *major, out int *minor, topsDevice_t device) -> InvalidDevice
        topsDeviceGetName(out char *name, int len, topsDevice_t device) -> InvalidDevice
        topsDeviceGetPCIBusId(out char *pciBusId, int len, int device) -> InvalidDevice
        topsDeviceGetByPCIBusId(out int *device, const char *pciBusId) -> InvalidDevice InvalidValue
        topsDeviceTotalMem(out size_t *bytes, topsDevice_t device) -> InvalidDevice
    """),
    *family("Device", "2.2", """
        waits topsDeviceSynchronize()
        waits topsDeviceReset()
        topsSetDevice(int deviceId) -> InvalidDevice DeviceAlreadyInUse
        topsGetDevice(out int *deviceId) -> InvalidDevice InvalidValue
        topsGetDeviceCount(out int *count) -> NoDevice
        topsDeviceGetAttribute(out int *pi, topsDeviceAttribute_t attr, int deviceId) -> InvalidDevice
            InvalidValue
        topsGetDeviceProperties(out topsDeviceProp_t *prop, int deviceId) -> InvalidDevice
        topsDeviceGetLimit(out size_t *pValue, topsLimit_t limit) -> UnsupportedLimit InvalidValue
        topsGetDeviceFlags(out unsigned int *flags) -> InvalidDevice InvalidValue
        topsSetDeviceFlags(unsigned flags) -> InvalidDevice SetOnActiveProcess
        topsChooseDevice(out int *device, const topsDeviceProp_t *prop) -> InvalidValue
        topsIpcGetMemHandle(out topsIpcMemHandle_t *handle, void *devPtr) -> InvalidHandle OutOfMemory MapFailed
        topsIpcOpenMemHandle(out void **devPtr, topsIpcMemHandle_t handle, unsigned int flags) -> MapFailed
            InvalidHandle TooManyPeers
        topsIpcCloseMemHandle(void *devPtr) -> MapFailed InvalidHandle
        topsIpcGetEventHandle(out topsIpcEventHandle_t *handle, topsEvent_t event) -> InvalidConfiguration
            InvalidValue
        topsIpcOpenEventHandle(out topsEvent_t *event, topsIpcEventHandle_t handle) -> InvalidValue
            InvalidContext
        topsIpcOpenEventHandleExt(out topsEvent_t *event, topsIpcEventHandle_t handle, topsTopologyMapType map,
            int port) -> InvalidValue InvalidContext
    """),
    *family("Error", "2.3", """
        topsGetLastError()
        topsPeekAtLastError()
        const char * topsGetErrorName(topsError_t tops_error)
        const char * topsGetErrorString(topsError_t topsError)
    """),
    *family("Stream", "2.4", """
        topsStreamCreate(out topsStream_t *stream) -> InvalidValue
        topsStreamCreateWithFlags(out topsStream_t *stream, unsigned int flags) -> InvalidValue
        topsStreamDestroy(topsStream_t stream) -> InvalidHandle
        topsStreamQuery(topsStream_t stream) -> NotReady InvalidHandle
        waits topsStreamSynchronize(topsStream_t stream) -> InvalidHandle
        topsStreamWaitEvent(topsStream_t stream, topsEvent_t event, unsigned int flags) -> InvalidHandle
        topsStreamAddCallback(topsStream_t stream, topsStreamCallback_t callback, void *userData, unsigned int
            flags) -> InvalidHandle NotSupported
        topsStreamWriteValue32(topsDeviceptr_t dst, int value, unsigned int flags) -> InvalidDevicePointer
        topsStreamWriteValue32Async(topsDeviceptr_t dst, int value, unsigned int flags, topsStream_t stream = 0)
            -> InvalidDevicePointer
        waits topsStreamWaitValue32(topsDeviceptr_t dst, int value, unsigned int flags) -> InvalidDevicePointer
        topsStreamWaitValue32Async(topsDeviceptr_t dst, int value, unsigned int flags, topsStream_t stream = 0)
            -> InvalidDevicePointer
    """),
    *family("Event", "2.5", """
        topsEventCreateWithFlags(out topsEvent_t *event, unsigned flags) -> NotInitialized InvalidValue
            LaunchFailure OutOfMemory
        topsEventCreate(out topsEvent_t *event) -> NotInitialized InvalidValue LaunchFailure OutOfMemory
        topsEventRecord(topsEvent_t event, topsStream_t stream) -> InvalidValue NotInitialized InvalidHandle
            LaunchFailure
        topsEventDestroy(topsEvent_t event) -> NotInitialized InvalidValue LaunchFailure
        waits topsEventSynchronize(topsEvent_t event) -> InvalidValue NotInitialized InvalidHandle LaunchFailure
        topsEventElapsedTime(out float *ms, topsEvent_t start, topsEvent_t stop) -> InvalidValue NotReady
            InvalidHandle NotInitialized LaunchFailure
        topsEventQuery(topsEvent_t event) -> NotReady InvalidHandle InvalidValue NotInitialized LaunchFailure
    """),
    *family("Memory", "2.6", """
        topsPointerGetAttributes(out topsPointerAttribute_t *attributes, const void *ptr) -> InvalidDevice
            InvalidValue
        topsPointerGetAttribute(out void *data, topsPointer_attribute attribute, topsDeviceptr_t ptr) ->
            InvalidDevice InvalidValue
        topsDrvPointerGetAttributes(unsigned int numAttributes, topsPointer_attribute *attributes, out void
            **data, topsDeviceptr_t ptr) -> InvalidDevice InvalidValue
        topsMalloc(out void **ptr, size_t size) -> OutOfMemory InvalidValue
        topsExtCodecMemHandle(out void **pointer, uint64_t dev_addr, size_t size) -> OutOfMemory InvalidValue
        topsExtMallocWithFlags(out void **ptr, size_t sizeBytes, unsigned int flags) -> OutOfMemory InvalidValue
        topsHostMalloc(out void **ptr, size_t size, unsigned int flags) -> OutOfMemory
        topsHostGetDevicePointer(out void **devPtr, void *hostPtr, unsigned int flags) -> InvalidValue
            OutOfMemory
        topsHostGetFlags(out unsigned int *flagsPtr, void *hostPtr) -> InvalidValue
        topsHostRegister(void *hostPtr, size_t sizeBytes, unsigned int flags) -> OutOfMemory
        waits topsHostUnregister(void *hostPtr)
        waits topsFree(void *ptr) -> InvalidDevicePointer
        waits topsHostFree(void *ptr) -> InvalidValue
        waits topsMemcpy(void *dst, const void *src, size_t sizeBytes, topsMemcpyKind kind) -> InvalidValue
            MemoryFree Unknown
        waits topsMemcpyWithStream(void *dst, const void *src, size_t sizeBytes, topsMemcpyKind kind,
            topsStream_t stream) -> InvalidValue MemoryFree Unknown
        waits topsMemcpyHtoD(topsDeviceptr_t dst, void *src, size_t sizeBytes) -> DeInitialized NotInitialized
            InvalidContext InvalidValue
        waits topsMemcpyDtoH(void *dst, topsDeviceptr_t src, size_t sizeBytes) -> DeInitialized NotInitialized
            InvalidContext InvalidValue
        waits topsMemcpyDtoD(topsDeviceptr_t dst, topsDeviceptr_t src, size_t sizeBytes) -> DeInitialized
            NotInitialized InvalidContext InvalidValue
        waits topsMemcpyHtoDAsync(topsDeviceptr_t dst, void *src, size_t sizeBytes, topsStream_t stream) ->
            DeInitialized NotInitialized InvalidContext InvalidValue
        waits topsMemcpyDtoHAsync(void *dst, topsDeviceptr_t src, size_t sizeBytes, topsStream_t stream) ->
            DeInitialized NotInitialized InvalidContext InvalidValue
        topsMemcpyDtoDAsync(topsDeviceptr_t dst, topsDeviceptr_t src, size_t sizeBytes, topsStream_t stream) ->
            DeInitialized NotInitialized InvalidContext InvalidValue
        topsModuleGetGlobal(out topsDeviceptr_t *dptr, out size_t *bytes, topsModule_t hmod, const char *name)
            -> InvalidValue NotFound InvalidContext
        topsGetSymbolAddress(out void **devPtr, const void *symbol) -> InvalidValue
        topsGetSymbolSize(out size_t *size, const void *symbol) -> InvalidValue
        waits topsMemcpyToSymbol(const void *symbol, const void *src, size_t sizeBytes, size_t offset = 0,
            topsMemcpyKind kind = topsMemcpyHostToDevice) -> InvalidValue
        waits topsMemcpyToSymbolAsync(const void *symbol, const void *src, size_t sizeBytes, size_t offset,
            topsMemcpyKind kind, topsStream_t stream = 0) -> InvalidValue
        waits topsMemcpyFromSymbol(void *dst, const void *symbol, size_t sizeBytes, size_t offset = 0,
            topsMemcpyKind kind = topsMemcpyDeviceToHost) -> InvalidValue
        waits topsMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t sizeBytes, size_t offset,
            topsMemcpyKind kind, topsStream_t stream = 0) -> InvalidValue
        waits topsMemcpyAsync(void *dst, const void *src, size_t sizeBytes, topsMemcpyKind kind, topsStream_t
            stream = 0) -> InvalidValue MemoryFree Unknown
        waits topsMemset(void *dst, int value, size_t sizeBytes) -> InvalidValue NotInitialized
        waits topsMemsetD8(topsDeviceptr_t dest, unsigned char value, size_t count) -> InvalidValue
            NotInitialized
        topsMemsetD8Async(topsDeviceptr_t dest, unsigned char value, size_t count, topsStream_t stream = 0) ->
            InvalidValue NotInitialized
        waits topsMemsetD16(topsDeviceptr_t dest, unsigned short value, size_t count) -> InvalidValue
            NotInitialized
        topsMemsetD16Async(topsDeviceptr_t dest, unsigned short value, size_t count, topsStream_t stream = 0) ->
            InvalidValue NotInitialized
        waits topsMemsetD32(topsDeviceptr_t dest, int value, size_t count) -> InvalidValue NotInitialized
        topsMemsetAsync(void *dst, int value, size_t sizeBytes, topsStream_t stream = 0) -> InvalidValue
            MemoryFree
        topsMemsetD32Async(topsDeviceptr_t dst, int value, size_t count, topsStream_t stream = 0) ->
            InvalidValue MemoryFree
        topsMemGetInfo(out size_t *free, out size_t *total) -> InvalidDevice InvalidValue
        topsMemPtrGetInfo(void *ptr, out size_t *size) -> InvalidDevice InvalidValue
        topsMemGetAddressRange(out topsDeviceptr_t *pbase, out size_t *psize, topsDeviceptr_t dptr) ->
            InvalidDevicePointer
    """),
    *family("PeerToPeer", "2.7", """
        topsDeviceCanAccessPeer(out int *canAccess, int deviceId, int peerDeviceId) -> InvalidValue
        topsDeviceEnablePeerAccess(int peerDeviceId, unsigned int flags) -> InvalidValue
        topsDeviceEnablePeerAccessRegion(int peerDeviceId, void *peerDevPtr, size_t size, out void **devPtr) ->
            InvalidValue
        topsDeviceDisablePeerAccessRegion(int peerDeviceId, void *peerDevPtr, size_t size) -> InvalidValue
        waits topsMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t sizeBytes) ->
            InvalidValue MemoryFree Unknown
        topsMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t sizeBytes,
            topsStream_t stream) -> InvalidValue MemoryFree Unknown
        waits topsMemcpyPeerExt(void *dst, int dstDevice, const void *src, int srcDevice, size_t sizeBytes,
            topsTopologyMapType map, int port) -> InvalidValue MemoryFree Unknown
        topsMemcpyPeerExtAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t sizeBytes,
            topsTopologyMapType map, int port, topsStream_t stream) -> InvalidValue MemoryFree Unknown
    """),
    *family("Module", "2.8", """
        topsModuleLoad(out topsModule_t *module, const char *fname) -> InvalidValue InvalidContext FileNotFound
            OutOfMemory SharedObjectInitFailed NotInitialized
        topsModuleUnload(topsModule_t module) -> InvalidValue
        topsModuleGetFunction(out topsFunction_t *function, topsModule_t module, const char *kname) ->
            InvalidValue InvalidContext NotInitialized NotFound
        topsFuncGetAttributes(out topsFuncAttributes *attr, const void *func) -> InvalidValue
            InvalidDeviceFunction
        topsFuncGetAttribute(out int *value, topsFunction_attribute attrib, topsFunction_t hfunc) ->
            InvalidValue InvalidDeviceFunction
        topsModuleLoadData(out topsModule_t *module, const void *image) -> NotInitialized OutOfMemory
        topsModuleLoadDataEx(out topsModule_t *module, const void *image, unsigned int numOptions, topsJitOption
            *options, void **optionValues) -> NotInitialized OutOfMemory
        topsModuleLaunchKernel(topsFunction_t f, unsigned int gridDimX, unsigned int gridDimY, unsigned int
            gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int
            sharedMemBytes, topsStream_t stream, void **kernelParams, void **extra) -> InvalidDevice
            NotInitialized InvalidValue
        topsLaunchCooperativeKernel(const void *f, dim3 gridDim, dim3 blockDimX, void **kernelParams, size_t
            sharedMemBytes, topsStream_t stream) -> InvalidDevice NotInitialized InvalidValue
            CooperativeLaunchTooLarge
    """),
    *family("Clang", "2.9", """
        topsConfigureCall(dim3 gridDim, dim3 blockDim, size_t sharedMem = 0, topsStream_t stream = 0) ->
            InvalidDevice NotInitialized InvalidValue
        topsSetupArgument(const void *arg, size_t size, size_t offset) -> InvalidDevice NotInitialized
            InvalidValue
        topsLaunchByPtr(const void *func) -> InvalidDevice NotInitialized InvalidValue
        __topsPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem = 0, topsStream_t stream = 0)
            -> InvalidDevice NotInitialized InvalidValue
        __topsPopCallConfiguration(out dim3 *gridDim, out dim3 *blockDim, out size_t *sharedMem, out
            topsStream_t *stream) -> InvalidDevice NotInitialized InvalidValue
        topsLaunchKernel(const void *function_address, dim3 numBlocks, dim3 dimBlocks, void **args, size_t
            sharedMemBytes = 0, topsStream_t stream = 0) -> InvalidValue InvalidDevice
    """),
    *family("Runtime", "2.10", """
        const char * topsrtcGetErrorString(topsrtcResult result)
        topsrtcResult topsrtcVersion(out int *major, out int *minor)
        topsrtcResult topsrtcAddNameExpression(topsrtcProgram program, const char *name_expression)
        topsrtcResult topsrtcCompileProgram(topsrtcProgram program, int num_options, const char **options)
        topsrtcResult topsrtcCreateProgram(out topsrtcProgram *program, const char *source, const char *name,
            int num_headers, const char **headers, const char **include_names)
        topsrtcResult topsrtcDestroyProgram(topsrtcProgram *program)
        topsrtcResult topsrtcGetLoweredName(topsrtcProgram program, const char *name_expression, out const char
            **lowered_name)
        topsrtcResult topsrtcGetProgramLog(topsrtcProgram program, out char *log)
        topsrtcResult topsrtcGetProgramLogSize(topsrtcProgram program, out size_t *log_size)
        topsrtcResult topsrtcGetCode(topsrtcProgram program, out char *code)
        topsrtcResult topsrtcGetCodeSize(topsrtcProgram program, out size_t *codeSizeRet)
    """),
    *family("Extension", "2.11", """
        topsMemorySetDims(const void *devPtr, int64_t *dims, size_t dims_count)
        topsMemoryGetDims(const void *devPtr, out int64_t *dims, out size_t *dims_count)
        topsCreateExecutable(out topsExecutable_t *exe, const void *bin, size_t size)
        topsCreateExecutableFromFile(out topsExecutable_t *exe, const char *filepath)
        topsDestroyExecutable(topsExecutable_t exe)
        waits topsCreateResource(out topsResource_t *res, topsResourceRequest_t req)
        waits topsCreateResourceForExecutable(out topsResource_t *res, topsExecutable_t exe)
        topsDestroyResource(topsResource_t res)
        topsResourceBundleGetAttribute(topsResource_t res, topsResourceBundleInfoType_t type, out uint64_t
            *data)
        topsMallocForResource(out void **ptr, size_t size, topsResource_t res) -> OutOfMemory InvalidValue
        topsLaunchExecutableV2(topsExecutable_t exe, topsResource_t res, void **inputs, size_t input_count,
            int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, topsStream_t stream)
        topsLaunchExecutableV3(topsExecutable_t exe, topsResource_t res, void **inputs, size_t input_count,
            int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, out int64_t
            *output_dims, out size_t *output_rank, topsStream_t stream)
        waits topsLaunchExecutable(topsExecutable_t exe, topsResource_t res, void **inputs, size_t input_count,
            int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, out int64_t
            *output_dims, out size_t *output_rank, topsStream_t stream)
        waits topsLaunchExecutableWithConstData(topsExecutable_t exe, topsResource_t res, void **inputs, size_t
            input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, out
            int64_t *output_dims, out size_t *output_rank, void **const_datas, size_t const_datas_count,
            topsStream_t stream)
        topsLaunchExecutableWithConstDataV2(topsExecutable_t exe, topsResource_t res, void **inputs, size_t
            input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, void
            **const_datas, size_t const_datas_count, topsStream_t stream)
        topsLaunchExecutableWithConstDataV3(topsExecutable_t exe, topsResource_t res, void **inputs, size_t
            input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, out
            int64_t *output_dims, out size_t *output_rank, void **const_datas, size_t const_datas_count,
            topsStream_t stream)
        topsExecutableGetConstManagedData(topsExecutable_t exe, out unsigned int *numOptions, out char **name,
            out void **address, out uint64_t *size, out int64_t *uid, out void **flag)
        topsExecutableUpdateConstantKey(topsExecutable_t exe)
        topsExecutableUpdateRuntimeResource(topsExecutable_t exe, topsResource_t res, topsStream_t stream)
        waits topsExecutableLoadConstData(topsExecutable_t exe, topsResource_t res, out void **&dev_ptr, out
            size_t *dev_ptr_count)
        topsExecutableGetSubFuncInfo(topsExecutable_t exe, out char **info_raw_data, out size_t *info_size, out
            int **param_info, out int *param_count)
        topsExecutableGetRefitFlag(topsExecutable_t exe, out int *refit_flag)
        topsExecutableCallSubFunc(topsExecutable_t exe, const char *func_name, void **inputs, size_t
            input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count,
            topsStream_t stream)
        topsDeviceSetResource(topsResource_t res)
        waits topsConstBufferGet(uint64_t hash_key, void *init_data, size_t size, out void **ptr, topsStream_t
            stream)
        topsConstBufferPut(uint64_t hash_key, topsStream_t stream)
        topsExecutableQueryInfo(topsExecutable_t exe, topsExecutableInfoType_t info_type, out uint64_t *data)
        topsExecutableQueryInfoV2(topsExecutable_t exe, topsExecutableInfoType_t info_type, out int64_t *data)
        topsExecutableQueryInputName(topsExecutable_t exe, int index, out char **name)
        topsExecutableQueryOutputName(topsExecutable_t exe, int index, out char **name)
        topsExecutableSaveToFile(topsExecutable_t exe, const char *path)
        topsExtMallocWithBank(out void **ptr, size_t size, uint64_t bank) -> OutOfMemory InvalidValue
        topsExtMallocWithBankV2(out void **ptr, size_t size, uint64_t bank, unsigned int flags) -> OutOfMemory
            InvalidValue
        topsExtMallocWithAffinity(out void **ptr, size_t size, uint64_t bank, unsigned int flags) -> OutOfMemory
            InvalidValue
        topsExtLaunchCooperativeKernelMultiCluster(const topsExtLaunchParams_t *launchParamsList, int
            numClusters, dim3 gridDim, dim3 blockDim, topsStream_t stream)
        topsExtSetProfileMeta(uint8_t *meta, uint32_t size, int64_t compilation_id)
        topsScatterMemoryGetInfo(const void *dev_ptr, int index, out int64_t *win_pos, out size_t *win_size, out
            int64_t *map_ctrl, out size_t *map_size)
        topsScatterMemoryGetSubNum(const void *dev_ptr, out size_t *size)
        topsMallocScatter(out void **ptr, size_t size)
        waits topsScatterClearSubMemory(const void *dev_ptr)
        topsScatterSetSubMem(const void *dev_ptr, void *sub_dptr, int64_t *win_pos, size_t win_size, int64_t
            *map_ctrl, size_t map_size)
        topsScatterPopulateSub(const void *dev_ptr, size_t bpe, uint64_t bank, int64_t *dims, int64_t *win_pos,
            int64_t *map_ctrl, size_t rank_size)
        waits topsScatterInplace(const void *dev_ptr, size_t sub_count, size_t bpe, uint64_t *bank_list, int64_t
            **dims_list, int64_t **win_pos_list, int64_t **map_ctrl_list, size_t rank_size)
        topsScatterGetSubMem(const void *dev_ptr, int index, out void **sub_dptr)
        topsMemoryReduceAsync(void *lhs, void *rhs, void *result, topsReduceOpType op, topsReduceDataType dtype,
            uint32_t element_cnt, topsStream_t stream)
        topsMemCachePrefetch(topsDeviceptr_t dptr, size_t size) -> InvalidValue MemoryAllocation
        topsMemCacheInvalidate(topsDeviceptr_t dptr, size_t size) -> InvalidValue MemoryAllocation
        topsExtGetMcAvailableMemSize(uint64_t mc, out uint64_t *size)
        topsExecutableGetSectionCount(topsExecutable_t exe, topsExtExecutableSectionHeaderType_t sh_type, out
            uint64_t *count)
        topsExecutableGetSectionInfo(topsExecutable_t exe, topsExtExecutableSectionHeaderType_t sh_type, int mc,
            out topsExtExecutableSectionInfo_t *info)
        topsGetMemUsageInfo(out size_t *current_used_bytes, out size_t *peek_used_bytes, int bank_total)
        topsGetAffinityBankList(out int *affinity_bank_list, int bank_total)
        topsGetAffinityBankListV2(topsResource_t res, out int *affinity_bank_list, int bank_total)
        topsMemGetInfoExt(out size_t *used_list, out size_t *free_list, out size_t *max_available_list, out
            size_t *total_list, int bank_total) -> InvalidDevice InvalidValue
        topsKernelSignalMaxNumGet(out int *num)
        topsKernelSignalAvailableNumGet(out int *num)
        topsKernelSignalAlloc(out int *handle)
        topsKernelSignalFree(int handle)
        topsKernelSignalRead(int handle, out uint32_t *value)
        topsKernelSignalWrite(int handle, uint32_t value)
        topsSetDeviceAndResourceReservation(int deviceId, topsResourceRequestV2_t *resRequest) -> InvalidDevice
            DeviceAlreadyInUse
    """),
)

FUNCTIONS: Mapping[str, Function] = MappingProxyType({function.name: function for function in _DECLARED})
