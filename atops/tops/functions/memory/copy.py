"""Copies between host and device memory of any kind (TOPS Runtime API, 2.6).

The current device copies, or that of the stream. Plain forms use the null stream and return when the copy is over if
host memory takes part; between device memory they return at once, as fills do, and later work is ordered after them.
Asynchronous forms return at once unless host memory that is neither pinned nor registered takes part, or host memory
alone. Between devices without access (topsDeviceEnablePeerAccess) a copy goes by way of the host, in two steps.
"""

from __future__ import annotations

from typing import Any, Final

from atops.base.result_codes import Result
from atops.tops.bridge.arguments import size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.handles import usable_stream_of
from atops.tops.bridge.waiting import Wait, until
from atops.tops.functions.memory.copy_operands import Started, start_copy
from atops.tops.types.enumerations import topsMemcpyKind

__all__ = (
    "topsMemcpy",
    "topsMemcpyAsync",
    "topsMemcpyDtoD",
    "topsMemcpyDtoDAsync",
    "topsMemcpyDtoH",
    "topsMemcpyDtoHAsync",
    "topsMemcpyHtoD",
    "topsMemcpyHtoDAsync",
    "topsMemcpyWithStream",
)

H2D: Final = topsMemcpyKind.topsMemcpyHostToDevice
D2H: Final = topsMemcpyKind.topsMemcpyDeviceToHost
D2D: Final = topsMemcpyKind.topsMemcpyDeviceToDevice


@call
def topsMemcpy(dst: Any, src: Any, sizeBytes: int, kind: topsMemcpyKind) -> Wait | None:
    """Copy `sizeBytes`. The ends are pointers, arrays or buffers.

    InvalidValue: null, unknown, overlapping or too short memory; InvalidMemcpyDirection: the kind is none, or not that
    of the pointers (mapped and managed memory may be called host or device).
    """
    started = start_copy(usable_stream_of(None), dst, src, size_of(sizeBytes, "sizeBytes"), kind, waits=True)
    return until(started.completion) if started.completion is not None and started.on_host else None


@call
def topsMemcpyWithStream(dst: Any, src: Any, sizeBytes: int, kind: topsMemcpyKind, stream: int | None) -> Wait | None:
    """As topsMemcpy, in the order of a stream; returns when the copy is over, whatever the memory. InvalidHandle."""
    started = start_copy(usable_stream_of(stream), dst, src, size_of(sizeBytes, "sizeBytes"), kind, waits=True)
    return until(started.completion) if started.completion is not None else None


@call
def topsMemcpyAsync(dst: Any, src: Any, sizeBytes: int, kind: topsMemcpyKind, stream: int | None = 0) -> Wait | None:
    """Enqueue a copy; pageable host memory is copied before the call returns. As topsMemcpy; InvalidHandle."""
    started = start_copy(usable_stream_of(stream), dst, src, size_of(sizeBytes, "sizeBytes"), kind)
    return until(started.completion) if started.completion is not None and started.at_once else None


@call
def topsMemcpyHtoD(dst: int, src: Any, sizeBytes: int) -> Wait | None:
    """Copy from host to device memory. InvalidValue: bad, overlapping or too short memory, or of the other kind."""
    started = _start(None, dst, src, sizeBytes, H2D, waits=True)
    return until(started.completion) if started.completion is not None else None


@call
def topsMemcpyDtoH(dst: Any, src: int, sizeBytes: int) -> Wait | None:
    """Copy from device to host memory. InvalidValue: bad, overlapping or too short memory, or of the other kind."""
    started = _start(None, dst, src, sizeBytes, D2H, waits=True)
    return until(started.completion) if started.completion is not None else None


@call
def topsMemcpyDtoD(dst: int, src: int, sizeBytes: int) -> Wait | None:
    """Copy from device to device memory. InvalidValue: bad, overlapping or too short memory, or of the other kind."""
    started = _start(None, dst, src, sizeBytes, D2D, waits=True)
    return until(started.completion) if started.completion is not None and started.on_host else None


@call
def topsMemcpyHtoDAsync(dst: int, src: Any, sizeBytes: int, stream: int | None) -> Wait | None:
    """As topsMemcpyHtoD, enqueued; pageable memory is read before the call returns. InvalidHandle."""
    started = _start(stream, dst, src, sizeBytes, H2D)
    return until(started.completion) if started.completion is not None and started.at_once else None


@call
def topsMemcpyDtoHAsync(dst: Any, src: int, sizeBytes: int, stream: int | None) -> Wait | None:
    """As topsMemcpyDtoH, enqueued; pageable memory is written before the call returns. InvalidHandle."""
    started = _start(stream, dst, src, sizeBytes, D2H)
    return until(started.completion) if started.completion is not None and started.at_once else None


@call
def topsMemcpyDtoDAsync(dst: int, src: int, sizeBytes: int, stream: int | None) -> None:
    """As topsMemcpyDtoD, enqueued on a stream. InvalidHandle."""
    _start(stream, dst, src, sizeBytes, D2D)


def _start(
    stream: int | None, dst: Any, src: Any, nbytes: int, kind: topsMemcpyKind, *, waits: bool = False
) -> Started:
    """Enqueue a copy whose kind the function's name says: other memory is a wrong value."""
    size = size_of(nbytes, "sizeBytes")
    return start_copy(usable_stream_of(stream), dst, src, size, kind, Result.InvalidValue, waits=waits)
