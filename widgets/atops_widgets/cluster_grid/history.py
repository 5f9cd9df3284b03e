"""The launches that were traced in detail, what the threads of one do after any number of its steps, and when they met.

A state is found quickly among a million steps: every 65,536 steps it keeps the last step of each thread, and goes on
from there. A barrier opened where a thread that had arrived leaves it, so the number of its threads is not needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from atops.base.trace.records import ThreadState
from atops_widgets.feed.columns import Column, Columns
from atops_widgets.feed.feed import Feed

__all__ = (
    "NOT_BEGUN", "NOT_KNOWN", "OVER", "RELEASED", "WAITING", "History", "Launches", "Meetings", "Standing",
    "barrier_keys",
)  # fmt: skip

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
        """Take step `first` and the following: the place of each step's thread, and what it did."""
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


NOT_BEGUN: Final = 8  # beside the numbers of `ThreadState`: a thread that has taken no step yet
NOT_KNOWN: Final = 9  # its last step was dropped by the table
RELEASED: Final = 10  # its barrier has opened, and it did not run on yet
WAITING: Final = (
    ThreadState.BARRIER, ThreadState.GRID_BARRIER, ThreadState.COUNTED_BARRIER, ThreadState.DTE, ThreadState.SIGNAL
)  # fmt: skip
OVER: Final = (ThreadState.ENDED, ThreadState.FAILED)
CHUNK: Final = 65_536  # steps from one checkpoint to the next
BLOCK: Final = 1 << 32  # in the key of a thread: its block, before its number


@dataclass(frozen=True, slots=True)
class Standing:
    """The threads of a launch at a moment, in the order of clusters, blocks and threads; one value for each.

    `turn` is what it does: a Turn, NOT_BEGUN, NOT_KNOWN or RELEASED. `on`, `site`, `l1_bytes` and `l2_bytes` are those
    of its last step; `opens` is the position at which the barrier opens that it stands at, if ever. All threads that
    took a step in the whole launch are there, so that cells keep their places.
    """

    block: Column
    thread: Column
    cluster: Column
    turn: Column
    on: Column
    site: Column
    l1_bytes: Column
    l2_bytes: Column
    opens: Column


