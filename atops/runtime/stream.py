"""A stream: an asyncio task queue on a device. Every verb is a `def` that enqueues and returns at once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Never
from weakref import ref

from atops.base.errors import AtopsError, ExecutionError, InvalidHandle, InvalidType
from atops.base.neighbours import answers, methods_of, refuse_await
from atops.runtime.board.current_device import current_ordinal, enter, leave, use_stream
from atops.runtime.board.handles import HANDLES, Remains, handle_from, lend
from atops.runtime.commands.events import Cancelled
from atops.runtime.core.capacity import Room
from atops.runtime.core.completion import log_if_unseen, look_at, over
from atops.runtime.core.order import before_end
from atops.runtime.driver import Driver, current_board
from atops.runtime.owning_queue import HIGHEST, LOWEST, OwningQueue
from atops.runtime.queues.abort import abort_and_wait, abort_stream
from atops.runtime.queues.queue import StreamQueue
from atops.runtime.stream_memory import MemoryVerbs
from atops.runtime.stream_reports import StreamStatistics, describe, html_of, statistics_of
from atops.runtime.stream_work import WorkVerbs

if TYPE_CHECKING:
    from atops.runtime.device import Device
    from atops.runtime.races.command_order import StreamEnd

__all__ = ("PER_THREAD", "AutoSynchronize", "Stream", "queue_of", "stream_from")

PER_THREAD: Final = 2  # the handle of each thread's own stream, as 0 is that of the null stream


@answers("Stream")
class Stream(WorkVerbs):
    """Commands of one device in order. Make one with `Device.create_stream`.

    `async with stream:` owns the buffers that its verbs make: leaving the block waits for the work and frees them;
    leaving it by an exception aborts the work first. `await stream` waits for what is enqueued and raises its failure.
    `with stream:` only makes it the current stream of its device (`Device.current_stream`), and that the current
    device, with its driver; it ends nothing.
    """

    __slots__ = ()  # it may be made anew at any time: all there is to a stream is in its queue

    def __init__(self, queue: OwningQueue | None = None, **foreign: Never) -> None:
        if not isinstance(queue, OwningQueue):  # a call of the program's; the runtime gives a queue
            given = ", ".join(f"{name}={foreign[name]!r}" for name in foreign) or repr(queue)
            raise InvalidType(f"Stream({given}) makes no stream; use device.create_stream()")
        self._queue = queue
        queue.known_as(self)

    # ---- lifecycle

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self.aclose()
        elif issubclass(kind, GeneratorExit):  # of a coroutine that is thrown away, which may not wait
            self.abort()
            self.close()
        else:
            self.close()
            await abort_and_wait((self._queue,))

    async def aclose(self) -> None:
        """Wait for the work, free the stream's buffers and close it. Idempotent.

        When the wait is cancelled the work is aborted, and what runs is waited for: at most `abort_grace` and a second,
        by asyncio, anyio and trio alike. What was allocated is freed in any case. A failure that was never looked at is
        logged.
        """
        self.close()
        end = self._end()
        try:
            await over(self._queue.outstanding())
            self._over(end)
        except GeneratorExit:
            self.abort()
            raise
        except BaseException:
            await abort_and_wait((self._queue,))
            raise
        if (failure := self._queue.failure) is not None:
            log_if_unseen(self._queue, failure)

    def __enter__(self) -> Stream:
        context = self._queue.context
        enter(self, context.board, context.ordinal, {context: self})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        leave(self)

    def use(self) -> Stream:
        """Make it the current stream of its device, and that the current device, with its driver, until others are.

        For this task, or this thread outside of tasks; inside `with device:` or `with stream:`, until the block is
        left. Returns the stream. Raises InvalidHandle once it is closed.
        """
        if self.closed:
            raise InvalidHandle(f"cannot use {self.label}: it is closed")
        use_stream(self, self._queue.context)
        return self

    def close(self) -> None:
        """Close without waiting: no more commands, those enqueued still run, the stream's buffers are freed after them.

        Idempotent. In a finalizer or a signal handler that came in the middle of an enqueue, the driver does it soon.
        The null stream and a thread's own stream give back their buffers and go on: they are the device's.
        """
        refuse_await("`await stream.aclose()`")
        self._queue.close()

    def abort(self, reason: ExecutionError | None = None) -> int:
        """Drop what has not started, and end what runs at its next chance. Returns how many commands were dropped.

        Their completions fail with StreamAborted. Parked waits end now, kernels when next suspended; a copy that has
        begun ends. Duties (frees, callbacks) run. The stream stays usable. 0 amid an enqueue: the driver does it.
        """
        refuse_await("abort() alone; `await stream` waits for what still runs")
        if (detector := self._queue.board.detector) is not None:
            detector.given_up(self._queue)
        return abort_stream(self._queue, reason)

    # ---- failure

    @property
    def error(self) -> AtopsError | None:
        """The first failure since the last `clear_error`, or None."""
        failure = self._queue.failure
        look_at(failure)
        return failure

    def clear_error(self) -> AtopsError | None:
        """Forget the stream's failure, so that later commands run again. Returns what it was."""
        return self._queue.clear_error()

    def raise_error(self) -> None:
        """Raise a fresh exception for the stream's failure, if there is one."""
        self._queue.raise_error()

    # ---- room

    def room(self, places: int | None = None) -> Room:
        """Reserve places in a stream with a capacity: `async with stream.room(n):`, first come, first served.

        Inside the block n commands are taken and no more; without a number as many as there are places free, at least
        one. `upload` and `zeros` are two commands, any other verb is one; frees and callbacks take no place.
        Raises InvalidValue for more places than the capacity, IllegalState for a stream without one.
        """
        return Room(self._queue, places)

    def room_sync(self, places: int | None = None, timeout: float | None = None) -> AbstractContextManager[Room]:
        """As `room`, for plain code: `with stream.room_sync(n):` blocks until there is room.

        `timeout` is in seconds. Raises TimeoutError, or WouldDeadlock where the wait could never end.
        """
        return self.room(places).entered_sync(timeout)

    # ---- as a queue

    async def join(self) -> None:
        """Wait until nothing is left, of what is enqueued meanwhile too, as `asyncio.Queue.join` does.

        Then raise the stream's failure if there is one. `await stream` waits for what is enqueued by now.
        """
        self._queue.context.check_alive()
        end = self._end()
        await over(self._queue.outstanding())
        while items := self._queue.outstanding():
            end = self._end()
            await over(items)
        self._over(end)
        self._queue.context.synchronised()
        self._queue.raise_error()

    def qsize(self) -> int:
        """Return how many commands are not over, the running one too. (`empty()` allocates: ask `is_done`.)"""
        end = self._end()
        count = sum(item.command.__class__ is not Cancelled for item in self._queue.pending())
        if count:
            self._queue.board.asked_in_vain(self._queue)
        else:
            self._over(end)
        return count

    def full(self) -> bool:
        """Return whether one more command would raise StreamFull here. False without a capacity."""
        if self._queue.places is None or self._queue.places.takes(self._queue, 1):
            return False
        self._queue.board.asked_in_vain(self._queue)
        return True

    # ---- waiting

    def __await__(self) -> Generator[object, object, Stream]:
        context = self._queue.context
        context.check_alive()
        context.free_dropped()
        before = before_end(self._queue) if context.order.host_asked else None
        end = self._end()
        yield from over(self._queue.outstanding()).__await__()
        self._over(end)
        context.synchronised(before)
        self._queue.raise_error()
        return self

    def sync(self, timeout: float | None = None) -> None:
        """Block until everything enqueued so far is over, then raise the stream's failure if there is one.

        `timeout` is in seconds. Raises TimeoutError, or WouldDeadlock where the wait could never end
        (TOPS Runtime API, 2.4 topsStreamSynchronize).
        """
        refuse_await("`await stream`")
        context = self._queue.context
        context.check_alive()
        context.free_dropped()
        before = before_end(self._queue) if context.order.host_asked else None
        end = self._end()
        self._queue.board.wait_all(self._queue.outstanding(), timeout)
        self._over(end)
        context.synchronised(before)
        self._queue.raise_error()

    def auto_synchronize(self) -> AutoSynchronize:
        """Wait for all that was enqueued when a block ends: `with stream.auto_synchronize():`, or `async with`.

        Raises as `sync` does. Where the block raises, it does not wait.
        """
        return AutoSynchronize(self)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to wait for (TOPS Runtime API, 2.4 topsStreamQuery)."""
        end = self._end()
        if not self._queue.outstanding():
            self._over(end)
            return True
        self._queue.board.asked_in_vain(self._queue)
        return False

    def _end(self) -> StreamEnd | None:
        """Return what stands for all that the stream was given by now, for the race detector, where there is one."""
        detector = self._queue.board.detector
        return None if detector is None else detector.end_of(self._queue)

    def _over(self, end: StreamEnd | None) -> None:
        """Tell the race detector that the program was told that all of this is over."""
        if end is not None and (detector := self._queue.board.detector) is not None:
            detector.over(end)

    @property
    def is_nonblocking(self) -> bool:
        """Whether it takes no part in null-stream order. The null stream does."""
        return not self._queue.blocking

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the least and the most urgent priority: (0, -2)."""
        return LOWEST, HIGHEST

    @staticmethod
    def legacy_default() -> Stream:
        """Return the null stream of the current device: `Device().null_stream`."""
        board = current_board()
        return board.device(current_ordinal(board.serial)).null_stream

    @staticmethod
    def per_thread_default() -> Stream:
        """Return this thread's own stream of the current device: `Device().per_thread_stream`."""
        board = current_board()
        return board.device(current_ordinal(board.serial)).per_thread_stream

    @staticmethod
    def from_handle(handle: int) -> Stream:
        """Return the stream of a handle: what `__tops_stream__` of another stream names, or a C-style call returned.

        0 is the null stream of the current device, 2 this thread's own stream there. Raises InvalidType for what is no
        int, InvalidHandle for a handle of no stream or of one that is destroyed, closed or collected; what a reset or a
        closed driver has to say of its streams.
        """
        if isinstance(handle, bool) or not hasattr(handle, "__index__"):
            raise InvalidType(f"from_handle() expects the handle of a stream, which is an int, got {handle!r}")
        handle = operator.index(handle)
        if handle == 0:
            return Stream.legacy_default()
        if handle == PER_THREAD:
            return Stream.per_thread_default()
        entry = HANDLES.get(handle)
        if entry is not None and isinstance(entry.context, Remains) and entry.context.dead is not None:
            raise entry.context.dead.fresh()
        thing = None if entry is None else entry.thing() if type(entry.thing) is ref else entry.thing
        if isinstance(thing, OwningQueue):
            thing = thing.stream
        if not isinstance(thing, Stream):
            raise InvalidHandle(f"{handle:#x} is no handle of a stream, or the stream was destroyed")
        thing._queue.context.check_alive()
        return thing

    # ---- as it was made: these cannot be set

    @property
    def label(self) -> str:
        """Its name, or "stream" and its number, or "null stream"."""
        return self._queue.label

    @property
    def number(self) -> int:
        """Its number in the driver, from 1 on; 0 of a null stream."""
        return self._queue.number

    @property
    def priority(self) -> int:
        """-2 (most urgent) to 0."""
        return self._queue.priority

    @property
    def capacity(self) -> int | None:
        """How many commands that are not over it takes; None: any number."""
        places = self._queue.places
        return None if places is None else places.limit

    @property
    def closed(self) -> bool:
        """Whether it was closed, and takes no more commands."""
        return self._queue.closed

    @property
    def cluster_mask(self) -> int | None:
        """The clusters that its kernels may use, a bit each; None: all."""
        return self._queue.cluster_mask

    @property
    def sip_mask(self) -> int | None:
        """The SIPs of each cluster that its kernels may use, a bit each; None: all."""
        return self._queue.sip_mask

    @property
    def flags(self) -> int:
        """The flags that a C-style call made it with; else 0."""
        return self._queue.flags

    @property
    def driver(self) -> Driver:
        """The driver of its board."""
        return self._queue.board.driver

    @property
    def device(self) -> Device:
        """Its device."""
        return self._queue.board.device(self._queue.context.ordinal)

    @property
    def device_id(self) -> int:
        """The ordinal of its device."""
        return self._queue.context.ordinal

    def __tops_stream__(self) -> tuple[int, int]:
        """Return (0, handle): the protocol's version, and what C-style calls and other libraries know the stream by.

        The handle is the same each time, and good until the stream is closed or collected. Raises
        InvalidHandle once it is closed.
        """
        if self.closed:
            raise InvalidHandle(f"{self.label} is closed, and has no handle")
        queue = self._queue
        with queue.board.lock:
            if not queue.handle:
                queue.handle = lend(queue, queue.context)
        return 0, queue.handle

    def statistics(self) -> StreamStatistics:
        """Return a snapshot: how many commands wait, what the head waits for, the capacity and the failure."""
        return statistics_of(self._queue)

    def __repr__(self) -> str:
        return describe(self._queue)

    def _repr_html_(self) -> str:
        return html_of(self._queue)


class AutoSynchronize:
    """A block that ends with a wait for a stream."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __enter__(self) -> Stream:
        return self._stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._stream.sync()

    async def __aenter__(self) -> Stream:
        return self._stream

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self._stream


def stream_from(thing: object) -> Stream:
    """Return the Stream that `thing` is, or names by `__tops_stream__`. Raises as `from_handle`, and InvalidType."""
    if issubclass(type(thing), Stream):  # and no wrapper of one
        assert isinstance(thing, Stream)
        return thing
    return Stream.from_handle(handle_from(thing))


methods_of(Stream, WorkVerbs, MemoryVerbs)
queue_of: Callable[[Stream], OwningQueue] = operator.attrgetter("_queue")  # what a Stream stands in front of
StreamQueue.stream_type = Stream
