"""Flag words and other numbers that the public header names, one by one as in C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

# Streams and events (2.4, 2.5).
topsStreamDefault: Final = 0
topsStreamNonBlocking: Final = 1
topsStreamCallbackBlocking: Final = 2
topsStreamNonMerging: Final = 4
topsEventDefault: Final = 0
topsEventBlockingSync: Final = 1
topsEventDisableTiming: Final = 2
topsEventInterprocess: Final = 4
topsEventRecordOnce: Final = 8
topsEventStrongOrder: Final = 16
topsEventDisableQueryAndSync: Final = 32
topsEventReleaseToDevice: Final = 0x40000000
topsEventReleaseToSystem: Final = 0x80000000
topsStreamWaitValueGte: Final = 0
topsStreamWaitValueEq: Final = 1
topsStreamWaitValueAnd: Final = 2
topsStreamWaitValueNor: Final = 3
topsStreamPerThread: Final = 2

# Memory (2.6, 2.11).
topsHostMallocDefault: Final = 0
topsHostMallocPortable: Final = 1
topsHostMallocMapped: Final = 2
topsHostMallocWriteCombined: Final = 4
topsHostMallocNumaUser: Final = 0x20000000
topsHostMallocCoherent: Final = 0x40000000
topsHostMallocNonCoherent: Final = 0x80000000
topsMemAttachGlobal: Final = 1
topsMemAttachHost: Final = 2
topsMemAttachSingle: Final = 4
topsDeviceMallocDefault: Final = 0
topsDeviceMallocFinegrained: Final = 1
topsMallocSignalMemory: Final = 2
topsMallocTopDown: Final = 4
topsMallocForbidMergeMove: Final = 8
topsMallocPreferHighSpeedMem: Final = 16
topsMallocHostAccessable: Final = 32
topsHostRegisterDefault: Final = 0
topsHostRegisterPortable: Final = 1
topsHostRegisterMapped: Final = 2
topsHostRegisterIoMemory: Final = 4
topsExtHostRegisterCoarseGrained: Final = 8
topsArrayDefault: Final = 0
topsArrayLayered: Final = 1
topsArraySurfaceLoadStore: Final = 2
topsArrayCubemap: Final = 4
topsArrayTextureGather: Final = 8

# Devices and launches (2.2, 2.8).
topsDeviceScheduleAuto: Final = 0
topsDeviceScheduleSpin: Final = 1
topsDeviceScheduleYield: Final = 2
topsDeviceScheduleBlockingSync: Final = 4
topsDeviceScheduleMask: Final = 7
topsDeviceMapHost: Final = 8
topsDeviceLmemResizeToMax: Final = 22
topsOccupancyDefault: Final = 0
topsCooperativeLaunchMultiDeviceNoPreSync: Final = 1
topsCooperativeLaunchMultiDeviceNoPostSync: Final = 2
topsCpuDeviceId: Final = -1
topsInvalidDeviceId: Final = -2
topsExtAnyOrderLaunch: Final = 1
TOPS_LAUNCH_PARAM_BUFFER_POINTER: Final = 1
TOPS_LAUNCH_PARAM_BUFFER_SIZE: Final = 2
TOPS_LAUNCH_PARAM_END: Final = 3

# Other processes, executables (2.2, 2.11).
topsIpcMemLazyEnablePeerAccess: Final = 0
TOPS_IPC_HANDLE_SIZE: Final = 64
MAX_CDMA_ENGINE_NUM_ON_20: Final = 4
TOPS_SHAPE_INFER_MAX_DIMS: Final = 8

if not TYPE_CHECKING:  # checkers cannot compute it, and take every name
    __all__ = tuple(sorted(name for name in vars().copy() if name.startswith(("TOPS_", "tops", "MAX_"))))

# The versions that the C-style functions report (2.1): release 2.2 is 2020.
RTC_VERSION: Final = (2, 2)
DRIVER_VERSION: Final = 1000 * RTC_VERSION[0] + 10 * RTC_VERSION[1]
