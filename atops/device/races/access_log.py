"""The accesses to one memory, kept as they come and compared all at once: a correct kernel costs one sort."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from types import CodeType

from atops.device.races.bulk import Used, compacted, suspicious_runs, united
from atops.device.races.clocks import Stamp, before
from atops.device.races.race_map import RaceMap

__all__ = ("AccessLog", "Entry", "Flight", "Found", "Row", "ordered")

MOST = 1 << 16  # rows that a log keeps before those are united that are alike
LIMIT = 1 << 19  # rows that are not alike, before they go into the log's map
EARLIER = 1 << 10  # rows that are over, kept for what they say of the order of lines
NONE: frozenset[object] = frozenset()


class Entry:
    """One access, or one transfer: from `begin` to `end`, which are one moment unless it is a transfer in flight.

    `begin_turn` and `end_turn` count what its thread did; `end` is None while it is in flight. `actor` and `what`, of a
    transfer the name of its operation, are for words, `code` and `instruction` say where the program asked for it. A
    transfer's `context` may be connected to others, whose transfers come before or after it: `chain`. `relaxed`: the
    program says that it may meet others. `value` is the number that a store puts everywhere, with its type; None where
    it is not known. `part` is the part of its launch in which it was over: 0 for the last one.
    """

    __slots__ = (
        "actor", "begin", "begin_turn", "chain", "code", "context", "end", "end_turn", "instruction", "part", "relaxed",
        "value", "what",
    )  # fmt: skip

    def __init__(
        self, actor: object, what: str, begin: Stamp, begin_turn: int, code: CodeType | None, instruction: int
    ) -> None:
        self.actor = actor
        self.what = what
        self.begin = begin
        self.end: Stamp | None = begin
        self.begin_turn = self.end_turn = begin_turn
        self.code = code
        self.instruction = instruction
        self.relaxed = False
        self.part = 0
        self.value = self.context = None  # type: object
        self.chain = NONE


class Flight(Entry):
    """A transfer, from its issue to its wait. `owner` has issued it; `shared` tells that its context is a block's."""

    __slots__ = ("over", "owner", "shared")

    owner: object
    shared: bool
    over: bool  # it has been waited for


Row = tuple[int, int, int, int, bool, Entry]  # a rectangle, whether it is stored to, what does it
Found = tuple[Row, Row, int, int]  # the earlier and the later one, and bytes of both: start and stop


def ordered(earlier: Row, later: Row) -> bool:
    """Tell whether the earlier of two accesses is over before the later one begins, in every order of turns."""
    one, other = earlier[5], later[5]
    if one is other:  # what a transfer moves onto itself is in order
        return True
    if one.context is not None and one.context in other.chain:
        return True
    end, begin = one.end, other.begin
    if end is None:
        return False
    if end.thread == begin.thread:
        return one.end_turn <= other.begin_turn
    return before(end, begin)


