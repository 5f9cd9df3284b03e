"""Being the scheduler: what could come next, picking it, and going back."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import numpy as np
import pytest
import trio

import atops
from atops import kernels as k
from atops.base.errors import IllegalState, InvalidType, InvalidValue
from atops.checking.stepper import Stepper


async def careless() -> int:
    """Fill a row in one stream and fetch it in another one, in no order."""
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        row = device.zeros(4, np.int32)
        one.fill(row, 7)
        result = await two.fetch(row)
    assert result.tolist() == [7, 7, 7, 7]
    return int(result[0])


def towards(stepper: Stepper, words: str) -> None:
    """Pick what is called so wherever it could come, else what came first."""
    while options := stepper.choices():
        stepper.pick(next((option for option in options if option.words == words), options[0]))


def test_who_is_picked_decides() -> None:
    """The fetch before the fill fails at the assertion; the fill first passes; the schedules repeat both."""
    stepper = Stepper(careless)
    assert [option.words for option in stepper.choices()] == ["stream 1", "stream 2"] and stepper.schedule is None
    towards(stepper, "stream 2")
    assert stepper.failure is not None and stepper.failure.kind == "assertion" and "failed: assertion" in str(stepper)
    with pytest.raises(AssertionError):
        atops.run(careless, atops.EmulatorOptions(schedule=stepper.schedule))
    stepper.back(len(stepper.picks))
    towards(stepper, "stream 1")
    stepper.finish()
    assert stepper.verdict == "passed" and stepper.result == 7
    assert atops.run(careless, atops.EmulatorOptions(schedule=stepper.schedule)) == 7


def test_going_back_is_where_it_was() -> None:
    """After a step back the same could come, and the same picks lead to the same end."""
    stepper = Stepper(careless)
    seen = []
    while options := stepper.choices():
        seen.append(options)
        stepper.pick(len(options) - 1)
    end, picks, schedule = stepper.verdict, stepper.picks, stepper.schedule
    for options in reversed(seen):
        assert stepper.back() == options
    for pick in picks:
        stepper.pick(pick)
    assert (stepper.verdict, stepper.picks, stepper.schedule) == (end, picks, schedule)


def test_a_choice_says_where_it_stands() -> None:
    """Tasks have the line at which they go on; the drawing marks what was picked."""

    async def main() -> None:
        async def wait() -> None:
            async with atops.Device(0).create_stream() as stream:
                await stream

        import asyncio

        await asyncio.gather(wait(), wait())

    stepper = Stepper(main)
    options = stepper.choices()
    assert [option.name[0] for option in options] == ["task", "task"] and "test_stepper.py:" in options[1].place
    stepper.pick(1)
    assert ">" in stepper.drawing and options[1].words in str(options[1])


def test_a_trio_program_and_the_detectors() -> None:
    """`backend` and `options` are as of `atops.check`."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(careless)

    stepper = Stepper(main, options=atops.EmulatorOptions(detect=True), backend="trio")
    stepper.finish()
    assert stepper.failure is not None and stepper.failure.kind == "race" and "record()" in str(stepper)


def test_bad_picks_are_refused() -> None:
    """What could not come, a pick when it is over, too many steps back, and no program."""
    stepper = Stepper(careless)
    for bad in ("stream 9", 2, -1, True, ("stream", 0, 9)):
        with pytest.raises(InvalidValue, match="what could come is stream 1, stream 2"):
            stepper.pick(bad)
    for steps in (1, -1, True, "1"):
        with pytest.raises(InvalidValue, match="expected 0 to 0"):
            stepper.back(steps)  # type: ignore[arg-type]
    stepper.finish()
    with pytest.raises(IllegalState, match="is over: passed"):
        stepper.pick(0)
    with pytest.raises(InvalidType):
        Stepper(5)  # type: ignore[arg-type]


def test_another_program_each_time_is_told() -> None:
    """What picks led to has to be there again."""
    runs = count()

    async def main() -> None:
        device = atops.Device(0)
        streams = [device.create_stream() for _ in range(2 + next(runs) % 2)]
        for stream in streams[-2:]:
            stream.fill(device.empty(4), 1)
        for stream in streams:
            await stream

    stepper = Stepper(main)
    with pytest.raises(IllegalState, match="not the same twice"):
        for _ in range(4):
            stepper.pick(stepper.choices()[0])


def test_an_end_without_choices() -> None:
    """A program in which nothing could come in another order is over at once."""

    async def main() -> int:
        return 5

    stepper = Stepper(main)
    assert stepper.choices() == () and stepper.result == 5 and repr(stepper) == "<Stepper of main: passed, 0 picks>"


@k.kernel
async def total(x):
    """Each thread stores its number, and all of them sum, after a transfer that each waits for."""
    row = k.shared(4, np.int32)
    t = k.threadIdx.x
    row[t] = t + 1
    with k.dte_scope() as dte:
        mine = k.local(4, np.int32)
        await k.memcpy_async(dte, mine, x)
    await k.syncthreads()
    x[t] = row.sum() + mine[0]


async def launched() -> None:
    """Run it beside a fill."""
    async with atops.Device(0).create_stream(name="red") as red, atops.Device(0).create_stream(name="blue") as blue:
        x = atops.Device(0).zeros(4, np.int32)
        blue.fill(x, 7)
        red.launch(total, (1, 4), x)
        got = await red.fetch(x)
    assert got.tolist() == [17] * 4


