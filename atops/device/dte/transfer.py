"""A DTE transfer: what it may move, and the request that waits for it, from its issue to its wait.

A transfer takes effect as late as legal by default: when it is waited for. The operation moves the bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from atops.base.choice import Name
from atops.base.errors import DteError, IllegalAddress
from atops.base.footprint import Footprint
from atops.base.locks import fork_safe
from atops.base.waiting.parking_lot import ThreadWaiter, Waiter, wake
from atops.device.call_site import Site, caller
from atops.device.chip import POISON
from atops.device.dte.array_copy import WORDS, fill
from atops.device.dte.operations import Operation, sub_sample
from atops.device.dte.stages import Parameters
from atops.device.exec.thread import KernelThread, Reach, Request, current_thread, get_slot
from atops.device.geometry import Array, Space, root_of
from atops.device.races.access_log import Flight
from atops.device.races.thread_races import Accessed
from atops.device.races.touches import Moved
from atops.device.span.span import Span

if TYPE_CHECKING:
    from atops.device.dte.context import DteContext

__all__ = (
    "CHAINED", "PENDING", "PRIVATE_ARRAYS", "DteEvent", "Operand", "apart", "fault", "finish_transfers",
    "look_at_issue", "look_at_wait", "no_context", "operand_of", "perform", "poison",
)  # fmt: skip

Operand = Span | Array  # of a transfer: its dst or its src
PRIVATE_ARRAYS = "private arrays"  # where a thread's `sites` keep those that the language made for it

LOCAL, SHARED = Space.LOCAL, Space.SHARED  # an enumeration's member takes long to find
_POISON_BYTES = bytes((POISON,))
# Of no transfer; issued; issued behind others that come first; being moved, or about to be, by a copy thread; moved
# and not waited for; waited for.
IDLE, PENDING, CHAINED, MOVING, MOVED, DONE = "idle", "pending", "chained", "moving", "moved", "done"
_NOTHING: Any = None
_NO_STEPS: list[Any] = []
_AT_ONCE: Generator[Any, Any, None] = iter(())  # type: ignore[assignment]  # any iterator serves
# A leaf: between copy threads that end transfers and kernel threads that wait for them.
_lock = fork_safe(threading.Lock())


class DteEvent(Request):
    """What an asynchronous DTE operation returns: `tops::event` (TOPS C++, 8.7).

    Await it, once or many times, before the destination is read or the source is overwritten. `DteEvent()` is an
    event of no transfer, which may be awaited and need not be.
    """

    __slots__ = ("after", "before", "choice", "code", "context", "destination", "error", "flight", "into", "issued",
                 "operation", "out", "over_at", "parameters", "source", "state", "thread", "waiters")  # fmt: skip

    # Set at the issue, once the transfer has been checked.
    thread: KernelThread
    context: DteContext
    operation: Operation[...]
    destination: Operand
    source: Operand | None
    into: Array  # the operands' arrays
    out: Array | None
    parameters: Parameters
    code: CodeType  # where it was issued; not the frame, which would keep the kernel's variables alive
    issued: int
    choice: Name  # by which a schedule chooses when it takes effect; set only under one
    over_at: int  # under a virtual clock, in picoseconds; 0 while something that comes first was not started
    before: bytes | None  # in strict mode, what the source held
    flight: Flight | Moved | None  # where races are looked for
    after: list[Any]  # of a chained one: the transfers that come first, or the contexts that have yet to start them

    reach: ClassVar[Reach] = Reach.OUTSIDE  # a thread parked here waits for a copy thread
    asks_again: ClassVar[bool] = True

    def __init__(self) -> None:
        """Make an event of no transfer."""
        self.state = IDLE

    def __await__(self) -> Generator[Any, Any, None]:
        """Let the kernel thread go on once the transfer has been done. Returns None."""
        state, cell = self.state, get_slot()
        if cell is not None and (thread := cell.thread) is not None and thread.turns:
            unawaited = thread.unawaited
            if unawaited is None or unawaited is self:  # nothing that the interpreter would have to do or to say
                if (cost := thread.cost) is not None and state is not IDLE:
                    cost.until(self.over_at)
                if state is PENDING and self.thread is thread and not (context := self.context).shared:
                    thread.turns -= 1
                    if unawaited is not None:
                        thread.unawaited = self.frame = None
                    self.state = DONE
                    context.busy = None
                    thread.transfers.remove(self)  # type: ignore[union-attr]  # it is in there
                    if thread.race is not None:
                        look_at_wait(self, thread)
                    perform(self, thread)
                    return _AT_ONCE
                if state is DONE or state is IDLE:
                    thread.turns -= 1
                    thread.unawaited = self.frame = None
                    if thread.race is not None:
                        look_at_wait(self, thread)
                    return _AT_ONCE
        if state is MOVING or state is CHAINED:
            return self._turns()
        return iter((self,))  # type: ignore[return-value]  # any iterator serves, and this one is the cheapest

    def wait(self) -> Request:
        """Return the request to await: `await event.wait()` does what `await event` does."""
        return self.made_by(current_thread())

    def serve(self, thread: KernelThread) -> bool:
        """Let the thread go on once the bytes are moved, which is done now unless it has been done.

        Raises DteError when the transfer belongs to another thread's private context, or comes after one that was
        not started, IllegalAddress when its memory was freed meanwhile.
        """
        self.frame = None  # a frame holds its kernel's variables, and so this event
        if self.state is IDLE:
            return True
        if thread.cost is not None:
            thread.cost.until(self.over_at)
        if self.state is DONE:
            if thread.race is not None:
                look_at_wait(self, thread)
            return True
        if self.thread is not thread and not self.context.shared:
            raise DteError(f"{thread} waits for the {self.operation.name} of {self.site}, which {self.thread} issued "
                           "in its private DTE context; only that thread can wait for it")  # fmt: skip
        return self._served(thread) if self.context.shared else self._serve_now(thread)

    def cancel(self, thread: KernelThread) -> None:
        """Forget a thread that is being closed."""
        with _lock:
            if self.state is MOVING and thread in self.waiters:
                self.waiters.remove(thread)
        if self.state is CHAINED:
            for step in self.after:
                if isinstance(step, DteEvent):
                    step.cancel(thread)

    def complete(self) -> None:
        """Move the bytes now unless they are, and set the context free. Blocks while a copy thread moves them."""
        if self.state is CHAINED:
            for step in self._steps():
                step.complete()
        if self.state is MOVING and (agenda := self.thread.grid.agenda) is not None:
            for step in self.after:
                step.complete()
            if agenda.footprint is not None:
                agenda.footprint.opaque()  # what could come is gone
            if agenda.drop(self.move):
                self.move()
        gate = ThreadWaiter()
        if self.state is MOVING and self._park(gate):
            gate.wait()
        if self.thread.cost is not None:
            self.thread.cost.until(self.over_at)
        self._served(self.thread)

    def begin(self) -> None:
        """Move the bytes as soon as what comes first is moved: on a copy thread where there are any, else here."""
        if self.state is not CHAINED:
            self.after = _NO_STEPS
        elif not self._begin_steps():
            return  # it stays chained, and is moved when it is waited for
        self.error: BaseException | None = None
        self.waiters: list[Waiter] = []
        self.state = MOVING
        self.wake()

    def _begin_steps(self) -> bool:
        """Move what comes first. Returns whether all of it has begun."""
        if not all(isinstance(step, DteEvent) for step in self.after):
            return False
        for step in self.after:
            if step.state is PENDING or step.state is CHAINED:
                step.begin()
        return not any(step.state is CHAINED for step in self.after)

    def wake(self) -> None:
        """Go on towards moving: another transfer, which this one had to let go first, has been moved."""
        for step in self.after:
            if step.state is MOVING and step._park(self):
                return
        grid = self.thread.grid
        offload = grid.offload
        if grid.agenda is not None:
            self.thread.block.in_flight(self)
        elif offload is None:
            self.move()
        else:
            offload(self.move)

    def describe(self) -> str:
        """Say what a thread that waits here waits for."""
        return "an event of no transfer" if self.state is IDLE else f"{self.operation.name} of {self.site}"

    @property
    def awaits(self) -> object:
        """What the step gives that moves the bytes; None where there is none."""
        choice = getattr(self, "choice", None)
        return None if choice is None else ("moved", choice)

    @property
    def site(self) -> Site:
        """Return where the transfer was issued."""
        return Site(self.code, self.issued)

    def _turns(self) -> Generator[object, object, None]:
        """Suspend until the transfer is done: a thread parked while bytes were moved asks again how that ended."""
        while self.state is not DONE:
            yield self

    def _served(self, thread: KernelThread) -> bool:
        if not self.context.shared:
            return self._serve_now(thread)
        with self.context.lock:  # two OS threads may wait at the same time; the second finds it done
            return self._serve_now(thread)

    def _serve_now(self, thread: KernelThread) -> bool:
        if self.state is CHAINED:
            if not all(step._served(thread) for step in self._steps()):
                return False
            self.state = PENDING
        if self.state is MOVING and self._park(thread):
            return False
        if self.state is DONE:
            return True
        pending = self.state is PENDING
        self.state = DONE
        if thread.race is not None:
            look_at_wait(self, thread)
        self.context.busy = None
        transfers = self.thread.transfers
        if transfers is not None:
            transfers.remove(self)
        if pending:
            if thread.grid.options.strict:
                self._check_source()
            perform(self, thread)
            return True
        for step in self.after:  # moved before this one, so a wait for it is one for them
            step._served(thread)
        if self.error is not None:
            raise self.error
        return True

    def watch_source(self) -> None:
        """Keep what the source holds: strict mode reports a store into it before the wait."""
        source = self.operation.work.read(self.into, self.out, self.parameters)
        self.before = None if source is None else source.tobytes()

    def _check_source(self) -> None:
        before = getattr(self, "before", None)  # of a chained transfer there is none
        if before is not None:
            self.watch_source()
            after, self.before = self.before, None
            if after != before:
                raise DteError(f"{self.thread}: the source of the {self.describe()} was overwritten in flight, so that "
                               "what arrives is open; await the event before the store")  # fmt: skip

    def _steps(self) -> Iterator[DteEvent]:
        """Yield the transfers that come first. Raises DteError at one that was not started."""
        for step in self.after:
            if not isinstance(step, DteEvent):
                raise DteError(f"{self.thread} waits for the {self.describe()}, which comes after a transfer of "
                               f"{step!r}; trigger that one first, or it never begins")  # fmt: skip
            yield step

    def move(self) -> None:
        """Move the bytes, perhaps on a copy thread, keep the error and wake the waiters."""
        if (agenda := self.thread.grid.agenda) is not None and agenda.footprint is not None:
            self._tell(agenda.footprint)
        try:
            for step in self.after:
                if (error := getattr(step, "error", None)) is not None:
                    raise error
            if (grid := self.thread.grid).agenda is not None and grid.options.strict:
                self._check_source()
            perform(self, self.thread)
        except BaseException as error:
            self.error = error
        with _lock:
            self.state = MOVED
            waiters, self.waiters = self.waiters, []
        if waiters:
            wake(waiters)

    def _tell(self, footprint: Footprint) -> None:
        """Tell what the step touches that moves the bytes."""
        moved = getattr(self, "flight", None)
        if not isinstance(moved, Moved) or not moved.plain:
            return
        footprint.begin(self.choice)
        footprint.need(self.choice)
        footprint.give(self.awaits)
        moved.take_effect(footprint)

    def _park(self, waiter: Waiter) -> bool:
        """Note whom to wake. Returns False when the bytes are moved already."""
        with _lock:
            if self.state is MOVING:
                self.waiters.append(waiter)
                return True
        return False

    def __repr__(self) -> str:
        return f"<DteEvent {self.state}>" if self.state is IDLE else f"<DteEvent {self.describe()}, {self.state}>"


def perform(event: DteEvent, thread: KernelThread) -> None:
    """Move the bytes of a checked transfer. Raises IllegalAddress when its memory was freed meanwhile."""
    destination, source, watched = event.destination, event.source, False
    if type(source) is Span and (allocation := source.allocation) is not None and not allocation.alive:
        raise _freed(source, event)
    if type(destination) is Span and (allocation := destination.allocation) is not None:
        if not allocation.alive:
            raise _freed(destination, event)
        watched = True
    event.operation.apply(event.into, event.out, event.parameters)
    if watched:
        destination.stored()  # type: ignore[union-attr]  # a span, as above
    observer = thread.grid.observer
    if observer is not None:
        observer("dte", thread, (event.operation.name, destination, source))
    event.destination = event.source = event.into = event.out = _NOTHING  # an event that is over holds no memory


def look_at_issue(event: DteEvent, thread: KernelThread, frame: FrameType) -> None:
    """Tell the thread's detector of a transfer that it issues where `frame` stands."""
    race = thread.race
    assert race is not None
    source, into, out = event.source, event.into, event.out
    written, read = event.operation.work.footprint(into, out, event.parameters)
    event.flight = race.issued(
        event, _accessed(thread, event.destination, written, into),
        None if read is None or source is None else _accessed(thread, source, read, out), frame.f_code, frame.f_lasti,
    )  # fmt: skip


