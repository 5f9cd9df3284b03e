"""Result codes of the TOPS runtime as a table, and what each means in words."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

__all__ = ("EXPLANATIONS", "Result", "explain")


class Result(IntEnum):
    """A result code, by its public name without the prefix `topsError` (TOPS Runtime API, 2.3).

    Where two names share a value the first is canonical: the public header's, then the names that only the text has
    (DeInitialized, DeviceAlreadyInUse, TooManyPeers, MemoryFree), with the values that HIP and CUDA give them.
    """

    Success = 0
    InvalidValue = 1
    OutOfMemory = 2
    MemoryAllocation = 2
    NotInitialized = 3
    InitializationError = 3
    Deinitialized = 4
    DeInitialized = 4
    ProfilerDisabled = 5
    ProfilerNotInitialized = 6
    ProfilerAlreadyStarted = 7
    ProfilerAlreadyStopped = 8
    InvalidConfiguration = 9
    InvalidPitchValue = 12
    InvalidSymbol = 13
    InvalidDevicePointer = 17
    InvalidMemcpyDirection = 21
    InsufficientDriver = 35
    MissingConfiguration = 52
    PriorLaunchFailure = 53
    InvalidDeviceFunction = 98
    NoDevice = 100
    InvalidDevice = 101
    InvalidImage = 200
    InvalidContext = 201
    ContextAlreadyCurrent = 202
    MapFailed = 205
    MapBufferObjectFailed = 205
    UnmapFailed = 206
    ArrayIsMapped = 207
    AlreadyMapped = 208
    NoBinaryForGcu = 209
    AlreadyAcquired = 210
    NotMapped = 211
    NotMappedAsArray = 212
    NotMappedAsPointer = 213
    ECCNotCorrectable = 214
    UnsupportedLimit = 215
    ContextAlreadyInUse = 216
    DeviceAlreadyInUse = 216
    PeerAccessUnsupported = 217
    InvalidKernelFile = 218
    InvalidGraphicsContext = 219
    InvalidSource = 300
    FileNotFound = 301
    SharedObjectSymbolNotFound = 302
    SharedObjectInitFailed = 303
    OperatingSystem = 304
    InvalidHandle = 400
    InvalidResourceHandle = 400
    IllegalState = 401
    NotFound = 500
    NotReady = 600
    IllegalAddress = 700
    LaunchOutOfResources = 701
    LaunchTimeOut = 702
    PeerAccessAlreadyEnabled = 704
    PeerAccessNotEnabled = 705
    SetOnActiveProcess = 708
    ContextIsDestroyed = 709
    Assert = 710
    TooManyPeers = 711
    HostMemoryAlreadyRegistered = 712
    HostMemoryNotRegistered = 713
    LaunchFailure = 719
    CooperativeLaunchTooLarge = 720
    NotSupported = 801
    StreamCaptureUnsupported = 900
    StreamCaptureInvalidated = 901
    StreamCaptureMerge = 902
    StreamCaptureUnmatched = 903
    StreamCaptureUnjoined = 904
    StreamCaptureIsolation = 905
    StreamCaptureImplicit = 906
    CapturedEvent = 907
    StreamCaptureWrongThread = 908
    GraphExecUpdateFailure = 910
    Unknown = 999
    MemoryFree = 999
    RuntimeMemory = 1052
    RuntimeOther = 1053
    Tbd = 1054


# One sentence for each distinct code: what happened, then what to do.
EXPLANATIONS: Mapping[Result, str] = MappingProxyType(
    {
        Result.Success: "The call did what it was asked to do; nothing is left to do.",
        Result.InvalidValue: "An argument lies outside its range, is missing or contradicts another; "
        "check each against the call's entry.",
        Result.OutOfMemory: "The memory has no free range of the size asked for; "
        "free something, or ask for less or for another bank.",
        Result.NotInitialized: "The runtime has no driver here, as in a forked child or after it was closed; "
        "start one in this process.",
        Result.Deinitialized: "The runtime is shutting down; make no calls from then on.",
        Result.ProfilerDisabled: "Profiling is off for this process; switch tracing on before asking for it.",
        Result.ProfilerNotInitialized: "The profiler was used before it was set up; set it up first.",
        Result.ProfilerAlreadyStarted: "The profiler was running already; start it once.",
        Result.ProfilerAlreadyStopped: "The profiler was not running; start it before stopping it.",
        Result.InvalidConfiguration: "The block has more threads than the architecture allows; "
        "launch smaller blocks and more of them.",
        Result.InvalidPitchValue: "The pitch of a two-dimensional copy is smaller than its row; "
        "use at least the row's width in bytes.",
        Result.InvalidSymbol: "No device variable has this symbol or name; use one that the loaded module declares.",
        Result.InvalidDevicePointer: "The address is not the one that a live device allocation started at; "
        "pass the pointer that the allocation returned, before it is freed.",
        Result.InvalidMemcpyDirection: "The copy's direction does not fit its pointers; "
        "name the kinds of source and destination, or use the default direction.",
        Result.InsufficientDriver: "The driver is older than the runtime; "
        "install a driver of the runtime's version or later.",
        Result.MissingConfiguration: "A launch was asked for with no configuration pushed; "
        "push the grid and block before it.",
        Result.PriorLaunchFailure: "The command was skipped because an earlier one of its stream failed; "
        "find that first error, then clear it or reset the device.",
        Result.InvalidDeviceFunction: "The function is no kernel of a loaded module, or not for this architecture; "
        "load the module that has it.",
        Result.NoDevice: "The board has no device; set up at least one.",
        Result.InvalidDevice: "No device has this ordinal; count from 0 up to the number of devices less one.",
        Result.InvalidImage: "The binary is damaged or of another format; build or read it again.",
        Result.InvalidContext: "The call has no meaning in this process or context, as opening one's own event; "
        "make it from another process or a live context.",
        Result.ContextAlreadyCurrent: "The context was current already; leave out the second call.",
        Result.MapFailed: "The memory could not be mapped; check the range, and that the system has room.",
        Result.UnmapFailed: "The memory could not be unmapped; check that it is mapped and no longer in use.",
        Result.ArrayIsMapped: "The array is mapped and cannot be destroyed; unmap it first.",
        Result.AlreadyMapped: "The resource is mapped already; map it once.",
        Result.NoBinaryForGcu: "The module has no code for this architecture; compile it for this one.",
        Result.AlreadyAcquired: "The resource is held already; acquire it once.",
        Result.NotMapped: "The resource is not mapped; map it first.",
        Result.NotMappedAsArray: "The resource is not mapped as an array; map it so, or use it as a pointer.",
        Result.NotMappedAsPointer: "The resource is not mapped as a pointer; map it so, or use it as an array.",
        Result.ECCNotCorrectable: "The memory had an error that could not be corrected; "
        "reset the device and run the work again.",
        Result.UnsupportedLimit: "The device does not have this limit; ask for one that it has.",
        Result.ContextAlreadyInUse: "The device is in use under another reservation; "
        "wait for its end, or reset the device.",
        Result.PeerAccessUnsupported: "The two devices cannot reach each other; copy through the host.",
        Result.InvalidKernelFile: "The kernel's source or intermediate file is not valid; "
        "compile it again and read the compiler's log.",
        Result.InvalidGraphicsContext: "The graphics context is not valid; "
        "there are none on this device, so leave the call out.",
        Result.InvalidSource: "The kernel's source is not valid; read the compiler's log.",
        Result.FileNotFound: "The file does not exist or cannot be read; check its path and permissions.",
        Result.SharedObjectSymbolNotFound: "A shared object lacks a symbol that is needed; "
        "check that it is the right file and version.",
        Result.SharedObjectInitFailed: "A shared object could not be loaded; check its dependencies.",
        Result.OperatingSystem: "A call of the operating system failed, or the event loop that owed work is gone; "
        "read the message that came with it.",
        Result.InvalidHandle: "The stream, event, module or other object is closed, foreign or was never made; "
        "use one that is alive.",
        Result.IllegalState: "The call has no meaning at this point, or would wait for itself; "
        "check the order of calls, and block only outside callbacks.",
        Result.NotFound: "Nothing has this name or key; check its spelling and that it was registered.",
        Result.NotReady: "The work is not done yet, which is an answer and no failure; ask again later or wait.",
        Result.IllegalAddress: "A command touched bytes outside a live allocation; "
        "find the access, which the message names, then clear the stream or reset the device.",
        Result.LaunchOutOfResources: "The launch wants more threads, clusters or on-chip memory than there are; "
        "make it smaller, or free a resource bundle.",
        Result.LaunchTimeOut: "The kernel ran longer than it was allowed to; "
        "split its work, or look for a wait that never ends.",
        Result.PeerAccessAlreadyEnabled: "Access to this peer is enabled already; enable it once.",
        Result.PeerAccessNotEnabled: "Access to this peer is not enabled; enable it before touching its memory.",
        Result.SetOnActiveProcess: "The setting cannot change while the device has unfinished work; synchronise first.",
        Result.ContextIsDestroyed: "The work was dropped because its stream was aborted or its device reset; "
        "make new objects and enqueue again.",
        Result.Assert: "An assertion in a kernel failed; read which one in the kernel's output.",
        Result.TooManyPeers: "The device has access to as many peers as it can have; disable one first.",
        Result.HostMemoryAlreadyRegistered: "The host range, or a part of it, is registered already; register it once.",
        Result.HostMemoryNotRegistered: "The host range is not registered; "
        "pass the address that was registered, before it is unregistered.",
        Result.LaunchFailure: "A kernel failed while it ran; "
        "the message names block, thread and cause, and its stream stays poisoned until cleared.",
        Result.CooperativeLaunchTooLarge: "A cooperative grid has more blocks than the device has clusters; "
        "launch at most one block a cluster.",
        Result.NotSupported: "This architecture, device or platform cannot do it; "
        "query what it can do, or choose another architecture.",
        Result.StreamCaptureUnsupported: "The call is not allowed while its stream is captured; end the capture first.",
        Result.StreamCaptureInvalidated: "The capture was spoilt by an earlier error; end it and begin again.",
        Result.StreamCaptureMerge: "Two captures would have become one; keep them apart.",
        Result.StreamCaptureUnmatched: "The capture was not begun on this stream; end it where it was begun.",
        Result.StreamCaptureUnjoined: "The capture has branches that were not joined to its first stream; "
        "join them before ending it.",
        Result.StreamCaptureIsolation: "A captured stream would depend on work outside the capture; "
        "enqueue that work before or within it.",
        Result.StreamCaptureImplicit: "The call would order a captured stream after the null stream; "
        "use non-blocking streams.",
        Result.CapturedEvent: "The event belongs to a capture and has no time of its own; record another one outside.",
        Result.StreamCaptureWrongThread: "The capture was begun by another thread; end it there.",
        Result.GraphExecUpdateFailure: "The graph has changed in a way that its instance cannot follow; "
        "instantiate it again.",
        Result.Unknown: "Something failed for a reason that has no code of its own; read the message and the log.",
        Result.RuntimeMemory: "The runtime's own memory handling failed; report it with the log.",
        Result.RuntimeOther: "The runtime failed in some other way; report it with the log.",
        Result.Tbd: "The runtime returned a code that has no meaning yet; treat it as unknown.",
    }
)


def explain(code: int) -> str:
    """Return what a result code means and what to do about it, in one sentence.

    A number that is no code is explained as such; nothing is raised (TOPS Runtime API, 2.3).
    """
    try:
        return EXPLANATIONS[Result(code)]
    except ValueError:
        return f"{code!r} is no result code of this runtime; treat it as unknown."
