"""The barrier of a grid, or of several that run as one on one device or more, and what it counts to find deadlocks.

It counts the blocks that are quiet: done, or idle because all their threads that are left are parked. When all are
quiet and nothing outside can wake a thread, none will ever run again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from atops.base.errors import IllegalState

if TYPE_CHECKING:
    from atops.device.exec.block import Block
    from atops.device.exec.grid import Grid
    from atops.device.exec.thread import KernelThread

__all__ = ("GridBarrier", "Reach")


class Reach(IntEnum):
    """From how far away a parked thread may be woken."""

    BLOCK = 0  # only by a thread of its own block
    GRID = 1  # by any thread of the grids that share its barrier
    OUTSIDE = 2  # by the host or any other kernel


class GridBarrier:
    """The barrier of `grids` grids. Every grid must have been built with it before a thread of one arrives.

    `lock` is a re-entrant leaf: blocks are rescheduled, and the ends of grids reported, after it was released.
    """

    __slots__ = ("arrived", "expected", "grids", "joined", "lock", "quiet", "total")

    def __init__(self, grids: int = 1, only: Grid | None = None, blocks: int = 0) -> None:
        """Make a barrier of so many grids. A single one can be given here, with its number of blocks."""
        self.expected = grids
        self.joined = 0 if only is None else 1
        self.grids: list[Grid] = [] if only is None else [only]  # until the last of them is over
        self.lock = threading.RLock()
        self.total = blocks  # of all the grids
        self.quiet = 0  # of them idle or done
        self.arrived: list[Block] = []

    def join(self, grid: Grid, blocks: int) -> None:
        """Take in a grid of so many blocks. Raises IllegalState when all the grids are there already."""
        with self.lock:
            if self.joined == self.expected:
                raise IllegalState(f"a grid barrier made for {self.expected} grids was given one more")
            self.joined += 1
            self.grids.append(grid)
            self.total += blocks

    def arrive(self, block: Block) -> bool:
        """Note that every thread of `block` is at the barrier; the last block releases the threads of all the others.

        Returns True for the last block: its own threads are for the caller to run.
        """
        with self.lock:
            others = self.arrived
            if len(others) + 1 < self.total or self.joined < self.expected:
                others.append(block)
                return False
            self.arrived = []
            woken = [each for each in others if each.pass_grid_barrier()]
        for each in woken:
            each.reschedule()
        return True

    def wake(self, threads: Iterable[KernelThread]) -> None:
        """Make parked threads of any of the grids runnable. Safe from any OS thread; hold no lock."""
        with self.lock:
            woken = [thread.block for thread in threads if thread.block.make_ready((thread,))]
        for block in woken:
            block.reschedule()

    def note_idle(self, block: Block) -> bool:
        """Note that all threads of `block` are parked. Return whether no grid can go on. The lock is held."""
        block.idle = True
        self.quiet = quiet = self.quiet + 1
        return quiet >= self.total and self.stuck()

    def note_busy(self, block: Block) -> None:
        """Note that a block is idle no more. The lock is held."""
        block.idle = False
        self.quiet -= 1

    def stuck(self) -> bool:
        """Return whether threads are parked and nothing will ever wake one. The lock is held."""
        if self.quiet < self.total or self.joined < self.expected:
            return False
        waiting = [block.reach() for grid in self.grids for block in grid.blocks.values()]
        return bool(waiting) and max(waiting) is not Reach.OUTSIDE

    def release(self) -> None:
        """Drop the references to the grids, which refer to this barrier, when all are over. The lock is held."""
        if self.joined == self.expected:
            for grid in self.grids:
                if grid.remaining:
                    return
            self.grids = []

    def __repr__(self) -> str:
        return f"<GridBarrier: {len(self.arrived)} of {self.total} blocks arrived>"
