"""The functions of drivers, devices and errors: TOPS Runtime API, 2.1 to 2.3."""

from __future__ import annotations

from atops.tops.tables.function import Function, family

__all__ = ("DEVICE_FUNCTIONS",)

DEVICE_FUNCTIONS: tuple[Function, ...] = (
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
)
