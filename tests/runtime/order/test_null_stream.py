"""The legacy null stream: it waits for earlier work of blocking streams, and their later work waits for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import atops
from atops.base.errors import HostCallFailure, StreamAborted
from tests.runtime.hosts import board, on_every_host
from tests.runtime.latch import StreamLatch, hold


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


def fail() -> None:
    """Raise, as a host callable of a stream that is to fail."""
    raise RuntimeError("on purpose")


@on_every_host
async def test_a_blocking_stream_waits_for_earlier_null_work(device):
    """B25: a fill on the null stream is seen by a blocking stream's later work."""
    null, stream = device.null_stream, device.create_stream()
    x = device.empty(4, np.int32)
    latch = hold(null)
    null.fill(x, 5)
    got = stream.fetch(x)
    await latch.passed()
    assert not got.done()
    latch.release()
    assert (await got == 5).all()


@on_every_host
async def test_null_work_waits_for_earlier_blocking_work(device):
    """B25 the other way: null-stream work sees what blocking streams did before, two of them at once."""
    null, streams = device.null_stream, [device.create_stream() for _ in range(2)]
    x = device.empty(2, np.int32)
    latch = StreamLatch(device)
    for number, stream in enumerate(streams):
        latch.hold(stream)
        stream.fill(x[number : number + 1], number + 7)
    got = null.fetch(x)
    await latch.passed()
    assert not got.done()
    latch.release()
    assert (await got).tolist() == [7, 8]


@on_every_host
async def test_null_and_blocking_work_interleaved_is_serial(device):
    """B26: null, blocking, null, blocking: strictly one after another."""
    null, stream, log = device.null_stream, device.create_stream(), []
    latch = hold(null)
    for number in range(40):
        (stream if number % 2 else null).call(log.append, number)
    latch.release()
    await stream
    assert log == list(range(40))


@on_every_host
async def test_many_blocking_streams_wait_for_one_null_fill(device):
    """B27: four blocking streams behind one null fill all see it."""
    null, streams = device.null_stream, [device.create_stream() for _ in range(4)]
    x = device.empty(1, np.int32)
    latch = hold(null)
    null.fill(x, 9)
    got = [stream.fetch(x) for stream in streams]
    latch.release()
    assert [(await each)[0] for each in got] == [9] * 4


@on_every_host
async def test_non_blocking_streams_take_no_part(device):
    """B12, B30: a non-blocking stream neither waits for the null stream nor is waited for."""
    null, stream = device.null_stream, device.create_stream(nonblocking=True)
    latch = hold(null)
    await stream.fill(device.empty(1), 1)
    assert not null.is_done
    latch.release()
    await null
    latch = hold(stream)
    await null.fill(device.empty(1), 1)
    await null
    assert null.is_done and not stream.is_done
    latch.release()
    await stream


@on_every_host
async def test_the_null_stream_is_not_done_while_a_blocking_stream_is_busy(device):
    """B11: a query of the null stream counts the blocking streams' work."""
    null, stream = device.null_stream, device.create_stream()
    assert null.is_done
    latch = hold(stream)
    assert not null.is_done
    latch.release()
    await stream
    assert null.is_done


@on_every_host
async def test_awaiting_the_null_stream_waits_for_the_blocking_streams(device):
    """B18: synchronising with the null stream waits for all blocking streams of the device, and raises only its own."""
    null, streams = device.null_stream, [device.create_stream() for _ in range(5)]
    latch = StreamLatch(device)
    for stream in streams:
        latch.hold(stream)
    streams[0].call(fail)
    latch.release()
    await null
    assert all(stream.is_done for stream in streams)
    assert isinstance(streams[0].clear_error(), HostCallFailure)


