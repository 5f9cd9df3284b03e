"""Events: what a wait, an await and a query see, what may be recorded, and the time between two of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import anyio
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import (
    HostCallFailure,
    InvalidHandle,
    InvalidType,
    NotReady,
    NotSupported,
    PriorLaunchFailure,
    StreamAborted,
    StreamFull,
)
from atops.runtime.driver import board_of
from tests.runtime.hosts import board, on_every_host
from tests.runtime.latch import hold


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


def fail() -> None:
    """Raise, as a host callable of a stream that is to fail."""
    raise RuntimeError("on purpose")


@k.kernel
async def held():
    """Hold a cluster until signal 0 is set."""
    await k.signal_wait(0, 1, "Eq")


@k.kernel
def nothing():
    """Do nothing."""


# ---- states


@on_every_host
async def test_the_states_of_an_event(device):
    """F8, F34: idle, recording, recorded; failed when the work before it failed."""
    stream, event = device.create_stream(), device.create_event()
    assert event.state == "idle" and event.is_done and event.completion is None
    latch = hold(stream)
    assert stream.record(event) is event
    assert event.state == "recording" and not event.is_done
    latch.release()
    await event
    assert event.state == "recorded" and event.is_done
    stream.call(fail)
    stream.record(event)
    with pytest.raises(PriorLaunchFailure):
        await event
    assert event.state == "failed" and event.is_done
    stream.clear_error()


@on_every_host
async def test_an_event_never_recorded_holds_nothing_up(device):
    """Awaiting it, waiting for it in a stream and synchronising with it end at once."""
    stream, event = device.create_stream(), device.create_event()
    await event
    await stream.wait(event)
    event.sync()
    assert stream.is_done


@on_every_host
async def test_an_event_marks_the_work_before_it(device):
    """F15, F16: each record covers what was enqueued before it and nothing after, also on two events of one stream."""
    stream = device.create_stream()
    x = stream.empty(4, np.int32)
    first_latch = hold(stream)
    one = stream.fill(x, 1)
    first = stream.record()
    second_latch = hold(stream)
    two = stream.fill(x, 2)
    second = stream.record()
    first_latch.release()
    await first
    assert one.done() and not two.done() and not second.is_done
    second_latch.release()
    await second
    assert two.done()


@on_every_host
async def test_events_are_values(device):
    """F36: events are equal to themselves only, and usable as keys."""
    first, second = device.create_event(), device.create_event()
    assert first != second and len({first, second, *[first]}) == 2
    assert "idle" in repr(first) and str(first.number) in repr(first)


@on_every_host
async def test_an_event_without_references_still_completes(device):
    """F8: the record of an event that was dropped runs, and the stream goes on."""
    stream = device.create_stream()
    latch = hold(stream)
    stream.record()
    after = stream.fill(stream.empty(1), 1)
    assert not stream.is_done
    latch.release()
    await after


# ---- recording again


@on_every_host
async def test_recording_again_makes_a_new_mark(device):
    """F14: after a second record the event is not complete before that one is."""
    stream, event = device.create_stream(), device.create_event()
    stream.record(event)
    await event
    latch = hold(stream)
    stream.record(event)
    assert event.state == "recording" and not event.is_done
    latch.release()
    await event


@on_every_host
async def test_a_wait_uses_the_record_current_at_the_call(device):
    """C8: a stream that waits is held by the record of the time of the call, not by later ones."""
    first, second, waiter = (device.create_stream() for _ in range(3))
    event = device.create_event()
    early, late = hold(first), hold(second)
    first.record(event)
    held = waiter.wait(event)
    second.record(event)
    early.release()
    await held
    assert event.state == "recording"
    late.release()
    await event


@on_every_host
async def test_an_await_uses_the_record_current_at_the_call(device):
    """A task that is parked when the event is recorded again goes on with the record that it found."""
    first, second, event = device.create_stream(), device.create_stream(), device.create_event()
    early, late = hold(first), hold(second)
    first.record(event)
    seen, woken = [], anyio.Event()

    async def wait() -> None:
        await event
        seen.append(event.state)
        woken.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        second.record(event)
        early.release()
        await woken.wait()
        assert seen == ["recording"]
        late.release()
        await event


# ---- waiting


@on_every_host
async def test_one_stream_waits_for_another(device):
    """C6: what follows the wait runs after the other stream's work; a third stream is not held."""
    first, second, third = (device.create_stream() for _ in range(3))
    latch = hold(first)
    x = device.empty(4, np.int32)
    first.fill(x, 3)
    second.wait(first.record())
    got = second.fetch(x)
    await third.fill(device.empty(1), 1)
    await latch.passed()
    assert not got.done() and not second.is_done
    latch.release()
    assert (await got == 3).all()


