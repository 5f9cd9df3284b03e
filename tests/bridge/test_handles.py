"""Opaque handles: what they stand for, and when they no longer do."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest

import atops.tops as tops
from atops.base.errors import AtopsError, ExecutionError, InvalidHandle
from atops.base.options import EmulatorOptions
from atops.bridge.handles import drop, event_of, live, register, stream_of, take, usable_stream_of
from atops.runtime.board import handles
from atops.runtime.core.event import Event
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.runtime.external_stream import ExternalStream
from atops.runtime.stream import Stream, queue_of
from tests.every import every
from tests.runtime.boards import PATIENCE, Foreign, broken


def test_a_handle_stands_for_one_thing(world):
    """A handle finds its object, also as a numpy integer; two never are the same, not even for one object."""
    stream = world.device.create_stream()
    first, second = register(stream, queue_of(stream).context), register(stream, queue_of(stream).context)
    assert first != second
    assert live(first, Stream) is live(np.int64(second), Stream) is stream
    take(first, Stream)
    assert register(stream, queue_of(stream).context) not in (first, second)


@every("handle", [0, 1, 2, 0xFFFF, -1, None, True, "1", 1.5, object(), 1 << 70, np.array([1, 2])])
def test_what_is_no_handle(world, handle):
    """B10, B16: any other value is InvalidHandle, whatever its type."""
    with pytest.raises(InvalidHandle):
        live(handle, Stream)


def test_a_float_is_no_handle(world):
    """A float that equals a handle is not one."""
    handle = register(world.device.create_stream(), world.device.context)
    with pytest.raises(InvalidHandle):
        live(float(handle), Stream)


def test_wrong_kind(world):
    """A handle of an event is no stream, and the message says what it is."""
    event = world.device.create_event()
    handle = register(event, world.device.context)
    assert event_of(handle) is event_of(event) is event
    with pytest.raises(InvalidHandle, match=r"expected the handle of a Stream, got 0x\w+, the handle of <Event "):
        stream_of(handle)


def test_b2_taken_twice(world):
    """B2, F7: the second destruction is InvalidHandle, always."""
    handle = register(world.device.create_event(), world.device.context)
    take(handle, Event)
    for _ in range(3):
        with pytest.raises(InvalidHandle):
            take(handle, Event)


@pytest.mark.slow
def test_one_of_many_takes_it(world):
    """Of eight threads that destroy a handle at once exactly one does."""
    for _ in range(50):
        handle = register(world.device.create_event(), None)
        barrier = threading.Barrier(8)

        def destroy(handle: int = handle, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait(PATIENCE)
            try:
                take(handle, Event)
            except InvalidHandle:
                return False
            return True

        threads = [world.thread(destroy) for _ in range(8)]
        for thread, _ in threads:
            thread.join(PATIENCE)
        assert sum(result for _, results in threads for result in results) == 1


def test_a_reset_and_a_closed_driver_kill_handles(world):
    """A handle dies with its device and with its driver; one that goes with no device lives on."""
    lasting = register(world.device.create_event(), None)
    handles = [register(device.create_stream(), device.context) for device in (world.device, world.second)]
    world.device.reset_sync()
    with pytest.raises(InvalidHandle, match="device 0 was reset"):
        stream_of(handles[0])
    assert stream_of(handles[1]).device_id == 1
    world.driver.close()
    with pytest.raises(InvalidHandle):
        stream_of(handles[1])
    assert live(lasting, Event) is not None


@pytest.mark.slow
def test_dead_handles_keep_no_closed_driver():
    """Of a stream that was not destroyed the handle of a closed board knows what it was, and keeps nothing of it."""
    driver = Driver()
    stream = Device(0, driver).create_stream(name="forgotten")
    handle, lent = register(stream, queue_of(stream).context), stream.__tops_stream__()[1]
    gone = weakref.ref(driver)
    closing = driver.close()
    del stream
    board_of(driver).executor.block(closing, PATIENCE)
    del driver, closing
    collected(gone)
    for call in (lambda: stream_of(handle), lambda: ExternalStream(Foreign((0, handle)))):
        with pytest.raises(AtopsError, match="is closed"):
            call()
    with pytest.raises(InvalidHandle):
        stream_of(lent)


def collected(gone):
    """Return when nothing but the cyclic collector had held something: threads may be in their last steps."""
    until = time.monotonic() + PATIENCE
    while gone() is not None:
        gc.collect()
        assert time.monotonic() < until, gc.get_referrers(gone())


@pytest.mark.slow
def test_dead_handles_keep_no_memory_of_the_chip(world):
    """A device that was reset gives back its L1 and L2 though its handles and pointers are remembered as dead."""
    kept = tops.check(tops.topsStreamCreate()), tops.check(tops.topsMalloc(64))
    chip = world.device.context.chip
    scratchpads = [weakref.ref(cluster.sips[0].l1) for cluster in chip.clusters]
    scratchpads += [weakref.ref(cluster.l2) for cluster in chip.clusters]
    assert all(each() is not None for each in scratchpads)
    tops.check(tops.topsDeviceReset())
    gc.collect()
    assert not [each for each in scratchpads if each() is not None]
    assert tops.topsStreamQuery(kept[0]) == (tops.topsErrorInvalidHandle,)
    assert tops.topsFree(kept[1]) == (tops.topsErrorInvalidDevicePointer,)


def test_foreign_handles(world):
    """A handle, or a stream itself, of another board is InvalidHandle."""
    driver = Driver(EmulatorOptions(trace=0))
    try:
        device = Device(0, driver)
        stream = device.create_stream()
        for foreign in (register(stream, device.context), stream):
            with pytest.raises(InvalidHandle, match="another driver"):
                stream_of(foreign)
    finally:
        driver.close()


def test_special_streams(world):
    """0 and None are the current device's null stream, 2 the thread's own of that device; 1 is none."""
    assert stream_of(0) is stream_of(None) is stream_of(np.uint64(0)) is world.device.null_stream
    own = stream_of(2)
    assert own is stream_of(2)
    assert queue_of(own).blocking
    with world.second:
        assert stream_of(0) is world.second.null_stream
        assert stream_of(2).device_id == 1
    assert stream_of(2) is own
    for none in (1, -1, False, "0"):
        with pytest.raises(InvalidHandle):
            stream_of(none)


def test_b21_each_thread_has_its_own_stream(world):
    """B21: the per-thread streams of two threads differ."""
    thread, found = world.thread(lambda: stream_of(2))
    thread.join(PATIENCE)
    assert found[0] is not stream_of(2)


def test_m10_c_style_calls_take_what_says_its_handle(world):
    """A created stream says the handle that C knows; one of the object API gets a handle, which is not C's to end."""
    made = tops.check(tops.topsStreamCreate())
    assert stream_of(made).__tops_stream__() == (0, made)
    assert tops.topsStreamQuery(Foreign((0, made))) == (0,)
    assert stream_of(Foreign((0, 0))) is world.device.null_stream and stream_of(Foreign((0, 2))) is stream_of(2)
    stream = world.device.create_stream()
    for handle in (stream, stream.__tops_stream__()[1], Foreign(stream.__tops_stream__()), ExternalStream(stream)):
        assert stream_of(handle) is stream
        assert tops.topsStreamSynchronize(handle) == (0,)
        assert tops.topsStreamDestroy(handle) == (tops.topsErrorInvalidHandle,)
    assert tops.topsStreamDestroy(world.device.null_stream.__tops_stream__()[1]) == (tops.topsErrorInvalidHandle,)
    wrapper = ExternalStream(Foreign((0, made)))
    assert tops.topsStreamDestroy(made) == (0,)
    assert tops.topsStreamQuery(wrapper) == (tops.topsErrorInvalidHandle,)


