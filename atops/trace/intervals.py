"""Arithmetic of half-open intervals of integer nanoseconds. Exact, and ignorant of what happens in them."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

__all__ = ("Interval", "gaps", "intersect", "lanes", "length", "merge", "overlapping")

Interval: TypeAlias = tuple[int, int]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union as disjoint intervals in order; what touches is joined and what is empty is left out."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def length(merged: Iterable[Interval]) -> int:
    """Return the sum of the lengths, which is the time covered when the intervals are merged."""
    return sum(end - start for start, end in merged)


def intersect(first: Sequence[Interval], second: Sequence[Interval]) -> list[Interval]:
    """Return what two merged lists have in common, merged."""
    common: list[Interval] = []
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            common.append((start, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return common


def gaps(merged: Sequence[Interval]) -> list[Interval]:
    """Return what lies between the intervals of a merged list."""
    return [(before[1], after[0]) for before, after in pairwise(merged)]


def lanes(intervals: Sequence[Interval]) -> list[int]:
    """Place each interval in the first lane where it overlaps none placed before; return the lane of each.

    Earlier intervals choose first, so that the first one has lane 0. An empty interval is a point: it may
    stand at the edge of another interval, or on another point, but not inside.
    """
    placed: list[list[Interval]] = []
    chosen: list[int] = []
    for start, end in intervals:
        number = next((number for number, lane in enumerate(placed) if _fits(lane, start, end)), len(placed))
        if number == len(placed):
            placed.append([])
        insort(placed[number], (start, end))
        chosen.append(number)
    return chosen


def overlapping(intervals: Iterable[Interval]) -> list[tuple[Interval, Interval]]:
    """Return the pairs of neighbours that overlap: none if one track can show all of the intervals."""
    return [(a, b) for a, b in pairwise(sorted(intervals)) if b[0] < a[1]]


def _fits(lane: Sequence[Interval], start: int, end: int) -> bool:
    where = bisect(lane, (start, end))
    return (where == 0 or lane[where - 1][1] <= start) and (where == len(lane) or end <= lane[where][0])
