"""One block of a grid: where it runs, what its threads share, and how they are served, ended and closed.

The two kinds of blocks differ in what steps their threads: interpreter.py has one, os_threads.py the other. What a
kernel raises ends in its grid.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from enum import Enum
from functools import partial
from typing import Any, Protocol, TypeAlias

from atops.base.choice import Name
from atops.base.errors import LaunchFailure
from atops.device.chip import Cluster, Sip
from atops.device.cost import Cancellable
from atops.device.exec.barrier import equip
from atops.device.exec.failures import failure_of
from atops.device.exec.grid import Grid
from atops.device.exec.thread import KernelThread, Reach, Request, ThreadSlot, make_threads, missing_await
from atops.device.memory.pieces import Pieces
from atops.device.races.detector import BlockRaces

__all__ = ("AGAIN", "DONE", "PARKED", "Block", "Progress", "Task", "Transfer", "serve")


class Progress(Enum):
    """How a step ended."""

    AGAIN = "again"  # there is more to run; step it again when others had their turn
    PARKED = "parked"  # nothing to run until `resume` is called, which may have happened already
    DONE = "done"  # it is over


AGAIN, PARKED, DONE = Progress


class Transfer(Protocol):
    """A transfer of a thread, as a schedule sees it, which gives it the name by which it is chosen."""

    thread: KernelThread
    choice: Name

    def move(self) -> None:
        """Take effect."""


class Task(Protocol):
    """What the runtime steps: a block, or one of its threads; the most urgent first.

    `ahead` is the time in nanoseconds up to which a virtual clock may go before the next step.
    """

    @property
    def ahead(self) -> int:
        """0 where there is no such clock."""

    @property
    def priority(self) -> int:
        """-2 (most urgent) to 0."""

    def step(self, budget: int) -> Progress:
        """Run for about `budget` suspensions. Never raises what a kernel raised."""


MakeThreads: TypeAlias = "Callable[[Block, Grid, list[Sip]], list[KernelThread]]"


def _no_resume(task: Task) -> None:
    """Resume nothing: the caller steps this block by hand."""


class Block:
    """Block `linear` of a grid, on a cluster; `sips` are those of the cluster it may use, one a thread.

    The runtime sets `resume`. It is called with no lock held, from any OS thread, once for each PARKED that a task of
    this block returned, maybe before the step that parked has returned; a task is never handed out twice at a time.

    `shared` and `pieces` belong to the kernel language.
    """

    __slots__ = (
        "arrived", "at_grid", "cluster", "cost", "grid", "held", "idle", "index", "left", "linear", "pieces",
        "priority", "races", "resume", "shared", "size", "threads",
    )  # fmt: skip

    def __init__(
        self, grid: Grid, linear: int, cluster: Cluster, sips: list[Sip], make: MakeThreads | None = make_threads
    ) -> None:
        self.grid = grid
        self.linear = linear
        self.index = (linear, 0, 0) if linear < grid.grid_dim[0] else grid.grid_dim.index(linear)
        self.cluster = cluster
        self.priority = grid.priority
        self.resume: Callable[[Task], None] = _no_resume
        self.shared: dict[Hashable, Any] = {}
        self.pieces: Pieces | None = None  # of the cluster's L2, once something was taken
        self.races: BlockRaces | None = None  # what its threads access, where races are looked for
        self.size = grid.threads_per_block
        self.left = 0  # threads that have left the kernel
        # The two most frequent waits are plain lists and no ParkingLots: all threads arrive, none gives up, and the
        # list of those that arrived becomes the list of those that run.
        self.arrived: list[KernelThread] = []  # at the block barrier
        self.at_grid: list[KernelThread] = []  # at the grid barrier
        self.idle = False  # changes under the grid barrier's lock
        self.cost = None if grid.cost is None else grid.cost.begin_block()
        self.held: Cancellable | None = None  # its end, which comes when the virtual clock has come there
        if sips[0].sync is None or (grid.cooperative and sips[0].grid_sync is None):
            equip(cluster.sips, grid.cooperative)
        self.threads: list[KernelThread] = [] if make is None else make(self, grid, sips)  # none: the native runtime's
        grid.opened(self)

    # ---- what each kind of block does in its own way

    def tasks(self) -> list[Task]:
        """Return what the runtime steps, each on one OS thread at a time, until it is DONE."""
        raise NotImplementedError

    def make_ready(self, threads: Iterable[KernelThread]) -> bool:
        """Make parked threads runnable. The barrier's lock is held. Return whether `reschedule` must follow."""
        raise NotImplementedError

    def cancel(self) -> bool:
        """Make every parked thread see that the grid has stopped. Locking and result as for `make_ready`."""
        raise NotImplementedError

    def reschedule(self) -> None:
        """Have the block stepped again. No lock is held."""
        raise NotImplementedError

    def open_barrier(self) -> None:
        """Make every thread at the block barrier runnable, in the order they arrived."""
        raise NotImplementedError

    def arrive_at_grid(self) -> None:
        """Have the block arrive at the grid barrier, before anything else of it is run: all its threads are there."""
        raise NotImplementedError

    def running(self) -> list[KernelThread]:
        """Return the threads that are being run at this moment."""
        raise NotImplementedError

    def in_flight(self, transfer: Transfer) -> None:
        """Have a transfer take effect when it is chosen. Only where a schedule chooses."""
        raise NotImplementedError

    # ---- what they have in common

    @property
    def l2_top(self) -> int:
        """The byte behind the highest part of L2 that was in use when memory was last taken."""
        return 0 if self.pieces is None else self.pieces.top

    def pass_grid_barrier(self) -> bool:
        """Make the threads at the grid barrier runnable. Locking and result as for `make_ready`."""
        threads, self.at_grid = self.at_grid, []
        return self.make_ready(threads)

    def reach(self) -> Reach:
        """Return the farthest that any of its parked threads may be woken from."""
        farthest = Reach.GRID if self.at_grid else Reach.BLOCK
        for thread in self.threads:
            if thread.waiting is not None:
                farthest = max(farthest, thread.waiting.reach)
        return farthest

    def ended(self, thread: KernelThread, value: object = None) -> None:
        """Settle with a thread whose kernel has returned `value`."""
        thread.ended = True
        self.left += 1
        try:
            if thread.unawaited is not None:
                raise missing_await(thread)
            if value is not None or thread.transfers or (self.left == self.size and self.grid.options.strict):
                thread.grid.entry.finish(thread, value)
        except BaseException as error:
            self.grid.stop(failure_of(thread, error))
            thread.unawaited = None
        _forget_frames(thread)
        if self.grid.observer is not None:
            self.grid.observer("end", thread, None)

    def fault(self, thread: KernelThread, error: BaseException) -> None:
        """End the grid with what a thread's kernel raised."""
        thread.ended = True
        self.left += 1
        self.grid.stop(failure_of(thread, error))
        _forget_frames(thread)
        thread.unawaited = None
        if self.grid.observer is not None:
            self.grid.observer("fault", thread, error)

    def close_thread(self, thread: KernelThread, slot: ThreadSlot) -> None:
        """Close a thread that has not ended; a kernel that refuses is left suspended and named in the warnings."""
        slot.thread = thread
        if self.grid.observer is not None:
            self.grid.observer("close", thread, None)
        if not thread.close():
            self.grid.warnings.append(f"{thread} awaits again whenever it is closed; it was left suspended")
        _forget_frames(thread)
        thread.unawaited = None
        self.left += 1

    def over(self) -> Progress:
        """End the block, once all its threads have left: now, or when the time that they took is over."""
        if self.races is not None:
            self.races.over()
            for thread in self.threads:
                thread.pieces = None  # what is noted of the threads does not keep L1
        self.threads = []  # threads refer to their block; without this the two would keep each other alive
        if self.shared:
            self.shared = {}
        if self.cost is None or not self._hold():
            self.grid.block_done(self)
        return DONE

    def _hold(self) -> bool:
        """Keep the cluster for the time that the block took, unless its launch has failed or that is over."""
        grid, cost = self.grid, self.cost
        assert grid.cost is not None and cost is not None
        left = cost.left
        with grid.barrier.lock:
            if left <= 0 or grid.error is not None:
                return False
            self.held = grid.cost.clock.hold(left, partial(grid.block_done, self), self.priority)
            return True

    def let_go(self) -> None:
        """End a block that is held, because its launch has failed."""
        assert self.held is not None
        self.held.cancel()
        self.grid.block_done(self)

    def __repr__(self) -> str:
        return f"<Block {self.index} of kernel {self.grid.name}: {self.size - self.left} of {self.size} threads>"


