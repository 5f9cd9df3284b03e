"""Commands that move bytes hold their engines in virtual time: what overlaps, what is seen when, ends in the middle."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import atops
from atops.base.errors import ExecutionError, IllegalAddress, StreamAborted
from atops.base.trace.records import Phase, TraceRecord
from atops.runtime.commands.reduce import Reduce
from atops.runtime.driver import board_of
from atops.runtime.queues.deadlock import PATIENCE_NS
from atops.runtime.stream import queue_of
from tests.runtime.boards import Latch, add_one, leftovers, works
from tests.runtime.virtual_time import MOVE, ODD, RATES, UP, ceil, host, now, record_of, span, taken, virtual

# ---- what overlaps


def test_streams_overlap_and_one_stream_does_not() -> None:
    """Copies of two streams run side by side, each on an engine of its own; those of one follow each other."""

    async def main() -> None:
        device = atops.Device(0)
        one, two = device.create_stream(), device.create_stream()
        memory = device.empty((4, ODD), np.uint8)
        items = [stream.copy(memory[row], host()) for row, stream in enumerate((one, one, two, two))]
        await device.wait()
        assert [span(each) for each in items] == [(0, UP), (UP, 2 * UP)] * 2
        assert [record_of(each).engine for each in items] == [0, 0, 1, 1]

    virtual(main)


@pytest.mark.parametrize("seed", [None, 3])
def test_copies_queue_for_engines(seed: int | None) -> None:
    """Eight engines serve eight copies at a time; the next ones wait for a free engine, the urgent first."""

    async def main() -> None:
        device = atops.Device(0)
        source = device.empty(ODD, np.uint8)
        streams = [device.create_stream(priority=-2 if number >= 16 else 0) for number in range(20)]
        items = [stream.copy(device.empty(ODD, np.uint8), source) for stream in streams]
        await device.wait()
        begins = sorted(span(each)[0] for each in items)
        assert begins == [0] * 8 + [MOVE] * 8 + [2 * MOVE] * 4
        assert all(span(each)[0] <= MOVE for each in items[16:])
        used: dict[int, list[tuple[int, int]]] = {}
        for item in items:
            used.setdefault(record_of(item).engine, []).append(span(item))
        assert sorted(used) == list(range(8))
        for spans in used.values():
            assert all(before[1] == after[0] for before, after in zip(sorted(spans), sorted(spans)[1:], strict=False))
        assert "0 of 8 busy" in repr(device.context.engines)

    virtual(main, seed=seed)


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_the_two_directions_of_the_link_never_overlap(seed: int | None) -> None:
    """Host-to-device and device-to-host copies of one device take turns; both overlap copies inside it, and kernels."""

    async def main() -> None:
        device = atops.Device(0)
        memory = device.empty((8, ODD), np.uint8)
        streams = [device.create_stream() for _ in range(5)]
        ups = [streams[row].copy(memory[row], host()) for row in (0, 1)]
        downs = [streams[row].fetch(memory[row]) for row in (2, 3)]
        move = streams[4].copy(memory[5], memory[4])
        await device.wait()
        turns = {span(each)[0] // UP for each in ups}, {span(each)[0] // UP for each in downs}
        assert {taken(each) for each in ups + downs} == {UP}
        assert not turns[0] & turns[1]
        assert sorted(turns[0] | turns[1]) == list(range(now() // UP))
        assert taken(move) == MOVE
        assert span(move)[1] < now()

    virtual(main, seed=seed)


def test_two_devices_have_engines_and_links_of_their_own() -> None:
    """An upload to one and a download from the other run at once."""

    async def main() -> None:
        one, two = atops.Device(0), atops.Device(1)
        up = one.create_stream().copy(one.empty(ODD, np.uint8), host())
        down = two.create_stream().fetch(two.empty(ODD, np.uint8))
        await up
        await down
        assert span(up) == span(down) == (0, UP)

    virtual(main)


# ---- what is seen when


def test_bytes_arrive_at_the_end() -> None:
    """Until its last nanosecond a copy has changed nothing, and what waits for its bytes is woken then."""

    async def main() -> None:
        device = atops.Device(0)
        stream, waiting = device.create_stream(), device.create_stream()
        array = device.empty(ODD, np.uint8)
        filled = stream.fill(array, 0)
        await filled
        start = now()
        word = waiting.wait_value(array.view(np.uint8)[0:4].view(np.uint32), 0x01010101, "Eq")
        copied = stream.copy(array, np.ones(ODD, np.uint8))
        await asyncio.sleep((UP - 5) / 1e9)
        assert not array.allocation.data.any()
        assert not copied.done()
        await word
        assert now() == start + UP
        assert span(word)[1] == span(copied)[1] == now()
        assert array.allocation.data[:ODD].all()

    virtual(main)


@pytest.mark.slow
def test_a_later_command_sees_what_came_before() -> None:
    """In its stream, behind an event of another one, and in the null stream's order."""

    async def main() -> None:
        device = atops.Device(0)
        one, two = device.create_stream(), device.create_stream()
        array = one.upload(np.zeros(2400, np.int32))
        one.launch(add_one, (2, 12), array)
        other = one.empty_like(array)
        one.copy(other, array)
        two.wait(one.record())
        two.launch(add_one, (2, 12), other)
        assert (await device.null_stream.fetch(other) == 2).all()

    virtual(main, seed=5)


