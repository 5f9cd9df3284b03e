"""What a report advises: the order that the program has in mind, whichever of the two happened to run first."""

from __future__ import annotations

import numpy as np

import atops
from atops import kernels as k
from atops import tops
from atops.base.options import EmulatorOptions
from atops.hip import hip
from tests.every import every


@k.kernel
def slow() -> None:
    """Take long."""
    k.cost(flops=1_000_000)


async def reuse() -> None:
    """Load a buffer again that a slow stream still has to fetch; the second load runs before that fetch."""
    device = atops.Device(0)
    async with device.create_stream(name="load") as load, device.create_stream(name="save") as save:
        slot = load.zeros(4, np.int32)
        save.wait(load.record())
        save.launch(slow, (1, 1))
        result = save.fetch(slot)
        load.fill(slot, 2)
        assert (await result)[0] == 2


def test_the_command_that_was_enqueued_first_comes_first():
    """So the one that reuses the buffer is told to wait for the one that reads it, and not the other way round."""
    atops.run(reuse, EmulatorOptions(detect=True, clock="virtual"))
    (race,) = atops.report().races
    assert (race.first.actor, race.second.actor) == ("save", "load")
    assert "event = save.record(); load.wait(event)" in race.advice


async def waits_for_no_record(device: atops.Device, one: atops.Stream, two: atops.Stream) -> None:
    """Wait before the record."""
    row, event = device.zeros(4, np.int32), device.create_event()
    two.wait(event)
    one.fill(row, 1)
    one.record(event)
    two.fill(row, 2)


async def records_too_early(device: atops.Device, one: atops.Stream, two: atops.Stream) -> None:
    """Record before the fill."""
    row = device.zeros(4, np.int32)
    event = one.record()
    one.fill(row, 1)
    two.wait(event)
    two.fill(row, 2)


async def waits_for_another(device: atops.Device, one: atops.Stream, two: atops.Stream) -> None:
    """Wait for what has nothing to do with it, and comes later."""
    row = device.zeros(4, np.int32)
    one.fill(row, 1)
    two.fill(row, 2)
    two.wait(one.record())


@k.kernel
def pass_through(scratch, x):
    scratch[:] = x[:] * 2
    x[:] = scratch[:]


def test_stages_that_share_a_buffer_are_advised_as_such() -> None:
    """They have no name for the streams of the others: a buffer for each chunk, or one stream; both help."""

    async def main(shared: bool, streams: int) -> list[int]:
        scratch = atops.Device(0).zeros(16, np.int32)

        def stage(stream: atops.Stream, x: atops.DeviceArray) -> atops.DeviceArray:
            stream.launch(pass_through, (1, 1), scratch if shared else stream.empty(16, np.int32), x)
            return x

        chunks = [np.full(16, number, np.int32) for number in range(4)]
        return [int(each[0]) async for each in atops.pipeline(chunks, stage, streams=streams)]

    atops.run(main, EmulatorOptions(detect=True), True, 2)
    for race in atops.report().races:
        assert "have the stage allocate" in race.advice and "streams=1" in race.advice
        assert ".record()" not in race.advice
    assert atops.report().verdict == "race"
    for shared, streams in ((False, 2), (True, 1)):
        assert atops.run(main, EmulatorOptions(detect=True), shared, streams) == [0, 2, 4, 6]
        assert atops.report().verdict == "clean"


@every(
    "program, says",
    [
        (waits_for_no_record, "; the wait at line {2} of test_advice.py is none: nothing had recorded its event"),
        (records_too_early, "; the wait at line {4} of test_advice.py is for line {2} of test_advice.py, which the"),
        (waits_for_another, ""),
    ],
)
def test_a_wait_that_does_not_help_is_named(program, says: str) -> None:
    """Beside what would: one before the record, and one for a record that comes too early."""

    async def main() -> tuple[atops.Race, ...]:
        device = atops.Device(0)
        async with device.create_stream(name="one") as one, device.create_stream(name="two") as two:
            await program(device, one, two)
        return device.driver.report().races

    (race,) = atops.run(main, EmulatorOptions(detect=True, clock="virtual"))
    lines = [program.__code__.co_firstlineno + 1 + nth for nth in range(6)]
    assert "two.wait(event)` between" in race.advice
    assert says.format(*lines) in race.advice
    assert ("the wait at" in race.advice) == bool(says)


@k.kernel
async def serve(x, y, signal: np.int32) -> None:
    """Copy a number when a signal says so."""
    await k.signal_wait(signal, 1)
    y[0] = x[0]


async def met_from_the_start(device: atops.Device, one: atops.Stream, two: atops.Stream, right: bool) -> int:
    """Wait for a value that is there before anything writes one."""
    row, word = device.zeros(4, np.int32), device.zeros(1, np.uint32)
    two.wait_value(word, int(right))
    got = two.fetch(row)
    one.fill(row, 5)
    one.write_value(word, 1)
    return int((await got)[0])


