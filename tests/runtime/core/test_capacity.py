"""Back-pressure: a stream with a capacity refuses what is too much, and hands out room in order of arrival."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import (
    HostCallFailure,
    IllegalState,
    InvalidHandle,
    InvalidValue,
    NotInitialized,
    StreamAborted,
    StreamFull,
    WouldDeadlock,
)
from atops.base.waiting.parking_lot import ParkingLot, ThreadWaiter
from atops.runtime.core.capacity import ROOMS, Capacity, Room
from atops.runtime.queues.queue import StreamQueue
from atops.runtime.stream import queue_of
from tests.runtime.hosts import board, on_every_host
from tests.runtime.latch import hold


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


@k.kernel
def nothing() -> None:
    """Do nothing."""


def free(stream: atops.Stream) -> int | None:
    """Return how many places are free."""
    return stream.statistics().free


@on_every_host
async def test_a_full_stream_refuses(device):
    """With n commands that are not over, one more raises StreamFull and changes nothing; then there is room again."""
    stream, x = device.create_stream(capacity=3), device.empty(1)
    latch = hold(stream)  # one place
    items = [stream.fill(x, 1), stream.fill(x, 1)]
    event = device.create_event()
    for verb in (lambda: stream.fill(x, 1), lambda: stream.call(print), stream.record, lambda: stream.wait(event)):
        with pytest.raises(StreamFull, match="3 of 3"):
            verb()
    assert free(stream) == 0 and len(queue_of(stream).pending()) == 3
    latch.release()
    await stream
    assert items[1].done() and free(stream) == 3
    await stream.fill(x, 1)


@on_every_host
async def test_a_refused_record_leaves_its_event(device):
    """An event keeps its record when a full stream refuses a new one."""
    stream, event = device.create_stream(capacity=2), device.create_event()
    stream.record(event)
    await event
    record = event.completion
    latch = hold(stream)
    stream.fill(device.empty(1), 1)
    with pytest.raises(StreamFull):
        stream.record(event)
    assert event.completion is record and event.is_done
    latch.release()
    await stream


@on_every_host
async def test_a_failing_command_gives_its_place_back(device):
    """Failed, skipped and aborted commands are over: their places are free again."""
    stream, x = device.create_stream(capacity=4), device.empty(1)

    def fail():
        raise RuntimeError

    latch = hold(stream)
    stream.call(fail)
    stream.fill(x, 1)
    latch.release()
    with pytest.raises(HostCallFailure):
        await stream
    assert free(stream) == 4
    stream.clear_error()
    hold(stream)
    stream.fill(x, 1)
    stream.call(fail, holds=False)
    stream.abort()
    await stream
    assert free(stream) == 4


@on_every_host
async def test_duties_are_never_refused(device):
    """A free runs in a full stream too: it makes room, and takes none."""
    stream = device.create_stream(capacity=3)
    x = stream.zeros(4)
    await stream
    latch = hold(stream)
    stream.fill(x, 1)
    stream.fill(x, 1)
    stream.free(x)
    latch.release()
    await stream
    assert not x.allocation.alive and free(stream) == 3


@on_every_host
async def test_room_is_consumed_inside_and_returned_on_exit(device):
    """A reservation of n takes n places at once; commands inside use them, what is left goes back at the end."""
    stream, x = device.create_stream(capacity=4), device.empty(1)
    async with stream.room(3) as room:
        assert free(stream) == 1 and room.left == 3
        latch = hold(stream)
        stream.fill(x, 1)
        assert room.left == 1 and free(stream) == 1
    assert free(stream) == 2
    async with stream.room():
        stream.fill(x, 1)
        stream.fill(x, 1)  # beyond the reservation: a free place
        with pytest.raises(StreamFull, match="reservations included"):
            stream.fill(x, 1)
    latch.release()
    await stream
    assert free(stream) == 4


@on_every_host
async def test_a_room_of_a_number_takes_no_more(device):
    """On an idle stream too one command more is refused, and a verb of two where one place is left."""
    stream, x = device.create_stream(capacity=8), device.empty(1)
    async with stream.room(2):
        stream.fill(x, 1)
        with pytest.raises(StreamFull, match="takes 2 places, and of the 2 of this room in stream"):
            stream.zeros(1)
        stream.fill(x, 1)
        for verb in (lambda: stream.fill(x, 1), stream.record, lambda: stream.launch(nothing, (1, 1))):
            with pytest.raises(StreamFull, match="the 2 places of this room in stream"):
                verb()
        assert free(stream) >= 6
        async with stream.room():
            stream.fill(x, 1)
            stream.fill(x, 1)
    await stream
    assert free(stream) == 8


@on_every_host
async def test_room_comes_back_when_the_block_raises(device):
    """What was not used goes back when the block is left by an exception."""
    stream = device.create_stream(capacity=2)
    with pytest.raises(ZeroDivisionError):
        async with stream.room(2):
            raise ZeroDivisionError
    assert free(stream) == 2


@on_every_host
async def test_a_room_is_entered_once(device):
    """A second time it would let a submission into a full stream: it is refused, and the places are those of one."""
    stream = device.create_stream(capacity=2)
    room = stream.room(2)
    async with room:
        pass
    with pytest.raises(IllegalState, match="entered already"):
        async with room:
            pass
    assert free(stream) == 2


@on_every_host
async def test_room_left_in_another_task_comes_back(device):
    """A generator that holds room may be closed by another task: its places are free then all the same."""
    stream = device.create_stream(capacity=2)

    async def holding():
        async with stream.room(2):
            yield

    generator = holding()

    async def begin():
        await anext(generator)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(begin)
    assert free(stream) == 0
    await generator.aclose()
    assert free(stream) == 2


@on_every_host
async def test_a_task_that_outlives_a_room_takes_free_places(device):
    """A task keeps the context in which it began, with the room there; once the room has ended, it is as any other."""
    stream, x, ended = device.create_stream(capacity=4), device.empty(1), anyio.Event()

    async def later():
        await ended.wait()
        stream.fill(x, 1)
        async with stream.room(2):
            stream.fill(x, 1)
            stream.fill(x, 1)

    async with anyio.create_task_group() as tasks:
        async with stream.room(1):
            tasks.start_soon(later)
            stream.fill(x, 1)
        await stream
        ended.set()
    await stream
    assert free(stream) == 4


@on_every_host
async def test_rooms_nest_and_belong_to_their_stream(device):
    """The innermost reservation of the stream itself is used first; another stream's is not touched."""
    first, second, x = device.create_stream(capacity=4), device.create_stream(capacity=4), device.empty(1)
    async with first.room(1) as outer, second.room(1) as other, first.room(1) as inner:
        latch = hold(first)
        assert (outer.left, other.left, inner.left) == (1, 1, 0)
        first.fill(x, 1)
        assert (outer.left, other.left, inner.left) == (0, 1, 0)
        latch.release()
    await first
    assert free(first) == free(second) == 4


