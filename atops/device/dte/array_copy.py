"""How the elements of one array get into another: whole, repeated, surrounded by a fill.

Bits are moved, never converted. Each function trusts that shapes fit, and that places are apart or the very same.
"""

from __future__ import annotations

import math

import numpy as np

from atops.device.geometry import Array, Ints, may_overlap, spread, window

__all__ = ("WORDS", "assign", "copy_bytes", "fill", "fill_around", "move", "repeat", "surround")

# Up to here one contiguous run is moved through memoryviews, which keep the interpreter lock: numpy lets it go, and
# beside a busy Python thread each getting back costs a whole switch interval.
_HELD_BYTES = 128 << 10
_LOCKED_ELEMENTS = 500  # up to here numpy keeps it too, and is faster

# Element types that a memoryview can assign; of others the bytes are moved.
_BUFFER_CODES = frozenset("?bBhHiIlLqQefd")

# A transposition reads down columns. Rows that lie a multiple of 512 bytes apart share a few sets of the cache, and of
# many rows the first are gone before their next element is read; so only as many rows at a time are moved as stay in
# 32 KiB of eight ways. That is two to six times as fast (1 MiB).
_WAY_BYTES, _ALIASING_BYTES, _CACHE_BYTES = 4096, 512, 32 << 10
_MOST_ROWS, _MANY_ROWS, _ROW_BYTES, _LINE_BYTES = 64, 512, 128, 64

# Rows shorter than this are filled whole rather than at both ends: each end costs about as much as so many bytes.
_SHORT_ROW_BYTES = 512

# Integers stand in for element types that numpy moves one at a time, such as bfloat16.
WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def move(dst: Array, src: Array) -> None:
    """Copy src to dst, which have one shape and element type, by the shortest way."""
    if dst.nbytes > _HELD_BYTES or not (dst.flags.c_contiguous and src.flags.c_contiguous):
        assign(dst, src)
        return
    if dst.ndim != 1:
        dst, src = dst.reshape(-1), src.reshape(-1)
    if dst.dtype.char not in _BUFFER_CODES:
        dst, src = dst.view(np.uint8), src.view(np.uint8)
    memoryview(dst)[:] = memoryview(src)  # type: ignore[arg-type]  # arrays are buffers at run time


def assign(dst: Array, src: Array) -> None:
    """Copy src to dst, which have one shape and element type, by numpy's assignment."""
    dst, src = _bits(dst), _bits(src)
    if dst.nbytes > _HELD_BYTES and dst.itemsize in dst.strides:
        axis = dst.strides.index(dst.itemsize)
        apart, nearest = abs(src.strides[axis]), min(map(abs, src.strides))
        aliasing = math.gcd(apart, _WAY_BYTES)
        columns = apart >= _ROW_BYTES and 0 < nearest < _LINE_BYTES  # neighbours of what is read share its cache line
        if columns and (aliasing >= _ALIASING_BYTES or dst.shape[axis] > _MANY_ROWS):
            count = min(_CACHE_BYTES // aliasing, _MOST_ROWS)
            for first in range(0, dst.shape[axis], count):
                rows = (slice(None),) * axis + (slice(first, first + count),)
                dst[rows] = src[rows]
            return
    dst[...] = src


def copy_bytes(dst: Array, src: Array) -> None:
    """Copy all bytes of src, in row-major order, to the first bytes of dst; the types may differ."""
    if dst.size <= _LOCKED_ELEMENTS and dst.dtype is src.dtype and dst.shape == src.shape:
        dst[...] = src
        return
    if dst.ndim == 1 and dst.nbytes <= _HELD_BYTES:
        try:
            memoryview(dst)[:] = memoryview(src)  # type: ignore[arg-type]  # nearly always: one shape, one plain type
            return
        except (ValueError, TypeError, NotImplementedError):  # of other shapes, and of types that buffers do not know
            pass
    if dst.dtype == src.dtype and dst.shape == src.shape:
        move(dst, src)
        return
    octets = np.ascontiguousarray(src).reshape(-1).view(np.uint8)
    if dst.flags.c_contiguous:
        move(dst.reshape(-1).view(np.uint8)[: octets.size], octets)
        return
    whole, rest = divmod(octets.size, dst.itemsize)
    dst.flat[:whole] = octets[: whole * dst.itemsize].view(dst.dtype)
    if rest:  # the last element takes only some of its bytes
        last = np.array([dst.flat[whole]], dst.dtype)
        last.view(np.uint8)[:rest] = octets[-rest:]
        dst.flat[whole] = last[0]


def repeat(dst: Array, src: Array) -> None:
    """Copy src to dst, repeated along the dimensions that it lacks or has once."""
    dst, src = _bits(dst), _bits(src)
    if src.ndim > 1 and src.shape[-1] == 1 < src.shape[-2]:
        width = dst.shape[-1]
        if width * dst.itemsize < _ROW_BYTES and 2 * src.size * width <= dst.size:
            src = np.repeat(src, width, -1)  # numpy repeats short rows faster than their one element
    dst[...] = src


def fill(dst: Array, value: object) -> None:
    """Set every element of dst to `value`."""
    _bits(dst).fill(_bits_of(value, dst))


def fill_around(dst: Array, first: Ints, extents: Ints, value: object) -> None:
    """Fill what lies outside the window of `extents` from `first`, and only that: src may lie in the window."""
    value, dst = _bits_of(value, dst), _bits(dst)
    inner: tuple[slice, ...] = ()
    for start, extent, whole in zip(first, extents, dst.shape, strict=True):
        end = start + extent
        if start:
            dst[(*inner, slice(start))] = value
        if end < whole:
            dst[(*inner, slice(end, None))] = value
        inner = (*inner, slice(start, end))


def surround(dst: Array, src: Array, low: Ints, high: Ints, mid: Ints, value: object) -> None:
    """Copy src behind `low`, its elements `mid` apart, and fill the rest of dst with `value`.

    What dst has between `low` and `high` may be more than src has; src comes first there and `value` after it.
    """
    if any(mid):
        source = src.copy() if may_overlap(dst, src) else src
        fill(dst, value)
        between = dst[spread(low, dst.shape, high, mid)]
        assign(between[window((0,) * dst.ndim, src.shape)], source)
        return
    if dst.ndim and dst.shape[-1] * dst.itemsize < _SHORT_ROW_BYTES and not may_overlap(dst, src):
        fill(dst, value)
    else:
        fill_around(dst, low, src.shape, value)
    move(dst[window(low, src.shape)], src)


def _bits(array: Array) -> Array:
    """Return a view of elements that numpy moves slowly as integers of their size, and other arrays as they are."""
    if array.dtype.kind != "V" or array.itemsize not in WORDS:
        return array
    return array.view(WORDS[array.itemsize])


def _bits_of(value: object, array: Array) -> object:
    """Return `value` as an element of `_bits(array)`."""
    return value if array.dtype.kind != "V" else _bits(np.array(value, array.dtype))[()]
