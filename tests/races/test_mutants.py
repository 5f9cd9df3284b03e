"""The mutation certificate: without any one of its waits, barriers and events a program is noticed, or proven equal.

`python -m tests.races.certificate` prints it.
"""

from __future__ import annotations

import ast

import pytest

from tests.every import every
from tests.races.certificate import NOT_SEEN, REDUNDANT, Judge, quiet
from tests.races.programs import PROGRAMS
from tests.races.synchronisation import mutants

pytestmark = pytest.mark.slow

QUICK = 16  # mutants of a sample: one of each so many, of all programs in a row
ORDERED = [name for name, program in PROGRAMS.items() if program.ordered]
RACING = {"concurrency", "tour", "page_tutorial"}  # with a race on purpose, to look at
LEAST = 280  # mutants of all programs

COUNTS = {name: len(list(mutants(program.text))) for name, program in PROGRAMS.items()}


def survivors(name: str, places: range, schedules: int) -> list[str]:
    """Return the mutants of a program, of those at some places, that nothing notices and that are not proven equal."""
    judge = Judge(PROGRAMS[name])
    assert not judge.broken, judge.broken
    chosen = [judge.mutants[place] for place in places]
    known = {*REDUNDANT, *NOT_SEEN}
    return [str(each) for each in chosen if (name, each.taken) not in known and not judge.judge(each, schedules)]


def sample() -> list[tuple[str, int]]:
    """Return every twelfth mutant of all, by program and place."""
    every_one = [(name, place) for name, count in COUNTS.items() for place in range(count)]
    return every_one[::QUICK]


@pytest.mark.parametrize(("name", "place"), sample())
def test_a_sample_of_mutants_is_noticed(name: str, place: int) -> None:
    """By one run under the detectors, in strict mode, or under 500 schedules."""
    assert survivors(name, range(place, place + 1), 500) == []


@pytest.mark.soak
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_mutant_is_noticed(name: str) -> None:
    """All of a program."""
    assert survivors(name, range(COUNTS[name]), 2_000) == []


def test_there_are_as_many_mutants_as_are_said() -> None:
    """And each of the exceptions is there."""
    assert sum(COUNTS.values()) >= LEAST
    taken = {(name, each.taken) for name, program in PROGRAMS.items() for each in mutants(program.text)}
    assert {*REDUNDANT, *NOT_SEEN} <= taken


@pytest.mark.parametrize("name", ORDERED)
def test_programs_are_silent_under_schedules(name: str) -> None:
    """As they stand, with the detectors, whatever comes next."""
    report = quiet(PROGRAMS[name], 10)
    assert report, str(report)


@pytest.mark.soak
@pytest.mark.parametrize("thousand", range(10))
@pytest.mark.parametrize("name", ORDERED)
def test_programs_are_silent_under_ten_thousand_schedules(name: str, thousand: int) -> None:
    """As above, with other seeds each time."""
    report = quiet(PROGRAMS[name], 1_000, seed=thousand * 1_000)
    assert report, str(report)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ORDERED and name not in RACING])
def test_the_other_programs_have_no_race(name: str) -> None:
    """What shows something that depends on an order has none, either, that it does not show on purpose."""
    judge = Judge(PROGRAMS[name])
    assert not judge.broken, judge.broken
    assert not judge.known


# What is taken out of a text, and what is left of it.
TAKEN = (
    ("await k.syncthreads()", "None"),
    ("await k.memcpy_async(a, b, c)", "k.memcpy_async(a, b, c)"),
    ("s.wait(e)", "pass"),
    ("e = s.record()", "e = s.device.create_event()"),
    ("s.wait_value(x, 1)", "pass"),
    ("check(tops.topsStreamSynchronize(s))", "pass"),
    ("async with s.room():\n        f()", "pass\n    f()"),
    ("full.set()", "pass"),
)


@every("before, after", TAKEN)
def test_what_is_taken_out(before: str, after: str) -> None:
    """One synchronisation, and nothing else."""
    (mutant,) = mutants(f"async def f():\n    {before}")
    assert ast.unparse(mutant.tree) == f"async def f():\n    {after}"


PROVED = (
    ("tops_banks_and_buffers", "check(tops.topsStreamSynchronize(stream))"),
    ("tops_run_an_onnx_model", "check(tops.topsStreamSynchronize(stream))"),
    ("hip_pool_reuse_between_streams", "hip_check(hip.hipStreamSynchronize(other))"),
)


@pytest.mark.parametrize(("name", "taken"), PROVED)
def test_what_is_redundant_is_proved_where_the_space_is_small(name: str, taken: str) -> None:
    """Of each class of schedules one is run, with equal results and no report."""
    judge = Judge(PROGRAMS[name])
    (mutant,) = (each for each in judge.mutants if each.taken == taken)
    assert judge.proof(mutant, 1_000).startswith("proved: ")
