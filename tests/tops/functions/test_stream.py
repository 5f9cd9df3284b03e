"""Streams (TOPS Runtime API, 2.4): every function by its rows, order, waiting and handles."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import anyio
import numpy as np
import pytest

import atops.tops as tops
from atops.base.errors import LaunchFailure
from atops.bridge.handles import stream_of
from atops.runtime.stream import queue_of
from atops.tops import aio
from atops.tops.functions.api import last
from atops.tops.header.functions import FUNCTIONS
from tests.runtime.boards import PATIENCE, Latch, add_one, broken, waiters
from tests.tops.conformance import Case, Conformance, World
from tests.tops.words import read, word

OK = (tops.topsSuccess,)
NOT_READY = (tops.topsErrorNotReady,)
FAULT = (tops.topsErrorLaunchFailure,)


def ignore(stream: Any, status: Any, data: Any) -> None:
    """Be a callback."""


NAMES = tuple(name for name, each in FUNCTIONS.items() if each.family == "Stream")
OF_STREAM = {  # arguments before and after the stream
    "topsStreamDestroy": ((), ()),
    "topsStreamQuery": ((), ()),
    "topsStreamSynchronize": ((), ()),
    "topsStreamWaitEvent": ((), lambda w: (event(w), 0)),
    "topsStreamAddCallback": ((), (ignore, None, 0)),
    "topsStreamWriteValue32Async": (lambda w: (word(w), 1, 0), ()),
    "topsStreamWaitValue32Async": (lambda w: (word(w), 0, 0), ()),
}
OF_WORD = tuple(name for name in NAMES if "Value32" in name)


def stream(world: World, flags: int = 0) -> int:
    """Return a new stream of the current device."""
    return tops.check(tops.topsStreamCreateWithFlags(flags))


def event(world: World) -> int:
    """Return a new event of the current device."""
    return tops.check(tops.topsEventCreate())


def held(world: World, handle: Any) -> Latch:
    """Hold a stream; opening the latch lets it go on."""
    latch = Latch(world.device)
    latch.hold(stream_of(handle))
    world.keep.append(latch)
    return latch


def failed(world: World) -> int:
    """Return a stream that a kernel's fault has poisoned."""
    handle = stream(world)
    launch = stream_of(handle).launch(broken, (1, 1))
    with pytest.raises(LaunchFailure):
        launch.wait_sync(PATIENCE)
    return handle


def dead(world: World, make: Any = stream) -> int:
    """Return the handle of a stream that was destroyed."""
    handle = make(world)
    tops.check(tops.topsStreamDestroy(handle))
    return handle


def around(name: str, handle: Any) -> Any:
    """Return the arguments of a function with the stream that `handle` makes."""
    before, after = (part if callable(part) else (lambda w, part=part: part) for part in OF_STREAM[name])
    return lambda w: (*before(w), handle(w), *after(w))


def bytes_on(world: World, device: Any, nbytes: int) -> int:
    """Return a pointer to new memory of a device."""
    buffer = device.allocate(nbytes)
    world.keep.append(buffer)
    return buffer.address


def freed(world: World) -> int:
    """Return a pointer to memory that is gone."""
    buffer = world.device.allocate(4)
    buffer.close()
    world.device.sync()
    return buffer.address


POINTERS = {  # what is no word of device 0
    "null": lambda w: 0,
    "None": lambda w: None,
    "nowhere": lambda w: 0x1234,
    "unaligned": lambda w: word(w) + 2,
    "behind the end": lambda w: bytes_on(w, w.device, 4) + 4,
    "half inside": lambda w: bytes_on(w, w.device, 6) + 4,
    "freed": freed,
    "of another device": lambda w: bytes_on(w, w.second, 4),
    "a stream": stream,
}