def test_a_closed_stream_is_a_dead_handle(world):
    """By itself, by its handle and by a wrapper, whether the handle was asked for before or not."""
    for asked in (True, False):
        stream = world.device.create_stream()
        others = (ExternalStream(stream), stream.__tops_stream__()[1]) if asked else ()
        stream.close()
        for handle in (stream, *others):
            assert tops.topsStreamQuery(handle) == (tops.topsErrorInvalidHandle,)
            assert tops.topsStreamSynchronize(handle) == (tops.topsErrorInvalidHandle,)
        with pytest.raises(InvalidHandle, match="closed"):
            stream.__tops_stream__()


def test_m10_a_wrong_answer_is_a_wrong_value(world):
    """The code is InvalidValue, and the message shows what was returned."""
    answer = tops.topsStreamQuery(Foreign((1, 16)))
    assert answer == (tops.topsErrorInvalidValue,)
    with pytest.raises(AtopsError, match=r"__tops_stream__ of Foreign returned \(1, 16\)"):
        tops.check(answer)


@pytest.mark.slow
def test_a_lent_handle_goes_with_its_stream(world):
    """It keeps nothing alive, and leaves nothing behind: closed or collected, its stream is known no more."""
    closed, collected = (world.device.create_stream().__tops_stream__ for _ in range(2))
    numbers = closed()[1], collected()[1]
    assert set(numbers) <= set(handles.HANDLES)
    closed.__self__.close()
    with pytest.raises(InvalidHandle):
        stream_of(numbers[0])
    del collected
    gc.collect()
    assert not set(numbers) & set(handles.HANDLES)


def test_a_poisoned_stream_says_so(world):
    """A call that would enqueue on a poisoned stream meets its fault; others still find the stream."""
    stream = world.device.create_stream()
    handle = register(stream, queue_of(stream).context)
    assert usable_stream_of(handle) is stream
    with pytest.raises(ExecutionError):
        stream.launch(broken, (1, 1)).wait_sync(PATIENCE)
    with pytest.raises(ExecutionError):
        usable_stream_of(handle)
    assert stream_of(handle) is stream


def test_drop(world):
    """Handles of things that go down with another are dead."""
    event, other = world.device.create_event(), world.device.create_event()
    first, second, third = register(event, None), register(event, None), register(other, None)
    drop({event})
    for handle in (first, second):
        with pytest.raises(InvalidHandle):
            event_of(handle)
    assert event_of(third) is other


def test_dead_entries_go(world, monkeypatch):
    """What died with a device does not stay for ever."""
    monkeypatch.setattr(handles, "HANDLES", {})
    monkeypatch.setattr(handles, "SWEEP", [8])
    monkeypatch.setattr(handles, "KEPT", 8)
    for _ in range(8):
        register(world.device.create_event(), world.device.context)
    world.device.reset_sync()
    kept = register(world.device.create_event(), world.device.context)
    assert set(handles.HANDLES) == {kept}
