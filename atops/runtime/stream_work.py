"""The verbs of a stream that run something or order it: launches, host work, marks and waits."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    NoReturn,
    ParamSpec,
    TypedDict,
    TypeVar,
    TypeVarTuple,
    Unpack,
    overload,
)

from atops.base.dims import DimLike
from atops.base.errors import AtopsError, IllegalState, InvalidHandle, InvalidType, InvalidValue
from atops.base.waiting.current_loop import running_loop_adapter
from atops.device.memory.value_wait import Condition
from atops.kernels.arguments import Argument, Plain
from atops.kernels.kernel import Kernel
from atops.kernels.launch_config import LaunchConfig
from atops.runtime.board.handles import IsStream, handle_from
from atops.runtime.commands.awaited import Awaited, WaitAwaited
from atops.runtime.commands.call import Call, is_async
from atops.runtime.commands.events import Record, WaitEvent
from atops.runtime.commands.launch import PLAIN_LAUNCH, Launch, LaunchOptions
from atops.runtime.commands.task import StreamTask
from atops.runtime.commands.values import WaitValue, WriteValue
from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event
from atops.runtime.core.order import after_wait, seen_at_record
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.copy_ends import word_of
from atops.runtime.owning_queue import OwningQueue
from atops.runtime.queues.queue import submit_items
from atops.runtime.stream_memory import MemoryVerbs

if TYPE_CHECKING:
    from atops.runtime.stream import Stream

__all__ = ("LaunchKeywords", "WorkVerbs", "bound_events", "prepare_launch", "submit_launch")

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


class LaunchKeywords(TypedDict, total=False):
    """The options of a launch."""

    shared: int | None
    cooperative: bool | None
    any_order: bool
    start: Event | None
    stop: Event | None


class WorkVerbs(MemoryVerbs):
    """The verbs of a stream that run something or order it."""

    __slots__ = ()

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
        config: object,
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
        queue = self._queue
        options, events = (PLAIN_LAUNCH, ()) if start is None and stop is None else bound_events(queue, start, stop)
        launch = prepare_launch(queue, kernel, config, arguments, named, shared, cooperative, options)
        item = submit_launch(queue, launch, events) if events else queue.submit(launch)
        for memory in launch.bound.allocations:
            if (owner := memory.owner) is not None and owner.home is not queue:
                return queue.keep(item, launch.bound.allocations)
        return item

    # ---- order

    def record(
        self, event: Event | None = None, *, timing: bool = True, once: bool = False, queryable: bool = True
    ) -> Event:
        """Enqueue a mark: the event is complete when everything enqueued so far is. Returns the event.

        Without an event it makes one, with the options of `Device.create_event`. Raises InvalidHandle for an event of
        another device or driver, InvalidValue for options beside an event, or an option that is no bool (TOPS Runtime
        API, 2.5 topsEventRecord).
        """
        queue = self._queue
        if timing is True and queryable is True and once is False:
            event = Event(queue.context) if event is None else event
        elif event is None:
            event = Event(queue.context, timing=timing, once=once, queryable=queryable)
        else:
            raise InvalidValue(f"record() got options beside {event!r}; give them to create_event(), or no event")
        _mark(queue, Completion(queue, Record(event, seen_at_record(queue))), (event,))
        return event

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
        queue = self._queue
        if not isinstance(event, Event):
            return self._wait_for(event)
        queue.check_ours(event)
        if event.shared is not None and queue.board.options.strict:
            event.shared.waited_by(queue.label)
        record = event.completion
        item = queue.submit(WaitEvent(event, record))
        if record is not None and queue.board.frees:
            after_wait(queue, record)
        return item

    def _wait_for(self, thing: object) -> Completion[None]:
        queue = self._queue
        if hasattr(type(thing), "__tops_stream__"):
            return self.wait(self._reached(thing))
        if isinstance(thing, Completion):
            if thing.queue.board is not queue.board:
                raise InvalidHandle(f"{thing!r} is of {thing.queue.board!r}; {queue.label} is of {queue.board!r}")
            after = queue.submit(WaitEvent(thing, thing))
            if queue.board.frees:
                after_wait(queue, thing)
            return after
        awaited = Awaited(queue, thing)
        item: Completion[None] = Completion(queue, WaitAwaited(awaited))
        item.add_waiter(awaited)
        try:
            submit_items((item,))
        except BaseException:
            if not item.seq:  # else it is in the queue
                awaited.close_unstarted()
            raise
        awaited.begin(item)
        return item

    def _reached(self, thing: object) -> Event:
        """Record in another stream what this one is to wait for; nothing where this one would not take the wait."""
        other = thing if issubclass(type(thing), WorkVerbs) else self.from_handle(handle_from(thing))
        assert isinstance(other, WorkVerbs)
        queue, there = self._queue, other._queue
        if there.board is not queue.board:
            raise InvalidHandle(f"{other!r} is of {there.board!r}; {queue.label} is of {queue.board!r}")
        if queue.closed:
            raise InvalidHandle(f"cannot wait: {queue.label} is closed")
        queue.check_room(1)
        return other.record(Event(there.context, timing=False))

    @staticmethod
    @abstractmethod
    def from_handle(handle: int) -> Stream:
        """Return the stream of a handle."""

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
        queue = self._queue
        queue.check_ours(target)
        word = word_of(target, value, condition, width, mask)
        wait = WaitValue(word.allocation, word.offset, width, word.value, word.condition, word.mask)
        return queue.keep(queue.submit(wait), (word.allocation,))

    def write_value(self, target: Buffer, value: int, *, width: int = 32) -> Completion[None]:
        """Enqueue a store of a 32- or 64-bit word at the start of `target`, in stream order.

        Raises InvalidValue for a bad width, value or alignment (TOPS Runtime API, 2.4 topsStreamWriteValue32Async).
        """
        queue = self._queue
        queue.check_ours(target)
        word = word_of(target, value, Condition.Gte, width)
        write = WriteValue(word.allocation, word.offset, width, word.value)
        return queue.keep(queue.submit(write), (word.allocation,))

    @overload
    def call(
        self, function: Callable[[*Arguments], Coroutine[object, None, T]], *arguments: *Arguments, holds: bool = True
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
        self, function: Callable[[AtopsError | None, *Arguments], Coroutine[object, None, T]], *arguments: *Arguments,
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
        self, coro: Coroutine[object, None, T], *, name: object = None, context: Context | None = None
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
            task = StreamTask(self._queue, coro, name, context)
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
        queue = self._queue
        if wants_error and (queue.closed or queue.context.dead is not None):  # as a duty it would be admitted
            raise (queue.context.dead or InvalidHandle(f"cannot enqueue a callback: {queue.label} is closed")).fresh()
        home = None
        if is_async(function) and (home := running_loop_adapter()) is None:
            raise IllegalState(f"{function!r} is a coroutine function and no loop runs here; enqueue it from one")
        command = Call(function, arguments, holds, wants_error, home, copy_context())
        if home is None or wants_error:
            item = queue.submit(command, duty=wants_error)
        else:  # it may begin with the next turn of this loop
            submit_items((item := Completion(queue, command),))
        if not holds:
            queue.expect_detached()
        return item


def prepare_launch(
    queue: OwningQueue,
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
    geometry = kernel.configure(config, queue.context.arch, shared, cooperative)
    for argument in (*arguments, *named.values()) if named else arguments:
        queue.check_ours(argument)
    bound = kernel.bind(arguments, named)
    if not all(map(queue.context.reaches, bound.allocations)):
        bound.check_reach(queue.context.reaches)
    launch: Launch = new_tuple(Launch, (bound, geometry, options, bound.context))
    if queue.context.resources is not None:
        launch = queue.context.resources.admit(queue, launch)
    elif queue.cluster_mask is not None or queue.sip_mask is not None:  # else the architecture's limits are all
        queue.context.clusters.check(
            kernel.name, geometry.block.volume, geometry.grid.volume, geometry.cooperative, queue.cluster_mask,
            queue.sip_mask,
        )  # fmt: skip
    return launch


def bound_events(
    queue: OwningQueue, start: Event | None, stop: Event | None
) -> tuple[LaunchOptions, tuple[Event, ...]]:  # fmt: skip
    """Return the options of a launch that events are bound to, and those that there are."""
    if start is None and stop is None:
        return PLAIN_LAUNCH, ()
    options = LaunchOptions(start, stop, seen=seen_at_record(queue))
    return options, tuple(event for event in (start, stop) if event is not None)


def submit_launch(queue: OwningQueue, launch: Launch, events: tuple[Event, ...]) -> Completion:
    """Enqueue a launch that was checked, with the events that are bound to it."""
    if not events:
        return queue.submit(launch)
    item = Completion(queue, launch)
    return _mark(queue, item, events, item)


def _mark(
    queue: OwningQueue, item: Completion, events: tuple[Event, ...], launch: Completion | None = None
) -> Completion:
    for event in events:
        queue.check_ours(event)
        if not isinstance(event, Event):
            raise InvalidType(f"record() expects an Event or nothing, got {event!r}")
        if event.device_id != queue.context.ordinal:
            of = f"{queue.label} of device {queue.context.ordinal}"
            raise InvalidHandle(f"{event!r} is of device {event.device_id}, {of}")
    submit_items((item,), events, launch)
    return item


def _instead_of_a_task(thing: object) -> str:
    """Return what to do with what create_task() does not take."""
    if inspect.iscoroutinefunction(thing):
        return "call the coroutine function: create_task(function())"
    if inspect.isawaitable(thing):
        return "have the stream wait for it: wait(awaitable)"
    return "use call(function, *arguments) for a function"
