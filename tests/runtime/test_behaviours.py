"""What users of cuda.core, cupy and HIP's pools rely on, by the rows that no other test here has in its name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

import atops
from atops.base.errors import (
    CooperativeLaunchTooLarge,
    IllegalState,
    InvalidDevice,
    InvalidHandle,
    InvalidValue,
    NotReady,
    NotSupported,
    OutOfMemory,
)
from atops.runtime.driver import Driver
from tests.runtime.boards import PATIENCE, Latch, add_one, board

MIB = 1 << 20


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A board of two devices."""
    with board(devices=2) as driver:
        yield driver


@pytest.fixture
def device(driver: Driver) -> atops.Device:
    """Its device 0."""
    return atops.Device(0, driver)


# ---- events


def test_f33_times_that_cannot_be_told_say_why(device):
    """Timing off, never recorded, not complete: three messages."""
    stream, done = device.create_stream(nonblocking=True), device.create_event()
    stream.record(done)
    stream.sync(PATIENCE)
    latch, late, off = Latch(device), device.create_event(), device.create_event(timing=False)
    stream.record(off)
    latch.hold(stream)
    stream.record(late)
    messages = set()
    for event, kind in ((off, NotSupported), (device.create_event(), InvalidHandle), (late, NotReady)):
        with pytest.raises(kind) as raised:
            _ = event - done
        messages.add(str(raised.value))
    latch.open()
    stream.sync(PATIENCE)
    assert len(messages) == 3 and late - done > 0


def test_f34_an_event_is_done_when_its_work_is(device):
    """False while work before it is unfinished, True after a sync."""
    stream, latch, event = device.create_stream(nonblocking=True), Latch(device), device.create_event()
    latch.hold(stream)
    stream.record(event)
    assert not event.is_done
    latch.open()
    event.sync(PATIENCE)
    assert event.is_done


def test_f36_m6_events_and_streams_are_compared_by_identity(device):
    """Different ones are unequal, each is a key of a dict, and the null stream stays the same."""
    events, streams = [device.create_event() for _ in range(2)], [device.create_stream() for _ in range(2)]
    for one, other in (events, streams):
        assert one == one and one != other and {one: 1, other: 2}[other] == 2  # that is the point
    assert device.null_stream is atops.Device(0, device.driver).null_stream


# ---- fills and launches