class TestStream(Conformance):
    """Every function of 2.4, by its rows."""

    functions = NAMES
    good: ClassVar = {
        "topsStreamCreate": (),
        "topsStreamCreateWithFlags": (tops.topsStreamNonBlocking,),
        **{name: around(name, stream) for name in OF_STREAM},
        "topsStreamWriteValue32": lambda w: (word(w), 1, 0),
        "topsStreamWaitValue32": lambda w: (word(w, 7), 7, tops.topsStreamWaitValueEq),
    }
    anything = frozenset({("topsStreamAddCallback", "userData")})
    bad = (
        Case("topsStreamCreate", "one argument", (0,), tops.topsErrorInvalidValue),
        Case("topsStreamCreateWithFlags", "A4 flags 0xFF", (0xFF,), tops.topsErrorInvalidValue),
        Case("topsStreamCreateWithFlags", "A4 flags 8", (8,), tops.topsErrorInvalidValue),
        Case("topsStreamCreateWithFlags", "flags -1", (-1,), tops.topsErrorInvalidValue),
        *(
            Case(name, what, around(name, handle), tops.topsErrorInvalidHandle)
            for name in OF_STREAM
            for what, handle in {
                "B9 destroyed": dead,
                "B10 B16 C3 E3 uninitialised": lambda w: 0xFFFF,
                "of another kind": event,
                "negative": lambda w: -1,
                "a float": lambda w: 2.0,
            }.items()
        ),
        *(
            Case("topsStreamDestroy", f"B3 {what}", (handle,), tops.topsErrorInvalidHandle)
            for what, handle in {"null stream": 0, "None": None, "per thread": tops.topsStreamPerThread}.items()
        ),
        Case("topsStreamQuery", "B8 busy", lambda w: held(w, s := stream(w)) and (s,), tops.topsErrorNotReady),
        Case("topsStreamWaitEvent", "C1 null event", lambda w: (stream(w), None, 0), tops.topsErrorInvalidHandle),
        Case("topsStreamWaitEvent", "C1 null stream", (0, 0, 0), tops.topsErrorInvalidHandle),
        Case("topsStreamWaitEvent", "C1 per thread", (2, None, 0), tops.topsErrorInvalidHandle),
        Case("topsStreamWaitEvent", "C2 flags ~0", lambda w: (0, event(w), 0xFFFFFFFF), tops.topsErrorInvalidValue),
        Case("topsStreamWaitEvent", "flags 1", lambda w: (0, event(w), 1), tops.topsErrorInvalidValue),
        Case("topsStreamAddCallback", "D1 null", lambda w: (stream(w), None, 0, 0), tops.topsErrorInvalidValue),
        Case("topsStreamAddCallback", "D1 null, null stream", (None, None, 0, 0), tops.topsErrorInvalidValue),
        Case("topsStreamAddCallback", "flags 1", (0, ignore, 0, 1), tops.topsErrorInvalidValue),
        Case("topsStreamAddCallback", "flags 6", (0, ignore, 0, 6), tops.topsErrorInvalidValue),
        Case("topsStreamAddCallback", "a coroutine function", (0, anyio.sleep, 0, 0), tops.topsErrorNotSupported),
        *(
            Case(name, what, lambda w, pointer=pointer: (pointer(w), 1, 0), tops.topsErrorInvalidDevicePointer)
            for name in OF_WORD
            for what, pointer in POINTERS.items()
        ),
        *(
            Case(name, what, lambda w, value=value, flags=flags: (word(w), value, flags), tops.topsErrorInvalidValue)
            for name in OF_WORD
            for what, value, flags in (
                ("E4 flags -1", 0, -1),
                ("flags 4", 0, 4),
                ("flags None", 0, None),
                ("a value of 33 bits", 1 << 32, 0),
                ("a value of -33 bits", -(1 << 31) - 1, 0),
                ("value 1.0", 1.0, 0),
            )
        ),
        *(
            Case(name, "flags 1", lambda w: (word(w), 0, 1), tops.topsErrorInvalidValue)
            for name in OF_WORD
            if "Write" in name
        ),
    )
    unreachable: ClassVar = {}


# ---- creation and handles


@pytest.mark.parametrize("flags", range(8))
def test_a2_a5_flags_of_a_stream(world, flags):
    """A2, A5: a stream keeps its flags, has the default priority, and bit 0 takes it out of null-stream order."""
    made = stream_of(stream(world, flags))
    assert (made.flags, made.priority, queue_of(made).blocking) == (flags, 0, not flags & 1)
    assert stream_of(tops.check(tops.topsStreamCreate())).flags == 0


def test_a19_a_stream_stays_on_its_device(world):
    """A19: what is current when it is used has no part in it."""
    handle = stream(world)
    tops.topsSetDevice(1)
    assert stream_of(handle).device_id == 0
    assert stream_of(stream(world)).device_id == stream_of(0).device_id == 1
    assert tops.topsStreamSynchronize(handle) == OK


def test_b2_destroyed_twice(world):
    """B2: the second time is InvalidHandle, also for threads that do it at once."""
    handle = stream(world)
    answers: list[Any] = []
    threads = [world.thread(lambda: answers.append(tops.topsStreamDestroy(handle)))[0] for _ in range(4)]
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(answers) == [OK, *[(tops.topsErrorInvalidHandle,)] * 3]


