"""Python's cycle collector during an inline run: after fixed numbers of steps, so that what it frees replays.

A run gives the collector's settings back when it ends, and leaves alone what the program has set itself.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from atops.base.locks import fork_safe

__all__ = ("COLLECT", "MOST_OBJECTS", "OLDER", "collect", "collecting_by_steps", "setting_aside")

# Steps between two collections of the youngest objects. One of ten collects older ones, too; not so from Python 3.14
# on, where that is a share of all that the process has made before. One of five hundred collects all.
COLLECT = 200
OLDER = 1 if sys.version_info < (3, 14) else 0
# In a run no collection comes by itself before a step has made so many objects: some hundred megabytes.
MOST_OBJECTS = 5_000_000


def collect(generation: int) -> None:
    """Have the collector run, unless the program has it off."""
    if gc.isenabled() and gc.get_threshold()[0]:
        gc.collect(generation)


RUNS: list[tuple[int, int, int]] = []  # of each run that goes on, when Python collected by itself before it
RUNS_LOCK = fork_safe(threading.Lock())


@contextmanager
def collecting_by_steps() -> Iterator[None]:
    """Have the collector run where the executor's steps say, for the block, and not after so many new objects.

    How many there are depends on what the process did before. What the collector frees must not: a seed repeats a run.
    """
    ours = (MOST_OBJECTS, 10, 10)
    with RUNS_LOCK:
        RUNS.append(RUNS[0] if RUNS else gc.get_threshold())
        if RUNS[0][0]:  # else the program has it off
            gc.set_threshold(*ours)
    try:
        yield
    finally:
        with RUNS_LOCK:
            before = RUNS.pop()
            if not RUNS and gc.get_threshold() == ours:  # else the program has set its own
                gc.set_threshold(*before)


_ASIDE = [0]  # blocks of `setting_aside` that go on and have something set aside


@contextmanager
def setting_aside() -> Iterator[None]:
    """For the block, have the collector leave out what there is already, which it has just gone through.

    Where the program has set something aside itself (gc.freeze), nothing more is.
    """
    with RUNS_LOCK:
        ours = bool(_ASIDE[0]) or (not gc.get_freeze_count() and gc.isenabled())
        if ours:
            _ASIDE[0] += 1
            if _ASIDE[0] == 1:
                gc.freeze()
    try:
        yield
    finally:
        with RUNS_LOCK:
            if ours:
                _ASIDE[0] -= 1
                if not _ASIDE[0]:
                    gc.unfreeze()
