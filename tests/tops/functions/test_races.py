"""What orders C-style calls, for the race detectors: words that the host waits for, events of two processes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import atops
import atops.tops as tops
from atops.bridge.handles import stream_of
from atops.bridge.pointers import device_memory
from atops.runtime.driver import Driver
from tests.runtime.boards import board
from tests.tops.processes import Process, processes

SIZE = 4096
SHARED = tops.topsEventInterprocess | tops.topsEventDisableTiming


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A current driver with the detectors on."""
    with board(detect=True) as made, atops.Device(0, made):
        yield made


@pytest.fixture(scope="module")
def other() -> Iterator[Process]:
    """Another process."""
    with processes(1) as (found,):
        yield found


@pytest.mark.parametrize("waits", [True, False])
def test_the_host_waits_for_a_word(driver: Driver, waits: bool) -> None:
    """What it enqueues then comes after what the word's writer came after; without the wait it is a race."""
    first, second = (tops.check(tops.topsStreamCreateWithFlags(1)) for _ in range(2))
    data, word = tops.check(tops.topsMalloc(SIZE)), tops.check(tops.topsMalloc(4))
    tops.check(tops.topsMemset(word, 0, 4))
    tops.check(tops.topsDeviceSynchronize())
    tops.check(tops.topsMemsetAsync(data, 1, SIZE, first))
    tops.check(tops.topsStreamWriteValue32Async(word, 1, 0, first))
    if waits:
        tops.check(tops.topsStreamWaitValue32(word, 1, tops.topsStreamWaitValueEq))
    tops.check(tops.topsMemsetAsync(data, 2, SIZE, second))
    tops.check(tops.topsDeviceSynchronize())
    assert bool(driver.report().races) is not waits, driver.report()


@pytest.mark.parametrize("waits", [True, False])
def test_the_host_waits_for_what_is_over_already(driver: Driver, waits: bool) -> None:
    """It learns of that as if it had waited; what it never asked for it does not know."""
    first, second = (tops.check(tops.topsStreamCreateWithFlags(1)) for _ in range(2))
    data = tops.check(tops.topsMalloc(SIZE))
    tops.check(tops.topsMemsetAsync(data, 1, SIZE, first))
    while atops.Device(0).context.active:
        time.sleep(0.001)
    if waits:
        tops.check(tops.topsDeviceSynchronize())
    tops.check(tops.topsMemsetAsync(data, 2, SIZE, second))
    tops.check(tops.topsDeviceSynchronize())
    assert bool(driver.report().races) is not waits, driver.report()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["pending", "host", "over", "none"])
def test_another_process_hands_back(driver: Driver, other: Process, how: str) -> None:
    """What waits for a record of it comes after what it was told of by an event."""
    mine, data = tops.check(tops.topsEventCreateWithFlags(SHARED)), tops.check(tops.topsMalloc(SIZE))
    first, second = (tops.check(tops.topsStreamCreateWithFlags(1)) for _ in range(2))
    handle = tops.check(tops.topsIpcGetEventHandle(mine))
    theirs = other.do("event", handle_=handle.reserved.hex())[1]
    made = other.do("create")[1]
    shown = tops.topsIpcEventHandle_t(bytes.fromhex(other.do("share", event=made)))
    back = tops.check(tops.topsIpcOpenEventHandle(shown))

    stream_of(first).fill(device_memory(data, SIZE), 1)
    tops.check(tops.topsEventRecord(mine, first))
    assert other.do("sync", event=theirs) == [0]
    if how == "pending":
        other.do("hold")
    assert other.do("record", event=made, held=how == "pending") == [0]
    if how == "over":
        assert other.do("sync", event=made) == [0]
    if how == "host":
        tops.check(tops.topsEventSynchronize(back))
    elif how != "none":
        tops.check(tops.topsStreamWaitEvent(second, back, 0))
    stream_of(second).fill(device_memory(data, SIZE), 2)
    if how == "pending":
        other.do("release")
    tops.check(tops.topsDeviceSynchronize())
    assert bool(driver.report().races) == (how == "none"), driver.report()
