"""Copies between host and device memory of any kind (TOPS Runtime API, 2.6).

The current device copies, or that of the stream. Plain forms use the null stream and return when the copy is over if
host memory takes part; between device memory they return at once, as fills do, and later work is ordered after them.
Asynchronous forms return at once unless host memory that is neither pinned nor registered takes part, or host memory
alone. Between devices without access (topsDeviceEnablePeerAccess) a copy goes by way of the host, in two steps.
"""

from __future__ import annotations

from typing import Final

from atops.base.result_codes import Result
from atops.tops.bridge.arguments import size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.handles import usable_stream_of
from atops.tops.bridge.waiting import Wait
from atops.tops.functions.memory.copy_operands import Started, start_copy
from atops.tops.types.enumerations import topsMemcpyKind

__all__ = (
    "topsMemcpy", "topsMemcpyAsync", "topsMemcpyDtoD", "topsMemcpyDtoDAsync", "topsMemcpyDtoH", "topsMemcpyDtoHAsync",
    "topsMemcpyHtoD", "topsMemcpyHtoDAsync", "topsMemcpyWithStream",
)  # fmt: skip

H2D: Final = topsMemcpyKind.topsMemcpyHostToDevice
D2H: Final = topsMemcpyKind.topsMemcpyDeviceToHost
D2D: Final = topsMemcpyKind.topsMemcpyDeviceToDevice


@call
def topsMemcpy(dst: object, src: object, sizeBytes: int, kind: topsMemcpyKind) -> Wait | None:
    """Copy `sizeBytes`. The ends are pointers, arrays or buffers.

    InvalidValue: null, unknown, overlapping or too short memory; InvalidMemcpyDirection: not a kind, or not that
    of the pointers (mapped and managed memory may be called host or device).
    """
    return start_copy(usable_stream_of(None), dst, src, size_of(sizeBytes, "sizeBytes"), kind, waits=True).plain_wait()


@call
def topsMemcpyWithStream(
    dst: object, src: object, sizeBytes: int, kind: topsMemcpyKind, stream: int | None
) -> Wait | None:
    """As topsMemcpy, in the order of a stream; returns when the copy is over, whatever the memory. InvalidHandle."""
    return start_copy(usable_stream_of(stream), dst, src, size_of(sizeBytes, "sizeBytes"), kind, waits=True).wait()


@call
def topsMemcpyAsync(
    dst: object, src: object, sizeBytes: int, kind: topsMemcpyKind, stream: int | None = 0
) -> Wait | None:
    """Enqueue a copy; pageable host memory is copied before the call returns. As topsMemcpy; InvalidHandle."""
    return start_copy(usable_stream_of(stream), dst, src, size_of(sizeBytes, "sizeBytes"), kind).async_wait()


@call
def topsMemcpyHtoD(dst: int, src: object, sizeBytes: int) -> Wait | None:
    """Copy from host to device memory. InvalidValue: bad, overlapping or too short memory, or of the other kind."""
    return _start(None, dst, src, sizeBytes, H2D, waits=True).wait()


@call
def topsMemcpyDtoH(dst: object, src: int, sizeBytes: int) -> Wait | None:
    """Copy from device to host memory. InvalidValue: bad, overlapping or too short memory, or of the other kind."""
    return _start(None, dst, src, sizeBytes, D2H, waits=True).wait()


@call
def topsMemcpyDtoD(dst: int, src: int, sizeBytes: int) -> Wait | None:
    """Copy from device to device memory. InvalidValue: bad, overlapping or too short memory, or of the other kind."""
    return _start(None, dst, src, sizeBytes, D2D, waits=True).plain_wait()


@call
def topsMemcpyHtoDAsync(dst: int, src: object, sizeBytes: int, stream: int | None) -> Wait | None:
    """As topsMemcpyHtoD, enqueued; pageable memory is read before the call returns. InvalidHandle."""
    return _start(stream, dst, src, sizeBytes, H2D).async_wait()


@call
def topsMemcpyDtoHAsync(dst: object, src: int, sizeBytes: int, stream: int | None) -> Wait | None:
    """As topsMemcpyDtoH, enqueued; pageable memory is written before the call returns. InvalidHandle."""
    return _start(stream, dst, src, sizeBytes, D2H).async_wait()


@call
def topsMemcpyDtoDAsync(dst: int, src: int, sizeBytes: int, stream: int | None) -> None:
    """As topsMemcpyDtoD, enqueued on a stream. InvalidHandle."""
    _start(stream, dst, src, sizeBytes, D2D)


def _start(
    stream: int | None, dst: object, src: object, nbytes: int, kind: topsMemcpyKind, *, waits: bool = False
) -> Started:
    """Enqueue a copy whose kind the function's name says: other memory is a wrong value."""
    size = size_of(nbytes, "sizeBytes")
    return start_copy(usable_stream_of(stream), dst, src, size, kind, Result.InvalidValue, waits=waits)
