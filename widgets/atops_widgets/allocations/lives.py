"""The lives of a trace's allocations, where their bytes stand in a picture, and what each line of the program held."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from atops.base.trace.records import Change, Place, Trace
from atops.trace.summary import merge

__all__ = ("Life", "Line", "lines_of", "lives_of", "stacked")


class Life(NamedTuple):
    """One allocation: bytes `offset` to `offset + size` of a device, from `born_ns` to `died_ns` (None: it lives)."""

    device: int
    offset: int
    size: int
    born_ns: int
    died_ns: int | None
    place: Place | None
    freed: Place | None
    callers: tuple[Place, ...] = ()  # of its place, the nearest first


@dataclass(frozen=True, slots=True)
class Line:
    """What a line of the program held on a device: how many allocations, the most bytes at once, and byte-nanoseconds.

    `still` is how many of them live at the end of the trace. `place` is None where it is not known. `callers` are those
    of the stack that asked most often, of `stacks` different ones.
    """

    device: int
    place: Place | None
    count: int
    most: int
    area: int
    still: int
    callers: tuple[Place, ...] = ()
    stacks: int = 1


def lives_of(trace: Trace) -> list[Life]:
    """Return the allocations of a trace that has details, in the order in which they were asked for.

    Memory that is allocated in stream order may be promised while an earlier allocation holds it: it begins after that.
    """
    sites, begun = trace.names.sites, dict[int, Life]()
    for each in trace.changes:
        known = begun.get(each.generation)
        if each.change is Change.FREED:
            if known is not None and known.died_ns is None:
                begun[each.generation] = known._replace(died_ns=each.at_ns, freed=sites.get(each.site))
        elif known is None and each.size > 0:
            place, *callers = trace.names.stack(each.site) or (None,)
            begun[each.generation] = Life(
                each.device, each.offset, each.size, each.at_ns, None, place, None, tuple(filter(None, callers))
            )
    held, found = dict[tuple[int, int], int](), list[Life]()
    for life in begun.values():
        where, end = (life.device, life.offset), life.died_ns
        born = max(life.born_ns, held.get(where, life.born_ns))
        born = born if end is None else min(born, end)
        if end is not None:
            held[where] = max(end, held.get(where, end))
        found.append(life._replace(born_ns=born))
    return found


def lines_of(lives: Sequence[Life], end_ns: int) -> list[Line]:
    """Return what each line held on each device until `end_ns`, those first that held the most for the longest."""
    held: dict[tuple[int, Place | None], list[Life]] = defaultdict(list)
    for life in lives:
        held[life.device, life.place].append(life)
    found = []
    for (device, place), own in held.items():
        moments = [(life.born_ns, life.size) for life in own]
        moments += [(life.died_ns, -life.size) for life in own if life.died_ns is not None]
        most = max(accumulate(size for _, size in sorted(moments)))  # what ends at a moment goes before what begins
        area = sum(life.size * ((end_ns if life.died_ns is None else life.died_ns) - life.born_ns) for life in own)
        still = sum(life.died_ns is None for life in own)
        stacks = Counter(life.callers for life in own)
        found.append(Line(device, place, len(own), most, area, still, stacks.most_common(1)[0][0], len(stacks)))
    return sorted(found, key=lambda line: (line.device, -line.area, -line.most, str(line.place)))


def stacked(lives: Iterable[Life]) -> tuple[dict[int, int], int]:
    """Return where the bytes at each life's offset stand when all that was never in use is left out, and their sum."""
    merged = merge((life.offset, life.offset + life.size) for life in lives)
    starts, total = dict[int, int](), 0
    for start, end in merged:
        starts[start] = total
        total += end - start
    found, heads = dict[int, int](), sorted(starts)
    place = 0
    for offset in sorted({life.offset for life in lives}):
        while place + 1 < len(heads) and heads[place + 1] <= offset:
            place += 1
        found[offset] = starts[heads[place]] + offset - heads[place]
    return found, total
