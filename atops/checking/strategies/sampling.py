"""Schedules by seed, random ones and those of probabilistic concurrency testing; and one schedule again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import ClassVar

from atops.base.choice import NEXT, Name, Random
from atops.base.footprint import StepAccesses
from atops.base.schedule_string import Recorded, RecordedReplay
from atops.checking.strategies.strategy import Differs

__all__ = ("Pct", "RandomRuns", "Repeated")

# Turns in a row after which an actor of PCT that others wait for goes behind them: it may be polling for what they do.
PATIENCE = 200


class RandomRuns:
    """A random run for each seed, from `seed` on. Each run gives the kinds of choices other weights."""

    name: ClassVar[str] = "random"
    exhausted: ClassVar[bool] = False
    prunes: ClassVar[bool] = False

    def __init__(self, seed: int = 0) -> None:
        self._run = Random(seed)

    @property
    def choose(self) -> Callable[[str, Sequence[Name]], int]:
        """The function of this run that returns a random position."""
        return self._run.choose

    def drawing(self) -> Random:
        """Return what draws steps of kernels in this run."""
        return self._run

    def go_on(self, names: Sequence[Name]) -> int:
        """Go on."""
        return 0

    def ended(self) -> None:
        """Take no notice."""

    def note(self, accesses: StepAccesses | None) -> None:
        """Take no notice."""

    def over(self) -> bool:
        """Go on to the next seed."""
        self._run = Random(self._run.seed + 1)
        return True


class Pct:
    """Each actor has a random priority, and the highest that can go on does; at `switches` points it falls to the end.

    A bug that takes d orderings to show is met with a probability of at least 1 / (actors x steps ** (d - 1)) in each
    run (Burckhardt and others, ASPLOS 2010), where d is `switches` + 1. Where the points lie is drawn from the steps
    that the longest run so far had, for each kind of choice by itself: a kernel has hundreds of turns where a stream
    has three commands.
    """

    name: ClassVar[str] = "pct"
    exhausted: ClassVar[bool] = False
    prunes: ClassVar[bool] = False

    def __init__(self, seed: int = 0, switches: int = 2) -> None:
        self.switches = switches
        self._seed = seed
        self._steps: dict[str, int] = {}  # of each kind, the choices that the longest run had
        self._begin()

    def _begin(self) -> None:
        self._random = random.Random(self._seed * 1_000_003 + self.switches)
        self._priorities: dict[Name, float] = {}
        self._lowest = 0.0
        self._count: dict[str, int] = {}
        self._last: Name | None = None
        self._in_a_row = 0
        kinds = sorted(kind for kind, steps in self._steps.items() if steps)
        self._points: set[tuple[str, int]] = set()
        for _ in range(self.switches if kinds else 0):
            kind = self._random.choice(kinds)
            self._points.add((kind, self._random.randrange(self._steps[kind])))

    def choose(self, kind: str, names: Sequence[Name]) -> int:
        """Return the position of the highest priority, after a fall if this is the place for one."""
        index = self._highest(names)
        if len(names) == 1:
            return 0
        group = str(names[index][0]) if kind == NEXT else kind
        count = self._count[group] = self._count.get(group, 0) + 1
        name = names[index]
        self._in_a_row = self._in_a_row + 1 if name == self._last else 0
        if (group, count - 1) in self._points or self._in_a_row > PATIENCE:
            self._lowest -= 1.0
            self._priorities[name] = self._lowest
            self._in_a_row = 0
            index = self._highest(names)
        self._last = names[index]
        return index

    def go_on(self, names: Sequence[Name]) -> int:
        """Go on."""
        return 0

    def ended(self) -> None:
        """Take no notice."""

    def note(self, accesses: StepAccesses | None) -> None:
        """Take no notice."""

    def over(self) -> bool:
        """Go on to the next seed, knowing how long the runs are."""
        for group, count in self._count.items():
            self._steps[group] = max(count, self._steps.get(group, 0))
        self._seed += 1
        self._begin()
        return True

    def _highest(self, names: Sequence[Name]) -> int:
        best, index = float("-inf"), 0
        for each, name in enumerate(names):
            priority = self._priorities.get(name)
            if priority is None:
                priority = self._priorities[name] = self._random.random()
            if priority > best:
                best, index = priority, each
        return index


class Repeated:
    """The run that a string tells. Where the program is another one, the run is the strategy's end as Differs."""

    name: ClassVar[str] = "schedule"
    exhausted: ClassVar[bool] = False
    prunes: ClassVar[bool] = False

    def __init__(self, recorded: Recorded) -> None:
        self._replay = RecordedReplay(recorded)

    def choose(self, kind: str, names: Sequence[Name]) -> int:
        """Return the position of what came."""
        index = self._replay.choose(kind, names)
        if self._replay.departure is not None:
            raise Differs(f"the run departs from its schedule at {self._replay.departure}")
        return index

    def go_on(self, names: Sequence[Name]) -> int:
        """Go on."""
        return 0

    def ended(self) -> None:
        """Take no notice."""

    def note(self, accesses: StepAccesses | None) -> None:
        """Take no notice."""

    def over(self) -> bool:
        """End: there is one run. Raises Differs where it was over before its schedule."""
        if (departure := self._replay.ended()) is not None:
            raise Differs(f"the run departs from its schedule at {departure}")
        return False