def test_events_measure_the_table() -> None:
    """The time between two events is that of what lies between them, in milliseconds."""

    async def main() -> None:
        device = atops.Device(0)
        stream, memory = device.create_stream(), device.empty((2, ODD), np.uint8)
        start = stream.record()
        stream.copy(memory[0], host())
        middle = stream.record()
        stream.copy(memory[1], memory[0])
        end = stream.record()
        await end
        assert (middle - start, end - middle, end - start) == (UP / 1e6, MOVE / 1e6, (UP + MOVE) / 1e6)

    virtual(main)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 0, 11])
def test_the_same_seed_is_the_same_trace(seed: int | None) -> None:
    """Copies that wait for engines, for the link and for each other leave the same records, to the nanosecond."""

    async def main() -> list[TraceRecord]:
        device = atops.Device(0)
        memory = device.empty((12, ODD), np.uint8)

        async def one(row: int) -> None:
            async with device.create_stream() as stream:
                for turn in range(3):
                    stream.copy(memory[row], host())
                    stream.copy(memory[(row + turn) % 12], memory[row]) if turn else None
                    stream.launch(add_one, (2, 12), memory[row][:24].view(np.uint8))
                    await stream.fetch(memory[row])
                    await asyncio.sleep(1e-6 * row)

        await asyncio.gather(*(one(row) for row in range(12)))
        return list(device.driver.tracer.records())

    first, second = virtual(main, seed=seed), virtual(main, seed=seed)
    assert first == second
    assert len({each.engine for each in first}) == 9  # none, and all eight


def test_blocking_waits_let_the_time_pass() -> None:
    """They end when the command does; one with a timeout when that is over, and leaves the command alone."""

    async def main() -> None:
        device = atops.Device(0)
        stream, array = device.create_stream(), device.empty(ODD, np.uint8)
        item = stream.copy(array, host())
        with pytest.raises(TimeoutError):
            item.wait_sync(1e-6)
        assert now() == 1000
        stream.sync()
        assert now() == UP
        assert (stream.fetch(array).wait_sync() == host()).all()
        assert now() == 2 * UP

    virtual(main)


@pytest.mark.parametrize("seed", [None, 7])
def test_a_program_that_polls_does_not_stop_the_clock(seed: int | None) -> None:
    """Though a step is always ready; while nothing takes time it does stand still, however long the program polls."""

    async def main() -> None:
        device = atops.Device(0)
        latch, stream = Latch(device), device.create_stream()
        start = now()
        held, copied = latch.hold(stream), stream.copy(device.empty(ODD, np.uint8), host())
        for _ in range(3000):
            await asyncio.sleep(0)
        assert now() == start
        latch.open()
        opened = now()
        napping = asyncio.create_task(asyncio.sleep(UP / 3e9))
        while not copied.done():
            assert napping.done() or now() < opened + UP
            await asyncio.sleep(0)
        assert napping.done()
        assert now() == span(copied)[1] == opened + UP
        await held
        latch.close()

    virtual(main, seed=seed)


