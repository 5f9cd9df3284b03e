"""Inline runs and the cycle collector: what it frees replays from a seed, and its settings are the program's again."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops import tops
from atops.base.options import EmulatorOptions
from atops.errors import AtopsError
from atops.runtime.executors.cycle_collector import COLLECT, MOST_OBJECTS, OLDER
from atops.runtime.executors.inline import InlineExecutor
from atops.tops import aio
from tests.every import every


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """Give back the collector's settings, whatever the test does to them."""
    before, on = gc.get_threshold(), gc.isenabled()
    yield
    gc.set_threshold(*before)
    (gc.enable if on else gc.disable)()


@k.kernel
async def add(x: Any, number: int) -> None:
    """Add one, or fail."""
    await k.syncthreads()
    if number % 7 == 3:
        raise ValueError(number)
    x[k.thread_id()] += 1


async def drops_cycles(blocking: bool) -> list[str]:
    """Drop arrays and failures in cycles, in tasks of their own; return what happened, in order."""
    device, said = atops.Device(0), []

    async def user(user: int) -> None:
        for number in range(15):
            stream = device.create_stream(priority=-(user % 3))
            array = stream.zeros(8, np.int32)
            cycle = [array, stream.upload(np.arange(9.0))]
            cycle.append(cycle)
            stream.launch(add, (2, 4), array, number + user)
            stream.call(said.append, f"{user} {number}")
            try:
                if blocking:
                    stream.sync()
                else:
                    await stream
            except AtopsError as error:
                said.append(repr(error))
                cycle.append(error)
            await asyncio.sleep(0)

    await asyncio.gather(*map(user, range(5)))
    return said + [repr(record) for record in atops.current_driver().tracer.records()]


HISTORIES = (
    lambda: None,
    lambda: [[] for _ in range(333)],
    lambda: [gc.collect(), [[] for _ in range(77)]],
    lambda: gc.set_threshold(50, 2, 2),
)


@pytest.mark.slow
@every("blocking, seed", [(blocking, seed) for blocking in (False, True) for seed in (None, 1, 2)])
def test_what_the_collector_frees_replays(blocking, seed):
    """Whatever the process has made before, and however Python is told to collect."""
    runs, kept = [], []
    for history in HISTORIES:
        kept.append(history())
        runs.append(atops.run(drops_cycles, EmulatorOptions(seed=seed, clock="virtual"), blocking))
    first = runs[0]
    assert all(run == first for run in runs)
    assert sum("Kind.FREE" in line for line in first) > 15  # it ran in there, and freed arrays


async def waits_that_a_reset_ends() -> list[str]:
    """Have tasks wait for room, signals and words; a reset ends all. Return in which order they go on."""
    device, said, streams = atops.Device(0), [], []
    word = tops.check(tops.topsMalloc(8))

    async def waits(kind: str, number: int) -> None:
        stream = device.create_stream(capacity=1)
        streams.append([stream, [[] for _ in range(number)]])
        stream.wait_value(device.zeros(1, "uint32"), 1)
        try:
            if kind == "room":
                await stream.room().__aenter__()
            elif kind == "signal":
                await device.signals.wait(device.signals.allocate(), 1)
            else:
                assert await aio.topsStreamWaitValue32(word, 77, 1) == (tops.topsErrorContextIsDestroyed,)
                said.append(f"{kind} {number}")
        except AtopsError:
            said.append(f"{kind} {number}")

    tasks = [asyncio.ensure_future(waits(kind, number)) for number in range(9) for kind in ("room", "signal", "word")]
    await asyncio.gather(*(asyncio.sleep(0) for _ in range(5)))
    await device.reset()
    await asyncio.gather(*tasks)
    return said


def test_the_order_of_what_a_reset_ends_replays():
    """It is that in which the waits began, wherever their objects lie in memory."""
    first = atops.run(waits_that_a_reset_ends)
    for kind in ("room", "signal", "word"):
        assert [each for each in first if each.startswith(kind)] == [f"{kind} {number}" for number in range(9)]


class Dropped:
    """Refers to itself."""

    def __init__(self) -> None:
        self.self = self


async def steps(count: int, blocking: bool) -> None:
    """Have so many steps run."""
    stream = atops.Device(0).create_stream()
    for _ in range(count):
        if blocking:
            stream.record().sync()
        else:
            await asyncio.sleep(0)


@every("blocking", [False, True])
def test_cycles_are_collected_by_steps(blocking):
    """After so many steps those are gone that were made before, and none sooner; steps of blocking waits count."""

    async def main() -> tuple[bool, bool]:
        seen = weakref.ref(Dropped())
        await steps(COLLECT // 20, blocking)
        before = seen() is not None
        await steps(COLLECT, blocking)
        return before, seen() is None

    gc.set_threshold(1, 1, 1)
    assert atops.run(main) == (True, True)


@every("off", [gc.disable, lambda: gc.set_threshold(0)])
def test_a_collector_that_is_off_stays_off(off):
    """Whether the program turns it off before the run or in it."""

    async def main(inside: bool) -> bool:
        if inside:
            off()
        seen = weakref.ref(Dropped())
        await steps(2 * COLLECT, False)
        return seen() is not None and (not gc.isenabled() or gc.get_threshold()[0] == 0)

    assert atops.run(main, None, True)
    off()
    state = gc.isenabled(), gc.get_threshold()
    assert atops.run(main, None, False)
    assert (gc.isenabled(), gc.get_threshold()) == state


def test_the_settings_are_back():
    """After the run, a failure, a run in another thread that ends later; a program's own settings stay."""
    gc.set_threshold(701, 11, 12)

    async def main(then: Any = None) -> Any:
        inside = gc.get_threshold()
        assert inside[0] == MOST_OBJECTS
        await asyncio.sleep(0)
        return then() if then else None

    def fails() -> None:
        raise ZeroDivisionError

    atops.run(main)
    assert gc.get_threshold() == (701, 11, 12)
    with pytest.raises(ZeroDivisionError):
        atops.run(main, None, fails)
    assert gc.get_threshold() == (701, 11, 12)

    begun, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=atops.run, args=(main, None, lambda: (begun.set(), go.wait(20))))
    thread.start()
    assert begun.wait(20)
    atops.run(main)
    assert gc.get_threshold()[0] == MOST_OBJECTS
    go.set()
    thread.join(20)
    assert gc.get_threshold() == (701, 11, 12)

    atops.run(main, None, lambda: gc.set_threshold(99, 9, 9))
    assert gc.get_threshold() == (99, 9, 9)


def test_which_generation_is_collected(monkeypatch):
    """The youngest, each tenth time an older one, and all of them only each five-hundredth time."""
    asked = []
    executor = InlineExecutor()
    monkeypatch.setattr(gc, "collect", asked.append)
    for _ in range(1000):
        executor.collect()
    executor.loop.close()
    everything, older = [499, 999], [at for at in range(9, 1000, 10) if at not in {499, 999}]
    assert [at for at, asks in enumerate(asked) if asks == 2 and at in everything] == everything
    assert [asked[at] for at in older] == [OLDER] * len(older)
    assert all(asks == 0 for at, asks in enumerate(asked) if at % 10 != 9)
