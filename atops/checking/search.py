"""Running a program under one schedule after another until it fails, and making the failing schedule small.

It knows a program as a function of a chooser; what stands behind that is for `check.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from atops.base.choice import Chooser, Name, Plain
from atops.base.footprint import StepAccesses
from atops.checking.shrink import Shrunk, Switches, shrink
from atops.checking.strategies.exhaustive import Exhaustive
from atops.checking.strategies.strategy import Differs, Recorder, Strategy

__all__ = ("DIFFERENT", "Ended", "Failure", "Found", "Progress", "Run", "Verdict", "alike", "search")

Verdict: TypeAlias = Literal["proved", "explored", "inconclusive", "failed"]

DIFFERENT = "different results"
_first = itemgetter(0)
NOT_AGAIN = "it failed once, and not again under the same schedule: it depends on something else, too"


class Failure(NamedTuple):
    """How a run failed."""

    kind: str
    """"exception", "assertion", "race", "deadlock", "step limit" or "different results"."""
    text: str
    error: BaseException | None = None
    places: tuple[str, ...] = ()
    """Where it was raised; of a run with races, the kind and the lines of each, first of the one that `text` tells."""

    @property
    def signature(self) -> tuple[str, str]:
        """The kind, and that of the error."""
        return self.kind, "" if self.kind == "race" else type(self.error).__name__

    def found_in(self, other: Failure | None) -> bool:
        """Whether another run has failed in the same way, in the same place."""
        if other is None or other.signature != self.signature:
            return False
        return not self.places or self.places[0] in other.places


class Ended(NamedTuple):
    """How a run ended: what it returned, or how it failed. Neither counts where its chooser has cut it short."""

    result: object = None
    failure: Failure | None = None


Run: TypeAlias = Callable[[Chooser], Ended]


@dataclass(frozen=True)
class Found:
    """What a search has found."""

    verdict: Verdict
    why: str
    """Of a verdict that is inconclusive, what stood in the way; of "explored" and "proved", what was covered."""
    runs: int
    """All that were made, but for the replays of shrinking."""
    cut: int
    """Of those, the runs that were cut short because they led where another one had been."""
    choices: int
    """In the longest run."""
    failure: Failure | None = None
    names: tuple[Name, ...] = ()
    """What came in the failing run, before it was made small."""
    shrunk: Shrunk | None = None
    passing: tuple[Name, ...] | None = None
    """What came in a run that did not fail."""


@dataclass
class Progress:
    """How far a check is, while it runs: `check(program, progress=Progress())`, read from any thread."""

    stage: str = "waiting"
    """"waiting", "searching", "shrinking" or "over"."""
    runs: int = 0
    """Schedules that were run."""
    cut: int = 0
    """Of those, the runs that led where another one had been."""
    asked: int = 0
    """How many schedules are allowed."""
    replays: int = 0
    """Runs that make the failing schedule small."""
    choices: int = 0
    """In the longest run."""
    kinds: Counter[str] = field(default_factory=Counter)
    """How often what came was of each kind: "thread", "transfer", "stream", ..."""
    failure: Failure | None = None
    """What was found."""
    stopped: bool = False
    """Set it to end the check after the run that goes on."""


class _Always:
    """The strategy of one run: first come, first served."""

    name = "plain"
    exhausted = prunes = False

    def __init__(self) -> None:
        self.choose = Plain().choose
        self.options = 1  # the most names that a choice had

    def go_on(self, names: Sequence[Name]) -> int:
        """Go on."""
        return 0

    def ended(self) -> None:
        """Take no notice."""

    def note(self, accesses: StepAccesses | None) -> None:
        """Take no notice."""

    def over(self) -> bool:
        """There is one run."""
        return False


def alike(one: object, other: object) -> bool:
    """Whether two results are the same: arrays by their elements, NaN like NaN, also in lists, tuples and dicts."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        left, right = np.asarray(one), np.asarray(other)
        floats = left.dtype.kind in "fc" and right.dtype.kind in "fc"
        return left.shape == right.shape and bool(np.array_equal(left, right, equal_nan=floats))
    if type(one) is type(other) and isinstance(one, list | tuple):
        assert isinstance(other, list | tuple)
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(value, other[key]) for key, value in one.items())
    return bool(one == other) or (one != one and other != other)


def search(
    run: Run, strategy: Strategy, schedules: int, *, same_result: bool = False, replays: int = 300,
    stopped: Callable[[], bool] = bool, progress: Progress | None = None,
) -> Found:  # fmt: skip
    """Run under the plain schedule and then under those of the strategy, `schedules` in all; stop at the first failure.

    Where `same_result` every run has to return what the first one did. `replays` bounds the runs that make a failing
    schedule small; 0 leaves it as it is. `stopped` is asked between two runs. `progress` is kept up
    to date.
    """
    work = _Search(run, same_result, progress)
    plain = strategy.name in ("random", "pct")  # the others begin with it by themselves
    strategies: list[Strategy] = [_Always(), strategy] if plain else [strategy]
    failed: Failure | None = None
    stopped_at, another = False, True
    for each in strategies:
        another = True
        while another and failed is None and work.runs < schedules:
            if stopped_at := stopped():
                break
            failed = work.once(each)
            try:
                if work.refused and failed is None and isinstance(each, Exhaustive):
                    work.begin_anew(each)
                else:
                    another = failed is not None or (not work.differs and each.over())
            except Differs as error:
                work.differs = str(error)
            if work.differs:
                return work.found("inconclusive", work.differs)
    if failed is not None:
        return work.make_small(failed, replays)
    if stopped_at:
        return work.found("inconclusive", "it was stopped")
    return work.passed(strategy)


