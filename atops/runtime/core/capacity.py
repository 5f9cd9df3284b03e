"""Back-pressure of one stream: how many commands it takes, and reservations in order of arrival.

Guarded by the driver's lock; waiters are woken after it is released.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType

from atops.base.errors import AtopsError, IllegalState, InvalidValue, StreamFull
from atops.base.options import whole
from atops.base.waiting.current_loop import current_loop_adapter
from atops.base.waiting.loop_adapter import LoopWaiter
from atops.base.waiting.parking_lot import ParkingLot, Waiter
from atops.runtime.core.completion import Owner

__all__ = ("Capacity", "Room")

ROOMS: ContextVar[tuple[Room, ...]] = ContextVar("atops_rooms", default=())


class Capacity:
    """Places in a stream: used by commands that are not over, held by reservations, or free."""

    __slots__ = ("_waiting", "free", "limit", "refusal")

    def __init__(self, limit: int) -> None:
        if not whole(limit) or limit < 1:
            raise InvalidValue(f"capacity is {limit!r}; at least 1 command is right, or None for no limit")
        self.limit = limit
        self.free = limit
        self.refusal: AtopsError | None = None  # why nobody gets room any more
        self._waiting: ParkingLot[Room] = ParkingLot("room in a stream")

    def take(self, stream: Owner) -> Room | None:
        """Use one place: of the innermost reservation in force here, else a free one. Raises StreamFull.

        Returns the reservation that gave it, for `untake`.
        """
        for room in reversed(ROOMS.get()):
            if room.stream is stream and room.left > 0:
                room.left -= 1
                return room
        if self.free < 1 or len(self._waiting):
            raise self._full(stream, "one more is")
        self.free -= 1
        return None

    def check(self, stream: Owner, places: int) -> None:
        """Raise StreamFull unless so many commands in a row would be taken here now."""
        reserved = sum(room.left for room in ROOMS.get() if room.stream is stream)
        if places > reserved + (0 if len(self._waiting) else self.free):
            raise self._full(stream, f"{places} more are")

    def _full(self, stream: Owner, wanted: str) -> StreamFull:
        return StreamFull(
            f"{stream.label} holds {self.limit - self.free} of {self.limit} commands (reservations included), and "
            f"{wanted} wanted; wait for some to finish, or enqueue inside `async with stream.room(n)`"
        )

    def untake(self, room: Room | None) -> list[Waiter]:
        """Undo a `take`; returns whom to wake. The place of a reservation that has ended is free, as the rest of it."""
        if room is None or room.ended:
            return self.give_back(1)
        room.left += 1
        return []

    def give_back(self, places: int) -> list[Waiter]:
        """Free places and hand them to reservations in order of arrival; returns whom to wake."""
        self.free += places
        served: list[Waiter] = []
        while len(self._waiting):
            room = next(iter(self._waiting))
            if room.places > self.free:
                break  # first come, first served: a small reservation does not overtake a large one
            self._waiting.take()
            self.free -= room.places
            room.left = room.places
            room.granted = True
            if room.waiter is not None:
                served.append(room.waiter)
        return served

    def reserve(self, room: Room) -> None:
        """Grant a reservation now, or park it. Raises what the stream refuses room with."""
        if self.refusal is not None:
            raise self.refusal.fresh()
        self._waiting.park(room)
        self.give_back(0)

    def withdraw(self, room: Room) -> list[Waiter]:
        """End a reservation, granted or not; returns whom to wake."""
        self._waiting.discard(room)
        left, room.left, room.ended = room.left, 0, True
        return self.give_back(left)

    def close(self, refusal: AtopsError) -> list[Waiter]:
        """Refuse room from now on, to those who wait for it too; returns whom to wake."""
        self.refusal = refusal
        return [room.waiter for room in self._waiting.take_all() if room.waiter is not None]

    @property
    def waiting(self) -> int:
        """How many reservations wait."""
        return len(self._waiting)


class Room:
    """A reservation of places in a stream: an async context manager.

    Commands enqueued inside the block use it up; what is left goes back when the block ends or the wait is cancelled.
    Entering it raises InvalidHandle when the stream is closed, or is closed before there is room, and StreamAborted
    when its device is reset or its driver closed meanwhile; later it raises what the stream itself does.
    """

    def __init__(self, stream: Owner, places: int) -> None:
        capacity = stream.capacity
        if capacity is None:
            raise IllegalState(f"{stream.label} has no capacity; create it with create_stream(capacity=n)")
        if not whole(places) or not 1 <= places <= capacity.limit:
            raise InvalidValue(f"room for {places!r} commands in {stream.label}; 1 to {capacity.limit} is right")
        self.stream = stream
        self.places = places
        self.left = 0
        self.granted = False
        self.ended = False
        self.waiter: LoopWaiter | None = None
        self._capacity = capacity
        self._token: Token[tuple[Room, ...]] | None = None

    def add_waiter(self, waiter: LoopWaiter) -> bool:
        """Wait for the grant. Returns False when it came already."""
        with self.stream.driver.lock:
            if self.granted or self._capacity.refusal is not None:
                return False
            self.waiter = waiter
            return True

    def discard_waiter(self, waiter: LoopWaiter) -> None:
        """Give up waiting. The reservation is withdrawn by `__aenter__`."""
        self.waiter = None

    async def __aenter__(self) -> Room:
        if self.granted:
            raise IllegalState(f"room in {self.stream.label} was entered already; a room of its own each time is right")
        context = self.stream.context
        with self.stream.driver.lock:
            context.check_alive()
            self._capacity.reserve(self)
            context.rooms[self] = self._capacity
        try:
            await current_loop_adapter().park(self)
            if not self.granted and (refusal := self._capacity.refusal) is not None:
                raise refusal.fresh()
        except BaseException:
            self._end()
            raise
        self._token = ROOMS.set((*ROOMS.get(), self))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        token, self._token = self._token, None
        try:
            if token is not None:
                ROOMS.reset(token)
        except ValueError:  # left in another context than it was entered in: there it gave nobody a place
            pass
        finally:
            self._end()

    def _end(self) -> None:
        with self.stream.driver.lock:
            self.stream.context.rooms.pop(self, None)
            served = self._capacity.withdraw(self)
        for waiter in served:
            waiter.wake()
