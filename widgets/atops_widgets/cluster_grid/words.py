"""The waits of a launch in words: for each barrier the threads there, those missing, and those that never come.

Pure functions of how its threads stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from atops.base.trace.records import ThreadState
from atops_widgets.cluster_grid.history import NOT_BEGUN, NOT_KNOWN, OVER, RELEASED, WAITING, Standing
from atops_widgets.feed.columns import Column

__all__ = ("STATES", "Wait", "counts", "does", "numbers", "stuck", "waits")

Places: TypeAlias = Callable[[int], str]  # a site in words, "reduce.py:31"

STATES: Final = {  # by turn: letter, and what a thread is, as in "3 running"
    int(ThreadState.RUNS): ("R", "running"),
    int(ThreadState.BARRIER): ("B", "at their block's barrier"),
    int(ThreadState.GRID_BARRIER): ("G", "at the grid's barrier"),
    int(ThreadState.COUNTED_BARRIER): ("C", "at counted barriers"),
    int(ThreadState.DTE): ("D", "waiting for DTE"),
    int(ThreadState.SIGNAL): ("S", "waiting for signals"),
    int(ThreadState.ENDED): ("E", "ended"),
    int(ThreadState.FAILED): ("!", "failed"),
    NOT_BEGUN: ("·", "not begun"),
    NOT_KNOWN: ("?", "not known any more"),
    RELEASED: ("r", "let go by a barrier"),
}
MOST_WAITS: Final = 24  # told one by one; blocks that stand alike are one
MOST_BLOCKS: Final = 256  # looked into, of those whose threads stand at a barrier
MOST_NAMED: Final = 64  # threads of one block
_OVER: Final = frozenset(int(turn) for turn in OVER)
AT: Final = {
    int(ThreadState.BARRIER): "syncthreads",
    int(ThreadState.GRID_BARRIER): "syncblocks",
    int(ThreadState.COUNTED_BARRIER): "counted barrier",
    int(ThreadState.DTE): "DTE transfer",
    int(ThreadState.SIGNAL): "signal",
}


@dataclass(frozen=True, slots=True)
class Wait:
    """Some threads that wait: `threads` at `what`, for `missing`. `never`: one of those will not come any more.

    `open`: none is missing. `apart`: they stand at different lines of one barrier.
    """

    threads: str
    what: str
    missing: str
    never: bool = False
    open: bool = False
    apart: bool = False

    @property
    def hope(self) -> str:
        """The outcome to expect, in words."""
        if self.open:
            return "all have arrived, it opens"
        return "will never come: it cannot open" if self.never else "may still come"


def counts(standing: Standing) -> dict[int, int]:
    """Return how many threads are in each state that any is in."""
    turns, found = np.unique(standing.turn, return_counts=True)
    return dict(zip(turns.tolist(), found.tolist(), strict=True))


def does(turn: int, on: int, place: str) -> str:
    """Return what one thread does: "waiting at syncthreads, reduce.py:31"."""
    where = f", {place}" if place else ""
    if turn in (ThreadState.BARRIER, ThreadState.GRID_BARRIER):
        return f"waiting at {AT[turn]}{where}"
    if turn in WAITING:
        return f"waiting for {AT[turn]} {on}{where}"
    if turn == ThreadState.RUNS:
        return f"running from {place}" if place else "running from the start"
    return STATES[turn][1] + (where if turn == ThreadState.FAILED else "")


def numbers(noun: str, which: Sequence[int]) -> str:
    """Return "thread 3" or "threads 0-3, 7"."""
    runs: list[list[int]] = []
    for number in which:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    text = ", ".join("-".join(map(str, run)) for run in runs[:8]) + (" and more" if len(runs) > 8 else "")
    return f"{noun} {text}" if len(which) == 1 else f"{noun}s {text}"


def waits(standing: Standing, place: Places) -> list[Wait]:
    """Return the waits, those that can never end first; at most MOST_WAITS. Waits for DTE end by themselves."""
    found = _block_waits(standing, place)
    turn = standing.turn
    if (turn == ThreadState.GRID_BARRIER).any():
        found.append(_grid_wait(standing, place))
    for kind, until in ((ThreadState.COUNTED_BARRIER, "more arrivals"), (ThreadState.SIGNAL, "a write to it")):
        for on in np.unique(standing.on[turn == kind]).tolist()[:MOST_WAITS]:
            here = np.flatnonzero((turn == kind) & (standing.on == on))
            what = f"{AT[int(kind)]} {on}{_lines(standing, here, place)[0]}"
            found.append(Wait(_threads(standing, here), what, until))
    found.sort(key=lambda wait: (not wait.never, not wait.apart, wait.open))
    return found[:MOST_WAITS]


def stuck(standing: Standing, found: Sequence[Wait]) -> bool:
    """Return whether no thread can go on: some wait, none runs or waits for DTE, and no barrier is complete."""
    turn = standing.turn
    free = np.isin(turn, (ThreadState.RUNS, ThreadState.DTE, NOT_BEGUN, NOT_KNOWN, RELEASED)).any()
    return bool(found) and not free and not any(wait.open for wait in found)


def _block_waits(standing: Standing, place: Places) -> list[Wait]:
    """Return the waits at the barriers of blocks; blocks that stand alike are one."""
    order = np.argsort(standing.block, kind="stable")
    blocks = np.unique(standing.block[standing.turn == ThreadState.BARRIER])[:MOST_BLOCKS]
    first, last = (np.searchsorted(standing.block[order], blocks, side=side) for side in ("left", "right"))
    alike: dict[tuple[str, Wait], list[int]] = {}
    for block, begin, end in zip(blocks.tolist(), first.tolist(), last.tolist(), strict=True):
        own = order[begin:end]
        turns = standing.turn[own]
        here, away = own[turns == ThreadState.BARRIER], own[turns != ThreadState.BARRIER]
        lines, apart = _lines(standing, here, place)
        never = not _OVER.isdisjoint(standing.turn[away].tolist())
        what = f"syncthreads{lines}{' (divergent: several lines)' if apart else ''}"
        missing = _missing(standing, away, place) or "none"
        threads = numbers("thread", sorted(standing.thread[here].tolist()))
        alike.setdefault((threads, Wait("", what, missing, never, not len(away), apart)), []).append(block)
    return [replace(wait, threads=f"{numbers('block', which)}: {threads}") for (threads, wait), which in alike.items()]


def _grid_wait(standing: Standing, place: Places) -> Wait:
    here = np.flatnonzero(standing.turn == ThreadState.GRID_BARRIER)
    turns, count = np.unique(standing.turn[standing.turn != ThreadState.GRID_BARRIER], return_counts=True)
    missing = ", ".join(f"{each} {STATES[turn][1]}" for turn, each in zip(turns.tolist(), count.tolist(), strict=True))
    never = not _OVER.isdisjoint(turns.tolist())
    lines, _ = _lines(standing, here, place)
    return Wait(_threads(standing, here), f"syncblocks{lines}", missing or "none", never, not len(turns))


def _missing(standing: Standing, away: Column, place: Places) -> str:
    """Return which of these threads of a block are missing at its barrier, and what each does meanwhile."""
    groups: dict[str, list[int]] = {}
    for at in away[:MOST_NAMED].tolist():
        where = place(int(standing.site[at]))
        what = STATES[int(standing.turn[at])][1] + (f", {where}" if where else "")
        groups.setdefault(what, []).append(int(standing.thread[at]))
    return "; ".join(f"{numbers('thread', sorted(which))} ({what})" for what, which in groups.items())


def _lines(standing: Standing, here: Column, place: Places) -> tuple[str, bool]:
    """Return where these threads stand, as ", reduce.py:31", and whether that are several places."""
    known = list(dict.fromkeys(where for site in sorted({*standing.site[here].tolist()}) if (where := place(site))))
    return "".join(f", {each}" for each in known[:3]) + (" and more" if len(known) > 3 else ""), len(known) > 1


def _threads(standing: Standing, here: Column) -> str:
    blocks = np.unique(standing.block[here]).tolist()
    if len(blocks) == 1:
        return f"block {blocks[0]}: {numbers('thread', sorted(standing.thread[here].tolist()))}"
    return f"{len(here)} threads of {numbers('block', blocks)}"