@on_every_host
async def test_room_is_first_come_first_served(device):
    """Reservations are served in order of arrival: no small one overtakes a large one, nor does a plain command."""
    stream, x, order = device.create_stream(capacity=3), device.empty(1), []
    latches = [hold(stream) for _ in range(3)]

    async def reserve(number, places):
        async with stream.room(places):
            order.append(number)

    async with anyio.create_task_group() as tasks:
        for number, places in enumerate((3, 2, 3, 1)):  # beside the second there is a place, but not for the last
            tasks.start_soon(reserve, number, places)
            while stream.statistics().waiting_for_room <= number:
                await anyio.lowlevel.checkpoint()
        latches[0].release()
        latches[1].release()
        await latches[1].passed()
        assert order == [] and free(stream) == 2  # the first wants three
        with pytest.raises(StreamFull):
            stream.fill(x, 1)
        latches[2].release()
    assert order == [0, 1, 2, 3] and free(stream) == 3


@on_every_host
async def test_a_verb_of_two_commands_leaves_the_room_that_others_wait_for(device):
    """With one place of its own and another that a waiting reservation wants, it is refused as a whole."""
    stream = device.create_stream(capacity=3)

    async def reserve():
        async with stream.room(3):
            pass

    async with anyio.create_task_group() as tasks, stream.room(1):
        tasks.start_soon(reserve)
        while not stream.statistics().waiting_for_room:
            await anyio.lowlevel.checkpoint()
        with pytest.raises(StreamFull, match="takes 2 places, and of the 1 of this room"):
            stream.zeros(4)
        await stream.fill(device.empty(1), 1)
    assert free(stream) == 3


@on_every_host
async def test_a_cancelled_wait_for_room_lets_the_next_one_in(device):
    """A cancelled waiter holds nothing, and the waiters behind it are served."""
    stream = device.create_stream(capacity=2)
    latch, served = hold(stream), anyio.Event()

    async def large(scope):
        with scope:
            async with stream.room(2):
                pytest.fail("there was never so much room")

    async def small():
        async with stream.room(1):
            served.set()

    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()
        tasks.start_soon(large, scope)
        while stream.statistics().waiting_for_room < 1:
            await anyio.lowlevel.checkpoint()
        tasks.start_soon(small)
        while stream.statistics().waiting_for_room < 2:
            await anyio.lowlevel.checkpoint()
        assert not served.is_set()
        scope.cancel()
        await served.wait()
        latch.release()
    await stream
    assert free(stream) == 2 and stream.statistics().waiting_for_room == 0


