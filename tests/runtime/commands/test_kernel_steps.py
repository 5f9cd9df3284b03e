"""Steps of kernel threads: what each does, where it stands and what it has in use, in every way to run threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import LaunchFailure
from atops.base.options import EmulatorOptions
from atops.base.trace.records import ThreadEvent, ThreadState
from atops.runtime.driver import board_of
from tests.runtime.boards import PATIENCE, device

MODES = [pytest.param(workers, id=f"workers={workers}") for workers in (1, 2, "sip")]
RUNS, BARRIER, GRID, COUNTED, DTE, SIGNAL, ENDED, FAILED = ThreadState


@k.kernel
async def staged(x):
    """Load by DTE, meet at the block's barrier, and end."""
    tile = k.local(16, np.int32)
    shared = k.shared(64, np.int32)
    with k.dte_scope() as dte:
        await k.memcpy_async(dte, tile, x[:16])
        await k.memcpy_async(dte, tile, x[:16])
    await k.syncthreads()
    shared[0] = 1


@k.cooperative
@k.kernel
async def everywhere():
    """Meet at the grid's barrier."""
    await k.syncblocks()


@k.kernel
async def counted():
    """Meet at two counted barriers, and wait for a signal."""
    meeting, again = k.barrier(k.BarrierScope.SIP, 2), k.barrier(k.BarrierScope.SIP, 2)
    await meeting.arrive_and_wait()
    await again.arrive_and_wait()
    k.signal_write(3, 1)
    await k.signal_wait(3, 1)


@k.kernel
async def broken_second():
    """Fail in thread 1 while thread 0 stands at a barrier."""
    if k.threadIdx.x == 1:
        raise ValueError("on purpose")
    await k.syncthreads()


@k.kernel
def plain():
    """Run to the end without a suspension."""


def by_thread(steps: list[ThreadEvent]) -> dict[tuple[int, int], list[ThreadEvent]]:
    """Return the steps of each thread, in order."""
    found: dict[tuple[int, int], list[ThreadEvent]] = {}
    for step in steps:
        found.setdefault((step.block, step.thread), []).append(step)
    return found


def told(chip: atops.Device, kernel: Any, config: Any, *arguments: Any, fails: bool = False) -> list[ThreadEvent]:
    """Return the steps of one launch, which `fails` or does not."""
    tracer = chip.driver.tracer
    stream = chip.create_stream()
    with tracer.detailed(threads=True):
        item = stream.launch(kernel, config, *arguments)
        board_of(chip.driver).executor.block(item, PATIENCE)
        assert (item.exception() is not None) == fails
        steps = tracer.details_since().steps
    stream.clear_error()
    assert {step.launch for step in steps} == {item.seq}
    return steps


def lines(chip: atops.Device, steps: list[ThreadEvent]) -> list[str]:
    """Return the text of the source line where each step stands, or nothing."""
    sites, found = chip.driver.tracer.names().sites, []
    for step in steps:
        if step.site < 0:
            found.append("")
        else:
            place = sites[step.site]
            assert place.file == __file__
            found.append(Path(place.file).read_text(encoding="utf-8").splitlines()[place.line - 1].strip())
    return found


@pytest.mark.parametrize("workers", MODES)
def test_a_thread_runs_waits_and_ends(workers: Any) -> None:
    """Each thread tells its transfers, the barrier of its block and its end, with lines and scratchpads in use."""
    with device(workers=workers, trace=100) as chip:
        steps = by_thread(told(chip, staged, (2, 3), chip.empty(16, "int32")))
        assert sorted(steps) == [(block, thread) for block in range(2) for thread in range(3)]
        for (block, _), own in steps.items():
            turns = [step.turn for step in own]
            assert turns[-3:] == [BARRIER, RUNS, ENDED]
            assert turns[:-3] == [RUNS, DTE, RUNS, DTE, RUNS]
            assert own[-3].on == block
            assert own[1].on != own[3].on
            assert lines(chip, own) == [
                "@k.kernel", "await k.memcpy_async(dte, tile, x[:16])", "await k.memcpy_async(dte, tile, x[:16])",
                "await k.memcpy_async(dte, tile, x[:16])", "await k.memcpy_async(dte, tile, x[:16])",
                "await k.syncthreads()", "await k.syncthreads()", "",
            ]  # fmt: skip
            assert own[1].site != own[3].site
            assert [step.l1_bytes >= 64 for step in own] == [False] + [True] * 7
            assert own[1].l2_bytes >= 256
            assert {step.cluster for step in own} == {block}
            assert [step.at_ns for step in own] == sorted(step.at_ns for step in own)
        transfers = {step.on for own in steps.values() for step in own if step.turn is DTE}
        assert transfers == set(range(12))


