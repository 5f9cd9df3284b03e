"""Dynamic partial order reduction: another way is tried at a choice only where a later step says that it matters.

After Abdulla, Aronis, Jonsson and Sagonas, Optimal Dynamic Partial Order Reduction (POPL 2014): source sets with sleep
sets. A run is a sequence of events; each has a vector clock of what happened before it: the earlier events of its
actor, those it depends on, and the event that made its actor ready. Two dependent events that nothing else orders are
a race: they are also tried the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from atops.base.choice import Name
from atops.checking.strategies.exhaustive import Exhaustive, Node
from atops.checking.strategies.strategy import independent

__all__ = ("Dpor",)

Clock = dict[Name, int]  # of each actor, how many steps of the run its last known event is from the start


class Dpor(Exhaustive):
    """One schedule of each class, as the exhaustive strategy with sleep sets, and fewer that are cut short."""

    name: ClassVar[str] = "dpor"

    def __init__(self) -> None:
        super().__init__()
        self._clocks: list[Clock] = []  # one for each event of the path
        self._latest: list[Clock] = []  # beside it, the clock of its actor before it: program order and wake-up
        self._woken: list[bool] = []  # whether it was another's step that made the event's actor ready

    def opened(self, node: Node) -> None:
        """Try what the run has chosen; what else, later events say."""
        if node.inner:
            node.todo.update(node.names)
        else:
            node.todo.add(node.names[node.index])

    def others(self, node: Node) -> Sequence[int]:
        """Return what has to be tried, in the order of the names."""
        return [index for index, name in enumerate(node.names) if name in node.todo]

    def learn(self) -> None:
        """Find the races of the run in which one event at least is new, and note where to go the other way."""
        path, clocks = self.path, self._clocks
        start = min(self.changed, len(path))
        del clocks[start:], self._woken[start:]
        for at in range(start, len(path)):
            self._add(at)

    def _add(self, at: int) -> None:
        """Give the event its clock, and try races with it the other way round."""
        path, clocks = self.path, self._clocks
        event = path[at]
        if event.inner:  # it belongs to the event before
            clocks.append(clocks[-1])
            self._woken.append(False)
            return
        name, touched = event.name, event.accesses
        clock, woken = self._ready_at(at)
        races = []
        for earlier in range(at - 1, -1, -1):
            other = path[earlier]
            actor = other.name
            if actor == name or other.inner or independent(other.accesses, touched):
                continue
            if clock.get(actor, 0) <= earlier:
                races.append(earlier)
                _join(clock, clocks[earlier])
        clock[name] = at + 1
        clocks.append(clock)
        self._woken.append(woken)
        for earlier in races:
            self._reverse(earlier, at)

    def _ready_at(self, at: int) -> tuple[Clock, bool]:
        """Return what happened before the event by its actor's own steps, and by what made it ready."""
        path, clocks = self.path, self._clocks
        name = path[at].name
        clock: Clock = {}
        woken, ready = False, at  # ready: the first choice known to have had the actor
        for before in range(at - 1, -1, -1):
            node = path[before]
            if node.inner or not node.known:
                continue
            if node.name == name:
                _join(clock, clocks[before])
                break
            if not woken:
                if name in node.names:
                    ready = before
                else:
                    woken = True
                    for each in range(before, ready):
                        _join(clock, clocks[each])
        return clock, woken

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
            if path[at].inner:
                continue
            if name not in seen and not any(clock.get(path[each].name, 0) > each for each in kept):
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