def test_b4_m14_destroy_leaves_the_work_alone(world):
    """B4, M14: the handle is dead at once, what was enqueued still runs, and a thread that waits for it goes on."""
    handle, target = stream(world), word(world)
    latch = held(world, handle)
    tops.check(tops.topsStreamWriteValue32Async(target, 3, 0, handle))
    thread, answers = world.thread(lambda: tops.topsStreamSynchronize(handle))
    while not waiters(world.driver):
        time.sleep(0)
    assert tops.topsStreamDestroy(handle) == OK
    assert tops.topsStreamQuery(handle) == (tops.topsErrorInvalidHandle,)
    latch.open()
    thread.join(PATIENCE)
    assert answers == [OK]
    assert read(world, target) == 3


# ---- query and synchronise


def test_b8_not_ready_is_not_an_error(world):
    """B8, B15, B17: NotReady while work is left, and nothing is stored; Success after synchronising."""
    handle = stream(world)
    assert tops.topsStreamSynchronize(handle) == tops.topsStreamQuery(handle) == OK
    latch = held(world, handle)
    world.let_run()
    assert tops.topsStreamQuery(handle) == NOT_READY
    assert last() is None
    latch.open()
    assert tops.topsStreamSynchronize(handle) == tops.topsStreamQuery(handle) == OK


@pytest.mark.parametrize(("flags", "answer"), [(0, NOT_READY), (tops.topsStreamNonBlocking, OK)])
def test_b11_b12_b30_null_query(world, flags, answer):
    """B11, B12, B30: the null stream is busy while a blocking stream is, and not while a non-blocking one is."""
    handle = stream(world, flags)
    latch = held(world, handle)
    assert tops.topsStreamQuery(None) == tops.topsStreamQuery(0) == answer
    latch.open()
    assert tops.topsStreamSynchronize(handle) == tops.topsStreamQuery(None) == OK


def test_b30_a_nonblocking_stream_waits_for_no_null_work(world):
    """B30: it goes on behind null-stream work, and a blocking one does not."""
    latch = held(world, 0)
    free, bound, target = stream(world, 1), stream(world), word(world)
    tops.check(tops.topsStreamWriteValue32Async(target, 1, 0, free))
    tops.check(tops.topsStreamWriteValue32Async(target, 2, 0, bound))
    assert tops.topsStreamSynchronize(free) == OK
    world.let_run()
    assert tops.topsStreamQuery(bound) == NOT_READY
    assert read(world, target) == 1
    latch.open()
    assert tops.topsStreamSynchronize(bound) == OK
    assert read(world, target) == 2


def test_b18_null_synchronize_waits_for_blocking_streams(world):
    """B18: synchronising the null stream leaves none of them busy; a non-blocking one it does not wait for."""
    handles = [stream(world) for _ in range(10)]
    targets = [word(world) for _ in handles]
    for handle, target in zip(handles, targets, strict=True):
        tops.check(tops.topsStreamWriteValue32Async(target, 9, 0, handle))
    other = stream(world, tops.topsStreamNonBlocking)
    latch = held(world, other)
    assert tops.topsStreamSynchronize(None) == OK
    assert [tops.topsStreamQuery(each) for each in handles] == [OK] * 10
    assert [read(world, each) for each in targets] == [9] * 10
    world.let_run()
    assert tops.topsStreamQuery(other) == NOT_READY
    latch.open()


def test_b19_synchronize_waits_for_its_stream_alone(world):
    """B19: another stream is still busy afterwards, and so is the null stream."""
    first, second = stream(world), stream(world)
    latch = held(world, second)
    tops.check(tops.topsStreamWriteValue32Async(word(world), 1, 0, first))
    assert tops.topsStreamSynchronize(first) == OK
    world.let_run()
    assert tops.topsStreamQuery(second) == tops.topsStreamQuery(0) == NOT_READY
    latch.open()


def test_b25_b26_b27_null_stream_order(world):
    """B25, B26, B27: null and blocking streams work strictly one after another, without any synchronisation."""
    blocking = [stream(world) for _ in range(4)]
    array = world.device.empty(1, "int32")
    null = stream_of(0)
    null.fill(array, 5)
    for _ in range(6):
        stream_of(blocking[0]).launch(add_one, (1, 1), array)
    null.launch(add_one, (1, 1), array)
    stream_of(blocking[1]).launch(add_one, (1, 1), array)
    assert null.fetch(array).wait_sync(PATIENCE) == 13
    copies = [world.device.empty(1, "int32") for _ in blocking]
    for copy in copies:
        null.fill(copy, 40)
    for handle, copy in zip(blocking, copies, strict=True):
        stream_of(handle).launch(add_one, (1, 1), copy)
    assert [int(null.fetch(copy).wait_sync(PATIENCE)[0]) for copy in copies] == [41] * 4


