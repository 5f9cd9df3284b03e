"""Events (TOPS Runtime API, 2.5): every function by its rows, records, failures and times."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import anyio
import pytest

import atops.tops as tops
from atops.base.result_codes import Result
from atops.bridge.handles import event_of, stream_of
from atops.tops import aio
from atops.tops.functions.api import last
from atops.tops.header.functions import FUNCTIONS
from tests.runtime.boards import PATIENCE, Latch, add_one, broken, waiters
from tests.tops.conformance import Case, Conformance, World
from tests.tops.words import read, word

OK = (tops.topsSuccess,)
NOT_READY = (tops.topsErrorNotReady,)
DEAD = (tops.topsErrorInvalidHandle,)
FAULT = (tops.topsErrorLaunchFailure,)
NAMES = tuple(name for name, each in FUNCTIONS.items() if each.family == "Event")
OF_EVENT = {"topsEventDestroy": (), "topsEventSynchronize": (), "topsEventQuery": (), "topsEventRecord": (None,)}
CREATORS = {"topsEventCreate": (), "topsEventCreateWithFlags": (0,)}
NO_REPORT = "creating and destroying report no earlier failure (2.5, create)"
CLOSED = "every handle of a closed board is dead: InvalidHandle"
HANDLE = "what is wrong with a handle is InvalidHandle"


def event(flags: int = 0) -> int:
    """Return a new event of the current device."""
    return tops.check(tops.topsEventCreateWithFlags(flags))


def stream(flags: int = 0) -> int:
    """Return a new stream of the current device."""
    return tops.check(tops.topsStreamCreateWithFlags(flags))


def recorded(handle: Any = 0, flags: int = 0) -> int:
    """Return a new event that is recorded in a stream."""
    made = event(flags)
    tops.check(tops.topsEventRecord(made, handle))
    return made


def complete(flags: int = 0) -> int:
    """Return a new event whose record is complete."""
    made = recorded(0, flags)
    tops.check(tops.topsStreamSynchronize(0))
    return made


def dead() -> int:
    """Return the handle of an event that was destroyed."""
    made = event()
    tops.check(tops.topsEventDestroy(made))
    return made


def held(world: World, handle: Any) -> Latch:
    """Hold a stream; opening the latch lets it go on."""
    latch = Latch(world.device)
    latch.hold(stream_of(handle))
    world.keep.append(latch)
    return latch


def pending(world: World, flags: int = 0) -> int:
    """Return an event whose record waits."""
    handle = stream(1)
    held(world, handle)
    return recorded(handle, flags)


def failed(world: World) -> tuple[int, int]:
    """Return a stream that a kernel's fault has poisoned, and an event recorded in it before that."""
    handle = stream()
    before = recorded(handle)
    stream_of(handle).launch(broken, (1, 1))
    assert tops.topsStreamSynchronize(handle) == FAULT
    return handle, before


def elsewhere(world: World) -> int:
    """Return an event of device 1."""
    tops.topsSetDevice(1)
    made = event()
    tops.topsSetDevice(0)
    return made


def closed(world: World, *arguments: Any) -> tuple[Any, ...]:
    """Close the board, then return the arguments."""
    world.driver.close()
    return arguments


INVALID = tops.topsErrorInvalidValue


