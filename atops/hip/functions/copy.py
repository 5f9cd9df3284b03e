"""Copies and fills of host and device memory of any kind.

Host memory is a numpy array, a buffer, a ctypes object, what `ctypes.byref` returns, or an address in this process.
What waits for what is as in TOPS (`atops.tops.functions.copy`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import unwrap
from typing import Final

from atops.base.result_codes import Result
from atops.bridge.arguments import size_of, whole
from atops.bridge.call import Wait, Work
from atops.bridge.codes import CodeError
from atops.hip.functions.api import call, derived
from atops.hip.functions.host import pointer_of
from atops.hip.header.enumerations import hipMemcpyKind
from atops.tops.functions import copy as tops
from atops.tops.functions import peer

__all__ = (
    "hipMemcpy", "hipMemcpyAsync", "hipMemcpyDtoD", "hipMemcpyDtoDAsync", "hipMemcpyDtoH", "hipMemcpyDtoHAsync",
    "hipMemcpyHtoD", "hipMemcpyHtoDAsync", "hipMemcpyPeer", "hipMemcpyPeerAsync", "hipMemcpyWithStream", "hipMemset",
    "hipMemsetAsync", "hipMemsetD8", "hipMemsetD8Async", "hipMemsetD16", "hipMemsetD16Async", "hipMemsetD32",
    "hipMemsetD32Async",
)  # fmt: skip

COPIES: Final[Mapping[str, Callable[..., Wait | None]]] = {
    each.__name__: unwrap(each)
    for each in (
        tops.topsMemcpy, tops.topsMemcpyAsync, tops.topsMemcpyWithStream, tops.topsMemcpyHtoD, tops.topsMemcpyDtoH,
        tops.topsMemcpyHtoDAsync, tops.topsMemcpyDtoHAsync,
    )
}  # fmt: skip

hipMemcpyDtoD = derived(tops.topsMemcpyDtoD)
hipMemcpyDtoDAsync = derived(tops.topsMemcpyDtoDAsync)
hipMemset = derived(tops.topsMemset)
hipMemsetAsync = derived(tops.topsMemsetAsync)
hipMemsetD8 = derived(tops.topsMemsetD8)
hipMemsetD8Async = derived(tops.topsMemsetD8Async)
hipMemsetD16 = derived(tops.topsMemsetD16)
hipMemsetD16Async = derived(tops.topsMemsetD16Async)
hipMemsetD32 = derived(tops.topsMemsetD32)
hipMemsetD32Async = derived(tops.topsMemsetD32Async)


def _end(pointer: object, nbytes: object) -> object:
    return pointer_of(pointer, size_of(nbytes, "sizeBytes"))


def _is_kind(kind: object) -> bool:
    return isinstance(kind, int) and kind in tuple(hipMemcpyKind)


def _copy(name: str, dst: object, src: object, nbytes: object, kind: object, *stream: object) -> Wait | None:
    """Make a copy by the function of TOPS of this name; HIP looks at no kind where memory lies in both places."""
    ends = _end(dst, nbytes), _end(src, nbytes)
    result: Wait | None
    try:
        result = COPIES[name](*ends, nbytes, kind, *stream)
    except CodeError as error:
        if error.code is not Result.InvalidMemcpyDirection or not _is_kind(kind):
            raise
        if not any(tops.is_everywhere(each, whole(nbytes, "sizeBytes")) for each in ends):
            raise
        result = COPIES[name](*ends, nbytes, hipMemcpyKind.hipMemcpyDefault, *stream)
    return result


@call
def hipMemcpy(dst: object, src: object, sizeBytes: int, kind: hipMemcpyKind) -> Wait | None:
    """Copy `sizeBytes` in the null stream; wait for it where host memory takes part.

    InvalidValue: null, unknown, overlapping or too short memory; InvalidMemcpyDirection: not a kind, or not that
    of the pointers (any kind will do where mapped or managed memory takes part).
    """
    return _copy("topsMemcpy", dst, src, sizeBytes, kind)


@call
def hipMemcpyWithStream(
    dst: object, src: object, sizeBytes: int, kind: hipMemcpyKind, stream: int | None
) -> Wait | None:
    """As hipMemcpy, in the order of a stream; returns when the copy is over, whatever the memory. InvalidHandle."""
    return _copy("topsMemcpyWithStream", dst, src, sizeBytes, kind, stream)


@call
def hipMemcpyAsync(
    dst: object, src: object, sizeBytes: int, kind: hipMemcpyKind, stream: int | None = 0
) -> Wait | None:
    """Enqueue a copy; pageable host memory is copied before the call returns. As hipMemcpy; InvalidHandle."""
    return _copy("topsMemcpyAsync", dst, src, sizeBytes, kind, stream)


@call
def hipMemcpyHtoD(dst: int, src: object, sizeBytes: int) -> Wait | None:
    """Copy from host to device memory. InvalidValue: bad, overlapping or too short memory, or of the other kind."""
    result: Wait | None = COPIES["topsMemcpyHtoD"](_end(dst, sizeBytes), _end(src, sizeBytes), sizeBytes)
    return result


@call
def hipMemcpyDtoH(dst: object, src: int, sizeBytes: int) -> Wait | None:
    """Copy from device to host memory. InvalidValue: bad, overlapping or too short memory, or of the other kind."""
    result: Wait | None = COPIES["topsMemcpyDtoH"](_end(dst, sizeBytes), _end(src, sizeBytes), sizeBytes)
    return result


@call
def hipMemcpyHtoDAsync(dst: int, src: object, sizeBytes: int, stream: int | None) -> Wait | None:
    """As hipMemcpyHtoD, enqueued; pageable memory is read before the call returns. InvalidHandle."""
    ends = _end(dst, sizeBytes), _end(src, sizeBytes)
    result: Wait | None = COPIES["topsMemcpyHtoDAsync"](*ends, sizeBytes, stream)
    return result


@call
def hipMemcpyDtoHAsync(dst: object, src: int, sizeBytes: int, stream: int | None) -> Wait | None:
    """As hipMemcpyDtoH, enqueued; pageable memory is written before the call returns. InvalidHandle."""
    ends = _end(dst, sizeBytes), _end(src, sizeBytes)
    result: Wait | None = COPIES["topsMemcpyDtoHAsync"](*ends, sizeBytes, stream)
    return result


@call
def hipMemcpyPeer(dst: int, dstDeviceId: int, src: int, srcDeviceId: int, sizeBytes: int) -> Work[None]:
    """Copy between the memories of two devices and wait for it; through the host where no link joins them.

    InvalidDevice; InvalidValue: a pointer that is not on its device, a range that leaves its allocation, an overlap.
    """
    work: Work[None] = unwrap(peer.topsMemcpyPeer)(dst, dstDeviceId, src, srcDeviceId, sizeBytes)
    return work


@call
def hipMemcpyPeerAsync(
    dst: int, dstDeviceId: int, src: int, srcDevice: int, sizeBytes: int, stream: int | None = 0
) -> None:
    """As hipMemcpyPeer, in the order of a stream. InvalidHandle."""
    unwrap(peer.topsMemcpyPeerAsync)(dst, dstDeviceId, src, srcDevice, sizeBytes, stream)
