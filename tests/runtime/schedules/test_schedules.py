"""Runs under a schedule: everything that could come next does, and comes again from a string."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

import anyio
import numpy as np
import pytest
import trio

import atops
from atops import kernels as k
from atops.base.choice import Chooser, Name, Plain, Random
from atops.base.errors import IllegalState, InvalidValue, LaunchFailure, NotSupported, StepLimit
from atops.base.options import EmulatorOptions
from atops.runtime.board.current_device import enter
from tests.runtime.child import run as run_child


class Watched:
    """A chooser that notes what was chosen, and of which kinds where there was a choice."""

    def __init__(self, chooser: Chooser) -> None:
        self.chooser = chooser
        self.names: list[Name] = []
        self.real = Counter[object]()

    def choose(self, kind: str, names: Sequence[Name], /) -> int:
        assert len(set(names)) == len(names)
        place = self.chooser.choose(kind, names)
        self.names.append(names[place])
        if len(names) > 1:
            self.real[names[place][0]] += 1
        return place


def run(main: Callable[[], Any], schedule: Any = "random", **options: Any) -> Any:
    """Run a program under a schedule, on the virtual clock unless told."""
    return atops.run(main, EmulatorOptions(schedule=schedule, **{"clock": "virtual", **options}))


async def two_streams() -> None:
    """Three fills in each of two streams."""
    device = atops.Device(0)
    async with device.create_stream() as first, device.create_stream() as second:
        memory = device.allocate(64)
        for stream in (first, second):
            for value in range(3):
                stream.fill(memory, value)


@k.kernel
async def add_by_dte(x: Any) -> None:
    """Add one to what all threads add to."""
    ctx = k.tops_dte_ctx_t()
    mine = k.local(1, np.int32)
    with k.dte_scope(ctx):
        await k.memcpy_async(ctx, mine, x)
        mine[0] += 1
        await k.memcpy_async(ctx, x, mine)


async def two_blocks() -> int:
    """Run two blocks of one thread that add."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.zeros(1, "int32")
        stream.launch(add_by_dte, (2, 1), x)
        return int((await stream.fetch(x))[0])


async def of_all_kinds() -> list[str]:
    """Run everything that can be chosen."""
    said: list[str] = []
    device = atops.Device(0)

    async def worker(name: str) -> None:
        async with device.create_stream() as stream:
            x = stream.zeros(1, "int32")
            stream.launch(add_by_dte, (2, 2), x)
            stream.call(said.append, name)
            stream.copy(np.zeros(1 << 18, np.uint8), device.allocate(1 << 18))
            await asyncio.sleep(1e-6)
            stream.launch(add_by_dte, (2, 2), x)

    await asyncio.gather(worker("a"), worker("b"))
    return said


async def fails() -> None:
    """Fail in a kernel."""
    async with atops.Device(0).create_stream() as stream:
        stream.launch(lost_update, (1, 2), stream.zeros(1, "int32"))
        await stream


@k.kernel
async def lost_update(x: Any) -> None:
    """Assert that no update was lost."""
    ctx = k.tops_dte_ctx_t()
    mine = k.local(1, np.int32)
    with k.dte_scope(ctx):
        await k.memcpy_async(ctx, mine, x)
        mine[0] += 1
        await k.memcpy_async(ctx, x, mine)
    await k.syncthreads()
    k.assert_(x[0] == k.blockDim.x)


@k.kernel
async def spins(x: Any) -> None:
    """Wait for what never comes."""
    while x[0] == 0:
        await k.syncthreads()


async def spins_in_a_kernel() -> None:
    """Launch it."""
    async with atops.Device(0).create_stream() as stream:
        stream.launch(spins, (1, 2), stream.zeros(1, "int32"))


async def spins_on_the_host() -> None:
    """Do the same in a task."""
    while True:  # noqa: ASYNC110  # it is to wait so
        await asyncio.sleep(0)


# ---- what occurs


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["wall", "virtual"])
def test_two_streams_show_every_order(clock: str) -> None:
    """Of three commands each: all twenty in 300 seeds."""
    orders = Counter[tuple[object, ...]]()
    for seed in range(300):
        watched = Watched(Random(seed))
        run(two_streams, watched, clock=clock)
        orders[tuple(name[2] for name in watched.names if name[0] == "stream" and name[2])[:6]] += 1
    assert len(orders) == 20


@pytest.mark.slow
@pytest.mark.parametrize("dte", ["wait", "eager", "seeded"])
def test_an_update_is_lost_between_two_blocks(dte: str) -> None:
    """And is not, both in 20 seeds."""
    assert {run(two_blocks, seed=seed, dte=dte) for seed in range(20)} == {1, 2}


def test_every_kind_is_chosen() -> None:
    """Where there is something else that could come, too."""
    real = Counter[object]()
    for seed in range(10):
        watched = Watched(Random(seed))
        run(of_all_kinds, watched)
        real += watched.real
    for kind in ("thread", "transfer", "stream", "engine", "callback", "task", "timer"):
        assert real[kind] > 5, (kind, real)


