"""Memory of streams' verbs whose last reference goes: freed in stream order, and not before commands that use it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import InvalidHandle
from atops.base.options import EmulatorOptions
from atops.base.trace.records import Kind
from atops.runtime.cooperative_launch import launch_together
from atops.runtime.device import Device
from atops.runtime.driver import board_of
from atops.runtime.memory.buffer import DeviceArray
from atops.runtime.stream import Stream, queue_of
from tests.every import every
from tests.interruption import every_point, interrupted
from tests.runtime.boards import PATIENCE, Latch, add_one, board, settle
from tests.runtime.hosts import on_every_host

ONES = np.ones(24, np.int32)
MIB = 1 << 20


@pytest.fixture
def device() -> Iterator[Device]:
    """Device 0 of a board of its own, without the collector: what frees memory here is the last reference."""
    gc.collect()
    gc.disable()
    try:
        with board() as driver:
            yield Device(0, driver)
    finally:
        gc.enable()


def used(device: Device) -> int:
    """Return the bytes of the pool that are not freed."""
    return device.default_pool.used_current


MAKERS: tuple[Callable[[Any], Any], ...] = (
    lambda stream: stream.upload(np.zeros(MIB, np.uint8)),
    lambda stream: stream.zeros(MIB, np.uint8),
    lambda stream: stream.empty(MIB, np.uint8),
    lambda stream: stream.empty_like(np.zeros(MIB, np.uint8)),
    lambda stream: stream.allocate(MIB),
    lambda stream: stream.allocate(MIB)[:100],
    lambda stream: stream.fetch(stream.zeros(MIB, np.uint8)),
    lambda stream: stream.call(len, stream.zeros(MIB, np.uint8)),
    lambda stream: stream.add_callback(lambda error, array: None, stream.zeros(MIB, np.uint8)),
)


@pytest.mark.slow
@on_every_host
async def test_dropped_arrays_take_no_memory(device):
    """A hundred results that are dropped take the room of a few, in the null stream and in others."""
    for stream in (device.null_stream, device.create_stream()):
        for make in MAKERS:
            device.default_pool.reserved_high = 0
            for _ in range(25):
                make(stream)
                await stream
            assert device.default_pool.used_current == 0
            assert device.default_pool.reserved_high <= 2 * MIB


@pytest.mark.slow
@on_every_host
async def test_a_loop_reuses_one_block_without_waiting(device):
    """The free comes at the drop, in stream order: what is enqueued next has the same memory, however far ahead."""
    stream = device.create_stream()
    for value in range(100):
        array = stream.upload(np.full(MIB, value % 100, np.uint8))
        stream.launch(add_one, (1, 1), array[:8])
        last = stream.fetch(array[:9])
    del array
    assert (await last).tolist() == [100] * 8 + [99]
    await stream
    assert device.default_pool.reserved_high <= 3 * MIB and device.default_pool.used_current == 0


PARTS: tuple[Callable[[DeviceArray], DeviceArray], ...] = (
    lambda array: array[2:9],
    lambda array: array[3],
    lambda array: array[4:][1:],
    lambda array: array.view(np.uint8),
    lambda array: array.reshape(4, 6)[1],
    lambda array: next(iter(array)),
    lambda array: array.device.buffer_at(array.address + 8, 16),
)


@every("part", PARTS)
def test_a_part_keeps_the_whole(device: Device, part: Callable[[DeviceArray], DeviceArray]) -> None:
    """A slice, a view, another shape: while there is one, the memory is there."""
    stream = device.create_stream()
    array = stream.upload(ONES)
    rest = part(array)
    del array
    assert used(device) == ONES.nbytes and rest.is_live
    assert stream.fetch(rest).wait_sync(PATIENCE).any()
    del rest
    assert used(device) == 0


@pytest.mark.parametrize("whole", [lambda device: device.empty(24), lambda device: device.host_malloc(24)])
def test_a_part_keeps_memory_of_the_device(device: Device, whole: Callable[[Device], DeviceArray]) -> None:
    """So it is with what no stream made."""
    part = whole(device)[3:][:4]
    settle(device.driver)
    assert part.is_live


@k.kernel
def nothing(x):
    """Take an array."""


USES: tuple[Callable[[Stream, DeviceArray], object], ...] = (
    lambda stream, array: stream.fetch(array),
    lambda stream, array: stream.copy(array, ONES),
    lambda stream, array: stream.copy(array[:4], array[4:8]),
    lambda stream, array: stream.fill(array[1:], 3),
    lambda stream, array: stream.launch(nothing, (1, 1), array),
    lambda stream, array: stream.launch(nothing, (1, 1), x=array[:2], stop=stream.device.create_event()),
    lambda stream, array: launch_together([(stream, nothing, (1, 1), array)]),
    lambda stream, array: stream.wait_value(array, 1),
    lambda stream, array: stream.write_value(array, 1),
    lambda stream, array: stream.call(len, array),
)


@every("use", USES)
def test_a_command_of_another_stream_keeps_it(device: Device, use: Callable[[Stream, DeviceArray], object]) -> None:
    """Until it is over, and no longer, though its completion is kept."""
    home, other, latch = device.create_stream(), device.create_stream(nonblocking=True), Latch(device)
    array = home.upload(ONES)
    home.sync(PATIENCE)
    latch.hold(other)
    kept = use(other, array)
    del array
    home.sync(PATIENCE)
    assert used(device) == ONES.nbytes
    latch.open()
    other.sync(PATIENCE)
    assert used(device) == 0
    assert kept is not None
    latch.close()


@every("end", [Stream.abort, lambda stream: queue_of(stream).poison(InvalidHandle("broken"))])
def test_a_command_that_never_runs_lets_go(device: Device, end: Callable[[Stream], object]) -> None:
    """Dropped by an abort, or skipped after a failure."""
    home, other, latch = device.create_stream(), device.create_stream(nonblocking=True), Latch(device)
    array = home.upload(ONES)
    latch.hold(other)
    other.launch(add_one, (1, 1), array)
    del array
    assert used(device) == ONES.nbytes
    end(other)
    latch.open()
    settle(device.driver)
    assert used(device) == 0
    latch.close()


def frees(device: Device) -> int:
    """Return how many frees the trace has."""
    settle(device.driver)
    return sum(record.kind == Kind.FREE for record in device.driver.tracer.records())


def freed_twice(stream: Stream) -> None:
    """Free, and free again."""
    array = stream.zeros(10)
    stream.free(array)
    with pytest.raises(InvalidHandle):
        stream.free(array)


def in_a_block(stream: Stream) -> None:
    """Leave a block."""
    with stream.zeros(10) as array:
        assert array.is_live


ENDS: tuple[Callable[[Any], object], ...] = (
    lambda stream: stream.zeros(10),
    lambda stream: stream.zeros(10).close(),
    freed_twice,
    in_a_block,
    lambda stream: (stream.zeros(10), stream.close()),
)


@pytest.mark.parametrize("end", ENDS)
def test_there_is_one_free(end: Callable[[Stream], object]) -> None:
    """However it was given back: by a drop, a free and a drop, a block, or the end of its stream."""
    with board(trace=1000) as driver:
        device = Device(0, driver)
        end(device.create_stream())
        assert frees(device) == 1 and used(device) == 0


def test_a_cycle_waits_for_the_collector(device: Device) -> None:
    """What only a cycle refers to is freed when that is collected."""
    stream = device.create_stream()
    cycle: list[object] = [stream.upload(ONES)]
    cycle.append(cycle)
    del cycle, stream
    assert used(device) == ONES.nbytes
    gc.collect()
    settle(device.driver)
    assert used(device) == 0


def test_it_may_be_dropped_anywhere(device: Device) -> None:
    """In the middle of a call that holds the board's locks, in another thread, after the end of its stream."""
    stream = device.create_stream()
    kept = [stream.upload(ONES) for _ in range(4)]
    with board_of(device.driver).lock, device.context.pool_lock:
        kept.pop()
    settle(device.driver)
    assert used(device) == 3 * ONES.nbytes
    thread = threading.Thread(target=kept.pop)
    thread.start()
    thread.join()
    settle(device.driver)
    assert used(device) == 2 * ONES.nbytes
    stream.close()
    kept.pop()
    assert used(device) == 0
    device.driver.close()
    kept.pop()


