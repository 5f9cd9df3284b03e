"""Fills of device memory, and of host memory that devices reach (TOPS Runtime API, 2.6).

Plain forms use the null stream of the current device: they return when pinned or registered host memory is filled, and
at once for device memory. Values are cut to the width of an element, as C does; counts are in elements, at any
alignment.
"""

from __future__ import annotations

from typing import Any

from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.arguments import size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.handles import usable_stream_of
from atops.tops.bridge.pointers import bad_pointer, is_null
from atops.tops.bridge.waiting import until
from atops.tops.functions.memory.copy_operands import Started, pinned_or_pageable

__all__ = (
    "topsMemset",
    "topsMemsetAsync",
    "topsMemsetD8",
    "topsMemsetD8Async",
    "topsMemsetD16",
    "topsMemsetD16Async",
    "topsMemsetD32",
    "topsMemsetD32Async",
)


@call
async def topsMemset(dst: Any, value: int, sizeBytes: int) -> None:
    """Fill `sizeBytes` bytes with the low 8 bits of a value. InvalidValue: null, unknown, pageable or short memory."""
    await _fill(dst, value, 1, sizeBytes, "sizeBytes")


@call
def topsMemsetAsync(dst: Any, value: int, sizeBytes: int, stream: int | None = 0) -> None:
    """As topsMemset, enqueued on a stream. InvalidHandle."""
    _start(stream, dst, value, 1, sizeBytes, "sizeBytes")


@call
async def topsMemsetD8(dest: Any, value: int, count: int) -> None:
    """Fill `count` bytes. InvalidValue: null, unknown, pageable or short memory."""
    await _fill(dest, value, 1, count, "count")


@call
def topsMemsetD8Async(dest: Any, value: int, count: int, stream: int | None = 0) -> None:
    """As topsMemsetD8, enqueued on a stream. InvalidHandle."""
    _start(stream, dest, value, 1, count, "count")


@call
async def topsMemsetD16(dest: Any, value: int, count: int) -> None:
    """Fill `count` elements of 2 bytes. InvalidValue: null, unknown, pageable or short memory."""
    await _fill(dest, value, 2, count, "count")


@call
def topsMemsetD16Async(dest: Any, value: int, count: int, stream: int | None = 0) -> None:
    """As topsMemsetD16, enqueued on a stream. InvalidHandle."""
    _start(stream, dest, value, 2, count, "count")


@call
async def topsMemsetD32(dest: Any, value: int, count: int) -> None:
    """Fill `count` elements of 4 bytes. InvalidValue: null, unknown, pageable or short memory."""
    await _fill(dest, value, 4, count, "count")


@call
def topsMemsetD32Async(dst: Any, value: int, count: int, stream: int | None = 0) -> None:
    """As topsMemsetD32, enqueued on a stream. InvalidHandle."""
    _start(stream, dst, value, 4, count, "count")


async def _fill(pointer: Any, value: int, width: int, count: int, what: str) -> None:
    """Fill on the null stream, and wait for host memory to be filled."""
    started = _start(None, pointer, value, width, count, what)
    if started.completion is not None and started.on_host:
        await until(started.completion)


def _start(stream: int | None, pointer: Any, value: int, width: int, count: int, what: str) -> Started:
    """Enqueue a fill of `count` elements of `width` bytes. Null is fine for a fill of nothing."""
    target = usable_stream_of(stream)
    elements = size_of(count, what)
    pattern = (whole(value, "value") & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    if elements == 0 and is_null(pointer):
        return Started(None)
    memory = pinned_or_pageable(pointer, elements * width, "the destination", writable=True)
    if not isinstance(memory, Buffer):
        raise bad_pointer("the destination is pageable host memory; device, pinned or registered memory is right")
    if elements == 0:
        return Started(None)
    return Started(target.fill(memory, pattern), memory.device is None)
