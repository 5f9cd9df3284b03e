"""Every schedule, depth first; with sleep sets, one schedule of each class that differs only in independent steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import Any, ClassVar, NamedTuple

from atops.base.choice import Name, told
from atops.base.footprint import UNKNOWN, StepAccesses, commute_now, independent, together
from atops.checking.strategies.strategy import CutShort, Differs, usual

__all__ = ("Class", "Exhaustive", "Node", "Sleeper", "class_of")

Class = tuple[frozenset[Any], frozenset[Any]]


class Sleeper(NamedTuple):
    """What need not come: what its step touches if it goes on at each choice in its middle, and all that it may touch.

    If it is `half` asleep, something that can come in the middle of its step matters: only then the step leads to
    something new.
    """

    main: StepAccesses | None
    whole: StepAccesses | None
    half: bool = False


Sleep = dict[Name, Sleeper]


class Node:
    """A choice on the path of the run: what could come, what comes, what that touched, and what need not come.

    `sleep` has the names whose next step leads nowhere new from here, each with what that step touches; among them
    those that have been tried here. A choice is `inner` that comes up in the middle of a step: the actor goes on, or
    something of its own comes first. `accesses` are those of the whole step, whichever way its inner choices went until
    now, `main` those if it goes on at each, and `own` those from this choice to the next. `known` is False where what
    else could come is not all there.
    """

    __slots__ = ("accesses", "index", "inner", "known", "main", "names", "own", "sleep", "todo")

    def __init__(self, names: tuple[Name, ...], index: int, sleep: Sleep) -> None:
        self.names, self.index, self.sleep = names, index, sleep
        self.accesses: StepAccesses | None = None
        self.main: StepAccesses | None = None
        self.own: StepAccesses | None = None
        self.inner = False
        self.known = True
        self.todo: set[Name] = set()  # of dpor: what must be tried here

    @property
    def name(self) -> Name:
        """What comes."""
        return self.names[self.index]

    def turn_to(self, index: int) -> None:
        """Let something else come."""
        self.index, self.accesses, self.main, self.own = index, None, None, None

    def asleep(self, name: Name) -> bool:
        """Return whether a step that could come is known to lead nowhere new, whatever comes in its middle."""
        sleeper = self.sleep.get(name)
        return sleeper is not None and not sleeper.half


class Exhaustive:
    """Depth first through all choices; what is known to commute is tried in one order only, unless `prune` is False.

    Schedules that were run to their end are then exactly one of each class of equivalent ones; those cut short are
    found to be equivalent on the way.
    """

    name: ClassVar[str] = "exhaustive"

    def __init__(self, prune: bool = True, twice: bool = False) -> None:
        """Look at all schedules, or at all but those that differ in independent steps alone.

        `twice`: what a step touches differs with what came in its middle, as in strict mode, where the issue of a
        transfer stores poison: so sleep sets may let a class come twice, and what comes again is looked for.
        """
        self.prunes, self.twice = prune, twice
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all runs."""
        self.exhausted = False
        self._met: set[int] = set()  # the classes that were run, where one may come twice
        self.path: list[Node] = []
        self._at = 0
        self.changed = 0  # the first step that is another one than in the run before

    def choose(self, kind: str, names: Sequence[Name]) -> int:
        """Return the choice of this run: the path's, as far as the path goes; then the first that is not asleep."""
        return self._next(names, False)

    def go_on(self, names: Sequence[Name]) -> int:
        """Return the index of what comes next in the middle of a step, as `choose`."""
        return self._next(names, True)

    def _next(self, names: Sequence[Name], inner: bool) -> int:
        at = self._at
        path = self.path
        if at < len(path):
            self._at = at + 1
            node = path[at]
            if len(names) != len(node.names) or node.names[node.index] != names[node.index]:
                before, now = (", ".join(map(told, each)) for each in (node.names, names))
                raise Differs(
                    f"the program differs between two runs of one schedule: at choice {at} there were {before}, and "
                    f"now {now}; it depends on something else, too"
                )
            return node.index
        sleep: Sleep = {}
        node = Node(tuple(names), 0, sleep)
        node.inner = inner
        if path and self.prunes:
            last = path[-1]
            if not inner:
                self._compare(node)
            if not node.inner:
                self._end_step()
            done, chosen = last.own, last.names[last.index]
            for name, sleeper in last.sleep.items() if done is not None else ():
                if name != chosen and commute_now(sleeper.main, done):
                    awake = sleeper.half or not commute_now(sleeper.whole, done)
                    sleep[name] = sleeper._replace(half=awake)
        index = usual(names)
        if sleep and node.asleep(names[index]):
            index = next((each for each, name in enumerate(names) if not node.asleep(name)), -1)
            if index < 0:
                raise CutShort("every step that could come leads where another run has been")
        node.index = index
        if node.inner and path[-1].inner and path[-1].index and (own := path[-1].own) is not None:
            self._hand_out(own, main=False)  # it matters that it came there: else this run would have been cut short
        path.append(node)
        self._at = at + 1
        self.opened(node)
        return index

    def ended(self) -> None:
        """Look at what the run has left undone. Raises CutShort where the last step should not have come."""
        if self.path and self.prunes:
            self._end_step()
            self.gone(self._outer(), ())
            if self.twice:
                if (key := hash(class_of(self.path))) in self._met:
                    raise CutShort("another run was of the same class")
                self._met.add(key)

    def gone(self, outer: Node, names: Collection[Name]) -> None:
        """Look at a step after which some of what could have come instead cannot come any more; `names` can."""

    def _end_step(self) -> None:
        """Check the last step. Raises CutShort where something had to come in its middle, and nothing did."""
        if self._half(self._outer()) and not any(each.index for each in self._middle()):
            raise CutShort("this step leads where another run has been")

    @staticmethod
    def _half(outer: Node) -> bool:
        """Return whether what began the step was half asleep."""
        sleeper = outer.sleep.get(outer.name)
        return sleeper is not None and sleeper.half

    def _middle(self) -> list[Node]:
        """Return the choices in the middle of the last step."""
        return list(takewhile(lambda each: each.inner, reversed(self.path)))

    def _compare(self, node: Node) -> None:
        """Compare what can come now with what could come before, but for the step that came.

        If something of that cannot come any more, `node` is a choice in the middle of a step, or the last step has
        removed it: then nothing is known about what depends on that step.
        """
        outer = self._outer()
        names, chosen = node.names, outer.names[outer.index]
        now = set(names)
        if all(name in now for name in outer.names if name != chosen):
            return
        if len(names) == 2 and names[0] == chosen:
            node.inner = True
            return
        node.known = False
        self.gone(outer, now)
        for each in (*self._middle(), outer):
            each.accesses = each.main = each.own = together(each.own or UNKNOWN, UNKNOWN)

    def _outer(self) -> Node:
        """Return the choice that began the last step."""
        return next(each for each in reversed(self.path) if not each.inner)

    def opened(self, node: Node) -> None:
        """Look at a choice that has come up for the first time."""

    def note(self, accesses: StepAccesses | None) -> None:
        """Take what the step chosen last has touched."""
        at = self._at - 1
        if at < 0 or at + 1 != len(self.path):  # it is known from the run before
            return
        node = self.path[at]
        if accesses is None:
            accesses = UNKNOWN
        if not node.known:
            accesses = together(accesses, UNKNOWN)
        node.own = accesses if node.own is None else together(node.own, accesses)
        if not (node.inner and node.index):
            # For the others this is one step with what came before.
            self._hand_out(accesses, main=not any(each.index for each in self._middle()))

    def _hand_out(self, accesses: StepAccesses | None, main: bool) -> None:
        """Add accesses of a part of the step that came last to those of the whole."""
        for each in {self.path[-1], self._outer()}:
            each.accesses = accesses if each.accesses is None else together(each.accesses, accesses)
            if main:
                each.main = accesses if each.main is None else together(each.main, accesses)

    def over(self) -> bool:
        """Turn the last choice that has another way to something else. Returns False when there is none left.

        Raises Differs where the run has ended before its path.
        """
        path = self.path
        if self._at < len(path):
            names = ", ".join(map(told, path[self._at].names))
            raise Differs(
                f"the program differs between two runs of one schedule: it has ended, and at choice {self._at} there "
                f"were {names} before; it depends on something else, too"
            )
        self.learn()
        self._at = 0
        while path:
            node = path[-1]
            node.sleep[node.name] = Sleeper(node.main, node.accesses)
            for index in self.others(node):
                if not node.asleep(node.names[index]):
                    node.turn_to(index)
                    self.changed = len(path) - 1
                    return True
            path.pop()
        self.exhausted = True
        return False

    def learn(self) -> None:
        """Look at the run that is over."""

    def others(self, node: Node) -> Sequence[int]:
        """Return what to try at a choice: everything."""
        return range(len(node.names))


def class_of(path: Sequence[Node]) -> Class:
    """Return which steps a run had, and what comes before what because they depend on each other."""
    events: list[tuple[Name, int]] = []
    turns: dict[Name, int] = {}
    before: list[set[int]] = []
    for at, node in enumerate(path):
        nth = turns[node.name] = turns.get(node.name, -1) + 1
        events.append((node.name, nth))
        mine: set[int] = set()
        for earlier in range(at - 1, -1, -1):
            if earlier not in mine and (
                path[earlier].name == node.name or not independent(path[earlier].own or UNKNOWN, node.own or UNKNOWN)
            ):
                mine |= {earlier, *before[earlier]}
        before.append(mine)
    order = {(events[first], events[at]) for at, those in enumerate(before) for first in those}
    return frozenset(events), frozenset(order)