def test_it_is_freed_though_nothing_else_is_called(device: Device) -> None:
    """The driver's thread enqueues the free where the program calls nothing any more."""
    stream = device.create_stream()
    array = stream.upload(ONES)
    stream.sync(PATIENCE)
    allocation = array.allocation
    del array
    for _ in range(2):  # the free is enqueued, then run
        done = threading.Event()
        board_of(device.driver).executor.post(done.set)
        assert done.wait(PATIENCE)
    assert not allocation.alive


def test_the_same_seed_gives_the_same_trace() -> None:
    """Frees of dropped arrays have their place in the order of a replay."""

    async def main() -> list[tuple[object, ...]]:
        device = atops.Device(0)
        one, other = device.create_stream(), device.create_stream()
        for value in range(20):
            array = one.upload(np.full(100, value))
            other.wait(one.record())
            other.launch(nothing, (1, 1), array[:50])
            if value % 3 == 0:
                await other
        del array
        await other
        await device.wait()
        return [(each.kind, each.seq, each.stream) for each in device.driver.tracer.records()]

    runs = [atops.run(main, EmulatorOptions(seed=5, trace=10_000)) for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]
    assert sum(record[0] == Kind.FREE for record in runs[0]) == 20


def test_a_command_that_is_over_leads_back_to_nothing(device: Device) -> None:
    """Calls and records are no cycles with their completions and events: nothing waits for the collector."""
    stream = device.create_stream()
    start, stop = device.create_event(), device.create_event()
    stream.launch(nothing, (1, 1), stream.zeros(3), start=start, stop=stop)
    items = [weakref.ref(stream.call(len, ())), weakref.ref(start._record), weakref.ref(stream.record()._record)]
    items += [weakref.ref(each) for each in launch_together([(stream, nothing, (1, 1), stream.zeros(3))])]
    del start, stop
    settle(device.driver)
    assert [each() for each in items] == [None] * 4


@pytest.mark.slow
def test_ctrl_c_among_memory_that_is_dropped_loses_none_and_frees_none_twice(caplog: pytest.LogCaptureFixture) -> None:
    """At every point at which it may come while memory is taken, used and dropped, and that dropped before is freed."""
    with board(devices=1) as driver:
        device = Device(0, driver)
        stream, host, pool = device.create_stream(), np.ones(100), device.default_pool

        def turn() -> None:
            for _ in range(3):
                stream.fill(stream.upload(host), 2)

        lost = {}
        for points in every_point(turn, most=300):
            turn()
            settle(driver)
            gate = threading.Event()
            board_of(driver).executor.post(gate.wait)  # what is dropped, the calls free
            interrupted(points, turn)
            gate.set()
            turn()
            settle(driver)
            if live := pool.statistics().live:
                lost[points.chosen] = live
        assert not lost and not caplog.records