@on_every_host
async def test_room_granted_to_a_cancelled_task_goes_back(device):
    """A task that is cancelled between the grant and its next step returns what it was granted."""
    stream = device.create_stream(capacity=1)
    latch = hold(stream)

    async def reserve(scope):
        with scope:
            async with stream.room(1):
                await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()
        tasks.start_soon(reserve, scope)
        while stream.statistics().waiting_for_room < 1:
            await anyio.lowlevel.checkpoint()
        latch.release()
        await latch.passed()
        scope.cancel()
    assert free(stream) == 1


@on_every_host
async def test_capacities_and_rooms_that_cannot_be(device):
    """Less than one command, more than the capacity, and room in a stream without one are refused."""
    for capacity in (0, -1, 1.5):
        with pytest.raises(InvalidValue, match="expected 1 command or more"):
            device.create_stream(capacity=capacity)
    stream = device.create_stream(capacity=2)
    for places in (0, 3, 1.0):
        with pytest.raises(InvalidValue, match="1 to 2"):
            stream.room(places)
    with pytest.raises(IllegalState, match="no capacity"):
        device.create_stream().room()


def test_plain_code_waits_for_room(device: atops.Device):
    """`room_sync` blocks until there is room, holds its places, gives back the rest, and ends with its timeout."""
    stream, x = device.create_stream(capacity=2), device.empty(1)
    latch = hold(stream)
    with pytest.raises(TimeoutError, match="no room"), stream.room_sync(2, timeout=0.01):
        pytest.fail("there was room")
    assert free(stream) == 1 and stream.statistics().waiting_for_room == 0
    entered = threading.Event()

    def use() -> None:
        with stream.room_sync(2) as room:
            entered.set()
            stream.fill(x, 1)
            assert room.left == 1
            with pytest.raises(StreamFull):
                stream.zeros(1)

    thread = threading.Thread(target=use)
    thread.start()
    while not stream.statistics().waiting_for_room:
        pass
    assert not entered.is_set()
    latch.release()
    thread.join()
    stream.sync(10)
    assert entered.is_set() and free(stream) == 2


@on_every_host
async def test_plain_code_waits_for_room_on_every_host(device):
    """`room_sync` blocks until a command gives its place back, inline by running the driver; or for its time."""
    stream, x = device.create_stream(capacity=1), device.empty(4)
    stream.fill(x, 1)
    with stream.room_sync(1, timeout=20) as room:
        stream.fill(x, 2)
        assert not room.left
    await stream
    latch = hold(stream)
    with pytest.raises(TimeoutError), stream.room_sync(timeout=0.001):
        pytest.fail("there was room")
    latch.release()
    await stream
    assert free(stream) == 1 and not ROOMS.get()


@on_every_host
async def test_room_that_can_never_be_is_refused_in_one_walk(device, monkeypatch):
    """What a blocking wait for room needs is looked at once for each command, however many are in the queue."""
    stream, x = device.create_stream(capacity=30), device.empty(4)
    latch = hold(stream)
    for _ in range(29):
        stream.fill(x, 1)
    looks: list[object] = []
    real = StreamQueue.snapshot
    monkeypatch.setattr(StreamQueue, "snapshot", lambda self: looks.append(self) or real(self))
    with pytest.raises(TimeoutError), stream.room_sync(timeout=0.001):
        pytest.fail("there was room")
    monkeypatch.undo()
    assert len(looks) <= 2  # for what is pending, and the walk
    latch.release()
    await stream


POINTS_OF_ROOM = ("_ask", "_enter", "leave")


@pytest.mark.parametrize("name", POINTS_OF_ROOM)
@pytest.mark.parametrize("after", [False, True])
def test_ctrl_c_in_a_wait_for_room_gives_its_places_back(device, monkeypatch, name, after):
    """Where a wait for room begins, ends or gives back: no place stays held, and no reservation stays in the lot."""
    stream, real = device.create_stream(capacity=2), getattr(Room, name)

    def interrupt(room: Room) -> None:
        monkeypatch.undo()
        if after:
            real(room)
        raise KeyboardInterrupt

    monkeypatch.setattr(Room, name, interrupt)
    with pytest.raises(KeyboardInterrupt), stream.room_sync(2):
        pass
    assert free(stream) == 2 and not stream.statistics().waiting_for_room
    with stream.room_sync(2, timeout=0):
        stream.fill(device.empty(1), 1).wait_sync(20)
    for _ in range(2):  # more than a room that is in force for ever would have
        stream.fill(device.empty(1), 1).wait_sync(20)


