"""The result codes of the C-style functions by the names of the public header, as types and one by one."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING


class topsError_t(IntEnum):
    """What a call returns first (2.3). A name that shares a value with an earlier one is its alias."""

    topsSuccess = 0
    topsErrorInvalidValue = 1
    topsErrorOutOfMemory = 2
    topsErrorMemoryAllocation = 2
    topsErrorNotInitialized = 3
    topsErrorInitializationError = 3
    topsErrorDeinitialized = 4
    topsErrorProfilerDisabled = 5
    topsErrorProfilerNotInitialized = 6
    topsErrorProfilerAlreadyStarted = 7
    topsErrorProfilerAlreadyStopped = 8
    topsErrorInvalidConfiguration = 9
    topsErrorInvalidPitchValue = 12
    topsErrorInvalidSymbol = 13
    topsErrorInvalidDevicePointer = 17
    topsErrorInvalidMemcpyDirection = 21
    topsErrorInsufficientDriver = 35
    topsErrorMissingConfiguration = 52
    topsErrorPriorLaunchFailure = 53
    topsErrorInvalidDeviceFunction = 98
    topsErrorNoDevice = 100
    topsErrorInvalidDevice = 101
    topsErrorInvalidImage = 200
    topsErrorInvalidContext = 201
    topsErrorContextAlreadyCurrent = 202
    topsErrorMapFailed = 205
    topsErrorMapBufferObjectFailed = 205
    topsErrorUnmapFailed = 206
    topsErrorArrayIsMapped = 207
    topsErrorAlreadyMapped = 208
    topsErrorNoBinaryForGcu = 209
    topsErrorAlreadyAcquired = 210
    topsErrorNotMapped = 211
    topsErrorNotMappedAsArray = 212
    topsErrorNotMappedAsPointer = 213
    topsErrorECCNotCorrectable = 214
    topsErrorUnsupportedLimit = 215
    topsErrorContextAlreadyInUse = 216
    topsErrorPeerAccessUnsupported = 217
    topsErrorInvalidKernelFile = 218
    topsErrorInvalidGraphicsContext = 219
    topsErrorInvalidSource = 300
    topsErrorFileNotFound = 301
    topsErrorSharedObjectSymbolNotFound = 302
    topsErrorSharedObjectInitFailed = 303
    topsErrorOperatingSystem = 304
    topsErrorInvalidHandle = 400
    topsErrorInvalidResourceHandle = 400
    topsErrorIllegalState = 401
    topsErrorNotFound = 500
    topsErrorNotReady = 600
    topsErrorIllegalAddress = 700
    topsErrorLaunchOutOfResources = 701
    topsErrorLaunchTimeOut = 702
    topsErrorPeerAccessAlreadyEnabled = 704
    topsErrorPeerAccessNotEnabled = 705
    topsErrorSetOnActiveProcess = 708
    topsErrorContextIsDestroyed = 709
    topsErrorAssert = 710
    topsErrorHostMemoryAlreadyRegistered = 712
    topsErrorHostMemoryNotRegistered = 713
    topsErrorLaunchFailure = 719
    topsErrorCooperativeLaunchTooLarge = 720
    topsErrorNotSupported = 801
    topsErrorStreamCaptureUnsupported = 900
    topsErrorStreamCaptureInvalidated = 901
    topsErrorStreamCaptureMerge = 902
    topsErrorStreamCaptureUnmatched = 903
    topsErrorStreamCaptureUnjoined = 904
    topsErrorStreamCaptureIsolation = 905
    topsErrorStreamCaptureImplicit = 906
    topsErrorCapturedEvent = 907
    topsErrorStreamCaptureWrongThread = 908
    topsErrorGraphExecUpdateFailure = 910
    topsErrorUnknown = 999
    topsErrorRuntimeMemory = 1052
    topsErrorRuntimeOther = 1053
    topsErrorTbd = 1054
    topsErrorDeInitialized = 4
    topsErrorDeviceAlreadyInUse = 216
    topsErrorTooManyPeers = 711
    topsErrorMemoryFree = 999
    topsInvalidDevice = 101


class topsrtcResult(IntEnum):
    """What the functions of runtime compilation return first (2.10)."""

    TOPSRTC_SUCCESS = 0
    TOPSRTC_ERROR_OUT_OF_MEMORY = 1
    TOPSRTC_ERROR_PROGRAM_CREATION_FAILURE = 2
    TOPSRTC_ERROR_INVALID_INPUT = 3
    TOPSRTC_ERROR_INVALID_PROGRAM = 4
    TOPSRTC_ERROR_INVALID_OPTION = 5
    TOPSRTC_ERROR_COMPILATION = 6
    TOPSRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7
    TOPSRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10
    TOPSRTC_ERROR_INTERNAL_ERROR = 11


if not TYPE_CHECKING:  # checkers cannot compute it, and take every name
    __all__ = tuple(sorted({"topsError_t", "topsrtcResult", *topsError_t.__members__, *topsrtcResult.__members__}))

# An enumeration yields its members without aliases, in the header's order.
(
    topsSuccess, topsErrorInvalidValue, topsErrorOutOfMemory, topsErrorNotInitialized, topsErrorDeinitialized,
    topsErrorProfilerDisabled, topsErrorProfilerNotInitialized, topsErrorProfilerAlreadyStarted,
    topsErrorProfilerAlreadyStopped, topsErrorInvalidConfiguration, topsErrorInvalidPitchValue,
    topsErrorInvalidSymbol, topsErrorInvalidDevicePointer, topsErrorInvalidMemcpyDirection,
    topsErrorInsufficientDriver, topsErrorMissingConfiguration, topsErrorPriorLaunchFailure,
    topsErrorInvalidDeviceFunction, topsErrorNoDevice, topsErrorInvalidDevice, topsErrorInvalidImage,
    topsErrorInvalidContext, topsErrorContextAlreadyCurrent, topsErrorMapFailed, topsErrorUnmapFailed,
    topsErrorArrayIsMapped, topsErrorAlreadyMapped, topsErrorNoBinaryForGcu, topsErrorAlreadyAcquired,
    topsErrorNotMapped, topsErrorNotMappedAsArray, topsErrorNotMappedAsPointer, topsErrorECCNotCorrectable,
    topsErrorUnsupportedLimit, topsErrorContextAlreadyInUse, topsErrorPeerAccessUnsupported,
    topsErrorInvalidKernelFile, topsErrorInvalidGraphicsContext, topsErrorInvalidSource, topsErrorFileNotFound,
    topsErrorSharedObjectSymbolNotFound, topsErrorSharedObjectInitFailed, topsErrorOperatingSystem,
    topsErrorInvalidHandle, topsErrorIllegalState, topsErrorNotFound, topsErrorNotReady, topsErrorIllegalAddress,
    topsErrorLaunchOutOfResources, topsErrorLaunchTimeOut, topsErrorPeerAccessAlreadyEnabled,
    topsErrorPeerAccessNotEnabled, topsErrorSetOnActiveProcess, topsErrorContextIsDestroyed, topsErrorAssert,
    topsErrorHostMemoryAlreadyRegistered, topsErrorHostMemoryNotRegistered, topsErrorLaunchFailure,
    topsErrorCooperativeLaunchTooLarge, topsErrorNotSupported, topsErrorStreamCaptureUnsupported,
    topsErrorStreamCaptureInvalidated, topsErrorStreamCaptureMerge, topsErrorStreamCaptureUnmatched,
    topsErrorStreamCaptureUnjoined, topsErrorStreamCaptureIsolation, topsErrorStreamCaptureImplicit,
    topsErrorCapturedEvent, topsErrorStreamCaptureWrongThread, topsErrorGraphExecUpdateFailure, topsErrorUnknown,
    topsErrorRuntimeMemory, topsErrorRuntimeOther, topsErrorTbd, topsErrorTooManyPeers,
) = topsError_t
topsErrorMemoryAllocation = topsError_t.topsErrorMemoryAllocation
topsErrorInitializationError = topsError_t.topsErrorInitializationError
topsErrorMapBufferObjectFailed = topsError_t.topsErrorMapBufferObjectFailed
topsErrorInvalidResourceHandle = topsError_t.topsErrorInvalidResourceHandle
topsErrorDeInitialized = topsError_t.topsErrorDeInitialized
topsErrorDeviceAlreadyInUse = topsError_t.topsErrorDeviceAlreadyInUse
topsErrorMemoryFree = topsError_t.topsErrorMemoryFree
topsInvalidDevice = topsError_t.topsInvalidDevice
(
    TOPSRTC_SUCCESS, TOPSRTC_ERROR_OUT_OF_MEMORY, TOPSRTC_ERROR_PROGRAM_CREATION_FAILURE,
    TOPSRTC_ERROR_INVALID_INPUT, TOPSRTC_ERROR_INVALID_PROGRAM, TOPSRTC_ERROR_INVALID_OPTION,
    TOPSRTC_ERROR_COMPILATION, TOPSRTC_ERROR_BUILTIN_OPERATION_FAILURE, TOPSRTC_ERROR_NAME_EXPRESSION_NOT_VALID,
    TOPSRTC_ERROR_INTERNAL_ERROR,
) = topsrtcResult
