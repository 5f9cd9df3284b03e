"""What each DTE operation that gcu300 adds demands before anything moves. Moves nothing itself.

As the checks of the other eleven: each takes what its operation takes and raises InvalidValue (InvalidType for what is
no number), naming the dimension and the extents; shapes and types are compared first, places last.
"""

from __future__ import annotations

import operator

import numpy as np

from atops.base.dtypes import element_name
from atops.base.errors import InvalidType, InvalidValue
from atops.device.dte.checks import MIRRORED_AXIS, check_axis, check_cut, check_padded, check_repeats
from atops.device.geometry import (
    Ints,
    Shaped,
    check_alike,
    check_extents,
    check_inside,
    check_kind,
    check_numbers,
    check_overlap,
    check_rank,
    check_value,
    every,
    may_overlap,
    mirrored,
    part,
    repeated,
    spread,
    window,
)

__all__ = (
    "check_memset_deslice",
    "check_mirror_lr_deslice",
    "check_mirror_lr_pad",
    "check_mirror_tb_deslice",
    "check_mirror_tb_pad",
    "check_shrink_deslice",
    "check_slice_broadcast",
    "check_slice_deslice",
    "check_slice_expand",
    "check_slice_pad",
    "check_sub_sample",
)

_RATIOS = range(2)


def check_slice_pad(
    dst: Shaped, src: Shaped, *, src_offsets: Ints, slice_shape: Ints, low: Ints, high: Ints, mid: Ints,
    value: object = 0,
) -> None:  # fmt: skip
    """Demand what slice demands of the window, and what pad demands of dst around a window of `slice_shape`."""
    op = "slice_pad"
    check_alike(op, dst, src)
    offsets, extents = _check_window(op, src, src_offsets, slice_shape)
    check_padded(op, dst, extents, low, high, mid, value)
    if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
        inside = src[window(offsets, extents)]
        between = dst[spread(low, dst.shape, high, mid)]
        check_overlap(op, dst, between[window((0,) * dst.ndim, inside.shape)], inside)


def check_slice_deslice(
    dst: Shaped, src: Shaped, *, src_offsets: Ints, slice_shape: Ints, dst_offsets: Ints
) -> None:  # fmt: skip
    """Demand one type and rank, src_offsets that are not negative, and a window of `slice_shape` inside dst."""
    op = "slice_deslice"
    rank = check_alike(op, dst, src)
    offsets, extents = _check_window(op, src, src_offsets, slice_shape)
    target = check_numbers(op, "dst_offsets", dst_offsets, rank)
    check_inside(op, dst, target, extents)
    if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
        check_cut(op, dst[window(target, extents)], src, offsets)


def check_slice_broadcast(dst: Shaped, src: Shaped, *, src_offsets: Ints, slice_shape: Ints) -> None:
    """Demand one type, and that each extent of `slice_shape`, counted from the last, is 1 or dst's."""
    op = "slice_broadcast"
    check_kind(op, dst, src)
    offsets, extents = _check_window(op, src, src_offsets, slice_shape)
    check_repeats(op, dst, "slice_shape", extents)
    if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
        inside = src[window(offsets, extents)]
        filled = repeated(inside.shape, extents, dst.shape)
        check_overlap(op, dst, dst[window((0,) * dst.ndim, filled)], inside)


def check_slice_expand(
    dst: Shaped, src: Shaped, *, src_offsets: Ints, slice_shape: Ints, phase: int, ratio: int
) -> None:  # fmt: skip
    """Demand dst of `slice_shape`, with elements 2 ** (ratio + 1) times as large as src's, and a part of them."""
    op = "slice_expand"
    check_rank(op, dst, src)
    phase = _check_parts(op, dst, src, phase, ratio, "dst")
    offsets, extents = _check_window(op, src, src_offsets, slice_shape)
    check_extents(op, dst, extents, "slice_shape", extents)
    if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
        inside = src[window(offsets, extents)]
        filled = dst[window((0,) * dst.ndim, inside.shape)]
        check_overlap(op, dst, part(filled, phase, src.dtype), inside)


def check_shrink_deslice(dst: Shaped, src: Shaped, *, phase: int, ratio: int, dst_offsets: Ints) -> None:
    """Demand src's elements 2 ** (ratio + 1) times as large as dst's, a part of them, and a window inside dst."""
    op = "shrink_deslice"
    rank = check_rank(op, dst, src)
    phase = _check_parts(op, src, dst, phase, ratio, "src")
    offsets = check_numbers(op, "dst_offsets", dst_offsets, rank)
    check_inside(op, dst, offsets, src.shape)
    if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
        landing = dst[window(offsets, src.shape)]
        check_overlap(op, landing, landing, part(src, phase, dst.dtype))


def check_memset_deslice(dst: Shaped, src: Shaped, *, dst_offsets: Ints, value: object) -> None:
    """Demand one type and rank, a window of src's shape inside dst, and a value; where src lies does not matter."""
    op = "memset_deslice"
    rank = check_alike(op, dst, src)
    check_inside(op, dst, check_numbers(op, "dst_offsets", dst_offsets, rank), src.shape)
    check_value(op, value, dst.dtype)


