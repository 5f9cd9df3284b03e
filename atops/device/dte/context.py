"""DTE contexts: which threads may start a transfer, between which memories. TOPS C++, 8.7.

It checks and issues; the operation table says what a transfer demands and does, an event when it takes effect.
`memcpy` between live global memory and L1 is nearly every transfer, and has a short way.
"""

from __future__ import annotations

import sys
import threading
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from atops.base.errors import DteError, InvalidType, InvalidValue
from atops.device.call_site import Site, calling_place
from atops.device.dte.array_copy import copy_bytes
from atops.device.dte.duration import duration, time_transfer
from atops.device.dte.operations import Operation
from atops.device.dte.operations import memcpy as memcpy_operation
from atops.device.dte.stages import Parameters
from atops.device.dte.transfer import (
    PENDING,
    DteEvent,
    Operand,
    apart,
    fault,
    look_at_issue,
    look_at_wait,
    no_context,
    operand_of,
    perform,
    poison,
)
from atops.device.exec.thread import current_thread, get_slot, missing_await
from atops.device.geometry import Array, Space
from atops.device.span.span import Span

if TYPE_CHECKING:
    from atops.device.dte.configured import Chain, Descriptor
    from atops.device.exec.block import Block
    from atops.device.exec.thread import KernelThread

__all__ = ("DteContext", "check_arch", "check_destroyed", "issue", "lend", "memcpy", "memcpy_async", "start")

_new_event, _getframe = object.__new__, sys._getframe
ndarray, GLOBAL = np.ndarray, Space.GLOBAL  # an enumeration's member takes longer to find than a transfer to check
_NONE: Parameters = {}
INITIALISED = "contexts that were initialised"  # where a block keeps them in strict mode
DECLARED, READY, DESTROYED = "not initialised", "ready", "destroyed"


class DteContext:
    """A context of the data transformation engine: `tops_dte_ctx_t` (TOPS C++, 8.7).

    A private context belongs to the thread that made it and moves between any two of global, shared and local memory.
    A block's shared context moves between global and shared memory, for one thread at a time. Either has one transfer
    in flight at most: from its issue until its event has been waited for.
    """

    __slots__ = (
        "__weakref__", "busy", "chain", "declared", "descriptor", "lock", "owner", "scratchpad", "shared", "state",
        "user",
    )  # fmt: skip

    scratchpad: Array  # L1, or L2 for a shared context: plain arrays of it, and their views, are known at sight
    lock: threading.RLock  # of a shared context only
    declared: tuple[CodeType, int]  # the line of the program
    busy: DteEvent | None
    chain: Chain | None  # what it is connected to
    descriptor: Descriptor | None  # what it is configured to do
    user: KernelThread | None  # the thread that needs no further check: the owner, while it is ready

    def __init__(self) -> None:
        """Declare a private context of the running thread. Raises IllegalState on the host."""
        cell = get_slot()
        thread = cell.thread if cell is not None and cell.thread is not None else current_thread()
        self.busy = self.chain = self.descriptor = self.user = None
        self.scratchpad = thread.sip.l1
        self.owner: KernelThread | Block = thread
        self.shared = False
        self.state = DECLARED
        self.declared = calling_place()

    @classmethod
    def of_block(cls, block: Block) -> Self:
        """Declare a context that all threads of `block` share."""
        context = cls.__new__(cls)
        context.busy = context.chain = context.descriptor = context.user = None
        context.scratchpad = block.cluster.l2
        context.owner = block
        context.shared = True
        context.state = DECLARED
        context.declared = calling_place()
        context.lock = threading.RLock()
        return context

    def init(self) -> None:
        """Make the context ready for use; one that is ready stays so, which strict mode reports as DteError.

        Raises DteError on another thread's context, and while a transfer is in flight.
        """
        cell = get_slot()
        if cell is None or self.owner is not cell.thread:  # of a block, of another thread, or on the host
            self._check_owner(current_thread(), "init")
        else:
            self.user = cell.thread
        thread = current_thread()
        if thread.grid.options.strict:
            if self.state is READY:
                raise fault(thread, f"init of {self!r} a second time; destroy() it before")
            thread.block.shared.setdefault(INITIALISED, []).append(self)
        if self.busy is not None:
            raise self._in_flight(current_thread(), self.busy, "init")
        self.state = READY

    def destroy(self) -> None:
        """Give the context back. Raises DteError when it is not initialised or a transfer is in flight."""
        self.check(current_thread(), "destroy")
        self.state = DESTROYED
        self.user = self.descriptor = None
        if self.chain is not None:
            self.chain.cut()

    def take_back(self) -> None:
        """End what `lend` began."""
        self.user = None
        self.lock.release()

    def check(self, thread: KernelThread, what: str) -> None:
        """Raise DteError, naming the thread and its line, unless `thread` may use the context now."""
        self._check_owner(thread, what)
        if self.state is not READY:
            why = "was not initialised" if self.state is DECLARED else "was destroyed"
            raise fault(thread, f"{what} on {self!r}, which {why}; call init() first")
        if self.busy is not None:
            if thread.unawaited is not None:  # `k.wait(event)` without an await, for one
                raise missing_await(thread)
            flight = getattr(self.busy, "flight", None)
            if what == "destroy" and thread.race is not None and flight is not None:
                thread.race.forgot(flight, self.busy.describe())
            raise self._in_flight(thread, self.busy, what)

    def _check_owner(self, thread: KernelThread, what: str) -> None:
        if self.owner is not (thread.block if self.shared else thread):
            whose = "the threads of its block use it" if self.shared else "only its own thread uses it"
            raise fault(thread, f"{what} on {self!r}; {whose}")

    def _in_flight(self, thread: KernelThread, event: DteEvent, what: str) -> DteError:
        return fault(thread, f"{what} on {self!r}, whose transfer is in flight: {event.describe()}, issued by "
                             f"{event.thread}; wait for its event first, or use a second context")  # fmt: skip

    def __repr__(self) -> str:
        kind, owner = ("shared", f"block {self.owner.index}") if self.shared else ("private", str(self.owner))
        return f"<{kind} DTE context of {owner}, declared at {Site(*self.declared)}, {self.state}>"


