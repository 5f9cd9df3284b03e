"""One block of a grid as its threads see it: where it runs, what they share, and how it is stepped and resumed.

How its threads are run is the interpreter's business, which builds on this class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Protocol

from atops.device.chip import Cluster
from atops.device.exec.cooperative import Reach
from atops.device.exec.grid import Grid

__all__ = ("Block", "Progress", "Task")


class Progress(Enum):
    """How a step ended."""

    AGAIN = "again"  # there is more to run; step it again when others had their turn
    PARKED = "parked"  # nothing to run until `resume` is called, which may have happened already
    DONE = "done"  # it is over


class Task(Protocol):
    """What the runtime steps: a block, or one of its threads."""

    def step(self, budget: int) -> Progress:
        """Run for about `budget` suspensions. Never raises what a kernel raised."""


def _no_resume(task: Task) -> None:
    """Resume nothing: whoever steps this block by hand looks for itself."""


class Block:
    """Block `linear` of a grid, on a cluster; `sips` are those of the cluster it may use, one a thread.

    The runtime sets `resume`. It is called with no lock held, from any OS thread, once for each PARKED that a task of
    this block returned, maybe before the step that parked has returned; a task is never handed out twice at a time.

    `shared` and `l2_top` belong to the kernel language. `threads` are KernelThreads, which stand on this file.
    """

    __slots__ = (
        "arrived", "at_grid", "cluster", "grid", "idle", "index", "l2_top", "left", "linear", "resume", "shared",
        "size", "threads",
    )  # fmt: skip

    def __init__(self, grid: Grid, linear: int, cluster: Cluster) -> None:
        self.grid = grid
        self.linear = linear
        self.index = grid.grid_dim.index(linear)
        self.cluster = cluster
        self.resume: Callable[[Any], None] = _no_resume
        self.shared: dict[Any, Any] = {}
        self.l2_top = 0
        self.size = grid.threads_per_block
        self.left = 0  # threads that have left the kernel
        self.threads: list[Any] = []
        # The two hottest waits of all are bare lists and no ParkingLots: everyone arrives, nobody gives up, and the
        # list of those who arrived becomes the list of those who run.
        self.arrived: list[Any] = []  # at the block barrier
        self.at_grid: list[Any] = []  # at the grid barrier
        self.idle = False

    def tasks(self) -> list[Task]:
        """Return what the runtime steps, each on one OS thread at a time, until it is DONE."""
        raise NotImplementedError

    def make_ready(self, threads: Iterable[Any]) -> bool:
        """Make parked threads runnable. The grid barrier's lock is held. Return whether `reschedule` must follow."""
        raise NotImplementedError

    def pass_grid_barrier(self) -> bool:
        """Make the threads at the grid barrier runnable. Locking and result as for `make_ready`."""
        threads, self.at_grid = self.at_grid, []
        return self.make_ready(threads)

    def arrive_at_grid(self) -> None:
        """Arrive at the grid barrier, now or before anything else is run: all threads stand there."""
        raise NotImplementedError  # each kind of block has its own way

    def cancel(self) -> bool:
        """Make every parked thread see that the grid has stopped. Locking and result as for `make_ready`."""
        raise NotImplementedError

    def reschedule(self) -> None:
        """Have the block stepped again."""
        raise NotImplementedError

    def open_barrier(self) -> None:
        """Make every thread at the block barrier runnable, in the order they arrived."""
        raise NotImplementedError

    def reach(self) -> Reach:
        """Return the farthest that any of its parked threads may be woken from."""
        farthest = Reach.GRID if self.at_grid else Reach.BLOCK
        for thread in self.threads:
            if thread.waiting is not None:
                farthest = max(farthest, thread.waiting.reach)
        return farthest

    def inward(self) -> bool:
        """Return whether only its own threads could wake those that are parked."""
        if self.at_grid:
            return False
        return all(thread.waiting is None or thread.waiting.reach is Reach.BLOCK for thread in self.threads)

    def running(self) -> list[Any]:
        """Return the threads that are being run at this moment."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<Block {self.index} of kernel {self.grid.name}: {self.size - self.left} of {self.size} threads>"