def test_b21_b22_per_thread_streams(world):
    """B21, B22: each thread has its own, which works in every function and again after a reset."""
    latch = held(world, tops.topsStreamPerThread)
    world.let_run()
    assert tops.topsStreamQuery(2) == NOT_READY

    def other() -> Any:
        target = word(world)
        tops.check(tops.topsStreamWriteValue32Async(target, 1, 0, 2))
        return tops.topsStreamSynchronize(2), tops.topsStreamQuery(2), stream_of(2)

    threads = [world.thread(other) for _ in range(10)]
    for thread, _ in threads:
        thread.join(PATIENCE)
    assert [answers[0][:2] for _, answers in threads] == [(OK, OK)] * 10
    assert len({answers[0][2].number for _, answers in threads}) == 10
    latch.open()
    assert tops.topsDeviceReset() == OK
    assert tops.topsStreamQuery(2) == tops.topsStreamSynchronize(2) == OK


def test_a_fault_stays_with_its_stream(world):
    """2.5, failures: each later call on the stream answers it, others go on, it can be destroyed, a reset ends it."""
    handle, other = failed(world), stream(world)
    for _ in range(2):
        assert tops.topsStreamQuery(handle) == tops.topsStreamSynchronize(handle) == FAULT
        assert tops.topsStreamWaitEvent(handle, event(world), 0) == FAULT
        assert tops.topsStreamAddCallback(handle, ignore, None, 0) == FAULT
        assert tops.topsStreamWriteValue32Async(word(world), 1, 0, handle) == FAULT
        assert tops.topsStreamWaitValue32Async(word(world), 0, 0, handle) == FAULT
        assert tops.topsEventRecord(event(world), handle) == FAULT
        assert tops.topsDeviceSynchronize() == FAULT
        assert tops.topsStreamQuery(other) == tops.topsStreamSynchronize(other) == OK
    assert tops.topsStreamDestroy(handle) == OK
    assert tops.topsDeviceReset() == OK
    assert tops.topsStreamQuery(handle) == (tops.topsErrorInvalidHandle,)
    assert tops.topsDeviceSynchronize() == OK


def test_m16_a_twin_leaves_the_loop_free(world, loop_guard):
    """M16: awaiting a stream does not block the loop, on both loops."""
    for backend in ("asyncio", "trio"):
        handle = stream(world)
        latch = held(world, handle)

        async def main(handle=handle, latch=latch) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, latch.open)
                assert await aio.topsStreamSynchronize(handle) == OK

        anyio.run(main, backend=backend)


def test_a_reset_wakes_a_synchronising_thread(world):
    """A thread that waits for a stream of a device that another resets gets an error."""
    handle = stream(world)
    held(world, handle)
    thread, answers = world.thread(lambda: tops.topsStreamSynchronize(handle))
    while not waiters(world.driver):
        time.sleep(0)
    assert tops.topsDeviceReset() == OK
    thread.join(PATIENCE)
    assert answers == [(tops.topsErrorContextIsDestroyed,)]
    assert tops.topsStreamSynchronize(handle) == (tops.topsErrorInvalidHandle,)


def pinned(world: World) -> int:
    """Return a pointer to pinned memory."""
    return tops.check(tops.topsHostMalloc(64, 0))


def registered(world: World) -> int:
    """Return the address of a registered array."""
    array = np.zeros(64, np.uint8)
    tops.check(tops.topsHostRegister(array, 64, 0))
    world.keep.append(array)
    return int(array.ctypes.data)


def mapped(world: World) -> int:
    """Return a device's pointer to pinned memory."""
    return tops.check(tops.topsHostGetDevicePointer(pinned(world), 0))


def reset_once_waiting(world: World) -> None:
    """Reset device 0 as soon as the host waits for a word of it."""
    context, stop = world.device.context, time.monotonic() + PATIENCE
    while not context.word_waits:
        assert time.monotonic() < stop
        time.sleep(0)
    tops.check(tops.topsDeviceReset())


@pytest.mark.parametrize("make", [pinned, registered, mapped, word])
def test_a_reset_wakes_the_hosts_waits_for_words(world, make):
    """Wherever the word is, in plain code and on both loops; the next wait is of the fresh device."""
    gone, pointer = (tops.topsErrorContextIsDestroyed,), make(world)
    thread, answers = world.thread(lambda: tops.topsStreamWaitValue32(pointer, 7, 1))
    reset_once_waiting(world)
    thread.join(PATIENCE)
    assert answers == [gone]
    for backend in ("asyncio", "trio"):
        pointer = make(world)

        async def main(pointer=pointer) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, lambda: reset_once_waiting(world))
                with anyio.fail_after(PATIENCE):
                    assert await aio.topsStreamWaitValue32(pointer, 7, 1) == gone

        anyio.run(main, backend=backend)
    pointer = make(world)
    tops.check(tops.topsStreamWriteValue32(pointer, 7, 0))
    assert tops.topsStreamWaitValue32(pointer, 7, 1) == OK
    assert not world.device.context.word_waits