def issue(
    operation: Operation[...], context: DteContext, destination: Any, source: Any, parameters: Parameters,
    depth: int = 2, now: bool = False,
) -> DteEvent:  # fmt: skip
    """Issue a transfer for the running thread, `depth` frames below the kernel's line, and return its event.

    With `now` it is done, too, unless the context is connected: then the caller completes the event. Raises DteError
    where the context or an operand cannot be used so, IllegalAddress on dead memory, MissingAwait when an earlier
    request of the thread was never awaited.
    """
    cell = get_slot()
    thread = cell.thread if cell is not None and cell.thread is not None else current_thread()
    try:
        free = context.user is thread and context.busy is None and thread.unawaited is None
    except AttributeError:
        raise no_context(thread, context, operation.name) from None
    if not free:
        return _issue_lent(thread, operation, context, destination, source, parameters, depth + 2, now)
    into, out = _known(destination, context.scratchpad), None
    if into is None:
        destination, into = operand_of(thread, destination, "dst", operation.name, context.shared)
    if source is not None and (out := _known(source, context.scratchpad)) is None:
        source, out = operand_of(thread, source, "src", operation.name, context.shared)
    # A plain copy between memories that are apart is the most frequent by far, and can have no other fault.
    near = type(destination) is type(source) and not apart(destination, source)
    if near or operation is not memcpy_operation or out is None or into.nbytes < out.nbytes:
        _check_geometry(thread, operation, into, out, parameters)
    event = _new_event(DteEvent)  # its constructor makes an event of no transfer
    event.state, event.thread, event.context = PENDING, thread, context
    event.operation, event.parameters, event.into = operation, parameters, into
    event.destination, event.source, event.out = destination, source, out
    context.descriptor = None  # the engine is set up for this one now
    if thread.race is not None:
        look_at_issue(event, thread, _getframe(depth))
    if now and context.chain is None:
        if thread.cost is not None:
            thread.cost.until(thread.cost.issue(duration(event, thread)))
        perform(event, thread)
        if thread.race is not None:
            look_at_wait(event, thread)
    else:
        start(event, thread, context, _getframe(depth))
    return event


def check_destroyed(block: Block) -> None:
    """Raise DteError, naming each, where contexts of a block that has ended were initialised and never destroyed."""
    held = [each for each in dict.fromkeys(block.shared.get(INITIALISED, ())) if each.state is READY]
    if held:
        raise DteError("; ".join(f"{each!r} was never destroyed; call destroy(), or use dte_scope" for each in held))


def _known(operand: object, pad: Array) -> Array | None:
    """Return the array of what needs no further look: of the context's own scratchpad, or of live global memory."""
    if type(operand) is ndarray:
        return operand if operand.base is pad or _is_plain_view(operand, pad) else None
    if type(operand) is Span and operand.contiguous:
        if operand.space is GLOBAL:
            return operand.array if operand.allocation.alive else None  # type: ignore[union-attr]  # global: it has one
        if operand.allocation is None and operand.array.base is pad:
            return operand.array
    return None


def _is_plain_view(array: Array, pad: Array) -> bool:
    """Tell whether an array is a contiguous view of what was handed out of a scratchpad."""
    return getattr(array.base, "base", None) is pad and array.flags.c_contiguous


