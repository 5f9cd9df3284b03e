"""The DTE's operations as pure numpy functions and one table of them. Knows no engine, no context and no span.

Here are the eleven that every architecture has; a second file has those of gcu300, and the table has all. Destination
first, dimension 0 outermost. A function trusts that its check has passed; `Operation` pairs the two. Bits are moved,
never converted. Where source and destination overlap in memory, see `check_overlap`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from atops.device.dte import checks
from atops.device.dte import checks_gcu300 as checks_300
from atops.device.dte import operations_gcu300 as moves_300
from atops.device.dte.array_copy import HELD_BYTES, LOCKED_ELEMENTS, assign, cut, fill, move, repeat, surround
from atops.device.dte.checks import MIRRORED_AXIS
from atops.device.geometry import Array, Ints, inverse, mirrored, window

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


@dataclass(frozen=True, slots=True)
class Operation:
    """One DTE operation: what it takes, what it demands and what it does.

    `check(dst, src, **parameters)` raises InvalidValue before anything moves; it reads shapes and element types, and
    places where both are arrays. `apply(dst, src, **parameters)` writes into the array `dst` and trusts the check.
    `parameters` are the names in order, those in `defaults` may be left out. `takes_source` is False where `src` is
    None. `gcu_arch` is the first architecture that has it, 210 or 300; `section` is where it is specified.
    """

    name: str
    parameters: tuple[str, ...]
    defaults: Mapping[str, object]
    check: Callable[..., None]
    apply: Callable[..., None]
    summary: str
    gcu_arch: int = 210
    takes_source: bool = True
    section: str = "TOPS C++, 8.7"

    def __call__(self, dst: Array, src: Array | None, **parameters: object) -> None:
        """Check, then apply. Raises what the check raises; then nothing has moved."""
        self.check(dst, src, **parameters)
        self.apply(dst, src, **parameters)


def memcpy(dst: Array, src: Array) -> None:
    """Copy all bytes of src, in row-major order, to the first bytes of dst; the types may differ."""
    if dst.size <= LOCKED_ELEMENTS and dst.dtype is src.dtype and dst.shape == src.shape:
        dst[...] = src
        return
    if dst.ndim == 1 and dst.nbytes <= HELD_BYTES:
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


def memset(dst: Array, src: None = None, *, value: object) -> None:
    """Set every element of dst to `value`, a value of dst's element type."""
    fill(dst, value)


def slice_(dst: Array, src: Array, *, offsets: Ints, value: object = 0) -> None:
    """Copy the window of dst's shape at `offsets` of src to dst; what lies beyond src is `value`."""
    cut(dst, src, offsets, value)


def deslice(dst: Array, src: Array, *, offsets: Ints) -> None:
    """Copy src over the window of its shape at `offsets` of dst; the rest of dst stays."""
    move(dst[window(offsets, src.shape)], src)


def transpose(dst: Array, src: Array, *, layout: Ints) -> None:
    """Copy src so that dimension i of dst is dimension `layout[i]` of src: numpy.transpose(src, layout)."""
    move(dst, src.transpose(layout))


def slice_transpose(dst: Array, src: Array, *, offsets: Ints, layout: Ints, value: object = 0) -> None:
    """Transpose the window of src at `offsets` into dst; its shape `s` has dst.shape[i] == s[layout[i]]."""
    cut(dst.transpose(inverse(layout)), src, offsets, value)


def transpose_deslice(dst: Array, src: Array, *, offsets: Ints, layout: Ints) -> None:
    """Transpose src by `layout`, then copy it over the window at `offsets` of dst; the rest of dst stays."""
    turned = src.transpose(layout)
    move(dst[window(offsets, turned.shape)], turned)


def pad(dst: Array, src: Array, *, low: Ints, high: Ints, mid: Ints, value: object = 0) -> None:
    """Surround and spread src: per dimension `low` before, `mid` between neighbours and `high` after, all `value`."""
    surround(dst, src, low, high, mid, value)


def mirror_tb(dst: Array, src: Array) -> None:
    """Last axis: copy src with its last axis (X, the last entry of the shape) reversed."""
    assign(dst, mirrored(src, MIRRORED_AXIS["mirror_tb"]))


def mirror_lr(dst: Array, src: Array) -> None:
    """Last axis but one: copy src with its last axis but one (Y) reversed."""
    assign(dst, mirrored(src, MIRRORED_AXIS["mirror_lr"]))


def broadcast(dst: Array, src: Array) -> None:
    """Repeat src along the dimensions it lacks or has once, as numpy.broadcast_to does to dst's shape."""
    repeat(dst, src)


_NONE: Mapping[str, object] = MappingProxyType({})
_FILL: Mapping[str, object] = MappingProxyType({"value": 0})

_ROWS = (
    Operation("memcpy", (), _NONE, checks.check_memcpy, memcpy, "bytes of src to the start of dst"),
    Operation("memset", ("value",), _NONE, checks.check_memset, memset, "one value to all of dst", takes_source=False),
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
    Operation("slice_pad", ("src_offsets", "slice_shape", "low", "high", "mid", "value"), _FILL,
              checks_300.check_slice_pad, moves_300.slice_pad, "a window of src, a value around and between", 300),
    Operation("slice_deslice", ("src_offsets", "slice_shape", "dst_offsets"), _NONE, checks_300.check_slice_deslice,
              moves_300.slice_deslice, "a window of src over a window of dst", 300),
    Operation("slice_broadcast", ("src_offsets", "slice_shape"), _NONE, checks_300.check_slice_broadcast,
              moves_300.slice_broadcast, "a window of src repeated to dst's shape", 300),
    Operation("slice_expand", ("src_offsets", "slice_shape", "phase", "ratio"), _NONE, checks_300.check_slice_expand,
              moves_300.slice_expand, "a window of src to one part of each element of dst, the rest 0", 300),
    Operation("shrink_deslice", ("phase", "ratio", "dst_offsets"), _NONE, checks_300.check_shrink_deslice,
              moves_300.shrink_deslice, "one part of each element of src over a window of dst", 300),
    Operation("memset_deslice", ("dst_offsets", "value"), _NONE, checks_300.check_memset_deslice,
              moves_300.memset_deslice, "one value over a window of dst that has src's shape", 300),
    Operation("mirror_tb_pad", ("low", "high", "mid", "value"), _FILL, checks_300.check_mirror_tb_pad,
              moves_300.mirror_tb_pad, "src, last axis reversed, a value around and between", 300),
    Operation("mirror_lr_pad", ("low", "high", "mid", "value"), _FILL, checks_300.check_mirror_lr_pad,
              moves_300.mirror_lr_pad, "src, last axis but one reversed, a value around and between", 300),
    Operation("mirror_tb_deslice", ("dst_offsets",), _NONE, checks_300.check_mirror_tb_deslice,
              moves_300.mirror_tb_deslice, "src, last axis reversed, over a window of dst", 300),
    Operation("mirror_lr_deslice", ("dst_offsets",), _NONE, checks_300.check_mirror_lr_deslice,
              moves_300.mirror_lr_deslice, "src, last axis but one reversed, over a window of dst", 300),
    Operation("sub_sample", ("dim_stride",), _NONE, checks_300.check_sub_sample, moves_300.sub_sample,
              "each dim_stride-th of src's elements, in each dimension, to dst", 300),
)  # fmt: skip

OPERATIONS: Mapping[str, Operation] = MappingProxyType({row.name: row for row in _ROWS})
