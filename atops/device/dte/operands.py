"""What a DTE transfer may move: memory that lives, that its context reaches, and that may be written where it is.

It knows the thread that asks; it knows no operation's demands and moves nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from atops.base.errors import DteError
from atops.device.call_site import caller
from atops.device.exec.thread import KernelThread
from atops.device.geometry import Array
from atops.device.span.span import Space, Span

__all__ = ("PRIVATE_ARRAYS", "Operand", "apart", "fault", "no_context", "operand_of")

Operand = Span | Array  # of a transfer: its dst or its src
PRIVATE_ARRAYS = "private arrays"  # where a thread's `sites` keep those that the language made for it


def operand_of(thread: KernelThread, memory: Any, role: str, operation: str, shared: bool) -> tuple[Operand, Array]:
    """Return `memory` as the operand that it stands for, and its array. `role` is "dst" or "src".

    Spans and arrays stand for themselves, declared variables for their span, pointers for the memory from there on.
    Raises DteError, naming thread and line, for what is no memory of the thread's, for local memory where the context
    is `shared`, and for a destination that is only read; IllegalAddress for dead memory.
    """
    if type(memory) is not Span and not isinstance(memory, np.ndarray):
        meant = getattr(memory, "span", None) or getattr(memory, "memory", None)
        if callable(meant):
            memory = meant()
    if type(memory) is Span:
        allocation, space, array = memory.allocation, memory.space, memory.array
        if allocation is not None and not allocation.alive:
            raise allocation.violation(memory.offset, array.nbytes, f"{operation} of {thread} at {caller()}")
    else:
        space, array = _space_of(thread, memory, f"{role} of {operation}"), memory
    if space is Space.LOCAL and shared:
        raise fault(thread, f"{role} of {operation} lies in local memory; a shared DTE context moves between "
                            "global and shared memory only, use a private one")  # fmt: skip
    if role == "dst" and not array.flags.writeable:
        why = f"lies in {space} memory, which" if type(memory) is Span else "is an array that"
        raise fault(thread, f"dst of {operation} {why} kernels only read: {memory!r}")
    return memory, array


def apart(destination: Operand, source: Operand) -> bool:
    """Return whether operands surely share no byte: they lie in different memories. False where it is not known."""
    if type(destination) is not type(source):  # an array lies in a scratchpad; a span does so in strict mode only
        span = destination if type(destination) is Span else source
        return isinstance(span, Span) and span.space is Space.GLOBAL
    return isinstance(destination, np.ndarray) and destination.base is not source.base


def no_context(thread: KernelThread, given: object, asked: str) -> DteError:
    """Return the error for something that was given to `asked` in place of a context."""
    return fault(thread, f"{asked} expects a DTE context, as tops_dte_ctx_t() and dte_scope() make, got {given!r}")


def fault(thread: KernelThread, what: str) -> DteError:
    """Return the error of `thread` at the line of its kernel."""
    return DteError(f"{thread} at {caller()}: {what}")


def _space_of(thread: KernelThread, array: object, what: str) -> Space:
    """Return where a plain array lies: numpy's views of one memory all name it as their base.

    Raises DteError, naming `what`, for private memory, for any other array outside the thread's own L1 and L2, and for
    what is no array.
    """
    if isinstance(array, np.ndarray):
        if array.base is thread.sip.l1:
            return Space.LOCAL
        if array.base is thread.block.cluster.l2:
            return Space.SHARED
        if thread.sites is not None and any(array.base is each for each in thread.sites.get(PRIVATE_ARRAYS, ())):
            raise fault(thread, f"{what} lies in private memory, which no DTE reaches; expected k.local")
        raise fault(thread, f"{what} is an array outside this thread's memories; expected k.local, k.shared or an "
                            "argument of the kernel")  # fmt: skip
    raise fault(thread, f"{what} is {array!r}; expected a span or a k.local or k.shared array")
