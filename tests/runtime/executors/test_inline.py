"""Inline runs: one thread, an order that a seed decides and that is the same everywhere, time that does not pass."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import atops
from atops import tops
from atops.base.errors import (
    HostCallFailure,
    IllegalState,
    InvalidType,
    InvalidValue,
    NotInitialized,
    StreamAborted,
    WouldDeadlock,
)
from atops.base.options import EmulatorOptions
from atops.runtime.driver import board_of
from atops.runtime.executors.inline import InlineExecutor
from atops.runtime.executors.inline_loop import ChoosingDeque
from atops.runtime.queues import deadlock
from tests.runtime.boards import PATIENCE, Latch, add_one, broken, leftovers, suspended_forever, works
from tests.runtime.child import run as run_child
from tests.runtime.programs import replay

HOUR = 3600.0


def inline(main: Any, *arguments: Any, **options: Any) -> Any:
    """Run a program inline with these options."""
    return atops.run(main, EmulatorOptions(**options), *arguments)


# ---- replay


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["none", "0", "1", "2024"])
def test_the_same_seed_is_the_same_run_everywhere(seed: str) -> None:
    """Two processes whose dictionaries and sets hash differently print the same trace, to the last nanosecond."""
    first = run_child("replay", seed, PYTHONHASHSEED="1")
    assert first.count("\n") > 50
    assert run_child("replay", seed, PYTHONHASHSEED="4242") == first


def test_the_same_seed_twice_in_one_process() -> None:
    """A run leaves nothing behind that would change the next one."""
    runs = [atops.run(replay.main, replay.options(7)) for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.slow
def test_different_seeds_differ() -> None:
    """Seeds choose orders: of twenty there are many different ones, and every result is a legal one."""
    runs = {seed: tuple(atops.run(replay.main, replay.options(seed))) for seed in range(20)}
    assert len(set(runs.values())) > 10
    for said in runs.values():
        for name in "abcd":
            callbacks = [line for line in said if line.startswith(f"stream {name} callback")]
            assert callbacks == [f"stream {name} callback {number}" for number in range(3)]


@pytest.mark.slow
def test_the_wall_clock_does_not_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a timer of the driver comes due is chance, under the wall's clock; what a seed picks is not."""

    async def main() -> list[str]:
        said: list[str] = []

        async def one(name: str) -> None:
            async with atops.Device(0).create_stream(name=name) as stream:
                array = stream.zeros(24, "int32")
                for number in range(8):
                    stream.launch(add_one, (2, 12), array)
                    stream.call(said.append, f"{name} {number}")
                await stream.fetch(array)
                said.append(f"{name} woke")

        await asyncio.gather(*(one(name) for name in "abcdef"))
        return said

    orders = set()
    for patience in (10**15, 20_000, 100_000, 500_000, 20_000):  # ns between two looks whether all streams stand still
        monkeypatch.setattr(deadlock, "PATIENCE_NS", patience)
        orders.add(tuple(inline(main, seed=3)))
    assert len(orders) == 1


def test_no_seed_is_first_come_first_served() -> None:
    """Without a seed callbacks of equal streams run in the order in which they were enqueued."""

    async def main() -> list[int]:
        order: list[int] = []
        streams = [atops.Device(0).create_stream() for _ in range(5)]
        calls = [stream.call(order.append, number) for number, stream in enumerate(streams)]
        for call in calls:
            await call
        return order

    assert inline(main) == [0, 1, 2, 3, 4]


def test_what_is_not_chosen_keeps_its_order() -> None:
    """The policy's number counts from what has waited longest, whatever was chosen before."""
    ready = ChoosingDeque(lambda count: min(2, count - 1), lambda: None)
    ready.extend("abcde")
    assert [ready.popleft() for _ in range(5)] == ["c", "d", "e", "b", "a"]


