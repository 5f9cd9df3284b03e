"""The functions of the HIP Runtime API as declarations, which `atops.bridge.declarations` reads.

Streams and pools have the codes that their text documents (001); the others those that a call can meet here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from atops.bridge.declarations import Declarations, Function

__all__ = ("FUNCTIONS", "RTC_FUNCTIONS")

family = Declarations("hipError_t", ("const char *",)).family

_DECLARED: tuple[Function, ...] = (
    *family("HIP stream", "001", """
        hipStreamCreate(out hipStream_t *stream) -> InvalidValue
        hipStreamCreateWithFlags(out hipStream_t *stream, unsigned int flags) -> InvalidValue
        hipStreamCreateWithPriority(out hipStream_t *stream, unsigned int flags, int priority) -> InvalidValue
        hipDeviceGetStreamPriorityRange(out int *leastPriority, out int *greatestPriority)
        hipStreamDestroy(hipStream_t stream) -> InvalidHandle
        hipStreamQuery(hipStream_t stream) -> InvalidHandle NotReady
        waits hipStreamSynchronize(hipStream_t stream) -> InvalidHandle
        hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags) -> InvalidHandle
        hipStreamGetFlags(hipStream_t stream, out unsigned int *flags) -> InvalidHandle InvalidValue
        hipStreamGetPriority(hipStream_t stream, out int *priority) -> InvalidHandle InvalidValue
        hipExtStreamCreateWithCUMask(out hipStream_t *stream, uint32_t cuMaskSize, const uint32_t *cuMask)
            -> InvalidHandle InvalidValue
        hipExtStreamGetCUMask(hipStream_t stream, uint32_t cuMaskSize, uint32_t *cuMask)
            -> InvalidHandle InvalidValue
        hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void *userData,
            unsigned int flags) -> InvalidHandle NotSupported
        hipStreamWaitValue32(hipStream_t stream, void *ptr, uint32_t value, unsigned int flags,
            uint32_t mask = 0xFFFFFFFF) -> InvalidValue
        hipStreamWaitValue64(hipStream_t stream, void *ptr, uint64_t value, unsigned int flags,
            uint64_t mask = 0xFFFFFFFFFFFFFFFF) -> InvalidValue
        hipStreamWriteValue32(hipStream_t stream, void *ptr, uint32_t value, unsigned int flags) -> InvalidValue
        hipStreamWriteValue64(hipStream_t stream, void *ptr, uint64_t value, unsigned int flags) -> InvalidValue
        hipStreamGetDevice(hipStream_t stream, out hipDevice_t *device)
        hipLaunchHostFunc(hipStream_t stream, hipHostFn_t fn, void *userData)
    """),
    *family("HIP pool", "001", """
        hipMallocAsync(out void **dev_ptr, size_t size, hipStream_t stream) -> InvalidValue NotSupported
            OutOfMemory
        hipFreeAsync(void *dev_ptr, hipStream_t stream) -> InvalidValue NotSupported
        hipMemPoolTrimTo(hipMemPool_t mem_pool, size_t min_bytes_to_hold) -> InvalidValue
        hipMemPoolSetAttribute(hipMemPool_t mem_pool, hipMemPoolAttr attr, void *value) -> InvalidValue
        hipMemPoolGetAttribute(hipMemPool_t mem_pool, hipMemPoolAttr attr, void *value) -> InvalidValue
        hipMemPoolSetAccess(hipMemPool_t mem_pool, const hipMemAccessDesc *desc_list, size_t count)
            -> InvalidValue
        hipMemPoolGetAccess(out hipMemAccessFlags *flags, hipMemPool_t mem_pool, hipMemLocation *location)
            -> InvalidValue
        hipMemPoolCreate(out hipMemPool_t *mem_pool, const hipMemPoolProps *pool_props) -> InvalidValue
            NotSupported
        hipMemPoolDestroy(hipMemPool_t mem_pool) -> InvalidValue
        hipMallocFromPoolAsync(out void **dev_ptr, size_t size, hipMemPool_t mem_pool, hipStream_t stream)
            -> InvalidValue NotSupported OutOfMemory
        hipMemPoolExportToShareableHandle(void *shared_handle, hipMemPool_t mem_pool,
            hipMemAllocationHandleType handle_type, unsigned int flags) -> InvalidValue OutOfMemory
        hipMemPoolImportFromShareableHandle(out hipMemPool_t *mem_pool, void *shared_handle,
            hipMemAllocationHandleType handle_type, unsigned int flags) -> InvalidValue OutOfMemory
        hipMemPoolExportPointer(hipMemPoolPtrExportData *export_data, void *dev_ptr) -> InvalidValue OutOfMemory
        hipMemPoolImportPointer(out void **dev_ptr, hipMemPool_t mem_pool, hipMemPoolPtrExportData *export_data)
            -> InvalidValue NotInitialized OutOfMemory
        hipDeviceGetDefaultMemPool(out hipMemPool_t *mem_pool, int device) -> InvalidDevice
        hipDeviceGetMemPool(out hipMemPool_t *mem_pool, int device) -> InvalidValue
        hipDeviceSetMemPool(int device, hipMemPool_t mem_pool) -> InvalidValue
    """),
    *family("HIP device", "companion", """
        hipInit(unsigned int flags) -> InvalidValue
        hipDriverGetVersion(out int *driverVersion)
        hipRuntimeGetVersion(out int *runtimeVersion)
        hipGetDeviceCount(out int *count) -> NoDevice
        hipSetDevice(int deviceId) -> InvalidDevice
        hipGetDevice(out int *deviceId)
        hipGetDeviceProperties(hipDeviceProp_t *prop, int deviceId) -> InvalidDevice InvalidValue
        hipDeviceGetAttribute(out int *pi, hipDeviceAttribute_t attr, int deviceId) -> InvalidDevice InvalidValue
        hipDeviceGetName(char *name, int len, hipDevice_t device) -> InvalidDevice InvalidValue
        hipDeviceGet(out hipDevice_t *device, int ordinal) -> InvalidDevice
        waits hipDeviceSynchronize()
        waits hipDeviceReset()
        hipGetDeviceFlags(out unsigned int *flags)
        hipSetDeviceFlags(unsigned flags) -> InvalidValue SetOnActiveProcess
        hipDeviceCanAccessPeer(out int *canAccessPeer, int deviceId, int peerDeviceId) -> InvalidDevice
        hipDeviceEnablePeerAccess(int peerDeviceId, unsigned int flags) -> InvalidDevice InvalidValue
            PeerAccessAlreadyEnabled
        hipDeviceDisablePeerAccess(int peerDeviceId) -> InvalidDevice PeerAccessNotEnabled
        hipDeviceTotalMem(out size_t *bytes, hipDevice_t device) -> InvalidDevice
        hipGetLastError()
        hipPeekAtLastError()
        const char * hipGetErrorName(hipError_t hip_error)
        const char * hipGetErrorString(hipError_t hipError)
    """),
    *family("HIP event", "companion", """
        hipEventCreate(out hipEvent_t *event)
        hipEventCreateWithFlags(out hipEvent_t *event, unsigned flags) -> InvalidValue
        hipEventRecord(hipEvent_t event, hipStream_t stream = NULL) -> InvalidHandle
        hipEventQuery(hipEvent_t event) -> InvalidHandle NotReady
        waits hipEventSynchronize(hipEvent_t event) -> InvalidHandle
        hipEventElapsedTime(out float *ms, hipEvent_t start, hipEvent_t stop) -> InvalidHandle NotReady
        hipEventDestroy(hipEvent_t event) -> InvalidHandle
    """),
    *family("HIP memory", "companion", """
        hipMalloc(out void **ptr, size_t size) -> InvalidValue OutOfMemory
        waits hipFree(void *ptr) -> InvalidValue
        hipMallocManaged(out void **dev_ptr, size_t size, unsigned int flags = hipMemAttachGlobal) -> InvalidValue
        hipHostMalloc(out void **ptr, size_t size, unsigned int flags) -> InvalidValue
        waits hipHostFree(void *ptr) -> InvalidValue
        hipHostRegister(void *hostPtr, size_t sizeBytes, unsigned int flags) -> InvalidValue NotSupported
            HostMemoryAlreadyRegistered
        waits hipHostUnregister(void *hostPtr) -> InvalidValue HostMemoryNotRegistered
        hipHostGetDevicePointer(out void **devPtr, void *hstPtr, unsigned int flags) -> InvalidValue
        hipHostGetFlags(out unsigned int *flagsPtr, void *hostPtr) -> InvalidValue
        hipMemGetInfo(out size_t *free, out size_t *total)
        hipPointerGetAttributes(out hipPointerAttribute_t *attributes, const void *ptr) -> InvalidValue
        hipPointerGetAttribute(void *data, hipPointer_attribute attribute, hipDeviceptr_t ptr) -> InvalidValue
        hipMemAdvise(const void *dev_ptr, size_t count, hipMemoryAdvise advice, int device) -> InvalidValue
            InvalidDevice
        hipMemPrefetchAsync(const void *dev_ptr, size_t count, int device, hipStream_t stream = 0) -> InvalidValue
            InvalidDevice
    """),
    *family("HIP processes", "companion", """
        hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *devPtr) -> InvalidHandle OutOfMemory InvalidValue
        hipIpcOpenMemHandle(out void **devPtr, hipIpcMemHandle_t handle, unsigned int flags) -> InvalidHandle
            InvalidContext MapFailed InvalidValue
        hipIpcCloseMemHandle(void *devPtr) -> InvalidHandle
        hipIpcGetEventHandle(hipIpcEventHandle_t *handle, hipEvent_t event) -> InvalidConfiguration InvalidValue
            InvalidHandle OutOfMemory
        hipIpcOpenEventHandle(out hipEvent_t *event, hipIpcEventHandle_t handle) -> InvalidValue InvalidContext
    """),
    *family("HIP copy", "companion", """
        waits hipMemcpy(void *dst, const void *src, size_t sizeBytes, hipMemcpyKind kind) -> InvalidValue
            InvalidMemcpyDirection
        waits hipMemcpyAsync(void *dst, const void *src, size_t sizeBytes, hipMemcpyKind kind,
            hipStream_t stream = 0) -> InvalidValue InvalidMemcpyDirection
        waits hipMemcpyWithStream(void *dst, const void *src, size_t sizeBytes, hipMemcpyKind kind,
            hipStream_t stream) -> InvalidValue InvalidMemcpyDirection
        waits hipMemcpyHtoD(hipDeviceptr_t dst, void *src, size_t sizeBytes) -> InvalidValue
        waits hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t sizeBytes) -> InvalidValue
        waits hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t sizeBytes) -> InvalidValue
        waits hipMemcpyHtoDAsync(hipDeviceptr_t dst, void *src, size_t sizeBytes, hipStream_t stream)
            -> InvalidValue
        waits hipMemcpyDtoHAsync(void *dst, hipDeviceptr_t src, size_t sizeBytes, hipStream_t stream)
            -> InvalidValue
        hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t sizeBytes, hipStream_t stream)
            -> InvalidValue
        waits hipMemcpyPeer(void *dst, int dstDeviceId, const void *src, int srcDeviceId, size_t sizeBytes)
            -> InvalidValue InvalidDevice
        hipMemcpyPeerAsync(void *dst, int dstDeviceId, const void *src, int srcDevice, size_t sizeBytes,
            hipStream_t stream = 0) -> InvalidValue InvalidDevice
        waits hipMemset(void *dst, int value, size_t sizeBytes) -> InvalidValue
        hipMemsetAsync(void *dst, int value, size_t sizeBytes, hipStream_t stream = 0) -> InvalidValue
        waits hipMemsetD8(hipDeviceptr_t dest, unsigned char value, size_t count) -> InvalidValue
        waits hipMemsetD16(hipDeviceptr_t dest, unsigned short value, size_t count) -> InvalidValue
        waits hipMemsetD32(hipDeviceptr_t dest, int value, size_t count) -> InvalidValue
        hipMemsetD8Async(hipDeviceptr_t dest, unsigned char value, size_t count, hipStream_t stream = 0)
            -> InvalidValue
        hipMemsetD16Async(hipDeviceptr_t dest, unsigned short value, size_t count, hipStream_t stream = 0)
            -> InvalidValue
        hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count, hipStream_t stream = 0) -> InvalidValue
    """),
    *family("HIP module", "004", """
        hipModuleLoad(out hipModule_t *module, const char *fname) -> FileNotFound InvalidContext InvalidValue
            NotInitialized OutOfMemory SharedObjectInitFailed
        hipModuleUnload(hipModule_t module) -> InvalidHandle
        hipModuleLoadData(out hipModule_t *module, const void *image) -> NotInitialized OutOfMemory InvalidImage
        hipModuleLoadDataEx(out hipModule_t *module, const void *image, unsigned int numOptions, hipJitOption *options,
            void **optionValues) -> NotInitialized OutOfMemory InvalidImage InvalidValue
        hipModuleGetFunction(out hipFunction_t *function, hipModule_t module, const char *kname) -> InvalidContext
            InvalidValue NotFound NotInitialized
        hipModuleGetTexRef(out textureReference **texRef, hipModule_t hmod, const char *name) -> InvalidValue NotFound
            NotInitialized
        hipFuncGetAttributes(hipFuncAttributes *attr, const void *func) -> InvalidDeviceFunction InvalidValue
        hipFuncGetAttribute(out int *value, hipFunction_attribute attrib, hipFunction_t hfunc) -> InvalidDeviceFunction
            InvalidValue
        hipGetFuncBySymbol(out hipFunction_t *functionPtr, const void *symbolPtr) -> InvalidDeviceFunction
        hipModuleLaunchKernel(hipFunction_t f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
            unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
            hipStream_t stream, void **kernelParams, void **extra) -> InvalidValue NotInitialized
        hipExtModuleLaunchKernel(hipFunction_t f, uint32_t globalWorkSizeX, uint32_t globalWorkSizeY,
            uint32_t globalWorkSizeZ, uint32_t localWorkSizeX, uint32_t localWorkSizeY, uint32_t localWorkSizeZ,
            size_t sharedMemBytes, hipStream_t hStream, void **kernelParams, void **extra, hipEvent_t startEvent = NULL,
            hipEvent_t stopEvent = NULL, uint32_t flags = 0) -> InvalidValue NotInitialized
        hipHccModuleLaunchKernel(hipFunction_t f, uint32_t globalWorkSizeX, uint32_t globalWorkSizeY,
            uint32_t globalWorkSizeZ, uint32_t localWorkSizeX, uint32_t localWorkSizeY, uint32_t localWorkSizeZ,
            size_t sharedMemBytes, hipStream_t hStream, void **kernelParams, void **extra, hipEvent_t startEvent = NULL,
            hipEvent_t stopEvent = NULL) -> InvalidValue
        hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned int gridDimX, unsigned int gridDimY,
            unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
            unsigned int sharedMemBytes, hipStream_t stream, void **kernelParams) -> CooperativeLaunchTooLarge
            Deinitialized InvalidConfiguration InvalidContext InvalidHandle InvalidImage InvalidValue LaunchFailure
            LaunchOutOfResources LaunchTimeOut NotInitialized SharedObjectInitFailed
        hipModuleLaunchCooperativeKernelMultiDevice(hipFunctionLaunchParams *launchParamsList, unsigned int numDevices,
            unsigned int flags) -> CooperativeLaunchTooLarge Deinitialized InvalidConfiguration InvalidContext
            InvalidHandle InvalidImage InvalidValue LaunchFailure LaunchOutOfResources LaunchTimeOut NotInitialized
            SharedObjectInitFailed
        hipLaunchCooperativeKernel(const void *f, dim3 gridDim, dim3 blockDimX, void **kernelParams,
            unsigned int sharedMemBytes, hipStream_t stream) -> CooperativeLaunchTooLarge InvalidValue NotInitialized
        hipLaunchCooperativeKernelMultiDevice(hipLaunchParams *launchParamsList, int numDevices, unsigned int flags)
            -> CooperativeLaunchTooLarge InvalidValue NotInitialized
        hipExtLaunchMultiKernelMultiDevice(hipLaunchParams *launchParamsList, int numDevices, unsigned int flags)
            -> InvalidValue NotInitialized
    """),
    *family("HIP launch", "companion", """
        hipLaunchKernel(const void *function_address, dim3 numBlocks, dim3 dimBlocks, void **args,
            size_t sharedMemBytes = 0, hipStream_t stream = 0) -> InvalidValue InvalidConfiguration
            InvalidDeviceFunction
        hipExtLaunchKernel(const void *function_address, dim3 numBlocks, dim3 dimBlocks, void **args,
            size_t sharedMemBytes, hipStream_t stream, hipEvent_t startEvent, hipEvent_t stopEvent, int flags)
            -> InvalidValue InvalidConfiguration InvalidDeviceFunction
        hipFuncSetAttribute(const void *func, hipFuncAttribute attr, int value) -> InvalidDeviceFunction InvalidValue
        hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(out int *numBlocks, hipFunction_t f, int blockSize,
            size_t dynSharedMemPerBlk) -> InvalidDeviceFunction InvalidValue
        hipOccupancyMaxActiveBlocksPerMultiprocessor(out int *numBlocks, const void *f, int blockSize,
            size_t dynSharedMemPerBlk) -> InvalidDeviceFunction InvalidValue
    """),
    *family("HIP symbol", "companion", """
        hipModuleGetGlobal(out hipDeviceptr_t *dptr, out size_t *bytes, hipModule_t hmod, const char *name)
            -> InvalidHandle InvalidValue NotFound
        hipGetSymbolAddress(out void **devPtr, const void *symbol) -> InvalidSymbol InvalidValue
        hipGetSymbolSize(out size_t *size, const void *symbol) -> InvalidSymbol InvalidValue
        waits hipMemcpyToSymbol(const void *symbol, const void *src, size_t sizeBytes, size_t offset = 0,
            hipMemcpyKind kind = hipMemcpyHostToDevice) -> InvalidSymbol InvalidMemcpyDirection InvalidValue
        waits hipMemcpyToSymbolAsync(const void *symbol, const void *src, size_t sizeBytes, size_t offset,
            hipMemcpyKind kind, hipStream_t stream = 0) -> InvalidSymbol InvalidMemcpyDirection InvalidValue
        waits hipMemcpyFromSymbol(void *dst, const void *symbol, size_t sizeBytes, size_t offset = 0,
            hipMemcpyKind kind = hipMemcpyDeviceToHost) -> InvalidSymbol InvalidMemcpyDirection InvalidValue
        waits hipMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t sizeBytes, size_t offset,
            hipMemcpyKind kind, hipStream_t stream = 0) -> InvalidSymbol InvalidMemcpyDirection InvalidValue
    """),
)

FUNCTIONS: Mapping[str, Function] = MappingProxyType({function.name: function for function in _DECLARED})

_rtc = Declarations("hiprtcResult", ("const char *",)).family

_RTC: tuple[Function, ...] = tuple(
    _rtc("HIP rtc", "", """
        const char * hiprtcGetErrorString(hiprtcResult result)
        hiprtcVersion(out int *major, out int *minor)
        hiprtcAddNameExpression(hiprtcProgram prog, const char *name_expression)
        hiprtcCompileProgram(hiprtcProgram prog, int numOptions, const char **options)
        hiprtcCreateProgram(out hiprtcProgram *prog, const char *src, const char *name, int numHeaders,
            const char **headers, const char **includeNames)
        hiprtcDestroyProgram(hiprtcProgram *prog)
        hiprtcGetLoweredName(hiprtcProgram prog, const char *name_expression, out const char **lowered_name)
        hiprtcGetProgramLog(hiprtcProgram prog, char *log)
        hiprtcGetProgramLogSize(hiprtcProgram prog, out size_t *logSizeRet)
        hiprtcGetCode(hiprtcProgram prog, char *code)
        hiprtcGetCodeSize(hiprtcProgram prog, out size_t *codeSizeRet)
    """)
)  # fmt: skip

RTC_FUNCTIONS: Mapping[str, Function] = MappingProxyType({function.name: function for function in _RTC})