def test_sync_of_the_null_stream_waits_for_ten_streams(device: atops.Device):
    """B18 from plain code."""
    streams = [device.create_stream() for _ in range(10)]
    latch = StreamLatch(device)
    done = [latch.hold(stream) for stream in streams]
    with pytest.raises(TimeoutError):
        device.null_stream.sync(timeout=0)
    latch.release()
    device.null_stream.sync()
    assert all(item.done() for item in done)


@on_every_host
async def test_a_wait_in_a_blocking_stream_waits_for_no_null_work(device):
    """2.4 topsStreamWaitEvent: the wait does not wait for the null stream, what follows it does; nor does the event."""
    null, stream, other = device.null_stream, device.create_stream(), device.create_stream(nonblocking=True)
    event = other.record()
    await event
    held = hold(null)
    await stream.wait(event)
    last = stream.fill(device.empty(1), 1)
    await held.passed()
    assert not last.done()
    held.release()
    await last


@on_every_host
async def test_null_work_waits_for_a_wait_of_a_blocking_stream(device):
    """The wait is pending work of its stream: an event of the null stream, and synchronising it, come after."""
    null, stream, gate = device.null_stream, device.create_stream(), device.create_stream(nonblocking=True)
    latch = hold(gate)
    wait = stream.wait(gate.record())
    fill, event = null.fill(device.empty(1), 1), null.record()
    await latch.passed()
    assert not (wait.done() or fill.done() or event.is_done or null.is_done)
    latch.release()
    await event
    assert wait.done() and fill.done()


@on_every_host
async def test_a_wait_in_the_null_stream_is_a_null_stream_command(device):
    """It waits for earlier work of blocking streams and their later work waits for it, though its event is complete."""
    null, stream, other = device.null_stream, device.create_stream(), device.create_stream()
    free = device.create_stream(nonblocking=True)
    event = free.record()
    await event
    latch = hold(stream)
    wait = null.wait(event)
    behind = other.fill(device.empty(1), 1)
    await latch.passed()
    assert not (wait.done() or behind.done())
    latch.release()
    await behind
    assert wait.done()


@on_every_host
async def test_commands_that_do_nothing_take_no_part(device):
    """A wait for an event that was never recorded, copies and fills of 0 bytes: nothing waits for them, nor they."""
    null, stream = device.null_stream, device.create_stream()
    other, free = device.create_stream(), device.create_stream(nonblocking=True)
    x = device.empty(0, np.uint8)

    def nothings(stream):
        event = device.create_event()
        return stream.wait(event), stream.fill(x, 1), stream.copy(x, x.view(np.uint8), 0), stream.fetch(x)

    latch = hold(null)
    for item in nothings(stream):
        await item
    latch.release()
    await null
    latch, gate = hold(stream), hold(free)
    for item in nothings(null):
        await item
    latch.release()
    await stream
    null.wait(free)  # behind the gate
    items = nothings(null)
    null.abort()
    for item in items:
        assert item.done()
    assert await other.fetch(device.null_stream.zeros(1)) == 0
    gate.release()


@on_every_host
async def test_a_null_stream_wait_holds_later_null_work(device):
    """C4: the null stream may wait for an event; what follows on it waits, and what waits for that."""
    null, stream, gate = device.null_stream, device.create_stream(), device.create_stream(nonblocking=True)
    latch = hold(gate)
    null.wait(gate.record())
    fill = null.fill(device.empty(1), 1)
    behind = stream.fill(device.empty(1), 1)
    await latch.passed()
    assert not fill.done() and not behind.done()
    latch.release()
    await behind
    assert fill.done()


@on_every_host
async def test_null_record_is_stamped_after_blocking_work(device):
    """F26: the time of a null-stream record lies after the end of all earlier work of blocking streams."""
    null, stream = device.null_stream, device.create_stream()
    latch = hold(stream)
    stream.fill(device.empty(1), 1)
    before, after = stream.record(), null.record()
    await latch.passed()
    assert after.state == "recording"
    latch.release()
    await after
    assert before.is_done and after - before >= 0