def test_a_seed_chooses_between_two() -> None:
    """Two tasks that are both ready run in either order, which the seed decides."""

    async def main() -> str:
        order: list[str] = []

        async def note(name: str) -> None:
            order.append(name)

        await asyncio.gather(note("a"), note("b"))
        return "".join(order)

    assert {inline(main, seed=seed) for seed in range(20)} == {"ab", "ba"}


# ---- the wall clock


@pytest.mark.parametrize("sleep", [None, HOUR, 0.001])
def test_on_the_wall_clock_it_sleeps_until_the_first_timer_of_either(sleep: float | None) -> None:
    """The driver's alone; the driver's before one of the program's; and the program's before one of the driver's."""

    async def main() -> float:
        executor, over = board_of(atops.current_driver()).executor, asyncio.Event()
        first = sleep is None or sleep == HOUR
        timer = executor.later(2_000_000 if first else int(HOUR * 1e9), over.set)
        begun = time.monotonic()
        if first:
            sleeper = None if sleep is None else asyncio.create_task(asyncio.sleep(sleep))
            await over.wait()
            if sleeper is not None:
                sleeper.cancel()
        else:
            await asyncio.sleep(sleep or 0)
            timer.cancel()
        return time.monotonic() - begun

    assert (0.001 if sleep == 0.001 else 0.002) <= inline(main) < HOUR


# ---- the virtual clock


def test_hours_of_sleep_end_at_once() -> None:
    """Under the virtual clock sleeping costs nothing and is exact; tasks wake in the order of their times."""

    async def main() -> tuple[list[int], float]:
        loop, woken = asyncio.get_running_loop(), []
        started = loop.time()

        async def sleep(hours: int) -> None:
            await asyncio.sleep(hours * HOUR)
            woken.append(hours)

        await asyncio.gather(*(sleep(hours) for hours in (5, 1, 3, 2, 4)))
        return woken, loop.time() - started

    before = time.monotonic()
    woken, passed = inline(main, clock="virtual")
    assert woken == [1, 2, 3, 4, 5]
    assert passed == pytest.approx(5 * HOUR, abs=1e-6)
    assert time.monotonic() - before < PATIENCE


@pytest.mark.parametrize("seconds", [1e-9, 3e-7, 0.1, 0.5, 1 / 3, 7.25, 1e4])
def test_a_sleep_takes_its_time_to_the_nanosecond(seconds: float) -> None:
    """Asyncio's deadlines are floats, but what passes is what was asked for."""

    async def main() -> int:
        driver = atops.current_driver()
        before = board_of(driver).now()
        await asyncio.sleep(seconds)
        return board_of(driver).now() - before

    assert inline(main, clock="virtual") == round(seconds * 1e9)


def test_timeouts_under_the_virtual_clock() -> None:
    """A wait with a timeout ends when virtual time has passed, blocking or not, and work is left alone."""

    async def main() -> None:
        device = atops.Device(0)
        latch, stream = Latch(device), device.create_stream()
        held = latch.hold(stream)
        loop = asyncio.get_running_loop()
        started = loop.time()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wait(held), HOUR)
        with pytest.raises(TimeoutError):
            held.wait_sync(HOUR)
        with pytest.raises(TimeoutError):
            stream.sync(HOUR)
        assert loop.time() - started == pytest.approx(3 * HOUR, abs=1e-3)
        latch.open()
        await held

    async def wait(completion: Any) -> None:
        await completion

    inline(main, clock="virtual")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 5])