class TestEvent(Conformance):
    """Every function of 2.5, by its rows."""

    functions = NAMES
    good: ClassVar = {
        **CREATORS,
        **{name: lambda w, more=more: (event(), *more) for name, more in OF_EVENT.items()},
        "topsEventElapsedTime": lambda w: (complete(), complete()),
    }
    bad = (
        Case("topsEventCreate", "one argument", (0,), tops.topsErrorInvalidValue),
        *(
            Case("topsEventCreateWithFlags", what, (flags,), tops.topsErrorInvalidValue)
            for what, flags in {
                "F3 Interprocess alone": tops.topsEventInterprocess,
                "F4 both releases": tops.topsEventReleaseToDevice | tops.topsEventReleaseToSystem,
                "F5 0x08000000": 0x08000000,
                "F5 all bits": 0xFFFFFFFF,
                "64": 64,
                "-1": -1,
                "None": None,
                "1.0": 1.0,
            }.items()
        ),
        *(
            Case(name, "a closed board", lambda w, more=more: closed(w, *more), tops.topsErrorNotInitialized)
            for name, more in CREATORS.items()
        ),
        *(
            Case(
                name, what, lambda w, handle=handle, more=more: (handle(w), *more),
                # a null, where the function's own list lacks InvalidHandle
                INVALID if name == "topsEventDestroy" and "F9" in what else tops.topsErrorInvalidHandle,
            )
            for name, more in {**OF_EVENT, "topsEventElapsedTime": (0,)}.items()
            for what, handle in {
                "F9 null": lambda w: 0,
                "F9 None": lambda w: None,
                "F7 destroyed": lambda w: dead(),
                "a stream": lambda w: stream(),
                "no handle": lambda w: 0xFFFF,
            }.items()
        ),
        Case("topsEventRecord", "F10 another device", lambda w: (elsewhere(w), None), tops.topsErrorInvalidHandle),
        Case("topsEventRecord", "a dead stream", lambda w: (event(), 0xFFFF), tops.topsErrorInvalidHandle),
        Case(
            "topsEventRecord", "twice for RecordOnce", lambda w: (recorded(0, tops.topsEventRecordOnce), 0),
            tops.topsErrorInvalidHandle,
        ),
        Case("topsEventRecord", "a failed stream", lambda w: (event(), failed(w)[0]), tops.topsErrorLaunchFailure),
        Case("topsEventSynchronize", "a failed stream", lambda w: (failed(w)[1],), tops.topsErrorLaunchFailure),
        Case("topsEventQuery", "a failed stream", lambda w: (failed(w)[1],), tops.topsErrorLaunchFailure),
        Case("topsEventQuery", "F14 pending", lambda w: (pending(w),), tops.topsErrorNotReady),
        *(
            Case(name, "DisableQueryAndSync", lambda w: (event(32),), tops.topsErrorNotSupported)
            for name in ("topsEventQuery", "topsEventSynchronize")
        ),
        *(
            Case("topsEventElapsedTime", what, make, code)
            for what, make, code in (
                ("F20 start without timing", lambda w: (complete(2), complete()), tops.topsErrorInvalidHandle),
                ("F20 stop without timing", lambda w: (complete(), complete(2)), tops.topsErrorInvalidHandle),
                ("F21 start not recorded", lambda w: (event(), complete()), tops.topsErrorInvalidHandle),
                ("F21 stop not recorded", lambda w: (complete(), event()), tops.topsErrorInvalidHandle),
                ("stop destroyed", lambda w: (complete(), dead()), tops.topsErrorInvalidHandle),
                ("start pending", lambda w: (pending(w), complete()), tops.topsErrorNotReady),
                ("stop pending", lambda w: (complete(), pending(w)), tops.topsErrorNotReady),
                ("a failed stream", lambda w: (complete(), failed(w)[1]), tops.topsErrorLaunchFailure),
            )
        ),
    )  # fmt: skip
    unreachable: ClassVar = {
        **{(name, Result.LaunchFailure): NO_REPORT for name in (*CREATORS, "topsEventDestroy")},
        **{(name, Result.OutOfMemory): "an event takes no device memory" for name in CREATORS},
        **{(name, Result.NotInitialized): CLOSED for name in NAMES if name not in CREATORS},
        **{(name, Result.InvalidValue): HANDLE for name in NAMES if name not in (*CREATORS, "topsEventDestroy")},
    }


@pytest.mark.parametrize("flags", [0, 1, 2, 4 | 2, 8, 16, 32, 1 << 30, 1 << 31, 1 | 2 | 4 | 8 | 16 | 32 | 1 << 30])
def test_f2_flags(world, flags):
    """F2: each documented flag, alone and with the others, makes an event that keeps them and can be recorded."""
    handle = event(flags)
    made = event_of(handle)
    assert made.flags == flags
    assert (made.timing, made.once, made.queryable) == (not flags & 2, bool(flags & 8), not flags & 32)
    assert tops.topsEventRecord(handle, 0) == OK
    assert tops.topsEventSynchronize(handle) == ((tops.topsErrorNotSupported,) if flags & 32 else OK)


