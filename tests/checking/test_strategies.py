"""Every class of schedules once, none twice; and what each way of going through them promises."""

from __future__ import annotations

import pytest

from atops.base.footprint import NOTHING, StepAccesses, independent, together
from atops.checking.strategies.dpor import Dpor
from atops.checking.strategies.exhaustive import Exhaustive
from atops.checking.strategies.sampling import Pct, RandomRuns
from atops.checking.strategies.strategy import CutShort, Differs, Recorder
from tests.checking.models import Model, counted, drawn
from tests.every import every

MOST = 2000  # interleavings of a program that are counted one by one


def explore(program, strategy, most=10**6):
    """Run a program under every schedule of a strategy: complete runs, those cut short, results, and the classes."""
    complete, cut, results, classes = 0, 0, set(), []
    while complete + cut < most:
        chooser, model = Recorder(strategy), Model()
        program(model)
        try:
            results.add(model.run(chooser))
        except CutShort:
            cut += 1
        else:
            complete += 1
            if isinstance(strategy, Exhaustive):
                classes.append(order_of([(each.name, each.accesses) for each in strategy.path]))
        if not strategy.over():
            break
    return complete, cut, results, classes


def order_of(events):
    """Return which steps a run had, and the order of those that depend on each other: equivalent runs have the same."""
    numbers, turns = [], {}
    for name, _ in events:
        numbers.append((name, turns.setdefault(name, 0)))
        turns[name] += 1
    order = {
        (numbers[first], numbers[second])
        for second in range(len(events))
        for first in range(second)
        if not independent(events[first][1], events[second][1])
    }
    return frozenset(numbers), frozenset(order)


def small_programs(count):
    """Return so many random programs with few interleavings, each with the classes and results of all of them."""
    found, seed = [], 0
    while len(found) < count:
        program = drawn(seed)
        runs, _, results, classes = explore(program, Exhaustive(prune=False), MOST)
        if runs < MOST:
            found.append((seed, program, results, classes))
        seed += 1
    return found


@pytest.mark.slow
def test_pruned_searches_meet_each_class_once():
    """On 20 random programs, with locks, barriers and branches: as many complete runs as brute force counts classes."""
    for seed, program, results, classes in small_programs(20):
        for strategy in (Exhaustive(), Dpor()):
            complete, _, met, reached = explore(program, strategy)
            assert (seed, strategy.name, complete) == (seed, strategy.name, len(set(classes)))
            assert set(reached) == set(classes)
            assert met == results
            assert strategy.exhausted


@every("shared, complete", [(0, 1), (1, 2), (2, 6), (3, 20)])
def test_shared_accesses_of_two_actors_can_come_in_so_many_orders(shared, complete):
    """Two actors of eight turns, n of them with a shared store: C(2n, n) complete runs."""
    for strategy in (Exhaustive(), Dpor()):
        runs, _, results, _ = explore(counted(shared), strategy)
        assert runs == complete == len(results)


@pytest.mark.slow
def test_without_pruning_every_interleaving_is_run():
    """Two actors of eight turns: 16 choose 8, and the results that the pruned searches reach with a hundredth of it."""
    runs, cut, results, _ = explore(counted(3), Exhaustive(prune=False))
    assert (runs, cut) == (12_870, 0)
    assert results == explore(counted(3), Dpor())[2] == explore(counted(3), Exhaustive())[2]


def test_dpor_is_rarely_cut_short():
    """The exhaustive search begins runs that lead nowhere new, and dpor hardly any."""
    assert explore(counted(2), Dpor())[1] == 0 < explore(counted(2), Exhaustive())[1]


def test_steps_of_which_nothing_is_known_are_never_pruned():
    """A model that notes nothing has every interleaving run, under dpor too."""

    def run(strategy):
        runs = 0
        while True:
            left, order = {"a": 2, "b": 2}, []
            while names := [("task", name) for name, count in left.items() if count]:
                name = names[strategy.choose("task", names)][1]
                order.append(name)
                left[name] -= 1
            runs += 1
            if not strategy.over():
                return runs

    assert run(Exhaustive()) == run(Dpor()) == 6