def look_at_wait(event: DteEvent, thread: KernelThread) -> None:
    """Tell the detector that `thread` has waited for a transfer."""
    if (flight := getattr(event, "flight", None)) is not None and thread.race is not None:
        thread.race.waited(flight)


def _accessed(thread: KernelThread, operand: Operand, array: Array, whole: Array | None) -> Accessed:
    """Return the part of an operand that a transfer accesses."""
    if type(operand) is Span:
        allocation, space = operand.allocation, operand.space
        if space is LOCAL and (thread.pieces is None or not thread.pieces.holds(operand.array)):
            operand.refuse_local(thread)
        start = operand.offset if array is whole and operand.contiguous else None
        if allocation is None and space is not LOCAL and space is not SHARED:
            start = None  # constants
        return Accessed(array, allocation, space, start)
    return Accessed(array, None, LOCAL if root_of(array) is thread.sip.l1 else SHARED, None)


def poison(
    operation: Operation[...], into: Array, out: Array | None, parameters: Parameters, disjoint: bool = False
) -> None:  # fmt: skip
    """Put 0xA5 in every byte that the operation writes, so that a read before the wait shows.

    Nothing where it moves onto itself; of `disjoint` operands that is known without a look.
    """
    work = operation.work
    written = work.footprint(into, out, parameters)[0] if disjoint else work.written(into, out, parameters)
    if written is not None:
        if written.itemsize in WORDS:  # of a bool, too, each byte
            written = written.view(WORDS[written.itemsize])
        fill(written, np.frombuffer(_POISON_BYTES * written.itemsize, written.dtype)[0])


