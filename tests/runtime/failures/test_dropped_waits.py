"""Waits that a stream has dropped or skipped: the order through them ends, memory in use still goes to no other.

What such a stream frees is given out again when the commands are over that it was to wait for.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import AtopsError, IllegalAddress, InvalidHandle, StreamFull
from atops.runtime.commands.events import Record
from atops.runtime.cooperative_launch import launch_together
from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event
from atops.runtime.driver import board_of
from atops.runtime.stream import queue_of
from tests.runtime.boards import nothing
from tests.runtime.hosts import board, on_every_host
from tests.runtime.latch import hold

SIZE = 1 << 16


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


@k.kernel
def fail() -> None:
    """Fail the stream."""
    k.assert_(False)


def streams(device: atops.Device, count: int) -> list[atops.Stream]:
    """Return streams that null-stream order leaves alone."""
    return [device.create_stream(nonblocking=True) for _ in range(count)]


async def ended(stream: atops.Stream) -> None:
    """Wait for a stream, however it ends, and let it begin anew."""
    try:
        await stream
    except AtopsError:
        stream.clear_error()


@pytest.mark.slow
@on_every_host
async def test_memory_stays_with_its_user_over_a_chain_of_streams(device):
    """Each stream waits for the one before, the last frees what the first uses: until then it is not given out."""
    for length in (1, 2, 4):
        for broken in range(length):
            for early in (False, True):
                first, *rest, other = streams(device, length + 2)
                owner = rest[-1]
                x = owner.empty(SIZE, np.uint8)
                first.wait(owner)
                latch = hold(first)
                used = first.fill(x, 7)
                if early:  # it has failed before anybody waits for it
                    rest[broken].launch(fail, (1, 1))
                for before, stream in zip([first, *rest], rest, strict=False):
                    stream.wait(before)
                x.release_in(queue_of(owner))
                if not early:
                    await latch.passed()
                    rest[broken].abort()
                await latch.passed()
                for stream in rest[broken:]:  # those before it wait on
                    await ended(stream)
                assert not used.done()
                y = other.upload(np.zeros(SIZE, np.uint8))
                await other
                assert y.address != x.address
                latch.release()
                await used
                await first
                assert not (await other.fetch(y)).any()
                await latch.passed()
                assert device.default_pool.statistics().promised == 0
                y.release_in(queue_of(other))
                await other


@on_every_host
async def test_a_record_after_a_dropped_wait_tells_the_next_stream(device):
    """A stream that waits for one that has left out a wait keeps the memory that it frees as long."""
    first, second, third, other = streams(device, 4)
    x = third.empty(SIZE, np.uint8)
    first.wait(third)
    latch = hold(first)
    used = first.fill(x, 7)
    second.wait(first)
    await latch.passed()
    second.abort()
    third.wait(second)
    x.release_in(queue_of(third))
    await ended(third)
    y = other.upload(np.zeros(SIZE, np.uint8))
    await other
    assert not used.done() and y.address != x.address
    latch.release()
    await used
    assert not (await other.fetch(y)).any()


@on_every_host
async def test_an_abort_ends_the_order_through_what_it_drops(device):
    """What waited for a dropped command of the null stream goes on; the memory that it frees stays with its user."""
    first, second = device.create_stream(), device.create_stream()
    (other,) = streams(device, 1)
    x = second.empty(SIZE, np.uint8)
    await second
    latch = hold(first)
    used = first.fill(x, 7)
    dropped = device.null_stream.write_value(device.empty(1, np.int32), 1)
    x.release_in(queue_of(second))
    tail = second.record()
    await latch.passed()
    assert device.null_stream.abort() == 1 and dropped.done()
    await tail
    assert not used.done()
    y = other.upload(np.zeros(SIZE, np.uint8))
    await other
    assert y.address != x.address
    latch.release()
    await used
    assert not (await other.fetch(y)).any()


@on_every_host
async def test_freed_memory_waits_for_what_was_to_be_waited_for_and_no_longer(device):
    """Commands that no wait was for, and those of a stream that is over, hold up nothing."""
    device.default_pool.release_threshold = 1 << 20
    user, owner, late, other = streams(device, 4)
    x = owner.empty(SIZE, np.uint8)
    await owner
    latch = hold(user)
    owner.wait(user)
    await latch.passed()
    owner.abort()
    held = hold(late)
    x.release_in(queue_of(owner))
    await owner
    assert device.default_pool.statistics().promised > 0  # the user is not through
    latch.release()
    await user
    await latch.passed()
    assert device.default_pool.statistics().promised == 0
    assert other.empty(SIZE, np.uint8).address == x.address
    held.release()
    await late


@on_every_host
async def test_a_stream_that_drops_waits_twice_waits_for_what_came_between(device):
    """What it frees is given out when all is over that the board had by the last time, not by the first."""
    device.default_pool.release_threshold = 1 << 20
    first, second, owner, other = streams(device, 4)
    x = owner.empty(SIZE, np.uint8)
    await owner
    latches = []
    for user in (first, second):
        latches.append(hold(user))
        parked = hold(owner)
        await parked.passed()
        assert owner.abort() <= 1
    x.release_in(queue_of(owner))
    await owner
    for latch, user in zip(latches, (first, second), strict=True):
        assert device.default_pool.statistics().promised > 0
        latch.release()
        await user
        await latch.passed()
    assert device.default_pool.statistics().promised == 0
    assert other.empty(SIZE, np.uint8).address == x.address
    await other


@on_every_host
async def test_an_abort_behind_a_running_command_waits_for_nothing_new(device):
    """A command that runs while an abort drops a wait behind it does not wait for that, nor does what waits for it."""
    null, other = device.null_stream, device.create_stream()
    latch = hold(null)
    record = other.record()  # behind the latch, by null-stream order
    null.wait(record)
    await latch.passed()
    assert null.abort() == 1
    await record
    await null


@on_every_host
async def test_a_parked_wait_that_an_abort_ends_makes_no_circle(device):
    """An abort ends the wait at the head and drops one behind it that waits for a waiter of the first: no circle."""
    first, third, fourth = (device.create_stream() for _ in range(3))
    (second,) = streams(device, 1)
    null = device.null_stream
    latches = hold(second), hold(fourth)
    first.wait(second)
    first.record()
    command = queue_of(null).submit(Record(Event(queue_of(null).context)))
    first.wait(third.record())
    await latches[0].passed()
    first.abort()
    for latch in latches:
        latch.release()
    await command
    for stream in (first, third, fourth, null):
        await ended(stream)


@on_every_host
async def test_memory_that_was_given_out_again_is_not_used_before_its_time(device):
    """A stream frees and takes memory behind a wait that is dropped: it is taken back while it is in use."""
    user, owner = streams(device, 2)
    x = owner.upload(np.full(1024, 3, np.int32))
    await owner
    latch = hold(user)
    got = user.fetch(x)
    owner.wait(user)
    x.release_in(queue_of(owner))
    y = owner.empty(1024, np.int32)
    assert y.address == x.address
    await latch.passed()
    owner.abort()
    await ended(owner)
    assert not got.done()
    with pytest.raises(IllegalAddress, match="left out the wait"):
        owner.fill(y, 9)
    y.release_in(queue_of(owner))
    await ended(owner)
    latch.release()
    assert (await got == 3).all()
    await latch.passed()
    statistics = device.default_pool.statistics()
    assert statistics.promised == 0 and y.allocation not in device.default_pool
    z = owner.upload(np.full(1024, 9, np.int32))  # the stream is of use as before
    assert (await owner.fetch(z) == 9).all()


# ---- several at once


def test_a_refused_submission_gives_its_places_to_waiters(device: atops.Device) -> None:
    """A command that is dropped before it is enqueued holds no place; a waiter for one gets it, and is woken."""
    stream = device.create_stream(capacity=1)
    capacity = queue_of(stream).places
    assert capacity is not None

    async def main() -> None:
        room = stream.room(1)
        async with room:
            item = Completion(queue_of(stream), Record(Event(queue_of(stream).context)))
            with board_of(device.driver).lock:
                queue_of(stream).admit(item)
        assert (capacity.free, room.left) == (0, 0)  # its one place was used
        waiting = asyncio.ensure_future(stream.room(1).__aenter__())
        await asyncio.sleep(0)  # it asks, and is parked
        assert capacity.waiting == 1
        del item
        await (await waiting).__aexit__(None, None, None)
        assert (capacity.free, capacity.waiting) == (1, 0)

    asyncio.run(main())


def test_refusals_race_with_reservations(device: atops.Device, tiny_switch_interval: None) -> None:
    """While one thread is refused again and again, a request for room in the other stream is served."""
    free, full = device.create_stream(capacity=1), device.create_stream(capacity=1)
    latch = hold(full)
    rounds = threading.Event()

    def be_refused() -> None:
        while not rounds.is_set():
            with contextlib.suppress(StreamFull):
                launch_together([(each, nothing, (1, 1)) for each in (free, full)])

    async def reserve() -> None:
        for _ in range(300):
            async with free.room(1):
                pass

    thread = threading.Thread(target=be_refused)
    thread.start()
    try:
        asyncio.run(asyncio.wait_for(reserve(), 30))
    finally:
        rounds.set()
        thread.join()
    assert queue_of(free).places is not None and queue_of(free).places.free == 1
    latch.release()


def test_pools_are_made_by_several_threads(device: atops.Device, tiny_switch_interval: None) -> None:
    """Nothing that one thread does to the pools of a device fails another."""
    errors: list[BaseException] = []

    def make() -> None:
        try:
            for _ in range(50):
                device.create_pool().destroy()
                device.null_stream.sync(5)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_memory_given_out_again_is_asked_for_as_any_other(device: atops.Device) -> None:
    """It takes a place in a stream with a capacity, and none in one that is closed."""
    stream = device.create_stream(capacity=3, nonblocking=True)
    x = stream.empty(1024)
    stream.sync(5)
    latch = hold(stream)
    x.release_in(queue_of(stream))
    y = stream.empty(1024)
    assert y.address == x.address and queue_of(stream).places is not None and queue_of(stream).places.free == 1
    stream.record()
    y.release_in(queue_of(stream))
    with pytest.raises(StreamFull):
        stream.empty(1024)
    latch.release()
    stream.sync(5)
    assert queue_of(stream).places.free == 3
    stream.close()
    with pytest.raises(InvalidHandle):
        stream.empty(1024)


def calls_of(function: Callable[[], object]) -> int:
    """Return how many calls running it takes, those of builtins too."""
    count = 0

    def each(frame: object, what: str, argument: object) -> None:
        nonlocal count
        count += what in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(each)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.slow
def test_aborting_many_streams_one_by_one_looks_at_each_lost_command_once() -> None:
    """Each abort loses what all of the board has to do by then: twice the streams are at most four times the work."""

    async def main(count: int) -> None:
        device = atops.Device(0)
        held = [device.create_stream(name=f"held {number}") for number in range(count)]
        words = device.zeros(1, np.uint32)
        for stream in held:
            stream.wait_value(words, 1)
            with stream.upload(np.arange(10)) as array:
                stream.fill(array, 1)
        for stream in held:
            stream.abort()
            held[0].fill(words, 0)  # something new: the next abort loses that as well
            await asyncio.sleep(0)
        await device.wait()
        assert device.default_pool.used_current == 0

    few, many = (calls_of(partial(atops.run, main, None, count)) for count in (60, 120))
    assert many < 4 * few, f"{few} calls for 60 streams, {many} for 120"
