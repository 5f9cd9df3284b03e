"""Programs in trio: run by it, by a schedule and on the virtual clock, and checked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
import trio
import trio.testing

import atops
from atops import kernels as k
from atops.base.errors import IllegalState, InvalidValue, NotSupported, StepLimit, WouldDeadlock
from atops.runtime.schedules import trio_run

VIRTUAL = atops.EmulatorOptions(clock="virtual")


@k.kernel
async def add(x: k.Span) -> None:
    """Add one, by DTE."""
    ctx, mine = k.tops_dte_ctx_t(), k.local(1, np.int32)
    with k.dte_scope(ctx):
        await k.memcpy_async(ctx, mine, x)
        mine[0] += 1
        await k.memcpy_async(ctx, x, mine)


async def lost_update() -> int:
    """Add to a number in two tasks that read it, wait, and store it."""
    total = [0]

    async def one() -> None:
        seen = total[0]
        await trio.lowlevel.checkpoint()
        total[0] = seen + 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        nursery.start_soon(one)
    return total[0]


async def busy(log: list[object]) -> object:
    """Use streams, kernels, tasks, timeouts, channels and a cancelled nursery, and return what came of it."""
    device = atops.Device(0)
    send, receive = trio.open_memory_channel[int](2)

    async def work(number: int) -> None:
        async with device.create_stream(name=f"s{number}") as stream:
            x = stream.zeros(1, np.int32)
            stream.launch(add, (2, 1), x)
            await send.send(number)
            log.append((number, int((await stream.fetch(x))[0])))

    async def linger(number: int) -> None:
        try:
            await trio.sleep_forever()
        finally:
            log.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(work, number)
        for _ in range(3):
            log.append(await receive.receive())
    with trio.move_on_after(2.5):
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(linger, number)
    return trio.current_time(), log


def test_without_a_schedule_it_is_a_trio_run() -> None:
    """The driver is a threaded one, current inside, and closed then."""
    drivers = []

    async def main(number: int) -> float:
        drivers.append(atops.current_driver())
        async with atops.Device(0).create_stream() as stream:
            x = stream.zeros(4, np.float32)
            stream.fill(x, number)
            await trio.to_thread.run_sync(int)
            return float((await stream.fetch(x))[0])

    assert atops.run(main, None, 5, backend="trio") == 5.0
    assert atops.run(main, atops.EmulatorOptions(workers=2), 6, backend="trio") == 6.0
    assert all(driver.closed is not None for driver in drivers)


def test_an_hour_passes_at_once() -> None:
    """Sleeps, deadlines and commands take virtual time; the clock meets deadlines and ends of commands exactly."""

    async def main() -> tuple[float, float, float]:
        await trio.sleep(3600)
        slept = trio.current_time()
        with trio.move_on_after(0.25):
            await trio.sleep_forever()
        after = trio.current_time()
        async with atops.Device(0).create_stream() as stream:
            await stream.fill(stream.empty(1 << 20), 1.0)
        return slept, after, trio.current_time() - after

    slept, after, took = atops.run(main, VIRTUAL, backend="trio")
    assert (slept, after) == (3600.0, 3600.25) and 0 < took < 1e-4


def test_what_is_polled_for_comes() -> None:
    """A program that polls does not hold virtual time up."""

    async def main() -> bool:
        async with atops.Device(0).create_stream() as stream:
            filled = stream.fill(stream.empty(1 << 20), 1.0)
            while not filled.done():
                await trio.lowlevel.checkpoint()
        return True

    assert atops.run(main, VIRTUAL, backend="trio")


def test_tasks_blocked_before_time_goes_on() -> None:
    """`wait_all_tasks_blocked` ends when the others wait, and not when their time is over."""

    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 10)
            await trio.testing.wait_all_tasks_blocked()
            seen = trio.current_time()
        return seen

    assert atops.run(main, VIRTUAL, backend="trio") == 0.0


def test_a_lost_update_is_found() -> None:
    """The order of trio's own tasks is chosen, task by task; the schedule repeats the failure."""
    counts = {
        atops.run(lost_update, atops.EmulatorOptions(schedule="random", seed=seed), backend="trio")
        for seed in range(20)
    }
    assert counts == {1, 2}
    report = atops.check(lost_update, 50, same_result=True, backend="trio")
    assert report.verdict == "failed" and report.schedule is not None and 'backend="trio"' in str(report)
    assert any(forced.name[0] == "task" for forced in report.forced) or not report.forced
    again = atops.EmulatorOptions(schedule=report.schedule)
    assert {atops.run(lost_update, again, backend="trio") for _ in range(3)} <= {1, 2}