class History:
    """The steps of launch `launch` among those of a feed: `update`, then `at` any number of them."""

    def __init__(self, launch: int) -> None:
        self.launch = launch
        self.count = 0  # steps told, those that were dropped since too
        self.failed_at = -1  # how many steps were taken before the first thread failed; -1: none did
        self.meetings = Meetings()
        self._scanned = 0  # rows of the feed that were looked at, counted from the first one ever
        self._rows = np.zeros(1024, np.int64)  # by step: its row in the feed, counted from the first one ever
        self._ranks = np.zeros(1024, np.int32)  # by step: the place of its thread in these
        self._keys = self._cluster = self._last = np.zeros(0, np.int64)
        self._sorted = self._order = self._keys
        self._checkpoints: list[Column] = []  # before step n * CHUNK: by thread its last step, -1 for none

    @property
    def threads(self) -> int:
        """The number of threads that took a step."""
        return len(self._keys)

    @property
    def sites(self) -> set[int]:
        """Every place where a thread stood when it waited or failed."""
        return self.meetings.sites

    def update(self, steps: Columns) -> None:
        """Take what is new in the feed's table of steps."""
        begin, end = max(self._scanned, steps.start) - steps.start, len(steps)
        self._scanned = steps.start + end
        found = np.flatnonzero(steps["launch"][begin:end] == self.launch) + begin
        while len(found):
            room = CHUNK - self.count % CHUNK
            self._take(steps, found[:room])
            found = found[room:]

    def at(self, position: int, steps: Columns) -> Standing:
        """Return how the threads stand after the first `position` steps, 0 to `count`."""
        position = max(0, min(position, self.count))
        kept = min(position // CHUNK, len(self._checkpoints) - 1)
        last = np.full(self.threads, -1, np.int64)
        if kept >= 0:
            known = self._checkpoints[kept]
            last[: len(known)] = known
            last[self._ranks[kept * CHUNK : position]] = np.arange(kept * CHUNK, position)
        order = np.lexsort((self._keys, self._cluster))
        taken = last[order]
        rows = self._rows[np.maximum(taken, 0)] - steps.start
        begun, held = taken >= 0, (taken >= 0) & (rows >= 0)
        own = np.where(held, rows, 0)
        turn = np.where(held, self._told(steps, "turn", own, 0), np.where(begun, NOT_KNOWN, NOT_BEGUN))
        told = {
            field: np.where(held, self._told(steps, field, own, none), none)
            for field, none in (("on", -1), ("site", -1), ("l1_bytes", 0), ("l2_bytes", 0))
        }
        block = (self._keys[order] + 1) // BLOCK
        opens = self.meetings.opens(barrier_keys(turn, told["on"]), taken)
        turn = np.where(opens <= position, RELEASED, turn)
        return Standing(block, self._keys[order] - block * BLOCK, self._cluster[order], turn, **told, opens=opens)

    def rows(self, first: int) -> Column:
        """Return the rows of the steps from `first` on, counted from the feed's first one ever."""
        return self._rows[first : self.count]

    def opens(self, steps: Columns, first: int) -> Column:
        """Return for each step from `first` on at which position the barrier opens that it arrives at, if ever."""
        held = np.maximum(self.rows(first) - steps.start, 0)
        keys = barrier_keys(self._told(steps, "turn", held, 0), self._told(steps, "on", held, -1))
        return self.meetings.opens(keys, np.arange(first, self.count))

    def step(self, position: int, steps: Columns) -> int:
        """Return the row in the table, as it is now, of the step that led to a position; -1 for none or dropped."""
        if not 0 < position <= self.count:
            return -1
        return max(-1, int(self._rows[position - 1]) - steps.start)

    def until(self, at_ns: int, steps: Columns) -> int:
        """Return how many steps were taken up to a moment; what was dropped was before it."""
        rows = self._rows[: self.count] - steps.start
        dropped = int(np.searchsorted(rows, 0))
        told = np.maximum.accumulate(steps["at_ns"][rows[dropped:]])  # a virtual clock gives each thread its own time
        return dropped + int(np.searchsorted(told, at_ns, side="right"))

    @staticmethod
    def _told(steps: Columns, field: str, rows: Column, none: int) -> Column:
        return steps[field][rows].astype(np.int64) if len(steps) else np.full(len(rows), none, np.int64)

    def _take(self, steps: Columns, rows: Column) -> None:
        """Add steps that all lie before the next checkpoint."""
        count, first = len(rows), self.count
        ranks = self._ranks_of(steps, rows)
        if first % CHUNK == 0:
            self._checkpoints.append(self._last.copy())
        while first + count > len(self._rows):
            self._rows, self._ranks = np.tile(self._rows, 2), np.tile(self._ranks, 2)
        self._rows[first : first + count] = rows + steps.start
        self._ranks[first : first + count] = ranks
        turn, on = steps["turn"][rows], steps["on"][rows]
        if self.failed_at < 0 and (turn == ThreadState.FAILED).any():
            self.failed_at = first + int(np.argmax(turn == ThreadState.FAILED))
        self.meetings.take(first, ranks, turn, on, steps["site"][rows])
        self._last[ranks] = np.arange(first, first + count)  # of several steps of a thread the last one stays
        self.count += count

    def _ranks_of(self, steps: Columns, rows: Column) -> Column:
        """Return the place of each step's thread among the threads; new ones are added."""
        keys = steps["block"][rows].astype(np.int64) * BLOCK + steps["thread"][rows]
        fresh, first = np.unique(keys, return_index=True)
        new = ~np.isin(fresh, self._sorted)
        if new.any():
            self._keys = np.concatenate([self._keys, fresh[new]])
            self._cluster = np.concatenate([self._cluster, steps["cluster"][rows[first[new]]].astype(np.int64)])
            self._last = np.concatenate([self._last, np.full(int(new.sum()), -1)])
            self._order = np.argsort(self._keys)
            self._sorted = self._keys[self._order]
        return self._order[np.searchsorted(self._sorted, keys)]


MOST_LAUNCHES: Final = 200  # in the selector; the newest


class Launches:
    """The launches of one feed that have steps, in the order of their first one."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self._steps: dict[int, int] = {}  # by seq: how many
        self._names: dict[int, str] = {}
        self._scanned = 0

    def update(self) -> None:
        """Take the feed's new steps."""
        steps = self.feed.steps
        begin = max(0, self._scanned - steps.start)
        self._scanned = steps.start + len(steps)
        seqs, first, counts = np.unique(steps["launch"][begin:], return_index=True, return_counts=True)
        order = np.argsort(first)
        for seq, count in zip(seqs[order].tolist(), counts[order].tolist(), strict=True):
            self._steps[seq] = self._steps.get(seq, 0) + count

    def __contains__(self, seq: int) -> bool:
        return seq in self._steps

    def newest(self) -> int:
        """Return the launch whose first step came last, -1 where there is none."""
        return next(reversed(self._steps), -1)

    def choices(self, shown: int) -> list[list[object]]:
        """Return seq and words of the newest launches and of the one shown, the newest first."""
        seqs = list(self._steps)[-MOST_LAUNCHES:]
        seqs = seqs if shown in seqs or shown not in self._steps else [shown, *seqs]
        return [[seq, f"{seq}: {self.title(seq)}, {self._steps[seq]:,} steps"] for seq in reversed(seqs)]

    def title(self, seq: int) -> str:
        """Return the kernel's name, "kernel" where it is not known."""
        if not self._names.get(seq):
            table, row = self.feed.told_of(seq)
            if row < 0:
                return "kernel"
            self._names[seq] = self.feed.texts.all[int(table["name"][row])]
        return self._names[seq] or "kernel"