def test_a_choice_within_a_step_belongs_to_the_step():
    """A thread issues a transfer in the middle of a turn: it goes on, or the transfer comes first; nothing else can.

    Thread, transfer and another thread store into one word: five orders, as the transfer never comes before its issue
    and the other thread not within the turn.
    """

    def run(strategy):
        complete, results = 0, set()
        while True:
            word, ready = [], ["t", "u"]
            try:
                while ready:
                    name = ready.pop(strategy.choose("thread", [("thread", name) for name in ready]))
                    if name == "t":
                        strategy.note(NOTHING)
                        if strategy.choose("next", (("thread", "t"), ("thread", "e"))):
                            word.append("e")
                            strategy.note(StepAccesses(writes=(("word", 0, 4),)))
                            strategy.go_on((("thread", "t"),))
                        else:
                            ready.append("e")
                    word.append(name)
                    strategy.note(StepAccesses(writes=(("word", 0, 4),)))
                complete += 1
                results.add("".join(word))
            except CutShort:
                pass
            if not strategy.over():
                return complete, results

    expected = {"uet", "etu", "ute", "tue", "teu"}
    assert run(Exhaustive(prune=False)) == run(Exhaustive()) == run(Dpor()) == (5, expected)


def test_a_program_that_differs_from_run_to_run_is_refused():
    """Depth first rests on the same choices for the same schedule; else the message says where they differ."""
    search = Exhaustive()
    search.choose("task", [("task", 0), ("task", 1)])
    search.over()
    with pytest.raises(Differs, match=r"differs between two runs.*choice 0.*task 5"):
        search.choose("task", [("task", 0), ("task", 5)])


@every(
    "one, other, apart",
    [
        (NOTHING, NOTHING, True),
        (StepAccesses(reads=(("a", 0, 4),)), StepAccesses(reads=(("a", 0, 4),)), True),
        (StepAccesses(reads=(("a", 0, 4),)), StepAccesses(writes=(("a", 3, 8),)), False),
        (StepAccesses(reads=(("a", 0, 4),)), StepAccesses(writes=(("a", 4, 8),)), True),
        (StepAccesses(writes=(("a", 0, 4),)), StepAccesses(writes=(("b", 0, 4),)), True),
        (StepAccesses(writes=(("a", 0, 4),)), StepAccesses(writes=(("a", 0, 1),)), False),
        (None, NOTHING, False),
    ],
)
def test_independent_steps_have_no_byte_in_common_that_one_writes(one, other, apart):
    """The same in both directions, and never where one is unknown."""
    assert independent(one, other) is independent(other, one) is apart


def test_parts_of_a_step_are_put_together():
    """Reads with reads, writes with writes; what is unknown stays so."""
    read, write = StepAccesses(reads=(("a", 0, 4),)), StepAccesses(writes=(("b", 0, 4),))
    assert together(read, write) == StepAccesses(read.reads, write.writes)
    assert together(read, None) is together(None, None) is None


def test_seeds_decide_alone():
    """The same seed takes the same steps, and others take others."""
    for kind in (RandomRuns, Pct):
        orders = []
        for seed in (3, 3, 4):
            strategy, names = kind(seed), []
            for _ in range(3):
                chooser, model = Recorder(strategy), Model()
                counted(2)(model)
                model.run(chooser)
                names.append(chooser.names)
                strategy.over()
            orders.append(names)
        assert orders[0] == orders[1] != orders[2]


def test_pct_switches_seldom():
    """With d switches a run of two actors changes hands at most d + 1 times, where nothing waits."""
    strategy = Pct(0, switches=2)
    for _ in range(30):
        chooser, model = Recorder(strategy), Model()
        counted(2, turns=20)(model)
        model.run(chooser)
        changes = sum(one != other for one, other in zip(chooser.names, chooser.names[1:], strict=False))
        assert changes <= 3
        strategy.over()


def test_pct_lets_an_actor_that_polls_wait():
    """An actor with the highest priority that polls for another one's store does not keep it from storing."""

    def poll(model):
        while not model.read("x"):
            yield

    def store(model):
        yield
        model.write("x", 1)

    strategy = Pct(0)
    for _ in range(10):
        chooser, model = Recorder(strategy, limit=2000), Model()
        model.add(poll(model))
        model.add(store(model))
        assert model.run(chooser) == (("x", 1),)
        strategy.over()


def test_a_run_without_end_reaches_its_limit():
    """After so many choices the run is cut short, once; from then on the first of everything comes."""
    chooser = Recorder(RandomRuns(0), limit=3)
    names = [("task", 0), ("task", 1)]
    for _ in range(3):
        chooser.choose("task", names)
    assert chooser.cut is None
    with pytest.raises(CutShort, match="3 choices"):
        chooser.choose("task", names)
    assert chooser.cut is not None
    assert chooser.choose("task", names) == 0
    assert len(chooser.names) == 3