def named(stepper: Stepper) -> dict[str, list[str]]:
    """Return what is in memory, by name and owner."""
    return {f"{each.name} {each.where} {each.owner}".strip(): list(each.values) for each in stepper.memory}


@k.kernel
async def add(row, more):
    """Each thread adds what another row has, after a transfer."""
    mine, t = k.local(2, np.int32), k.threadIdx.x
    with k.dte_scope() as dte:
        await k.memcpy_async(dte, mine, row)
    row[t] = mine[t] + more[t]


async def lent() -> None:
    """Launch with an array that nothing but the launch knows: it is given back when that is over."""
    device = atops.Device(0)
    async with device.create_stream() as load, device.create_stream() as work:
        row = device.zeros(2, np.int32)
        load.fill(row, 7)
        work.launch(add, (1, 2), row, work.upload(np.full(2, 5, np.int32)))
        await work.fetch(row)


@pytest.mark.parametrize("program", [launched, lent])
def test_looking_changes_nothing(program: Any) -> None:
    """A run that is looked at has the same choices and the same schedule as one that is not: it keeps no memory."""
    looking, plain = Stepper(program, looks=True), Stepper(program)
    looking.finish(), plain.finish()
    assert looking.names == plain.names and looking.schedule == plain.schedule
    looking.go(()), plain.go(())
    for at in count():
        assert looking.choices() == plain.choices()
        if not plain.choices():
            break
        looking.pick(at * 7 % len(plain.choices()))
        plain.pick(at * 7 % len(plain.choices()))
    assert looking.schedule == plain.schedule and looking.verdict == plain.verdict
    with pytest.raises(IllegalState, match="looks=True"):
        _ = plain.memory


def test_memory_and_queues_at_a_choice() -> None:
    """Variables of tasks and of threads have their names and values; a pick says before what it will do."""
    stepper = Stepper(launched, looks=True)
    assert named(stepper) == {"x global": ["0"] * 4}
    red, blue = sorted(stepper.look.queues, key=lambda queue: queue.name, reverse=True)
    assert [each.words for each in red.commands] == ["launch of kernel total", "copy x to the host"]
    assert [each.words for each in blue.commands] == ["fill x with 7"] and "test_stepper.py:" in blue.commands[0].place
    for words in ("stream 1", "thread 0", "transfer", "thread 0"):
        stepper.pick(next(each for each in stepper.choices() if each.words.startswith(words)))
    assert named(stepper)["row shared"] == ["1", "0", "0", "0"] and "mine local thread 0" in named(stepper)
    second = next(each for each in stepper.choices() if each.words.startswith("thread 1"))
    assert stepper.look.doing[second.name][0] == "begins kernel total"
    assert stepper.peek(second).changes == ("row[1]: 0 to 2",)
    assert stepper.peek(second).touched.writes == ("row[1]",)
    stepper.pick(second)
    [row] = [each for each in stepper.memory if each.name == "row"]
    assert (row.changed, row.was, row.values[1]) == ((1,), ("0",), "2")
    assert "\n  x (global): 0 0 0 0\n" in str(stepper) and "row (shared): 1 2 0 0    [1] was 0\n" in str(stepper)
    stepper.finish()
    assert stepper.go(stepper.picks) == () and named(stepper)["x global"]


def test_tasks_that_have_names_are_told_apart() -> None:
    """Two tasks of one function stand at the same line."""

    async def waits() -> None:
        await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(asyncio.create_task(waits(), name="left"), asyncio.create_task(waits()))

    stepper = Stepper(both, looks=True)
    does = {stepper.look.doing[each.name][0] for each in stepper.choices()}
    assert does == {"left: async def waits() -> None:", "async def waits() -> None:"}


def test_what_has_no_memory_is_looked_at_too() -> None:
    """Tasks of a program without a device have their lines; the text names streams, and still does at a failing end."""

    async def waits() -> None:
        import asyncio

        async def wait() -> None:
            await asyncio.sleep(0)

        await asyncio.gather(wait(), wait())

    stepper = Stepper(waits, looks=True)
    stepper.pick(0)
    assert "await asyncio.sleep(0)" in str(stepper)

    async def fails() -> None:
        device = atops.Device(0)
        async with device.create_stream(name="red") as red, device.create_stream(name="blue") as blue:
            await red.fill(device.zeros(1, np.int32), 1)
            await blue.fill(device.zeros(1, np.int32), 1)
        raise AssertionError

    stepper = Stepper(fails, looks=True)
    stepper.finish()
    stepper.go(stepper.picks)
    assert sorted(stepper.look.streams.values()) == ["blue", "red"]


def test_a_schedule_is_loaded() -> None:
    """A string leads to the end of its run, from which one can go back; others are refused."""
    stepper = Stepper(careless)
    towards(stepper, "stream 2")
    picks, schedule = stepper.picks, stepper.schedule
    assert schedule is not None
    again = Stepper(careless)
    assert again.load(schedule).startswith("failed: assertion") and again.picks == picks
    assert again.back(len(picks) - 1) == again.go(picks[:1])
    with pytest.raises(InvalidValue):
        Stepper(launched).load(schedule)
    with pytest.raises(IllegalState, match="not the same twice"):
        again.go([("stream", 0, 9)])