def test_f8_destroy_while_recording(world):
    """F8: it returns at once, the handle is dead, the stream is still busy and its work completes."""
    handle, target = stream(1), word(world)
    latch = held(world, handle)
    marked = recorded(handle)
    tops.check(tops.topsStreamWriteValue32Async(target, 1, 0, handle))
    assert tops.topsEventDestroy(marked) == OK
    assert tops.topsEventDestroy(marked) == tops.topsEventQuery(marked) == DEAD
    world.let_run()
    assert tops.topsStreamQuery(handle) == NOT_READY
    latch.open()
    assert tops.topsStreamSynchronize(handle) == OK
    assert read(world, target) == 1


def test_f38_destroyed_during_a_wait(world):
    """F38: the wait ends when the record is complete; so does a stream's wait."""
    handle, waiting = stream(1), stream(1)
    latch = held(world, handle)
    marked = recorded(handle)
    tops.check(tops.topsStreamWaitEvent(waiting, marked, 0))
    thread, answers = world.thread(lambda: tops.topsEventSynchronize(marked))
    while waiters(world.driver) < 2:
        time.sleep(0)
    assert tops.topsEventDestroy(marked) == OK
    world.let_run()
    assert tops.topsStreamQuery(waiting) == NOT_READY
    latch.open()
    thread.join(PATIENCE)
    assert answers == [OK]
    assert tops.topsStreamSynchronize(waiting) == OK


def test_f11_another_device_is_current(world):
    """F11, F27: query, synchronise and time of an event do not look at the current device."""
    first, last_ = complete(), complete()
    tops.topsSetDevice(1)
    assert tops.topsEventQuery(first) == tops.topsEventSynchronize(first) == OK
    assert tops.topsEventElapsedTime(first, last_)[0] == tops.topsSuccess
    assert tops.topsEventElapsedTime(first, complete()) == (tops.topsErrorInvalidHandle, None)  # F22


def test_f14_f15_f16_records_of_an_event(world):
    """F14 to F16: the newest record counts; two events of one stream are complete one after the other."""
    handle = stream(1)
    marked = recorded(handle)
    assert tops.topsEventSynchronize(marked) == tops.topsEventQuery(marked) == OK
    first = held(world, handle)
    other = recorded(handle)
    second = held(world, handle)
    tops.check(tops.topsEventRecord(marked, handle))
    world.let_run()
    assert tops.topsEventQuery(other) == tops.topsEventQuery(marked) == NOT_READY
    assert last() is None
    first.open()
    assert tops.topsEventSynchronize(other) == tops.topsEventQuery(other) == OK
    world.let_run()
    assert tops.topsEventQuery(marked) == NOT_READY
    second.open()
    assert tops.topsEventSynchronize(marked) == tops.topsEventQuery(marked) == OK


def test_never_recorded_is_complete(world):
    """2.5: query and synchronise succeed at once; F21: elapsed time is InvalidHandle, and stored."""
    handle = event()
    assert tops.topsEventQuery(handle) == tops.topsEventSynchronize(handle) == OK
    assert tops.topsEventElapsedTime(handle, handle) == (tops.topsErrorInvalidHandle, None)
    assert tops.topsGetLastError() == (tops.topsErrorInvalidHandle,)


def test_f24_times(world):
    """F24: nothing between an event and itself; the order decides the sign; what lies between counts."""
    handle = stream()
    start = recorded(handle)
    latch = held(world, handle)
    stop = recorded(handle)
    tops.check(tops.topsEventSynchronize(start))
    began = time.perf_counter_ns()
    while time.perf_counter_ns() - began < 3_000_000:
        pass
    latch.open()
    tops.check(tops.topsEventSynchronize(stop))
    assert tops.topsEventElapsedTime(start, start) == (tops.topsSuccess, 0.0)
    forward, back = (tops.check(tops.topsEventElapsedTime(*pair)) for pair in ((start, stop), (stop, start)))
    assert forward >= 3.0
    assert back == -forward