def test_polling_for_one_of_two_commands() -> None:
    """A program that polls for the longer of two commands is served, though the shorter one has ended before."""

    async def main() -> None:
        device = atops.Device(0)
        short = device.create_stream().copy(device.empty(ODD, np.uint8), device.empty(ODD, np.uint8))
        long = device.create_stream().copy(device.empty(ODD, np.uint8), host())
        for _ in range(5000):
            await asyncio.sleep(0)
        assert (span(short), span(long)) == ((0, MOVE), (0, UP))
        assert now() == UP

    virtual(main)


def test_a_busy_program_does_not_move_the_clock() -> None:
    """While no command takes time, the clock waits until the program does: a timer is no reason to go on."""

    async def main() -> None:
        napping = asyncio.create_task(asyncio.sleep(1))
        for _ in range(3000):
            await asyncio.sleep(0)
        assert now() == 0
        await napping
        assert now() == 10**9

    virtual(main)


# ---- in the middle


def test_an_abort_lets_a_copy_finish_in_its_time() -> None:
    """What has begun ends at its time; what stands behind it, or waits for an engine, ends at once; all goes on."""

    async def main() -> None:
        device = atops.Device(0)
        streams = [device.create_stream() for _ in range(9)]
        array, source = device.empty(ODD, np.uint8), device.empty(ODD, np.uint8)
        items = [stream.copy(device.empty(ODD, np.uint8), source) for stream in streams[1:8]]
        begun, behind = streams[0].copy(array, host()), streams[0].fill(array, 9)
        waiting = streams[8].copy(source, array)
        await asyncio.sleep(1e-6)
        at = now()
        assert "8 of 8 busy" in repr(device.context.engines)
        assert streams[0].abort() == 1
        assert streams[8].abort() == 0
        for ended in (behind, waiting):
            with pytest.raises(StreamAborted):
                await ended
        assert now() == at
        await begun
        assert span(begun) == (0, UP)
        assert [span(each) for each in items] == [(0, MOVE)] * 7
        assert (await streams[0].fetch(array) == host()).all()
        assert "0 of 8 busy" in repr(device.context.engines)

    virtual(main)


def test_an_abort_lets_a_reduction_finish_too() -> None:
    """It holds no engine, and ends at its time all the same; its result is correct."""

    async def main() -> None:
        device = atops.Device(0)
        stream, array = device.create_stream(), device.empty(ODD, np.uint8)
        await stream.fill(array, 3)
        end = (array.allocation, array.offset)
        begun = queue_of(stream).submit(Reduce("sum", np.dtype(np.uint8), ODD, end, end, end))
        behind = stream.fill(array, 9)
        await asyncio.sleep(1e-6)
        assert not begun.done()
        assert "0 of 8 busy" in repr(device.context.engines)
        assert stream.abort() == 1
        await begun
        assert taken(begun) == ceil(3 * ODD, RATES["gcu300"].l3)
        assert behind.state == "failed"
        assert (await stream.fetch(array) == 6).all()

    virtual(main)


def test_leaving_a_stream_in_the_middle_leaves_nothing() -> None:
    """By an exception, and by a cancelled task: the scope ends when the copy does, and the board is as it was."""

    async def main() -> None:
        device = atops.Device(0)

        async def one(fail: bool) -> None:
            async with device.create_stream() as stream:
                array = stream.upload(host())
                await asyncio.sleep(1e-6)
                if fail:
                    raise ZeroDivisionError
                await stream.fetch(array)

        with pytest.raises(ZeroDivisionError):
            await one(True)
        assert now() == UP
        task = asyncio.create_task(one(False))
        await asyncio.sleep(2 * UP / 1e9 - 1e-6)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert leftovers(device.driver) == {}
        assert works(device.driver)

    virtual(main)


@pytest.mark.parametrize("blocking", [False, True])
def test_a_reset_in_the_middle(blocking: bool) -> None:
    """It waits for what moves, no longer, and drops the rest; the new device has free engines and a free link."""

    async def main() -> None:
        device = atops.Device(0)
        stream, array = device.create_stream(), device.empty(ODD, np.uint8)
        moving, queued = stream.copy(array, host()), stream.fetch(array)
        await asyncio.sleep(1e-6)
        if blocking:
            device.reset_sync()
        else:
            await device.reset()
        assert moving.done()
        assert now() == UP
        with pytest.raises(StreamAborted):
            queued.result()
        async with device.create_stream() as fresh:
            item = fresh.copy(fresh.empty(ODD, np.uint8), host())
        assert span(item) == (UP, 2 * UP)
        assert leftovers(device.driver) == {}

    virtual(main)


