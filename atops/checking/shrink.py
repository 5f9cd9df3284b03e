"""Fewer switches for the same failure: delta debugging over where a run leaves the actor that has the turn.

A schedule is written relative to "go on with the same actor": a switch names the actor that has the turn instead, and
the turn after which it has it. So a switch means the same when another one is left out, as far as it can. What a switch
passes over comes behind everything else, so that "this one comes last" is one switch. After Zeller and Hildebrandt,
Simplifying and Isolating Failure-Inducing Input (2002).

Leaving out switches gets stuck where each of many is needed to reach the failure by that one run's way. Then other
failing runs are drawn, with priorities, and those are made small too: the smallest is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from atops.base.choice import TIME, Chooser, Name
from atops.checking.actors import owner
from atops.checking.strategies.sampling import Pct
from atops.checking.strategies.strategy import usual

__all__ = ("Forced", "Shrunk", "Switches", "shrink")

Key: TypeAlias = tuple[str, Name | None, int]  # the kind of choice, whose turn it was, and how many it has had

# Turns in a row after which the next actor is the one that has waited longest: this one may poll for what others do.
# For as many choices a name that was passed over stays behind the others.
PATIENCE = 200

# Switches that are few enough: to look for another failing run pays above.
FEW = 6


class Forced(NamedTuple):
    """A choice that is not "go on": at the `position`th choice of the run `name` came instead of `instead_of`."""

    position: int
    name: Name
    instead_of: Name
    others: tuple[Name, ...]
    """What else could have come."""


class Switches:
    """A chooser that goes on with the actor that has the turn, but for some switches; `forced` has those that happened.

    With a `script` it takes the names of that run as long as there are any; with `by`, what that chooser takes.
    """

    def __init__(self, switches: Mapping[Key, Name], script: Sequence[Name] = (), by: Chooser | None = None) -> None:
        self.switches = switches
        self.forced: dict[Key, Forced] = {}
        self.names: list[Name] = []
        self._script, self._by = script, by
        self._turns: dict[Name, int] = {}
        self._last: Name | None = None
        self._last_of: dict[str | int, Name] = {}  # of each kind of name, the one that came last
        self._when: dict[Name, int] = {}
        self._in_a_row = 0
        self._passed_over: dict[Name, int] = {}  # since which choice

    def choose(self, kind: str, names: Sequence[Name]) -> int:
        """Return the position of the actor that has the turn, or of the one that is to have it instead."""
        at = len(self.names)
        anchor, usual = self._usual(names)
        key = kind, anchor, 0 if anchor is None else self._turns.get(anchor, 0)
        if self._by is not None:
            wanted: Name | None = names[self._by.choose(kind, names)]
        else:
            wanted = self._script[at] if at < len(self._script) else self.switches.get(key)
        index = usual
        if wanted is not None and wanted != names[usual] and wanted in names:
            index = names.index(wanted)
            others = tuple(name for name in names if name != wanted)
            self.forced[key] = Forced(at, names[index], names[usual], others)
            self._passed_over[names[usual]] = at
        name = names[index]
        self._passed_over.pop(name, None)
        actor = name if name[0] == "thread" else owner(name)
        self._in_a_row = self._in_a_row + 1 if actor == self._last else 0
        self._turns[actor] = self._turns.get(actor, 0) + 1
        self._last = self._last_of[actor[0]] = actor
        self._when[actor] = at
        self.names.append(name)
        return index

    def targets(self) -> dict[Key, Name]:
        """Return the switches that happened."""
        return {key: each.name for key, each in self.forced.items()}

    def _usual(self, names: Sequence[Name]) -> tuple[Name | None, int]:
        """Return whose turn it was, and the position of what comes without a switch."""
        if self._passed_over:
            since = len(self.names) - PATIENCE
            first = [name for name in names if self._passed_over.get(name, since) <= since]
            if 0 < len(first) < len(names):
                anchor, index = self._next(first)
                return anchor, names.index(first[index])
        return self._next(names)

    def _next(self, names: Sequence[Name]) -> tuple[Name | None, int]:
        """Return whose turn it was, and the position of what goes on with it, or with what had a turn last."""
        last = self._last
        if last is None:
            return None, usual(names)
        index = _of(last, names)
        if index >= 0 and (last[0] != TIME or len(names) == 1):
            if self._in_a_row < PATIENCE or len(names) == 1:
                return last, index
            return last, min(range(len(names)), key=lambda each: self._when.get(owner(names[each]), -1))
        had = [(self._when[each], _of(each, names), each) for kind, each in self._last_of.items() if kind != TIME]
        newest = max((each for each in had if each[1] >= 0), default=None)  # it is a choice within another one's turn
        return (newest[2], newest[1]) if newest is not None else (last, usual(names))


def _of(actor: Name, names: Sequence[Name]) -> int:
    """Return the position of the first name that is an actor's; -1 if none is."""
    if actor in names:
        return names.index(actor)
    return next((index for index, name in enumerate(names) if owner(name) == actor), -1)