async def met_by_another(device: atops.Device, one: atops.Stream, two: atops.Stream, right: bool) -> int:
    """Wait for a value that a third stream passes on before it was told to."""
    row, word, more = device.zeros(4, np.int32), device.zeros(1, np.uint32), device.zeros(1, np.uint32)
    async with device.create_stream() as third:
        if right:
            third.wait_value(more, 1)
        third.write_value(word, 1)
        two.wait_value(word, 1)
        got = two.fetch(row)
        one.fill(row, 5)
        one.write_value(more, 1)
        return int((await got)[0])


async def met_by_the_host(device: atops.Device, one: atops.Stream, two: atops.Stream, right: bool) -> int:
    """Write a signal before what it announces is over."""
    row, out, signal = device.zeros(1, np.int32), device.zeros(1, np.int32), device.signals.allocate()
    await device.wait()
    two.launch(serve, (1, 1), row, out, signal)
    filled = one.fill(row, 5)
    if right:
        await filled
    device.signals.write(signal, 1)
    return int((await two.fetch(out))[0])


async def hand_over_a_slot(slot: atops.DeviceArray, out: atops.DeviceArray, word: atops.DeviceArray) -> None:
    """Fill a slot twice, each time with a number that says so; the second time before the first was read."""
    device = atops.Device(0)
    async with device.create_stream(name="producer") as producer, device.create_stream(name="consumer") as consumer:
        for number in (1, 2):
            producer.fill(slot, number)
            producer.write_value(word, number)
        consumer.wait_value(word, 1, "Gte")
        consumer.copy(out, slot)


def test_of_a_wait_before_the_second_both_orders_are_told() -> None:
    """Each with what would give it: the line of the first in one branch, that of the second in the other."""

    async def main() -> None:
        device = atops.Device(0)
        arrays = [device.zeros(1, np.int32) for _ in range(3)]
        await device.wait()
        await hand_over_a_slot(*arrays)

    atops.run(main, EmulatorOptions(detect=True, clock="virtual"))
    fill, write, wait, copy = (
        f"line {hand_over_a_slot.__code__.co_firstlineno + nth} of test_advice.py" for nth in range(5, 9)
    )
    assert (
        f"the wait for a value at {wait} was met by {write}: where {fill} is to come first, wait for a value that "
        f"nothing writes before that is over; where {copy} is to come first, have producer wait, before {fill}, for a "
        f"value that consumer writes behind {copy}"
    ) in atops.report().races[0].advice


@every(
    "program, says",
    [
        (met_from_the_start, "at line {3} of {0} was met by the value that was there before: where line {5} of {0} is"),
        (met_by_another, "at line {7} of {0} was met by line {6} of {0}: where line {9} of {0} is to come first"),
        (met_by_the_host, "at line {4} of {0} was met by line {8} of {0}: where line {5} of {0} is to come first"),
    ],
)
def test_a_wait_that_is_met_too_early_is_named(program, says: str) -> None:
    """With what has met it; where the wait is for what comes behind the other command, there is no race."""

    async def main(right: bool) -> int:
        device = atops.Device(0)
        async with device.create_stream(name="one") as one, device.create_stream(name="two") as two:
            return await program(device, one, two, right)

    options = EmulatorOptions(detect=True, clock="virtual")
    atops.run(main, options, False)
    race = atops.report().races[0]
    lines = (program.__code__.co_firstlineno + nth for nth in range(1, 12))
    assert "the wait for a value " + says.format("test_advice.py", *lines) in race.advice, race
    assert "`event = two.record(); one.wait(event)` between" in race.advice
    assert atops.run(main, options, True) == 5
    assert atops.report().verdict == "clean", atops.report()


def two_fills(null: bool) -> None:
    """Fill the same bytes by two streams."""
    good = tops.check
    one, other = good(tops.topsStreamCreateWithFlags(tops.topsStreamNonBlocking)), good(tops.topsStreamCreate())
    x = good(tops.topsMalloc(64))
    good(tops.topsMemsetAsync(x, 1, 64, one))
    good(tops.topsMemsetAsync(x, 2, 64, 0 if null else other))
    good(tops.topsDeviceSynchronize())


def two_fills_of_hip(null: bool) -> None:
    """As above."""
    good = hip.check
    one, other = good(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)), good(hip.hipStreamCreate())
    x = good(hip.hipMalloc(64))
    good(hip.hipMemsetAsync(x, 1, 64, one))
    good(hip.hipMemsetAsync(x, 2, 64, 0 if null else other))
    good(hip.hipDeviceSynchronize())


@every("program, prefix", [(two_fills, "tops"), (two_fills_of_hip, "hip")])
def test_advice_is_in_the_names_that_the_program_has(program, prefix):
    """Of C-style functions, where it calls those; the null stream is 0 there."""

    async def main(null: bool) -> None:
        program(null)

    for null, other in ((False, "stream_2"), (True, "0")):
        atops.run(main, EmulatorOptions(detect=True), null)
        (race,) = atops.report().races
        for said in ("EventRecord(event, stream_1)", f"StreamWaitEvent({other}, event, 0)", "StreamSynchronize("):
            assert f"{prefix}{said}" in race.advice, race.advice
        assert "await" not in race.advice and ".record()" not in race.advice
