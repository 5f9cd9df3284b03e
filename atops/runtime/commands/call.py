"""Calls in stream order: host functions on a callback thread, coroutine functions on the loop that enqueued them.

A call that holds the stream keeps the head of the queue until it ends. One that does not is detached: later commands go
on, calls of one stream still run one after another, and synchronising waits for them.
"""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from types import BuiltinFunctionType, FunctionType, MethodType, TracebackType
from typing import NamedTuple

from atops.base.errors import AtopsError, CommandCancelled, HostCallFailure, InvalidType, LoopClosed, StreamAborted
from atops.base.log_fields import said_of
from atops.base.trace.records import Kind
from atops.base.waiting.current_loop import running_loop_adapter
from atops.base.waiting.loop_adapter import HostTask, LoopAdapter
from atops.device.call_site import Site, calling_place
from atops.runtime.core import command_trace
from atops.runtime.core.capacity import Room
from atops.runtime.core.commands import NOWHERE, Ended, always, define, never, nothing
from atops.runtime.core.completion import PENDING, RUNNING, Completion, as_failure
from atops.runtime.executors.executor import HERE, Lane

__all__ = (
    "CALLBACKS", "OBSERVERS", "Call", "HostCoroutine", "begin_here", "is_async", "may_begin_here", "note_wait", "owe",
    "result_of",
)  # fmt: skip

CALLBACKS = Lane("callback")  # for host calls, which may wait for each other
PLAIN = frozenset({FunctionType, MethodType, BuiltinFunctionType})  # none has a `__call__` of the program's
OBSERVERS = Lane("done callback")  # for done callbacks and those that read traces, which must not wait for host calls


class Call(NamedTuple):
    """Call a host function or coroutine function in stream order."""

    function: Callable[..., object]
    arguments: tuple[object, ...]
    holds: bool
    wants_error: bool
    adapter: LoopAdapter | None  # of a coroutine function: the loop that enqueued it
    context: Context

    @property
    def name(self) -> str:
        """What messages call the function. Not its repr: that of a stream's method would show the stream's queue."""
        function: object = self.function
        while isinstance(function, partial):
            function = function.func
        return str(getattr(function, "__qualname__", type(function).__qualname__))


@dataclass(eq=False, slots=True)
class HostCoroutine:
    """A coroutine for which a stream waits. `lost` is called if its loop closes first, which loops do not report."""

    adapter: LoopAdapter
    lost: Callable[[], None]

    def look(self) -> bool:
        """Return whether its loop has closed; call `lost` if so."""
        if closed := self.adapter.closed():
            self.lost()
        return closed


class _Paid:
    """Takes a coroutine that is over from what its loop owes."""

    __slots__ = ("_item", "_owed")

    def __init__(self, owed: dict[Completion, None], item: Completion) -> None:
        self._owed, self._item = owed, item

    def wake(self) -> None:
        """Take it out."""
        self._owed.pop(self._item, None)


def owe(adapter: LoopAdapter | None, item: Completion) -> None:
    """Note, until a command is over, that it ends only while this loop runs: blocking the loop for it is in vain."""
    if adapter is None:
        return
    adapter.owed[item] = None
    paid = _Paid(adapter.owed, item)
    if not item.add_waiter(paid):
        paid.wake()


def _run_call(command: Call, item: Completion) -> bool:
    """Start the call, or line it up behind the calls of the stream that are not over."""
    stream = item.queue
    item.begin = partial(_begin, item)
    first = stream.line_up(item)
    if not command.holds:
        stream.detach(item)
    if first:
        item.begin()
    return False


def may_begin_here(command: object) -> bool:
    """Whether a command is a coroutine of the loop that runs here."""
    return isinstance(command, Call) and command.adapter is not None and running_loop_adapter() is command.adapter


def begin_here(item: Completion) -> None:
    """Start a coroutine that is the first command of an idle stream: its first step is in the loop's next turn.

    asyncio's own tasks start in the same way. The stream has no drain yet; if Ctrl-C comes first, the caller posts one.
    """
    board = item.queue.board
    try:
        with board.lock:
            if item.stage != PENDING:  # another thread has dropped it
                return
            item.stage = RUNNING
        if board.tracer.active:
            item.started_ns = board.now()
        board.execute[Call](item.command, item)
        board.stall.look_later()
    except BaseException as error:
        if item.stage == RUNNING:
            broken = StreamAborted(f"the start of {item.command.name} was broken off by {said_of(error)}")
            if item.stop is None:
                _ended(item, broken)
            else:
                item.stop(broken)
        raise


def _begin(item: Completion) -> None:
    """Start the call that is first in its line. One that cannot be started fails, and the next one has its turn."""
    board = item.queue.board
    try:
        if board.tracer.detail:
            command_trace.start(item)
        if item.command.adapter is not None:
            _start_on_loop(item)
        else:
            board.executor.run(CALLBACKS, partial(_run_function, item), item.queue.priority)
    except Exception as failure:  # no thread to be had, say
        item.finish(as_failure(failure, item))
        board.post(partial(item.queue.call_over, item))  # a step each: the next one may fail in the same way


