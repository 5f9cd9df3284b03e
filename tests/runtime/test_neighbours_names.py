"""Names and forms that programs bring from other libraries: what they mean here."""

from __future__ import annotations

import asyncio
import dataclasses
import threading

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops import tops
from atops.bridge.handles import stream_of
from atops.errors import InvalidDevice, InvalidHandle, InvalidType, InvalidValue, NotSupported
from tests.every import every
from tests.runtime.boards import PATIENCE, Foreign, Latch, board, current_device


@pytest.fixture
def device():
    """Have device 0 of a board of two, which is the current one."""
    with current_device(devices=2) as device:
        yield device


@k.kernel
def numbered(x, add):
    """Fill with the blocks' numbers, `add` to each."""
    x[k.blockIdx.x] = k.blockIdx.x + k.blockDim.x * 10 + add


# ---- streams


def test_default_streams(device):
    """Each device has the null stream and one for each thread, which C-style calls know too."""
    second = atops.Device(1)
    mine = device.per_thread_stream
    assert mine is device.per_thread_stream is atops.Stream.per_thread_default() is stream_of(2)
    assert mine is not second.per_thread_stream and not mine.is_nonblocking
    assert device.default_stream is device.null_stream is atops.Stream.legacy_default()
    with second:
        assert atops.Stream.per_thread_default() is second.per_thread_stream
        assert atops.Stream.legacy_default() is second.null_stream
    others = []
    thread = threading.Thread(target=lambda: others.append(device.per_thread_stream), name="other")
    thread.start()
    thread.join(PATIENCE)
    assert others[0] is not mine and others[0].label == "per-thread stream of other"
    device.reset_sync()
    assert device.per_thread_stream is not mine


def test_what_a_stream_says(device):
    """Whether it is blocking, and which priorities there are, the least urgent first."""
    assert device.create_stream(nonblocking=True).is_nonblocking and not device.create_stream().is_nonblocking
    least, greatest = atops.Stream.priority_range()
    assert (least, greatest) == (0, -2)
    assert [device.create_stream(priority=each).priority for each in (least, greatest)] == [least, greatest]


def test_an_await_gives_the_stream(device):
    """`await stream` returns it, a wrapper's returns the stream."""

    async def main():
        stream = device.create_stream()
        assert await stream is stream and await atops.ExternalStream(stream) is stream
        stream.zeros(4)
        async with stream.auto_synchronize() as same:
            assert same is stream
            last = stream.record()
        assert last.is_done
        return await stream is stream

    assert asyncio.run(main())


def test_auto_synchronize(device):
    """The block ends when all that was enqueued is over, and raises its failure; one that raises does not wait."""
    stream, latch = device.create_stream(), Latch(device)
    with stream.auto_synchronize() as same:
        last = same.record()
    assert same is stream and last.is_done
    with pytest.raises(KeyError), stream.auto_synchronize():
        held = latch.hold(stream)
        raise KeyError
    assert not held.done()
    latch.open()
    stream.sync(PATIENCE)
    with pytest.raises(atops.errors.HostCallFailure), stream.auto_synchronize():
        stream.call(lambda: 1 / 0)


def test_options_of_a_new_event(device):
    """`record` makes an event with them; beside an event they are refused, and nothing is enqueued."""
    stream = device.create_stream()
    event = stream.record(timing=False, once=True)
    assert (event.timing, event.once, event.queryable) == (False, True, True)
    assert not stream.record(queryable=False).queryable and stream.record().timing
    stream.sync(PATIENCE)
    with pytest.raises(NotSupported):
        event - stream.record()
    for options in ({"timing": False}, {"once": True}, {"queryable": False}):
        with pytest.raises(InvalidValue, match=r"options beside .*create_event"):
            stream.record(device.create_event(), **options)


# ---- launches


def test_a_kernel_is_configured_by_an_index(device):
    """`kernel[grid, block, stream, shared](...)` is `stream.launch`; without a stream it is the current one."""
    stream = device.create_stream()
    x = device.zeros(4, np.int32)
    config, null = atops.LaunchConfig(2, 2), device.null_stream
    for add, (configuration, on) in enumerate((
        ((2, 2), null), ((2, 2, stream), stream), ((2, 2, stream, 64), stream), ((2, 2, 0), null), (config, null),
        ((2, 2, None, 64), null), (((2, 1), (2, 1, 1)), null), ((config, stream), stream),
        ((2, 2, atops.ExternalStream(stream)), stream), ((2, 2, Foreign(stream.__tops_stream__())), stream),
    )):  # fmt: skip
        item = numbered[configuration](x, add)
        item.wait_sync(PATIENCE)
        assert list(null.fetch(x).wait_sync(PATIENCE)) == [20 + add, 21 + add, 0, 0] and item.stream is on
    with stream:
        assert numbered[2, 2](x, add=1).stream is stream
    with atops.Device(1):
        assert numbered[2, 2](atops.Device(1).empty(4, np.int32), 1).stream is atops.Device(1).null_stream
    stream.sync(PATIENCE)
    atops.Device(1).sync(PATIENCE)


