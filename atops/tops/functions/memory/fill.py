"""Fills of device memory, and of host memory that devices reach (TOPS Runtime API, 2.6).

Plain forms use the null stream of the current device: they return when pinned or registered host memory is filled, and
at once for device memory. Values are cut to the width of an element, as C does; counts are in elements, at any
alignment.
"""

from __future__ import annotations

from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.arguments import size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.handles import usable_stream_of
from atops.tops.bridge.pointers import bad_pointer, is_null
from atops.tops.bridge.waiting import Wait
from atops.tops.functions.memory.copy_operands import Started, pinned_or_pageable

__all__ = (
    "topsMemset", "topsMemsetAsync", "topsMemsetD8", "topsMemsetD8Async", "topsMemsetD16", "topsMemsetD16Async",
    "topsMemsetD32", "topsMemsetD32Async",
)  # fmt: skip


@call
def topsMemset(dst: object, value: int, sizeBytes: int) -> Wait | None:
    """Fill `sizeBytes` bytes with the low 8 bits of a value. InvalidValue: null, unknown, pageable or short memory."""
    return _start(None, dst, value, 1, sizeBytes, "sizeBytes").plain_wait()


@call
def topsMemsetAsync(dst: object, value: int, sizeBytes: int, stream: int | None = 0) -> None:
    """As topsMemset, enqueued on a stream. InvalidHandle."""
    _start(stream, dst, value, 1, sizeBytes, "sizeBytes")


@call
def topsMemsetD8(dest: object, value: int, count: int) -> Wait | None:
    """Fill `count` bytes. InvalidValue: null, unknown, pageable or short memory."""
    return _start(None, dest, value, 1, count, "count").plain_wait()


@call
def topsMemsetD8Async(dest: object, value: int, count: int, stream: int | None = 0) -> None:
    """As topsMemsetD8, enqueued on a stream. InvalidHandle."""
    _start(stream, dest, value, 1, count, "count")


@call
def topsMemsetD16(dest: object, value: int, count: int) -> Wait | None:
    """Fill `count` elements of 2 bytes. InvalidValue: null, unknown, pageable or short memory."""
    return _start(None, dest, value, 2, count, "count").plain_wait()


@call
def topsMemsetD16Async(dest: object, value: int, count: int, stream: int | None = 0) -> None:
    """As topsMemsetD16, enqueued on a stream. InvalidHandle."""
    _start(stream, dest, value, 2, count, "count")


@call
def topsMemsetD32(dest: object, value: int, count: int) -> Wait | None:
    """Fill `count` elements of 4 bytes. InvalidValue: null, unknown, pageable or short memory."""
    return _start(None, dest, value, 4, count, "count").plain_wait()


@call
def topsMemsetD32Async(dst: object, value: int, count: int, stream: int | None = 0) -> None:
    """As topsMemsetD32, enqueued on a stream. InvalidHandle."""
    _start(stream, dst, value, 4, count, "count")


def _start(stream: int | None, pointer: object, value: int, width: int, count: int, what: str) -> Started:
    """Enqueue a fill of `count` elements of `width` bytes. A fill of 0 bytes takes null."""
    target = usable_stream_of(stream)
    elements = size_of(count, what)
    pattern = (whole(value, "value") & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    if elements == 0 and is_null(pointer):
        return Started(None)
    memory = pinned_or_pageable(pointer, elements * width, "the destination", writable=True)
    if not isinstance(memory, Buffer):
        raise bad_pointer("the destination must be device, pinned or registered memory, got pageable host memory")
    if elements == 0:
        return Started(None)
    return Started(target.fill(memory, pattern), memory.device is None)
