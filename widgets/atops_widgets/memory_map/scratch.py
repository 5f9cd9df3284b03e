"""What the threads and blocks of a kernel have of L1 and L2 at a moment, from the steps of a launch.

Pure functions of columns; they know no page.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from atops.base.trace.records import ThreadState
from atops_widgets.feed.columns import Column, Columns

__all__ = ("Scratch", "scratch_at")

OVER = (int(ThreadState.ENDED), int(ThreadState.FAILED))


@dataclass(frozen=True, slots=True)
class Scratch:
    """A launch at a moment: a row for each of its threads that has begun, in the order of blocks.

    `l1_bytes` is the thread's own, `l2_bytes` its block's; `over` tells threads that have ended.
    """

    launch: int
    block: Column
    thread: Column
    l1_bytes: Column
    l2_bytes: Column
    over: Column

    def blocks(self) -> tuple[Column, Column]:
        """Return the blocks and the bytes that each has of L2: the most that the newest steps of its threads tell."""
        numbers, first = np.unique(self.block, return_index=True)
        return numbers, np.maximum.reduceat(self.l2_bytes, first) if len(first) else self.l2_bytes


def scratch_at(steps: Columns, at_ns: int | None, chosen: int = -1) -> Scratch | None:
    """Return what a launch has at a moment (None: now); of `chosen` if it has steps, else of the last that took one.

    None if no thread had taken a step by then.
    """
    told = steps["at_ns"]
    past = np.flatnonzero(told <= at_ns) if at_ns is not None else np.arange(len(told))
    if len(past) == 0:
        return None
    launches = steps["launch"]
    launch = chosen if chosen >= 0 and (launches[past] == chosen).any() else int(launches[past[np.argmax(told[past])]])
    rows = past[launches[past] == launch]
    rows = rows[np.argsort(told[rows], kind="stable")][::-1]
    key = steps["block"][rows].astype(np.int64) << 32 | steps["thread"][rows]
    rows = rows[np.unique(key, return_index=True)[1]]  # of each thread the newest, in the order of blocks
    block, thread, l1, l2 = (steps[field][rows] for field in ("block", "thread", "l1_bytes", "l2_bytes"))
    return Scratch(launch, block, thread, l1, l2, np.isin(steps["turn"][rows], OVER))