def test_a_kernel_that_never_ends_does_not_stop_the_clock(
    seed: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It takes no virtual time, but a timeout ends the wait for it, at its time. No deadlock is reported."""
    monkeypatch.setattr("atops.runtime.executors.inline.ENDLESS", 50)

    async def main() -> None:
        stream, loop = atops.Device(0).create_stream(), asyncio.get_running_loop()
        for kernel in ((2, 12), (1, 1)):
            endless = stream.launch(suspended_forever, kernel)
            started = loop.time()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(100):
                    await endless
            with pytest.raises(TimeoutError):
                endless.wait_sync(100)
            assert loop.time() - started == pytest.approx(200, abs=1e-6)
            stream.abort()
            with pytest.raises(StreamAborted):
                await endless
        assert "stands still" not in caplog.text

    inline(main, clock="virtual", seed=seed)


def test_much_work_does_not_move_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many host calls the program waits for, no time passes: only kernels that go on and on move the clock."""
    monkeypatch.setattr("atops.runtime.executors.inline.ENDLESS", 50)

    async def main() -> None:
        stream, loop = atops.Device(0).create_stream(), asyncio.get_running_loop()
        napping, started = asyncio.create_task(asyncio.sleep(1)), loop.time()
        for number in range(400):
            stream.call(int, number)
        await stream
        assert loop.time() == started
        await napping
        assert loop.time() == pytest.approx(started + 1, abs=1e-6)

    inline(main, clock="virtual")


def test_a_kernel_that_the_null_stream_holds_stands_still(caplog: pytest.LogCaptureFixture) -> None:
    """It is reported like any other that waits, and what stands still later is reported as well."""

    async def main() -> None:
        device = atops.Device(0)
        array = device.empty(24, np.int32)
        for turn in range(1, 3):
            latch, stream = Latch(device), device.create_stream()
            latch.hold(stream)
            launched = device.null_stream.launch(add_one, (2, 12), array)
            await asyncio.sleep(10)
            assert caplog.text.count("stands still") == turn
            latch.open()
            await launched

    inline(main, clock="virtual")
    assert "bug in atops" not in caplog.text and "null-stream order" in caplog.text


def test_an_event_measures_virtual_time() -> None:
    """The time between two events is what the clock says, however long the machine took."""

    async def main() -> float:
        device = atops.Device(0)
        stream = device.create_stream()
        start = stream.record()

        async def nap() -> None:
            await asyncio.sleep(2.5)

        stream.call(nap)
        stop = stream.record()
        await stop
        return stop - start

    assert inline(main, clock="virtual") == pytest.approx(2500, rel=1e-6)


# ---- blocking


def test_a_blocking_wait_pumps_the_driver() -> None:
    """`sync` inside an inline run carries out the driver's steps itself: copies, kernels and callbacks."""

    async def main() -> list[str]:
        device, seen = atops.Device(0), []
        stream = device.create_stream()
        array = stream.upload(np.zeros(24, np.int32))
        stream.launch(add_one, (2, 12), array)
        stream.call(seen.append, "callback")
        stream.sync()
        device.sync()
        stream.record().sync()
        assert (stream.fetch(array).wait_sync() == 1).all()
        return seen

    assert inline(main, seed=3) == ["callback"]


def test_awaits_that_cannot_end_beside_an_idle_thread() -> None:
    """Another thread of the process may end a wait for something of its own, but no gathering of waits for streams."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)

    async def main() -> None:
        latch = Latch(atops.Device(0))
        held = latch.hold(atops.Device(0).create_stream())

        async def waiting() -> None:
            await held

        with pytest.raises(WouldDeadlock):
            await asyncio.gather(waiting(), waiting())
        latch.open()
        await held

    thread.start()
    try:
        inline(main)
    finally:
        done.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["wall", "virtual"])
def test_a_blocking_wait_that_cannot_end(clock: str) -> None:
    """When no step is left that could end it, a blocking wait says so instead of hanging; the work is still there."""

    async def main() -> None:
        device = atops.Device(0)
        latch, stream = Latch(device), device.create_stream()
        held = latch.hold(stream)
        for wait in (held.wait_sync, stream.sync, device.sync, stream.record().sync):
            with pytest.raises(WouldDeadlock):
                wait()
        latch.open()
        await stream

    inline(main, clock=clock)


def test_a_blocking_wait_for_an_owed_coroutine() -> None:
    """The loop cannot run a coroutine while it is blocked, so the wait is refused; awaiting it works."""

    async def main() -> None:
        async def host() -> None:
            await asyncio.sleep(0)

        stream = atops.Device(0).create_stream()
        called = stream.call(host)
        with pytest.raises(WouldDeadlock):
            called.wait_sync()
        await called

    inline(main)


def test_a_kernel_that_fails_inline() -> None:
    """Failures are the same inline: the launch fails, the stream is poisoned, others go on."""

    async def main() -> None:
        driver = atops.current_driver()
        stream = atops.Device(0).create_stream()
        failed = stream.launch(broken, (2, 12))
        with pytest.raises(atops.base.errors.LaunchFailure, match="a kernel that fails"):
            await failed
        called = atops.Device(0).create_stream().call(exit_now)
        with pytest.raises(HostCallFailure):
            await called
        assert works(driver)

    inline(main)


def exit_now() -> None:
    """Ask the interpreter to end."""
    raise SystemExit(1)


class Formatted:
    """A result that notes when it is formatted."""

    def __init__(self) -> None:
        self.times = 0

    def __repr__(self) -> str:
        self.times += 1
        return "<Formatted>"


def test_the_result_is_not_formatted() -> None:
    """What a program returns, maybe a large array, is given back and never turned into text on the way."""

    async def main() -> Formatted:
        return Formatted()

    assert inline(main).times == 0


# ---- which threads may use it


def test_a_foreign_thread_is_refused() -> None:
    """Another thread that enqueues, records, waits or closes gets IllegalState, and the run does not notice."""

    async def main() -> list[str]:
        device = atops.Device(0)
        stream = device.create_stream()
        array = stream.zeros(24, "int32")
        await stream
        refused: list[str] = []

        def intrude() -> None:
            for name, call in {
                "fill": lambda: stream.fill(array, 1),
                "launch": lambda: stream.launch(add_one, (2, 12), array),
                "record": lambda: stream.record(),
                "call": lambda: stream.call(print),
                "callback": lambda: stream.add_callback(print),
                "zeros": lambda: stream.zeros(5),
            }.items():
                try:
                    call()
                except IllegalState:
                    refused.append(name)

        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join(PATIENCE)
        assert (await stream.fetch(array) == 0).all()
        assert works(atops.current_driver())
        return refused

    assert inline(main) == ["fill", "launch", "record", "call", "callback", "zeros"]


def test_what_cannot_run_inline() -> None:
    """A function that is no coroutine function, and options that need threads, are refused at the call."""

    async def main() -> None:
        """Do nothing."""

    with pytest.raises(InvalidType, match="async def"):
        atops.run(lambda: None)
    for workers in (2, "sip"):
        with pytest.raises(InvalidValue, match="workers"):
            inline(main, workers=workers)

    async def nested() -> None:
        with pytest.raises(RuntimeError):
            atops.run(main)

    asyncio.run(nested())


# ---- the end


def test_the_end_of_an_inline_run() -> None:
    """The driver is closed when the program returns or raises: its work is dropped, its objects are dead."""
    left: list[Any] = []

    async def main(fail: bool) -> int:
        device = atops.Device(0)
        stream = device.create_stream()
        latch = Latch(device)
        left[:] = [stream, latch.hold(stream), stream.launch(suspended_forever, (1, 12)), device.driver]
        if fail:
            raise ZeroDivisionError
        return 42

    assert inline(main, False) == 42
    for fail in (False, True):
        if fail:
            with pytest.raises(ZeroDivisionError):
                inline(main, True)
        stream, held, launched, driver = left
        for completion in (held, launched):
            with pytest.raises(StreamAborted):
                completion.result()
        with pytest.raises(NotInitialized):
            stream.record()
        assert "closed" in repr(driver)


@pytest.mark.parametrize("seed", range(5))
def test_cancelling_inline(seed: int) -> None:
    """Tasks cancelled in any order leave an empty board, whatever order the seed chooses."""

    async def main() -> None:
        device = atops.Device(0)
        latch = Latch(device)

        async def one() -> None:
            async with device.create_stream() as stream:
                array = stream.upload(np.zeros(1000))
                latch.hold(stream)
                stream.launch(suspended_forever, (2, 12))
                await stream.fetch(array)

        tasks = [asyncio.create_task(one()) for _ in range(30)]
        for turn, task in enumerate(tasks):
            for _ in range(turn % 7):
                await asyncio.sleep(0)
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        latch.close()
        assert leftovers(atops.current_driver()) == {}
        assert works(atops.current_driver())

    inline(main, seed=seed, clock="virtual")


def test_a_question_before_anything_ran() -> None:
    """The first thing that a program asks may be whether something is over."""
    executor = InlineExecutor()
    try:
        executor.asked_in_vain(executor)
        assert executor.questions == {id(executor): 1}
    finally:
        executor.loop.close()


async def _asks(stream: atops.Stream, until: float) -> None:
    while not stream.is_done and asyncio.get_running_loop().time() < until:
        pass


def test_virtual_time_goes_on_for_a_program_that_polls_in_vain() -> None:
    """Nothing is left to run: it gives up by the time, the same one each time."""

    async def main() -> float:
        device = atops.Device(0)
        stream = device.create_stream()
        stream.wait_value(device.zeros(1, np.int32), 1)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(3)  # until the stall was reported
        await _asks(stream, loop.time() + 0.05)
        stream.abort()
        return loop.time()

    assert inline(main, clock="virtual") == inline(main, clock="virtual") >= 3.05


def test_to_ask_for_the_time_takes_none() -> None:
    """A copy takes what its figures say, however often the program looks at the clock beside it."""

    async def main(asked: int) -> int:
        stream = atops.Device(0).create_stream()
        copy = stream.copy(stream.empty(1024, np.uint8), stream.zeros(1024, np.uint8))
        for _ in range(asked):
            asyncio.get_running_loop().time()
        await copy
        (record,) = (each for each in atops.Device(0).driver.tracer.snapshot().records if each.seq == copy.seq)
        return record.finished_ns - record.started_ns

    assert len({inline(main, asked, clock="virtual", trace=100) for asked in (0, 5_000)}) == 1


def test_a_program_that_polls_in_vain_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an error that names it, also where codes are all that its calls give."""
    monkeypatch.setattr("atops.runtime.executors.inline.IN_VAIN", 2_000)

    async def main() -> None:
        stream, word = tops.check(tops.topsStreamCreate()), tops.check(tops.topsMalloc(4))
        tops.check(tops.topsMemset(word, 0, 4))
        tops.check(tops.topsStreamWaitValue32Async(word, 1, 0, stream))
        while tops.topsStreamQuery(stream)[0] != tops.topsSuccess:
            pass

    with pytest.raises(atops.errors.StepLimit, match="nothing is left to run"):
        inline(main, clock="virtual")


@pytest.mark.parametrize("where", ["in a task", "between tasks", "in a call", "in a call and between tasks"])
def test_ctrl_c_leaves_the_handler_that_was_there(where: str) -> None:
    """Pressed once or twice, wherever: KeyboardInterrupt comes out, and Ctrl-C does what it did before the run."""
    before = signal.getsignal(signal.SIGINT)

    def press() -> None:
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        if "call" in where:
            atops.Device(0).create_stream().call(press)
        if "between" in where:
            asyncio.get_running_loop().call_soon(lambda: (press(), press()))
        else:
            press()
        await asyncio.sleep(60)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            atops.run(main)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_program_that_only_polls_comes_to_the_timers() -> None:
    """Under a virtual clock a copy ends at a timer; asking again and again whether it is over advances to it."""

    async def main() -> int:
        device = atops.Device(0)
        stream = device.create_stream()
        copy = stream.copy(device.empty(1 << 20, np.uint8), np.zeros(1 << 20, np.uint8))
        asked = 0
        while not copy.is_done and asked < 1_000_000:
            asked += 1
        return asked

    assert atops.run(main, atops.EmulatorOptions(clock="virtual")) < 1_000_000