@on_every_host
async def test_a_stream_waits_for_another_stream_itself(device):
    """What follows the wait runs after all that the other stream, or itself, had been given, and not after more."""
    first, second = device.create_stream(), atops.Device(1, device.driver).create_stream()
    latch, later = hold(first), device.create_stream()
    x = device.empty(4, np.int32)
    first.fill(x, 3)
    waits = [second.wait(first), second.wait(later), second.wait(second)]
    got, held = second.fetch(x), hold(first)
    await latch.passed()
    assert not waits[0].done() and not got.done()
    latch.release()
    assert (await got == 3).all() and not first.is_done
    held.release()
    await first


@pytest.mark.parametrize("full", [False, True])
def test_a_wait_that_is_refused_records_nothing_in_the_other_stream(device: atops.Device, full: bool):
    """A closed, a full and a foreign driver's stream are named, and what was to be waited for has got no command."""
    other, stream = device.create_stream(), device.create_stream(capacity=1)
    latch = hold(stream)
    if not full:
        stream.close()
    before = board_of(device.driver).seq
    with pytest.raises(StreamFull if full else InvalidHandle, match="1 of 1 commands" if full else "closed"):
        stream.wait(other)
    with board() as foreign, pytest.raises(InvalidHandle, match="is of <Driver"):
        other.wait(foreign.create_stream())
    with pytest.raises(InvalidType, match="expects an Event, a Stream or an awaitable"):
        other.wait("stream")
    assert board_of(device.driver).seq == before
    latch.release()
    device.sync()


@on_every_host
async def test_a_stream_may_wait_for_itself_and_twice(device):
    """A wait for an event of the same stream, and a second wait for the same event, hold nothing for ever."""
    first, second = device.create_stream(), device.create_stream()
    event = first.record()
    first.wait(event)
    second.wait(event)
    second.wait(event)
    await first
    await second


@on_every_host
async def test_streams_of_two_devices_wait_for_each_other(device):
    """C10: a wait may cross devices, to and fro."""
    other = atops.Device(1, device.driver)
    here, there = device.create_stream(), other.create_stream()
    latch = hold(here)
    log = []
    here.call(log.append, 1)
    there.wait(here.record())
    there.call(log.append, 2)
    here.wait(there.record())
    here.call(log.append, 3)
    await latch.passed()
    assert not log
    latch.release()
    await here
    assert log == [1, 2, 3]


@on_every_host
async def test_a_failed_event_poisons_the_waiting_stream(device):
    """Waiting for an event whose work failed fails the waiting stream, chained to the first failure."""
    first, second = device.create_stream(), device.create_stream()
    first.call(fail)
    event = first.record()
    wait = second.wait(event)
    skipped = second.fill(device.empty(1), 1)
    with pytest.raises(PriorLaunchFailure, match="waited for an event whose work failed") as caught:
        await wait
    chain, causes = caught.value, []
    while (chain := chain.__cause__) is not None:
        causes.append(type(chain))
    assert HostCallFailure in causes and causes[-1] is RuntimeError
    with pytest.raises(PriorLaunchFailure):
        await skipped
    later = second.wait(event)  # the failure is in the record: it stays
    first.clear_error()
    second.clear_error()
    with pytest.raises(PriorLaunchFailure):
        await later
    third = device.create_stream()
    with pytest.raises(PriorLaunchFailure):
        await third.wait(event)
    third.clear_error()
    second.clear_error()
    await second.wait(first.record(event))  # a new record, and all is well


@on_every_host
async def test_an_aborted_record_poisons_the_waiting_stream(device):
    """A record that an abort dropped fails its event; its own stream stays usable."""
    first, second = device.create_stream(), device.create_stream()
    hold(first)
    event = first.record()
    wait = second.wait(event)
    first.abort()
    with pytest.raises(StreamAborted):
        await event
    with pytest.raises(PriorLaunchFailure):
        await wait
    second.clear_error()
    await first.record(event)


# ---- what is refused


@on_every_host
async def test_an_event_of_another_device_is_not_recorded(device):
    """F10: only its own device's streams record an event."""
    other = atops.Device(1, device.driver)
    with pytest.raises(InvalidHandle, match="of device 1"):
        device.create_stream().record(other.create_event())
    with pytest.raises(InvalidHandle, match="of device 0"):
        other.null_stream.record(device.create_event())


@on_every_host
async def test_an_event_made_once_is_recorded_once(device):
    """2.5 RecordOnce: the second record raises InvalidHandle on every stream; nothing is enqueued."""
    stream, event = device.create_stream(), device.create_event(once=True)
    await stream.record(event)
    for again in (lambda: stream.record(event), lambda: stream.launch(nothing, (1, 1), stop=event)):
        with pytest.raises(InvalidHandle, match="only once"):
            again()
    assert stream.is_done


@on_every_host
async def test_an_event_without_query(device):
    """2.5 DisableQueryAndSync: query, await and sync raise; stream waits work."""
    stream, event = device.create_stream(), device.create_event(queryable=False)
    stream.record(event)
    await device.create_stream().wait(event)
    with pytest.raises(NotSupported, match="queried"):
        _ = event.is_done
    with pytest.raises(NotSupported, match="awaited"):
        await event
    with pytest.raises(NotSupported, match="waited for"):
        event.sync()


