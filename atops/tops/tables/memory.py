"""The functions of memory and peers: TOPS Runtime API, 2.6 to 2.7."""

from __future__ import annotations

from atops.tops.tables.function import Function, family

__all__ = ("MEMORY_FUNCTIONS",)

MEMORY_FUNCTIONS: tuple[Function, ...] = (
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
)
