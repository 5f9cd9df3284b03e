"""Runs of one check share nothing that a program could see, and leave nothing."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.agenda import Agenda
from atops.base.choice import Chooser, Name, Random
from atops.checking.strategies.sampling import RandomRuns
from atops.checking.strategies.strategy import CutShort, Recorder
from atops.device import chip
from atops.device.memory import arena
from atops.runtime.executors import inline_loop
from tests.every import every

KEPT: list[Any] = []
ROOT = Path(__file__).parents[2]


@k.kernel
async def reads_before_it_stores(y: Any, size: int) -> None:
    """Tell what is in scratchpads that nothing has stored to, and leave something there."""
    mine, ours, more = k.local(size, np.int32), k.shared(size, np.int32), k.dynamic_shared(np.int32)
    y[k.threadIdx.x] = np.sum(mine) + np.sum(ours) + np.sum(more)
    await k.syncthreads()
    for memory in (mine, ours, more):
        memory[:] = 7


@pytest.mark.parametrize("size", [64, 100_000])
def test_scratchpads_of_each_run_are_as_new(size: int) -> None:
    """Zeros, whatever the run before has left there; larger memory is not kept."""

    async def main() -> list[int]:
        async with atops.Device(0).create_stream() as stream:
            y = stream.zeros(4, np.int32)
            stream.launch(reads_before_it_stores, (1, 4, 256), y, size)
            found: list[int] = (await stream.fetch(y)).tolist()
            return found

    report = atops.check(main, 12, same_result=True)
    report.raise_if_failed()
    assert atops.run(main) == [0] * 4
    assert not chip._kept and not chip._keepers[0]


@k.kernel
async def keeps_its_memory(y: Any) -> None:
    """Give a part of L1 to the program, which no kernel should."""
    mine = k.local(16, np.int32)
    mine[:] = len(KEPT)
    KEPT.append(mine[2:4])
    y[0] = mine[0]


def test_memory_that_a_program_has_kept_stays_its_own() -> None:
    """It is not cleared, and no later run gets it."""

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            y = stream.zeros(1, np.int32)
            await stream.launch(keeps_its_memory, (1, 1), y)

    KEPT.clear()
    atops.check(main, 6).raise_if_failed()
    runs = [part.tolist() for part in KEPT]
    assert runs == [[number] * 2 for number in range(len(KEPT))]
    KEPT.clear()


@k.kernel
async def keeps_global_memory(y: Any) -> None:
    """Give global memory to the program, which no kernel should."""
    y[:] = len(KEPT)
    KEPT.append(y.array[2:4])


def test_global_memory_that_a_program_has_kept_stays_its_own() -> None:
    """Nothing takes its pages back, and no later run gets them."""

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            y = stream.device.empty(16, np.int32)
            await stream.launch(keeps_global_memory, (1, 1), y)

    KEPT.clear()
    atops.check(main, 6).raise_if_failed()
    runs = [part.tolist() for part in KEPT]
    assert runs == [[number] * 2 for number in range(len(KEPT))]
    KEPT.clear()


@pytest.mark.parametrize("size", [64, 1_000_000])
def test_global_memory_of_each_run_is_as_new(size: int) -> None:
    """Zeros at the same address, whatever the run before has left there; and nothing is kept when the check is over."""

    async def main() -> tuple[int, int]:
        async with atops.Device(0).create_stream() as stream:
            y = stream.device.empty(size, np.int32)
            found = int((await stream.fetch(y)).sum())
            await stream.fill(y, 7)
            return found, y.address

    report = atops.check(main, 6, same_result=True)
    report.raise_if_failed()
    assert atops.run(main)[0] == 0
    assert not arena._kept and not arena._keepers[0]
    assert not inline_loop._SELECTORS and not inline_loop._KEEPERS[0]


def test_a_pipe_that_is_kept_is_empty() -> None:
    """What has woken the loop of one run does not wake that of the next."""

    async def main() -> bool:
        loop: Any = asyncio.get_running_loop()
        woken = b""
        with suppress(BlockingIOError):
            woken = loop._ssock.recv(1)
        loop._write_to_self()
        return bool(woken)

    atops.check(main, 4, same_result=True).raise_if_failed()


def test_files_that_a_program_has_left_in_its_loop_are_gone() -> None:
    """The loop of the next run watches none of them."""
    ends: list[int] = []

    async def main() -> int:
        loop: Any = asyncio.get_running_loop()
        watched = len(loop._selector.get_map())
        ends.extend(os.pipe())
        os.write(ends[-1], b"x")
        loop.add_reader(ends[-2], bool)
        return watched

    try:
        atops.check(main, 4, same_result=True).raise_if_failed()
    finally:
        for end in ends:
            os.close(end)


@pytest.mark.parametrize("options", [{"schedule": "random"}, {"clock": "virtual"}, {"detect": True}])
def test_a_program_that_waits_for_one_file_is_no_deadlock(options: dict[str, Any]) -> None:
    """Though nothing else is left to run, and whether or not the loop watches a file of the runtime's."""

    async def main() -> bytes:
        loop, (source, sink) = asyncio.get_running_loop(), os.pipe()
        try:
            readable = loop.create_future()
            loop.add_reader(source, lambda: readable.done() or readable.set_result(None))
            os.write(sink, b"x")
            await readable
            loop.remove_reader(source)
            return os.read(source, 1)
        finally:
            os.close(source)
            os.close(sink)

    assert atops.run(main, atops.EmulatorOptions(**options)) == b"x"


