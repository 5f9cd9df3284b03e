"""Commands of one stream run in order, streams go on beside each other, and bytes arrive as they were sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import ExecutionError, InvalidHandle, InvalidType, InvalidValue
from atops.device.copy_engine import CopyJob, Direction
from tests.every import every
from tests.runtime.hosts import board, on_every_host, on_hosts
from tests.runtime.latch import StreamLatch, hold

LARGE = 1 << 18  # bytes: more than is taken at the call, and more than runs on the driver


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


@k.kernel
async def increment(x):
    """Each thread adds 1 to its own tiles."""
    for part in k.tiles(x.size, 16):
        x[part] = x[part] + 1


@k.kernel
async def double(x):
    """Each thread doubles its own tiles."""
    for part in k.tiles(x.size, 16):
        x[part] = x[part] * 2


@k.kernel
async def store_late(x, signal: np.int32):
    """Store 7 once the signal is set."""
    await k.signal_wait(signal, 1)
    x[...] = 7


# ---- bytes


@every("size", [1, 4096, 65536, LARGE + 3])
@on_every_host
async def test_bytes_survive_the_way_there_and_back(device, size):
    """Host to device, within the device and back gives the same bytes, whatever path the size takes."""
    host = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    async with device.create_stream() as stream:
        first, second = stream.upload(host), stream.empty(size, np.uint8)
        stream.copy(second, first)
        assert np.array_equal(await stream.fetch(second), host)


@every(
    "dtype, value", [(np.uint8, 0xAB), (np.int16, -2), (np.float32, 1.5), (np.int64, 1 << 40), (np.complex128, 1j)]
)
@on_every_host
async def test_fill_writes_the_value_in_the_arrays_type(device, dtype, value):
    """A fill writes every element, small on the driver and large on a copy thread, and nothing beside them."""
    async with device.create_stream() as stream:
        for count in (9, (2 << 20) // np.dtype(dtype).itemsize):
            array = stream.zeros(count + 2, dtype)
            stream.fill(array[1:-1], value)
            got = await stream.fetch(array)
            assert (got[1:-1] == dtype(value)).all() and got[0] == got[-1] == 0


@on_every_host
async def test_a_fill_of_bytes_takes_patterns(device):
    """H28, H29: a buffer of bytes is filled by byte, by numpy scalar or by pattern, at any offset, a count of them."""
    async with device.create_stream() as stream:
        raw = stream.allocate(16)
        stream.fill(raw, 0)
        stream.fill(raw[1:], np.uint16(0x0201), 2)
        stream.fill(raw[9:13], b"abcd")
        got = bytearray(16)
        await stream.copy(got, raw)
        assert bytes(got) == b"\0\1\2\1\2\0\0\0\0abcd\0\0\0"
        with pytest.raises(InvalidValue, match="256"):
            stream.fill(raw, 256)
        with pytest.raises(InvalidValue, match="no multiple"):
            stream.fill(raw[:3], np.uint16(1))


@every("dtype", [[("a", np.float64), ("b", np.int32)], "V3", "S5"])
@on_every_host
async def test_arrays_of_any_element_are_zeroed_and_filled(device, dtype):
    """Elements of 3, 5 or 12 bytes, as records have, are filled like those of 4: a number is in every field."""
    expected = np.zeros(100, dtype)
    async with device.create_stream() as stream:
        array = stream.zeros(100, dtype)
        assert (await stream.fetch(array)).tobytes() == expected.tobytes()
        stream.fill(array[1:-1], 7)
        expected[1:-1] = np.asarray(7).astype(dtype)
        assert (await stream.fetch(array)).tobytes() == expected.tobytes()


@on_every_host
async def test_a_small_source_is_taken_at_the_call(device):
    """H12: what the host stores into a small source after the call does not reach the device."""
    async with device.create_stream() as stream:
        target, source = stream.empty(16, np.int32), np.arange(16, dtype=np.int32)
        latch = hold(stream)
        stream.copy(target, source)
        source[:] = -1
        latch.release()
        assert (await stream.fetch(target) == np.arange(16)).all()


@on_hosts(strict=True)
async def test_strict_mode_sees_a_large_source_change(device):
    """A large source is read when the copy runs; strict mode fails the copy when it changed since the call."""
    async with device.create_stream() as stream:
        target, source = stream.empty(LARGE, np.uint8), np.zeros(LARGE, np.uint8)
        latch = hold(stream)
        copy = stream.copy(target, source)
        source[LARGE // 2] = 1
        latch.release()
        with pytest.raises(ExecutionError, match="source of a copy changed"):
            await copy
        stream.clear_error()


@on_every_host
async def test_a_copy_that_cannot_be_is_refused_at_the_call(device):
    """H6 and overlap: sizes, types and overlaps that are wrong at the call are refused there; nothing is enqueued."""
    async with device.create_stream() as stream:
        array = stream.empty(8, np.int32)
        await stream
        for error, arguments in [
            (InvalidValue, (array, np.zeros(9, np.int32))),
            (InvalidValue, (array[1:], array[:-1])),
            (InvalidType, (array, np.zeros(8, np.float32))),
            (InvalidType, (array, [1, 2, 3])),
            (InvalidValue, (b"12345678901234567890123456789012", array)),
        ]:
            with pytest.raises(error):
                stream.copy(*arguments)
        assert stream.is_done
        await stream.copy(array[:0], np.zeros(0, np.int32))  # H4: no bytes, no complaint


# ---- order within a stream


@on_every_host
async def test_commands_run_in_the_order_of_the_calls(device):
    """D11: kernel, host, kernel, fill, copy: each sees what the one before did, and nothing of the one after."""
    seen = []
    async with device.create_stream() as stream:
        x = stream.upload(np.zeros(64, np.int32))
        stream.launch(increment, (2, 4), x)
        stream.call(lambda: seen.append(x.allocation.data.view(np.int32)[:64].tolist()))
        stream.launch(double, (2, 4), x)
        first = stream.fetch(x)
        stream.fill(x, 7)
        stream.launch(increment, (1, 12), x)
        assert (await stream.fetch(x) == 8).all()
        assert (first.result() == 2).all()
    assert seen == [[1] * 64]


@on_every_host
async def test_completions_come_in_order(device):
    """When a command is done, so is every command before it in its stream."""
    async with device.create_stream() as stream:
        x = stream.empty(4, np.int32)
        latch = hold(stream)
        items = [stream.fill(x, value) for value in range(200)]
        await latch.passed()
        assert not any(item.done() for item in items)
        latch.release()
        await items[100]
        assert all(item.done() for item in items[:101])
        await stream
        assert all(item.done() for item in items)


@on_every_host
async def test_awaiting_a_stream_waits_for_what_is_enqueued_by_then(device):
    """B15, B17: an idle stream is done at once; `await stream` covers the calls before it, not those after."""
    async with device.create_stream() as stream:
        await stream
        assert stream.is_done
        item = stream.fill(stream.empty(4), 1)
        await stream
        assert item.done() and stream.is_done
        latch = hold(stream)
        await latch.passed()
        assert not stream.is_done  # B8: NotReady while work is queued
        latch.release()
        await stream


# ---- streams beside each other


@on_every_host
async def test_a_held_stream_holds_no_other(device):
    """B19: waiting for one stream returns while another is busy."""
    async with device.create_stream() as busy, device.create_stream() as free:
        latch = hold(busy)
        held = busy.fill(busy.empty(4), 1)
        assert (await free.fetch(free.upload(np.arange(4))) == range(4)).all()
        await free
        assert not held.done() and not busy.is_done and free.is_done
        latch.release()


@pytest.mark.slow
@on_every_host
async def test_a_long_queue_starves_no_other(device):
    """A stream with thousands of commands lets another stream's one command run in between."""
    async with device.create_stream() as long, device.create_stream() as short:
        gate = device.create_stream()
        latch = hold(gate)
        event = gate.record()
        long.wait(event)
        short.wait(event)
        x = long.empty(1, np.int32)
        items = [long.fill(x, 1) for _ in range(3000)]
        one = short.fill(short.empty(1, np.int32), 1)
        latch.release()
        await one
        await long
        ended = [record.seq for record in device.driver.tracer.records()]
        assert ended.index(one.seq) < ended.index(items[1000].seq)
        await gate.aclose()


