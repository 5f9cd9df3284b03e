"""Streams that come and go leave their place in clocks to others, and no race and no order is lost by it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import atops
from atops.base.options import EmulatorOptions
from atops.runtime.driver import board_of
from atops.runtime.races.command_clock import NOTHING, NULL_STREAMS, STREAMS, Epoch, with_entry
from atops.runtime.races.stream_clocks import NOWHERE, DeviceOrder, Orders, StreamClock


def run(main: Callable[[], Any]) -> tuple[atops.Report, Any]:
    """Run a program under the detectors. Returns the report and what it returned."""
    result = atops.run(main, EmulatorOptions(detect=True))
    return atops.report(), result


def page_bytes() -> int:
    """Return the bytes of what the current driver's host knows."""
    detector = board_of(atops.current_driver()).detector
    assert detector is not None
    return sum(page.nbytes for page in detector.host.values())


@pytest.mark.slow
def test_clocks_are_as_long_as_there_are_streams_at_once():
    """Three thousand streams, one after the other, take what one does."""

    async def main() -> list[int]:
        device, sizes = atops.Device(0), []
        memory = device.empty(16)
        for number in range(3000):
            async with device.create_stream() as stream:
                stream.fill(memory, number)
            if number % 1000 == 10:
                sizes.append(page_bytes())
        return sizes

    report, sizes = run(main)
    assert report.verdict == "clean"
    assert sizes[0] == sizes[-1] <= 2048


def test_a_place_is_given_again_only_once_the_host_knows():
    """Of a stream that was dropped at work nothing is known to be over until something waits for it."""

    async def main(waits: bool) -> None:
        device = atops.Device(0)
        memory = device.empty(16)
        for _ in range(5):
            device.create_stream().fill(memory, 1)
            if waits:
                await device.wait()
        await device.wait()

    report, _ = run(_bound(main, False))
    assert report.verdict == "race"
    report, _ = run(_bound(main, True))
    assert report.verdict == "clean"


def _bound(main: Callable[[bool], Any], value: bool) -> Callable[[], Any]:
    async def bound() -> None:
        await main(value)

    return bound


def test_a_race_with_a_place_that_was_another_stream_s_is_found():
    """Streams come and go at random beside one that nothing orders; each time the race is found, or there is none."""
    for seed in range(30):
        choose = random.Random(seed)
        expected = choose.random() < 0.5

        async def main(choose: random.Random = choose, expected: bool = expected) -> None:
            device = atops.Device(0)
            shared, own = device.empty(64), device.empty(64)
            async with device.create_stream() as beside:
                for _ in range(choose.randrange(1, 6)):
                    async with device.create_stream() as stream:
                        stream.fill(own, 1)
                first = beside.fill(shared, 1)
                if not expected:
                    await first
                async with device.create_stream(nonblocking=choose.random() < 0.5) as last:
                    last.fill(shared, 2)

        report, _ = run(main)
        assert report.verdict == ("race" if expected else "clean"), (seed, str(report))


def test_orders():
    """The lowest that is free; none whose commands the host may not know to be over."""
    orders = Orders()
    first, second = orders.take(NOTHING), orders.take(NOTHING)
    assert (first, second) == (STREAMS, STREAMS + 1)
    clock = StreamClock(second, orders.gone)
    clock.last = Epoch(second, 7, 0, True, NOTHING, NOWHERE, "two")
    StreamClock(first, orders.gone)  # of a stream without commands
    del clock
    assert orders.take(NOTHING) == first
    assert orders.take(with_entry(NOTHING, second, 6)) == STREAMS + 2
    assert orders.take(with_entry(NOTHING, second, 7)) == second
    StreamClock(NULL_STREAMS)
    assert not orders.gone


def test_what_a_stream_knew_that_is_gone_stays_known():
    """Null-stream order has it, and so has what waits for the whole device."""
    device, gone = DeviceOrder(), Epoch(70, 5, 0, True, NOTHING, NOWHERE, "gone")
    gone.own = with_entry(NOTHING, 90, 3)
    device.changed[70] = device.learned[70] = gone
    device.forget(70)
    device.forget(71)
    assert not device.changed and not device.learned
    assert np.array_equal(device.blocking[0], gone.own[0]) and np.array_equal(device.every[0], gone.own[0])


@pytest.mark.parametrize("end", ["abort", "failure", "exception"])
@pytest.mark.parametrize("through", [False, True])
def test_a_free_behind_a_wait_that_is_left_out_is_no_race(end: str, through: bool) -> None:
    """The memory is kept until all is over; what is enqueued and freed later needs a wait as ever."""

    async def main() -> None:
        device = atops.Device(0)
        user, owner, third = (device.create_stream(name=name) for name in ("user", "owner", "third"))
        gate, y = device.zeros(1, np.int32), owner.zeros(64, np.int32)
        user.wait(owner.record())
        user.fill(y, 1)
        user.wait_value(gate, 1)
        owner.call(fails) if end == "failure" else owner.wait_value(gate, 2)
        owner.wait(user.record())
        freeing = third if through else owner
        freeing.wait(owner)
        freeing.free(y)
        for _ in range(50):
            await asyncio.sleep(0)
        if end == "exception":
            raise KeyError
        for stream in (owner, user, third):
            stream.abort()
            with suppress(atops.errors.ExecutionError):
                await stream
            stream.clear_error()
        z = device.zeros(64, np.int32)
        user.fill(z, 1)
        third.free(z)  # a race
        await user
        await third

    def fails() -> None:
        raise ValueError

    with suppress(atops.errors.AtopsError, KeyError):
        atops.run(main, atops.EmulatorOptions(detect=True))
    races = [race for race in atops.report().races if race.kind != "deadlock"]
    assert [race.kind for race in races] == ([] if end == "exception" else ["freed while in use"]), races
    assert all(race.memory.startswith("<Allocation #") and "fill" in race.first.what for race in races)
