"""The DTE's operations as pure numpy functions and one table of them. Knows no engine, no context and no span.

Destination first, dimension 0 outermost. A function trusts that its check has passed; `Operation` pairs the two. Bits
are moved, never converted. Where source and destination overlap in memory, see `check_overlap`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from atops.device import transform_checks as checks
from atops.device.geometry import Array, Ints, inverse, may_overlap, spread, window
from atops.device.transform_checks import MIRRORED_AXIS

__all__ = (
    "OPERATIONS",
    "Operation",
    "broadcast",
    "deslice",
    "memcpy",
    "memset",
    "mirror_lr",
    "mirror_tb",
    "pad",
    "slice_",
    "slice_transpose",
    "transpose",
    "transpose_deslice",
)

# Up to here one contiguous run is moved through memoryviews, which keep the interpreter lock: numpy lets it go, and
# beside a busy Python thread each getting back costs a whole switch interval.
_HELD_BYTES = 128 << 10

# Element types that a memoryview can assign; of others the bytes are moved.
_BUFFER_CODES = frozenset("?bBhHiIlLqQefd")

# A transposition whose rows lie a multiple of this apart keeps hitting the same few cache sets; taking so many rows at
# a time makes it about four times as fast (1 MiB, float32).
_ALIASING_BYTES = 1024
_ROWS_AT_ONCE = 16

# Integers stand in for element types that numpy moves one at a time, such as bfloat16.
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True)
class Operation:
    """One DTE operation: what it takes, what it demands and what it does.

    `check(dst, src, **parameters)` raises InvalidValue before anything moves; it reads shapes and element types, and
    places where both are arrays. `apply(dst, src, **parameters)` writes into the array `dst` and trusts the check.
    `parameters` are the names in order, those in `defaults` may be left out. `reads_source` is False where `src` is
    None. `gcu_arch` is the first architecture that has it, 210 or 300; `section` is where it is specified.
    """

    name: str
    parameters: tuple[str, ...]
    defaults: Mapping[str, object]
    check: Callable[..., None]
    apply: Callable[..., None]
    summary: str
    gcu_arch: int = 210
    reads_source: bool = True
    section: str = "TOPS C++, 8.7"

    def __call__(self, dst: Array, src: Array | None, **parameters: object) -> None:
        """Check, then apply. Raises what the check raises; then nothing has moved."""
        self.check(dst, src, **parameters)
        self.apply(dst, src, **parameters)


def memcpy(dst: Array, src: Array) -> None:
    """Copy all bytes of src, in row-major order, to the first bytes of dst; the types may differ."""
    if dst.ndim == 1 and dst.nbytes <= _HELD_BYTES:
        try:
            memoryview(dst)[:] = memoryview(src)  # type: ignore[arg-type]  # nearly always: one shape, one plain type
            return
        except (ValueError, TypeError):  # which numpy's buffers say of other shapes, and of types they do not know
            pass
    if dst.dtype == src.dtype and dst.shape == src.shape:
        _move(dst, src)
        return
    octets = np.ascontiguousarray(src).reshape(-1).view(np.uint8)
    if dst.flags.c_contiguous:
        _move(dst.reshape(-1).view(np.uint8)[: octets.size], octets)
        return
    whole, rest = divmod(octets.size, dst.itemsize)
    dst.flat[:whole] = octets[: whole * dst.itemsize].view(dst.dtype)
    if rest:  # the last element takes only some of its bytes
        last = np.array([dst.flat[whole]], dst.dtype)
        last.view(np.uint8)[:rest] = octets[-rest:]
        dst.flat[whole] = last[0]


def memset(dst: Array, src: None = None, *, value: object) -> None:
    """Set every element of dst to `value`, a value of dst's element type."""
    _bits(dst).fill(_bits_of(value, dst))


def slice_(dst: Array, src: Array, *, offsets: Ints, value: object = 0) -> None:
    """Copy the window of dst's shape at `offsets` of src to dst; what lies beyond src is `value`."""
    _cut(dst, src, offsets, value)


def deslice(dst: Array, src: Array, *, offsets: Ints) -> None:
    """Copy src over the window of its shape at `offsets` of dst; the rest of dst stays."""
    _move(dst[window(offsets, src.shape)], src)


def transpose(dst: Array, src: Array, *, layout: Ints) -> None:
    """Copy src so that dimension i of dst is dimension `layout[i]` of src: numpy.transpose(src, layout)."""
    _move(dst, src.transpose(layout))


def slice_transpose(dst: Array, src: Array, *, offsets: Ints, layout: Ints, value: object = 0) -> None:
    """Transpose the window of src at `offsets` into dst; its shape `s` has dst.shape[i] == s[layout[i]]."""
    _cut(dst.transpose(inverse(layout)), src, offsets, value)


def transpose_deslice(dst: Array, src: Array, *, offsets: Ints, layout: Ints) -> None:
    """Transpose src by `layout`, then copy it over the window at `offsets` of dst; the rest of dst stays."""
    turned = src.transpose(layout)
    _move(dst[window(offsets, turned.shape)], turned)


def pad(dst: Array, src: Array, *, low: Ints, high: Ints, mid: Ints, value: object = 0) -> None:
    """Surround and spread src: per dimension `low` before, `mid` between neighbours and `high` after, all `value`."""
    if any(mid):
        source = src.copy() if may_overlap(dst, src) else src
        memset(dst, value=value)
        _assign(dst[spread(low, dst.shape, high, mid)], source)
        return
    _fill_around(dst, low, src.shape, value)
    _move(dst[window(low, src.shape)], src)


