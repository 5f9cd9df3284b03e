"""A search ends at the first failure, and its verdict never says more than what was run."""

from __future__ import annotations

import numpy as np

from atops.checking.search import Ended, Failure, alike, search
from atops.checking.strategies.dpor import Dpor
from atops.checking.strategies.exhaustive import Exhaustive
from atops.checking.strategies.sampling import Pct, RandomRuns
from atops.checking.strategies.strategy import CutShort
from tests.checking.models import Model, counted
from tests.every import every


def runner(program, wrong=None):
    """Return a function that runs a program under a chooser; results in `wrong` are failures."""

    def run(chooser):
        model = Model()
        program(model)
        try:
            result = model.run(chooser)
        except CutShort:
            return Ended()
        if wrong is not None and result[0][1] in wrong:
            return Ended(failure=Failure("assertion", f"x is {result[0][1]}", AssertionError("x")))
        return Ended(result)

    return run


@every("make", [RandomRuns, Pct, Exhaustive, Dpor])
def test_different_results_are_a_failure_where_asked(make):
    """Two unordered updates: found, made small, and the passing run is another one."""
    found = search(runner(counted(1)), make(), 200, same_result=True)
    assert found.verdict == "failed"
    assert found.failure.kind == "different results"
    assert len(found.shrunk.forced) <= 1
    assert found.shrunk.names != found.passing
    assert search(runner(counted(1)), make(), 30).verdict in ("explored", "proved")


@every("make, verdict", [(RandomRuns, "explored"), (Pct, "explored"), (Exhaustive, "proved"), (Dpor, "proved")])
def test_what_passes_is_proved_only_where_all_was_run(make, verdict):
    """Samples prove nothing; the other two go through all that differ."""
    found = search(runner(counted(2)), make(), 500)
    assert found.verdict == verdict
    assert found.runs - found.cut == (6 if verdict == "proved" else 500)
    assert found.failure is found.shrunk is None


def test_an_unfinished_search_proves_nothing():
    """Five of twenty classes."""
    found = search(runner(counted(3)), Dpor(), 5)
    assert (found.verdict, found.runs) == ("explored", 5)


@every("make", [RandomRuns, Pct, Dpor])
def test_a_program_without_choices_is_proved(make):
    """One actor: one schedule, one run is enough to say so."""
    program = counted(1)

    def alone(model):
        program(model)
        model.ready.pop()

    assert search(runner(alone), make(), 20).verdict == "proved"


def test_the_plain_schedule_comes_first():
    """A failure that needs nothing special is met in the first run, with nothing forced."""
    plain = search(runner(counted(1)), RandomRuns(), 1).passing
    assert plain == tuple(("thread", 0, 0, turn % 2) for turn in range(16))
    found = search(runner(counted(1), wrong=range(10)), RandomRuns(), 100)
    assert (found.runs, found.verdict, found.shrunk.forced) == (1, "failed", ())


def test_a_failure_that_does_not_come_again_is_inconclusive():
    """It depends on something else than the schedule, and the verdict says so."""
    runs = []

    def run(chooser):
        runs.append(chooser)
        ended = runner(counted(1))(chooser)
        return Ended(failure=Failure("exception", "KeyError: 3", KeyError(3))) if len(runs) == 4 else ended

    found = search(run, RandomRuns(), 100)
    assert found.verdict == "inconclusive"
    assert "not again" in found.why
    assert found.failure.text == "KeyError: 3"


def test_a_program_that_differs_from_run_to_run_is_inconclusive():
    """Depth first cannot go on then; the verdict names the choice."""
    runs = []

    def run(chooser, turns):
        runs.append(chooser)
        return runner(counted(1, turns=3 if len(runs) < 2 else turns))(chooser)

    for turns in (1, 2):
        runs.clear()
        found = search(lambda chooser, turns=turns: run(chooser, turns), Exhaustive(prune=False), 100)
        assert found.verdict == "inconclusive"
        assert "differs between two runs" in found.why


@every("make", [RandomRuns, Exhaustive, Dpor])
def test_nothing_is_proved_of_what_is_not_the_same_twice(make):
    """Though no run had a choice: the one schedule is run once more, and is another run, or fails."""
    runs = []

    def run(chooser, wrong):
        runs.append(chooser)
        program, model = counted(1, turns=3 if len(runs) < 3 else 2), Model()
        program(model)
        model.ready.pop()
        result = model.run(chooser)
        failure = Failure("exception", "KeyError: 3", KeyError(3)) if wrong and len(runs) > 2 else None
        return Ended(result, failure)

    for wrong in (False, True):
        runs[:] = [None] * (make is not RandomRuns)  # that has the plain run, and one of its own
        found = search(lambda chooser, wrong=wrong: run(chooser, wrong), make(), 2)
        assert (found.verdict, len(runs)) == ("inconclusive", 3)
        assert "differs between two runs of one schedule" in found.why


def test_a_search_that_is_stopped_says_so():
    """Between two runs."""
    runs = []
    found = search(lambda chooser: runs.append(chooser) or runner(counted(1))(chooser), RandomRuns(), 100,
                   stopped=lambda: len(runs) >= 3)  # fmt: skip
    assert (found.verdict, found.why, found.runs) == ("inconclusive", "it was stopped", 3)


@every(
    "one, other, same",
    [
        (np.arange(3), np.arange(3), True),
        (np.array([np.nan]), np.array([np.nan]), True),
        (np.arange(3), np.arange(4), False),
        ((1, np.zeros(2)), (1, np.zeros(2)), True),
        ([np.zeros(2)], [np.ones(2)], False),
        ({"a": np.zeros(2)}, {"a": np.zeros(2)}, True),
        ({"a": 1}, {"b": 1}, False),
        (float("nan"), float("nan"), True),
        (1, 2, False),
        ("a", np.array(["a"]), False),
        (None, None, True),
    ],
)
def test_results_are_compared_by_what_they_hold(one, other, same):
    """Arrays by their elements, wherever they are."""
    assert alike(one, other) is alike(other, one) is same
