"""A stream: an asyncio task queue on a device. Every verb is a `def` that enqueues and returns at once."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    NoReturn,
    ParamSpec,
    TypedDict,
    TypeVar,
    TypeVarTuple,
    Unpack,
    overload,
)
from weakref import ref

from atops.base.dims import DimLike
from atops.base.errors import AtopsError, IllegalState, InvalidHandle, InvalidType, InvalidValue
from atops.base.neighbours import answers
from atops.base.options import whole
from atops.base.waiting.current_loop import running_loop_adapter
from atops.device.memory.value_wait import Condition
from atops.kernels.arguments import Argument, Plain
from atops.kernels.kernel import Kernel
from atops.kernels.launch_config import LaunchConfig
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.current_device import current_ordinal, enter, leave, use_stream
from atops.runtime.board.handles import HANDLES, IsStream, Remains, handle_from, lend
from atops.runtime.commands.awaited import Awaited, WaitAwaited
from atops.runtime.commands.call import Call, is_async
from atops.runtime.commands.events import Cancelled, Record, WaitEvent
from atops.runtime.commands.launch import PLAIN_LAUNCH, Launch, LaunchOptions
from atops.runtime.commands.task import StreamTask
from atops.runtime.commands.values import WaitValue, WriteValue
from atops.runtime.core.capacity import Capacity, Room
from atops.runtime.core.completion import Completion, log_if_unseen, over
from atops.runtime.core.event import Event
from atops.runtime.core.order import after_wait, before_end, seen_at_record
from atops.runtime.driver import current_driver
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.copy_ends import word_of
from atops.runtime.queues.abort import abort_and_wait
from atops.runtime.queues.queue import submit_items
from atops.runtime.stream_memory import StreamMemory
from atops.runtime.stream_reports import StreamStatistics, describe, html_of, statistics_of

if TYPE_CHECKING:
    from atops.runtime.device import Device

__all__ = ("PER_THREAD", "AutoSynchronize", "LaunchKeywords", "Stream", "stream_from")

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
P = ParamSpec("P")
A1 = TypeVar("A1")  # what the parameters of a kernel are annotated with
A2 = TypeVar("A2")
A3 = TypeVar("A3")
A4 = TypeVar("A4")
A5 = TypeVar("A5")
A6 = TypeVar("A6")
A7 = TypeVar("A7")
Config = LaunchConfig | Sequence[DimLike]
new_tuple = tuple.__new__  # what a named tuple does, without the Python frame that it puts before it
HIGHEST, LOWEST = -2, 0  # priorities: a lower number is more urgent
PER_THREAD: Final = 2  # the handle of each thread's own stream, as 0 is that of the null stream


class LaunchKeywords(TypedDict, total=False):
    """The options of a launch."""

    shared: int | None
    cooperative: bool | None
    any_order: bool
    start: Event | None
    stop: Event | None


@answers("Stream")
class Stream(StreamMemory):
    """Commands of one device in order. Make one with `Device.create_stream`.

    `async with stream:` owns the buffers that its verbs make: leaving the block waits for the work and frees them;
    leaving it by an exception aborts the work first. `await stream` waits for what is enqueued and raises its failure.
    `with stream:` only makes it the current stream of its device (`Device.current_stream`), and that the current
    device, with its driver; it ends nothing.
    """

    __slots__ = ("_handle", "_lasts", "flags")

    def __init__(
        self,
        context: DeviceContext | None = None,
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
        if not isinstance(context, DeviceContext):
            raise InvalidType(f"Stream({context!r}) makes no stream; use device.create_stream()")
        if not whole(priority) or not HIGHEST <= priority <= LOWEST:
            raise InvalidValue(f"priority is {priority!r}; expected {HIGHEST} (most urgent) to {LOWEST}")
        if not isinstance(name, str):
            raise InvalidType(f"the name of a stream is {name!r}; expected a str")
        super().__init__(
            context,
            priority=priority,
            blocking=not nonblocking,
            null=null,
            capacity=None if capacity is None else Capacity(capacity, context.driver),
            label=name,
            cluster_mask=cluster_mask,
            sip_mask=sip_mask,
        )
        self.flags = flags
        self._lasts = null or per_thread  # the board makes no other in its place
        self._handle = 0  # its number in C-style calls, once it was asked for

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
            await abort_and_wait((self,))

    async def aclose(self) -> None:
        """Wait for the work, free the stream's buffers and close it. Idempotent.

        When the wait is cancelled the work is aborted, and what runs is waited for: at most `abort_grace` and a second,
        by asyncio, anyio and trio alike. What was allocated is freed in any case. A failure that was never looked at is
        logged.
        """
        self.close()
        try:
            await over(self.outstanding())
        except GeneratorExit:
            self.abort()
            raise
        except BaseException:
            await abort_and_wait((self,))
            raise
        if self.failure is not None:
            log_if_unseen(self, self.failure)

    def __enter__(self) -> Stream:
        enter(self, self.driver, self.context.ordinal, self)
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
        if self._closed:
            raise InvalidHandle(f"cannot use {self.label}: it is closed")
        use_stream(self)
        return self

    def close(self) -> None:
        """Close without waiting: no more commands, those enqueued still run, the stream's buffers are freed after them.

        Idempotent. In a finalizer or a signal handler that came in the middle of an enqueue, the driver does it soon.
        The null stream and a thread's own stream give back their buffers and go on: they are the device's.
        """
        if self.driver.lock.is_owned():
            self.driver.post(self.close)
            return
        self.free_owned()
        if self._lasts:
            return
        HANDLES.pop(self._handle, None)
        self.close_queue()

    # ---- kernels

    @overload
    def launch(
        self, kernel: Callable[[], NoReturn], config: Config,
        /, **options: Unpack[LaunchKeywords],
    ) -> Completion[None]: ...  # fmt: skip
    @overload
    def launch(
        self, kernel: Callable[[A1], NoReturn], config: Config,
        a1: Argument[A1] | Plain, /, **options: Unpack[LaunchKeywords],
    ) -> Completion[None]: ...  # fmt: skip
    @overload
    def launch(
        self, kernel: Callable[[A1, A2], NoReturn], config: Config,
        a1: Argument[A1] | Plain, a2: Argument[A2] | Plain, /, **options: Unpack[LaunchKeywords],
    ) -> Completion[None]: ...  # fmt: skip
    @overload
    def launch(
        self, kernel: Callable[[A1, A2, A3], NoReturn], config: Config,
        a1: Argument[A1] | Plain, a2: Argument[A2] | Plain, a3: Argument[A3] | Plain, /,
        **options: Unpack[LaunchKeywords],
    ) -> Completion[None]: ...  # fmt: skip
    @overload
    def launch(
        self, kernel: Callable[[A1, A2, A3, A4], NoReturn], config: Config,
        a1: Argument[A1] | Plain, a2: Argument[A2] | Plain, a3: Argument[A3] | Plain, a4: Argument[A4] | Plain, /,
        **options: Unpack[LaunchKeywords],
    ) -> Completion[None]: ...  # fmt: skip
    @overload
    def launch(
        self, kernel: Callable[[A1, A2, A3, A4, A5], NoReturn], config: Config,
        a1: Argument[A1] | Plain, a2: Argument[A2] | Plain, a3: Argument[A3] | Plain, a4: Argument[A4] | Plain,
        a5: Argument[A5] | Plain, /, **options: Unpack[LaunchKeywords],
    ) -> Completion[None]: ...  # fmt: skip
    @overload
    def launch(
        self, kernel: Callable[[A1, A2, A3, A4, A5, A6], NoReturn], config: Config,
        a1: Argument[A1] | Plain, a2: Argument[A2] | Plain, a3: Argument[A3] | Plain, a4: Argument[A4] | Plain,
        a5: Argument[A5] | Plain, a6: Argument[A6] | Plain, /, **options: Unpack[LaunchKeywords],
    ) -> Completion[None]: ...  # fmt: skip
    @overload
    def launch(
        self, kernel: Callable[Concatenate[A1, A2, A3, A4, A5, A6, A7, P], NoReturn], config: Config,
        a1: Argument[A1] | Plain, a2: Argument[A2] | Plain, a3: Argument[A3] | Plain, a4: Argument[A4] | Plain,
        a5: Argument[A5] | Plain, a6: Argument[A6] | Plain, a7: Argument[A7] | Plain, /,
        *more: Argument[Any] | Plain, **options: Unpack[LaunchKeywords],
    ) -> Completion[None]: ...  # fmt: skip
    @overload
    def launch(
        self, kernel: Kernel[...], config: Config, /, *, shared: int | None = None, cooperative: bool | None = None,
        any_order: bool = False, start: Event | None = None, stop: Event | None = None, **named: Argument[Any] | Plain,
    ) -> Completion[None]: ...  # fmt: skip
    def launch(  # type: ignore[misc]  # mypy finds no options in the keywords
        self,
        kernel: Kernel,
        config: Any,
        /,
        *arguments: object,
        shared: int | None = None,
        cooperative: bool | None = None,
        any_order: bool = False,
        start: Event | None = None,
        stop: Event | None = None,
        **named: object,
    ) -> Completion:
        """Enqueue a kernel: `config` is (blocks, threads) or a LaunchConfig; the rest are the kernel's arguments.

        `shared` is dynamic shared memory in bytes; `start` and `stop` are events bound to this launch; `any_order`
        permits it to begin before earlier work of the stream, but it runs in order. Arguments are taken at the call.
        Raises InvalidValue, InvalidType, IllegalAddress for freed memory, PeerAccessNotEnabled, LaunchOutOfResources or
        CooperativeLaunchTooLarge at the call; the completion fails with LaunchFailure naming block and thread
        (TOPS Runtime API, 2.9; TOPS C++, 8.1).
        """
        plain = start is None and stop is None
        options = PLAIN_LAUNCH if plain else LaunchOptions(start, stop, seen=seen_at_record(self))
        launch = self.prepare_launch(kernel, config, arguments, named, shared, cooperative, options)
        if plain:
            item = self.submit(launch)
        else:
            item = Completion(self, launch)
            self._mark(item, tuple(event for event in (start, stop) if event is not None), item)
        for memory in launch.bound.allocations:
            if (owner := memory.owner) is not None and owner.home is not self:
                return self.keep(item, launch.bound.allocations)
        return item

    def prepare_launch(
        self,
        kernel: Kernel,
        config: Any,
        arguments: tuple[object, ...],
        named: dict[str, object],
        shared: int | None = None,
        cooperative: bool | None = None,
        options: LaunchOptions = PLAIN_LAUNCH,
    ) -> Launch:
        """Check a launch and bind the kernel to its arguments, without enqueueing it."""
        if not isinstance(kernel, Kernel):
            raise InvalidType(f"launch of {kernel!r}; expected a function decorated with @kernel")
        geometry = kernel.configure(config, self.context.arch, shared, cooperative)
        for argument in (*arguments, *named.values()) if named else arguments:
            self.check_ours(argument)
        bound = kernel.bind(arguments, named)
        if not all(map(self.context.reaches, bound.allocations)):
            bound.check_reach(self.context.reaches)
        launch: Launch = new_tuple(Launch, (bound, geometry, options, copy_context()))
        if self.context.resources is not None:
            launch = self.context.resources.admit(self, launch)
        elif self._cluster_mask is not None or self._sip_mask is not None:  # else the architecture's limits are all
            self.context.clusters.check(
                kernel.name, geometry.block.volume, geometry.grid.volume, geometry.cooperative, self.cluster_mask,
                self.sip_mask,
            )  # fmt: skip
        return launch

    # ---- order

    def record(
        self, event: Event | None = None, *, timing: bool = True, once: bool = False, queryable: bool = True
    ) -> Event:
        """Enqueue a mark: the event is complete when everything enqueued so far is. Returns the event.

        Without an event it makes one, with the options of `Device.create_event`. Raises InvalidHandle for an event of
        another device or driver, InvalidValue for options beside an event (TOPS Runtime API, 2.5 topsEventRecord).
        """
        if timing and queryable and not once:
            event = Event(self.context) if event is None else event
        elif event is None:
            event = Event(self.context, timing=timing, once=once, queryable=queryable)
        else:
            raise InvalidValue(f"record() got options beside {event!r}; give them to create_event(), or no event")
        self._mark(Completion(self, Record(event, seen_at_record(self))), (event,))
        return event

    def _mark(self, item: Completion, events: tuple[Event, ...], launch: Completion | None = None) -> Completion:
        for event in events:
            self.check_ours(event)
            if not isinstance(event, Event):
                raise InvalidType(f"record() expects an Event or nothing, got {event!r}")
            if event.device_id != self.context.ordinal:
                of = f"{self.label} of device {self.context.ordinal}"
                raise InvalidHandle(f"{event!r} is of device {event.device_id}, {of}")
        submit_items((item,), events, launch)
        return item

    def wait(self, event: Event | IsStream | Awaitable[object] | Future[Any]) -> Completion[None]:
        """Enqueue a wait: later work starts after the event's current record. Never recorded: no wait.

        The event may be of another stream or device (TOPS Runtime API, 2.4 topsStreamWaitEvent). For another stream
        itself, any object with `__tops_stream__`, the wait is for all that it has been given so far: an event is
        recorded there; for a completion, for its command. Of what else can be awaited, a future or a task is waited for
        on its own loop, a future of concurrent.futures in any thread, and a coroutine is begun on this task's loop at
        once. What it raises fails the wait with HostCallFailure, a cancellation with AwaitableCancelled, a loop that
        closes first with LoopClosed.
        Raises InvalidHandle for an event or a stream of another driver, InvalidType for what cannot be awaited,
        IllegalState for a coroutine where no loop runs.
        """
        if not isinstance(event, Event):
            return self._wait_for(event)
        self.check_ours(event)
        if event.shared is not None and self.driver.options.strict:
            event.shared.waited_by(self.label)
        record = event.completion
        item = self.submit(WaitEvent(event, record))
        if record is not None and self.driver.frees:
            after_wait(self, record)
        return item

    def _wait_for(self, thing: object) -> Completion[None]:
        if hasattr(type(thing), "__tops_stream__"):
            return self.wait(self._reached(stream_from(thing)))
        if isinstance(thing, Completion):
            if thing.stream.driver is not self.driver:
                raise InvalidHandle(f"{thing!r} is of {thing.stream.driver!r}; {self.label} is of {self.driver!r}")
            after = self.submit(WaitEvent(thing, thing))
            if self.driver.frees:
                after_wait(self, thing)
            return after
        awaited = Awaited(self, thing)
        item: Completion[None] = Completion(self, WaitAwaited(awaited))
        item.add_waiter(awaited)
        try:
            submit_items((item,))
        except BaseException:
            if not item.seq:  # else it is in the queue
                awaited.close_unstarted()
            raise
        awaited.begin(item)
        return item

    def _reached(self, other: Stream) -> Event:
        """Record in another stream what this one is to wait for; nothing where this one would not take the wait."""
        if other.driver is not self.driver:
            raise InvalidHandle(f"{other!r} is of {other.driver!r}; {self.label} is of {self.driver!r}")
        if self._closed:
            raise InvalidHandle(f"cannot wait: {self.label} is closed")
        self._check_room(1)
        return other.record(Event(other.context, timing=False))

    def wait_value(
        self,
        target: Buffer,
        value: int,
        condition: Condition | str = Condition.Gte,
        *,
        mask: int | None = None,
        width: int = 32,
    ) -> Completion[None]:
        """Enqueue a wait until the word at the start of `target` satisfies `condition` against `value`.

        `width` is 32 or 64 bits; conditions: "Gte" (cyclic), "Eq", "And", "Nor", "GteUnsigned"; `mask` applies to the
        word first. Every way of writing is noticed. Raises InvalidValue for a bad width, condition, value or alignment
        (TOPS Runtime API, 2.4 topsStreamWaitValue32Async).
        """
        self.check_ours(target)
        word = word_of(target, value, condition, width, mask)
        wait = WaitValue(word.allocation, word.offset, width, value, word.condition, mask)
        return self.keep(self.submit(wait), (word.allocation,))

    def write_value(self, target: Buffer, value: int, *, width: int = 32) -> Completion[None]:
        """Enqueue a store of a 32- or 64-bit word at the start of `target`, in stream order.

        Raises InvalidValue for a bad width, value or alignment (TOPS Runtime API, 2.4 topsStreamWriteValue32Async).
        """
        self.check_ours(target)
        word = word_of(target, value, Condition.Gte, width)
        return self.keep(self.submit(WriteValue(word.allocation, word.offset, width, value)), (word.allocation,))

    @overload
    def call(
        self, function: Callable[[*Arguments], Coroutine[Any, Any, T]], *arguments: *Arguments, holds: bool = True
    ) -> Completion[T]: ...
    @overload
    def call(
        self, function: Callable[[*Arguments], T], *arguments: *Arguments, holds: bool = True
    ) -> Completion[T]: ...
    def call(self, function: Callable[..., object], *arguments: object, holds: bool = True) -> Completion:
        """Enqueue host work: a plain function runs on a callback thread, a coroutine function on this task's own loop.

        Later work waits for it unless `holds` is False. The completion's result is what it returns; what it raises
        fails the stream with HostCallFailure. Skipped when the stream has failed. The function must not wait for work
        that waits for it: such a blocking wait raises WouldDeadlock. Raises IllegalState for a coroutine function where
        no loop runs.
        """
        return self._call(function, arguments, holds, wants_error=False)

    @overload
    def add_callback(
        self, function: Callable[[AtopsError | None, *Arguments], Coroutine[Any, Any, T]], *arguments: *Arguments,
        holds: bool = False,
    ) -> Completion[T]: ...  # fmt: skip
    @overload
    def add_callback(
        self, function: Callable[[AtopsError | None, *Arguments], T], *arguments: *Arguments, holds: bool = False
    ) -> Completion[T]: ...
    def add_callback(self, function: Callable[..., object], *arguments: object, holds: bool = False) -> Completion:
        """Enqueue `function(error, *arguments)`, called exactly once in every case: after a failure or an abort too.

        `error` is the stream's failure or None. Later work waits for it only if `holds`
        (TOPS Runtime API, 2.4 topsStreamAddCallback).
        """
        return self._call(function, arguments, holds, wants_error=True)

    def create_task(
        self, coro: Coroutine[Any, Any, T], *, name: object = None, context: Context | None = None
    ) -> StreamTask[T]:
        """Enqueue a coroutine, as `asyncio.create_task` takes it: it runs on this task's own loop, in stream order.

        It begins when the stream comes to it, in `context` or a copy of this one, and later work waits for its end.
        Returned is a completion with `get_name`, `set_name`, `get_coro` and `get_context`. What it raises fails the
        stream, as with `call`. A coroutine that is refused, skipped or dropped is closed.
        Raises InvalidType for what is no coroutine or no context, IllegalState where no loop runs, and what enqueueing
        raises: StreamFull, InvalidHandle.
        """
        if not isinstance(coro, Coroutine):
            raise InvalidType(f"create_task() expects a coroutine, got {coro!r}; {_instead_of_a_task(coro)}")
        task: StreamTask[T] | None = None
        try:
            task = StreamTask(self, coro, name, context)
            submit_items((task,))
        except BaseException:
            if task is None or not task.seq:  # else it is in the queue
                coro.close()
            raise
        return task

    def _call(
        self, function: Callable[..., object], arguments: tuple[object, ...], holds: bool, wants_error: bool
    ) -> Completion:
        if isinstance(function, Coroutine):
            function.close()
            raise InvalidType(f"a call of {function!r}; use create_task() for it, or call() with the function itself")
        if not callable(function):
            raise InvalidType(f"a call of {function!r}; expected a function or a coroutine function")
        if wants_error and (self._closed or self.context.dead is not None):  # as a duty it would be admitted
            raise (self.context.dead or InvalidHandle(f"cannot enqueue a callback: {self.label} is closed")).fresh()
        home = None
        if is_async(function) and (home := running_loop_adapter()) is None:
            raise IllegalState(f"{function!r} is a coroutine function and no loop runs here; enqueue it from one")
        command = Call(function, arguments, holds, wants_error, home, copy_context())
        item = self.submit(command, duty=wants_error)
        if not holds:
            with self.driver.lock:
                self._loose = True  # should the queue be empty again by now, this costs a look and no more
        return item

    def room(self, places: int | None = None) -> Room:
        """Reserve places in a stream with a capacity: `async with stream.room(n):`, first come, first served.

        Inside the block n commands are taken and no more; without a number as many as there are places free, at least
        one. `upload` and `zeros` are two commands, any other verb is one; frees and callbacks take no place.
        Raises InvalidValue for more places than the capacity, IllegalState for a stream without one.
        """
        return Room(self, places)

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
        self.context.check_alive()
        await over(self.outstanding())
        while items := self.outstanding():
            await over(items)
        self.context.synchronised()
        self.raise_error()

    def qsize(self) -> int:
        """Return how many commands are not over, the running one too. (`empty()` allocates: ask `is_done`.)"""
        count = sum(item.command.__class__ is not Cancelled for item in self.pending())
        if count:
            self.driver.asked_in_vain(self)
        return count

    def full(self) -> bool:
        """Return whether one more command would raise StreamFull here. False without a capacity."""
        if self.places is None or self.places.takes(self, 1):
            return False
        self.driver.asked_in_vain(self)
        return True

    # ---- waiting

    def __await__(self) -> Generator[Any, Any, Stream]:
        context = self.context
        context.check_alive()
        context.free_dropped()
        before = before_end(self) if context.order.host_asked else None
        yield from over(self.outstanding()).__await__()
        context.synchronised(before)
        self.raise_error()
        return self

    def sync(self, timeout: float | None = None) -> None:
        """Block until everything enqueued so far is over, then raise the stream's failure if there is one.

        `timeout` is in seconds. Raises TimeoutError, or WouldDeadlock where the wait could never end
        (TOPS Runtime API, 2.4 topsStreamSynchronize).
        """
        context = self.context
        context.check_alive()
        context.free_dropped()
        before = before_end(self) if context.order.host_asked else None
        self.driver.wait_all(self.outstanding(), timeout)
        context.synchronised(before)
        self.raise_error()

    def auto_synchronize(self) -> AutoSynchronize:
        """Wait for all that was enqueued when a block ends: `with stream.auto_synchronize():`, or `async with`.

        Raises as `sync` does. Where the block raises, it does not wait.
        """
        return AutoSynchronize(self)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to wait for (TOPS Runtime API, 2.4 topsStreamQuery)."""
        if not self.outstanding():
            return True
        self.driver.asked_in_vain(self)
        return False

    @property
    def is_nonblocking(self) -> bool:
        """Whether it takes no part in null-stream order. The null stream does."""
        return not self.blocking

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the least and the most urgent priority: (0, -2)."""
        return LOWEST, HIGHEST

    @staticmethod
    def legacy_default() -> Stream:
        """Return the null stream of the current device: `Device().null_stream`."""
        driver = current_driver()
        return driver.device(current_ordinal(driver.serial)).null_stream

    @staticmethod
    def per_thread_default() -> Stream:
        """Return this thread's own stream of the current device: `Device().per_thread_stream`."""
        driver = current_driver()
        return driver.device(current_ordinal(driver.serial)).per_thread_stream

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
        if not isinstance(thing, Stream):
            raise InvalidHandle(f"{handle:#x} is no handle of a stream, or the stream was destroyed")
        thing.context.check_alive()
        return thing

    @property
    def device(self) -> Device:
        """Its device."""
        return self.driver.device(self.context.ordinal)

    @property
    def device_id(self) -> int:
        """The ordinal of its device."""
        return self.context.ordinal

    def __tops_stream__(self) -> tuple[int, int]:
        """Return (0, handle): the protocol's version, and what C-style calls and other libraries know the stream by.

        The handle is the same each time, and good until the stream is closed or collected. Raises
        InvalidHandle once it is closed.
        """
        if self._closed:
            raise InvalidHandle(f"{self.label} is closed, and has no handle")
        with self.driver.lock:
            if not self._handle:
                self._handle = lend(self, self.context)
        return 0, self._handle

    def statistics(self) -> StreamStatistics:
        """Return a snapshot: how many commands wait, what the head waits for, the capacity and the failure."""
        return statistics_of(self)

    def __repr__(self) -> str:
        return describe(self)

    def _repr_html_(self) -> str:
        return html_of(self)


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


def _instead_of_a_task(thing: object) -> str:
    """Return what to do with what create_task() does not take."""
    if inspect.iscoroutinefunction(thing):
        return "call the coroutine function: create_task(function())"
    if inspect.isawaitable(thing):
        return "have the stream wait for it: wait(awaitable)"
    return "use call(function, *arguments) for a function"


def stream_from(thing: object) -> Stream:
    """Return the Stream that `thing` is, or names by `__tops_stream__`. Raises as `from_handle`, and InvalidType."""
    if issubclass(type(thing), Stream):  # and no wrapper of one
        assert isinstance(thing, Stream)
        return thing
    return Stream.from_handle(handle_from(thing))
