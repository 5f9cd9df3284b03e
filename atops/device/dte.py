"""DTE contexts: who may start a transfer, between which memories, and what is refused. TOPS C++, 8.7.

It checks and issues; the operation table says what a transfer demands and does, an event when it takes effect.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from atops.base.errors import DteError, InvalidType, InvalidValue
from atops.device.call_site import caller
from atops.device.geometry import Array
from atops.device.requests import CELL, current_thread, missing_await
from atops.device.span import Space, Span
from atops.device.transfer import PENDING, DteEvent, Operand, perform, poison
from atops.device.transforms import OPERATIONS, Operation

if TYPE_CHECKING:
    from atops.device.block import Block
    from atops.device.thread import KernelThread

__all__ = ("DteContext", "fault", "issue", "no_context", "space_of", "transfer")

MEMCPY = OPERATIONS["memcpy"]
new_event = object.__new__
DECLARED, READY, DESTROYED = "declared", "ready", "destroyed"


class DteContext:
    """A context of the data transformation engine: `tops_dte_ctx_t` (TOPS C++, 8.7).

    A private context belongs to the thread that made it and moves between any two of global, shared and local memory.
    A block's shared context moves between global and shared memory, for one thread at a time. Either has one transfer
    in flight at most: from its issue until its event has been waited for.
    """

    __slots__ = ("busy", "home", "lock", "owner", "shared", "state")

    home: Array  # the scratchpad whose plain arrays are known at sight: L1, or L2 of a shared context
    lock: threading.RLock  # of a shared context only

    def __init__(self) -> None:
        """Declare a private context of the running thread. Raises IllegalState on the host."""
        cell = CELL.get()
        thread = cell.thread if cell is not None and cell.thread is not None else current_thread()
        self.busy: DteEvent | None = None
        self.home = thread.sip.l1
        self.owner: KernelThread | Block = thread
        self.shared = False
        self.state = DECLARED

    @classmethod
    def of_block(cls, block: Block) -> DteContext:
        """Declare a context that all threads of `block` share."""
        context = cls.__new__(cls)
        context.busy = None
        context.home = block.cluster.l2
        context.owner = block
        context.shared = True
        context.state = DECLARED
        context.lock = threading.RLock()
        return context

    def init(self) -> None:
        """Make the context ready for use; one that is ready stays so. Raises DteError on another thread's context."""
        cell = CELL.get()
        if cell is None or self.owner is not cell.thread:  # of a block, of another thread, or on the host
            self._check_owner(current_thread(), "init")
        self.state = READY

    def destroy(self) -> None:
        """Give the context back. Raises DteError when it is not initialised or a transfer is in flight."""
        thread = current_thread()
        self.check(thread, "destroy")
        self.state = DESTROYED

    def check(self, thread: KernelThread, what: str) -> None:
        """Raise DteError, naming the thread and its line, unless `thread` may use the context now."""
        self._check_owner(thread, what)
        if self.state is not READY:
            why = "was not initialised" if self.state is DECLARED else "was destroyed"
            raise fault(thread, f"{what} on {self!r}, which {why}; call init() first")
        if self.busy is not None:
            raise fault(
                thread,
                f"{what} on {self!r}, whose transfer is in flight: {self.busy.describe()}, issued by "
                f"{self.busy.thread}; wait for its event first, or use a second context",
            )

    def _check_owner(self, thread: KernelThread, what: str) -> None:
        if self.owner is not (thread.block if self.shared else thread):
            whose = "the threads of its block use it" if self.shared else "only its own thread uses it"
            raise fault(thread, f"{what} on {self!r}; {whose}")

    def __repr__(self) -> str:
        kind = "shared" if self.shared else "private"
        return f"<{kind} DTE context of {self.owner}, {self.state}>"


def issue(
    operation: Operation, context: DteContext, destination: Operand, source: Operand | None,
    parameters: Mapping[str, Any], depth: int = 2,
) -> DteEvent:  # fmt: skip
    """Issue a transfer for the running thread, `depth` frames below the kernel's line, and return its event.

    Raises DteError where the context or an operand cannot be used so, IllegalAddress on dead memory, MissingAwait
    when an earlier request of the thread was never awaited.
    """
    cell = CELL.get()
    thread = cell.thread if cell is not None and cell.thread is not None else current_thread()
    if type(context) is not DteContext:
        raise no_context(thread, context, operation.name)
    frame = sys._getframe(depth)
    if context.shared:
        with context.lock:
            event = _checked(thread, operation, context, destination, source, parameters)
            event.code, event.issued = frame.f_code, frame.f_lasti  # before others see it: they may name its line
            context.busy = event
    else:
        event = _checked(thread, operation, context, destination, source, parameters)
        event.code = frame.f_code
        event.issued = frame.f_lasti
        context.busy = event
    if thread.transfers is None:
        thread.transfers = [event]
    else:
        thread.transfers.append(event)
    grid = thread.grid
    options = grid.options
    if options.strict:
        poison(operation, event.into, event.out, parameters)
    if options.dte != "wait" and (options.dte == "eager" or grid.rng.random() < 0.5):
        event.begin()
    return event