class Shrunk(NamedTuple):
    """The shortest failing run that was found."""

    names: tuple[Name, ...]
    """What came, from the first choice to the failure."""
    forced: tuple[Forced, ...]
    passing: tuple[Name, ...] | None
    """What came in the run most like it that does not fail; None where none was met."""
    replays: int
    before: int
    """How many switches the run had that this one was made from."""


class _Enough(Exception):
    """The replays allowed have been used up."""


class _Shrinking:
    def __init__(self, fails: Callable[[Switches], bool], limit: int) -> None:
        self.fails, self.limit, self.replays = fails, limit, 0
        self.best: Switches | None = None
        self.passed: list[tuple[Name, ...]] = []
        self.known: dict[frozenset[tuple[Key, Name]], bool] = {}

    def try_it(self, chooser: Switches) -> bool:
        """Run once more. A failure with fewer switches is the best run from now on."""
        if self.replays >= self.limit:
            raise _Enough
        self.replays += 1
        failed = self.fails(chooser)
        if not failed:
            self.passed.append(tuple(chooser.names))
        elif self.best is None or _size(chooser) < _size(self.best):
            self.best = chooser
        return failed

    def better(self, switches: Mapping[Key, Name]) -> bool:
        """Say whether a run with these switches fails and is better than the best one; it is that from then on."""
        asked = frozenset(switches.items())
        if asked in self.known:
            return False
        before = self.best
        self.known[asked] = self.try_it(Switches(dict(switches)))
        return self.best is not before

    def minimize(self) -> None:
        """Leave out parts of the switches, ever smaller ones, until each of those left is needed."""
        parts = 2
        while self.best is not None and (switches := list(self.best.targets().items())):
            parts = min(parts, len(switches))
            bounds = [len(switches) * each // parts for each in range(parts + 1)]
            for start, stop in pairwise(bounds):
                if self.better(dict(switches[:start] + switches[stop:])):
                    parts = max(parts - 1, 2)
                    break
            else:
                if parts >= len(switches):
                    return
                parts = min(2 * parts, len(switches))

    def draw(self, until: int) -> None:
        """Draw other runs, up to so many replays in all, and make small what fails: until a run has few switches."""
        drawn = Pct(switches=1)
        while self.best is not None and len(self.best.forced) > FEW and self.replays < until:
            kept, chooser = self.best, Switches({}, by=drawn)
            self.best = None
            try:
                self.try_it(chooser)
                drawn.over()
                self.minimize()
            finally:
                if self.best is None or _size(kept) <= _size(self.best):
                    self.best = kept

    def aim(self) -> bool:
        """Let a switch go to another actor, or come earlier or later. Returns whether that made the run shorter."""
        assert self.best is not None
        switches = self.best.targets()
        for key, each in reversed(self.best.forced.items()):
            for other in each.others:
                if other != each.instead_of and self.better({**switches, key: other}):
                    return True
        return False

    def shift(self) -> bool:
        """Let two switches that follow each other be one. Returns whether that made the run shorter."""
        assert self.best is not None
        switches = self.best.targets()
        keys = list(switches)
        for first, second in pairwise(keys):
            left = {key: name for key, name in switches.items() if key != second}
            if self.better({**left, first: switches[second]}):
                return True
        return False

    def drop_two(self) -> bool:
        """Leave out two switches at once, where neither can go alone. Returns whether that made the run shorter."""
        assert self.best is not None
        switches = self.best.targets()
        keys = list(switches)
        for apart in range(1, len(keys)):
            for at in range(len(keys) - apart):
                gone = keys[at], keys[at + apart]
                if self.better({key: name for key, name in switches.items() if key not in gone}):
                    return True
        return False


def _size(chooser: Switches) -> tuple[int, int]:
    return len(chooser.forced), len(chooser.names)


def shrink(fails: Callable[[Switches], bool], names: Sequence[Name], limit: int = 300) -> Shrunk | None:
    """Return the run with the fewest switches that still fails, as far as `limit` replays find it.

    `fails` runs the program under a chooser and says whether it fails in the same way; `names` are what came in the run
    that failed. None where that run does not fail again.
    """
    work = _Shrinking(fails, max(1, limit - limit // 10))
    given = Switches({}, names)
    if not work.try_it(given):
        return None
    try:
        work.better({})
        work.minimize()
        work.draw(limit // 2)
        while work.aim() or work.shift() or work.drop_two():
            work.minimize()
    except _Enough:
        pass
    best = work.best
    assert best is not None
    work.limit = limit
    switches = best.targets()
    for key in reversed(list(switches)):
        left = {each: name for each, name in switches.items() if each != key}
        if work.replays < limit and frozenset(left.items()) not in work.known:
            work.try_it(Switches(left))
    passing = max(work.passed, key=lambda each: _common(each, best.names), default=None)
    return Shrunk(tuple(best.names), tuple(best.forced.values()), passing, work.replays, len(given.forced))


def _common(one: Sequence[Name], other: Sequence[Name]) -> int:
    """Return how many choices two runs have in common, from the first."""
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return min(len(one), len(other))
