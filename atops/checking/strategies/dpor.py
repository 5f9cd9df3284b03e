"""Dynamic partial order reduction: another way is tried at a choice only where a later step says that it matters.

After Abdulla, Aronis, Jonsson and Sagonas, Optimal Dynamic Partial Order Reduction (POPL 2014): source sets with sleep
sets. A run is a sequence of events; each has a vector clock of what happened before it: the earlier events of its
actor, those it depends on, and those without which it could not have come. Two dependent events that nothing else
orders are a race: they are also tried the other way round.

A step with choices in its middle is several events that nothing of another actor comes between, a group.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import ClassVar

from atops.base.choice import Name
from atops.base.footprint import UNKNOWN, independent
from atops.checking.strategies.exhaustive import Exhaustive, Node

__all__ = ("Dpor",)

Clock = dict[Name, int]  # of each actor, how many steps of the run its last known event is from the start


class Dpor(Exhaustive):
    """One schedule of each class, as the exhaustive strategy with sleep sets, and fewer that are cut short."""

    name: ClassVar[str] = "dpor"

    def begin_anew(self) -> None:
        """Forget all runs."""
        super().begin_anew()
        # One for each event of the path:
        self._clocks: list[Clock] = []
        self._outers: list[int] = []  # the event that its group begins with
        self._woken: list[bool] = []  # whether it is not all known what made its actor ready
        self._turns: dict[Name, list[int]] = {}  # of each actor, its events
        self._given: dict[Hashable, list[int]] = {}  # the events that gave something

    def opened(self, node: Node) -> None:
        """Mark what the run has chosen as to be tried, and all names after a step that was half asleep.

        Other names are added when a later event races with this one; half asleep, a run may end before that event.
        """
        if node.inner and self._half(next(each for each in reversed(self.path) if not each.inner)):
            node.todo.update(node.names)
        else:
            node.todo.add(node.names[node.index])

    def gone(self, outer: Node, names: Collection[Name]) -> None:
        """Mark names that cannot come any more as to be tried: no later step of theirs would show that it matters."""
        for each in (outer, *self._middle()):
            each.todo.update(name for name in each.names if name not in names)

    def others(self, node: Node) -> Sequence[int]:
        """Return what has to be tried, in the order of the names."""
        return [index for index, name in enumerate(node.names) if name in node.todo]

    def learn(self) -> None:
        """Find the races of the run in which one event at least is new, and note where to go the other way."""
        start = min(self.changed, len(self.path))
        del self._clocks[start:], self._woken[start:], self._outers[start:]
        for events in (*self._turns.values(), *self._given.values()):
            while events and events[-1] >= start:
                events.pop()
        for at in range(start, len(self.path)):
            self._add(at)

    def _add(self, at: int) -> None:
        """Give the event its clock, and try races with it the other way round."""
        event, clocks = self.path[at], self._clocks
        name, touched = event.name, event.own or UNKNOWN
        mine = self._turns.setdefault(name, [])
        clock = dict(clocks[mine[-1]]) if mine else {}
        woken = False
        if touched.needs:
            for what in touched.needs:
                for giver in self._given.get(what, ()):
                    _join(clock, clocks[giver])
        elif not event.inner:
            woken = self._wake(at, clock)
        self._outers.append(self._outers[-1] if event.inner else at)
        races = self._races(at, clock)
        clock[name] = at + 1
        clocks.append(clock)
        self._woken.append(woken)
        mine.append(at)
        for what in touched.gives:
            self._given.setdefault(what, []).append(at)
        for earlier in races:
            self._reverse(earlier, at)

    def _races(self, at: int, clock: Clock) -> list[int]:
        """Complete the clock of an event. Returns what begins the groups that it races with, the latest first."""
        path, clocks = self.path, self._clocks
        name, touched = path[at].name, path[at].own or UNKNOWN
        races = []
        last = at - 1
        while last >= 0:
            begin = self._outers[last]
            after = clock.get(path[begin].name, 0) > begin  # it can come before no part of the group
            race = False
            for each in range(last, begin - 1, -1):
                other = path[each]
                if other.name == name or clock.get(other.name, 0) > each or independent(other.own, touched):
                    continue
                _join(clock, clocks[each])
                place = self._within(begin, each, name)
                if place >= 0:
                    path[place].todo.add(name)
                elif not after and begin != self._outers[at]:
                    race = True
            if race:
                races.append(begin)
            last = begin - 1
        return races

    def _within(self, begin: int, last: int, name: Name) -> int:
        """Return which choice in the middle of a group the actor could have come at, before an event of it; or -1."""
        path = self.path
        return next((each for each in range(last, begin, -1) if name in path[each].names), -1)

    def _wake(self, at: int, clock: Clock) -> bool:
        """Put what made the actor of an event ready into its clock; tell whether anything did since its last event."""
        path, clocks = self.path, self._clocks
        name = path[at].name
        ready = at  # the first choice known to have had the actor
        for before in range(at - 1, -1, -1):
            node = path[before]
            if node.name == name:
                return False
            if name in node.names:
                ready = before
            elif not node.inner and node.known:
                for each in range(before, ready):
                    _join(clock, clocks[each])
                return True
        return False

    def _reverse(self, earlier: int, later: int) -> None:
        """See that a run without the earlier event, but with all that does not come after it, is tried from there."""
        path, clocks = self.path, self._clocks
        node = path[earlier]
        actor = node.name
        kept: list[int] = []
        first: list[Name] = []  # the actors that can begin such a run
        seen: set[Name] = set()
        for at in range(earlier + 1, later + 1):
            clock = clocks[at]
            if at != later and clock.get(actor, 0) > earlier:
                continue
            name = path[at].name
            initial = name not in seen and not any(clock.get(path[each].name, 0) > each for each in kept)
            if initial and not path[at].inner:
                first.append(name)
            seen.add(name)
            kept.append(at)
        able = [name for name in first if name in node.names]
        if not able:
            node.todo.update(node.names)
        elif any(self._woken[at] for at in kept):
            # What made an actor ready may be more than the one event known: any of these may be the one that can begin.
            node.todo.update(able)
        elif node.todo.isdisjoint(able):
            node.todo.add(able[0])


def _join(clock: Clock, other: Clock) -> None:
    for name, count in other.items():
        if clock.get(name, 0) < count:
            clock[name] = count
