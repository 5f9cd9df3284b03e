"""What each DTE operation demands before anything moves: the checks of the operation table. Moves nothing itself.

Here are those of the eleven operations of every architecture, and what they share with those of gcu300. Each takes
what its operation takes and raises InvalidValue (InvalidType for what is no number), naming the dimension and the
extents. Shapes and types are compared first, places last, for a window must exist to have a place.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from atops.base.dtypes import element_name
from atops.base.errors import InvalidValue
from atops.device.geometry import (
    Ints,
    Shaped,
    byte_count,
    check_alike,
    check_extents,
    check_inside,
    check_kind,
    check_layout,
    check_numbers,
    check_overlap,
    check_value,
    inverse,
    may_overlap,
    mirrored,
    spread,
    window,
)

__all__ = (
    "MIRRORED_AXIS",
    "check_axis",
    "check_broadcast",
    "check_cut",
    "check_deslice",
    "check_memcpy",
    "check_memset",
    "check_mirror_lr",
    "check_mirror_tb",
    "check_pad",
    "check_padded",
    "check_paste",
    "check_repeats",
    "check_slice",
    "check_slice_transpose",
    "check_transpose",
    "check_transpose_deslice",
)

# Which axis each mirror reverses, as TOPS C++ 8.7 has it; the names suggest the other one.
MIRRORED_AXIS: Mapping[str, int] = MappingProxyType({"mirror_tb": -1, "mirror_lr": -2})


def check_memcpy(dst: Shaped, src: Shaped) -> None:
    """Demand that all bytes of src fit into dst."""
    if dst.shape != src.shape or dst.dtype != src.dtype:
        size, room = byte_count(src), byte_count(dst)
        if size > room:
            raise InvalidValue(
                f"memcpy: dst {element_name(dst.dtype)}{list(dst.shape)} has {room} bytes and src "
                f"{element_name(src.dtype)}{list(src.shape)} has {size}; room for all of src is right"
            )
    if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
        if dst.flags.c_contiguous and src.flags.c_contiguous:  # of dst, only what receives bytes is written
            dst, src = dst.reshape(-1).view(np.uint8)[: src.nbytes], src.reshape(-1).view(np.uint8)
        check_overlap("memcpy", dst, dst, src)


def check_memset(dst: Shaped, src: object = None, *, value: object) -> None:
    """Demand a value of dst's element type."""
    check_value("memset", value, dst.dtype)


def check_slice(dst: Shaped, src: Shaped, *, offsets: Ints, value: object = 0) -> None:
    """Demand one type and rank, offsets that are not negative, and a value of the element type."""
    rank = check_alike("slice", dst, src)
    offsets = check_numbers("slice", "offset", offsets, rank)
    check_value("slice", value, dst.dtype)
    check_cut("slice", dst, src, offsets)


def check_slice_transpose(dst: Shaped, src: Shaped, *, offsets: Ints, layout: Ints, value: object = 0) -> None:
    """Demand what slice demands, and a layout that is a permutation."""
    rank = check_alike("slice_transpose", dst, src)
    offsets = check_numbers("slice_transpose", "offset", offsets, rank)
    order = inverse(check_layout("slice_transpose", layout, rank))
    check_value("slice_transpose", value, dst.dtype)
    check_cut("slice_transpose", dst.transpose(order) if isinstance(dst, np.ndarray) else dst, src, offsets)


def check_deslice(dst: Shaped, src: Shaped, *, offsets: Ints) -> None:
    """Demand one type and rank, and a window inside dst."""
    rank = check_alike("deslice", dst, src)
    offsets = check_numbers("deslice", "offset", offsets, rank)
    check_inside("deslice", dst, offsets, src.shape)
    check_paste("deslice", dst, src, offsets)


def check_transpose(dst: Shaped, src: Shaped, *, layout: Ints) -> None:
    """Demand one type and rank, a layout that is a permutation, and src's extents in that order."""
    rank = check_alike("transpose", dst, src)
    layout = check_layout("transpose", layout, rank)
    check_extents("transpose", dst, tuple([src.shape[axis] for axis in layout]), "src", src.shape)
    if isinstance(src, np.ndarray):
        check_overlap("transpose", dst, dst, src.transpose(layout))


