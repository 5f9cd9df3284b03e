"""Flag words that the public header names, one by one as in C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

# Streams and events.
hipStreamDefault: Final = 0
hipStreamNonBlocking: Final = 1
hipEventDefault: Final = 0
hipEventBlockingSync: Final = 1
hipEventDisableTiming: Final = 2
hipEventInterprocess: Final = 4
hipEventDisableSystemFence: Final = 0x20000000
hipEventReleaseToDevice: Final = 0x40000000
hipEventReleaseToSystem: Final = 0x80000000
hipStreamWaitValueGte: Final = 0
hipStreamWaitValueEq: Final = 1
hipStreamWaitValueAnd: Final = 2
hipStreamWaitValueNor: Final = 3
hipStreamPerThread: Final = 2  # the stream that each thread has of its own

# Memory.
hipHostMallocDefault: Final = 0
hipHostAllocDefault: Final = 0
hipHostMallocPortable: Final = 1
hipHostAllocPortable: Final = 1
hipHostMallocMapped: Final = 2
hipHostAllocMapped: Final = 2
hipHostMallocWriteCombined: Final = 4
hipHostAllocWriteCombined: Final = 4
hipHostMallocNumaUser: Final = 0x20000000
hipExtHostAllocNumaUser: Final = 0x20000000
hipHostMallocCoherent: Final = 0x40000000
hipExtHostAllocCoherent: Final = 0x40000000
hipHostMallocNonCoherent: Final = 0x80000000
hipExtHostAllocNonCoherent: Final = 0x80000000
hipMemAttachGlobal: Final = 1
hipMemAttachHost: Final = 2
hipMemAttachSingle: Final = 4
hipHostRegisterDefault: Final = 0
hipHostRegisterPortable: Final = 1
hipHostRegisterMapped: Final = 2
hipHostRegisterIoMemory: Final = 4
hipHostRegisterReadOnly: Final = 8
hipExtHostRegisterCoarseGrained: Final = 8
hipExternalMemoryDedicated: Final = 1

# Launches.
hipExtAnyOrderLaunch: Final = 1
hipCooperativeLaunchMultiDeviceNoPreSync: Final = 1
hipCooperativeLaunchMultiDeviceNoPostSync: Final = 2
hipOccupancyDefault: Final = 0
hipOccupancyDisableCachingOverride: Final = 1
HIP_LAUNCH_PARAM_BUFFER_POINTER: Final = 1
HIP_LAUNCH_PARAM_BUFFER_SIZE: Final = 2
HIP_LAUNCH_PARAM_END: Final = 3

# Handles between processes.
HIP_IPC_HANDLE_SIZE: Final = 64
hipIpcMemLazyEnablePeerAccess: Final = 1

# Devices.
hipDeviceScheduleAuto: Final = 0
hipDeviceScheduleSpin: Final = 1
hipDeviceScheduleYield: Final = 2
hipDeviceScheduleBlockingSync: Final = 4
hipDeviceScheduleMask: Final = 7
hipDeviceMapHost: Final = 8
hipDeviceLmemResizeToMax: Final = 16
hipCpuDeviceId: Final = -1
hipInvalidDeviceId: Final = -2

if not TYPE_CHECKING:  # checkers cannot compute it, and take every name
    __all__ = tuple(sorted(name for name in vars().copy() if name.lower().startswith("hip")))

# The version that the functions report: that of the public header, ROCm 6.
VERSION: Final = 60000000