@pytest.mark.parametrize("grace", [0, 5.0])
def test_the_end_of_the_program_in_the_middle(grace: float) -> None:
    """The driver's end waits for a copy, but not beyond the grace that kernels have: a second more than that."""
    left: list[Any] = []

    async def main(slow: bool) -> None:
        device = atops.Device(0)
        if slow:
            device.context.arch = replace(device.arch, host_bandwidth=1000)  # 16 minutes and 40 seconds
        stream, array = device.create_stream(), device.empty(ODD, np.uint8)
        left[:] = [stream.copy(array, host()), stream.fetch(array), device.driver]
        await asyncio.sleep(1e-6)

    virtual(main, False, abort_grace=grace)
    moving, queued, driver = left
    assert moving.state == "done"
    assert queued.state == "failed"
    assert UP <= board_of(driver).now() <= UP + 10**7
    virtual(main, True, abort_grace=grace)
    moving, queued, driver = left
    for item in (moving, queued):
        with pytest.raises(StreamAborted):
            item.result()
    assert (grace + 1) * 10**9 <= board_of(driver).now() <= (grace + 1.1) * 10**9


def test_memory_that_is_freed_in_the_middle() -> None:
    """The copy fails when its time is over, by name, and holds neither engine nor link any more."""

    async def main() -> None:
        device = atops.Device(0)
        stream, other = device.create_stream(), device.create_stream()
        array = other.empty(ODD, np.uint8)
        item = stream.copy(array, host())
        await asyncio.sleep(1e-6)
        other.free(array)
        with pytest.raises(IllegalAddress, match="freed"):
            await item
        assert span(item) == (0, UP)
        assert stream.clear_error() is not None
        assert "0 of 8 busy, link none" in repr(device.context.engines)
        assert works(device.driver)

    virtual(main)


def test_strict_mode_sees_a_source_that_changes_in_the_middle() -> None:
    """The bytes are taken at the last moment, so a program that does not leave them alone is found out."""

    async def main() -> None:
        device = atops.Device(0)
        stream, data = device.create_stream(), host()
        item = stream.copy(device.empty(ODD, np.uint8), data)
        await asyncio.sleep(1e-6)
        data[0] += 1
        with pytest.raises(ExecutionError, match="changed after the call"):
            await item

    virtual(main, strict=True)


# ---- what observers see


def test_a_long_copy_is_no_stall(caplog: pytest.LogCaptureFixture) -> None:
    """There is no report that all streams stand still while bytes move, for whatever time."""

    async def main() -> None:
        device = atops.Device(0)
        device.context.arch = replace(device.arch, host_bandwidth=ODD // 10)
        stream = device.create_stream()
        await stream.copy(device.empty(ODD, np.uint8), host())
        assert now() > 10 * PATIENCE_NS

    with caplog.at_level(logging.WARNING):
        virtual(main)
    assert not caplog.records


def test_details_tell_what_waits_for_an_engine() -> None:
    """A copy that finds every engine busy is parked until it starts; one that finds one free starts at once."""

    async def main() -> None:
        device = atops.Device(0)
        source = device.empty(ODD, np.uint8)
        with device.driver.tracer.detailed():
            items = [device.create_stream().copy(device.empty(ODD, np.uint8), source) for _ in range(9)]
            await device.wait()
            moments = device.driver.tracer.details_since().moments
        told = {item.seq: [(each.phase, each.at_ns) for each in moments if each.seq == item.seq] for item in items}
        assert told[items[0].seq] == [(Phase.SUBMITTED, 0), (Phase.STARTED, 0)]
        assert told[items[8].seq] == [(Phase.SUBMITTED, 0), (Phase.PARKED, 0), (Phase.STARTED, MOVE)]

    virtual(main)


def test_the_wall_clock_takes_none_of_this() -> None:
    """Without the virtual clock a short copy is carried out where it stands and holds no engine."""

    async def main() -> None:
        device = atops.Device(0)
        stream, array = device.create_stream(), device.empty(64, np.uint8)
        items = [stream.copy(array, np.zeros(64, np.uint8)), stream.fill(array, 1)]
        await stream
        assert [record_of(item).engine for item in items] == [-1, -1]
        assert not device.context.prefetched.watched

    virtual(main, clock="wall")
