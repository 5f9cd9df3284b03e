"""A failing run comes down to the few switches that it needs, and still fails."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

import atops
from atops.checking.shrink import Switches, shrink
from atops.checking.strategies.sampling import RandomRuns
from atops.checking.strategies.strategy import CutShort, Recorder
from tests.checking.models import Model
from tests.every import every


def broken_lock(actors, rounds):
    """Return a program whose lock is read and stored in two turns, and the sum that a right one gives."""

    def actor(model):
        for _ in range(rounds):
            while model.read("flag"):
                yield
            yield
            model.write("flag", 1)
            yield
            yield from add_one(model)
            model.write("flag", 0)
            yield

    return actor, actors, actors * rounds


def tickets(actors, rounds):
    """Return a program whose tickets are drawn in two turns, and the sum that a right one gives."""

    def actor(model):
        for _ in range(rounds):
            ticket = model.read("next")
            yield
            model.write("next", ticket + 1)
            yield
            while model.read("serving") < ticket:
                yield
            yield from add_one(model)
            model.write("serving", model.read("serving") + 1)
            yield

    return actor, actors, actors * rounds


def add_one(model):
    """Load, and store one more in another turn."""
    value = model.read("x")
    yield
    model.write("x", value + 1)
    yield


class Bounded:
    """A chooser that gives up where a run does not end."""

    def __init__(self, chooser):
        self.chooser, self.left = chooser, 5000

    def choose(self, kind, names):
        self.left -= 1
        if self.left < 0:
            raise CutShort
        return self.chooser.choose(kind, names)


def failing(program, count):
    """Return what came in so many random runs with a wrong sum, and the function that repeats one under a chooser."""
    actor, actors, expected = program

    def fails(chooser):
        model = Model()
        for _ in range(actors):
            model.add(actor(model))
        try:
            model.run(Bounded(chooser))
        except CutShort:
            return False
        return model.words.get("x") != expected

    found, strategy = [], RandomRuns(0)
    for _ in range(5000):
        if len(found) == count:
            break
        chooser = Recorder(strategy)
        if fails(chooser):
            found.append(chooser.names)
        strategy.over()
    return found, fails


@pytest.mark.slow
@every(
    "program",
    [broken_lock(2, 3), broken_lock(4, 2), broken_lock(4, 5), broken_lock(8, 2), tickets(3, 2), tickets(6, 1)],
)
def test_broken_locks_come_down_to_few_switches(program):
    """Twenty failures of each: all within 300 replays, 95 % with ten switches or less, and none that does not fail."""
    found, fails = failing(program, 20)
    shrunk = [shrink(fails, names) for names in found]
    assert len(shrunk) == 20
    assert all(each.replays <= 300 for each in shrunk)
    assert sum(len(each.forced) <= 10 for each in shrunk) >= 19
    assert statistics.median(len(each.forced) for each in shrunk) <= 6
    for each in shrunk:
        assert fails(Switches({}, each.names))


async def wrong_half():
    """Fetch each half of a buffer behind the event of the other one."""
    device = atops.Device(0)
    full, empty = ([device.create_event() for _ in range(2)] for _ in range(2))
    async with device.create_stream() as load, device.create_stream() as work:
        halves, fetched = device.zeros((2, 64), np.int32), []
        for i in range(4):
            half = i % 2
            load.wait(empty[half])
            load.copy(halves[half], np.full(64, i, np.int32))
            load.record(full[half])
            work.wait(full[1 - half])
            fetched.append(work.fetch(halves[half]))
            work.record(empty[half])
        assert [int((await each)[0]) for each in fetched] == [0, 1, 2, 3]


async def overtaken():
    """Read on the host what a later copy of the stream stores, without holding the stream."""
    device, seen = atops.Device(0), []
    async with device.create_stream(name="copies") as stream:
        pinned = device.host_malloc((64,), np.int32)
        stream.copy(pinned, stream.upload(np.ones(64, np.int32)))
        stream.call(lambda: seen.append(int(np.asarray(pinned).sum())), holds=False)
        stream.copy(pinned, stream.zeros(64, np.int32))
        await stream
    assert seen == [64]


@pytest.mark.slow
def test_streams_come_down_to_few_switches_by_any_seed():
    """Also where the failing run reaches the failure by a way that needs each of its many switches."""
    for seed in range(0, 10_000, 1000):
        report = atops.check(wrong_half, seed=seed)
        assert len(report.forced) <= 4, report
        assert report.replays <= 100


def test_what_comes_last_is_one_switch():
    """A switch leaves what it passes over behind all that follows."""
    report = atops.check(overtaken, strategy="pct")
    (forced,) = report.forced
    assert forced.instead_of[0] == "callback"


def test_a_report_tells_what_the_program_calls_its_streams():
    """Beside the numbers that the schedule has them by."""
    report = atops.check(overtaken, strategy="pct")
    assert "Streams:\n  stream 1 is 'copies'\n" in str(report)


def test_each_switch_that_is_left_is_needed():
    """Without any one of them the run passes, and one such run is kept to compare with."""
    found, fails = failing(broken_lock(3, 2), 5)
    for names in found:
        shrunk = shrink(fails, names)
        chooser = Switches({}, shrunk.names)
        assert fails(chooser)
        targets = chooser.targets()
        for key in targets:
            assert not fails(Switches({other: name for other, name in targets.items() if other != key}))
        assert shrunk.passing is not None
        assert not fails(Switches({}, shrunk.passing))
        assert [each.position for each in shrunk.forced] == sorted(each.position for each in shrunk.forced)


def test_a_run_that_fails_in_any_order_needs_no_switch():
    """Then "go on with the same actor" fails too."""
    shrunk = shrink(lambda chooser: go(chooser, 3) is not None, [("task", 1), ("task", 0), ("task", 1)])
    assert shrunk.forced == ()
    assert shrunk.passing is None
    assert shrunk.replays <= 5


def test_a_run_that_does_not_fail_again_is_not_shrunk():
    """It depends on something else than the schedule."""
    assert shrink(lambda chooser: go(chooser, 3) is None, [("task", 0)]) is None


def test_replays_are_bounded():
    """A limit holds, however many switches there are."""
    found, fails = failing(broken_lock(4, 5), 1)
    for limit in (1, 5, 20):
        replays = []

        def counted(chooser, replays=replays):
            replays.append(chooser)
            return fails(chooser)

        assert shrink(counted, found[0], limit).replays == len(replays) <= limit


def test_who_polls_gives_way_in_the_end():
    """To go on with the same actor ends with an actor that polls for another one's store."""

    def poll(model):
        while not model.read("x"):
            yield

    def store(model):
        model.write("x", 1)
        yield

    model = Model()
    model.add(poll(model))
    model.add(store(model))
    assert model.run(Switches({})) == (("x", 1),)


def go(chooser, turns):
    """Run two tasks of so many turns; returns the order."""
    left, order = {0: turns, 1: turns}, []
    while names := [("task", task) for task, count in left.items() if count]:
        task = names[chooser.choose("task", names)][1]
        left[task] -= 1
        order.append(task)
    return order