def check_transpose_deslice(dst: Shaped, src: Shaped, *, offsets: Ints, layout: Ints) -> None:
    """Demand one type and rank, a layout that is a permutation, and a transposed window inside dst."""
    rank = check_alike("transpose_deslice", dst, src)
    layout = check_layout("transpose_deslice", layout, rank)
    offsets = check_numbers("transpose_deslice", "offset", offsets, rank)
    check_inside("transpose_deslice", dst, offsets, tuple([src.shape[axis] for axis in layout]))
    check_paste("transpose_deslice", dst, src.transpose(layout) if isinstance(src, np.ndarray) else src, offsets)


def check_pad(dst: Shaped, src: Shaped, *, low: Ints, high: Ints, mid: Ints, value: object = 0) -> None:
    """Demand widths that are not negative, and dst == low + n + (n - 1) * mid + high in each dimension."""
    check_alike("pad", dst, src)
    check_padded("pad", dst, src.shape, low, high, mid, value)
    if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
        check_overlap("pad", dst, dst[spread(low, dst.shape, high, mid)], src)


def check_mirror_tb(dst: Shaped, src: Shaped) -> None:
    """Last axis: demand one type and shape, and at least one dimension."""
    _check_mirror("mirror_tb", dst, src)


def check_mirror_lr(dst: Shaped, src: Shaped) -> None:
    """Last axis but one: demand one type and shape, and at least two dimensions."""
    _check_mirror("mirror_lr", dst, src)


def check_broadcast(dst: Shaped, src: Shaped) -> None:
    """Demand one type, and that each dimension of src, counted from the last, is 1 or dst's."""
    check_kind("broadcast", dst, src)
    check_repeats("broadcast", dst, "src", src.shape)
    check_overlap("broadcast", dst, dst, src)


def check_padded(
    op: str, dst: Shaped, extents: tuple[int, ...], low: Ints, high: Ints, mid: Ints, value: object
) -> None:  # fmt: skip
    """Demand of a padding of `extents` what pad demands of one of src's shape."""
    rank = len(extents)
    low = check_numbers(op, "low", low, rank)
    high = check_numbers(op, "high", high, rank)
    mid = check_numbers(op, "mid", mid, rank)
    parts = zip(low, extents, mid, high, strict=True)
    padded = tuple([before + n + max(n - 1, 0) * gap + after for before, n, gap, after in parts])
    if dst.shape != padded:
        check_extents(op, dst, padded, f"low {low} + n + (n - 1) * mid {mid} + high {high}, n", extents)
    check_value(op, value, dst.dtype)


def check_repeats(op: str, dst: Shaped, what: str, extents: tuple[int, ...]) -> None:
    """Demand that each of the `extents` of `what`, counted from the last, is 1 or dst's."""
    added = len(dst.shape) - len(extents)
    if added < 0:
        raise InvalidValue(f"{op}: dst has shape {dst.shape} and {what} {extents}; no fewer dimensions are right")
    for axis, extent in enumerate(extents):
        if extent not in (1, dst.shape[added + axis]):
            raise InvalidValue(
                f"{op}: dimension {axis} of {what} has extent {extent}; 1 or {dst.shape[added + axis]}, the extent "
                f"of dimension {added + axis} of dst, is right"
            )


def check_axis(op: str, src: Shaped, axis: int) -> None:
    """Demand that src has the axis, counted from the last as -1, that `op` reverses."""
    if len(src.shape) < -axis:
        raise InvalidValue(f"{op}: src has shape {src.shape}; at least {-axis} dimensions are right")


def check_cut(op: str, dst: Shaped, src: Shaped, offsets: Ints) -> None:
    """Compare the places of dst and of src's window of dst's shape; of arrays only."""
    if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
        inside = src[window(offsets, dst.shape)]
        check_overlap(op, dst, dst[window((0,) * dst.ndim, inside.shape)], inside)


def check_paste(op: str, dst: Shaped, src: Shaped, offsets: Ints) -> None:
    """Compare the places of dst's window of src's shape and of src; of arrays only."""
    if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
        inside = dst[window(offsets, src.shape)]
        check_overlap(op, inside, inside, src)


def _check_mirror(op: str, dst: Shaped, src: Shaped) -> None:
    """Demand one type and shape, and the axis that `op` reverses."""
    axis = MIRRORED_AXIS[op]
    check_kind(op, dst, src)
    check_axis(op, src, axis)
    check_extents(op, dst, src.shape, "src", src.shape)
    if isinstance(src, np.ndarray) and isinstance(dst, np.ndarray) and may_overlap(dst, src):
        check_overlap(op, dst, dst, mirrored(src, axis))
