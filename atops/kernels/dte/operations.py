"""The DTE's operations as functions of a kernel: each as it is, and asynchronous. TOPS C++, 8.7, first table.

Here are the eleven that every architecture has; those of gcu300 are in a file of their own.

The destination comes first, shapes are outermost first. Every operation has a row in the operation table, which says
what it demands and does; these functions give the rows their signatures, and a test keeps the two alike.

All of them raise DteError, naming thread and line, where the context is not ready, has a transfer in flight or
belongs to another thread, where an operand lies in no memory that the context reaches, and where shapes, offsets or
types do not fit; IllegalAddress where an operand's allocation is dead; MissingAwait after a forgotten request.

An asynchronous one returns an event: until it has been awaited, `dst` may not be read nor `src` overwritten. The
others are over when they return, and need no `await`.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import _getframe
from typing import Any

from atops.device.dte.context import GLOBAL, DteContext, copy_now, issue, ndarray, new_event, transfer
from atops.device.dte.operations import OPERATIONS
from atops.device.dte.transfer import PENDING, DteCopy, DteEvent, Operand
from atops.device.exec.thread import get_slot
from atops.device.geometry import Ints, frozen
from atops.device.span.span import Span

__all__ = (
    "broadcast",
    "broadcast_async",
    "deslice",
    "deslice_async",
    "memcpy",
    "memcpy_async",
    "memset",
    "memset_async",
    "mirror_lr",
    "mirror_lr_async",
    "mirror_tb",
    "mirror_tb_async",
    "pad",
    "pad_async",
    "slice",
    "slice_async",
    "slice_transpose",
    "slice_transpose_async",
    "transpose",
    "transpose_async",
    "transpose_deslice",
    "transpose_deslice_async",
)

_MEMCPY = OPERATIONS["memcpy"]
_MEMSET = OPERATIONS["memset"]
_SLICE = OPERATIONS["slice"]
_DESLICE = OPERATIONS["deslice"]
_TRANSPOSE = OPERATIONS["transpose"]
_SLICE_TRANSPOSE = OPERATIONS["slice_transpose"]
_TRANSPOSE_DESLICE = OPERATIONS["transpose_deslice"]
_PAD = OPERATIONS["pad"]
_MIRROR_TB = OPERATIONS["mirror_tb"]
_MIRROR_LR = OPERATIONS["mirror_lr"]
_BROADCAST = OPERATIONS["broadcast"]

_NONE: Mapping[str, Any] = {}


def memcpy(ctx: DteContext, dst: Operand, src: Operand) -> None:
    """Copy all bytes of `src`, in row-major order, to the first bytes of `dst`; the types may differ.

    `dst` has at least as many bytes (TOPS C++, 8.7).
    """
    if not copy_now(ctx, dst, src):
        transfer(_MEMCPY, ctx, dst, src, _NONE)


def memcpy_async(ctx: DteContext, dst: Operand, src: Operand) -> DteEvent:
    """Start `memcpy` and return the event to await before `dst` is read or `src` overwritten."""
    # Nearly every transfer is one of these, between memory of the device and L1, in a free context of the thread's own.
    # It can have no fault but dead memory, and is issued here, without a call. All else is for `issue` to look at.
    try:
        thread: Any = get_slot().thread  # type: ignore[union-attr]  # AttributeError on the host
        usual = (thread.turns and thread.unawaited is None and ctx.user is thread
                 and ctx.busy is None and ctx.chain is None)  # fmt: skip
    except AttributeError:  # of what is no context, too
        usual = False
    if usual:
        span: Any = src
        if type(src) is Span and type(dst) is ndarray:
            local = into = dst
            out = src.array
        elif type(dst) is Span and type(src) is ndarray:
            span = dst
            local = out = src
            into = dst.array
        else:
            local = None
        if (
            local is not None and local.base is ctx.home and span.space is GLOBAL
            and span.allocation.alive and into.nbytes >= out.nbytes
        ):  # fmt: skip
            event = new_event(DteCopy)
            event.state, event.thread = PENDING, thread
            event.context, event.span = ctx, span
            event.into, event.out = into, out
            frame = _getframe(1)
            event.code = frame.f_code
            event.issued = frame.f_lasti
            ctx.busy = event
            ctx.descriptor = None  # the engine is set up for this one now
            if thread.transfers is None:
                thread.transfers = [event]
            else:
                thread.transfers.append(event)
            return event
    return issue(_MEMCPY, ctx, dst, src, _NONE)


def memset(ctx: DteContext, dst: Operand, value: Any) -> None:
    """Set every element of `dst` to `value`, a value of its element type (TOPS C++, 8.7)."""
    transfer(_MEMSET, ctx, dst, None, {"value": value})


def memset_async(ctx: DteContext, dst: Operand, value: Any) -> DteEvent:
    """Start `memset` and return the event to await before `dst` is read."""
    return issue(_MEMSET, ctx, dst, None, {"value": value})


def slice(ctx: DteContext, dst: Operand, src: Operand, offsets: Ints, value: Any = 0) -> None:
    """Copy the window of `dst`'s shape at `offsets` of `src`; what lies beyond `src` becomes `value`.

    `offsets` has an int, not negative, for each dimension, outermost first (TOPS C++, 8.7).
    """
    transfer(_SLICE, ctx, dst, src, {"offsets": offsets, "value": value})


def slice_async(ctx: DteContext, dst: Operand, src: Operand, offsets: Ints, value: Any = 0) -> DteEvent:
    """Start `slice` and return the event to await before `dst` is read or `src` overwritten."""
    return issue(_SLICE, ctx, dst, src, {"offsets": frozen(offsets), "value": value})


def deslice(ctx: DteContext, dst: Operand, src: Operand, offsets: Ints) -> None:
    """Copy `src` over the window of its shape at `offsets` of `dst`; the rest of `dst` stays.

    The window lies inside `dst` (TOPS C++, 8.7).
    """
    transfer(_DESLICE, ctx, dst, src, {"offsets": offsets})


def deslice_async(ctx: DteContext, dst: Operand, src: Operand, offsets: Ints) -> DteEvent:
    """Start `deslice` and return the event to await before `dst` is read or `src` overwritten."""
    return issue(_DESLICE, ctx, dst, src, {"offsets": frozen(offsets)})


def transpose(ctx: DteContext, dst: Operand, src: Operand, layout: Ints) -> None:
    """Copy `src` with its dimensions permuted: `dst.shape[i] == src.shape[layout[i]]`, as numpy.transpose.

    `layout` is a permutation of the dimensions (TOPS C++, 8.7).
    """
    transfer(_TRANSPOSE, ctx, dst, src, {"layout": layout})


def transpose_async(ctx: DteContext, dst: Operand, src: Operand, layout: Ints) -> DteEvent:
    """Start `transpose` and return the event to await before `dst` is read or `src` overwritten."""
    return issue(_TRANSPOSE, ctx, dst, src, {"layout": frozen(layout)})


def slice_transpose(ctx: DteContext, dst: Operand, src: Operand, offsets: Ints, layout: Ints, value: Any = 0) -> None:
    """Cut a window at `offsets` of `src` and transpose it into `dst`; beyond `src` is `value`.

    The window has the shape `s` with `dst.shape[i] == s[layout[i]]` (TOPS C++, 8.7).
    """
    transfer(_SLICE_TRANSPOSE, ctx, dst, src, {"offsets": offsets, "layout": layout, "value": value})


def slice_transpose_async(
    ctx: DteContext, dst: Operand, src: Operand, offsets: Ints, layout: Ints, value: Any = 0
) -> DteEvent:
    """Start `slice_transpose` and return the event to await before `dst` is read or `src` overwritten."""
    parameters = {"offsets": frozen(offsets), "layout": frozen(layout), "value": value}
    return issue(_SLICE_TRANSPOSE, ctx, dst, src, parameters)


def transpose_deslice(ctx: DteContext, dst: Operand, src: Operand, offsets: Ints, layout: Ints) -> None:
    """Transpose `src` by `layout` and copy it over the window at `offsets` of `dst`; the rest stays.

    The window lies inside `dst` (TOPS C++, 8.7).
    """
    transfer(_TRANSPOSE_DESLICE, ctx, dst, src, {"offsets": offsets, "layout": layout})


def transpose_deslice_async(ctx: DteContext, dst: Operand, src: Operand, offsets: Ints, layout: Ints) -> DteEvent:
    """Start `transpose_deslice` and return the event to await before `dst` is read or `src` overwritten."""
    return issue(_TRANSPOSE_DESLICE, ctx, dst, src, {"offsets": frozen(offsets), "layout": frozen(layout)})


def pad(ctx: DteContext, dst: Operand, src: Operand, low: Ints, high: Ints, mid: Ints, value: Any = 0) -> None:
    """Copy `src` with `value` around it and between its elements.

    Per dimension: `low` before, `mid` between neighbours, `high` after, none negative; `dst` has
    low + n + (n - 1) * mid + high (TOPS C++, 8.7).
    """
    transfer(_PAD, ctx, dst, src, {"low": low, "high": high, "mid": mid, "value": value})


def pad_async(
    ctx: DteContext, dst: Operand, src: Operand, low: Ints, high: Ints, mid: Ints, value: Any = 0
) -> DteEvent:
    """Start `pad` and return the event to await before `dst` is read or `src` overwritten."""
    return issue(_PAD, ctx, dst, src, {"low": frozen(low), "high": frozen(high), "mid": frozen(mid), "value": value})


def mirror_tb(ctx: DteContext, dst: Operand, src: Operand) -> None:
    """Last axis reversed: copy `src` mirrored along X, the last entry of its shape (TOPS C++, 8.7)."""
    transfer(_MIRROR_TB, ctx, dst, src, _NONE)


def mirror_tb_async(ctx: DteContext, dst: Operand, src: Operand) -> DteEvent:
    """Start `mirror_tb` and return the event to await before `dst` is read or `src` overwritten."""
    return issue(_MIRROR_TB, ctx, dst, src, _NONE)


def mirror_lr(ctx: DteContext, dst: Operand, src: Operand) -> None:
    """Last axis but one reversed: copy `src` mirrored along Y, the last but one entry of its shape (TOPS C++, 8.7)."""
    transfer(_MIRROR_LR, ctx, dst, src, _NONE)


def mirror_lr_async(ctx: DteContext, dst: Operand, src: Operand) -> DteEvent:
    """Start `mirror_lr` and return the event to await before `dst` is read or `src` overwritten."""
    return issue(_MIRROR_LR, ctx, dst, src, _NONE)


def broadcast(ctx: DteContext, dst: Operand, src: Operand) -> None:
    """Copy `src`, repeated along the dimensions that it lacks or has once, to `dst`'s shape.

    As numpy.broadcast_to: each extent of `src`, counted from the last, is 1 or `dst`'s (TOPS C++, 8.7).
    """
    transfer(_BROADCAST, ctx, dst, src, _NONE)


def broadcast_async(ctx: DteContext, dst: Operand, src: Operand) -> DteEvent:
    """Start `broadcast` and return the event to await before `dst` is read or `src` overwritten."""
    return issue(_BROADCAST, ctx, dst, src, _NONE)