def finish_transfers(thread: KernelThread) -> None:
    """Perform what a thread that has ended never waited for.

    Raises DteError in strict mode, naming each transfer; otherwise notes it among the grid's warnings. The detector of
    races, where there is one, reports it.
    """
    forgotten = list(thread.transfers or ())
    for event in forgotten:
        if thread.race is not None and (flight := getattr(event, "flight", None)) is not None:
            thread.race.forgot(flight, event.describe())
        event.complete()
    grid = thread.grid
    warnings = [f"{thread} never waited for the {event.describe()}; it was done at the end" for event in forgotten]
    if warnings and grid.options.strict:
        raise DteError("; ".join(warnings))
    grid.warnings.extend(warnings)


def _freed(span: Span, event: DteEvent) -> IllegalAddress:
    assert span.allocation is not None
    return span.allocation.violation(span.offset, span.array.nbytes, f"{event.operation.name} of {event.thread}")


# ---- what may be moved: memory that lives, that the context reaches, and that may be written where it is


def operand_of(thread: KernelThread, memory: Any, role: str, operation: str, shared: bool) -> tuple[Operand, Array]:
    """Return `memory` as the operand that it stands for, and its array. `role` is "dst" or "src".

    Spans and arrays stand for themselves, declared variables for their span, pointers for the memory from there on.
    Raises DteError, naming thread and line, for what is no memory of the thread's, for local memory where the context
    is `shared`, for a view that is not contiguous, and for a destination that is only read; IllegalAddress for dead
    memory.
    """
    if type(memory) is not Span and not isinstance(memory, np.ndarray):
        meant = getattr(memory, "span", None) or getattr(memory, "memory", None)
        if callable(meant):
            memory = meant()
    if type(memory) is Span:
        allocation, space, array = memory.allocation, memory.space, memory.array
        if allocation is None:  # a scratchpad, in strict mode or with the detectors: it has to be this thread's
            _space_of(thread, array, f"{role} of {operation}")
        elif not allocation.alive:
            raise allocation.violation(memory.offset, array.nbytes, f"{operation} of {thread} at {caller()}")
    else:
        space, array = _space_of(thread, memory, f"{role} of {operation}"), memory
    if space is Space.LOCAL and shared:
        raise fault(thread, f"{role} of {operation} lies in local memory; a shared DTE context moves between "
                            "global and shared memory only, use a private one")  # fmt: skip
    if not array.flags.c_contiguous:
        raise fault(thread, f"{role} of {operation} has gaps or another order: shape {array.shape} with strides of "
                            f"{array.strides} bytes; a DTE moves contiguous memory, as an mdspan describes it: "
                            f"{_instead(array, role, thread.grid.arch.gcu_arch)}")  # fmt: skip
    if role == "dst" and not array.flags.writeable:
        why = f"lies in {space} memory, which" if type(memory) is Span else "is an array that"
        raise fault(thread, f"dst of {operation} {why} kernels only read: {memory!r}")
    return memory, array