class _Search:
    def __init__(self, run: Run, same_result: bool, progress: Progress | None) -> None:
        self.run, self.same_result, self.progress = run, same_result, progress
        self.runs = self.cut = self.choices = self.most_options = 0
        self.names: tuple[Name, ...] = ()
        self.passing: tuple[Name, ...] | None = None
        self.first: Ended | None = None
        self.commands = True  # whether runs are asked to tell what steps of streams and engines touch
        self.refused = False  # whether the last one could not
        self.coarse = False  # whether there are orders that no schedule has
        self.unsplit = ""  # where threads overwrite what they have read: nothing comes between in any schedule
        self.differs = ""  # where the program is not the same in two runs of one schedule

    def once(self, strategy: Strategy) -> Failure | None:
        """Run once. Returns how it failed."""
        chooser = Recorder(strategy, commands=self.commands)
        self.runs += 1
        try:
            ended = self.run(chooser)
            chooser.over()
        finally:
            counted = chooser.counted
            self.choices = max(self.choices, len(counted))
            if self.most_options <= 1:
                self.most_options = max(self.most_options, chooser.most)
            if (progress := self.progress) is not None:
                progress.runs, progress.choices = self.runs, self.choices
                progress.kinds.update(map(_first, map(_first, counted)))
            self.coarse = self.coarse or chooser.coarse
            if chooser.footprint is not None:
                self.unsplit = self.unsplit or chooser.footprint.unsplit
        if isinstance(chooser.cut, Differs):
            self.differs = str(chooser.cut)
            return None
        self.refused = self.commands and chooser.footprint is not None and bool(chooser.footprint.refused)
        if chooser.cut is not None:
            self.cut += 1
            if self.progress is not None:
                self.progress.cut = self.cut
            return None
        failure = self.judge(ended)
        if failure is not None:
            self.names = tuple(chooser.names)
        elif self.passing is None:
            self.passing = tuple(chooser.names)
        return failure

    def passed(self, strategy: Strategy) -> Found:
        """Return what is known where nothing has failed."""
        alone = self.most_options <= 1 and self.runs > 0
        if self.unsplit:
            return self.found("explored", self.unsplit)
        if self.coarse or not (alone or strategy.exhausted):  # coarse: of kernels in C++ not every order is run
            return self.found("explored", "")
        if not self.comes_again():
            return self.found("inconclusive", "the program differs between two runs of one schedule")
        if alone:
            return self.found("proved", "nothing in it could come in another order")
        classes = self.runs - self.cut
        many = f"one schedule of each of the {classes:,} classes that differ was run"
        return self.found("proved", "all schedules are alike, and one was run" if classes == 1 else many)

    def comes_again(self) -> bool:
        """Run what has passed once more. Returns whether it is the same run: what is proved, is so of no other."""
        if self.passing is None:
            return True
        chooser = Switches({}, self.passing)
        return self.judge(self.run(chooser)) is None and tuple(chooser.names) == self.passing

    def begin_anew(self, strategy: Exhaustive) -> None:
        """Begin anew, with steps of streams and engines taken to depend on everything: something needs it."""
        self.commands, self.cut = False, self.runs
        strategy.begin_anew()

    def judge(self, ended: Ended) -> Failure | None:
        """Return how a run failed, also by what it returned."""
        if ended.failure is not None or not self.same_result:
            return ended.failure
        if self.first is None:
            self.first = ended
        elif not alike(self.first.result, ended.result):
            return Failure(DIFFERENT, f"returned {_brief(ended.result)}; the first run {_brief(self.first.result)}")
        return None

    def make_small(self, failed: Failure, replays: int) -> Found:
        """Make the failing schedule small, as far as the replays reach."""
        progress = Progress() if self.progress is None else self.progress
        progress.stage, progress.failure = "shrinking", failed

        def fails(chooser: Switches) -> bool:
            progress.replays += 1
            return failed.found_in(self.judge(self.run(chooser)))

        if replays <= 0:
            return self.found("failed", "", failed)
        shrunk = shrink(fails, self.names, replays)
        if shrunk is None:
            return self.found("inconclusive", NOT_AGAIN, failed)
        return self.found("failed", "", failed, shrunk)

    def found(self, verdict: Verdict, why: str, failure: Failure | None = None, shrunk: Shrunk | None = None) -> Found:
        """Return what was found until now."""
        passing = self.passing if shrunk is None or shrunk.passing is None else shrunk.passing
        return Found(verdict, why, self.runs, self.cut, self.choices, failure, self.names, shrunk, passing)


def _brief(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