def transfer(
    operation: Operation, context: DteContext, destination: Operand, source: Operand | None,
    parameters: Mapping[str, Any],
) -> None:  # fmt: skip
    """Do a transfer for the running thread, from check to effect. Raises what `issue` raises."""
    if type(context) is not DteContext or context.shared:
        issue(operation, context, destination, source, parameters, 3).complete()
        return
    thread = current_thread()
    perform(_checked(thread, operation, context, destination, source, parameters), thread)


def no_context(thread: KernelThread, what: object, who: str) -> DteError:
    """Return the error for something that was given to `who` in place of a context."""
    return fault(thread, f"{who} got {what!r} as its DTE context; tops_dte_ctx_t(), dte_scope() and the like make one")


def fault(thread: KernelThread, what: str) -> DteError:
    """Return the error of `thread` at the line of its kernel."""
    return DteError(f"{thread} at {caller()}: {what}")


def _checked(
    thread: KernelThread, operation: Operation, context: DteContext, destination: Operand, source: Operand | None,
    parameters: Mapping[str, Any],
) -> DteEvent:  # fmt: skip
    """Return the event of a transfer that hardware could do; raise for any other."""
    if thread.owed is not None:
        raise missing_await(thread)
    if context.state is not READY or context.busy is not None or context.owner is not thread:
        context.check(thread, operation.name)
    event = new_event(DteEvent)  # its constructor makes an event of no transfer
    # An array of the context's own scratchpad is known at sight; everything else is looked at.
    if type(destination) is np.ndarray and destination.base is context.home:
        into: Array = destination
    else:
        into = _operand(thread, operation, context, destination, "dst")
    if source is None or (type(source) is np.ndarray and source.base is context.home):
        out: Array | None = source
    else:
        out = _operand(thread, operation, context, source, "src")
    # A plain copy between a span and a scratchpad is the most frequent by far, and can have no other fault.
    if operation is not MEMCPY or type(destination) is type(source) or out is None or into.nbytes < out.nbytes:
        _check_geometry(thread, operation, into, out, parameters)
    event.state = PENDING
    event.into = into
    event.out = out
    event.thread = thread
    event.context = context
    event.operation = operation
    event.destination = destination
    event.source = source
    event.parameters = parameters
    return event


def _check_geometry(
    thread: KernelThread, operation: Operation, into: Array, out: Array | None, parameters: Mapping[str, Any]
) -> None:
    """Raise DteError where shapes, types, offsets or places do not fit, or the chip lacks the operation."""
    arch = thread.grid.arch
    if operation.gcu_arch > arch.gcu_arch:
        raise fault(thread, f"{operation.name} needs gcu{operation.gcu_arch}; this is {arch.name}")
    try:
        operation.check(into, out, **parameters)
    except (InvalidValue, InvalidType) as error:
        raise fault(thread, str(error)) from error


def _operand(thread: KernelThread, operation: Operation, context: DteContext, operand: Any, role: str) -> Array:
    """Return the array of an operand that lies in live device memory which the context can reach."""
    if type(operand) is Span:
        allocation, space, array = operand.allocation, operand.space, operand.array
        if allocation is not None and not allocation.alive:
            raise allocation.violation(operand.offset, array.nbytes, f"{operation.name} of {thread} at {caller()}")
    else:
        space, array = space_of(thread, operand, f"{role} of {operation.name}"), operand
    if space is Space.LOCAL and context.shared:
        raise fault(thread, f"{role} of {operation.name} lies in local memory; a shared DTE context moves between "
                            "global and shared memory only, use a private one")  # fmt: skip
    return array


def space_of(thread: KernelThread, array: object, what: str) -> Space:
    """Return where a plain array lies: numpy's views of one memory all name it as their base.

    Raises DteError, naming `what`, for an array outside the thread's own L1 and L2, and for what is no array.
    """
    if isinstance(array, np.ndarray):
        root = array if array.base is None else array.base
        if root is thread.sip.l1:
            return Space.LOCAL
        if root is thread.block.cluster.l2:
            return Space.SHARED
        raise fault(thread, f"{what} is an array outside this thread's memories; k.local, k.shared and the kernel's "
                            "arguments are right")  # fmt: skip
    raise fault(thread, f"{what} is {array!r}; a span or a k.local or k.shared array is right")

