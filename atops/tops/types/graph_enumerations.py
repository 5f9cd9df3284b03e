"""The enumerations about graphs and captures: as types, and each name by itself as in C."""

from __future__ import annotations

from enum import IntEnum

__all__ = (
    "topsGraphExecUpdateError", "topsGraphExecUpdateErrorFunctionChanged",
    "topsGraphExecUpdateErrorNodeTypeChanged", "topsGraphExecUpdateErrorNotSupported",
    "topsGraphExecUpdateErrorParametersChanged", "topsGraphExecUpdateErrorTopologyChanged",
    "topsGraphExecUpdateErrorUnsupportedFunctionChange", "topsGraphExecUpdateResult", "topsGraphExecUpdateSuccess",
    "topsGraphNodeType", "topsGraphNodeTypeCount", "topsGraphNodeTypeEmpty", "topsGraphNodeTypeEventRecord",
    "topsGraphNodeTypeGraph", "topsGraphNodeTypeHost", "topsGraphNodeTypeKernel", "topsGraphNodeTypeMemcpy",
    "topsGraphNodeTypeMemcpy1D", "topsGraphNodeTypeMemcpyFromSymbol", "topsGraphNodeTypeMemcpyToSymbol",
    "topsGraphNodeTypeMemset", "topsGraphNodeTypeWaitEvent", "topsStreamAddCaptureDependencies",
    "topsStreamCaptureMode", "topsStreamCaptureModeGlobal", "topsStreamCaptureModeRelaxed",
    "topsStreamCaptureModeThreadLocal", "topsStreamCaptureStatus", "topsStreamCaptureStatusActive",
    "topsStreamCaptureStatusInvalidated", "topsStreamCaptureStatusNone", "topsStreamSetCaptureDependencies",
    "topsStreamUpdateCaptureDependenciesFlags",
)  # fmt: skip


class topsGraphNodeType(IntEnum):
    """What a node of a graph does."""

    topsGraphNodeTypeKernel = 1
    topsGraphNodeTypeMemcpy = 2
    topsGraphNodeTypeMemset = 3
    topsGraphNodeTypeHost = 4
    topsGraphNodeTypeGraph = 5
    topsGraphNodeTypeEmpty = 6
    topsGraphNodeTypeWaitEvent = 7
    topsGraphNodeTypeEventRecord = 8
    topsGraphNodeTypeMemcpy1D = 9
    topsGraphNodeTypeMemcpyFromSymbol = 10
    topsGraphNodeTypeMemcpyToSymbol = 11
    topsGraphNodeTypeCount = 12


class topsGraphExecUpdateResult(IntEnum):
    """What became of an update of an instantiated graph."""

    topsGraphExecUpdateSuccess = 0
    topsGraphExecUpdateError = 1
    topsGraphExecUpdateErrorTopologyChanged = 2
    topsGraphExecUpdateErrorNodeTypeChanged = 3
    topsGraphExecUpdateErrorFunctionChanged = 4
    topsGraphExecUpdateErrorParametersChanged = 5
    topsGraphExecUpdateErrorNotSupported = 6
    topsGraphExecUpdateErrorUnsupportedFunctionChange = 7


class topsStreamCaptureMode(IntEnum):
    """How strict a capture is with other calls."""

    topsStreamCaptureModeGlobal = 0
    topsStreamCaptureModeThreadLocal = 1
    topsStreamCaptureModeRelaxed = 2


class topsStreamCaptureStatus(IntEnum):
    """Whether a stream is captured."""

    topsStreamCaptureStatusNone = 0
    topsStreamCaptureStatusActive = 1
    topsStreamCaptureStatusInvalidated = 2


class topsStreamUpdateCaptureDependenciesFlags(IntEnum):
    """How new dependencies of a capture are taken."""

    topsStreamAddCaptureDependencies = 0
    topsStreamSetCaptureDependencies = 1


# An enumeration yields its members without aliases, in the header's order.
(
    topsGraphNodeTypeKernel, topsGraphNodeTypeMemcpy, topsGraphNodeTypeMemset, topsGraphNodeTypeHost,
    topsGraphNodeTypeGraph, topsGraphNodeTypeEmpty, topsGraphNodeTypeWaitEvent, topsGraphNodeTypeEventRecord,
    topsGraphNodeTypeMemcpy1D, topsGraphNodeTypeMemcpyFromSymbol, topsGraphNodeTypeMemcpyToSymbol,
    topsGraphNodeTypeCount,
) = topsGraphNodeType
(
    topsGraphExecUpdateSuccess, topsGraphExecUpdateError, topsGraphExecUpdateErrorTopologyChanged,
    topsGraphExecUpdateErrorNodeTypeChanged, topsGraphExecUpdateErrorFunctionChanged,
    topsGraphExecUpdateErrorParametersChanged, topsGraphExecUpdateErrorNotSupported,
    topsGraphExecUpdateErrorUnsupportedFunctionChange,
) = topsGraphExecUpdateResult
(topsStreamCaptureModeGlobal, topsStreamCaptureModeThreadLocal, topsStreamCaptureModeRelaxed) = topsStreamCaptureMode
(
    topsStreamCaptureStatusNone, topsStreamCaptureStatusActive, topsStreamCaptureStatusInvalidated,
) = topsStreamCaptureStatus
(topsStreamAddCaptureDependencies, topsStreamSetCaptureDependencies) = topsStreamUpdateCaptureDependenciesFlags