@on_every_host
async def test_what_is_no_event_is_refused(device):
    """C1, F9: None and other objects are no events."""
    stream = device.create_stream()
    for verb in (lambda: stream.wait(None), lambda: stream.record(7), lambda: stream.launch(nothing, (1, 1), stop=7)):
        with pytest.raises(InvalidType, match="an Event"):
            verb()
    assert stream.is_done


# ---- time


@on_every_host
async def test_the_time_between_two_events(device):
    """F24: 0 with itself, not negative forward, the reverse backward; stamped when the work before it is over."""
    stream = device.create_stream()
    start = stream.record()
    latch = hold(stream)
    stop = stream.record()
    await start
    before = board_of(device.driver).now()
    latch.release()
    await stop
    assert start - start == 0.0
    assert stop - start >= 0 and start - stop == -(stop - start)
    assert isinstance(stop - start, float)
    assert stop._time >= before >= start._time


@on_every_host
async def test_time_that_cannot_be_told(device):
    """F20, F21, F33: without timing, never recorded, not complete, failed: each is told apart; F22: other devices."""
    stream, done = device.create_stream(), device.create_event()
    await stream.record(done)
    untimed = device.create_event(timing=False)
    stream.record(untimed)
    with pytest.raises(NotSupported, match="without timing"):
        _ = untimed - done
    with pytest.raises(InvalidHandle, match="never recorded"):
        _ = done - device.create_event()
    latch = hold(stream)
    pending = stream.record()
    with pytest.raises(NotReady):
        _ = pending - done
    latch.release()
    await pending
    elsewhere = atops.Device(1, device.driver).create_stream().record()
    await elsewhere
    with pytest.raises(InvalidHandle, match="different devices"):
        _ = elsewhere - done
    stream.call(fail)
    failed = stream.record()
    with pytest.raises(HostCallFailure):
        await stream
    with pytest.raises(PriorLaunchFailure):
        _ = failed - done
    with pytest.raises(TypeError):
        _ = done - 1.0
    stream.clear_error()


@on_every_host
async def test_recording_again_renews_the_time(device):
    """The time of an event is that of its newest record, though an older one completes later than the call."""
    stream, event = device.create_stream(), device.create_event()
    latch = hold(stream)
    stream.record(event)
    marker = stream.record()
    stream.record(event)
    latch.release()
    await event
    assert event - marker >= 0


@on_every_host
async def test_the_start_event_of_a_launch_is_its_kernels_start(device):
    """A kernel that waits for its clusters has not started: the time between its events is the one of its record."""
    holder, stream = device.create_stream(nonblocking=True), device.create_stream(nonblocking=True)
    holder.launch(held, (device.arch.clusters, 1))
    start, stop = device.create_event(), device.create_event()
    done = stream.launch(nothing, (1, 1), start=start, stop=stop)
    queued = board_of(stream.driver).now()
    device.context.chip.signals.set(0, 1)
    await done
    assert done.started_ns > queued
    assert start._time == done.started_ns and stop - start >= 0


@on_every_host
async def test_events_of_a_launch_time_the_launch(device):
    """2.5 topsEventElapsedTime: both events of one launch are a pair; mixed with others they are refused."""
    stream = device.create_stream()
    events = [(device.create_event(), device.create_event()) for _ in range(30)]
    for start, stop in events:
        stream.launch(nothing, (1, 1), start=start, stop=stop)
        await stop
        assert stop - start >= 0 and start.state == stop.state == "recorded"
    with pytest.raises(InvalidHandle, match="same launch"):
        _ = events[1][1] - events[0][0]
    with pytest.raises(InvalidHandle, match="same launch"):
        _ = stream.record() - events[0][0]
    start, stop = events[0]
    await stream.record(start)
    await stream.record(stop)
    assert stop - start >= 0  # recorded by the stream they are bound to no launch


# ---- from threads


def test_sync_from_plain_code(device: atops.Device):
    """F17: `sync` blocks until the record current at its call is complete; a timeout ends it and changes nothing."""
    stream = device.create_stream()
    latch = hold(stream)
    event = stream.record()
    with pytest.raises(TimeoutError):
        event.sync(timeout=0)
    latch.release()
    event.sync()
    assert event.is_done


def test_many_threads_and_loops_wait_for_one_event(device: atops.Device):
    """F27: plain threads, asyncio loops and trio runs are all woken by one record."""
    stream = device.create_stream()
    latch = hold(stream)
    event = stream.record()
    ready, ended = threading.Barrier(7), []

    async def wait() -> None:
        ready.wait()
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(lone)

    async def lone() -> None:
        await event
        ended.append(event.is_done)

    def block() -> None:
        ready.wait()
        event.sync()
        ended.append(event.is_done)

    threads = [threading.Thread(target=block) for _ in range(2)]
    for loop in ("asyncio", "trio") * 2:
        threads.append(threading.Thread(target=anyio.run, args=(wait,), kwargs={"backend": loop}))
    for thread in threads:
        thread.start()
    ready.wait()
    latch.release()
    for thread in threads:
        thread.join()
    assert ended == [True] * 14