class _Asked:
    """A chooser that is asked for each turn of a thread."""

    def __init__(self, chooser: Chooser) -> None:
        self.choose = chooser.choose


def turns(chooser: Any) -> list[Any]:
    """Run eight kernel threads, each of which goes on three times, and a task beside them; return what was chosen.

    Some choose in the middle of their turn, as threads do that issue a transfer, which is then ready, too.
    """
    agenda, left = Agenda(chooser), {("thread", "launch 1", 0, thread): 3 for thread in range(8)}

    def turn(name: Name) -> None:
        left[name] -= 1
        if name[3] in (2, 5):
            transfer = ("transfer", *name[1:], left[name])
            if not agenda.takes_effect(name, transfer):
                agenda.add(transfer, lambda: None)
        if left[name]:
            agenda.add(name, lambda: turn(name))
        elif name[3] == 4:
            agenda.add(("task", "0"), lambda: None)

    for name in left:
        agenda.add(name, lambda name=name: turn(name))  # type: ignore[misc]  # as it is now
    agenda.run()
    return agenda.choices


@pytest.mark.parametrize("seed", range(8))
def test_turns_that_are_drawn_are_those_that_would_be_chosen(seed: int) -> None:
    """By the same seed; and a recorder has kept what came, and how many could have come at most."""
    chosen = turns(_Asked(Random(seed)))
    assert turns(Random(seed)) == chosen
    recorder = Recorder(RandomRuns(seed))
    assert turns(recorder) == chosen
    assert recorder.names == [choice.name for choice in chosen]
    assert recorder.most == max(choice.options for choice in chosen)


def test_a_recorder_with_a_limit_is_asked() -> None:
    """It ends the run at its limit, and not behind it."""
    recorder = Recorder(RandomRuns(1), limit=10)
    with pytest.raises(CutShort, match="has had 10 choices"):
        turns(recorder)
    assert len(recorder.names) == 10


@pytest.mark.slow
def test_runs_leave_nothing() -> None:
    """No object, no descriptor, no logger that keeps silent; tasks and generators that are left are ended."""
    ended = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.append("numbers")

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            await stream.fill(stream.device.empty(4), 1)
        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        generator = numbers()
        assert await anext(generator) == 1
        assert not task.done()

    def held() -> tuple[int, int, int]:
        gc.collect()
        filters = sum(len(logging.getLogger(name).filters) for name in logging.root.manager.loggerDict)
        return len(gc.get_objects()), len(os.listdir("/proc/self/fd")), filters

    assert atops.check(main, 20)
    objects, files, filters = held()
    ended.clear()
    assert atops.check(main, 40)
    assert sorted(ended) == ["numbers"] * 40 + ["waits"] * 40
    ended.clear()
    later = held()
    assert later[1:] == (files, filters)
    assert later[0] - objects < 40


@pytest.mark.slow
@every("runs", [1, 40])
def test_a_late_run_is_the_same_as_in_a_fresh_process(runs: int) -> None:
    """Twenty programs by the seed of the last run: what it returns, its schedule, its trace."""
    assert _late_runs(runs) == "20 the same"


@pytest.mark.soak
def test_a_very_late_run_is_the_same_as_in_a_fresh_process() -> None:
    """Behind the one after which the collector leaves out what there is."""
    assert _late_runs(2_050) == "20 the same"


def _late_runs(runs: int) -> str:
    command = [sys.executable, "-m", "tests.checking.late_runs", str(runs)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": ":".join(sys.path)}, cwd=ROOT, text=True,
                          capture_output=True, check=True)  # fmt: skip
    return done.stdout.strip()


def test_a_run_does_not_go_through_the_tasks_of_other_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a process with thousands, each run would: what is left of it is known without them."""

    async def waits() -> None:
        await asyncio.Event().wait()

    async def main(left: bool) -> None:
        async with atops.Device(0).create_stream() as stream:
            stream.zeros(4)
        if left:
            asyncio.create_task(waits())  # noqa: RUF006  # that is the test
            await asyncio.sleep(0)

    asked: list[object] = []
    all_tasks = asyncio.all_tasks
    monkeypatch.setattr(asyncio, "all_tasks", lambda loop=None: asked.append(loop) or all_tasks(loop))
    assert atops.check(main, 5, arguments=(False,)) and not asked
    assert atops.check(main, 5, arguments=(True,)) and asked, "what is left is ended, as asyncio.run does"
