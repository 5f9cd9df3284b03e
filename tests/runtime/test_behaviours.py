"""What users of cuda.core, cupy and HIP's pools rely on, by the rows that no other test here has in its name."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from contextvars import copy_context
from copy import copy
from functools import partial

import numpy as np
import pytest

import atops
from atops.base.errors import (
    AtopsError,
    CooperativeLaunchTooLarge,
    IllegalState,
    InvalidDevice,
    InvalidHandle,
    InvalidValue,
    NotReady,
    NotSupported,
    OutOfMemory,
)
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from tests.every import every
from tests.runtime.boards import PATIENCE, Foreign, Latch, add_one, board

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


@pytest.mark.parametrize("flags", [{}, {"timing": True}])
def test_f37_an_event_between_processes_keeps_no_time(device, flags):
    """With timing it is a ValueError."""
    with pytest.raises(ValueError, match="needs timing=False"):
        atops.Event(device.context, interprocess=True, **flags)


def test_f35_an_event_between_processes_is_recorded_again(device):
    """Elsewhere a TypeError: here it is valid, for the text lets each process record it."""
    stream = device.create_stream()
    event = atops.Event(device.context, timing=False, interprocess=True)
    first = stream.record(event).completion
    second = stream.record(event).completion
    assert first is not second
    event.sync(PATIENCE)
    assert event.is_done and event.state == "recorded"


# ---- streams


def test_a11_a_priority_out_of_range(device):
    """ValueError: only HIP's calls clamp."""
    for wrong in (1, -3, 1 << 31, None):
        with pytest.raises(ValueError, match="priority"):
            device.create_stream(priority=wrong)


def test_d8_a_callback_of_a_stream_with_a_mask(device):
    """It is called once, whatever clusters the stream's kernels may use."""
    stream, called = device.create_stream(cluster_mask=0b10, sip_mask=1), []
    stream.launch(add_one, (1, 1), device.empty(4, "int32"))
    stream.add_callback(called.append)
    stream.sync(PATIENCE)
    assert called == [None]


def test_m7_with_makes_a_stream_the_current_one(driver, device):
    """Nested and of one stream twice, each end restores what was before; each device has its own; none is ended."""
    second = atops.Device(1, driver)
    outer, inner, other = device.create_stream(), device.create_stream(), second.create_stream()
    assert device.current_stream is device.null_stream and second.current_stream is second.null_stream
    with outer as entered:
        assert entered is outer is device.current_stream
        with inner, other, outer:
            assert (device.current_stream, second.current_stream) == (outer, other)
        assert device.current_stream is outer
        with pytest.raises(KeyError), inner:
            assert device.current_stream is inner
            raise KeyError
        assert device.current_stream is outer and second.current_stream is second.null_stream
    assert device.current_stream is device.null_stream
    outer.fill(device.allocate(16), 1).wait_sync(PATIENCE)


def test_m7_one_stream_in_two_tasks(device):
    """What one task enters is no other's, though both have the same stream; a child begins with its parent's."""
    stream, inner = device.create_stream(), device.create_stream()

    async def enter(own, gate, others):
        with own:
            gate.set()
            await others.wait()
            assert device.current_stream is own

    async def main():
        gates = [asyncio.Event() for _ in range(2)]
        with stream:
            both = enter(stream, gates[0], gates[1]), enter(inner, gates[1], gates[0])
            await asyncio.gather(*both)
            assert await asyncio.create_task(_current(device)) is device.current_stream is stream

    asyncio.run(main())


async def _current(device):
    return device.current_stream


