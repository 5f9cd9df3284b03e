"""How blocking waits pass their time: with Spin they use the processor, with every other flag they sleep."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import atops.tops as tops
from atops.bridge.handles import stream_of
from atops.bridge.pointers import device_memory
from tests.runtime.boards import PATIENCE, Latch, waiters
from tests.tops.conformance import World
from tests.tops.words import word

pytestmark = pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="no clock of another thread here")

OK = (tops.topsSuccess,)
SLEEPING = [tops.topsDeviceScheduleAuto, tops.topsDeviceScheduleYield, tops.topsDeviceScheduleBlockingSync]
LONG, SHORT = 20_000_000, 5_000_000  # nanoseconds: a wait, and what a thread that sleeps meanwhile cannot have used
KINDS = ["stream", "null stream", "event", "device", "word"]


def begin(world: World, kind: str, event_flags: int = 0) -> tuple[threading.Thread, list[Any], Any]:
    """Start a thread that waits for something of `kind`; returns it, its answer and what lets it go on."""
    if kind == "word":
        pointer = word(world)
        thread, answers = world.thread(lambda: tops.topsStreamWaitValue32(pointer, 1, tops.topsStreamWaitValueEq))
        while device_memory(pointer, 4).allocation.watches is None:
            time.sleep(0)
        return thread, answers, lambda: tops.check(tops.topsStreamWriteValue32(pointer, 1, 0))
    handle = tops.check(tops.topsStreamCreate())
    latch = Latch(world.device)
    latch.hold(stream_of(handle))
    event = tops.check(tops.topsEventCreateWithFlags(event_flags))
    tops.check(tops.topsEventRecord(event, handle))
    wait = {
        "stream": lambda: tops.topsStreamSynchronize(handle),
        "null stream": lambda: tops.topsStreamSynchronize(0),
        "event": lambda: tops.topsEventSynchronize(event),
        "device": tops.topsDeviceSynchronize,
    }[kind]
    thread, answers = world.thread(wait)
    return thread, answers, latch.open


def used(thread: threading.Thread) -> int:
    """Return the processor time that a thread has used, in nanoseconds."""
    return time.clock_gettime_ns(time.pthread_getcpuclockid(thread.ident))


def end(thread: threading.Thread, answers: list[Any], go_on: Any) -> None:
    """Let a waiting thread go on; its wait must succeed."""
    go_on()
    thread.join(PATIENCE)
    assert answers == [OK]


def assert_sleeps(world: World, kind: str, event_flags: int = 0) -> None:
    """Check that a thread uses next to no processor time while it waits."""
    thread, answers, go_on = begin(world, kind, event_flags)
    while kind != "word" and not waiters(world.driver):
        time.sleep(0)
    for _ in range(3):  # it may have been seen to wait a moment before it slept
        before, until = used(thread), time.monotonic_ns() + LONG
        while time.monotonic_ns() < until:
            pass
        if used(thread) - before < SHORT:
            break
    else:
        raise AssertionError("it uses the processor while it waits")
    end(thread, answers, go_on)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_spin_uses_the_processor(world, kind):
    """With Spin, a thread that waits for anything of the device polls all the while."""
    tops.check(tops.topsSetDeviceFlags(tops.topsDeviceScheduleSpin))
    thread, answers, go_on = begin(world, kind)
    before, until = used(thread), time.monotonic() + PATIENCE
    while used(thread) - before < LONG:
        assert time.monotonic() < until, "it sleeps"
        time.sleep(0)
    assert not answers
    end(thread, answers, go_on)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flags", SLEEPING)
def test_other_flags_sleep(world, flags, kind):
    """With Auto, Yield and BlockingSync it sleeps."""
    tops.check(tops.topsSetDeviceFlags(flags))
    assert_sleeps(world, kind)


def test_f17_a_blocking_event_sleeps_on_a_spinning_device(world):
    """F17: topsEventBlockingSync has its waiters sleep whatever the device's flags say."""
    tops.check(tops.topsSetDeviceFlags(tops.topsDeviceScheduleSpin))
    assert_sleeps(world, "event", tops.topsEventBlockingSync)


def test_spin_is_the_devices_own(world):
    """Another device's flag has no part in it."""
    tops.topsSetDevice(1)
    tops.check(tops.topsSetDeviceFlags(tops.topsDeviceScheduleSpin))
    tops.topsSetDevice(0)
    assert_sleeps(world, "stream")