def serve(thread: KernelThread, request: object) -> bool:
    """Serve what `thread` awaits. Return whether it goes on at once; else it is parked until it is woken.

    An unfit request, or a failure in serving it, is raised at the kernel's `await` when it goes on.
    """
    try:
        if request is thread.unawaited and request is not None:
            thread.unawaited = None
        elif not isinstance(request, Request):
            raise LaunchFailure(f"{thread} awaited {_foreign(thread, request)}; kernels may only await kernel requests")
        elif thread.unawaited is not None:
            raise missing_await(thread)
        thread.waiting = request
        if not request.serve(thread):
            return False
    except BaseException as error:
        thread.raise_at_await(error)
    thread.waiting = None
    return True


def _forget_frames(thread: KernelThread) -> None:
    """Drop the frames that the barrier requests noted: the requests outlive the thread."""
    thread.sync.frame = None
    if thread.grid_sync is not None:
        thread.grid_sync.frame = None


def _foreign(thread: KernelThread, request: object) -> str:
    """Name what a kernel awaits that is no kernel request: the coroutine it called, or the object itself."""
    awaited: object = thread.coro
    names = []
    while (awaited := getattr(awaited, "cr_await", None)) is not None:
        if (code := getattr(awaited, "cr_code", None)) is not None:
            frame = getattr(awaited, "cr_frame", None)
            module = frame.f_globals.get("__name__", "?") if frame is not None else "?"
            names.append(f"{module}.{code.co_qualname}")
    said = f"{type(request).__name__} {request!r}" if request is not None else "None"
    return f"{said} in {names[-1]}" if names else said