@pytest.mark.parametrize("point", ["take", "discard", "wake"])
def test_ctrl_c_while_room_is_handed_on_loses_no_waiter(device, monkeypatch, point):
    """Where a thread that leaves its room is interrupted while another one gets it, that one gets it all the same."""
    stream, got = device.create_stream(capacity=1), threading.Event()

    def want() -> None:
        with stream.room_sync(1, timeout=20):
            got.set()

    owner, name = {
        "take": (Capacity, "_take_spare"), "discard": (ParkingLot, "discard"), "wake": (ThreadWaiter, "wake"),
    }[point]  # fmt: skip
    main = threading.get_ident()
    thread = threading.Thread(target=want)
    with pytest.raises(KeyboardInterrupt), stream.room_sync(1) as room:
        thread.start()
        while not stream.statistics().waiting_for_room or next(iter(queue_of(stream).places.parked)).waiter is None:
            threading.Event().wait(0.001)
        real = getattr(owner, name)

        def interrupt(self: Any, *arguments: Any) -> Any:
            mine = point == "discard" and arguments[0] is room
            if threading.get_ident() == main and not mine:
                monkeypatch.undo()
                raise KeyboardInterrupt
            return real(self, *arguments)

        monkeypatch.setattr(owner, name, interrupt)
    assert got.wait(20)
    thread.join(20)
    assert free(stream) == 1


def test_room_that_waits_for_the_waiting_loop_itself(device: atops.Device):
    """On a loop that owes what holds the place, a blocking wait for room is refused."""

    async def main() -> None:
        stream, end = device.create_stream(capacity=1), anyio.Event()
        call = stream.call(end.wait)
        with pytest.raises(WouldDeadlock), stream.room_sync():
            pytest.fail("there was room")
        end.set()
        await call
        assert free(stream) == 1

    anyio.run(main)


@pytest.mark.slow
def test_a_fast_producer_never_has_more_than_the_capacity(device: atops.Device):
    """Many producers on several loops keep a stream within its capacity, and all their commands run, once."""
    stream, log, most = device.create_stream(capacity=4), [], []

    async def produce(sender: int) -> None:
        for number in range(50):
            async with stream.room(2):
                stream.call(log.append, (sender, number))
                stream.call(lambda: most.append(len(queue_of(stream).pending())))

    async def main(first: int) -> None:
        async with anyio.create_task_group() as tasks:
            for sender in range(first, first + 3):
                tasks.start_soon(produce, sender)

    threads = [
        threading.Thread(target=anyio.run, args=(main, 10 * number), kwargs={"backend": loop})
        for number, loop in enumerate(("asyncio", "trio"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream.sync()
    assert sorted(log) == [(10 * loop + each, number) for loop in range(2) for each in range(3) for number in range(50)]
    assert max(most) <= 4 and free(stream) == 4
    assert np.all(np.array(most) >= 1)


@on_every_host
async def test_no_room_in_a_closed_stream(device):
    """Closing a stream that stands still ends the waits for room in it at once, and refuses later ones."""
    stream = device.create_stream(capacity=1)
    latch = hold(stream)
    told = []

    async def want() -> None:
        with pytest.raises(InvalidHandle, match="is closed; there will be no room"):
            async with stream.room():
                pytest.fail("there was room")
        told.append(stream)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(want)
        while stream.statistics().waiting_for_room < 3:
            await anyio.lowlevel.checkpoint()
        stream.close()
    await want()
    assert len(told) == 4
    latch.release()
    await stream
    assert free(stream) == 1


@on_every_host
@pytest.mark.parametrize("end", ["reset", "close"])
async def test_no_room_where_the_device_has_gone(device, end):
    """A reset and the driver's end end the waits for room at once, though another holds it; later there is none."""
    stream = device.create_stream(capacity=2)
    told = []

    async def want() -> None:
        with pytest.raises(StreamAborted, match="was reset" if end == "reset" else "was closed"):
            async with stream.room():
                pytest.fail("there was room")
        told.append(stream)

    async with stream.room(2), anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(want)
        while stream.statistics().waiting_for_room < 2:
            await anyio.lowlevel.checkpoint()
        await (device.reset() if end == "reset" else device.driver.aclose())
    assert len(told) == 2 and not stream.statistics().waiting_for_room
    with pytest.raises(InvalidHandle if end == "reset" else NotInitialized):
        async with stream.room():
            pytest.fail("there was room")