@pytest.mark.parametrize("workers", MODES)
def test_a_grid_barrier(workers: Any) -> None:
    """Threads of a cooperative launch stand at the one barrier of their grid."""
    with device(workers=workers) as chip:
        for own in by_thread(told(chip, everywhere, (2, 2))).values():
            assert [(step.turn, step.on) for step in own] == [(RUNS, -1), (GRID, 0), (RUNS, -1), (ENDED, -1)]


@pytest.mark.parametrize("workers", MODES)
def test_a_failure_and_whom_it_ends(workers: Any) -> None:
    """The thread that raised fails at its line, and a thread that stood elsewhere fails there."""
    with device(workers=workers) as chip:
        steps = by_thread(told(chip, broken_second, (1, 2), fails=True))
        assert [step.turn for step in steps[0, 1]] == [RUNS, FAILED]
        assert lines(chip, steps[0, 1])[-1] == 'raise ValueError("on purpose")'
        assert steps[0, 0][-1].turn is FAILED
        if workers != "sip":  # there thread 1 may fail before thread 0 begins
            assert [step.turn for step in steps[0, 0]] == [RUNS, BARRIER, FAILED]
            assert lines(chip, steps[0, 0])[-1] == "await k.syncthreads()"


@pytest.mark.parametrize("workers", MODES)
def test_counted_barriers_and_signals(workers: Any) -> None:
    """Counted barriers are numbered as they come, signals are called by their own number."""
    with device(workers=workers) as chip:
        steps = told(chip, counted, (1, 2))
        kinds = {(step.turn, step.on) for step in steps if step.turn in (COUNTED, SIGNAL)}
        assert kinds == {(COUNTED, 0), (COUNTED, 1), (SIGNAL, 3)}


@pytest.mark.parametrize("workers", MODES)
def test_a_plain_function_runs_and_ends(workers: Any) -> None:
    """A kernel that never suspends has two steps a thread, and the line on which it begins."""
    with device(workers=workers) as chip:
        for own in by_thread(told(chip, plain, (1, 4))).values():
            assert [step.turn for step in own] == [RUNS, ENDED]
            assert lines(chip, own) == ["@k.kernel", ""]


def test_details_without_threads_have_no_steps() -> None:
    """Only a subscriber that asks for threads gets them."""
    with device() as chip, chip.driver.tracer.detailed():
        chip.create_stream().launch(plain, (1, 2)).wait_sync(PATIENCE)
        assert chip.driver.tracer.details_since().steps == []


def test_results_are_those_of_an_unobserved_launch() -> None:
    """Being watched changes no value and no failure."""
    with device() as chip:
        stream = chip.create_stream()
        with chip.driver.tracer.detailed(threads=True), pytest.raises(LaunchFailure, match="on purpose"):
            stream.launch(broken_second, (1, 2)).wait_sync(PATIENCE)
        stream.clear_error()


def test_steps_of_an_inline_run() -> None:
    """Inline too, and by a seed's policy, every thread's steps end; two runs of a seed tell the same."""

    async def main() -> list[ThreadEvent]:
        chip = atops.Device(0)
        tracer = chip.driver.tracer
        with tracer.detailed(threads=True):
            async with chip.create_stream() as stream:
                stream.launch(staged, (2, 12), stream.zeros(16, "int32"))
        return tracer.details_since().steps

    for seed in (None, 5):
        options = EmulatorOptions(seed=seed, clock="virtual")
        steps = atops.run(main, options)
        assert steps == atops.run(main, options)
        assert all(own[-1].turn is ENDED for own in by_thread(steps).values())
        assert len(by_thread(steps)) == 24
