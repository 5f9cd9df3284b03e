"""Back-pressure of one stream: how many commands it takes, and reservations in order of arrival.

A place is free, or held by an unfinished command or by a reservation. It gives itself back when nothing holds it any
more. A reservation waits in the lot until it is granted, refused or withdrawn; each of these steps can be repeated
after a Ctrl-C in the middle of it. Reservations are guarded by the driver's lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING

from atops.base.errors import AtopsError, IllegalState, InvalidValue, StreamFull
from atops.base.options import whole
from atops.base.waiting.current_loop import checkpoint, current_loop_adapter
from atops.base.waiting.loop_adapter import LoopWaiter
from atops.base.waiting.parking_lot import ParkingLot, wake
from atops.runtime.core.host_waits import standing
from atops.runtime.executors.executor import HERE

if TYPE_CHECKING:
    from atops.runtime.core.completion import Completion
    from atops.runtime.driver_board import Board
    from atops.runtime.queues.queue import StreamQueue
    from atops.runtime.stream import Stream

__all__ = ("Capacity", "QueuePlace", "Room")

new_tuple = tuple.__new__
ROOMS: ContextVar[tuple[Room, ...]] = ContextVar("atops_rooms", default=())


class QueuePlace(tuple["Capacity"]):
    """The right to one command in a stream of that capacity. It gives itself back when it is dropped."""

    __slots__ = ()

    def __del__(self) -> None:
        capacity = self[0]
        try:
            capacity.spare.append(capacity)
        finally:
            if capacity.parked:
                capacity.hand_on()


class Capacity:
    """The places of a stream."""

    __slots__ = ("__weakref__", "_driver", "limit", "parked", "refusal", "spare")

    def __init__(self, limit: int, board: Board) -> None:
        if not whole(limit) or limit < 1:
            raise InvalidValue(f"capacity is {limit!r}; expected 1 command or more, or None for no limit")
        self.limit = limit
        self.refusal: AtopsError | None = None  # why reservations are refused, once they are
        self.spare = [self] * limit  # one for each free place: taken and given back without a lock
        self.parked: ParkingLot[Room] = ParkingLot("room in a stream")
        self._driver = board

    @property
    def free(self) -> int:
        """How many places are free."""
        return len(self.spare)

    @property
    def waiting(self) -> int:
        """How many reservations wait."""
        return len(self.parked)

    def take(self, stream: StreamQueue) -> QueuePlace:
        """Take one place: of the innermost reservation in force here, else a free one. Raises StreamFull.

        In a block of `room(places)` only the reserved places can be taken.
        """
        rooms = _rooms_in(stream)
        for room in reversed(rooms):
            if room.held:
                return room.held.pop()
        if rooms and all(room.places for room in rooms):
            raise self._used(stream, rooms[-1])
        if not self.parked:
            try:
                return self._take_spare()
            except IndexError:
                pass
        raise self._full(stream, "one more is")

    def _take_spare(self) -> QueuePlace:
        """Take a free place, in one call of C: Ctrl-C comes before or after it. Raises IndexError if there is none."""
        return new_tuple(QueuePlace, map(list.pop, (self.spare,)))

    def check(self, stream: StreamQueue, places: int) -> None:
        """Raise StreamFull unless so many commands in a row would be taken here now."""
        if not self.takes(stream, places):
            rooms = _rooms_in(stream)
            if rooms and all(room.places for room in rooms):
                raise self._used(stream, rooms[-1], places)
            raise self._full(stream, f"{places} more are")

    def takes(self, stream: StreamQueue, places: int) -> bool:
        """Return whether so many commands in a row would be taken here now."""
        rooms = _rooms_in(stream)
        limited = bool(rooms) and all(room.places for room in rooms)
        free = 0 if limited or self.parked else self.free
        return places <= free + sum(room.left for room in rooms)

    def _used(self, stream: StreamQueue, room: Room, wanted: int = 1) -> StreamFull:
        if not (left := sum(each.left for each in _rooms_in(stream))):
            return StreamFull(f"the {room.places} places of this room in {stream.label} are used; reserve more")
        return StreamFull(
            f"this verb takes {wanted} places, and of the {room.places} of this room in {stream.label} {left} is left; "
            "reserve more"
        )

    def _full(self, stream: StreamQueue, wanted: str) -> StreamFull:
        return StreamFull(
            f"{stream.label} holds {self.limit - self.free} of {self.limit} commands (reservations included), and "
            f"{wanted} wanted; wait for some to finish, or enqueue inside `async with stream.room(n)`"
        )

    def hand_on(self) -> None:
        """Have the driver hand free places to reservations. From any thread and any finalizer."""
        self._driver.post(self.serve)

    def serve(self) -> None:
        """Hand free places to reservations in order of arrival: a small one does not overtake a large one."""
        served: list[LoopWaiter] = []
        try:
            with self._driver.lock:
                self._grant(served)
            wake(served)
        except BaseException:  # Ctrl-C: the driver does the rest
            self.hand_on()
            wake(served)
            raise

    def _grant(self, served: list[LoopWaiter]) -> None:
        """Take out of the lot the first reservations for which there are places; once they are refused, all."""
        for room in self.parked:
            if not room.granted and self.refusal is None:
                if room.wanted - len(room.held) > self.free:
                    return
                while len(room.held) < room.wanted:
                    room.held.append(self._take_spare())
                room.granted = True
            if room.waiter is not None:
                served.append(room.waiter)
            self.parked.discard(room)  # last: what was cut off before is done again

    def most_until(self, room: Room) -> int:
        """Return how many places the largest reservation wants, of those up to a waiting one."""
        with self._driver.lock:
            waiting = list(self.parked)
        return max(each.wanted for each in (*waiting[: waiting.index(room)], room)) if room in waiting else room.wanted

    def reserve(self, room: Room) -> None:
        """Append a reservation. With the driver's lock held; call `serve` next. Raises what refuses room."""
        if self.refusal is not None:
            raise self.refusal.fresh()
        self.parked.park(room)

    def withdraw(self, room: Room) -> None:
        """End a reservation, granted or not, and let those behind it have its places. With no lock held."""
        with self._driver.lock:
            self.parked.discard(room)
        room.held.clear()
        self.serve()

    def close(self, refusal: AtopsError) -> None:
        """Refuse room from now on, to waiting reservations too."""
        with self._driver.lock:
            self.refusal = refusal
        if self.parked:
            self.hand_on()


