"""The accesses to one memory, kept as they come and compared all at once: a correct kernel costs one sort."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat

import numpy as np

from atops.device.geometry import Array
from atops.device.races.clocks import Stamp, before
from atops.device.races.race_map import RaceMap
from atops.device.races.rectangles import Rectangle

__all__ = ("AccessLog", "Entry", "Found", "ordered")

MOST = 1 << 16  # rows that a log keeps before they go into its map


class Entry:
    """One access, or one transfer: from `begin` to `end`, which are one moment unless it is a transfer in flight.

    `begin_turn` and `end_turn` count the accesses of its thread; `end` is None while it is in flight. `actor` and
    `what` are for words, `code` and `instruction` say where the program asked for it. A transfer's `context` may be
    connected to others, whose transfers come before or after it: `chain`. `relaxed`: the program says that it may meet
    others. `value` is the number that a store puts everywhere, with its type; None where it is not known.
    """

    __slots__ = (
        "actor", "begin", "begin_turn", "chain", "code", "context", "end", "end_turn", "instruction", "relaxed",
        "value", "what", "write",
    )  # fmt: skip

    def __init__(
        self, actor: object, what: str, write: bool, begin: Stamp, begin_turn: int, code: object, instruction: int
    ) -> None:
        self.actor = actor
        self.what = what
        self.write = write
        self.begin = begin
        self.begin_turn = begin_turn
        self.end: Stamp | None = begin
        self.end_turn = begin_turn
        self.code = code
        self.instruction = instruction
        self.relaxed = False
        self.value: object = None
        self.context: object = None
        self.chain: frozenset[object] = frozenset()


Used = tuple[int, int, bool, Entry]  # bytes, start and stop; whether they are stored to; an access that did it
Found = tuple[Entry, Entry, int, int]  # the earlier and the later one, and bytes of both: start and stop


def ordered(earlier: Entry, later: Entry) -> bool:
    """Tell whether the earlier of two accesses is over before the later one begins, in every order of turns."""
    end = earlier.end
    if earlier.context in later.chain:
        return True
    if end is None:
        return earlier is later
    begin = later.begin
    if end.thread == begin.thread:
        return earlier.end_turn <= later.begin_turn
    return before(end, begin)


class AccessLog:
    """The accesses to one memory, in the order in which they came. Its methods return the pairs that nothing orders.

    They are compared by `compare`; of more than MOST rows the oldest go into a map, byte by byte. `keeps_uses` tells
    whether all that was ever used is remembered, for `footprint`.
    """

    __slots__ = ("_entries", "_keeps_uses", "_map", "_rows", "_used")

    def __init__(self, keeps_uses: bool = False) -> None:
        self._rows: list[Rectangle] = []
        self._entries: list[Entry] = []
        self._map: RaceMap[Entry] | None = None
        self._keeps_uses = keeps_uses
        self._used: list[Used] = []

    def add(self, rectangles: list[Rectangle], entry: Entry) -> list[Found]:
        """Enter an access to some bytes."""
        self._rows += rectangles
        self._entries += [entry] if len(rectangles) == 1 else repeat(entry, len(rectangles))
        return self._replay() if len(self._rows) >= MOST else []

    def compare(self) -> list[Found]:
        """Forget all that is over: what comes now comes after it."""
        self._note_used()
        if self._map is not None:
            found = self._replay()
            self._map = None
        else:
            found = list(_unordered(self._rows, self._entries))
        self._keep(lambda row, entry: entry.end is None)
        return found

    def forget(self, start: int, stop: int) -> list[Found]:
        """Leave out what touches bytes `start` to `stop`: they are another memory now."""
        found: list[Found] = []
        if self._map is not None:
            found = self._replay()
            self._map.forget(start, stop)
        elif any(_touches(row, start, stop) for row in self._rows):
            found = list(_unordered(self._rows, self._entries))
            self._keep(lambda row, entry: not _touches(row, start, stop))
        return found

    def _keep(self, wanted: Callable[[Rectangle, Entry], bool]) -> None:
        kept = [pair for pair in zip(self._rows, self._entries, strict=True) if wanted(*pair)]
        self._rows, self._entries = [row for row, _ in kept], [entry for _, entry in kept]

    def _replay(self) -> list[Found]:
        """Put all rows into the map."""
        self._note_used()
        if self._map is None:
            self._map = RaceMap(ordered)
        found = []
        for row, entry in zip(self._rows, self._entries, strict=True):
            for start in row.starts:
                found += [
                    (earlier, entry, begin, end)
                    for earlier, begin, end in self._map.note(start, start + row.run, entry.write, entry)
                    if earlier is not entry
                ]
        self._rows, self._entries = [], []
        return found

    def footprint(self) -> list[Used]:
        """Return the bytes that were used, loads and stores apart: in order, neighbours as one."""
        self._note_used()
        return self._used

    def _note_used(self) -> None:
        """Unite what was used until now with the rows."""
        if not self._keeps_uses or not self._rows:
            return
        starts, stops, which = _spread(self._rows)
        entries = [*self._entries, *(entry for *_, entry in self._used)]
        writes = np.fromiter((entry.write for entry in entries), bool, len(entries))
        which = np.concatenate((which, np.arange(len(self._entries), len(entries))))
        starts = np.concatenate((starts, np.fromiter((use[0] for use in self._used), np.int64, len(self._used))))
        stops = np.concatenate((stops, np.fromiter((use[1] for use in self._used), np.int64, len(self._used))))
        self._used = []
        for write in (False, True):
            chosen = np.flatnonzero(writes[which] == write)
            if chosen.size:
                order = chosen[np.argsort(starts[chosen], kind="stable")]
                ends = np.maximum.accumulate(stops[order])
                begins = np.flatnonzero(np.concatenate(([True], starts[order][1:] > ends[:-1])))
                lasts = np.concatenate((begins[1:], [order.size])) - 1
                whole = zip(
                    starts[order[begins]].tolist(), ends[lasts].tolist(), which[order[begins]].tolist(), strict=True
                )
                self._used += [(start, stop, write, entries[index]) for start, stop, index in whole]

    def __len__(self) -> int:
        return len(self._rows)


def _spread(rows: list[Rectangle]) -> tuple[Array, Array, Array]:
    """Return the runs of rectangles: where each begins, where it ends, and which rectangle it is of."""
    table = np.array(rows, np.int64)
    counts = table[:, 3]
    which = np.repeat(np.arange(len(rows)), counts)
    offset = np.arange(which.size) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = table[which, 0] + offset * table[which, 2]
    return starts, starts + table[which, 1], which


def _touches(row: Rectangle, start: int, stop: int) -> bool:
    return row.start < stop and row.stop > start


def _unordered(rows: list[Rectangle], entries: list[Entry]) -> Iterator[Found]:
    """Yield the pairs of accesses to the same bytes, one of them a store at least, that nothing orders."""
    if len(rows) < 2:
        return
    starts, stops, which = _spread(rows)
    order = np.argsort(starts, kind="stable")
    first, last = starts[order], np.maximum.accumulate(stops[order])
    # Neighbours in this order that share no byte with any other are of no interest.
    cluster = np.concatenate(([0], np.cumsum(first[1:] >= last[:-1])))
    of = which[order]
    sizes = np.bincount(cluster)
    if sizes.max() == 1:
        return
    threads = np.fromiter((entry.begin.thread if entry.end is not None else -1 - index
                           for index, entry in enumerate(entries)), np.int64, len(entries))[of]  # fmt: skip
    writes = np.fromiter((entry.write for entry in entries), bool, len(entries))[of]
    flights = np.fromiter((entry.end_turn != entry.begin_turn for entry in entries), bool, len(entries))[of]
    low, high = _least(threads, cluster, sizes.size), -_least(-threads, cluster, sizes.size)
    several = (low != high) | (np.bincount(cluster, flights, sizes.size) > 0)
    suspicious = several & (np.bincount(cluster, writes, sizes.size) > 0) & (sizes > 1)
    if not suspicious.any():
        return
    chosen = np.flatnonzero(suspicious[cluster])
    # Replayed in the order in which they came.
    places = order[chosen]
    race_map: RaceMap[Entry] = RaceMap(ordered)
    for place in places[np.argsort(which[places], kind="stable")].tolist():
        entry, start, stop = entries[which[place]], int(starts[place]), int(stops[place])
        for earlier, begin, end in race_map.note(start, stop, entry.write, entry):
            if earlier is not entry:
                yield earlier, entry, begin, end


def _least(values: Array, groups: Array, count: int) -> Array:
    """Return the least value of each group; groups are numbered in order and have a value each."""
    least: Array = np.minimum.reduceat(values, np.searchsorted(groups, np.arange(count)))
    return least
