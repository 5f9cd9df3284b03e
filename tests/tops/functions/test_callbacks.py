"""Callbacks of C-style streams: their arguments, their order, what they hold, and once in every case."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import atops.tops as tops
from atops.bridge.handles import stream_of
from atops.runtime.stream import queue_of
from tests.runtime.boards import PATIENCE, Latch, broken, settle, suspended_forever
from tests.tops.conformance import World
from tests.tops.words import read, word

OK = (tops.topsSuccess,)
NOT_READY = (tops.topsErrorNotReady,)
REFUSED = (tops.topsErrorIllegalState,)
BLOCKING = tops.topsStreamCallbackBlocking
MODES = pytest.mark.parametrize("flags", [0, BLOCKING])


def stream(flags: int = 0) -> int:
    """Return a new stream of the current device."""
    return tops.check(tops.topsStreamCreateWithFlags(flags))


def call_back(handle: Any, callback: Any, data: Any = None, flags: int = 0) -> None:
    """Add a callback; it must be accepted."""
    tops.check(tops.topsStreamAddCallback(handle, callback, data, flags))


class Gate:
    """A callback that does not return before it is opened, and keeps what its calls were given."""

    def __init__(self) -> None:
        self.began, self.open = threading.Event(), threading.Event()
        self.seen: list[tuple[Any, ...]] = []

    def __call__(self, *given: Any) -> None:
        self.began.set()
        assert self.open.wait(PATIENCE)
        self.seen.append(given)


@MODES
@pytest.mark.parametrize("data", [None, 0xFFFFFFFF, [1], "text"])
def test_d3_arguments(world, flags, data):
    """D3, D10: the stream as it was named, Success, and the very object, for every kind of stream."""
    for handle in (stream(), stream(1), 0, None, tops.topsStreamPerThread):
        seen: list[Any] = []
        call_back(handle, lambda *given, seen=seen: seen.append(given), data, flags)
        assert tops.topsStreamSynchronize(handle) == OK
        assert seen == [(handle, tops.topsSuccess, data)]
        assert seen[0][2] is data


@MODES
def test_d6_synchronising_waits_for_it(world, flags):
    """D6: stream, null stream and device are busy until it returns, in both modes."""
    handle, gate = stream(), Gate()
    call_back(handle, gate, None, flags)
    assert gate.began.wait(PATIENCE)
    world.let_run()
    assert tops.topsStreamQuery(handle) == tops.topsStreamQuery(0) == NOT_READY
    waits = [tops.topsDeviceSynchronize, lambda: tops.topsStreamSynchronize(handle)]
    threads = [world.thread(lambda wait=wait: (wait(), len(gate.seen))) for wait in waits]
    gate.open.set()
    for thread, answers in threads:
        thread.join(PATIENCE)
        assert answers == [(OK, 1)]
    assert tops.topsStreamQuery(handle) == OK


def test_d5_flag_0_does_not_hold_the_stream(world):
    """D5: later work runs while the callback does: the callback itself waits for it."""
    handle, target = stream(), word(world)
    seen: list[Any] = []
    call_back(handle, lambda *_: seen.append(tops.topsStreamWaitValue32(target, 1, tops.topsStreamWaitValueEq)))
    tops.check(tops.topsStreamWriteValue32Async(target, 1, 0, handle))
    assert tops.topsStreamSynchronize(handle) == OK
    assert seen == [OK]


@pytest.mark.parametrize(("created", "flags"), [(0, BLOCKING), (BLOCKING, 0), (BLOCKING, BLOCKING)])
def test_d5_flag_2_holds_the_stream(world, created, flags):
    """D5: later work, and that of the null stream behind it, starts when it has returned; so in a stream made so."""
    handle, target, gate = stream(created), word(world), Gate()
    call_back(handle, gate, None, flags)
    tops.check(tops.topsStreamWriteValue32Async(target, 1, 0, handle))
    event = tops.check(tops.topsEventCreate())
    tops.check(tops.topsEventRecord(event, 0))
    assert gate.began.wait(PATIENCE)
    settled = stream(1)
    for _ in range(20):  # the driver has had every chance
        tops.check(tops.topsStreamWriteValue32Async(word(world), 1, 0, settled))
        tops.check(tops.topsStreamSynchronize(settled))
    assert read(world, target) == 0
    world.let_run()
    assert tops.topsEventQuery(event) == NOT_READY
    gate.open.set()
    assert tops.topsStreamSynchronize(handle) == OK
    assert read(world, target) == 1


def test_synchronising_waits_for_one_that_has_not_begun(world):
    """D6: a callback that will not hold the stream is waited for from the start, and not only once it runs."""
    handle, gate = stream(1), Gate()
    latch = Latch(world.device)
    latch.hold(stream_of(handle))
    call_back(handle, gate)
    tops.check(tops.topsStreamWriteValue32Async(word(world), 1, 0, handle))
    _, callback, write = queue_of(stream_of(handle)).pending()
    assert {callback, write} <= set(queue_of(stream_of(handle)).outstanding())
    latch.open()
    gate.open.set()
    assert tops.topsStreamSynchronize(handle) == OK
    assert callback.done()
    assert gate.seen == [(handle, tops.topsSuccess, None)]


def test_order_is_kept_in_both_modes(world):
    """Callbacks of one stream run one after another, as enqueued, whatever their flags."""
    handle, seen = stream(), []
    for number in range(60):
        call_back(handle, lambda _, __, data: seen.append(data), number, BLOCKING if number % 3 else 0)
    assert tops.topsStreamSynchronize(handle) == OK
    assert seen == list(range(60))


def test_d7_many_from_many_threads(world):
    """D7: a thousand callbacks from four threads, each executed once."""
    handle, seen = stream(), []

    def add(first: int) -> None:
        for number in range(first, first + 250):
            call_back(handle, lambda _, __, data: seen.append(data), number, BLOCKING if number % 2 else 0)

    threads = [world.thread(lambda first=first: add(first))[0] for first in range(0, 1000, 250)]
    for thread in threads:
        thread.join(PATIENCE)
    assert tops.topsStreamSynchronize(handle) == OK
    assert sorted(seen) == list(range(1000))


@MODES
@pytest.mark.parametrize("end", ["fault", "wait for a fault", "abort", "reset", "reset of a kernel"])
def test_once_with_the_status(world, flags, end):
    """After a failure, an abort or a reset each callback is called all the same, once, and told the first error."""
    handle, seen = stream(1), []
    latch = Latch(world.device)
    if end == "reset of a kernel":
        stream_of(handle).launch(suspended_forever, (1, 1))
    else:
        latch.hold(stream_of(handle))
    target = stream_of(handle)
    if "fault" in end:
        source = target if end == "fault" else stream_of(stream(1))
        source.launch(broken, (1, 1))
        target.wait(source.record())
    for number in range(3):
        call_back(handle, lambda *given: seen.append(given), number, flags)
        tops.check(tops.topsStreamWriteValue32Async(word(world), 1, 0, handle))
    status = tops.topsErrorLaunchFailure
    if "fault" in end:
        latch.open()
        assert tops.topsStreamSynchronize(handle) == (status,)
    else:
        status = tops.topsErrorContextIsDestroyed
        if end == "abort":
            target.abort()
            world.device.sync()
        else:
            assert tops.topsDeviceReset() == OK
    settle(world.driver)
    assert seen == [(handle, status, number) for number in range(3)]


@MODES
def test_once_when_the_stream_is_destroyed(world, flags):
    """Destroying the stream leaves its callbacks to run, with Success."""
    handle, seen = stream(1), []
    latch = Latch(world.device)
    latch.hold(stream_of(handle))
    call_back(handle, lambda *given: seen.append(given[:2]), None, flags)
    tops.check(tops.topsStreamDestroy(handle))
    latch.open()
    assert tops.topsDeviceSynchronize() == OK
    assert seen == [(handle, tops.topsSuccess)]


def test_running_at_a_reset(world):
    """One that runs when the reset comes is not called again, and the reset waits for it."""
    handle, gate = stream(), Gate()
    call_back(handle, gate, None, BLOCKING)
    assert gate.began.wait(PATIENCE)
    thread, answers = world.thread(tops.topsDeviceReset)
    gate.open.set()
    thread.join(PATIENCE)
    assert answers == [OK]
    assert gate.seen == [(handle, tops.topsSuccess, None)]


@MODES
@pytest.mark.parametrize("spin", [0, tops.topsDeviceScheduleSpin])
def test_a_callback_must_not_wait_for_itself(world, flags, spin):
    """Waiting for its own stream or device is IllegalState, enqueueing and other streams are not."""
    tops.check(tops.topsSetDeviceFlags(spin))
    handle, other, target = stream(), stream(1), word(world)
    event = tops.check(tops.topsEventCreate())
    recorded = threading.Event()
    seen: dict[str, Any] = {}

    def callback(*_: Any) -> None:
        assert recorded.wait(PATIENCE)
        seen["own stream"] = tops.topsStreamSynchronize(handle)
        seen["null stream"] = tops.topsStreamSynchronize(0)
        seen["device"] = tops.topsDeviceSynchronize()
        seen["reset"] = tops.topsDeviceReset()
        seen["event"] = tops.topsEventSynchronize(event) if flags else REFUSED
        seen["enqueue"] = tops.topsStreamWriteValue32Async(target, 5, 0, handle)
        seen["other"] = tops.topsStreamSynchronize(other)
        seen["query"] = tops.topsStreamQuery(handle)

    call_back(handle, callback, None, flags)
    tops.check(tops.topsEventRecord(event, handle))
    recorded.set()
    assert tops.topsStreamSynchronize(handle) == OK
    assert tops.topsStreamSynchronize(handle) == OK  # what the callback enqueued came behind the first
    refused = dict.fromkeys(("own stream", "null stream", "device", "reset", "event"), REFUSED)
    assert seen == {**refused, "enqueue": OK, "other": OK, "query": NOT_READY}
    assert read(world, target) == 5


@MODES
def test_d14_one_that_raises(world, flags):
    """D14: it fails its stream and nothing else; the callbacks after it are called, and told."""
    handle, seen = stream(), []

    def callback(*_: Any) -> None:
        raise ValueError("a callback's own fault")

    latch = Latch(world.device)
    latch.hold(stream_of(handle))
    call_back(handle, callback, None, flags)
    call_back(handle, lambda *given: seen.append(given[1]), None, flags)
    latch.open()
    assert tops.topsStreamSynchronize(handle) == (tops.topsErrorLaunchFailure,)
    assert seen == [tops.topsErrorLaunchFailure]
    assert tops.topsStreamSynchronize(stream()) == OK


def test_it_runs_on_its_submitters_board_and_device(world: World):
    """The current device inside is the one that was current when it was added."""
    tops.topsSetDevice(1)
    handle, seen = stream(), []
    call_back(handle, lambda *_: seen.append(tops.topsGetDevice()))
    tops.topsSetDevice(0)
    assert tops.topsStreamSynchronize(handle) == OK
    assert seen == [(tops.topsSuccess, 1)]
