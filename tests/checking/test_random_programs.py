"""What strategies leave out of the orders of streams, engines and tasks: nothing that comes to anything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atops
from atops.checking.strategies.dpor import Dpor
from atops.checking.strategies.exhaustive import Exhaustive
from tests.checking.exploring import outcomes, sampled
from tests.checking.random_programs import Drawn
from tests.checking.small_programs import an_event, two_fills
from tests.every import every


def assert_nothing_is_left_out(seed: int, most: int, commands: int = 2, streams: int = 2, **options: object) -> None:
    """Assert that both strategies come to all that every order comes to; and random ones, where that is too much."""
    program = Drawn(seed, commands, streams)
    found, runs, all_of_them = outcomes(program.run, Dpor(), most, **options)
    if not all_of_them:
        return
    expected, _, whole = outcomes(program.run, Exhaustive(prune=False), most, **options)
    expected |= sampled(program.run, range(20), **options)
    assert expected <= found, program
    assert expected == found or not whole, program
    again, _, all_of_them = outcomes(program.run, Exhaustive(), 4 * runs + 100, **options)
    assert not all_of_them or again == found, program


@every("seed", [4, 8, 12, 16])
def test_some_programs(seed):
    """A few, for each change."""
    assert_nothing_is_left_out(seed, 100)


@pytest.mark.slow
@every("seed", range(20, 30))
def test_random_programs(seed):
    """Fills, copies, events, values, kernels, calls, locks, on two streams and by one task or two."""
    assert_nothing_is_left_out(seed, 150)


@pytest.mark.soak
@every("options", [{}, {"detect": True}, {"strict": True}])
@every("streams", [2, 3])
@every("seed", range(1000, 1400))
def test_many_random_programs(seed, streams, options):
    """As above, and larger."""
    assert_nothing_is_left_out(seed, 2_000, 3, streams, **options)


def streams_that_fill(streams: int, fills: int) -> Callable[[], Any]:
    """Return a program of so many streams with so many fills each, of memory of its own."""

    async def main() -> Any:
        device = atops.Device(0)
        queues = [device.create_stream() for _ in range(streams)]
        rows = [device.empty(4, np.int32) for _ in queues]
        for value in range(fills):
            for stream, row in zip(queues, rows, strict=True):
                stream.fill(row, value)
        for stream in queues:
            await stream
        return [(await queues[0].fetch(row)).tolist() for row in rows]

    return main


async def handed_over() -> Any:
    device = atops.Device(0)
    async with device.create_stream() as producer, device.create_stream() as consumer:
        x, y = device.empty(4, np.int32), device.empty(4, np.int32)
        for value in range(3):
            producer.fill(x, value)
            consumer.wait(producer.record())
            consumer.copy(y, x)
            producer.wait(consumer.record())
        return (await consumer.fetch(y)).tolist()


async def tasks_with_a_lock() -> Any:
    device, lock, order = atops.Device(0), asyncio.Lock(), list[int]()
    streams = [device.create_stream() for _ in range(2)]
    row = device.empty(4, np.int32)

    async def work(which: int) -> None:
        async with lock:
            order.append(which)
            await streams[which].fill(row, which)

    await asyncio.gather(work(0), work(1))
    return order, (await streams[0].fetch(row)).tolist()


@every(
    "program, runs",
    [
        (two_fills, 3),  # of 624: either may be first, and if the first stream's is, the task may wake before the other
        (an_event, 1),
        (streams_that_fill(2, 1), 2), (streams_that_fill(2, 3), 2), (streams_that_fill(3, 3), 4),
        (handed_over, 2),  # the consumer's last record may be waited for before the fetch is over, or after it
        (tasks_with_a_lock, 12),  # the program's own steps are in every order, those that asyncio adds for gather, too
    ],
)  # fmt: skip
def test_independent_commands_have_few_orders(program, runs):
    """Streams whose commands touch nothing in common go on in one order, but for when a task looks at them."""
    report = atops.check(program, strategy="dpor")
    assert (report.verdict, report.classes) == ("proved", runs)


async def sleeps():
    """Sleep beside a fill."""
    device = atops.Device(0)
    async with device.create_stream() as stream:
        filled = stream.fill(device.empty(4), 1)
        await asyncio.sleep(1e-9)
        return filled.done()


def test_what_looks_at_the_time_has_all_its_orders():
    """Then it matters how long something takes."""
    found, _, whole = outcomes(sleeps, Dpor(), 1000)
    assert whole and found == outcomes(sleeps, Exhaustive(prune=False), 1000)[0]
