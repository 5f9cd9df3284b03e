"""The DTE operations that gcu300 adds as functions of a kernel, also asynchronous. TOPS C++, 8.7, second table.

They give their rows of the operation table signatures, and raise what the first eleven raise; on gcu210 each raises
DteError, naming thread and line. Where the text has `pad_low` and the like, these have `low`, as `pad` does.
"""

from __future__ import annotations

from typing import Any

from atops.device.dte.context import DteContext, issue, transfer
from atops.device.dte.operations import OPERATIONS
from atops.device.dte.transfer import DteEvent, Operand
from atops.device.geometry import Ints, frozen

__all__ = (
    "memset_deslice",
    "memset_deslice_async",
    "mirror_lr_deslice",
    "mirror_lr_deslice_async",
    "mirror_lr_pad",
    "mirror_lr_pad_async",
    "mirror_tb_deslice",
    "mirror_tb_deslice_async",
    "mirror_tb_pad",
    "mirror_tb_pad_async",
    "shrink_deslice",
    "shrink_deslice_async",
    "slice_broadcast",
    "slice_broadcast_async",
    "slice_deslice",
    "slice_deslice_async",
    "slice_expand",
    "slice_expand_async",
    "slice_pad",
    "slice_pad_async",
    "sub_sample",
    "sub_sample_async",
)

_SLICE_PAD = OPERATIONS["slice_pad"]
_SLICE_DESLICE = OPERATIONS["slice_deslice"]
_SLICE_BROADCAST = OPERATIONS["slice_broadcast"]
_SLICE_EXPAND = OPERATIONS["slice_expand"]
_SHRINK_DESLICE = OPERATIONS["shrink_deslice"]
_MEMSET_DESLICE = OPERATIONS["memset_deslice"]
_MIRROR_TB_PAD = OPERATIONS["mirror_tb_pad"]
_MIRROR_LR_PAD = OPERATIONS["mirror_lr_pad"]
_MIRROR_TB_DESLICE = OPERATIONS["mirror_tb_deslice"]
_MIRROR_LR_DESLICE = OPERATIONS["mirror_lr_deslice"]
_SUB_SAMPLE = OPERATIONS["sub_sample"]


def slice_pad(
    ctx: DteContext, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints, low: Ints, high: Ints,
    mid: Ints, value: Any = 0,
) -> None:  # fmt: skip
    """Copy a window of `src` with `value` around it and between its elements; what lies beyond `src` is `value` too.

    The window has `slice_shape` and begins at `src_offsets`, an int for each dimension, not negative. It is padded as
    by `pad`: `dst` has low + n + (n - 1) * mid + high in each dimension, n being `slice_shape`'s (TOPS C++, 8.7).
    """
    parameters = {
        "src_offsets": src_offsets, "slice_shape": slice_shape, "low": low, "high": high, "mid": mid, "value": value,
    }
    transfer(_SLICE_PAD, ctx, dst, src, parameters)


def slice_pad_async(
    ctx: DteContext, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints, low: Ints, high: Ints,
    mid: Ints, value: Any = 0,
) -> DteEvent:  # fmt: skip
    """Start `slice_pad` and return the event to await before `dst` is read or `src` overwritten."""
    parameters = {
        "src_offsets": frozen(src_offsets), "slice_shape": frozen(slice_shape), "low": frozen(low),
        "high": frozen(high), "mid": frozen(mid), "value": value,
    }
    return issue(_SLICE_PAD, ctx, dst, src, parameters)


def slice_deslice(
    ctx: DteContext, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints, dst_offsets: Ints
) -> None:
    """Copy the window of `slice_shape` at `src_offsets` of `src` over that at `dst_offsets` of `dst`; the rest stays.

    What lies beyond `src` becomes 0; the window lies inside `dst` (TOPS C++, 8.7).
    """
    parameters = {"src_offsets": src_offsets, "slice_shape": slice_shape, "dst_offsets": dst_offsets}
    transfer(_SLICE_DESLICE, ctx, dst, src, parameters)


def slice_deslice_async(
    ctx: DteContext, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints, dst_offsets: Ints
) -> DteEvent:
    """Start `slice_deslice` and return the event to await before `dst` is read or `src` overwritten."""
    parameters = {
        "src_offsets": frozen(src_offsets), "slice_shape": frozen(slice_shape), "dst_offsets": frozen(dst_offsets),
    }
    return issue(_SLICE_DESLICE, ctx, dst, src, parameters)


