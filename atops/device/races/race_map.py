"""Which accesses to a memory are still of interest to those that come: the last store to each byte, and loads since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from sortedcontainers import SortedDict

__all__ = ("Conflict", "RaceMap")

E = TypeVar("E")
Conflict = tuple[E, int, int]  # the earlier access, and the bytes of it that the later one uses, as start and stop


class _Run(Generic[E]):
    """Neighbouring bytes with one history."""

    __slots__ = ("loads", "stop", "store")

    def __init__(self, stop: int, store: E | None, loads: tuple[E, ...]) -> None:
        self.stop = stop
        self.store = store
        self.loads = loads


class RaceMap(Generic[E]):
    """Accesses by byte. What an access is does not matter here: `ordered(earlier, later)` tells whether one of the two
    comes before the other by itself.

    A load that is ordered before another needs not be kept beside it: what comes after the second comes after it.
    """  # fmt: skip

    def __init__(self, ordered: Callable[[E, E], bool]) -> None:
        self._ordered = ordered
        self._runs: SortedDict[int, _Run[E]] = SortedDict()  # by where they begin; they do not overlap

    def note(self, start: int, stop: int, write: bool, access: E) -> list[Conflict[E]]:
        """Enter an access to bytes `start` to `stop`. Returns the earlier ones that nothing orders against it."""
        found: list[Conflict[E]] = []
        if start >= stop:
            return found
        self._cut(start)
        self._cut(stop)
        runs, position = self._runs, start
        filled: list[tuple[int, int]] = []
        for begin in list(runs.irange(start, stop, inclusive=(True, False))):
            run = runs[begin]
            if begin > position:
                filled.append((position, begin))
            position = run.stop
            self._compare(run, begin, write, access, found)
            if write:
                run.store, run.loads = access, ()
            else:
                run.loads = (*(each for each in run.loads if not self._ordered(each, access)), access)
        if position < stop:
            filled.append((position, stop))
        for first, last in filled:
            runs[first] = _Run(last, access, ()) if write else _Run(last, None, (access,))
        return found

    def forget(self, start: int, stop: int) -> None:
        """Leave out what is known of bytes `start` to `stop`: they are another memory now."""
        if start < stop:
            self._cut(start)
            self._cut(stop)
            for begin in list(self._runs.irange(start, stop, inclusive=(True, False))):
                del self._runs[begin]

    def _compare(self, run: _Run[E], begin: int, write: bool, access: E, found: list[Conflict[E]]) -> None:
        if run.store is not None and not self._ordered(run.store, access):
            found.append((run.store, begin, run.stop))
        if write:
            found.extend((each, begin, run.stop) for each in run.loads if not self._ordered(each, access))

    def _cut(self, place: int) -> None:
        """Let a run begin at `place`, if one lies across it."""
        runs = self._runs
        index = runs.bisect_left(place) - 1
        if index >= 0:
            run = runs.peekitem(index)[1]
            if run.stop > place:
                runs[place] = _Run(run.stop, run.store, run.loads)
                run.stop = place

    def __len__(self) -> int:
        return len(self._runs)