def _instead(array: Array, role: str, gcu_arch: int) -> str:
    """Return which operation moves such a view, given the memory that it is a view of."""
    steps = [step for extent, step in zip(array.shape, array.strides, strict=True) if extent > 1]
    if any(step < 0 for step in steps):
        return "mirror_tb reverses the last axis, mirror_lr the last but one"
    if 0 in steps:
        return "broadcast repeats along a dimension"
    if steps != sorted(steps, reverse=True):
        return "transpose permutes the dimensions"
    if role == "dst":
        return "deslice writes a window of it, and pad puts elements `mid` apart"
    if gcu_arch >= sub_sample.gcu_arch:
        return "slice takes a window of it, and sub_sample each n-th element"
    return "slice takes a window of it, and each n-th element as a column of its rows of n"


def apart(destination: Operand, source: Operand) -> bool:
    """Return whether operands surely share no byte: they lie in different memories. False where it is not known."""
    if type(destination) is not type(source):  # an array lies in a scratchpad; a span does so in strict mode only
        span = destination if type(destination) is Span else source
        return isinstance(span, Span) and span.space is Space.GLOBAL
    if isinstance(destination, Span) and isinstance(source, Span):
        return (destination.allocation is None) is not (source.allocation is None)  # a scratchpad, and device memory
    if not isinstance(destination, np.ndarray) or not isinstance(source, np.ndarray):
        return False
    return root_of(destination) is not root_of(source)


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
        root = root_of(array)
        if root is thread.sip.l1:
            return Space.LOCAL
        if root is thread.block.cluster.l2:
            return Space.SHARED
        if thread.sites is not None and any(root is each() for each in thread.sites.get(PRIVATE_ARRAYS, ())):
            raise fault(thread, f"{what} lies in private memory, which no DTE reaches; expected k.local")
        computed = root is array or array.base is None
        why = ", as a computation makes: y + 4 adds to each element, the part from there on is y[4:]" * computed
        raise fault(thread, f"{what} is an array outside this thread's memories{why}; expected k.local, k.shared or an "
                            "argument of the kernel")  # fmt: skip
    raise fault(thread, f"{what} is {array!r}; expected a span or a k.local or k.shared array")
