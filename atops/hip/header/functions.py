"""The functions of the HIP Runtime API as declarations, which `atops.bridge.declarations` reads.

Streams and pools have the codes that their text documents (001); the others those that a call can meet here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from atops.bridge.declarations import Declarations, Function

__all__ = ("FUNCTIONS",)

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
        hipDeviceGetDefaultMemPool(out hipMemPool_t *mem_pool, int device) -> InvalidDevice
        hipDeviceGetMemPool(out hipMemPool_t *mem_pool, int device) -> InvalidDevice
        hipDeviceSetMemPool(int device, hipMemPool_t mem_pool) -> InvalidDevice InvalidValue
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
)

FUNCTIONS: Mapping[str, Function] = MappingProxyType({function.name: function for function in _DECLARED})