@on_every_host
async def test_each_device_has_its_own_null_stream(device):
    """Null-stream order stays within one device."""
    other = atops.Device(1, device.driver)
    latch = hold(device.null_stream)
    await other.create_stream().fill(other.empty(1), 1)
    await other.null_stream.fill(other.empty(1), 1)
    latch.release()
    await device.null_stream
    assert device.null_stream is atops.Device(0, device.driver).null_stream is not other.null_stream


@on_every_host
async def test_a_callback_that_holds_nothing_holds_no_other_stream(device):
    """Flag 0: later work of the other side of null-stream order does not wait for a call that holds nothing either."""
    for first, second in [(device.null_stream, device.create_stream()), (device.create_stream(), device.null_stream)]:
        log: list[str] = []
        gate, latch = device.create_stream(nonblocking=True), hold(first)
        held = hold(gate)
        event = gate.record()

        async def slow(event=event, log=log):
            await event
            log.append("call")

        first.fill(device.empty(1), 1)
        first.call(slow, holds=False)
        fill = second.fill(device.empty(1), 1)
        await latch.passed()
        assert not fill.done()
        latch.release()
        await fill
        assert not log
        held.release()
        await first
        assert log == ["call"]


@on_every_host
async def test_null_order_carries_no_failure(device):
    """Implicit null-stream order waits for failed work and is not poisoned by it, either way."""
    null, stream = device.null_stream, device.create_stream()
    for first, second in ((null, stream), (stream, null)):
        latch = hold(first)
        first.call(fail)
        fill = second.fill(device.empty(1), 1)
        await latch.passed()
        assert not fill.done()
        latch.release()
        await fill
        await second
        assert second.error is None and isinstance(first.clear_error(), HostCallFailure)


@on_every_host
async def test_work_after_an_abort_still_waits_for_null_work(device):
    """Commands that an abort dropped do not stand for the null-stream order of those that come after."""
    null, stream = device.null_stream, device.create_stream()
    latch = hold(null)
    dropped = stream.fill(device.empty(1), 1)
    stream.abort()
    fill = stream.fill(device.empty(1), 1)
    await latch.passed()
    assert not fill.done()
    with pytest.raises(StreamAborted):
        dropped.result()
    latch.release()
    await fill


@on_every_host
async def test_others_wait_for_what_an_abort_left_running(device):
    """What runs on when a stream is aborted still holds the other side of null-stream order."""
    for first, second in [(device.null_stream, device.create_stream()), (device.create_stream(), device.null_stream)]:
        latch, running = held_duty(device, first)
        await latch.passed()
        first.fill(device.empty(1), 1)
        first.abort()
        fill = second.fill(device.empty(1), 1)
        await latch.passed()
        assert not fill.done() and not running.done() and not first.is_done
        latch.release()
        await fill
        assert running.done()


@on_every_host
async def test_an_abort_ends_the_order_through_what_it_drops(device):
    """What waited for a dropped command goes on; a duty behind dropped commands does not wait for what they were to."""
    for first, second in [(device.null_stream, device.create_stream()), (device.create_stream(), device.null_stream)]:
        latch, running = held_duty(device, first)
        first.fill(device.empty(1), 1)
        fill = second.fill(device.empty(1), 1)
        await latch.passed()
        assert not fill.done() and first.abort() == 1
        await fill
        assert not running.done()
        second.fill(device.empty(1), 1)  # behind the duty
        duty = second.add_callback(lambda error: None, holds=True)
        await latch.passed()
        assert not duty.done() and second.abort() == 1
        await duty
        assert not running.done()
        latch.release()
        await running


def held_duty(device, stream):
    """Enqueue what no abort ends and what goes on until the latch is released. Returns the latch and the duty."""
    gate = device.create_stream(nonblocking=True)
    latch = hold(gate)
    event = gate.record()

    async def callback(error):
        await event

    return latch, stream.add_callback(callback, holds=True)