def slice_broadcast(ctx: DteContext, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints) -> None:
    """Copy the window of `slice_shape` at `src_offsets` of `src`, repeated to `dst`'s shape; beyond `src` is 0.

    Each extent of `slice_shape`, counted from the last, is 1 or `dst`'s, as in numpy.broadcast_to (TOPS C++, 8.7).
    """
    transfer(_SLICE_BROADCAST, ctx, dst, src, {"src_offsets": src_offsets, "slice_shape": slice_shape})


def slice_broadcast_async(
    ctx: DteContext, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints
) -> DteEvent:
    """Start `slice_broadcast` and return the event to await before `dst` is read or `src` overwritten."""
    parameters = {"src_offsets": frozen(src_offsets), "slice_shape": frozen(slice_shape)}
    return issue(_SLICE_BROADCAST, ctx, dst, src, parameters)


def slice_expand(
    ctx: DteContext, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints, phase: int, ratio: int
) -> None:
    """Copy the window of `slice_shape` at `src_offsets` of `src` to part `phase` of `dst`'s elements; all else is 0.

    `dst` has `slice_shape`, and elements of 2 ** (ratio + 1) times as many bytes as `src`'s: twice with `ratio` 0, four
    times with 1. `phase` counts their parts from the low bytes. Bits are moved; beyond `src` is 0 (TOPS C++, 8.7).
    """
    parameters = {"src_offsets": src_offsets, "slice_shape": slice_shape, "phase": phase, "ratio": ratio}
    transfer(_SLICE_EXPAND, ctx, dst, src, parameters)


def slice_expand_async(
    ctx: DteContext, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints, phase: int, ratio: int
) -> DteEvent:
    """Start `slice_expand` and return the event to await before `dst` is read or `src` overwritten."""
    parameters = {
        "src_offsets": frozen(src_offsets), "slice_shape": frozen(slice_shape), "phase": phase, "ratio": ratio,
    }
    return issue(_SLICE_EXPAND, ctx, dst, src, parameters)


def shrink_deslice(ctx: DteContext, dst: Operand, src: Operand, phase: int, ratio: int, dst_offsets: Ints) -> None:
    """Copy part `phase` of `src`'s elements over the window of its shape at `dst_offsets` of `dst`; the rest stays.

    `src` has elements of 2 ** (ratio + 1) times as many bytes as `dst`'s: twice with `ratio` 0, four times with 1.
    `phase` counts their parts from the low bytes. Bits are moved; the window lies inside `dst` (TOPS C++, 8.7).
    """
    transfer(_SHRINK_DESLICE, ctx, dst, src, {"phase": phase, "ratio": ratio, "dst_offsets": dst_offsets})


def shrink_deslice_async(
    ctx: DteContext, dst: Operand, src: Operand, phase: int, ratio: int, dst_offsets: Ints
) -> DteEvent:
    """Start `shrink_deslice` and return the event to await before `dst` is read or `src` overwritten."""
    return issue(_SHRINK_DESLICE, ctx, dst, src, {"phase": phase, "ratio": ratio, "dst_offsets": frozen(dst_offsets)})


def memset_deslice(ctx: DteContext, dst: Operand, src: Operand, dst_offsets: Ints, value: Any) -> None:
    """Set the window of `src`'s shape at `dst_offsets` of `dst` to `value`; the rest stays.

    Of `src` only shape and type count: it is neither read nor written. The window lies inside `dst` (TOPS C++, 8.7).
    """
    transfer(_MEMSET_DESLICE, ctx, dst, src, {"dst_offsets": dst_offsets, "value": value})


def memset_deslice_async(ctx: DteContext, dst: Operand, src: Operand, dst_offsets: Ints, value: Any) -> DteEvent:
    """Start `memset_deslice` and return the event to await before `dst` is read."""
    return issue(_MEMSET_DESLICE, ctx, dst, src, {"dst_offsets": frozen(dst_offsets), "value": value})