def test_f26_null_stream_records_are_stamped_last(world):
    """F26: an event recorded in the null stream is complete, and stamped, after all blocking streams before it."""
    handle = stream()
    latch = held(world, handle)
    before = recorded(handle)
    marked = recorded(0)
    world.let_run()
    assert tops.topsEventQuery(marked) == NOT_READY
    latch.open()
    assert tops.topsEventSynchronize(marked) == OK
    assert tops.check(tops.topsEventElapsedTime(before, marked)) >= 0


def test_events_of_a_launch(world):
    """2.5: the two events of one launch time it; mixed with others they are InvalidHandle until they are recorded."""
    target, made = stream_of(stream()), [event() for _ in range(4)]
    array = world.device.empty(1, "int32")
    target.fill(array, 0)
    for start, stop in (made[:2], made[2:]):
        target.launch(add_one, (1, 1), array, start=event_of(start), stop=event_of(stop))
    assert [tops.topsEventSynchronize(each) for each in made] == [OK] * 4
    assert tops.check(tops.topsEventElapsedTime(made[0], made[1])) > 0
    plain = complete()
    for start, stop in ((made[0], made[3]), (made[2], made[1]), (plain, made[1]), (made[0], plain)):
        assert tops.topsEventElapsedTime(start, stop) == (tops.topsErrorInvalidHandle, None)
    tops.check(tops.topsEventRecord(made[0], 0))
    tops.check(tops.topsEventSynchronize(made[0]))
    assert tops.topsEventElapsedTime(plain, made[0])[0] == tops.topsSuccess


def test_a_failure_reaches_the_events_of_its_stream(world):
    """2.5: record, query, synchronise and time answer it, even of an event complete before; destroying does not."""
    handle, before = failed(world)
    other = complete()
    for _ in range(2):
        assert tops.topsEventQuery(before) == tops.topsEventSynchronize(before) == FAULT
        assert tops.topsEventElapsedTime(before, other) == (*FAULT, None)
        assert tops.topsEventRecord(event(), handle) == FAULT
        assert tops.topsEventQuery(other) == tops.topsEventSynchronize(other) == OK
    assert tops.topsEventDestroy(before) == OK
    assert tops.topsEventRecord(other, 0) == tops.topsEventSynchronize(other) == OK


def test_a_record_behind_a_failure_has_its_code(world):
    """An event recorded before the fault was seen fails with the code of the fault."""
    handle = stream(1)
    latch = held(world, handle)
    stream_of(handle).launch(broken, (1, 1))
    marked = recorded(handle)
    latch.open()
    assert tops.topsEventSynchronize(marked) == tops.topsEventQuery(marked) == FAULT


def test_reset(world):
    """A thread that waits gets an error, and the device's events are dead."""
    marked = pending(world)
    thread, answers = world.thread(lambda: tops.topsEventSynchronize(marked))
    while not waiters(world.driver):
        time.sleep(0)
    assert tops.topsDeviceReset() == OK
    thread.join(PATIENCE)
    assert answers == [(tops.topsErrorContextIsDestroyed,)]
    assert tops.topsEventQuery(marked) == tops.topsEventDestroy(marked) == DEAD


def test_a_twin_leaves_the_loop_free(world, loop_guard):
    """Awaiting an event blocks no loop, and cancelling the wait leaves the work alone."""
    for backend in ("asyncio", "trio"):
        handle = stream(1)
        latch = held(world, handle)
        marked = recorded(handle)

        async def main(marked: int = marked, latch: Latch = latch) -> None:
            with anyio.move_on_after(0) as scope:
                await aio.topsEventSynchronize(marked)
            assert scope.cancelled_caught
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, latch.open)
                assert await aio.topsEventSynchronize(marked) == OK

        anyio.run(main, backend=backend)