@pytest.mark.parametrize("value", [0x5A, b"\x01\x02", b"\x01\x02\x03\x04", np.float32(1.5), np.uint16(7)])
def test_h32_fills_of_one_two_and_four_bytes(device, value):
    """The pattern is repeated bit by bit."""
    stream, memory = device.create_stream(), device.allocate(16)
    stream.fill(memory, value)
    pattern = value if isinstance(value, bytes) else value.to_bytes() if type(value) is int else value.tobytes()
    assert bytes(stream.fetch(memory).wait_sync(PATIENCE)) == pattern * (16 // len(pattern))


@pytest.mark.parametrize(("size", "value"), [(16, bytes(8)), (6, bytes(4)), (16, b""), (16, 256)])
def test_h32_fills_that_do_not_fit(device, size, value):
    """Eight bytes, a size that is no multiple of the pattern, nothing and no byte are ValueError."""
    stream, memory = device.create_stream(), device.allocate(size)
    with pytest.raises(ValueError):
        stream.fill(memory, value)


def test_l35_a_cooperative_launch_that_is_too_large(device):
    """It is refused at the launch, as a ValueError."""
    stream, array = device.create_stream(), device.empty(4, "int32")
    config = atops.LaunchConfig(1 << 10, 1, cooperative=True)
    with pytest.raises(ValueError) as raised:
        stream.launch(add_one, config, array)
    assert isinstance(raised.value, CooperativeLaunchTooLarge)


@pytest.mark.parametrize(("kernel", "config"), [("add_one", (1, 1)), (None, (1, 1)), (add_one, "1"), (add_one, 1.5)])
def test_l36_a_launch_of_wrong_types(device, kernel, config):
    """TypeError, with nothing enqueued."""
    stream = device.create_stream()
    with pytest.raises(TypeError):
        stream.launch(kernel, config, device.empty(4, "int32"))
    assert stream.is_done


def test_m8_memory_and_events_of_another_device(driver, device):
    """An event of one device is not recorded in a stream of the other: InvalidHandle."""
    with pytest.raises(InvalidHandle):
        atops.Device(1, driver).create_stream().record(device.create_event())


def test_m13_m15_a_cancelled_or_forgotten_await_ends_no_work(device):
    """The others and the work go on, and a loop that closed before the end is told nothing."""
    stream, latch = device.create_stream(nonblocking=True), Latch(device)
    latch.hold(stream)
    item = stream.fill(device.allocate(16), 1)

    async def main():
        tasks = [asyncio.ensure_future(_result(item)) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
        assert tasks[0].cancelled() and not tasks[1].done() and not item.done

    asyncio.run(main())
    latch.open()
    item.wait_sync(PATIENCE)
    assert stream.is_done


async def _result(item):
    return await item


# ---- pools


def test_i2_i4_the_current_pool(device):
    """The default pool at first; another one does not change that by being made, and gives way when destroyed."""
    context = device.context
    pool = device.create_pool()
    assert context.current_pool is context.default_pool
    context.pool = pool
    assert context.current_pool is pool
    pool.destroy()
    assert context.current_pool is context.default_pool


def test_i6_i40_a_pool_has_its_limit(device):
    """What exceeds it is OutOfMemory, which is a MemoryError."""
    pool, stream = device.create_pool(max_size=MIB), device.create_stream()
    kept = stream.allocate(MIB // 2, pool)
    with pytest.raises(MemoryError) as raised:
        stream.allocate(MIB // 2 + 1, pool)
    assert isinstance(raised.value, OutOfMemory) and kept.is_live


def test_i7_i10_a_pool_that_cannot_be(device):
    """The default pool is not destroyed; a destroyed one and what is no pool allocate nothing; none has all bytes."""
    pool, stream = device.create_pool(), device.create_stream()
    with pytest.raises(InvalidValue):
        device.context.default_pool.destroy()
    pool.destroy()
    pool.destroy()
    with pytest.raises((InvalidValue, InvalidHandle, IllegalState)):
        stream.allocate(64, pool)
    with pytest.raises(TypeError):
        stream.allocate(64, "pool")


def test_i9_too_much_and_a_closed_stream(device):
    """All bytes there are is OutOfMemory, a closed stream InvalidHandle."""
    stream = device.create_stream()
    with pytest.raises(OutOfMemory):
        stream.allocate((1 << 63) - 1)
    stream.close()
    with pytest.raises(InvalidHandle):
        stream.allocate(64)


def test_i11_i12_freed_once_by_either_way(device):
    """A stream's memory closed, a device's memory freed in a stream; a second free is refused."""
    stream, pool = device.create_stream(), device.context.default_pool
    in_order, plain = stream.allocate(MIB), device.allocate(MIB)
    in_order.close()
    stream.free(plain)
    stream.sync(PATIENCE)
    assert pool.used_current == 0
    with pytest.raises(Exception, match="free"):
        stream.free(plain)


def test_i15_i18_i30_figures_of_a_pool(device):
    """A free counts at its call, marks are high watermarks, and what is no pool's does not count."""
    stream, pool, latch = device.create_stream(nonblocking=True), device.create_pool(), Latch(device)
    outside = device.allocate(MIB)
    before = pool.statistics()
    buffer = stream.allocate(MIB, pool)
    latch.hold(stream)
    assert (before.used_current, pool.used_current, pool.reserved_high) == (0, MIB, MIB)
    stream.free(buffer)
    assert pool.used_current == 0 and pool.used_high == MIB and pool.reserved_current >= 0
    latch.open()
    stream.sync(PATIENCE)
    assert pool.reserved_high == MIB and outside.is_live


def test_c11_i23_i38_the_same_memory_at_once(device):
    """In its own stream it is given out again while work before its free still runs."""
    stream, pool, latch = device.create_stream(nonblocking=True), device.create_pool(), Latch(device)
    latch.hold(stream)
    first = stream.allocate(MIB, pool)
    address = first.address
    stream.free(first)
    assert stream.allocate(MIB, pool).address == address
    latch.open()
    stream.sync(PATIENCE)


@pytest.mark.parametrize("ran", [True, False], ids=["i26", "i27"])
@pytest.mark.parametrize("on", [True, False])
def test_i26_i27_i29_memory_of_another_stream(device, ran, on):
    """Given out again when that stream has come to its free, and not before; with the switch off not at all."""
    one, other = (device.create_stream(nonblocking=True) for _ in range(2))
    pool, latch = device.create_pool(), Latch(device)
    pool.release_threshold = 1 << 40
    pool.reuse_allow_opportunistic = on
    latch.hold(one)
    first = one.allocate(MIB, pool)
    address = first.address
    one.free(first)
    if ran:
        latch.open()
        one.record().sync(PATIENCE)
    assert (other.allocate(MIB, pool).address == address) == (ran and on)
    latch.open()
    one.sync(PATIENCE)


@pytest.mark.parametrize("on", [True, False])
def test_i28_an_event_lets_memory_be_used_again(device, on):
    """Behind a wait for an event after the free; with the switch off it is other memory."""
    one, other = (device.create_stream(nonblocking=True) for _ in range(2))
    pool, latch = device.create_pool(), Latch(device)
    pool.reuse_follow_event_dependencies = on
    latch.hold(one)
    first = one.allocate(MIB, pool)
    address = first.address
    one.free(first)
    other.wait(one.record())
    assert (other.allocate(MIB, pool).address == address) == on
    latch.open()
    other.sync(PATIENCE)


def test_i31_i33_i34_devices_of_a_pool(driver, device):
    """It allocates on its own device whichever is current; access of a peer is given by name, of no device refused."""
    second = atops.Device(1, driver)
    pool = second.create_pool()
    with device:
        assert second.create_stream().allocate(64, pool).device == 1
    pool.set_access(0, "readwrite")
    assert pool.get_access(0).name == "readwrite"
    for wrong in (2, -1):
        with pytest.raises(InvalidDevice):
            pool.set_access(wrong, "read")
    with pytest.raises((InvalidDevice, InvalidValue)):
        pool.set_access(1, "none")