def check_mirror_tb_pad(dst: Shaped, src: Shaped, *, low: Ints, high: Ints, mid: Ints, value: object = 0) -> None:
    """Last axis: demand what pad demands, and at least one dimension."""
    _check_mirror_pad("mirror_tb_pad", MIRRORED_AXIS["mirror_tb"], dst, src, low, high, mid, value)


def check_mirror_lr_pad(dst: Shaped, src: Shaped, *, low: Ints, high: Ints, mid: Ints, value: object = 0) -> None:
    """Last axis but one: demand what pad demands, and at least two dimensions."""
    _check_mirror_pad("mirror_lr_pad", MIRRORED_AXIS["mirror_lr"], dst, src, low, high, mid, value)


def check_mirror_tb_deslice(dst: Shaped, src: Shaped, *, dst_offsets: Ints) -> None:
    """Last axis: demand what deslice demands, and at least one dimension."""
    _check_mirror_deslice("mirror_tb_deslice", MIRRORED_AXIS["mirror_tb"], dst, src, dst_offsets)


def check_mirror_lr_deslice(dst: Shaped, src: Shaped, *, dst_offsets: Ints) -> None:
    """Last axis but one: demand what deslice demands, and at least two dimensions."""
    _check_mirror_deslice("mirror_lr_deslice", MIRRORED_AXIS["mirror_lr"], dst, src, dst_offsets)


def check_sub_sample(dst: Shaped, src: Shaped, *, dim_stride: Ints) -> None:
    """Demand one type and rank, a positive stride for each dimension, and dst of ceil(n / stride) in each."""
    op = "sub_sample"
    strides = check_numbers(op, "dim_stride", dim_stride, check_alike(op, dst, src), least=1)
    kept = tuple([-(-extent // stride) for extent, stride in zip(src.shape, strides, strict=True)])
    check_extents(op, dst, kept, f"dim_stride is {strides} and src", src.shape)
    if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
        check_overlap(op, dst, dst, src[every(strides)])


def _check_window(
    op: str, src: Shaped, src_offsets: Ints, slice_shape: Ints
) -> tuple[tuple[int, ...], tuple[int, ...]]:  # fmt: skip
    """Return offsets and extents of a window of src, one of each for each of its dimensions, none negative."""
    rank = len(src.shape)
    return check_numbers(op, "src_offsets", src_offsets, rank), check_numbers(op, "slice_shape", slice_shape, rank)


def _check_parts(op: str, large: Shaped, small: Shaped, phase: int, ratio: int, which: str) -> int:
    """Return the phase. Demand a ratio, elements of `large` that many times those of `small`, and a phase of it."""
    factor = 2 << _check_number(op, "ratio", ratio, _RATIOS)
    wide, narrow = large.dtype.itemsize, small.dtype.itemsize
    if wide != factor * narrow:
        other = "src" if which == "dst" else "dst"
        raise InvalidValue(
            f"{op}: {which} has elements of {element_name(large.dtype)}, {wide} bytes, and {other} of "
            f"{element_name(small.dtype)}, {narrow}; with ratio {ratio}, {factor} times as many are right"
        )
    return _check_number(op, "phase", phase, range(factor), f" with ratio {ratio}")


def _check_number(op: str, what: str, number: int, choice: range, when: str = "") -> int:
    """Return `number` as an int of `choice`. Raises InvalidType where it is none, InvalidValue where it is another."""
    try:
        value = operator.index(number)
    except TypeError:
        value = None
    if value is not None and value in choice:
        return value
    wrong = InvalidType if value is None else InvalidValue
    right = f"{', '.join(map(str, choice[:-1]))} or {choice[-1]}"
    raise wrong(f"{op}: {what} is {number!r}; {right}{when} is right")


def _check_mirror_pad(
    op: str, axis: int, dst: Shaped, src: Shaped, low: Ints, high: Ints, mid: Ints, value: object
) -> None:  # fmt: skip
    """Demand what pad demands, and the axis to reverse."""
    check_alike(op, dst, src)
    check_axis(op, src, axis)
    check_padded(op, dst, src.shape, low, high, mid, value)
    if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
        check_overlap(op, dst, dst[spread(low, dst.shape, high, mid)], mirrored(src, axis))


def _check_mirror_deslice(op: str, axis: int, dst: Shaped, src: Shaped, dst_offsets: Ints) -> None:
    """Demand what deslice demands, and the axis to reverse."""
    rank = check_alike(op, dst, src)
    check_axis(op, src, axis)
    offsets = check_numbers(op, "dst_offsets", dst_offsets, rank)
    check_inside(op, dst, offsets, src.shape)
    if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
        landing = dst[window(offsets, src.shape)]
        check_overlap(op, landing, landing, mirrored(src, axis))