def test_names_are_those_of_any_other_seed() -> None:
    """Whatever is done in which order, the same things are done."""

    def names(chooser: Chooser) -> list[Name]:
        watched = Watched(chooser)
        run(of_all_kinds, watched)
        return [name for name in watched.names if name[0] in ("thread", "stream")]

    choosers: list[Chooser] = [Plain(), *map(Random, range(5))]
    found = {frozenset(names(chooser)) for chooser in choosers}
    assert len(found) == 1


# ---- the same again


def noted(main: Callable[[], Any], schedule: Any = "random", **options: Any) -> tuple[Any, str, list[str]]:
    """Return what a run returns, its schedule and its trace."""
    drivers: list[atops.Driver] = []

    def note(driver: atops.Driver, board: Any) -> None:
        drivers.append(driver)
        enter(driver, board)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("atops.runtime.run.enter", note)
        result = run(main, schedule, **options)
    (driver,) = drivers
    assert driver.schedule is not None
    return result, driver.schedule, [repr(record) for record in driver.tracer.records()]


@pytest.mark.slow
@pytest.mark.parametrize("main", [two_streams, two_blocks, of_all_kinds])
@pytest.mark.parametrize("clock", ["wall", "virtual"])
def test_a_string_is_the_same_run(main: Callable[[], Any], clock: str) -> None:
    """The same result, the same string and, on the virtual clock, the same trace."""
    for seed in range(8):
        result, text, trace = noted(main, seed=seed, clock=clock)
        again, same, other = noted(main, text, clock=clock)
        assert (again, same) == (result, text)
        assert clock == "wall" or other == trace


@pytest.mark.slow
def test_a_string_is_the_same_run_in_another_process() -> None:
    """Byte for byte, trace and all, and so the checksum of both; though it was asked for before the run was over."""
    text = run_child("random_programs", "7", "8", PYTHONHASHSEED="1")
    assert run_child("random_programs", "7", "8", text.split()[2], PYTHONHASHSEED="4242") == text


def test_a_failure_says_how_to_repeat_it() -> None:
    """In a note of what ends the run; and what the note says fails alike."""
    for seed in range(20):
        try:
            run(fails, seed=seed)
        except LaunchFailure as error:
            (note,) = error.__notes__
            text = note.partition("schedule='")[2].rstrip("')")
            with pytest.raises(LaunchFailure, match=r"k\.assert_|assert"):
                run(fails, text)
            return
    raise AssertionError("no seed fails")


def test_the_report_of_a_run_has_its_schedule() -> None:
    """With the detectors on, and the string repeats the run."""
    for seed in range(6):
        result = run(two_blocks, seed=seed, detect=True)
        text = atops.report().schedule
        assert text is not None
        assert text in atops.report().to_json()
        assert run(two_blocks, text, detect=True) == result


