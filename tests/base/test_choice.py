"""Choices by name: who chooses, what was chosen, and the same again."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.choice import NEXT, ChoiceLog, Chooser, Name, Plain, Random, Replay, told
from atops.base.errors import InvalidValue
from tests.every import every

Actors = dict[Name, int]  # how many steps each has


def run(chooser: Chooser, actors: Actors) -> list[Name]:
    """Run actors of so many steps each, first come, first ready; return the order of their steps."""
    left, ready, order = dict(actors), [name for name, steps in actors.items() if steps], []
    while ready:
        kinds = {name[0] for name in ready}
        index = chooser.choose(str(*kinds) if len(kinds) == 1 else NEXT, ready)
        name = ready.pop(index)
        order.append(name)
        left[name] -= 1
        if left[name]:
            ready.append(name)
    return order


def streams(*steps: int) -> Actors:
    """Return a stream for each number, with so many commands."""
    return {("stream", 0, number): count for number, count in enumerate(steps)}


MIXED: Actors = {("task", 0): 4, **streams(3, 2), **{("thread", 0, 0, thread): 6 for thread in range(12)}}
ACTORS = st.dictionaries(
    st.tuples(st.sampled_from(["thread", "stream", "task"]), st.integers(0, 3)), st.integers(1, 4), min_size=1
)


def test_plain_is_first_come_first_served() -> None:
    """In turn, as the interpreter without a seed."""
    assert [name[2] for name in run(Plain(), streams(2, 3, 1))] == [0, 1, 2, 0, 1, 1]


@pytest.mark.slow
@given(ACTORS, st.integers())
def test_the_same_seed_chooses_the_same(actors: Actors, seed: int) -> None:
    """A seed is an order, and every actor has all its steps in it."""
    order = run(Random(seed), actors)
    assert order == run(Random(seed), actors)
    assert Counter(order) == actors


def test_two_of_three_steps_come_in_all_twenty_orders() -> None:
    """Within 300 seeds, which is what three coins more than decide."""
    assert len({tuple(run(Random(seed), streams(3, 3))) for seed in range(300)}) == 20


@pytest.mark.slow
def test_a_kind_of_few_names_is_not_drowned_by_one_of_many() -> None:
    """Where all twelve threads have had a turn: the task is over in some runs and has not begun in others."""

    def before(seed: int) -> int:
        order = run(Random(seed), MIXED)
        return order[:24].count(("task", 0))

    seen = Counter(map(before, range(400)))
    assert set(seen) == {0, 1, 2, 3, 4}


def test_by_some_seeds_one_comes_last_of_many() -> None:
    """A callback of a stream that goes on twenty times, and something that polls does not go on alone for ever."""
    stream, callback, task = ("stream", 0, 1), ("callback", "stream 0 1", 0), ("task", "0")
    last = 0
    for seed in range(200):
        chooser, left, log = Random(seed), [stream, callback], list[Name]()
        while left and len(log) < 21:
            log.append(left[chooser.choose("next", left)])
            if log[-1] == callback:
                left.remove(callback)
        last += callback not in log
        polls = [[task, stream][chooser.choose("next", [task, stream])] for _ in range(600)]
        assert {*polls} == {task, stream}
    assert 3 <= last <= 20


def test_ranks_are_kept_for_what_is_there_and_not_for_all_that_was() -> None:
    """Each step has a name of its own, and its timer is for another actor."""
    stream, seed = ("stream", 0, 1), next(each for each in range(20) if vars(Random(each))["_ranked"])
    steps = [(stream, ("step", "stream 0 1", nth), ("task", "0"), ("timer", f"{nth}", 0)) for nth in range(20_000)]
    one, other = Random(seed), Random(seed)
    assert [one.choose(NEXT, names) for names in steps] == [other.choose(NEXT, names) for names in steps]
    assert all(len(held) <= 10_000 for held in vars(one).values() if isinstance(held, dict))


def test_a_log_keeps_what_was_chosen_of_how_many() -> None:
    """By name, also where one alone could come."""
    log = ChoiceLog(Plain())
    run(log, streams(1, 2))
    first, second = streams(1, 2)
    assert log.choices == [(first, 0, 2), (second, 0, 1), (second, 0, 1)]
    assert log.names == [first, second, second]


@every("index", [-1, 2, 7])
def test_a_log_refuses_what_is_no_position(index: int) -> None:
    """A chooser of the program's own may be wrong."""

    class Wrong:
        def choose(self, kind: str, names: object, /) -> int:
            return index

    with pytest.raises(InvalidValue, match=f"chose {index} of 2 names; expected 0 to 1"):
        run(ChoiceLog(Wrong()), streams(1, 1))


@pytest.mark.slow
@given(ACTORS, st.integers())
def test_a_replay_is_the_same_run(actors: Actors, seed: int) -> None:
    """Whatever the actors."""
    log = ChoiceLog(Random(seed))
    order = run(log, actors)
    replay = Replay(log.choices)
    assert run(replay, actors) == order
    assert replay.ended() is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda actors: actors.pop(("task", 0)), "choice 0: the schedule has .*, one of 15; what could come is 14: "),
        (lambda actors: actors.update({("task", 0): 5}), "the run goes on with task 0|one of"),
        (lambda actors: actors.update({("task", 0): 3}), "the schedule goes on with|one of"),
        (lambda actors: actors.update({("task", 1): 1}), "choice 0: "),
    ],
)
def test_a_replay_says_where_the_run_is_another(change: Callable[[Actors], object], expected: str) -> None:
    """And the run goes on to its end, first come, first served."""
    log = ChoiceLog(Random(7))
    run(log, MIXED)
    actors = dict(MIXED)
    change(actors)
    replay = Replay(log.choices)
    assert Counter(run(replay, actors)) == actors
    departure = replay.ended()
    assert departure is not None
    assert re.search(expected, departure), departure


@pytest.mark.slow
def test_a_seed_is_the_same_in_every_process() -> None:
    """Whatever the hash seed is."""
    program = (
        "from tests.base.test_choice import MIXED, run\n"
        "from atops.base.choice import Random\n"
        "print([run(Random(seed), MIXED) for seed in range(5)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "12345")
    }
    assert outputs == {f"{[run(Random(seed), MIXED) for seed in range(5)]}\n"}


@every(
    "name, words",
    [
        (("thread", 1, 0, 3), "thread 3 of block 0 of launch 1"),
        (("transfer", 1, 0, 3, 2), "transfer 2 of thread 3 of block 0 of launch 1"),
        (("stream", 0, 5), "stream 5"),
        (("stream", 1, 5), "stream 5 of device 1"),
        (("engine", "stream 0 2", 1), "engine 1 of stream 2"),
        (("engine", "thread 2 of stream 1 0 5", 1), "engine 1 of thread 5 of block 0 of launch 2 of stream 1"),
        (("timer", "task 0.1", 3), "timer 3 of task 0.1"),
        (("callback", "", 3), "callback 3"),
        (("task", "0.4"), "task 0.4"),
    ],
)
def test_names_in_words(name: Name, words: str) -> None:
    """What messages say."""
    assert told(name) == words