class AccessLog:
    """The accesses to one memory, in the order in which they came. Its methods return the pairs that nothing orders.

    When there are `most` rows, `make_room` is to be called: it unites those that are alike, and where they are not,
    they go into a map, byte by byte. `keeps_uses` tells whether all that was ever used is remembered, for `footprint`.
    `rows` may be added to by any OS thread while none compares.
    """

    __slots__ = ("_compared", "_count", "_earlier", "_flying", "_map", "_past", "_used", "most", "rows")

    def __init__(self, keeps_uses: bool = False) -> None:
        self.rows: list[Row] = []
        self._earlier: deque[list[Row]] = deque()  # that are over, by barrier
        self._count = 0  # of these
        self.most = MOST
        self._compared: set[int] = set()  # ids of rows that were compared with each other
        self._map: RaceMap[Row] | None = None
        self._flying: list[Row] = []  # in the map, and perhaps still in flight
        self._past: list[Row] | None = [] if keeps_uses else None  # which are not yet united
        self._used: list[Used] = []

    def make_room(self) -> list[Found]:
        """Compare what is there, and keep what those that come are to be compared with."""
        if self._map is not None or self.most > LIMIT:
            self.most = MOST
            return self.replay()
        rows = self.rows[:]
        self._note_used(rows)
        found = self._unordered(rows)
        kept = compacted(rows)
        self.rows[: len(rows)] = kept
        self._compared = set(map(id, kept))
        self.most = max(MOST, 2 * len(kept))
        return found

    def compare(self) -> list[Found]:
        """Forget all that is over: what comes now comes after it."""
        rows = self.rows
        if not rows and self._map is None:
            return []
        if self._map is not None:
            found = self.replay()
            self._map, rows, self._flying = None, self._flying, []
        else:
            self._note_used(rows)
            found = self._unordered(rows)
        self._keep(rows, bool(found))
        self.rows = [row for row in rows if row[5].end is None]
        self._compared, self.most = set(map(id, self.rows)), MOST
        return found

    def _keep(self, rows: list[Row], racing: bool) -> None:
        """Keep rows that are over for `history`: not many, but always those in which a race was found."""
        kept = self._earlier
        if len(rows) > EARLIER and not racing:
            kept.clear()
            self._count = 0
            return
        kept.append(rows)
        self._count += len(rows)
        while len(kept) > 1 and self._count > EARLIER:
            self._count -= len(kept.popleft())

    def history(self) -> Iterator[Entry]:
        """Return the accesses that are still known, in the order in which they came: the oldest may be gone."""
        for rows in (*self._earlier, self.rows):
            for row in rows:
                yield row[5]

    def forget(self, start: int, stop: int) -> list[Found]:
        """Leave out what touches bytes `start` to `stop`: they are another memory now."""
        if self._map is not None:
            found = self.replay()
            self._map.forget(start, stop)
            self._flying = _outside(self._flying, start, stop)
            return found
        rows = self.rows[:]
        kept = _outside(rows, start, stop)
        if len(kept) == len(rows):
            return []
        found = self._unordered(rows)
        self.rows[: len(rows)] = kept  # in place: other threads may add to it
        self._compared &= set(map(id, kept))
        return found

    def footprint(self) -> list[Used]:
        """Return the bytes that were used, loads and stores apart, and what is relaxed: in order, neighbours as one."""
        self._note_used(self.rows)
        self._unite()
        return self._used

    def end_part(self, number: int) -> None:
        """Note that all that is over by now is of this part of the launch, or of an earlier one."""
        for row in (*self.rows, *(self._past or ()), *(used[3] for used in self._used)):
            if not row[5].part and row[5].end is not None:
                row[5].part = number

    def replay(self) -> list[Found]:
        """Put all rows into the map."""
        rows = self.rows[:]
        self._note_used(rows)
        if self._map is None:
            self._map = RaceMap(ordered)
        found: list[Found] = []
        for row in rows:
            start, run, pitch, count, write, _ = row
            for place in range(start, start + pitch * (count - 1) + 1, pitch or 1):
                found += _pairs(self._map, place, place + run, write, row)
        found = self._not_yet_told(found)
        self._flying += [row for row in rows if row[5].end is None]
        del self.rows[: len(rows)]
        self._compared = set()
        return found

    def _unordered(self, rows: list[Row]) -> list[Found]:
        """Return the pairs of accesses to the same bytes, one of them a store at least, that nothing orders."""
        if len(rows) < 2 or not (runs := suspicious_runs(rows)):
            return []
        race_map: RaceMap[Row] = RaceMap(ordered)
        found: list[Found] = []
        for start, stop, index in runs:  # replayed in the order in which they came
            row = rows[index]
            found += _pairs(race_map, start, stop, row[4], row)
        return self._not_yet_told(found)

    def _not_yet_told(self, found: list[Found]) -> list[Found]:
        known = self._compared
        return [each for each in found if not (id(each[0]) in known and id(each[1]) in known)] if known else found

    def _note_used(self, rows: Iterable[Row]) -> None:
        if self._past is not None:
            self._past += rows
            if len(self._past) >= MOST:
                self._unite()

    def _unite(self) -> None:
        """Unite what was used until now with the rows since."""
        if not self._past:
            return
        past, used, kinds = self._past, self._used, set[tuple[bool, int]]()
        for row in (*past, *(each[3] for each in used)):
            kinds.add((row[5].relaxed, row[5].part))
        self._used = []
        for relaxed, part in sorted(kinds, key=lambda kind: (kind[1] == 0, kind[1], kind[0])):  # 0 is the last one
            rows = [row for row in past if row[5].part == part and row[5].relaxed is relaxed]
            before = [each for each in used if each[3][5].part == part and each[3][5].relaxed is relaxed]
            self._used += united(rows, before)
        self._past = []

    def __len__(self) -> int:
        return len(self.rows)


def _outside(rows: list[Row], start: int, stop: int) -> list[Row]:
    return [row for row in rows if row[0] >= stop or row[0] + row[2] * (row[3] - 1) + row[1] <= start]


def _pairs(race_map: RaceMap[Row], start: int, stop: int, write: bool, row: Row) -> Iterable[Found]:
    return [(earlier, row, begin, end) for earlier, begin, end in race_map.note(start, stop, write, row)]
