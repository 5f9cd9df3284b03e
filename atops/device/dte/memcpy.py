"""memcpy as kernels call it: the path of nearly every transfer, between live global memory and L1.

Such a copy, in a free context of the thread's own, can have no fault but dead memory. It is looked at, issued and done
here without a call. All else goes the way of every operation. Both functions spell out the same look: a call of its
own would cost more than it saves.
"""

from __future__ import annotations

from sys import _getframe
from typing import Any

import numpy as np

from atops.device.dte import operations
from atops.device.dte.array_copy import copy_bytes
from atops.device.dte.context import DteContext, issue
from atops.device.dte.operands import Operand
from atops.device.dte.stages import Parameters
from atops.device.dte.transfer import PENDING, DteEvent
from atops.device.exec.thread import get_slot
from atops.device.span.span import Space, Span

__all__ = ("memcpy", "memcpy_async")

_new_event = object.__new__
_ndarray, _GLOBAL = np.ndarray, Space.GLOBAL  # an enumeration's member takes longer to find than a copy to check
_NONE: Parameters = {}


def memcpy(ctx: DteContext, dst: Operand, src: Operand) -> None:
    """Copy all bytes of `src` to the first bytes of `dst`."""
    try:
        thread: Any = get_slot().thread  # type: ignore[union-attr]  # AttributeError on the host
        usual = (thread.grid.turns and thread.unawaited is None and ctx.user is thread
                 and ctx.busy is None and ctx.chain is None)  # fmt: skip
    except AttributeError:  # of what is no context, too
        usual = False
    if usual:
        span: Any = src
        if type(src) is Span and type(dst) is _ndarray:
            local = into = dst
            out = src.array
        elif type(dst) is Span and type(src) is _ndarray:
            span = dst
            local = out = src
            into = dst.array
        else:
            local = None
        if (
            local is not None and local.base is ctx.scratchpad and span.space is _GLOBAL
            and span.allocation.alive and into.nbytes >= out.nbytes
        ):  # fmt: skip
            ctx.descriptor = None  # the engine is set up for this one now
            copy_bytes(into, out)
            if into is not local:
                span.stored()
            return
    event = issue(operations.memcpy, ctx, dst, src, _NONE, now=True)
    if ctx.chain is not None:
        event.complete()


def memcpy_async(ctx: DteContext, dst: Operand, src: Operand) -> DteEvent:
    """Start `memcpy` and return its event."""
    try:
        thread: Any = get_slot().thread  # type: ignore[union-attr]  # AttributeError on the host
        usual = (thread.turns and thread.unawaited is None and ctx.user is thread
                 and ctx.busy is None and ctx.chain is None)  # fmt: skip
    except AttributeError:  # of what is no context, too
        usual = False
    if usual:
        span: Any = src
        if type(src) is Span and type(dst) is _ndarray:
            local = into = dst
            out = src.array
        elif type(dst) is Span and type(src) is _ndarray:
            span = dst
            local = out = src
            into = dst.array
        else:
            local = None
        if (
            local is not None and local.base is ctx.scratchpad and span.space is _GLOBAL
            and span.allocation.alive and into.nbytes >= out.nbytes
        ):  # fmt: skip
            event = _new_event(DteEvent)
            event.state, event.thread, event.context = PENDING, thread, ctx
            event.operation, event.parameters = operations.memcpy, _NONE
            event.destination, event.source, event.into, event.out = dst, src, into, out
            frame = _getframe(1)
            event.code = frame.f_code
            event.issued = frame.f_lasti
            ctx.busy = event
            ctx.descriptor = None  # as above
            if thread.transfers is None:
                thread.transfers = [event]
            else:
                thread.transfers.append(event)
            return event
    return issue(operations.memcpy, ctx, dst, src, _NONE)