@every(
    "configuration",
    [(2,), 2, (), (1, 1, 7), (1, 1, None, 0, 0), (1, 1, True), (atops.LaunchConfig(1, 1), None, 0, 0)],
)
def test_what_configures_no_kernel(device, configuration):
    """Another form, and what is no stream."""
    with pytest.raises(InvalidType, match=r"numbered\["):
        numbered[configuration]
    with pytest.raises((InvalidType, InvalidValue)):
        numbered[0, 1](device.empty(1, np.int32), 1)


# ---- memory


def test_zeros_and_empty_like(device):
    """A device's array is 0 at once, whatever lay there before and whatever the place of its ends in a page."""
    for size in (0, 1, 5000, 65_536, 65_537, 300_001, 4 << 20):
        spoiled = device.empty(size + 300, np.uint8)
        device.null_stream.fill(spoiled, 0xEE).wait_sync(PATIENCE)
        spoiled.close()
        neighbours = device.empty(100, np.uint8), device.zeros(size, np.uint8), device.empty(100, np.uint8)
        array = neighbours[1]
        assert array.shape == (size,) and not device.null_stream.fetch(array).wait_sync(PATIENCE).any()
        for each in neighbours:
            each.close()
        device.sync(PATIENCE)
    array = device.zeros((2, 3), np.float16)
    like = device.empty_like(array)
    assert (like.shape, like.dtype, like.device) == ((2, 3), np.float16, device)
    assert device.empty_like(np.ones(3, np.int8)).dtype == np.int8 and device.zeros(2).dtype == np.float32
    for maker in (device, device.null_stream):
        with pytest.raises(InvalidType, match="int is no array"):
            maker.empty_like(5)


def test_zeros_leave_their_neighbours_alone(device):
    """The pages that the ends share with other memory keep what that holds."""
    with device.create_stream() as stream:
        first, middle, last = (device.empty(70_000, np.uint8) for _ in range(3))
        for each in (first, middle, last):
            stream.fill(each, 7)
        stream.sync(PATIENCE)
        middle.close()
        zeros = device.zeros(70_000, np.uint8)
        assert not stream.fetch(zeros).wait_sync(PATIENCE).any()
        assert all((stream.fetch(each).wait_sync(PATIENCE) == 7).all() for each in (first, last))


def test_memory_says_what_reaches_it(device):
    """The host reaches pinned, registered and managed memory; a device's is reached by kernels alone."""
    for memory in (device.allocate(8), device.empty(4), device.empty(4)[1:], device.default_pool):
        assert (memory.is_host_accessible, memory.is_device_accessible) == (False, True)
    for memory in (device.host_malloc(8), device.malloc_managed(8), device.register(np.zeros(8))):
        assert (memory.is_host_accessible, memory.is_device_accessible) == (True, True)


def test_memory_is_freed_by_its_address(device):
    """What a stream's verbs made; once, by the address of its beginning, and in stream order."""
    stream = device.create_stream()
    buffer, kept = stream.allocate(64), stream.empty(4)
    stream.free(np.int64(buffer.address))
    for wrong in (buffer.address, kept.address + 4, device.allocate(8).address, 0):
        with pytest.raises(InvalidHandle, match=f"{stream.label} has no buffer at {wrong:#x} to free"):
            stream.free(wrong)
    with pytest.raises(InvalidHandle, match="freed already"):
        stream.free(buffer)
    with pytest.raises(InvalidType, match="expected a Buffer or its address"):
        stream.free(True)
    stream.sync(PATIENCE)
    assert not buffer.is_live and kept.is_live


def test_access_by_device(device):
    """Ordinals and Device objects, one or several; another board's Device is refused."""
    second, pool = atops.Device(1), device.create_pool()
    for devices in (second, 1, [second], (1,), {second}, iter([second])):
        pool.set_access(devices, "readwrite")
        assert pool.get_access(second) is pool.get_access(1) and pool.get_access(1).name == "readwrite"
        pool.set_access([second], "none")
        assert pool.get_access(second).name == "none"
    assert pool.get_access(device).name == "readwrite"
    with board(devices=2) as other:
        for call in (lambda: pool.set_access(atops.Device(1, other), "read"), lambda: pool.get_access(2)):
            with pytest.raises(InvalidDevice):
                call()
    with pytest.raises(InvalidDevice):
        pool.set_access("1", "read")


# ---- properties


def test_properties_are_what_c_style_calls_tell(device):
    """Every field of the struct and every attribute is a property, and no property is told nowhere."""
    properties = device.properties
    struct = tops.check(tops.topsGetDeviceProperties(0))
    source = tops.functions.device.PROPERTIES
    fields = {field.name for field in dataclasses.fields(struct)} - {"major", "minor"}
    assert set(source) == fields
    assert {field.name for field in dataclasses.fields(properties)} - set(source.values()) == {"compute_capability"}
    for field, name in source.items():
        assert getattr(struct, field) == getattr(properties, name), field
    assert (struct.major, struct.minor) == properties.compute_capability
    assert properties == atops.Device(0).properties != atops.Device(1).properties
    told = [tops.check(tops.topsDeviceGetAttribute(each, 0)) for each in tops.functions.device.ATTRIBUTES]
    flat = set()
    for value in dataclasses.astuple(properties):
        flat |= set(value) if isinstance(value, tuple) else {value}
    assert set(told) <= flat
    assert properties.total_memory == device.memory_info()[1] and len(properties.uuid) == 16