# ---- events in streams


@pytest.mark.parametrize("waiting", ["null", "created", "per thread"])
def test_c4_c6_wait_event(world, waiting):
    """C4, C6: only later work waits for the event; synchronising the recording stream is enough for it."""
    first, target = stream(world, 1), word(world)
    second = {"null": 0, "created": stream(world, 1), "per thread": 2}[waiting]
    latch, marked = held(world, first), event(world)
    tops.check(tops.topsEventRecord(marked, first))
    tops.check(tops.topsStreamWaitEvent(second, marked, 0))
    tops.check(tops.topsStreamWriteValue32Async(target, 1, 0, second))
    world.let_run()
    assert tops.topsStreamQuery(second) == NOT_READY
    assert tops.topsStreamSynchronize(stream(world, 1)) == OK
    assert read(world, target) == 0
    latch.open()
    assert tops.topsStreamSynchronize(second) == OK
    assert read(world, target) == 1


def test_c8_a_wait_keeps_the_record_it_saw(world):
    """C8: recording the event again later does not prolong the wait."""
    first, second, marked = stream(world, 1), stream(world, 1), event(world)
    tops.check(tops.topsEventRecord(marked, first))
    tops.check(tops.topsStreamWaitEvent(second, marked, 0))
    latch = held(world, first)
    tops.check(tops.topsEventRecord(marked, first))
    assert tops.topsStreamSynchronize(second) == OK
    world.let_run()
    assert tops.topsEventQuery(marked) == NOT_READY
    latch.open()


def test_c10_wait_for_an_event_of_another_device(world):
    """C10: only recording needs the same device."""
    first, marked, target = stream(world), event(world), word(world)
    latch = held(world, first)
    tops.check(tops.topsEventRecord(marked, first))
    tops.topsSetDevice(1)
    second = stream(world)
    assert tops.topsStreamWaitEvent(second, marked, 0) == OK
    world.let_run()
    assert tops.topsStreamQuery(second) == NOT_READY
    latch.open()
    assert tops.topsStreamSynchronize(second) == OK
    assert read(world, target) == 0


def test_null_work_waits_for_a_wait_of_a_blocking_stream(world):
    """2.5: an event of the null stream waits for a stream that does nothing but wait for an event."""
    free, waiting, marked, last = stream(world, 1), stream(world), event(world), event(world)
    latch = held(world, free)
    tops.check(tops.topsEventRecord(marked, free))
    tops.check(tops.topsStreamWaitEvent(waiting, marked, 0))
    tops.check(tops.topsEventRecord(last, 0))
    world.let_run()
    assert tops.topsEventQuery(last) == tops.topsStreamQuery(0) == NOT_READY
    latch.open()
    assert tops.topsEventSynchronize(last) == OK


def test_a_wait_hands_a_failure_on(world):
    """A stream that waits for an event of a failed stream fails with the same code."""
    first, second, marked = stream(world, 1), stream(world, 1), event(world)
    latch = held(world, first)
    stream_of(first).launch(broken, (1, 1))
    tops.check(tops.topsEventRecord(marked, first))
    tops.check(tops.topsStreamWaitEvent(second, marked, 0))
    latch.open()
    assert tops.topsStreamSynchronize(second) == FAULT


def test_d15_waiting_threads_hold_no_lock(world):
    """D15: a callback calls the runtime while another thread blocks in it."""
    handle, other = stream(world), stream(world)
    latch = held(world, other)
    thread, answers = world.thread(lambda: tops.topsStreamSynchronize(other))
    while not waiters(world.driver):
        time.sleep(0)
    tops.check(tops.topsStreamAddCallback(handle, lambda *_: latch.open(), None, 0))
    thread.join(PATIENCE)
    assert answers == [OK]


@pytest.mark.parametrize(("handle", "which"), [(0, "the null"), (None, "the null"), (2, "the thread's own")])
def test_streams_that_were_not_created_cannot_be_destroyed(world, handle, which):
    """The null stream and the thread's own are InvalidHandle, and the message says which of them was meant."""
    assert tops.topsStreamDestroy(handle) == (tops.topsErrorInvalidHandle,)
    assert f"cannot destroy {which}" in last().message and f", {handle};" in last().message