def test_m7_m9_the_current_stream_of_a_thread(device):
    """A new thread begins with the null stream; a copy of the context carries it along."""
    stream, found = device.create_stream(), []

    def look():
        found.append(device.current_stream)

    with stream:
        for target in (look, partial(copy_context().run, look)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join(PATIENCE)
    assert found == [device.null_stream, stream]


def test_m7_left_in_another_order(device):
    """What was entered last and is not left yet is current; a second end of one stream changes nothing."""
    one, other = device.create_stream(), device.create_stream()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert device.current_stream is other
    one.__exit__(None, None, None)
    other.__exit__(None, None, None)
    assert device.current_stream is device.null_stream


@pytest.mark.slow
def test_m10_a_stream_says_its_handle(device):
    """(0, handle), the same each time; the handle finds the stream, until it is closed or gone."""
    stream = device.create_stream()
    version, handle = stream.__tops_stream__()
    assert version == 0 and type(handle) is int and handle
    assert stream.__tops_stream__() == (0, handle) != device.create_stream().__tops_stream__()
    assert atops.ExternalStream(stream).stream is atops.ExternalStream(Foreign((0, handle))).stream is stream
    assert atops.ExternalStream(Foreign([0, np.int64(handle)])).stream is stream
    assert atops.ExternalStream(device.null_stream).stream is device.null_stream
    gone = device.create_stream().__tops_stream__()
    gc.collect()
    stream.close()
    for dead in (stream, Foreign((0, handle)), Foreign(gone), Foreign((0, 1)), Foreign((0, -1))):
        with pytest.raises(InvalidHandle):
            atops.ExternalStream(dead)


def test_m10_handle_0_is_the_null_stream_of_the_current_device(driver):
    """As in C; a stream of a device that was reset is refused."""
    enter(driver, board_of(driver))
    try:
        with atops.Device(1) as second:
            assert atops.ExternalStream(Foreign((0, 0))).stream is second.null_stream
            stream = second.create_stream()
            second.reset_sync()
            with pytest.raises(AtopsError, match="reset"):
                atops.ExternalStream(stream)
    finally:
        leave(driver)


@every("answer", [None, 7, (0,), (0, 1, 2), (1, 0), (0, "1"), (0, 1.0), (None, 0), "00", b"\0\0", ()])
def test_m10_what_is_no_answer(answer):
    """Another version, another length and other types are TypeError, which shows what was returned."""
    with pytest.raises(TypeError, match=r"__tops_stream__ of Foreign returned .*; expected \(0, handle\)"):
        atops.ExternalStream(Foreign(answer))


def test_m10_what_is_no_stream():
    """An object without the method is a TypeError, as one is that has it for itself and not by its type."""
    own = type("Plain", (), {})()
    own.__tops_stream__ = lambda: (0, 0)
    for wrong in (object(), 0, None, own):
        with pytest.raises(TypeError, match="is no stream"):
            atops.ExternalStream(wrong)


@pytest.mark.slow
def test_m11_a_wrapper_keeps_the_owner_alive(device):
    """As long as the wrapper lives, and no longer; it has the stream's verbs, and is current as the stream is."""
    stream = device.create_stream(name="theirs")
    owner = Foreign(stream.__tops_stream__())
    wrapper = atops.ExternalStream(owner)
    left = weakref.ref(owner)
    del owner
    gc.collect()
    assert left() is not None and wrapper.owner is left()
    assert wrapper == stream and {stream: 1}[wrapper] == 1 and wrapper.label == "theirs"
    buffer = device.allocate(16)
    wrapper.fill(buffer, 7)
    with wrapper:
        assert device.current_stream is stream
    assert bytes(asyncio.run(_fetched(wrapper, buffer))) == bytes([7]) * 16
    assert wrapper.__tops_stream__() == stream.__tops_stream__()
    assert copy(wrapper) == wrapper and copy(wrapper).owner is left()
    del wrapper
    gc.collect()
    assert left() is None and not stream.closed


async def _fetched(stream, buffer):
    await stream
    return await stream.fetch(buffer)


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
        assert tasks[0].cancelled() and not tasks[1].done() and not item.done()

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


@every("name", ["release_threshold", "reserved_high", "used_high"])
@every("value", [None, -1, 1.5, "1"])
def test_i17_attributes_of_a_pool_that_cannot_be(device, name, value):
    """What is no number of bytes is InvalidValue, and nothing has changed; no pool has another attribute."""
    pool = device.create_pool()
    kept = device.create_stream().allocate(MIB, pool)
    before = getattr(pool, name)
    with pytest.raises(InvalidValue, match=name):
        setattr(pool, name, value)
    assert getattr(pool, name) == before and kept.is_live
    with pytest.raises(AttributeError):
        getattr(pool, f"{name}_of_all")


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
    """Given out when that stream has come to its free, not before; with the switch off once the host has waited."""
    one, other, third = (device.create_stream(nonblocking=True) for _ in range(3))
    pool, latch = device.create_pool(), Latch(device)
    pool.release_threshold = 1 << 40
    pool.reuse_allow_opportunistic = on
    latch.hold(one)
    first = one.allocate(MIB, pool)
    address = first.address
    one.free(first)
    if ran:
        latch.open()
        over = threading.Event()
        one.add_callback(lambda error: over.set())  # to synchronise is another thing: that needs no switch
        assert over.wait(PATIENCE)
    kept = other.allocate(MIB, pool)
    assert (kept.address == address) == (ran and on)
    latch.open()
    one.sync(PATIENCE)
    assert (third.allocate(MIB, pool).address == address) != (ran and on)


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
        assert second.create_stream().allocate(64, pool).device_id == 1
    pool.set_access(0, "readwrite")
    assert pool.get_access(0).name == "readwrite"
    for wrong in (2, -1):
        with pytest.raises(InvalidDevice):
            pool.set_access(wrong, "read")
    with pytest.raises((InvalidDevice, InvalidValue)):
        pool.set_access(1, "none")
