"""Streams of other libraries: an object with `__tops_stream__` works wherever a Stream does."""

import asyncio
import threading
from copy import copy

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import IllegalAddress, InvalidHandle, InvalidType, InvalidValue, StreamAborted
from tests.every import every
from tests.runtime.boards import PATIENCE, Foreign, Latch, board, current_device


@pytest.fixture
def device():
    """Have device 0 of a board of two, which is the current one."""
    with current_device(devices=2) as device:
        yield device


class Theirs(Foreign):
    """A stream of another library, with verbs of its own that mean something else."""

    launch = copy = wait = sync = None


def foreign(stream):
    """Every way to name a stream: itself, a wrapper, and objects of other libraries."""
    named = stream.__tops_stream__()
    return stream, atops.ExternalStream(stream), Foreign(named), Theirs(named), atops.ExternalStream(Theirs(named))


@k.kernel
def add_one(x):
    """Add one to the first element."""
    x[0] += 1


def test_every_place_that_takes_a_stream(device):
    """Waits, launches by index and together, and what they give is as with the Stream itself."""
    one, other = device.create_stream(), device.create_stream()
    x = device.zeros(1, np.int32)
    for count, named in enumerate(foreign(other)):
        gate = Latch(device)
        gate.hold(other)
        waiting = one.wait(named)
        assert not waiting.done() and waiting.stream is one
        gate.open()
        one.sync(PATIENCE)
        by_index = add_one[1, 1, named](x)
        (together,) = atops.launch_together([(named, add_one, (1, 1), x)])
        assert by_index.stream is together.stream is other
        assert list(other.fetch(x).wait_sync(PATIENCE)) == [2 * count + 2]


def test_a_wrapper_is_a_stream(device):
    """By isinstance, with a Stream's names and its `async with`, which does not close what is not its own."""
    stream = device.create_stream(name="theirs")
    wrapper = atops.ExternalStream(Theirs(stream.__tops_stream__()))
    assert isinstance(wrapper, atops.Stream) and isinstance(wrapper, atops.IsStream)
    assert set(dir(stream)) < set(dir(wrapper)) and type(wrapper) is atops.ExternalStream
    for name in dir(wrapper):
        if not name.startswith("__"):
            assert hasattr(wrapper, name), name
    assert copy(wrapper) == wrapper == stream and len({wrapper, stream}) == 1
    x = device.zeros(1, np.int32)

    async def main():
        async with wrapper as entered:
            item = entered.launch(add_one, (1, 1), x)
        assert item.done() and entered is wrapper
        item = wrapper.launch(add_one, (1, 1), x)
        await wrapper.aclose()
        assert item.done()
        return await wrapper.fetch(x)

    assert list(asyncio.run(main())) == [2]
    wrapper.close()
    assert not stream.closed and stream.fetch(x).wait_sync(PATIENCE) == 2


@every("name", ["null_stream", "per_thread_stream"])
def test_streams_of_the_device_last(device, name):
    """A block and `close` give back what their verbs made; the next user finds them as they were."""

    async def main():
        async with getattr(device, name) as stream:
            kept = stream.upload(np.ones(4))
        with pytest.raises(ValueError):
            async with stream:
                lost = stream.wait_value(device.zeros(1, np.uint32), 1)
                raise ValueError
        with pytest.raises(StreamAborted):
            await lost
        stream.close()
        return kept, stream, await getattr(device, name).fetch(stream.zeros(2))

    kept, stream, found = asyncio.run(main())
    assert stream is getattr(device, name) and not stream.closed and list(found) == [0, 0]
    with pytest.raises(IllegalAddress):
        stream.fill(kept, 1)


@every("thing, named", [(Foreign((0, 0)), True), (object(), False), (0, False), (None, False)])
def test_the_protocol_as_a_type(thing, named):
    """`IsStream` can be asked for."""
    assert isinstance(thing, atops.IsStream) is named


def test_streams_of_handles(device):
    """0 is the null stream, 2 the thread's own, as C-style calls have it; the rest are those of streams."""
    stream = device.create_stream()
    handle = stream.__tops_stream__()[1]
    assert atops.Stream.from_handle(handle) is atops.Stream.from_handle(np.int64(handle)) is stream
    assert atops.Stream.from_handle(0) is device.null_stream
    assert atops.Stream.from_handle(2) is device.per_thread_stream is atops.ExternalStream(Foreign((0, 2))).stream
    with atops.Device(1) as second:
        assert atops.Stream.from_handle(0) is second.null_stream
        assert atops.Stream.from_handle(2) is second.per_thread_stream
    seen = []
    thread = threading.Thread(target=lambda: seen.append(atops.Stream.from_handle(2)))
    thread.start()
    thread.join(PATIENCE)
    assert seen[0] is not device.per_thread_stream
    gone = stream.__tops_stream__()
    stream.close()
    for dead in (1, -1, handle, 1 << 60):
        with pytest.raises(InvalidHandle):
            atops.Stream.from_handle(dead)
    for call in (lambda: device.null_stream.wait(Foreign(gone)), lambda: add_one[1, 1, Foreign(gone)]):
        with pytest.raises(InvalidHandle):
            call()


@every("wrong", ["2", None, 2.0, True, object()])
def test_what_is_no_handle(wrong):
    """Other types are refused, and say what was expected."""
    with pytest.raises(InvalidType, match=r"from_handle\(\) expects the handle of a stream"):
        atops.Stream.from_handle(wrong)


def test_wrong_answers(device):
    """Another version, or what is no stream: refused at each place, and nothing is enqueued."""
    stream = device.create_stream()
    calls = (
        lambda thing: stream.wait(thing),
        lambda thing: add_one[1, 1, thing],
        lambda thing: atops.launch_together([(thing, add_one, (1, 1), device.zeros(1, np.int32))]),
    )
    for call in calls:
        for wrong in (Foreign((1, 0)), Foreign(None), Foreign, "0"):
            with pytest.raises((InvalidType, InvalidValue)):
                call(wrong)
    assert stream.is_done


def test_a_stream_of_another_driver(device):
    """A wait is refused, as for that driver's Stream."""
    with board(devices=1) as other:
        far = atops.Device(0, other).create_stream()
        for named in foreign(far):
            with pytest.raises(InvalidHandle, match="is of"):
                device.create_stream().wait(named)