def test_a_right_program_is_proved() -> None:
    """With a lock around it every order of the tasks gives two."""

    async def right() -> None:
        total, lock = [0], trio.Lock()

        async def one() -> None:
            async with lock:
                seen = total[0]
                await trio.lowlevel.checkpoint()
                total[0] = seen + 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            nursery.start_soon(one)
        assert total == [2]

    assert atops.check(right, 500, "exhaustive", backend="trio").verdict == "proved"


async def waits_for_ever() -> None:
    """Wait for what nothing sets."""
    await trio.Event().wait()


async def waits_shielded() -> None:
    """The same, where no cancellation comes."""
    with trio.CancelScope(shield=True):
        await trio.Event().wait()


async def uses_a_thread() -> None:
    """Have a thread do something."""
    await trio.to_thread.run_sync(int)


async def calls_from_a_thread() -> None:
    """Have a thread of its own use the run."""
    import threading

    token, event = trio.lowlevel.current_trio_token(), trio.Event()
    threading.Thread(target=lambda: token.run_sync_soon(event.set)).start()
    with trio.move_on_after(1000):
        await event.wait()
    await trio.sleep(1000)


async def spins() -> None:
    """Never end."""
    while True:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("program, error", [
    (waits_for_ever, WouldDeadlock), (waits_shielded, WouldDeadlock), (uses_a_thread, IllegalState), (spins, StepLimit),
])  # fmt: skip
def test_what_cannot_go_on_ends(program: Callable[[], Awaitable[None]], error: type[Exception]) -> None:
    """A deadlock names the line; threads are refused; a run has so many steps."""
    options = atops.EmulatorOptions(clock="virtual", schedule="random", steps=5000)
    with pytest.raises(error) as raised:
        atops.run(program, options, backend="trio")  # type: ignore[arg-type]  # a coroutine function
    if error is WouldDeadlock:
        assert "test_trio.py" in str(raised.value)


def test_a_thread_that_uses_the_run_ends_it() -> None:
    """When it does so is no choice; in the end the run says so, and nothing hangs."""
    with pytest.raises((IllegalState, WouldDeadlock)):
        atops.run(calls_from_a_thread, atops.EmulatorOptions(schedule="plain"), backend="trio")


def test_failures_come_out() -> None:
    """What tasks raise comes out as trio has it, with the schedule in a note."""

    async def main() -> None:
        async def fail() -> None:
            raise KeyError("x")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(fail)

    with pytest.raises(ExceptionGroup) as raised:
        atops.run(main, atops.EmulatorOptions(schedule="random", seed=3), backend="trio")
    assert raised.group_contains(KeyError) and "EmulatorOptions(schedule=" in raised.value.__notes__[0]


def test_a_kernel_failure_comes_out() -> None:
    """A command that fails poisons its stream as anywhere, and what a blocked call finds out is raised there."""

    @k.kernel
    async def outside(x: k.Span) -> None:
        x[99] = 1

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            stream.launch(outside, (1, 1), stream.zeros(4, np.int32))
            await stream

    with pytest.raises(atops.errors.LaunchFailure):
        atops.run(main, VIRTUAL, backend="trio")


