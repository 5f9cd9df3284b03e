"""When threads met: after which steps of a launch the last thread that a barrier waited for had arrived.

A barrier opened where a thread that had arrived leaves it, so the number of its threads is not needed. Pure numpy.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from atops.base.trace.records import ThreadState
from atops_widgets.feed.columns import Column

__all__ = ("FOREVER", "Meetings", "barrier_keys")

BARRIERS = (ThreadState.BARRIER, ThreadState.GRID_BARRIER, ThreadState.COUNTED_BARRIER)
NONE = -1
FOREVER: Final = 1 << 40  # above every position


def barrier_keys(turn: Column, on: Column) -> Column:
    """Return a number for the barrier that each step arrives at, the same for the same barrier; -1 for other steps."""
    keys: Column = np.where(np.isin(turn, BARRIERS), turn.astype(np.int64) * FOREVER + on.astype(np.int64) + 1, NONE)
    return keys


class Meetings:
    """The meetings of one launch. `sites` are the places where its threads stood."""

    def __init__(self) -> None:
        self.sites: set[int] = set()
        self._found = np.zeros(0, np.int64)  # how many steps had been taken when all had arrived, ascending
        self._of = self._met = self._found  # the same in the order found, and the barrier of each
        self._at = np.zeros(0, np.int64)  # by thread: the barrier that it stands at, NONE for none
        self._step = np.zeros(0, np.int64)  # by thread: its last step
        self._arrived: dict[int, int] = {}  # by barrier: the last arrival, of those that did not open yet
        self._opened: dict[int, int] = {}  # by barrier: its last meeting

    def __len__(self) -> int:
        return len(self._found)

    def all(self) -> Column:
        """Return all positions, ascending."""
        return self._found

    def after(self, position: int) -> int | None:
        """Return the next position after this one at which a barrier was complete, None where there is none."""
        at = int(np.searchsorted(self._found, position, side="right"))
        return int(self._found[at]) if at < len(self._found) else None

    def opens(self, keys: Column, arrived: Column) -> Column:
        """Return at which position the barrier opened that a thread arrived at by step `arrived`; FOREVER: not yet."""
        known, inverse = np.unique(np.append(keys, self._of), return_inverse=True)
        waiting, meeting = inverse[: len(keys)], inverse[len(keys) :]
        order = np.lexsort((self._met, meeting))
        codes = np.append(meeting[order] * FOREVER + self._met[order], len(known) * FOREVER)
        found = codes[np.searchsorted(codes, waiting * FOREVER + arrived, side="right")]
        opens: Column = np.where(found // FOREVER == waiting, found % FOREVER, FOREVER)
        return opens

    def before(self, position: int) -> int | None:
        """Return the last such position before this one, None where there is none."""
        at = int(np.searchsorted(self._found, position, side="left"))
        return int(self._found[at - 1]) if at else None

    def take(self, first: int, ranks: Column, turn: Column, on: Column, site: Column) -> None:
        """Take steps `first` and following: whose they are (as places among the threads), and what they tell."""
        self.sites.update(np.unique(site[site >= 0]).tolist())
        most = int(ranks.max()) + 1 - len(self._at)
        if most > 0:
            self._at, self._step = (np.append(each, np.full(most, NONE)) for each in (self._at, self._step))
        barrier = barrier_keys(turn, on)
        positions = np.arange(first, first + len(ranks))
        before, since = self._before(ranks, barrier, positions)
        arrives, leaves = barrier != NONE, (before != NONE) & (turn == ThreadState.RUNS)
        carried = np.array(list(self._arrived.items()), np.int64).reshape(-1, 2)
        key = np.concatenate([carried[:, 0], barrier[arrives], before[leaves]])
        step = np.concatenate([carried[:, 1], positions[arrives], positions[leaves]])
        waits = np.concatenate([np.full(len(key) - int(leaves.sum()), NONE), since[leaves]])  # NONE: it arrives
        order = np.lexsort((step, key))
        self._meet(key[order], step[order], waits[order])

    def _meet(self, key: Column, step: Column, since: Column) -> None:
        """Find meetings in the arrivals (`since` is NONE) and leavings of each barrier, in their order."""
        arrives = since == NONE
        same = key[1:] == key[:-1]
        found = []
        candidates = np.flatnonzero(same & arrives[:-1] & ~arrives[1:])
        for barrier, at, arrived in zip(
            key[candidates].tolist(), step[candidates].tolist(), since[candidates + 1].tolist(), strict=True
        ):
            # One that leaves late, when others are back already, leaves a meeting that is known.
            if self._opened.get(barrier, 0) <= arrived:
                self._opened[barrier] = at + 1
                found.append((barrier, at + 1))
        if found:
            fresh = np.array(found, np.int64)
            self._of, self._met = np.append(self._of, fresh[:, 0]), np.append(self._met, fresh[:, 1])
            self._found = np.union1d(self._found, fresh[:, 1])
        final = np.append(~same, np.ones(min(1, len(key)), bool)) & arrives
        self._arrived = dict(zip(key[final].tolist(), step[final].tolist(), strict=True))

    def _before(self, ranks: Column, barrier: Column, positions: Column) -> tuple[Column, Column]:
        """Return the barrier that each step's thread stood at before, and since which step; remember the last ones."""
        order = np.argsort(ranks, kind="stable")
        thread = ranks[order]
        same = np.append(np.zeros(min(1, len(thread)), bool), thread[1:] == thread[:-1])
        results = []
        for held, values in ((self._at, barrier), (self._step, positions)):
            result = np.empty(len(ranks), np.int64)
            result[order] = np.where(same, np.roll(values[order], 1), held[thread])
            held[ranks] = values
            results.append(result)
        return results[0], results[1]
