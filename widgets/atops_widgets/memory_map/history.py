"""The lives of allocations, and what was in use at a moment: bytes of devices over time, L1 and L2 of a launch.

A life is one allocation, from its first change to its end. Pure functions and bookkeeping on columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import numpy as np

from atops.base.trace.records import Change, ThreadState
from atops_widgets.feed.columns import Column, Columns, union

__all__ = (
    "MOST_SAMPLES", "NEVER", "RECENT", "Curve", "History", "Scratch", "Standing", "Steps", "free_at", "largest_gap",
    "sampled_free", "scratch_at", "thin_steps",
)  # fmt: skip

NEVER: Final = np.iinfo(np.int64).max
GRANULE: Final = 256  # bytes that every architecture's allocator rounds up to
RECENT: Final = 64  # ranges that ended last, told of each device
MOST: Final = 600_000  # lives held; beyond it the older half of those that are over is forgotten

LIVES: Final[Mapping[str, str]] = {
    "device": "i2", "bank": "i2", "offset": "i8", "size": "i8", "generation": "i8", "born_ns": "i8", "died_ns": "i8",
    "renewed_ns": "i8", "site": "i4", "freed_site": "i4", "stream": "i4", "again": "b1", "kept": "b1",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Standing:
    """Rows of the table at one moment: the live ones, those freed and kept, and those freed just before."""

    live: Column
    kept: Column
    freed: Column


class History:
    """The lives of all allocations told of so far.

    `version` grows with what is read. `lost` counts changes that were gone before they were read, `forgotten` lives
    that no longer fit. `kept` marks a life whose end left the bytes set aside as they were: a pool has its range.
    """

    def __init__(self, most: int = MOST) -> None:
        self.version = 0
        self.lost = self.forgotten = 0
        self._most = most
        self._read = 0
        self._count = 0
        self._arrays = {field: np.empty(1024, kind) for field, kind in LIVES.items()}
        self._rows: dict[int, int] = {}  # by generation
        self._newest: dict[int, int] = {}  # by place, the row of the newest life that began there
        self._used: dict[int, int] = {}  # by device, after the last change
        self._now = np.zeros(0, np.int64)  # rows that are live, or kept and not renewed
        self._past = self._now  # of the others, those that ended last on each device

    def update(self, changes: Columns) -> None:
        """Read what is new in the changes of a feed."""
        first = max(self._read, changes.start)
        self.lost += first - self._read
        self._read = changes.start + len(changes)
        if first == self._read:
            return
        fresh = {field: changes[field][first - changes.start :] for field in changes.fields}
        known = self._count
        self._begin(fresh)
        self._end(fresh)
        self.version += 1
        if self._count > self._most:
            self._forget()
            known, self._now, self._past = 0, self._now[:0], self._past[:0]
        self._sort_out(np.append(self._now, np.arange(known, self._count)))

    def _sort_out(self, rows: Column) -> None:
        """Divide rows into those that stand now and those that are past; forget of these all but the newest."""
        gone = (self["died_ns"][rows] != NEVER) & ~(self["kept"][rows] & (self["renewed_ns"][rows] == NEVER))
        self._now = rows[~gone]
        past = np.append(self._past, rows[gone])
        past = past[np.lexsort((self["died_ns"][past], self["device"][past]))]
        device = self["device"][past]
        self._past = past[np.searchsorted(device, device, "right") - np.arange(len(past)) <= RECENT]

    def __getitem__(self, field: str) -> Column:
        return self._arrays[field][: self._count]

    def __len__(self) -> int:
        return self._count

    def row(self, generation: int) -> int:
        """Return the row of an allocation, -1 if it is not known."""
        return self._rows.get(generation, -1)

    def devices(self) -> list[int]:
        """Return the devices that anything was told of."""
        return sorted(self._used)

    def standing(self, device: int, at_ns: int | None, used: int, recent: int) -> Standing:
        """Return the lives of a device at a moment (None: now), when `used` bytes are set aside.

        `kept` are the newest ranges without an owner that account for what `used` has beyond the live ones; `freed`
        the `recent` last ones, at most RECENT, that ended before, and are not kept.
        """
        at, died = (NEVER - 1, self["died_ns"]) if at_ns is None else (at_ns, self["died_ns"])
        rows = np.append(self._past, self._now) if at_ns is None else np.arange(len(self))
        rows = rows[self["device"][rows] == device]
        live = np.sort(rows[(self["born_ns"][rows] <= at) & (died[rows] > at)])
        over = np.sort(rows[died[rows] <= at])
        waiting = over[self["kept"][over] & (self["renewed_ns"][over] > at)]
        waiting = waiting[np.argsort(-died[waiting], kind="stable")]
        slack = used - union(self["offset"][live], self.ends(live))
        kept = waiting[np.cumsum(self.ends(waiting) - self["offset"][waiting]) <= slack] if slack > 0 else waiting[:0]
        if recent == 0:
            return Standing(live, kept, over[:0])
        over = over[~np.isin(over, kept)]
        if len(over) > recent:
            over = over[np.argpartition(died[over], -recent)[-recent:]]
        return Standing(live, kept, over)

    def ends(self, rows: Column) -> Column:
        """Return where the ranges of rows end, in whole granules."""
        ended: Column = self["offset"][rows] + np.maximum(1, -(-self["size"][rows] // GRANULE)) * GRANULE
        return ended

    # ---- reading

    def _begin(self, fresh: Mapping[str, Column]) -> None:
        """Add a row for every allocation that is not known yet."""
        at = np.flatnonzero(fresh["change"] != Change.FREED)
        known = self._rows
        if known:
            at = at[np.fromiter((number not in known for number in fresh["generation"][at].tolist()), bool, len(at))]
        if len(at) == 0:
            return
        at = at[np.sort(np.unique(fresh["generation"][at], return_index=True)[1])]
        rows = np.arange(self._count, self._count + len(at))
        self._make_room(len(at))
        told = {field: fresh[field][at] for field in fresh if field in LIVES}
        told |= {
            "born_ns": fresh["at_ns"][at], "died_ns": np.full(len(at), NEVER), "renewed_ns": np.full(len(at), NEVER),
            "freed_site": np.full(len(at), -1), "again": fresh["change"][at] == Change.REUSED,
            "kept": np.zeros(len(at), bool),
        }  # fmt: skip
        for field, array in self._arrays.items():
            array[rows] = told[field]
        self._count += len(at)
        known.update(zip(told["generation"].tolist(), rows.tolist(), strict=True))
        self._renew(rows)

    def _renew(self, rows: Column) -> None:
        """Note of the lives that were the newest in their places that new ones have begun there."""
        places = self["offset"][rows] * 16 + self["device"][rows]
        order = np.argsort(places, kind="stable")
        places, rows = places[order], rows[order]
        opens = np.append(True, places[1:] != places[:-1])
        closes = np.append(opens[1:], True)
        born, renewed = self["born_ns"], self["renewed_ns"]
        renewed[rows[:-1][~closes[:-1]]] = born[rows[1:][~opens[1:]]]
        heads = rows[opens]
        old = np.fromiter(map(self._newest.get, places[opens].tolist(), repeat(-1)), np.int64, len(heads))
        renewed[old[old >= 0]] = born[heads[old >= 0]]
        self._newest.update(zip(places[closes].tolist(), rows[closes].tolist(), strict=True))

    def _end(self, fresh: Mapping[str, Column]) -> None:
        """Note the ends of lives, the lines that freed them, and whether their ranges stayed set aside."""
        stayed = self._stayed(fresh)
        at = np.flatnonzero(fresh["change"] == Change.FREED)[::-1]  # the first of several ends counts: written last
        numbers = fresh["generation"][at].tolist()
        rows = np.fromiter(map(self._rows.get, numbers, repeat(-1)), np.int64, len(at))
        at, rows = at[rows >= 0], rows[rows >= 0]
        open_ = self["died_ns"][rows] == NEVER
        at, rows = at[open_], rows[open_]
        self["died_ns"][rows] = fresh["at_ns"][at]
        self["freed_site"][rows] = fresh["site"][at]
        self["kept"][rows] = stayed[at]

    def _stayed(self, fresh: Mapping[str, Column]) -> Column:
        """Return which changes left the bytes that their device has set aside as they were."""
        stayed = np.zeros(len(fresh["device"]), bool)
        for device in np.unique(fresh["device"]).tolist():
            at = np.flatnonzero(fresh["device"] == device)
            used = fresh["used_bytes"][at]
            stayed[at] = used == np.append(self._used.get(device, -1), used[:-1])
            self._used[device] = int(used[-1])
        return stayed

    # ---- room

    def _make_room(self, count: int) -> None:
        if self._count + count > len(self._arrays["size"]):
            for field, array in self._arrays.items():
                grown = np.empty(2 * (self._count + count), array.dtype)
                grown[: self._count] = array[: self._count]
                self._arrays[field] = grown

    def _forget(self) -> None:
        """Forget the older half of the lives that are over."""
        over = np.flatnonzero(self["died_ns"] != NEVER)
        keep = np.ones(self._count, bool)
        keep[over[np.argsort(self["died_ns"][over], kind="stable")[: len(over) // 2]]] = False
        count = int(keep.sum())
        for array in self._arrays.values():
            array[:count] = array[: self._count][keep]
        self.forgotten += self._count - count
        self._count = count
        self._rows = dict(zip(self["generation"].tolist(), range(count), strict=True))
        places = (self["offset"] * 16 + self["device"]).tolist()
        self._newest = dict(zip(places, range(count), strict=True))


MOST_SAMPLES: Final = 120


@dataclass(frozen=True, slots=True)
class Steps:
    """A figure that holds from each moment until the next, in the order of time."""

    at_ns: Column
    value: Column

    @classmethod
    def of(cls, at_ns: Column, value: Column) -> Steps:
        """Return steps; a moment that comes too early, for two threads told at once, is put to the one before."""
        return cls(np.maximum.accumulate(at_ns) if len(at_ns) else at_ns, value)

    def at(self, at_ns: int | None) -> int:
        """Return the figure at a moment (None: now); 0 before the first."""
        place = len(self.at_ns) if at_ns is None else int(np.searchsorted(self.at_ns, at_ns, "right"))
        return int(self.value[place - 1]) if place else 0

    def among(self, moments: Column) -> Column:
        """Return the figures at moments; 0 before the first."""
        places = np.searchsorted(self.at_ns, moments, "right")
        return np.append(0, self.value)[places]

    def peak(self) -> tuple[int, int]:
        """Return the largest figure and when it was reached first; (0, 0) of nothing."""
        if len(self.value) == 0:
            return 0, 0
        at = int(np.argmax(self.value))
        return int(self.value[at]), int(self.at_ns[at])


@dataclass(frozen=True, slots=True)
class Curve:
    """Steps as they are drawn: in each pixel the lowest, the highest and the last figure."""

    low: Column
    high: Column
    last: Column


def thin_steps(steps: Steps, edges: Column) -> Curve:
    """Return the steps in pixels, of which these moments are the edges; every peak is kept."""
    bounds = np.searchsorted(steps.at_ns, edges, "left")
    value = np.append(steps.value, 0)  # so that a bound may stand behind the last
    before = np.where(bounds > 0, value[bounds - 1], 0)
    held, after = before[:-1], before[1:]
    some = bounds[1:] > bounds[:-1]
    high, low = held.copy(), held.copy()
    if some.any():
        # reduceat goes from each bound to the next one given: the bounds of empty pixels are left out.
        cuts = bounds[:-1][some]
        inside = value[: bounds[-1]]
        high[some] = np.maximum(held[some], np.maximum.reduceat(inside, cuts))
        low[some] = np.minimum(held[some], np.minimum.reduceat(inside, cuts))
    return Curve(low, high, after)


def largest_gap(starts: Column, stops: Column, first: int, last: int) -> int:
    """Return the longest run of bytes between two addresses that no range holds."""
    inside = (stops > first) & (starts < last)
    order = np.argsort(starts[inside], kind="stable")
    begins = np.append(starts[inside][order], last)
    reach = np.maximum.accumulate(np.append(first, stops[inside][order]))
    return max(0, int((begins - reach).max()))


def free_at(history: History, device: int, at_ns: int | None, used: int, capacity: int) -> int:
    """Return the largest free range of a device at a moment, when `used` of its `capacity` bytes are set aside."""
    standing = history.standing(device, at_ns, used, 0)
    rows = np.append(standing.live, standing.kept)
    return largest_gap(history["offset"][rows], history.ends(rows), 0, capacity)


def sampled_free(
    history: History, device: int, used: Steps, span: tuple[int, int], capacity: int, effort: int
) -> tuple[Column, Column]:
    """Return moments and the largest free range at each: as many as so many rows of `effort` allow, 4 to 120."""
    count = max(4, min(MOST_SAMPLES, effort // max(1, len(history))))
    moments = np.unique(np.linspace(span[0], span[1], count).astype(np.int64))
    found = [free_at(history, device, at, used.at(at), capacity) for at in moments.tolist()]
    return moments, np.array(found, np.int64)


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
