"""Many accesses at once: those of which some may race, and all bytes that were used. Most need no closer look.

A row is a rectangle of bytes, whether it is stored to, and an access with its thread and its turns. Few rows are gone
through one by one, many as arrays; both find the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from atops.device.geometry import Array

if TYPE_CHECKING:
    from atops.device.races.access_log import Row

__all__ = ("Run", "Used", "compacted", "suspicious_runs", "united")

Run = tuple[int, int, int]  # bytes, start and stop, and the number of a row
Used = tuple[int, int, bool, "Row"]  # bytes, start and stop; whether they are stored to; a row that did it
COUNT, IS_STORED = itemgetter(3), itemgetter(4)  # of a row
FEW = 200  # runs that are gone through one by one: so many take as long as a dozen calls of numpy
NEVER: Final = 1 << 31  # a turn that no thread comes to
LOW: Final = -(1 << 62)


def suspicious_runs(rows: Sequence[Row]) -> list[Run]:
    """Return the runs that share bytes with others so that they may race, in the order of their rows.

    Left out are those that share no byte with another row, those that are loaded only, and those of one thread that
    follow one another.
    """
    if not any(map(IS_STORED, rows)):
        return []
    if len(rows) > FEW or sum(map(COUNT, rows)) > FEW:
        return _suspicious_among_many(rows)
    runs = _runs(rows)
    found: list[Run] = []
    begin, high = 0, LOW
    for place, (start, stop, _) in enumerate(runs):
        if start >= high:  # nothing before reaches as far
            if place - begin > 1 and _is_suspicious(rows, runs[begin:place]):
                found += runs[begin:place]
            begin = place
        if stop > high:
            high = stop
    if len(runs) - begin > 1 and _is_suspicious(rows, runs[begin:]):
        found += runs[begin:]
    found.sort(key=itemgetter(2))
    return found


def _runs(rows: Sequence[Row]) -> list[Run]:
    """Return the runs of rectangles, by where they begin."""
    found: list[Run] = []
    for index, (start, run, pitch, count, _, _) in enumerate(rows):
        if count == 1:
            found.append((start, start + run, index))
        else:
            found += [(at, at + run, index) for at in range(start, start + pitch * count, pitch)]
    found.sort()
    return found


def _is_suspicious(rows: Sequence[Row], runs: list[Run]) -> bool:
    """Tell whether runs that hang together are of several threads, or of transfers in flight, and some are stores."""
    inside = [rows[index] for index in sorted({index for *_, index in runs})]
    if not any(map(IS_STORED, inside)):
        return False
    thread, high = inside[0][5].begin.thread, 0
    for *_, entry in inside:
        end = entry.end
        if entry.begin.thread != thread or entry.begin_turn < high or (end is not None and end.thread != thread):
            return True
        high = NEVER if end is None else max(high, entry.end_turn)
    return False


def _suspicious_among_many(rows: Sequence[Row]) -> list[Run]:
    starts, stops, which = _spread(rows)
    order = np.argsort(starts, kind="stable")
    first, last = starts[order], np.maximum.accumulate(stops[order])
    # Neighbours in this order that share no byte with any other are of no interest.
    cluster = np.concatenate(([0], np.cumsum(first[1:] >= last[:-1])))
    sizes = np.bincount(cluster)
    writes = np.fromiter(map(IS_STORED, rows), bool, len(rows))
    shared = (sizes > 1) & (np.bincount(cluster, writes[which[order]], sizes.size) > 0)
    inside = shared[cluster]
    if not inside.any():
        return []
    # By cluster, and in it by the number of the row.
    order, cluster = order[inside], cluster[inside]
    of = which[order]
    sorting = np.lexsort((of, cluster))
    order, cluster, of = order[sorting], cluster[sorting], of[sorting]
    wanted = np.unique(of)
    entries = [rows[index][5] for index in wanted.tolist()]
    turns = np.array(
        [(entry.begin.thread, entry.begin_turn, NEVER if (end := entry.end) is None else entry.end_turn,
          end is None or end.thread == entry.begin.thread) for entry in entries], np.int64,
    )[np.searchsorted(wanted, of)]  # fmt: skip
    heads = np.flatnonzero(np.concatenate(([True], cluster[1:] != cluster[:-1])))
    groups = np.repeat(np.arange(heads.size), np.diff(np.append(heads, cluster.size)))
    threads = turns[:, 0]
    alone = np.minimum.reduceat(threads, heads) == np.maximum.reduceat(threads, heads)
    alone &= np.minimum.reduceat(turns[:, 3], heads) > 0
    # Of one thread: in order if each begins when all before it in the cluster are over.
    ends = np.maximum.accumulate(turns[:, 2] + groups * (2 * NEVER))[:-1]
    late = turns[1:, 1] + groups[1:] * (2 * NEVER) < ends
    repeated = of[1:] == of[:-1]  # runs of one row
    alone[groups[1:][late & ~repeated & (groups[1:] == groups[:-1])]] = False
    chosen = order[~alone[groups]]
    chosen = chosen[np.argsort(which[chosen], kind="stable")]
    return list(zip(starts[chosen].tolist(), stops[chosen].tolist(), which[chosen].tolist(), strict=True))


def compacted(rows: Sequence[Row]) -> list[Row]:
    """Return rows that stand for these in comparisons with what comes later, now that they are compared themselves.

    What a line has done again and again, in one thread and with nothing to order it in between, is what it did last.
    """
    alike: dict[object, list[int]] = {}
    for place, (start, run, pitch, count, write, entry) in enumerate(rows):
        key: object = place
        if entry.end is not None and entry.context is None:
            shape = None if count == 1 else (start, run, pitch, count)
            line = id(entry.code), entry.instruction, entry.what, entry.relaxed, entry.value, entry.part
            key = shape, write, id(entry.begin), id(entry.end), line
        alike.setdefault(key, []).append(place)
    kept: list[tuple[int, Row]] = []
    for places in alike.values():
        last = rows[places[-1]]
        if len(places) == 1 or last[3] > 1:
            kept.append((places[-1], last))
            continue
        low = high = LOW
        for start, run, *_ in sorted((rows[place] for place in places), key=itemgetter(0)):
            if start > high:
                if high > LOW:
                    kept.append((places[-1], (low, high - low, 0, 1, last[4], last[5])))
                low, high = start, start + run
            else:
                high = max(high, start + run)
        kept.append((places[-1], (low, high - low, 0, 1, last[4], last[5])))
    kept.sort(key=itemgetter(0))
    return [row for _, row in kept]


def united(rows: Sequence[Row], used: list[Used]) -> list[Used]:
    """Return all bytes of rows and what was used before, loads and stores apart: in order, neighbours as one."""
    found: list[Used] = []
    if not rows:
        return used
    if sum(map(COUNT, rows)) + len(used) > FEW:
        return _many_united(rows, used)
    runs = [(start, stop, rows[index]) for start, stop, index in _runs(rows)]
    for write in (False, True):
        mine = [each for each in runs if each[2][4] == write]
        mine += [(start, stop, row) for start, stop, stored, row in used if stored == write]
        mine.sort(key=itemgetter(0))
        low, high, first = LOW, LOW, rows[0]
        for start, stop, row in mine:
            if start > high:
                if high > LOW:
                    found.append((low, high, write, first))
                low, high, first = start, stop, row
            elif stop > high:
                high = stop
        if high > LOW:
            found.append((low, high, write, first))
    return found


def _many_united(rows: Sequence[Row], used: list[Used]) -> list[Used]:
    starts, stops, which = _spread(rows)
    every = [*rows, *(row for *_, row in used)]
    writes = np.fromiter(map(IS_STORED, every), bool, len(every))
    which = np.concatenate((which, np.arange(len(rows), len(every))))
    starts = np.concatenate((starts, np.fromiter(map(itemgetter(0), used), np.int64, len(used))))
    stops = np.concatenate((stops, np.fromiter(map(itemgetter(1), used), np.int64, len(used))))
    found: list[Used] = []
    for write in (False, True):
        chosen = np.flatnonzero(writes[which] == write)
        if chosen.size:
            order = chosen[np.argsort(starts[chosen], kind="stable")]
            ends = np.maximum.accumulate(stops[order])
            begins = np.flatnonzero(np.concatenate(([True], starts[order][1:] > ends[:-1])))
            lasts = np.concatenate((begins[1:], [order.size])) - 1
            heads = order[begins]
            whole = zip(starts[heads].tolist(), ends[lasts].tolist(), which[heads].tolist(), strict=True)
            found += [(start, stop, write, every[index]) for start, stop, index in whole]
    return found


def _spread(rows: Sequence[Row]) -> tuple[Array, Array, Array]:
    """Return the runs of rectangles: where each begins, where it ends, and which rectangle it is of."""
    count = len(rows)
    begins, runs, pitches, counts = (np.fromiter(map(itemgetter(each), rows), np.int64, count) for each in range(4))
    if (counts == 1).all():
        return begins, begins + runs, np.arange(count)
    which = np.repeat(np.arange(count), counts)
    offset = np.arange(which.size) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = begins[which] + offset * pitches[which]
    return starts, starts + runs[which], which
