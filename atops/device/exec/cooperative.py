"""The grids that run as one, on one device or several: their barrier, their wake-ups, and whether any can go on.

It counts blocks that are quiet: done, or idle because every thread they have left is parked. When all are quiet and
nothing outside can wake a thread, none will ever run again. It knows blocks and threads only as what it counts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Protocol

from atops.base.errors import ExecutionError, IllegalState

__all__ = ("BarrierBlock", "BarrierGrid", "GridBarrier", "Reach")


class Reach(IntEnum):
    """From how far away a parked thread may be woken."""

    BLOCK = 0  # only by a thread of its own block
    GRID = 1  # by any thread of the grids that share its barrier
    OUTSIDE = 2  # by the host or any other kernel


class BarrierBlock(Protocol):
    """A block as its barrier sees it. `idle` changes under the barrier's lock only."""

    idle: bool

    def make_ready(self, threads: Iterable[Any]) -> bool:
        """Make parked threads runnable, with the lock held. Return whether the block must be woken after it."""

    def pass_grid_barrier(self) -> bool:
        """Make the threads at the grid barrier runnable. Locking and result as for `make_ready`."""

    def reschedule(self) -> None:
        """Have the block stepped again. No lock is held."""

    def reach(self) -> Reach:
        """Return the farthest that any of its parked threads may be woken from."""


class BarrierGrid(Protocol):
    """A grid as its barrier sees it: the blocks that are placed and not done."""

    @property
    def blocks(self) -> Mapping[int, Any]:
        """The blocks, by their position in the grid."""

    @property
    def remaining(self) -> int:
        """How many of its blocks are not over."""

    def stop(self, error: ExecutionError) -> None:
        """Close every thread; the first error stays."""


class GridBarrier:
    """The barrier of `grids` grids. Every grid must have been built with it before a thread of one arrives.

    `lock` is a re-entrant leaf: what stirs a block or reports an end is called after it was released.
    """

    __slots__ = ("arrived", "expected", "grids", "joined", "lock", "quiet", "total")

    def __init__(self, grids: int = 1, only: BarrierGrid | None = None, blocks: int = 0) -> None:
        """Make a barrier of so many grids. Where it has but one, that can be given here, with its blocks."""
        self.expected = grids
        self.joined = 0 if only is None else 1
        self.grids: list[BarrierGrid] = [] if only is None else [only]  # until the last of them is over
        self.lock = threading.RLock()
        self.total = blocks  # of all the grids
        self.quiet = 0  # of them idle or done
        self.arrived: list[BarrierBlock] = []

    def join(self, grid: BarrierGrid, blocks: int) -> None:
        """Take in a grid of so many blocks. Raises IllegalState when all the grids are there already."""
        with self.lock:
            if self.joined == self.expected:
                raise IllegalState(f"a grid barrier made for {self.expected} grids was given one more")
            self.joined += 1
            self.grids.append(grid)
            self.total += blocks

    def arrive(self, block: BarrierBlock) -> bool:
        """Note that every thread of `block` stands at the barrier; the last block releases those of all the others.

        Returns True for the last, whose own threads are for the caller to run.
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

    def wake(self, threads: Iterable[Any]) -> None:
        """Make parked threads of any of the grids runnable. Safe from any OS thread; hold no lock."""
        with self.lock:
            woken = [thread.block for thread in threads if thread.block.make_ready((thread,))]
        for block in woken:
            block.reschedule()

    def note_idle(self, block: BarrierBlock) -> bool:
        """Note that all threads of `block` are parked. Return whether no grid can go on. The lock is held."""
        block.idle = True
        self.quiet = quiet = self.quiet + 1
        return quiet >= self.total and self.stuck()

    def note_busy(self, block: BarrierBlock) -> None:
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
        """Let go of the grids, which hold this barrier, when all of them are over. The lock is held."""
        if self.joined == self.expected:
            for grid in self.grids:
                if grid.remaining:
                    return
            self.grids = []

    def __repr__(self) -> str:
        return f"<GridBarrier: {len(self.arrived)} of {self.total} blocks arrived>"
