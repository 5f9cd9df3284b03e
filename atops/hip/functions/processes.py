"""Memory and events of other processes: the handles of TOPS, in HIP's structs, filled in place or returned."""

from __future__ import annotations

from inspect import unwrap
from typing import Final

from atops.base.errors import InvalidType
from atops.base.result_codes import Result
from atops.bridge.arguments import flags_in, instance
from atops.hip.functions.api import call, made_or_given
from atops.hip.header.constants import hipIpcMemLazyEnablePeerAccess
from atops.hip.header.structs import hipIpcEventHandle_t, hipIpcMemHandle_t
from atops.tops.functions import peer as tops

__all__ = (
    "hipIpcCloseMemHandle", "hipIpcGetEventHandle", "hipIpcGetMemHandle", "hipIpcOpenEventHandle",
    "hipIpcOpenMemHandle",
)  # fmt: skip

NO_POINTER: Final = {Result.InvalidDevicePointer: Result.InvalidHandle}
NO_EVENT: Final = {Result.InvalidHandle: Result.InvalidValue, Result.MapFailed: Result.InvalidValue}


def _bytes(handle: object, kind: type[hipIpcMemHandle_t] | type[hipIpcEventHandle_t]) -> bytes:
    """Return the bytes of a handle: of the struct, or as they came from another process."""
    data = handle.reserved if isinstance(handle, kind) else handle
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidType(f"handle must be a {kind.__name__} or its 64 bytes, got {handle!r}")
    return bytes(data)


@made_or_given(hipIpcMemHandle_t)
@call.instead(NO_POINTER)
def hipIpcGetMemHandle(handle: hipIpcMemHandle_t, devPtr: int) -> None:
    """Store in `handle` a name of an allocation of hipMalloc for other processes, the same at each call.

    `hipIpcGetMemHandle(devPtr)` returns a new one.
    InvalidHandle: `devPtr` is not the start of such an allocation, is imported itself, of a pool, or of size 0;
    InvalidValue: `handle` is no hipIpcMemHandle_t; OutOfMemory: no descriptor is left.
    """
    into = instance(handle, hipIpcMemHandle_t, "handle")
    into.reserved = unwrap(tops.topsIpcGetMemHandle)(devPtr).reserved


@call.instead(NO_POINTER)
def hipIpcOpenMemHandle(handle: hipIpcMemHandle_t, flags: int) -> int:
    """Return a pointer in the current device's space to memory that another process has exported.

    Opening it again gives the same pointer; each open needs its close. `flags` may be hipIpcMemLazyEnablePeerAccess,
    which is implied. InvalidHandle: forged, its memory freed, its process ended; InvalidContext: of this very process;
    MapFailed: its board is another, or no descriptor is left; InvalidValue: other flags.
    """
    flags_in(flags, hipIpcMemLazyEnablePeerAccess)
    opened: int = unwrap(tops.topsIpcOpenMemHandle)(_bytes(handle, hipIpcMemHandle_t), 0)
    return opened


@call.instead(NO_POINTER)
def hipIpcCloseMemHandle(devPtr: int) -> None:
    """Close once what hipIpcOpenMemHandle opened; the last close unmaps, after the work enqueued by then.

    InvalidHandle: another pointer, or closed as often as opened.
    """
    unwrap(tops.topsIpcCloseMemHandle)(devPtr)


@made_or_given(hipIpcEventHandle_t)
@call
def hipIpcGetEventHandle(handle: hipIpcEventHandle_t, event: int) -> None:
    """Store in `handle` a name of an event for other processes, the same at each call.

    `hipIpcGetEventHandle(event)` returns a new one.

    InvalidConfiguration: it was made without hipEventInterprocess and hipEventDisableTiming; InvalidValue: `handle` is
    no hipIpcEventHandle_t; InvalidHandle: null, or a dead handle; OutOfMemory: no descriptor is left.
    """
    into = instance(handle, hipIpcEventHandle_t, "handle")
    into.reserved = unwrap(tops.topsIpcGetEventHandle)(event).reserved


@call.instead(NO_EVENT)
def hipIpcOpenEventHandle(handle: hipIpcEventHandle_t) -> int:
    """Return an event of the current device that is shared with another process: each may record it and wait for it.

    InvalidValue: forged, the event destroyed, its process ended; InvalidContext: of this very process.
    """
    opened: int = unwrap(tops.topsIpcOpenEventHandle)(_bytes(handle, hipIpcEventHandle_t))
    return opened
