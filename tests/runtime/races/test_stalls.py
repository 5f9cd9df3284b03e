"""Waits that stand still: a deadlock is named, with the wake-up that was lost; what the host ends after all is none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.errors import HostCallFailure, WouldDeadlock
from atops.runtime.queues import deadlock
from atops.runtime.races.stalls import LOST

HOUR = 3_600
Word = atops.DeviceArray
Program = Callable[[atops.Device, atops.Stream, atops.Stream, Word], Coroutine[Any, Any, object]]


async def nothing_writes_it(device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word) -> None:
    await one.wait_value(word, 1)


async def each_writes_behind_its_wait(device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word) -> None:
    other = await zeros(two)
    one.wait_value(word, 1)
    one.write_value(other, 1)
    two.wait_value(other, 1)
    await two.write_value(word, 1)


async def pulsed_before_the_wait(device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word) -> None:
    two.write_value(word, 1)
    await two.write_value(word, 0)
    await one.wait_value(word, 1)


async def with_a_deadline_around_it(device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word) -> None:
    async with asyncio.timeout(HOUR), device.create_stream() as three:
        await three.wait_value(word, 1)


async def a_coroutine_that_waits_for_its_stream(
    device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word
) -> None:
    async def stuck() -> None:
        await one.record()

    await one.create_task(stuck())


async def in_memory_that_goes(device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word) -> None:
    with suppress(TimeoutError, atops.errors.IllegalAddress):
        async with asyncio.timeout(HOUR):
            await one.wait_value(word, 1)
    two.free(word)


WRONG: dict[Program, list[str]] = {
    nothing_writes_it: ["deadlock"], each_writes_behind_its_wait: ["deadlock"],
    pulsed_before_the_wait: ["deadlock", LOST], with_a_deadline_around_it: ["deadlock"],
    in_memory_that_goes: ["deadlock"], a_coroutine_that_waits_for_its_stream: ["deadlock"],
}  # fmt: skip


async def written_by_a_host_that_slept(device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word) -> None:
    done = one.wait_value(word, 1)
    await asyncio.sleep(HOUR)
    two.write_value(word, 1)
    await done


async def written_by_a_task_that_slept(device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word) -> None:
    async def late() -> None:
        await asyncio.sleep(HOUR)
        two.write_value(word, 1)

    async with asyncio.TaskGroup() as group:
        group.create_task(late())
        await one.wait_value(word, 1)


async def written_after_a_deadline(device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word) -> None:
    done = one.wait_value(word, 1)
    with suppress(TimeoutError):
        async with asyncio.timeout(HOUR):
            await done
    two.write_value(word, 1)
    await done


async def given_up_after_a_deadline(device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(HOUR):
            await one.wait_value(word, 1)
    one.abort()


async def a_pulse_that_was_seen(device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word) -> None:
    seen = one.wait_value(word, 1)
    two.write_value(word, 1)
    two.wait(seen)
    two.write_value(word, 0)
    await two


RIGHT: list[Program] = [
    written_by_a_host_that_slept, written_by_a_task_that_slept, written_after_a_deadline,
    given_up_after_a_deadline, a_pulse_that_was_seen,
]  # fmt: skip


async def zeros(stream: atops.Stream) -> Word:
    word = stream.zeros(1, np.uint32)
    await stream
    return word


def report_of(program: Program) -> atops.Report:
    async def main() -> atops.Driver:
        device = atops.Device(0)
        one, two = device.create_stream(name="one"), device.create_stream(name="two")
        with suppress(WouldDeadlock, HostCallFailure, TimeoutError):
            await program(device, one, two, await zeros(two))
        return device.driver

    return atops.run(main, atops.EmulatorOptions(detect=True, clock="virtual")).report()


@pytest.mark.parametrize("program", WRONG, ids=lambda each: each.__name__)
def test_waits_that_cannot_end_are_named(program: Program) -> None:
    """Once, with the line of the wait."""
    report = report_of(program)
    assert [race.kind for race in report.races] == WRONG[program]
    assert report.races[0].first.site is not None and report.races[0].first.site.path == __file__


@pytest.mark.parametrize("program", RIGHT, ids=lambda each: each.__name__)
def test_what_ends_after_all_is_no_deadlock(program: Program) -> None:
    """However long it stood still, by whatever the host does."""
    assert report_of(program).verdict == "clean"


def test_a_lost_wake_up_has_both_stores() -> None:
    """The one that would have ended the wait, the one that came too early, and where the wait is."""
    race = report_of(pulsed_before_the_wait).races[1]
    first, second = race.first.site, race.second.site
    assert first is not None and second is not None and second.line == first.line + 1
    assert f"line {second.line + 1} of test_stalls.py" in race.advice


def test_a_deadlock_says_which_commands_would_store_the_words() -> None:
    """And behind which wait they are: the whole circle."""
    (race,) = report_of(each_writes_behind_its_wait).races
    sides = {side.actor: side.what for side in (race.first, race.second)}
    assert "to be stored by <Completion 8: write_value on two, pending> behind <Completion 7" in sides["one"]
    assert "to be stored by <Completion 6: write_value on one, pending> behind <Completion 5" in sides["two"]


@k.kernel
async def asks(signal: np.int32) -> None:
    """Keep a cluster until the signal is written."""
    await k.signal_wait(signal, 1)


@k.kernel
def answers(signal: np.int32) -> None:
    """Write what the other kernel waits for."""
    k.signal_write(signal, 1)


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_launch_that_has_no_cluster_waits_for_one(cooperative: bool) -> None:
    """It does not run; the kernel that holds them is named, and the advice is about clusters."""

    async def program(device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word) -> None:
        signal = device.signals.allocate()
        one.launch(asks, (1 if cooperative else 2, 1), signal)
        await two.launch(answers, (2 if cooperative else 1, 1), signal, cooperative=cooperative)

    race = report_of(program).races[0]
    what = {side.actor: side.what for side in (race.first, race.second)}["two"]
    wanted = "2 clusters at once: cluster 0 is" if cooperative else "a cluster: both are"
    assert f"kernel answers (command 4) waits for {wanted} held by kernel asks of one (test_stalls.py:" in what
    assert "runs kernel" not in what and "enqueue it before the kernel that waits" in race.advice


async def a_race_before_the_write(device: atops.Device, one: atops.Stream, two: atops.Stream, word: Word) -> None:
    slot, out = device.zeros(4, np.int32), device.zeros(4, np.int32)
    await device.wait()
    two.copy(out, slot)
    one.fill(slot, 5)
    one.write_value(word, 1)
    await two.wait_value(word, 1)


def test_a_wait_that_stands_because_of_a_race_is_told_as_the_race() -> None:
    """In strict mode the racing command fails, and the store that the wait is for is skipped: the cause comes first."""

    async def main() -> None:
        device = atops.Device(0)
        one, two = device.create_stream(name="one"), device.create_stream(name="two")
        word = await zeros(one)
        await a_race_before_the_write(device, one, two, word)

    options = atops.EmulatorOptions(strict=True, clock="virtual")
    with pytest.raises(WouldDeadlock, match=r"^after a failure, data race: .*, nothing is left") as caught:
        atops.run(main, options)
    assert isinstance(caught.value.__cause__, atops.errors.DataRace)
    write = f"test_stalls.py:{a_race_before_the_write.__code__.co_firstlineno + 5} in a_race_before_the_write"
    race, stall = atops.report().races
    assert race.kind == "data race" and "mend the failure" in stall.advice
    assert f"write_value (command 5) of one, at {write}, would have stored there, and was skipped" in stall.first.what
    assert "no command that is enqueued" not in str(stall)
    failure = atops.check(main, 1, options=atops.EmulatorOptions(strict=True)).failure
    assert failure is not None and failure.kind == "race" and "data race: " in failure.text


@pytest.mark.parametrize("handled", [True, False])
def test_a_wait_that_a_skipped_store_would_not_end_is_a_deadlock(handled: bool) -> None:
    """A failure that the program has seen explains no later wait, nor does a store of another value."""

    async def main() -> None:
        device = atops.Device(0)
        one, two = device.create_stream(name="one"), device.create_stream(name="two")
        word = await zeros(one)
        one.call(lambda: 1 / 0)
        one.write_value(word, 1)
        if handled:
            with pytest.raises(atops.errors.AtopsError):
                await one
        await two.wait_value(word, 1 if handled else 2)

    failure = atops.check(main, 1).failure
    assert failure is not None and failure.kind == "deadlock" and "after a failure" not in failure.text


class Tell(logging.Handler):
    """Sets an event when a standstill is logged."""

    def __init__(self, event: asyncio.Event) -> None:
        super().__init__()
        self.event, self.loop = event, asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        self.loop.call_soon_threadsafe(self.event.set)


@contextmanager
def standing_still() -> Iterator[asyncio.Event]:
    handler = Tell(asyncio.Event())
    logging.getLogger("atops.stall").addHandler(handler)
    try:
        yield handler.event
    finally:
        logging.getLogger("atops.stall").removeHandler(handler)


@pytest.mark.parametrize("right", [True, False])
def test_where_threads_run_a_standstill_counts_until_it_ends(monkeypatch: pytest.MonkeyPatch, right: bool) -> None:
    """A report in the middle has it; one behind the end has it where the stream's block was left by an error."""
    monkeypatch.setattr(deadlock, "PATIENCE_NS", 5_000_000)

    async def main() -> tuple[atops.Report, atops.Report]:
        async with atops.Driver(atops.EmulatorOptions(detect=True)) as driver:
            device = atops.Device(0, driver)
            other = device.create_stream()
            word = await zeros(other)
            with suppress(KeyError), standing_still() as stalled:
                async with device.create_stream() as stream:
                    stream.wait_value(word, 1)
                    await stalled.wait()
                    middle = driver.report()
                    if not right:
                        raise KeyError
                    other.write_value(word, 1)
        return middle, driver.report()

    middle, end = asyncio.run(main())
    assert [race.kind for race in middle.races] == ["deadlock"]
    assert [race.kind for race in end.races] == ([] if right else ["deadlock"])