def is_async(function: object) -> bool:
    """Whether calling `function` makes a coroutine: a coroutine function, a partial of one, an async `__call__`."""
    while isinstance(function, partial):
        function = function.func
    if (kind := type(function)) in PLAIN:  # by far the commonest: nothing more to look at, which takes long
        return kind is not BuiltinFunctionType and inspect.iscoroutinefunction(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(kind.__call__)


def _arguments(command: Call, item: Completion) -> tuple[object, ...]:
    """Return what the function is called with: the stream's failure or abort, if it asked for the status."""
    return (item.queue.failure or item.aborted, *command.arguments) if command.wants_error else command.arguments


def _run_function(item: Completion) -> None:
    before, HERE.callback = (HERE.role, HERE.callback), item
    HERE.role = "callback"
    error: AtopsError | None = None
    if item.started_ns < 0:
        item.started_ns = item.queue.board.now()
    item.thread = get_ident()
    try:
        item.give(result_of(item.command, item))
    except BaseException as failure:  # SystemExit and KeyboardInterrupt end the call, not the callback thread
        failure.__traceback__ = _beyond(failure.__traceback__)
        error = _host_failure(item.command, failure)
    finally:
        item.thread = 0
        HERE.role, HERE.callback = before
    _ended(item, error)


def _beyond(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this file, which hold the arguments."""
    while traceback is not None and traceback.tb_frame.f_code in (_run_function.__code__, result_of.__code__):
        traceback = traceback.tb_next
    return traceback


def result_of(command: Call, item: Completion) -> object:
    """Call the function, in a frame of its own, so that no frame keeps the arguments when the command is over."""
    result: object = command.context.run(command.function, *_arguments(command, item))
    if inspect.iscoroutine(result):
        result.close()  # it would never run
        raise InvalidType(f"{command.name} returned a coroutine; enqueue the coroutine function itself")
    return result


def _start_on_loop(item: Completion) -> None:
    """Run a coroutine function on the loop that enqueued it; notice when that loop closes first."""
    adapter, board = item.command.adapter, item.queue.board
    assert adapter is not None, "checked when it was enqueued"
    task: HostTask | None = None

    def done(failure: BaseException | None, value: object) -> None:
        board.host_tasks.remove(owed)
        if item.over:  # its loop had closed
            return
        if failure is None:
            item.give(value)
        _ended(item, None if failure is None else _coroutine_failure(item.command, adapter, item, failure))

    def lost() -> None:
        if task is not None:
            task.forget()
        _ended(item, _loop_closed(item.command))

    owed = HostCoroutine(adapter, lost)
    board.host_tasks.add(owed)

    def cancel(error: AtopsError) -> None:
        item.parked = error
        if task is not None:
            task.cancel()

    begin = lambda: item.command.function(*_arguments(item.command, item))  # noqa: E731  # arguments when it begins
    try:
        on_wait, named = partial(note_wait, item), getattr(item, "get_name", None)  # a stream's task has a name
        at_once = not board.inline and may_begin_here(item.command)
        task = adapter.spawn(begin, item.command.context, done, on_wait, named, at_once)
    except BaseException:
        board.host_tasks.remove(owed)
        raise
    if not item.duty:
        item.stop = cancel


def note_wait(item: Completion, source: object, begins: bool) -> None:
    """Note what a coroutine awaits. Raises WouldDeadlock, or has it logged, where that waits for the coroutine."""
    if isinstance(source, Room):
        source.asked_by(item if begins else None)
    if isinstance(source, Completion | Room) and begins:
        item.awaits, item.awaits_at = (*item.awaits, source), Site(*calling_place())
        item.queue.board.guard_awaiting(item, source)
    elif source in item.awaits:
        at = item.awaits.index(source)
        item.awaits = item.awaits[:at] + item.awaits[at + 1 :]


def _ended(item: Completion, error: AtopsError | None) -> None:
    item.begin = None  # it leads back to its completion
    if (detector := item.queue.board.detector) is not None:
        detector.host_did(item)
    item.finish(error)  # first: when the next one starts, this one is done
    item.queue.call_over(item)


def _coroutine_failure(
    command: Call, adapter: LoopAdapter, item: Completion, failure: BaseException
) -> AtopsError:  # fmt: skip
    """Return what a coroutine's command fails with."""
    if isinstance(item.parked, AtopsError):
        return _stopped(command, item, item.parked, failure)
    if adapter.closed() or isinstance(failure, CancelledError):  # mostly the end of a loop cancels it
        return _loop_closed(command)
    return _host_failure(command, failure)


def _stopped(command: Call, item: Completion, error: AtopsError, failure: BaseException) -> AtopsError:
    """Return the failure of a coroutine that was cancelled, by `cancel` of its command or by an abort.

    Its stream goes on. If the coroutine raised something else instead, that is the cause of the failure.
    """
    if not isinstance(error, CommandCancelled):
        error = StreamAborted(f"{command.name} was cancelled by an abort of {item.queue.label}")
    if isinstance(failure, CancelledError):
        return error
    raised = type(error)(f"{error}; it raised {said_of(failure)} then")
    raised.__cause__ = failure
    return raised


def _host_failure(command: Call, failure: BaseException) -> AtopsError:
    error = HostCallFailure(f"{command.name} raised {said_of(failure)} in stream order")
    error.__cause__ = failure
    return error


def _loop_closed(command: Call) -> LoopClosed:
    """Return the error for a coroutine that its loop left unfinished."""
    return LoopClosed(
        f"{command.name} was cancelled, or the event loop that owed it closed, before it ended; "
        "keep the loop until the stream is done"
    )


define(
    Call,
    words=lambda _: "call",
    run=_run_call,
    run_timed=_run_call,
    describe=lambda call, item: (Kind.CALL, 0, *NOWHERE, *NOWHERE, -1, call.name),
    uses=nothing,
    reads=nothing,
    touches=nothing,
    effect=always,
    waits=never,
    silent=True,
    ended=Ended("call"),
)