def mirror_tb(dst: Array, src: Array) -> None:
    """Last axis: copy src with its last axis (X, the last entry of the shape) reversed."""
    _assign(dst, np.flip(src, MIRRORED_AXIS["mirror_tb"]))


def mirror_lr(dst: Array, src: Array) -> None:
    """Last axis but one: copy src with its last axis but one (Y) reversed."""
    _assign(dst, np.flip(src, MIRRORED_AXIS["mirror_lr"]))


def broadcast(dst: Array, src: Array) -> None:
    """Repeat src along the dimensions it lacks or has once, as numpy.broadcast_to does to dst's shape."""
    _bits(dst)[...] = _bits(src)


def _move(dst: Array, src: Array) -> None:
    """Copy src to dst, which have one shape and element type, by the shortest way."""
    if dst.nbytes > _HELD_BYTES or not (dst.flags.c_contiguous and src.flags.c_contiguous):
        _assign(dst, src)
        return
    if dst.ndim != 1:
        dst, src = dst.reshape(-1), src.reshape(-1)
    if dst.dtype.char not in _BUFFER_CODES:
        dst, src = dst.view(np.uint8), src.view(np.uint8)
    memoryview(dst)[:] = memoryview(src)  # type: ignore[arg-type]  # arrays are buffers at run time


def _assign(dst: Array, src: Array) -> None:
    """Copy src to dst, which have one shape and element type, by numpy's assignment."""
    dst, src = _bits(dst), _bits(src)
    if dst.nbytes > _HELD_BYTES and dst.itemsize in dst.strides:
        axis = dst.strides.index(dst.itemsize)
        if src.strides[axis] and src.strides[axis] % _ALIASING_BYTES == 0:
            for first in range(0, dst.shape[axis], _ROWS_AT_ONCE):
                rows = (slice(None),) * axis + (slice(first, first + _ROWS_AT_ONCE),)
                dst[rows] = src[rows]
            return
    dst[...] = src


def _bits(array: Array) -> Array:
    """Return a view of elements that numpy moves slowly as integers of their size, and other arrays as they are."""
    if array.dtype.kind != "V" or array.itemsize not in _WORDS:
        return array
    return array.view(_WORDS[array.itemsize])


def _bits_of(value: object, array: Array) -> object:
    """Return `value` as an element of `_bits(array)`."""
    return value if array.dtype.kind != "V" else _bits(np.array(value, array.dtype))[()]


def _cut(dst: Array, src: Array, offsets: Ints, value: object) -> None:
    """Copy src's window at `offsets` to dst and fill with `value` what of dst lies beyond src."""
    inside = src[window(offsets, dst.shape)]
    if inside.shape == dst.shape:
        _move(dst, inside)
        return
    origin = (0,) * dst.ndim
    _fill_around(dst, origin, inside.shape, value)
    _assign(dst[window(origin, inside.shape)], inside)


def _fill_around(dst: Array, first: Ints, extents: Ints, value: object) -> None:
    """Fill what lies outside the window of `extents` from `first`, and only that: src may lie in the window."""
    value, dst = _bits_of(value, dst), _bits(dst)
    inner: tuple[slice, ...] = ()
    for start, extent, whole in zip(first, extents, dst.shape, strict=True):
        if start:
            dst[(*inner, slice(0, start))] = value
        if start + extent < whole:
            dst[(*inner, slice(start + extent, whole))] = value
        inner = (*inner, slice(start, start + extent))


_NONE: Mapping[str, object] = MappingProxyType({})
_FILL: Mapping[str, object] = MappingProxyType({"value": 0})

_ROWS = (
    Operation("memcpy", (), _NONE, checks.check_memcpy, memcpy, "bytes of src to the start of dst"),
    Operation("memset", ("value",), _NONE, checks.check_memset, memset, "one value to all of dst", reads_source=False),
    Operation("slice", ("offsets", "value"), _FILL, checks.check_slice, slice_, "a window of src to dst"),
    Operation("deslice", ("offsets",), _NONE, checks.check_deslice, deslice, "src over a window of dst"),
    Operation("transpose", ("layout",), _NONE, checks.check_transpose, transpose, "src, dimensions permuted, to dst"),
    Operation("slice_transpose", ("offsets", "layout", "value"), _FILL, checks.check_slice_transpose, slice_transpose,
              "a window of src, dimensions permuted, to dst"),
    Operation("transpose_deslice", ("offsets", "layout"), _NONE, checks.check_transpose_deslice, transpose_deslice,
              "src, dimensions permuted, over a window of dst"),
    Operation("pad", ("low", "high", "mid", "value"), _FILL, checks.check_pad, pad, "src, a value around and between"),
    Operation("mirror_tb", (), _NONE, checks.check_mirror_tb, mirror_tb, "src, last axis reversed, to dst"),
    Operation("mirror_lr", (), _NONE, checks.check_mirror_lr, mirror_lr, "src, last axis but one reversed, to dst"),
    Operation("broadcast", (), _NONE, checks.check_broadcast, broadcast, "src repeated to dst's shape"),
)  # fmt: skip

OPERATIONS: Mapping[str, Operation] = MappingProxyType({row.name: row for row in _ROWS})