def test_a_string_that_does_not_fit_is_refused() -> None:
    """Cut, changed, of another version, another program or other options: each with its reason."""
    _, text, _ = noted(two_blocks)

    def refused(why: str, main: Callable[[], Any] = two_blocks, schedule: str = text, **options: Any) -> None:
        with pytest.raises(InvalidValue, match=why):
            run(main, schedule, **options)

    for end in (len(text) - 1, len(text) - 3, len(text) // 2, 5):
        refused("cut|changed", schedule=text[:end])
    swapped = "A" if text[20] != "A" else "B"
    refused("checksum is another", schedule=text[:20] + swapped + text[21:])
    refused("of version 'v2'", schedule="v2" + text[2:])
    refused("is of another program than two_streams", two_streams)
    refused("made under other options", strict=True)
    refused("made under other options", devices=2)
    run(two_blocks, text, clock="wall")  # which is the default: the string brings its own clock
    with pytest.raises(InvalidValue, match="expected 'random', 'plain', the string of a run"):
        EmulatorOptions(schedule="anything")


async def of_arguments(count: int) -> int:
    """Run as many tasks as asked."""
    done = []

    async def one(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    await asyncio.gather(*map(one, range(count)))
    return len(done)


def test_a_run_that_departs_says_where() -> None:
    """The program is the same, and what it is given is not."""
    drivers: list[Any] = []

    async def kept() -> int:
        drivers.append(atops.current_driver())
        return await of_arguments(len(drivers) + 1)

    run(kept)
    with pytest.raises(InvalidValue, match=r"departs from its schedule at choice \d+: .*(could come|goes on|is over)"):
        run(kept, drivers[0].schedule)


@pytest.mark.slow
def test_random_programs_are_the_same_in_two_processes() -> None:
    """With other hash seeds: choices, what happened, and traces."""
    first = run_child("random_programs", "0", "30", PYTHONHASHSEED="1")
    assert run_child("random_programs", "0", "30", PYTHONHASHSEED="4242") == first
    assert len(first.splitlines()) == 30


@pytest.mark.soak
def test_a_thousand_random_programs_are_the_same_in_two_processes() -> None:
    """As above."""
    for start in range(0, 1000, 100):
        numbers = str(start), str(start + 100)
        first = run_child("random_programs", *numbers, PYTHONHASHSEED="1")
        assert run_child("random_programs", *numbers, PYTHONHASHSEED="77") == first


# ---- what is refused, and what never ends


@pytest.mark.parametrize("main", [spins_in_a_kernel, spins_on_the_host])
def test_a_run_that_never_ends_is_a_verdict(main: Callable[[], Any]) -> None:
    """After so many steps, with what goes on; under any chooser, and nothing hangs."""
    for schedule in ("random", "plain"):
        with pytest.raises(StepLimit, match=r"^4000 steps were made and the run is not over; .* of (thread|task)"):
            run(main, schedule, steps=4000)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_stands_beside_a_heartbeat_is_named(backend: Literal["asyncio", "trio"]) -> None:
    """Where it waits, for what goes on and on may only be what does so by right."""
    door, sleep = (asyncio.Event(), asyncio.sleep) if backend == "asyncio" else (trio.Event(), trio.sleep)

    async def beat() -> None:
        while True:
            await sleep(1)

    async def stand() -> None:
        await door.wait()  # here

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(beat)
            group.start_soon(stand)

    lines, start = inspect.getsourcelines(test_what_stands_beside_a_heartbeat_is_named)
    line = next(at for at, text in enumerate(lines, start) if text.endswith("# here\n"))
    with pytest.raises(StepLimit) as caught:
        atops.run(main, atops.EmulatorOptions(schedule="plain", steps=2500, clock="virtual"), backend=backend)
    told = str(caught.value)
    assert f"stand waits at test_schedules.py:{line}" in told and "beat waits" not in told


async def to_a_thread() -> None:
    """Run something in a thread of the loop's."""
    await asyncio.to_thread(len, "")


async def from_a_thread() -> None:
    """Have a thread of the program's own end a wait."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def end() -> None:
        with pytest.raises(IllegalState):
            loop.call_soon_threadsafe(future.set_result, None)

    threading.Thread(target=end).start()
    await future


def test_threads_of_the_program_are_refused() -> None:
    """When they go on is the system's choice."""
    with pytest.raises(NotSupported, match="when a thread goes on is chosen by the system"):
        run(to_a_thread)
    with pytest.raises(IllegalState, match="used the loop of a run under a schedule"):
        run(from_a_thread)


def in_a_thread() -> None:
    """Use a stream in a thread of the program's own, and take no notice of how that ends."""
    stream = atops.Device(0).create_stream()

    def work() -> None:
        with pytest.raises(IllegalState, match="used a driver that runs inline"):
            stream.fill(stream.zeros(1), 1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


async def in_a_thread_and_a_task() -> None:
    """The same, in a coroutine function."""
    in_a_thread()


@pytest.mark.parametrize("program", [in_a_thread, in_a_thread_and_a_task])
def test_what_is_refused_in_a_thread_fails_the_run(program: Callable[[], object]) -> None:
    """The exception ends in the thread; a run that could not do its work is no pass."""
    report = atops.check(program, 3)
    assert report.verdict == "failed"
    assert report.failure is not None
    assert "used a driver that runs inline" in report.failure.text
    if program is in_a_thread_and_a_task:
        with pytest.raises(IllegalState, match="used a driver that runs inline"):
            run(in_a_thread_and_a_task)


def test_a_driver_with_threads_has_no_schedule() -> None:
    """It is refused where it is made."""
    with pytest.raises(IllegalState, match="a schedule needs an inline run"):
        atops.Driver(EmulatorOptions(schedule="plain"))


async def blocks() -> int:
    """Block in a run under a schedule."""
    device = atops.Device(0)
    stream = device.create_stream()
    x = stream.zeros(1, "int32")
    stream.launch(add_by_dte, (2, 1), x)
    stream.sync()
    result = int(stream.fetch(x).result(10)[0])
    stream.close()
    return result


def test_a_program_that_blocks_is_scheduled_too() -> None:
    """The driver's steps are chosen while it does."""
    assert {run(blocks, seed=seed) for seed in range(20)} == {1, 2}


async def times_out() -> str:
    """Wait for less long than a command takes."""
    device = atops.Device(0)
    async with device.create_stream() as stream:
        big = device.allocate(1 << 26)
        stream.fill(big, 1)
        try:
            async with asyncio.timeout(1e-9):
                await stream
        except TimeoutError:
            return "late"
    return "early"


def test_a_timeout_may_come_first() -> None:
    """Of a wait for a command that takes longer."""
    assert run(times_out, "plain") == "late"