def _rooms_in(stream: StreamQueue) -> list[Room]:
    """Return the rooms in force here, without those that have ended but are still in a task's context."""
    return [room for room in ROOMS.get() if room.queue is stream and room.entered]


class Room:
    """A reservation of places in a stream: an async context manager.

    Commands enqueued inside the block use it up, and no others are taken there; what is left goes back when the block
    ends or the wait is cancelled. Without a number it waits until there is one place, and more are taken as commands
    come and places are free. Entering it raises InvalidHandle when the stream is closed, or is closed before there is
    room, and StreamAborted when its device is reset or its driver closed meanwhile; later it raises what the stream
    itself does.
    """

    def __init__(self, queue: StreamQueue, places: int | None) -> None:
        capacity = queue.places
        if capacity is None:
            raise IllegalState(f"{queue.label} has no capacity; create it with create_stream(capacity=n)")
        if places is not None and (not whole(places) or not 1 <= places <= capacity.limit):
            raise InvalidValue(f"room for {places!r} commands in {queue.label}; expected 1 to {capacity.limit}")
        self.queue = queue
        self.places = places
        self.wanted = places or 1
        self.held: list[QueuePlace] = []
        self.granted = False
        self.entered = False  # whether its block runs
        self.waiter: LoopWaiter | None = None
        self._capacity: Capacity = capacity
        self._token: Token[tuple[Room, ...]] | None = None

    @property
    def stream(self) -> Stream:
        """The stream that it is room in."""
        return self.queue.stream

    @property
    def left(self) -> int:
        """How many of its places no command has used."""
        return len(self.held)

    def add_waiter(self, waiter: LoopWaiter) -> bool:
        """Wait for the grant. Returns False when it came already."""
        with self.queue.board.lock:
            if self.is_done:
                return False
            self.waiter = waiter
            return True

    def discard_waiter(self, waiter: LoopWaiter) -> None:
        """Give up waiting. The reservation is withdrawn by `leave`."""
        self.waiter = None

    @property
    def is_done(self) -> bool:
        """Whether it is granted, or refused for good."""
        return self.granted or self._capacity.refusal is not None

    async def __aenter__(self) -> Room:
        self._check_fresh()
        try:
            self._ask()
            with standing(self.queue.board.tracer):
                await current_loop_adapter().park(self)
            self._enter()
        except BaseException:
            self.leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()
        if kind is None:
            await checkpoint()

    def asked_by(self, command: Completion | None) -> None:
        """Note the command whose coroutine or function waits for the room now; None when it no longer does."""
        if command is not None:
            self.queue.board.stall.rooms[self] = command
        else:
            self.queue.board.stall.rooms.pop(self, None)

    @contextmanager
    def entered_sync(self, timeout: float | None) -> Iterator[Room]:
        """Enter it for a block of plain code. Raises TimeoutError, and WouldDeadlock where the wait could never end."""
        self._check_fresh()
        board = self.queue.board
        try:
            self._ask()
            if not self.is_done:
                self.asked_by(HERE.callback)
                board.guard_blocking((), timeout, self)
            with standing(board.tracer):
                in_time = board.executor.block(self, timeout)
            if not in_time:
                raise TimeoutError(f"there was no room in {self.queue.label} within {timeout} s")
            self.asked_by(None)
            self._enter()
            yield self
        finally:
            try:
                self.leave()
            except BaseException:  # Ctrl-C in the middle of it
                self.leave()
                raise

    def _check_fresh(self) -> None:
        if self.granted:
            raise IllegalState(f"room in {self.queue.label} was entered already; make a new one with room()")

    def _ask(self) -> None:
        with self.queue.board.lock:
            self.queue.context.check_alive()
            self._capacity.reserve(self)
        self._capacity.serve()

    def _enter(self) -> None:
        """Have the places used by what is enqueued from here on, or raise why there are none."""
        if not self.granted and (refusal := self._capacity.refusal) is not None:
            raise refusal.fresh()
        self.entered = True
        if (detector := self.queue.board.detector) is not None:
            detector.saw_room(self.queue)
        self._token = ROOMS.set((*ROOMS.get(), self))

    def leave(self) -> None:
        """Give back what no command has used, and wait no more. Again after a Ctrl-C in the middle of it."""
        self.entered = False
        self.asked_by(None)
        if self._token is not None:
            with suppress(ValueError, RuntimeError):  # in another context than it was entered in, or again
                ROOMS.reset(self._token)
            self._token = None
        self._capacity.withdraw(self)

    def __repr__(self) -> str:
        return f"<Room for {self.wanted} in {self.queue.label}: {'granted' if self.granted else 'waits'}>"
