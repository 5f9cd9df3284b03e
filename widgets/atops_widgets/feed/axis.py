"""The one axis of time of all widgets of a feed: from when to when, and where a long idle time is folded.

A gap is folded if it is at least as long as all that is left beside such gaps. What is left of it is as wide as a small
part of the rest. The page's script `drawing/time_axis.js` places moments in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from atops_widgets.feed.columns import Column, Columns

__all__ = ("Axes", "Extent", "Gaps", "TimeAxis")

MOST_GAPS: Final = 50  # folded, and kept of each part of a table
LEFT: Final = 16  # a folded gap is as wide as one part in so many of the rest
ROUNDING: Final = 1e-6  # of places, in ns
CHUNK: Final = 8192  # rows that are looked through once
NONE: Final = np.zeros((0, 2), np.int64)
FARTHEST: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class TimeAxis:
    """From `first` to `last`, in nanoseconds; `gaps` are folded to `left` nanoseconds each, in their order."""

    first: int
    last: int
    gaps: tuple[tuple[int, int], ...] = ()
    left: int = 0

    @classmethod
    def of(cls, first: int, last: int, busy: Column) -> TimeAxis:
        """Return an axis that folds what is long between stretches, rows of start and end, in which something ran."""
        gaps = _between(busy)
        long = gaps[np.argsort(gaps[:, 0] - gaps[:, 1], kind="stable")][:MOST_GAPS]  # the longest first
        length = long[:, 1] - long[:, 0]
        rest = last - first - np.cumsum(length)
        folded = np.flatnonzero((length >= rest) & (rest > 0))
        if not len(folded):
            return cls(first, last)
        count = int(folded[-1]) + 1
        chosen = sorted((start, end) for start, end in long[:count].tolist())
        left = max(1, int(rest[count - 1]) // max(LEFT, 4 * count))
        return cls(first, last, tuple(chosen), left)

    def opened(self, starts: frozenset[int]) -> TimeAxis:
        """Return it with the gaps that begin at these moments drawn to scale."""
        return replace(self, gaps=tuple(gap for gap in self.gaps if gap[0] not in starts))

    def cut(self, start: int, end: int) -> TimeAxis:
        """Return the part of it from one moment to another; the whole where none of it lies between them."""
        first, last = max(start, self.first), min(end, self.last)
        if first >= last:
            return self
        gaps = tuple((max(begin, first), min(over, last)) for begin, over in self.gaps if over > first and begin < last)
        return replace(self, first=first, last=last, gaps=gaps)

    def since(self, origin: int) -> TimeAxis:
        """Return it with moments that count from an origin."""
        gaps = tuple((start - origin, end - origin) for start, end in self.gaps)
        return TimeAxis(self.first - origin, self.last - origin, gaps, self.left)

    def place(self, at: Column | float) -> Column:
        """Return where moments are: nanoseconds since `first` without what is folded."""
        since = np.asarray(at) - self.first
        place = since.astype(np.float64)
        for start, end in self.gaps:
            inside = np.clip(since - (start - self.first), 0, end - start)
            place -= inside * (1 - self.left / (end - start))
        return place

    def moment(self, place: Column | float) -> Column:
        """Return the moments at places: the inverse."""
        return np.round(self._since_first(place)).astype(np.int64) + self.first

    def edges(self, parts: int) -> Column:
        """Return where so many equally wide parts of it begin, and its end: a moment lies in the part that shows it.

        That holds also where one nanosecond has many parts: those without a moment begin where the next one does.
        """
        end = max(self.last, self.first + 1)
        places = np.linspace(0, self.place(end), parts + 1)
        edges: Column = np.ceil(self._since_first(places) - ROUNDING).astype(np.int64) + self.first
        edges[-1] = end
        return edges

    def _since_first(self, place: Column | float) -> Column:
        at = np.asarray(place, np.float64)
        found, cut = at.copy(), 0
        for start, end in self.gaps:
            inside = np.clip(at - (start - self.first - cut), 0, self.left)
            found += inside * ((end - start) / self.left - 1)
            cut += end - start - self.left
        return found


class Gaps:
    """Where something ran, of one table, whose rows are in the order of their ends: what was looked through is kept."""

    def __init__(self) -> None:
        self._known: list[tuple[int, Column]] = []  # of each chunk the number of the row after it, and stretches
        self._open = NONE  # the stretches of the newest chunk
        self._begun = self._taken = 0  # the numbers of its first row, and of the row after its last one

    def busy(self, records: Columns) -> Column:
        """Return stretches, rows of start and end, in which something ran; short gaps count as running."""
        end = records.start + len(records)
        self._known = [(last, busy) for last, busy in self._known if last > records.start]
        self._begun, self._taken = max(self._begun, records.start), max(self._taken, records.start)
        while self._taken < end:
            upto = min(end, self._begun + CHUNK)
            part = slice(self._taken - records.start, upto - records.start)
            finished = records["finished_ns"][part]
            fresh = np.stack([np.minimum(records["started_ns"][part], finished), finished], 1)
            self._open, self._taken = _stretches(np.concatenate([self._open, fresh])), upto
            if upto == self._begun + CHUNK:
                self._known.append((upto, self._open))
                self._open, self._begun = NONE, upto
        return np.concatenate([*(busy for _, busy in self._known), self._open])


class Extent:
    """From when to when the moments of one table are: what was looked through is kept."""

    def __init__(self) -> None:
        self._taken = 0
        self._first, self._last = int(FARTHEST), -int(FARTHEST)

    def of(self, details: Columns, since: int) -> tuple[int, int]:
        """Return the first and the last moment from `since` on of a table, always the same; the later first of none."""
        at = details["at_ns"]
        fresh = at[details.since(self._taken)]
        fresh = fresh[fresh >= since]
        if len(fresh):
            self._first, self._last = min(self._first, int(fresh.min())), max(self._last, int(fresh.max()))
        self._taken = details.start + len(details)
        return max(since, int(at[:CHUNK].min())) if details.start else self._first, self._last


class Axes:
    """The axis of a feed: what was computed is kept until something comes, or a gap is opened."""

    def __init__(self) -> None:
        self._gaps: list[Gaps] = []
        self._extents: list[Extent] = []
        self._folded: tuple[int, TimeAxis] = -1, TimeAxis(0, 0)
        self._drawn: tuple[TimeAxis | None, frozenset[int], TimeAxis] = None, frozenset(), self._folded[1]

    def folded(
        self, version: int, tables: Sequence[Columns], details: Sequence[Columns], since: int, otherwise: int
    ) -> TimeAxis:
        """Return the axis with all gaps folded: of tables of what ran, and of details; `otherwise` of nothing.

        The tables are always the same; `version` tells whether anything came. Details from before `since` do not count.
        """
        if self._folded[0] != version:
            self._gaps = self._gaps or [Gaps() for _ in tables]
            self._extents = self._extents or [Extent() for _ in details]
            busy = np.concatenate([gaps.busy(table) for gaps, table in zip(self._gaps, tables, strict=True)])
            extents = [known.of(table, since) for known, table in zip(self._extents, details, strict=True)]
            told = [(first, last) for first, last in extents if first <= last]
            both = np.concatenate([busy, np.array(told, np.int64).reshape(-1, 2)])
            if not len(both):
                both = np.array([[otherwise, otherwise]])
            self._folded = version, TimeAxis.of(int(both[:, 0].min()), int(both[:, 1].max()), busy)
        return self._folded[1]

    def drawn(self, folded: TimeAxis, opened: frozenset[int]) -> TimeAxis:
        """Return it with the gaps that begin at these moments open: the same object until it changes."""
        if self._drawn[0] is not folded or self._drawn[1] != opened:
            self._drawn = folded, opened, folded.opened(opened)
        return self._drawn[2]


def _between(busy: Column) -> Column:
    """Return the gaps between stretches, rows of end and start."""
    busy = busy[np.argsort(busy[:, 0], kind="stable")]
    reach = np.maximum.accumulate(busy[:, 1])
    gaps = np.stack([reach[:-1], busy[1:, 0]], 1)
    return gaps[gaps[:, 1] > gaps[:, 0]]


def _stretches(rows: Column) -> Column:
    """Return the stretches between the longest gaps of rows of start and end, which are in the order of their ends."""
    starts = np.minimum.accumulate(rows[::-1, 0])[::-1]  # of this row and of all that come after it
    ends = np.maximum.accumulate(rows[:, 1])
    gaps = starts[1:] - ends[:-1]
    at = np.flatnonzero(gaps > 0)
    if len(at) > MOST_GAPS:
        at = np.sort(at[np.argpartition(gaps[at], len(at) - MOST_GAPS)[-MOST_GAPS:]])
    return np.stack([np.append(starts[0], starts[at + 1]), np.append(ends[at], ends[-1])], 1)