def start(event: DteEvent, thread: KernelThread, context: DteContext, frame: FrameType) -> None:
    """Have a checked transfer in flight, which was issued where `frame` stands."""
    event.code = frame.f_code
    event.issued = frame.f_lasti
    context.busy = event
    if context.chain is not None:
        context.chain.started(event)
    if thread.cost is not None:
        time_transfer(event, thread, context)
    transfers = thread.transfers
    if transfers is None:
        thread.transfers = [event]
    else:
        transfers.append(event)
    grid = thread.grid
    if grid.turns:
        return  # neither strict nor early
    options = grid.options
    if options.strict and event.state is PENDING:  # the destination of a chained one may be the source of one before
        source = event.source
        disjoint = source is not None and apart(event.destination, source)
        poison(event.operation, event.into, event.out, event.parameters, disjoint)
        event.watch_source()
    if grid.agenda is not None or (options.dte != "wait" and (options.dte == "eager" or grid.rng.random() < 0.5)):
        event.begin()


def _issue_lent(
    thread: KernelThread, operation: Operation[...], context: DteContext, destination: object, source: object,
    parameters: Parameters, depth: int, now: bool,
) -> DteEvent:  # fmt: skip
    """Issue a transfer of a block's context; raise for any other, which is not free."""
    if thread.race is not None and isinstance(context, DteContext):
        thread.race.uses(context, *calling_place(1))
    lend(context, thread, operation.name)
    try:
        return issue(operation, context, destination, source, parameters, depth, now)
    finally:
        context.take_back()


def lend(context: DteContext, thread: KernelThread, what: str) -> None:
    """Make the context of a block a thread's own until it is taken back.

    Raises DteError for what is no context and for one that is not free for the thread; MissingAwait.
    """
    if thread.unawaited is not None:
        raise missing_await(thread)
    if not isinstance(context, DteContext):
        raise no_context(thread, context, what)
    context.check(thread, what)  # raises for every private context: one that is free needs not be lent
    context.lock.acquire()
    try:
        context.check(thread, what)  # another OS thread may have been faster
    except BaseException:
        context.lock.release()
        raise
    context.user = thread


def _check_geometry(
    thread: KernelThread, operation: Operation[...], into: Array, out: Array | None, parameters: Parameters
) -> None:
    """Raise DteError where shapes, types, offsets or places do not fit, or the chip lacks the operation."""
    check_arch(thread, operation)
    try:
        operation.check(into, out, parameters)
    except (InvalidValue, InvalidType) as error:
        raise fault(thread, str(error)) from error


def check_arch(thread: KernelThread, operation: Operation[...]) -> None:
    """Raise DteError where the chip lacks the operation."""
    arch = thread.grid.arch
    if operation.gcu_arch > arch.gcu_arch:
        raise fault(thread, f"{operation.name} needs gcu{operation.gcu_arch}; this is {arch.name}")


# ---- memcpy as kernels call it. In a free context of the thread's own it can have no fault but dead memory: it is
# looked at, issued and done here without a call; all else goes the way of every operation. Both functions spell out the
# same look, for a call of its own would cost more than it saves.


def memcpy(ctx: DteContext, dst: Operand, src: Operand) -> None:
    """Copy all bytes of `src` to the first bytes of `dst`."""
    try:
        thread: Any = get_slot().thread  # type: ignore[union-attr]  # AttributeError on the host
        usual = (thread.grid.turns and thread.race is None and thread.unawaited is None and ctx.user is thread
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
            local is not None and span.space is GLOBAL and span.contiguous
            and (local.base is ctx.scratchpad or _is_plain_view(local, ctx.scratchpad))
            and span.allocation.alive and into.nbytes >= out.nbytes
        ):  # fmt: skip
            ctx.descriptor = None  # the engine is set up for this one now
            copy_bytes(into, out)
            if into is not local:
                span.stored()
            if (cost := thread.cost) is not None:
                cost.until(cost.issue_global(out.nbytes, span.allocation.device))
            return
    event = issue(memcpy_operation, ctx, dst, src, _NONE, now=True)
    if ctx.chain is not None:
        event.complete()


def memcpy_async(ctx: DteContext, dst: Operand, src: Operand) -> DteEvent:
    """Start `memcpy` and return its event."""
    try:
        thread: Any = get_slot().thread  # type: ignore[union-attr]  # AttributeError on the host
        usual = (thread.turns and thread.race is None and thread.unawaited is None and ctx.user is thread
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
            local is not None and span.space is GLOBAL and span.contiguous
            and (local.base is ctx.scratchpad or _is_plain_view(local, ctx.scratchpad))
            and span.allocation.alive and into.nbytes >= out.nbytes
        ):  # fmt: skip
            event = _new_event(DteEvent)
            event.state, event.thread, event.context = PENDING, thread, ctx
            event.operation, event.parameters = memcpy_operation, _NONE
            event.destination, event.source, event.into, event.out = dst, src, into, out
            frame = _getframe(1)
            event.code = frame.f_code
            event.issued = frame.f_lasti
            ctx.busy = event
            ctx.descriptor = None  # as above
            if (cost := thread.cost) is not None:
                event.over_at = cost.issue_global(out.nbytes, span.allocation.device)
            if thread.transfers is None:
                thread.transfers = [event]
            else:
                thread.transfers.append(event)
            return event
    return issue(memcpy_operation, ctx, dst, src, _NONE)