def mirror_tb_pad(
    ctx: DteContext, dst: Operand, src: Operand, low: Ints, high: Ints, mid: Ints, value: Any = 0
) -> None:
    """Last axis reversed: copy `src` mirrored along X, with `value` around it and between its elements as by `pad`.

    `dst` has low + n + (n - 1) * mid + high in each dimension (TOPS C++, 8.7).
    """
    transfer(_MIRROR_TB_PAD, ctx, dst, src, {"low": low, "high": high, "mid": mid, "value": value})


def mirror_tb_pad_async(
    ctx: DteContext, dst: Operand, src: Operand, low: Ints, high: Ints, mid: Ints, value: Any = 0
) -> DteEvent:
    """Start `mirror_tb_pad` and return the event to await before `dst` is read or `src` overwritten."""
    parameters = {"low": frozen(low), "high": frozen(high), "mid": frozen(mid), "value": value}
    return issue(_MIRROR_TB_PAD, ctx, dst, src, parameters)


def mirror_lr_pad(
    ctx: DteContext, dst: Operand, src: Operand, low: Ints, high: Ints, mid: Ints, value: Any = 0
) -> None:
    """Last axis but one reversed: copy `src` mirrored along Y, with `value` around and between as by `pad`.

    `dst` has low + n + (n - 1) * mid + high in each dimension (TOPS C++, 8.7).
    """
    transfer(_MIRROR_LR_PAD, ctx, dst, src, {"low": low, "high": high, "mid": mid, "value": value})


def mirror_lr_pad_async(
    ctx: DteContext, dst: Operand, src: Operand, low: Ints, high: Ints, mid: Ints, value: Any = 0
) -> DteEvent:
    """Start `mirror_lr_pad` and return the event to await before `dst` is read or `src` overwritten."""
    parameters = {"low": frozen(low), "high": frozen(high), "mid": frozen(mid), "value": value}
    return issue(_MIRROR_LR_PAD, ctx, dst, src, parameters)


def mirror_tb_deslice(ctx: DteContext, dst: Operand, src: Operand, dst_offsets: Ints) -> None:
    """Last axis reversed: copy `src` mirrored along X over a window of `dst`; the rest stays.

    The window has `src`'s shape, begins at `dst_offsets` and lies inside `dst` (TOPS C++, 8.7).
    """
    transfer(_MIRROR_TB_DESLICE, ctx, dst, src, {"dst_offsets": dst_offsets})


def mirror_tb_deslice_async(ctx: DteContext, dst: Operand, src: Operand, dst_offsets: Ints) -> DteEvent:
    """Start `mirror_tb_deslice` and return the event to await before `dst` is read or `src` overwritten."""
    return issue(_MIRROR_TB_DESLICE, ctx, dst, src, {"dst_offsets": frozen(dst_offsets)})


def mirror_lr_deslice(ctx: DteContext, dst: Operand, src: Operand, dst_offsets: Ints) -> None:
    """Last axis but one reversed: copy `src` mirrored along Y over a window of `dst`; the rest stays.

    The window has `src`'s shape, begins at `dst_offsets` and lies inside `dst` (TOPS C++, 8.7).
    """
    transfer(_MIRROR_LR_DESLICE, ctx, dst, src, {"dst_offsets": dst_offsets})


def mirror_lr_deslice_async(ctx: DteContext, dst: Operand, src: Operand, dst_offsets: Ints) -> DteEvent:
    """Start `mirror_lr_deslice` and return the event to await before `dst` is read or `src` overwritten."""
    return issue(_MIRROR_LR_DESLICE, ctx, dst, src, {"dst_offsets": frozen(dst_offsets)})


def sub_sample(ctx: DteContext, dst: Operand, src: Operand, dim_stride: Ints) -> None:
    """Copy each `dim_stride`-th element of `src` in each dimension, from the first: `src[::s0, ::s1, ...]`.

    `dim_stride` has a positive int for each dimension; `dst` has ceil(n / stride) in each (TOPS C++, 8.7).
    """
    transfer(_SUB_SAMPLE, ctx, dst, src, {"dim_stride": dim_stride})


def sub_sample_async(ctx: DteContext, dst: Operand, src: Operand, dim_stride: Ints) -> DteEvent:
    """Start `sub_sample` and return the event to await before `dst` is read or `src` overwritten."""
    return issue(_SUB_SAMPLE, ctx, dst, src, {"dim_stride": frozen(dim_stride)})