def test_races_are_reported() -> None:
    """The detectors see a trio program, too."""

    async def main() -> None:
        device = atops.Device(0)
        async with device.create_stream() as one, device.create_stream() as two:
            x = device.empty(16)
            one.fill(x, 1)
            two.fill(x, 2)

    atops.run(main, atops.EmulatorOptions(clock="virtual", detect=True), backend="trio")
    assert atops.report().verdict == "race"
    report = atops.check(main, 10, options=atops.EmulatorOptions(detect=True), backend="trio")
    assert report.failure is not None and report.failure.kind == "race"


def test_a_blocking_call_runs_the_steps() -> None:
    """As in any inline run."""

    async def main() -> list[int]:
        async with atops.Device(0).create_stream() as stream:
            x = stream.zeros(2, np.int32)
            stream.fill(x, 4)
            return [int(each) for each in stream.fetch(x).wait_sync()]

    assert atops.run(main, VIRTUAL, backend="trio") == [4, 4]


def test_a_host_coroutine_is_a_task() -> None:
    """What a stream awaits of the host's runs as a task of the same run."""

    async def main() -> list[str]:
        seen: list[str] = []

        async def host() -> None:
            await trio.sleep(1)
            seen.append("host")

        async with atops.Device(0).create_stream() as stream:
            stream.call(host)
            await stream
            seen.append("stream")
        return seen

    assert atops.run(main, VIRTUAL, backend="trio") == ["host", "stream"]


@pytest.mark.slow
def test_other_processes_take_the_same_steps(tmp_path: Path) -> None:
    """One seed, one trace and one result, whatever the hash seed: nothing depends on the order of a set."""
    script = tmp_path / "again.py"
    script.write_text(
        "import atops, sys, zlib\nfrom atops.trace.file import records_to_json\n"
        "from tests.runtime.schedules.test_trio import busy\nfound = []\n"
        "async def main():\n    result = await busy([])\n"
        "    found.append(records_to_json(atops.current_driver().tracer.snapshot()))\n    return result\n"
        "for seed in range(8):\n"
        "    options = atops.EmulatorOptions(clock='virtual', schedule='random', seed=seed)\n"
        "    print(atops.run(main, options, backend='trio'), zlib.crc32(found[-1].encode()))\n"
    )
    said = {
        subprocess.run(
            [sys.executable, str(script)], env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2", "77")
    }  # fmt: skip
    assert len(said) == 1 and len(set(said.pop().splitlines())) > 1


def test_a_schedule_is_of_its_loop() -> None:
    """The string of a trio run repeats it, and is refused by asyncio; one that was cut is refused."""
    drivers: list[atops.Driver] = []

    async def main() -> int:
        drivers.append(atops.current_driver())
        return await lost_update()

    first = atops.run(main, atops.EmulatorOptions(clock="virtual", schedule="random", seed=5), backend="trio")
    string = drivers[-1].schedule
    assert string is not None
    assert atops.run(main, atops.EmulatorOptions(schedule=string), backend="trio") == first
    with pytest.raises(InvalidValue, match="other options"):
        atops.run(main, atops.EmulatorOptions(schedule=string, clock="virtual"))
    with pytest.raises(InvalidValue):
        atops.run(main, atops.EmulatorOptions(schedule=string[:-3]), backend="trio")


def test_arguments_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown backend, a plain function to check, and a trio that has changed are refused by name."""
    with pytest.raises(InvalidValue, match="backend is 'curio'"):
        atops.run(lost_update, backend="curio")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="backend is 'curio'"):
        atops.check(lost_update, backend="curio")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="coroutine function"):
        atops.check(lambda: None, backend="trio")
    monkeypatch.setattr(trio_run, "deque", list)
    with pytest.raises(NotSupported, match="no queue of tasks"):
        atops.run(lost_update, VIRTUAL, backend="trio")


def test_a_checked_script_may_run_trio() -> None:
    """A plain program that gives its main function to `atops.run(..., backend="trio")` is checked as such."""

    def program() -> None:
        assert atops.run(lost_update, backend="trio") == 2

    report = atops.check(program, 50)
    assert report.verdict == "failed" and report.failure is not None and report.failure.kind == "assertion"
