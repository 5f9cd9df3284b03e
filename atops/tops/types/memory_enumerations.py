"""The enumerations about memory pools and managed memory: as types, and each name by itself as in C."""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = (
    "topsMemAccessFlags", "topsMemAccessFlagsProtNone", "topsMemAccessFlagsProtRead",
    "topsMemAccessFlagsProtReadWrite", "topsMemAdviseSetAccessedBy", "topsMemAdviseSetCoarseGrain",
    "topsMemAdviseSetPreferredLocation", "topsMemAdviseSetReadMostly", "topsMemAdviseUnsetAccessedBy",
    "topsMemAdviseUnsetCoarseGrain", "topsMemAdviseUnsetPreferredLocation", "topsMemAdviseUnsetReadMostly",
    "topsMemAllocationHandleType", "topsMemAllocationType", "topsMemAllocationTypeInvalid",
    "topsMemAllocationTypeMax", "topsMemAllocationTypePinned", "topsMemHandleTypeNone",
    "topsMemHandleTypePosixFileDescriptor", "topsMemHandleTypeWin32", "topsMemHandleTypeWin32Kmt",
    "topsMemLocationType", "topsMemLocationTypeDevice", "topsMemLocationTypeInvalid", "topsMemPoolAttr",
    "topsMemPoolAttrReleaseThreshold", "topsMemPoolAttrReservedMemCurrent", "topsMemPoolAttrReservedMemHigh",
    "topsMemPoolAttrUsedMemCurrent", "topsMemPoolAttrUsedMemHigh", "topsMemPoolReuseAllowInternalDependencies",
    "topsMemPoolReuseAllowOpportunistic", "topsMemPoolReuseFollowEventDependencies", "topsMemRangeAttribute",
    "topsMemRangeAttributeAccessedBy", "topsMemRangeAttributeCoherencyMode",
    "topsMemRangeAttributeLastPrefetchLocation", "topsMemRangeAttributePreferredLocation",
    "topsMemRangeAttributeReadMostly", "topsMemRangeCoherencyMode", "topsMemRangeCoherencyModeCoarseGrain",
    "topsMemRangeCoherencyModeFineGrain", "topsMemRangeCoherencyModeIndeterminate", "topsMemoryAdvise",
)  # fmt: skip


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


# An enumeration yields its members without aliases, in the header's order.
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
