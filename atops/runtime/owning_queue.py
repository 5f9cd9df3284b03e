"""The queue of a stream and the memory that it allocated: when that is given back, and what is kept until then."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import MethodType
from weakref import ref

from atops.base.errors import InvalidHandle, InvalidType, InvalidValue, StreamAborted
from atops.base.options import whole
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.handles import HANDLES
from atops.runtime.commands.memory import Alloc, Free
from atops.runtime.core.capacity import Capacity
from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event
from atops.runtime.memory.buffer import Buffer
from atops.runtime.pools.pool import MemoryPool
from atops.runtime.queues.drain import DrainedQueue

__all__ = ("HIGHEST", "LOWEST", "Lent", "OwningQueue")

OWNED = (Buffer, Event)  # what belongs to a driver and is given to its streams
HIGHEST, LOWEST = -2, 0  # priorities: a lower number is more urgent


class Lent(ref[Buffer]):
    """Memory that a stream allocated, and a weak reference to its buffer, whose end gives the memory back.

    When the last reference to the buffer goes, C code puts this into the device's `dropped`, whatever the thread is
    doing. The next call that looks at memory enqueues the free, or else the driver's thread does it soon.
    """

    __slots__ = ("allocation", "home", "item", "pool")

    allocation: Allocation
    home: OwningQueue
    item: Completion | None  # its free, once that was begun
    pool: MemoryPool

    def free(self, stream: OwningQueue | None = None) -> None:
        """Enqueue the free, in the order of `stream` (None: of the one that made it). Once; later calls do nothing."""
        self.home.give_back(self, stream)


class _Holding:
    """A waiter that keeps buffers until a command of another stream, which uses them, is over."""

    __slots__ = ("_buffers",)

    def __init__(self, buffers: list[Buffer]) -> None:
        self._buffers: list[Buffer] | None = buffers

    def wake(self) -> None:
        """Let go of them: the command is over."""
        self._buffers = None


class OwningQueue(DrainedQueue):
    """All that a stream is behind its public methods: its queue, and the memory that it allocated and has not freed.

    A free in its order comes after all that the stream was given before. What another stream's command uses is kept
    until that command is over.
    """

    __slots__ = ("_lasts", "_owned", "flags", "waited", "waited_kept")

    def __init__(
        self,
        context: DeviceContext,
        *,
        priority: int = 0,
        nonblocking: bool = False,
        capacity: int | None = None,
        name: str = "",
        flags: int = 0,
        null: bool = False,
        per_thread: bool = False,
        cluster_mask: int | None = None,
        sip_mask: int | None = None,
    ) -> None:
        if not whole(priority) or not HIGHEST <= priority <= LOWEST:
            raise InvalidValue(f"priority is {priority!r}; expected {HIGHEST} (most urgent) to {LOWEST}")
        if not isinstance(name, str):
            raise InvalidType(f"the name of a stream is {name!r}; expected a str")
        super().__init__(
            context,
            priority=priority,
            blocking=not nonblocking,
            null=null,
            capacity=None if capacity is None else Capacity(capacity, context.board),
            label=str.__str__(name),  # of a subclass, the characters alone: labels are written with no program code
            cluster_mask=cluster_mask,
            sip_mask=sip_mask,
        )
        self.flags = flags  # as it was created with in C style
        self._lasts = null or per_thread  # the board makes no other in its place
        self._owned: dict[Allocation, Lent] | None = None
        self.waited: dict[int, int] | None = None  # by another order, the newest command that comes before (`order`)
        self.waited_kept = False  # whether a record keeps it: then a copy is changed

    def close(self) -> None:
        """Carry out `Stream.close`."""
        if self.board.lock.is_owned():
            self.board.post(self.close)
            return
        self.free_owned()
        if self._lasts:
            return
        HANDLES.pop(self.handle, None)
        self.close_queue()

    def check_ours(self, value: object) -> None:
        """Raise InvalidHandle for what is another driver's: memory, whose addresses look alike, or an event."""
        if isinstance(value, OWNED) and (driver := value.driver) is not None and driver is not self.board.driver:
            raise InvalidHandle(f"{value!r} is of {driver!r}; {self.label} is of {self.board!r}")

    def check_room(self, places: int) -> None:
        """Raise StreamFull where not all commands of one verb would be taken: it does all of them or nothing."""
        if self.places is not None:
            with self.board.lock:
                self.places.check(self, places)

    def made_at(self, address: int) -> Buffer:
        """Return the buffer at an address that the stream's verbs made. Raises InvalidHandle where there is none."""
        for buffer in self.owned.values():
            if buffer.address == address:
                return buffer
        raise InvalidHandle(f"{self.label} has no buffer at {address:#x} to free; free the Buffer itself")

    @property
    def owned(self) -> dict[Allocation, Buffer]:
        """The buffers that the stream's verbs made and that were not given back, in order, by memory: a snapshot."""
        buffers = ((allocation, lent()) for allocation, lent in list((self._owned or {}).items()))
        return {allocation: buffer for allocation, buffer in buffers if buffer is not None}

    def free_owned(self) -> None:
        """Give back all that the stream's verbs made and that is left."""
        for lent in list((self._owned or {}).values()):
            if (buffer := lent()) is None:
                lent.free(self)
            else:
                buffer.release_in(self)

    def keep(self, item: Completion, memory: Iterable[object]) -> Completion:
        """Keep memory that other streams' verbs made until a command of this stream is over. Returns the command."""
        buffers: list[Buffer] = []
        for each in memory:
            owner = each.owner if isinstance(each, Allocation) else None
            if owner is not None and owner.home is not self and (buffer := owner()) is not None:
                buffers.append(buffer)
        if buffers:
            item.add_waiter(_Holding(buffers))
        return item

    def take_memory(self, nbytes: int, chosen: MemoryPool | None) -> tuple[MemoryPool, Allocation]:
        """Allocate memory in stream order, from a pool or the device's current one. Returns the pool with it."""
        pool: MemoryPool = self.context.current_pool if chosen is None else chosen
        if chosen is not None and not isinstance(chosen, MemoryPool):
            raise InvalidType(f"the pool is {chosen!r}; expected a MemoryPool")
        if self.context.dropped:
            self.context.free_dropped()
        allocation, after, own = pool.take(nbytes, self)
        after = (*after, *own)
        try:
            # Behind frees it is a duty: neither a failure nor an abort skips the look whether the memory is in use.
            self.submit(Alloc(allocation, pool, after), duty=bool(after), after=after)
        except BaseException:
            pool.cancel(allocation)
            raise
        return pool, allocation

    def give_back(self, lent: Lent, stream: OwningQueue | None) -> None:
        """Enqueue the free of memory made here, unless that was done. Only `Lent.free` calls it.

        Ctrl-C may come anywhere: then it is called once more, and goes on with the free that was begun.
        """
        if self.board.lock.is_owned():  # a finalizer or a signal handler in the middle of an enqueue
            self.board.post(partial(lent.free, stream))
            return
        owned, allocation = self._owned, lent.allocation
        if owned is None:
            return
        try:
            if owned.pop(allocation, None) is None:
                return  # given back already
            if self.board.closed is None:
                self._enqueue_free(lent, self if stream is None else stream)
        except BaseException as error:
            owned[allocation] = lent
            if not isinstance(error, Exception) and lent() is None and lent not in self.context.dropped:
                self.context.dropped.append(lent)
            raise
        allocation.owner = None  # it leads back to the allocation

    @staticmethod
    def _enqueue_free(lent: Lent, stream: OwningQueue) -> None:
        begun = item = lent.item
        if item is None or isinstance(item.failure, StreamAborted):  # taken out again: no thread could be started
            begun = None
            item = lent.item = Completion(stream, Free(lent.allocation, lent.pool))
            item.duty = True
        queue = item.queue
        assert isinstance(queue, OwningQueue)
        if begun is None or not queue.has_taken(item):
            queue.submit_item(item)
        try:
            lent.pool.give(lent.allocation, queue, item)
        except InvalidHandle:
            if begun is None:
                raise

    def disown(self, allocation: Allocation, pool: MemoryPool) -> None:
        """Take back an allocation that Ctrl-C kept from the program, unless the end of its buffer gives it back."""
        if allocation not in (self._owned or ()):
            pool.cancel(allocation)

    def own(self, buffer: Buffer, pool: MemoryPool) -> None:
        """Free a buffer's memory when the last reference to it goes, or when the stream is closed."""
        if self._owned is None:
            self._owned = {}
        lent = Lent(buffer, self.context.dropped.append)
        lent.allocation = allocation = buffer.allocation
        lent.home, lent.pool, lent.item = self, pool, None
        allocation.owner = lent
        buffer.lend(MethodType(Lent.free, lent), self.board.executor.post_in_finalizer)
        self._owned[allocation] = lent
