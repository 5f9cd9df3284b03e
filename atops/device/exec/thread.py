"""One kernel thread, and the requests that it can make of the interpreter.

A kernel's coroutine yields one small request at each point where it can be suspended; the interpreter serves it. One
OS thread may run all threads of the device, those of a block, or one.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import ContextVar
from enum import IntEnum
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from atops.base.choice import Name
from atops.base.errors import IllegalState, MissingAwait
from atops.base.log_fields import said_of
from atops.device.call_site import PACKAGE, Site, file_shown
from atops.device.chip import Sip
from atops.device.cost import ThreadCost

if TYPE_CHECKING:
    from atops.device.dte.transfer import DteEvent
    from atops.device.exec.block import Block
    from atops.device.exec.grid import Grid
    from atops.device.exec.os_threads import SipTask
    from atops.device.memory.pieces import Pieces
    from atops.device.races.thread_races import ThreadRaces
    from atops.device.races.touches import ThreadTouches

__all__ = (
    "THREAD_SLOT",
    "KernelCoroutine",
    "KernelThread",
    "Reach",
    "Request",
    "ThreadSlot",
    "asked",
    "current_thread",
    "get_slot",
    "make_threads",
    "maybe_current_thread",
    "missing_await",
    "slot_here",
)

KernelCoroutine: TypeAlias = Coroutine[object, None, object]  # yields what it awaits, as a rule Requests

MOST_CLOSINGS = 16  # how often a kernel may await while it is being closed before it is left alone


class Reach(IntEnum):
    """From how far away a parked thread may be woken."""

    BLOCK = 0  # only by a thread of its own block
    GRID = 1  # by any thread of the grids that share its barrier
    OUTSIDE = 2  # by the host or any other kernel


class Request:
    """Something a kernel thread must await: a barrier, a DTE event, a signal.

    `serve(thread)` is called by the interpreter; it returns True when the thread may go on at once, and False when it
    has been parked and is woken when the request is complete. What `serve` raises is raised in the kernel, at its
    `await`.

    `reach` says from how far away a thread parked here may be woken: deadlocks are found by it. Where each SIP thread
    has an OS thread, requests of one block are served one at a time, except those whose `alone` is False: these have
    locks of their own.
    """

    __slots__ = ("frame", "lasti")

    reach: ClassVar[Reach] = Reach.BLOCK
    alone: ClassVar[bool] = True
    asks_again: ClassVar[bool] = False  # whether a thread parked here makes the same request once more when it goes on

    frame: FrameType | None  # where it was made; unset until it is noted
    lasti: int

    def __await__(self) -> Generator[Request, None, None]:
        """Suspend the kernel thread until the request is served. Returns None."""
        return iter((self,))  # type: ignore[return-value]  # any iterator serves, and a tuple's is the cheapest

    def serve(self, thread: KernelThread) -> bool:
        """Serve this request of `thread`. Returns whether the thread may go on at once."""
        raise NotImplementedError

    @property
    def awaits(self) -> object:
        """What the thread waits for, as a footprint names it; None if not known."""
        return None

    def cancel(self, thread: KernelThread) -> None:
        """Forget `thread`, which was parked here and is being closed. Only requests that outlive the grid need it."""

    def describe(self) -> str:
        """Say what a thread stands at here, for deadlock reports: "syncthreads"."""
        raise NotImplementedError

    def made_by(self, thread: KernelThread, depth: int = 2) -> Request:
        """Note that `thread` made this request at its caller's line and must await it. Returns the request itself.

        Raises MissingAwait when an earlier request of the thread was never awaited.
        """
        if thread.unawaited is not None:
            raise missing_await(thread)
        frame = sys._getframe(depth)
        self.frame = frame
        self.lasti = frame.f_lasti  # the line is worked out only when it is asked for
        thread.unawaited = self
        return self

    def line(self) -> tuple[str, int]:
        """Return the file and line where the request was made."""
        frame = getattr(self, "frame", None)
        if frame is None:
            return "?", 0
        site = Site(frame.f_code, self.lasti)
        return site.path, site.line


class KernelThread:
    """One thread of a block, on a SIP. `linear` counts within the block, x fastest.

    `unawaited` is the request it made and has not awaited; `waiting` the one it is parked at, except at the barriers of
    block and grid, whose arrivals the block keeps. `sites`, `transfers` and `pieces` belong to the kernel language.
    `make_threads` makes all of a block.
    """

    __slots__ = (
        "block",
        "coro",
        "cost",
        "ended",
        "grid",
        "grid_sync",
        "index",
        "linear",
        "name",
        "pieces",
        "race",
        "send",
        "sip",
        "sites",
        "sync",
        "task",
        "transfers",
        "turn",
        "turns",
        "unawaited",
        "waiting",
    )  # fmt: skip

    block: Block
    grid: Grid
    linear: int
    index: tuple[int, int, int]
    sip: Sip
    sync: Request  # its block barrier; made with the SIP, so that no launch has to
    grid_sync: Request | None  # of a cooperative grid only
    unawaited: Request | None
    waiting: Request | None
    coro: KernelCoroutine | None
    cost: ThreadCost | None  # its clock, under a virtual one
    send: Callable[[None], object]  # the coroutine's; not there before the kernel was started
    sites: dict[object, Any] | None  # made when first needed, as the next
    transfers: list[DteEvent] | None
    ended: bool
    pieces: Pieces | None  # of the SIP's L1, once something was taken
    race: ThreadRaces | ThreadTouches | None  # what it accesses, where races are looked for
    turns: int  # how many more waits for transfers move the bytes there and then, before one suspends the thread
    name: Name  # by which a schedule chooses it; set only under a schedule
    turn: Callable[[], None]  # the step that is chosen; set only under a schedule
    task: SipTask  # what steps it; set only where every thread has an OS thread

    @property
    def l1_top(self) -> int:
        """The byte behind the highest part of L1 that was in use when memory was last taken."""
        return 0 if self.pieces is None else self.pieces.top

    def begin(self, nothing: None) -> object:
        """Start the kernel and return its first request. Raises StopIteration when it has ended, as `send` does."""
        try:
            coro = self.grid.entry.start(self)
        except StopIteration as error:  # out of a plain function it would look like an end
            raise RuntimeError(f"the kernel raised {said_of(error)}") from error
        if coro is None:
            raise StopIteration
        self.coro = coro
        self.send = coro.send
        return coro.send(None)

    def raise_at_await(self, error: BaseException) -> None:
        """Make the next `send` raise `error` where the kernel waits, so that its traceback shows the line."""
        coro = self.coro
        assert coro is not None

        def send(nothing: None) -> object:
            self.send = coro.send
            return coro.throw(error)

        self.send = send

    def close(self) -> bool:
        """End the kernel at its suspension. Return False when it refuses: it awaits again each time it is closed."""
        self.ended = True
        self.turns = 0  # what its `finally` waits for is not served
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.cancel(self)
            waiting = None  # it refers to the kernel's frame, which ends in here: a circle, from Python 3.13 on
        self.send = _over  # what was there may hold this thread
        coro = self.coro  # none before the first turn
        for _ in range(MOST_CLOSINGS):
            if coro is None or getattr(coro, "cr_frame", None) is None:
                return True
            self.unawaited = None  # what its `finally` asks for is not served, and no fault
            try:
                coro.close()
            except BaseException:  # the grid has its error already; this one would hide it
                continue
        if coro is None or getattr(coro, "cr_frame", None) is None:
            return True
        # Its finalizer would close it once more, on no thread of a kernel, where each await fails at once: one that
        # catches everything and begins anew would never come back from that. So nothing ever finalizes it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(coro))
        return False

    def wake(self) -> None:
        """Make this parked thread runnable. Safe from any OS thread; hold no lock."""
        block = self.block
        with self.grid.barrier.lock:
            idle = block.make_ready((self,))
        if idle:
            block.reschedule()

    def where(self) -> tuple[str, int]:
        """Return the file and line of its innermost await outside this package."""
        place, ours = ("?", 0), True
        awaited: object = self.coro
        while awaited is not None:
            frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
            if frame is None:
                break
            file = frame.f_code.co_filename
            if ours or not file.startswith(PACKAGE):
                place, ours = (file, frame.f_lineno or 0), file.startswith(PACKAGE)
            awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
        return place

    def stands_at(self) -> str | None:
        """Return what it is parked at, in words, or None when it can run or has left the kernel."""
        if self.waiting is not None:
            return self.waiting.describe()
        if self.grid_sync is not None and self in self.block.at_grid:
            return self.grid_sync.describe()
        return self.sync.describe() if self in self.block.arrived else None

    def __str__(self) -> str:
        thread, block = (f"({x},{y},{z})" for x, y, z in (self.index, self.block.index))
        return f"thread {thread} of block {block} of kernel {self.grid.name}"

    def __repr__(self) -> str:
        return f"<KernelThread {self}>"


def make_threads(block: Block, grid: Grid, sips: Sequence[Sip]) -> list[KernelThread]:
    """Make the threads of a block, in the order of `grid.thread_indices`, one on each SIP.

    One loop and no constructor: its frames would be a tenth of an empty launch.
    """
    cooperative, turns = grid.cooperative, grid.turns
    threads = []
    for linear, index in enumerate(grid.thread_indices):
        sip = sips[linear]
        thread = KernelThread()
        thread.block = block
        thread.grid = grid
        thread.linear = linear
        thread.index = index
        thread.sip = sip
        thread.sync = sip.sync
        thread.grid_sync = sip.grid_sync if cooperative else None
        thread.unawaited = None  # one by one: CPython stores the same thing in several places more slowly
        thread.waiting = None
        thread.coro = None
        thread.sites = None
        thread.transfers = None
        thread.pieces = None
        thread.cost = None
        thread.race = None
        thread.ended = False
        thread.turns = turns
        threads.append(thread)
    if block.cost is not None:
        for thread in threads:
            thread.cost = ThreadCost(block.cost)
    return threads


def _over(nothing: None) -> object:
    """Send nothing to a kernel that was closed."""
    raise StopIteration


def missing_await(thread: KernelThread) -> MissingAwait:
    """Return the error for the request that `thread` made and never awaited, naming its line."""
    assert thread.unawaited is not None
    return MissingAwait(f"{thread} {asked(thread.unawaited)}")


def asked(request: Request) -> str:
    """Describe a request that was made and never awaited, with its line."""
    file, line = request.line()
    return f"asked for {request.describe()} at {file_shown(file)}:{line} and never awaited it; write `await`"


# ---- which kernel thread runs on an OS thread: kept once for each, and read by a kernel and the functions it calls


class ThreadSlot:
    """Where an OS thread keeps the kernel thread that it runs. To read a slot is cheaper than a `threading.local`."""

    __slots__ = ("owner", "thread")

    owner: int  # the OS thread
    thread: KernelThread | None


THREAD_SLOT: ContextVar[ThreadSlot | None] = ContextVar("atops_kernel_thread", default=None)
get_slot = THREAD_SLOT.get  # looked up by name, a method of an imported object is made anew for each call


def slot_here() -> ThreadSlot:
    """Return this OS thread's slot. A context copied from another OS thread brings that one's slot; it is replaced."""
    slot, here = THREAD_SLOT.get(), get_ident()
    if slot is None or slot.owner != here:
        slot = ThreadSlot()  # with no constructor: each block of a launch makes one
        slot.owner = here
        slot.thread = None
        THREAD_SLOT.set(slot)
    return slot


def maybe_current_thread() -> KernelThread | None:
    """Return the kernel thread that is running here, or None on the host."""
    slot = get_slot()
    return None if slot is None else slot.thread


def current_thread() -> KernelThread:
    """Return the kernel thread that is running here. Raises IllegalState on the host, naming what was used there."""
    slot = get_slot()
    if slot is None or slot.thread is None:
        raise _used_on_host()
    return slot.thread


def _used_on_host() -> IllegalState:
    """Return the error that names the function of this package which the program used, and the program's line."""
    used, frame = None, sys._getframe(1)
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        used, frame = frame, frame.f_back
    name = "this name"
    if used is not None and used.f_code is not current_thread.__code__:
        owner, _, name = used.f_code.co_qualname.rpartition(".")
        if owner and "self" in used.f_locals:
            one = used.f_locals["self"]
            name = type(one).__name__ if name == "__init__" else f"{name} of {one!r}"
    site = Site(frame.f_code, frame.f_lasti)
    return IllegalState(f"{site}: {name} was used on the host; it has a meaning only inside a kernel")