@on_every_host
async def test_a_launch_in_any_order_runs_in_order(device):
    """The flag is a permission that is not made use of: the launch starts after earlier work and before later."""
    async with device.create_stream() as stream:
        x = stream.zeros(16, np.int32)
        await stream
        latch = hold(stream)
        stream.fill(x, 6)
        launch = stream.launch(increment, (1, 1), x, any_order=True)
        got = stream.fetch(x)
        await latch.passed()
        assert not launch.done()
        latch.release()
        assert (await got == 7).all()


@on_every_host
async def test_memory_criss_crosses_streams_by_events(device):
    """C11: allocated on one stream, used and freed on another after a wait: the data are correct."""
    async with device.create_stream() as first, device.create_stream() as second:
        latch = hold(first)
        x = first.upload(np.arange(8))
        second.wait(first.record())
        got = second.fetch(x)
        second.free(x)
        latch.release()
        assert (await got == np.arange(8)).all()
        await second
        assert not x.allocation.alive


# ---- from threads


@pytest.mark.slow
def test_many_threads_share_one_stream(device: atops.Device):
    """D7: commands submitted by several threads each run once, each thread's in its own order."""
    stream = device.create_stream()
    log: list[tuple[int, int]] = []

    def submit(sender: int) -> None:
        for number in range(300):
            stream.call(log.append, (sender, number))

    threads = [threading.Thread(target=submit, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream.sync()
    assert sorted(log) == [(sender, number) for sender in range(4) for number in range(300)]
    for sender in range(4):
        assert [number for each, number in log if each == sender] == list(range(300))


def test_sync_of_one_stream_leaves_another_held(device: atops.Device):
    """B19 from plain code: `sync` returns when its own stream is done."""
    busy, free = device.create_stream(), device.create_stream()
    latch = hold(busy)
    free.fill(free.empty(4), 1)
    free.sync()
    assert free.is_done and not busy.is_done
    latch.release()
    device.sync()
    assert busy.is_done


def test_a_closed_stream_takes_nothing_more(device: atops.Device):
    """B9, B16: after `close` every verb raises InvalidHandle; what was enqueued before still runs."""
    stream, other = device.create_stream(), device.create_stream()
    x = other.upload(np.zeros(4, np.int32))
    event = other.record()
    other.sync()
    latch = hold(stream)
    last = stream.fill(x, 5)
    stream.close()
    stream.close()
    for verb in (
        lambda: stream.copy(x, np.zeros(4, np.int32)),
        lambda: stream.fill(x, 0),
        lambda: stream.launch(increment, (1, 1), x),
        lambda: stream.record(),
        lambda: stream.wait(event),
        lambda: stream.wait_value(x, 0),
        lambda: stream.write_value(x, 0),
        lambda: stream.call(print),
        lambda: stream.add_callback(print),
        lambda: stream.allocate(16),
    ):
        with pytest.raises(InvalidHandle, match="closed"):
            verb()
    latch.release()
    assert last.wait_sync() is None
    assert (other.fetch(x).wait_sync() == 5).all()


# ---- the device


@on_every_host
async def test_waiting_for_the_device_waits_for_all_its_streams(device):
    """B24: blocking or not, null or created, and no other device's; an idle device is done at once."""
    other = atops.Device(1, device.driver)
    await device.wait()
    latch, elsewhere = StreamLatch(device), hold(other.null_stream)
    streams = [device.create_stream(), device.create_stream(nonblocking=True), device.null_stream]
    for stream in streams:
        latch.hold(stream)
    items = [stream.fill(device.empty(1), 1) for stream in streams]
    await latch.passed()
    assert device.statistics().active_streams >= 3 and not any(item.done() for item in items)
    latch.release()
    await device.wait()
    assert all(item.done() for item in items) and not other.null_stream.is_done
    elsewhere.release()
    await other.wait()


@on_every_host
async def test_a_stream_stays_on_its_device(device):
    """A18, A19: a stream belongs to the device it was made on, whichever is current later."""
    other = atops.Device(1, device.driver)
    with other:
        stream = atops.Device(driver=device.driver).create_stream()
    assert stream.device_id == 1 and device.create_stream().device_id == 0
    assert (await stream.fetch(stream.upload(np.arange(3)))).tolist() == [0, 1, 2]
    with other:
        assert stream.zeros(1).allocation.device == 1 and device.null_stream.device_id == 0


@on_every_host
async def test_the_two_directions_take_turns(device):
    """H2D and D2H copies of one device never share the link; copies the same way and within the device go on."""
    engines, stream = device.context.engines, [device.create_stream() for _ in range(4)]
    x, y = device.empty(LARGE, np.uint8), device.empty(LARGE, np.uint8)
    up = CopyJob(0, 0, Direction.HOST_TO_DEVICE)
    engines.request(up)
    await stream[2].copy(y, np.ones(LARGE, np.uint8))
    await stream[3].copy(x, y)
    downs = [stream[0].fetch(x[:16]), stream[1].fetch(x)]
    await hold(device.create_stream(nonblocking=True)).passed()
    assert not any(down.done() for down in downs)
    engines.release(up)
    for down in downs:
        assert (await down)[:8].tolist() == [1] * 8


@on_every_host
async def test_a_stream_says_what_it_does(device):
    """The statistics and the repr name the stream, what it holds, and what its head waits for."""
    stream = device.create_stream(name="worker", priority=-1, nonblocking=True)
    assert "worker on device 0" in repr(stream) and "idle" in repr(stream)
    latch = hold(stream)
    stream.call(int)
    await latch.passed()
    state = stream.statistics()
    assert (state.label, state.pending, state.running, state.capacity) == ("worker", 1, 1, None)
    assert "waits for a value" in state.head
    assert all(word in repr(stream) for word in ("worker", "priority -1", "non-blocking", "2 commands"))
    latch.release()
    await stream
    await stream.aclose()
    assert "closed" in repr(stream)
