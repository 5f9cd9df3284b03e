"""The functions of streams and events: TOPS Runtime API, 2.4 to 2.5."""

from __future__ import annotations

from atops.tops.tables.function import Function, family

__all__ = ("STREAM_FUNCTIONS",)

STREAM_FUNCTIONS: tuple[Function, ...] = (
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
)
