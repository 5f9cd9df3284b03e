"""Every schedule, depth first; with sleep sets, one schedule of each class that differs only in independent steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from atops.base.choice import Name, told
from atops.checking.strategies.strategy import CutShort, Differs, StepAccesses, independent, together, usual

__all__ = ("Exhaustive", "Node")

Sleep = dict[Name, StepAccesses | None]


class Node:
    """A choice on the path of the run: what could come, what comes, what that touched, and what need not come.

    `sleep` has the names whose next step leads nowhere new from here, each with what that step touches; among them
    those that have been tried here. A choice is `inner` that comes up in the middle of a step: the actor goes on, or
    something of its own comes first. `known` is False where what else could come is not all there.
    """

    __slots__ = ("accesses", "index", "inner", "known", "names", "noted", "sleep", "todo")

    def __init__(self, names: tuple[Name, ...], index: int, sleep: Sleep) -> None:
        self.names, self.index, self.sleep = names, index, sleep
        self.accesses: StepAccesses | None = None
        self.noted = self.inner = False
        self.known = True
        self.todo: set[Name] = set()  # of dpor: what must be tried here

    @property
    def name(self) -> Name:
        """What comes."""
        return self.names[self.index]

    def turn_to(self, index: int) -> None:
        """Let something else come: what has come is asleep from now on."""
        self.sleep[self.names[self.index]] = self.accesses
        self.index, self.accesses, self.noted = index, None, False


class Exhaustive:
    """Depth first through all choices; what is known to commute is tried in one order only, unless `prune` is False.

    Schedules that were run to their end are then exactly one of each class of equivalent ones; those cut short are
    found to be equivalent on the way.
    """

    name: ClassVar[str] = "exhaustive"

    def __init__(self, prune: bool = True) -> None:
        self.prune = prune
        self.exhausted = False
        self.path: list[Node] = []
        self._at = 0
        self.changed = 0  # the first step that is another one than in the run before

    def choose(self, kind: str, names: Sequence[Name]) -> int:
        """Return what this run has here: on the path, what it says; behind it, the first that does not sleep."""
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
        if path and self.prune:
            last = path[-1]
            self._compare(last, node)
            done, chosen = last.accesses, last.names[last.index]
            if done is not None and last.sleep:
                sleep = {name: each for name, each in last.sleep.items() if name != chosen and independent(each, done)}
                node.sleep = sleep
        index = usual(names)
        if sleep and names[index] in sleep:
            index = next((each for each, name in enumerate(names) if name not in sleep), -1)
            if index < 0:
                raise CutShort("every step that could come leads where another run has been")
        node.index = index
        path.append(node)
        self._at = at + 1
        self.opened(node)
        return index

    @staticmethod
    def _compare(last: Node, node: Node) -> None:
        """See whether all that could come before can come now, but for what has come.

        Where it cannot, `node` is a choice within a step, or nothing is known about what depends on what.
        """
        names, chosen = node.names, last.names[last.index]
        if all(name in names for name in last.names if name != chosen):
            return
        if len(names) == 2 and names[0] == chosen:
            node.inner = True
        else:
            node.known = False
            last.accesses, last.noted = None, True

    def opened(self, node: Node) -> None:
        """Look at a choice that has come up for the first time."""

    def note(self, accesses: StepAccesses | None) -> None:
        """Take what the step chosen last has touched."""
        at = self._at - 1
        if at < 0 or at + 1 != len(self.path):  # it is known from the run before
            return
        node = self.path[at]
        if not node.known:
            accesses = None
        node.accesses = together(node.accesses, accesses) if node.noted else accesses
        node.noted = True
        while node.inner:  # for the others this is one step with what came before
            at -= 1
            node = self.path[at]
            node.accesses = together(node.accesses, accesses)

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
            node.sleep[node.names[node.index]] = node.accesses
            for index in self.others(node):
                if node.names[index] not in node.sleep:
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
