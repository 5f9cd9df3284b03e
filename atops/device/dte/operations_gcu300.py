"""The DTE operations that gcu300 adds, as pure numpy functions. Knows no engine, no context and no span.

Destination first, dimension 0 outermost. A function trusts that its check has passed. Bits are moved, never converted.
"""

from __future__ import annotations

import numpy as np

from atops.device.dte.array_copy import WORDS, assign, cut, fill, fill_around, move, repeat, surround
from atops.device.dte.checks import MIRRORED_AXIS
from atops.device.geometry import Array, Ints, every, mirrored, part, repeated, window

__all__ = (
    "memset_deslice",
    "mirror_lr_deslice",
    "mirror_lr_pad",
    "mirror_tb_deslice",
    "mirror_tb_pad",
    "shrink_deslice",
    "slice_broadcast",
    "slice_deslice",
    "slice_expand",
    "slice_pad",
    "sub_sample",
)


def slice_pad(
    dst: Array, src: Array, *, src_offsets: Ints, slice_shape: Ints, low: Ints, high: Ints, mid: Ints,
    value: object = 0,
) -> None:  # fmt: skip
    """Pad the window of `slice_shape` at `src_offsets` of src into dst; what lies beyond src is `value` too."""
    surround(dst, src[window(src_offsets, slice_shape)], low, high, mid, value)


def slice_deslice(dst: Array, src: Array, *, src_offsets: Ints, slice_shape: Ints, dst_offsets: Ints) -> None:
    """Copy a window of src over the window at `dst_offsets` of dst; what lies beyond src is 0, the rest of dst stays.

    Both windows have `slice_shape`.
    """
    cut(dst[window(dst_offsets, slice_shape)], src, src_offsets, 0)


def slice_broadcast(dst: Array, src: Array, *, src_offsets: Ints, slice_shape: Ints) -> None:
    """Repeat a window of src as numpy.broadcast_to does to dst's shape; what lies beyond src is 0."""
    inside = src[window(src_offsets, slice_shape)]
    filled = repeated(inside.shape, slice_shape, dst.shape)
    if filled != dst.shape:
        origin = (0,) * dst.ndim
        fill_around(dst, origin, filled, 0)
        dst = dst[window(origin, filled)]
    repeat(dst, inside)


def slice_expand(dst: Array, src: Array, *, src_offsets: Ints, slice_shape: Ints, phase: int, ratio: int) -> None:
    """Copy a window of src to part `phase` of dst's elements; their other parts, and what lies beyond src, are 0.

    An element of dst is 2 ** (ratio + 1) parts of the size of src's, counted from the low bytes.
    """
    inside = src[window(src_offsets, slice_shape)]
    if inside.shape != dst.shape:
        origin = (0,) * dst.ndim
        fill_around(dst, origin, inside.shape, 0)
        dst = dst[window(origin, inside.shape)]
    _widen(dst, inside, phase)


def shrink_deslice(dst: Array, src: Array, *, phase: int, ratio: int, dst_offsets: Ints) -> None:
    """Copy part `phase` of src's elements over the window of src's shape at `dst_offsets` of dst; the rest stays.

    An element of src is 2 ** (ratio + 1) parts of the size of dst's, counted from the low bytes.
    """
    _narrow(dst[window(dst_offsets, src.shape)], src, phase)


def memset_deslice(dst: Array, src: Array, *, dst_offsets: Ints, value: object) -> None:
    """Set the window of src's shape at `dst_offsets` of dst to `value`; src is neither read nor written."""
    fill(dst[window(dst_offsets, src.shape)], value)


def mirror_tb_pad(dst: Array, src: Array, *, low: Ints, high: Ints, mid: Ints, value: object = 0) -> None:
    """Last axis: pad src with its last axis (X) reversed into dst."""
    surround(dst, mirrored(src, MIRRORED_AXIS["mirror_tb"]), low, high, mid, value)


def mirror_lr_pad(dst: Array, src: Array, *, low: Ints, high: Ints, mid: Ints, value: object = 0) -> None:
    """Last axis but one: pad src with its last axis but one (Y) reversed into dst."""
    surround(dst, mirrored(src, MIRRORED_AXIS["mirror_lr"]), low, high, mid, value)


def mirror_tb_deslice(dst: Array, src: Array, *, dst_offsets: Ints) -> None:
    """Last axis: copy src with its last axis (X) reversed over the window at `dst_offsets` of dst; the rest stays."""
    assign(dst[window(dst_offsets, src.shape)], mirrored(src, MIRRORED_AXIS["mirror_tb"]))


def mirror_lr_deslice(dst: Array, src: Array, *, dst_offsets: Ints) -> None:
    """Last axis but one: copy src with that axis (Y) reversed over the window at `dst_offsets`; the rest stays."""
    assign(dst[window(dst_offsets, src.shape)], mirrored(src, MIRRORED_AXIS["mirror_lr"]))


def sub_sample(dst: Array, src: Array, *, dim_stride: Ints) -> None:
    """Copy each `dim_stride`-th element of src in each dimension, from the first: src[::s0, ::s1, ...]."""
    move(dst, src[every(dim_stride)])


def _widen(dst: Array, src: Array, phase: int) -> None:
    """Copy src's elements to one part of dst's, which are larger, and set the other parts to 0."""
    if dst.itemsize in WORDS and src.itemsize in WORDS:  # arithmetic of integers is several times as fast as a stride
        dst = dst.view(WORDS[dst.itemsize])
        dst[...] = src.view(WORDS[src.itemsize])
        if phase:
            np.left_shift(dst, dst.dtype.type(8 * src.itemsize * phase), out=dst)
        return
    for each in range(dst.itemsize // src.itemsize):
        if each == phase:
            assign(part(dst, each, src.dtype), src)
        else:
            fill(part(dst, each, src.dtype), 0)


def _narrow(dst: Array, src: Array, phase: int) -> None:
    """Copy one part of src's elements to dst's, which are smaller."""
    if dst.itemsize in WORDS and src.itemsize in WORDS:
        shift = 8 * dst.itemsize * phase
        dst, src = dst.view(WORDS[dst.itemsize]), src.view(WORDS[src.itemsize])
        if shift:
            np.right_shift(src, src.dtype.type(shift), out=dst, casting="unsafe")
        else:
            dst[...] = src
        return
    assign(dst, part(src, phase, dst.dtype))
