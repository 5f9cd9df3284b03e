"""What dpor and sleep sets leave out of whole programs: nothing that differs."""

from __future__ import annotations

import inspect

import pytest

import atops
from atops.checking.strategies.dpor import Dpor
from atops.checking.strategies.exhaustive import Exhaustive
from tests.checking import small_programs
from tests.checking.exploring import explore, in_whole
from tests.checking.small_programs import (
    opposite_copies_of_one_memory,
    three_at_a_barrier,
    too_early,
    transfers,
    two_tasks,
)
from tests.checking.test_real_kernels import assert_each_class_is_run_once
from tests.every import every

PROGRAMS = [
    (name, each) for name, each in vars(small_programs).items()
    if inspect.iscoroutinefunction(each) and not name.startswith("_") and each is not too_early  # which has 909
]  # fmt: skip

LONG = {"a_value_too_early"}  # brute force takes 20 seconds; below it is counted by what commands touch
LONG_BELOW = {"transfers"}  # one kernel and no other command; above it is counted by what that touches


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [pytest.param(each, id=name, marks=[pytest.mark.soak] if name in LONG else []) for name, each in PROGRAMS],
)
def test_each_class_of_a_program_is_run_once(program):
    """Kernels, streams, events, values, tasks, failures: as brute force counts them."""
    assert assert_each_class_is_run_once(in_whole(program), 5_000)


# Where a wait for an event may begin before its record is over or after it: nothing is told apart by that, and what
# each step touches says that there are two.
EARLY_WAITS = {"an_event", "an_event_between_devices"}
UNKNOWN = {"blocks_that_stand_in_some_orders"}  # a stream fails: of what comes then it cannot be told what it touches


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.soak] if name in LONG_BELOW else [])
        for name, _ in PROGRAMS
        if name not in UNKNOWN
    ],
)
def test_each_class_is_run_once_where_commands_tell_what_they_touch(name):
    """Streams of one device and of two, copies, values, events, tasks: as brute force counts them."""
    program = in_whole(dict(PROGRAMS)[name], devices=2)
    brute = explore(program, Exhaustive(prune=False), 2_000, commands=True)
    assert brute.exhausted
    for strategy in (Dpor(), Exhaustive()):
        found = explore(program, strategy, commands=True)
        assert found.exhausted and found.results == brute.results
        if name in EARLY_WAITS:
            assert (found.complete, len(brute.classes)) == (1, 2) and found.classes < brute.classes
        else:
            assert found.classes == brute.classes and found.complete == len(found.classes)


def test_copies_that_wait_for_the_link():
    """Two in opposite directions have the classes that brute force counts."""
    program = in_whole(opposite_copies_of_one_memory)
    brute = explore(program, Exhaustive(prune=False), commands=True)
    found = explore(program, Dpor(), commands=True)
    assert found.classes == brute.classes and (found.complete, len(found.results)) == (9, 2)


@every("program, classes, results", [(three_at_a_barrier, 1, 1), (transfers, 4, 2), (two_tasks, 14, 6)])
def test_programs_have_so_many_classes(program, classes, results):
    """Of 216, 1,308 and 14 schedules."""
    found = explore(in_whole(program), Dpor())
    assert (found.complete, len(found.results), found.exhausted) == (classes, results, True)


def test_a_proof_says_how_many_classes_were_run():
    """Those of the report are the complete runs, each of another class."""
    report = atops.check(transfers, strategy="dpor")
    assert (report.verdict, report.classes) == ("proved", 4)
    assert "4 classes" in str(report)
    assert atops.check(transfers, 3, "dpor").verdict == "explored 3"


@every("strategy", ["dpor", "exhaustive"])
def test_failures_are_found(strategy):
    """A fetch that comes too early, found and made small, and its string fails again."""
    report = atops.check(too_early, strategy=strategy)
    assert report.verdict == "failed"
    with pytest.raises(AssertionError):
        atops.run(too_early, atops.EmulatorOptions(schedule=report.schedule))
