"""How host work runs in stream order: a function on a callback thread, a coroutine function on its submitter's loop.

A call that holds the stream keeps the head of the queue until it ends. One that does not is detached: later commands go
on, calls of one stream still run one after another, and synchronising waits for them.
"""

from __future__ import annotations

import inspect
from collections import deque
from functools import partial
from typing import Any

from atops.base.errors import AtopsError, HostCallFailure, InvalidType, LoopClosed, StreamAborted
from atops.base.waiting.loop_adapter import HostTask
from atops.runtime.core.commands import Call
from atops.runtime.core.completion import Completion
from atops.runtime.executors.executor import HERE, Lane
from atops.runtime.queues import command_events as moments
from atops.runtime.queues.abort import catch_up
from atops.runtime.queues.queue import StreamQueue

__all__ = (
    "CALLBACKS",
    "arguments",
    "ended",
    "host_failure",
    "is_async",
    "loop_closed",
    "run_call",
    "run_function",
    "start",
    "start_on_loop",
)

CALLBACKS = Lane("callback")


def run_call(stream: StreamQueue, item: Completion) -> bool:
    """Start the call, or line it up behind the detached call before it."""
    command: Call = item.command
    if command.holds and not stream._callbacks:
        start(stream, item)
        return False
    with stream.driver.lock:
        if stream._callbacks is None:
            stream._callbacks = deque()
        stream._callbacks.append(item)
        first = len(stream._callbacks) == 1
        if not first and stream.driver.tracer.detail:
            moments.park(item, stream._callbacks[-2])
    if not command.holds:
        stream.detach(item)
    if first:
        start(stream, item)
    return False


def start(stream: StreamQueue, item: Completion) -> None:
    """Run the call where it belongs."""
    if stream.driver.tracer.detail:
        moments.start(item)
    command: Call = item.command
    if is_async(command.function):
        start_on_loop(stream, item, command)
    else:
        stream.driver.executor.run(CALLBACKS, lambda: run_function(stream, item, command))


def is_async(function: Any) -> bool:
    """Whether calling `function` makes a coroutine: a coroutine function, a partial of one, an async `__call__`."""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def arguments(stream: StreamQueue, item: Completion, command: Call) -> tuple[Any, ...]:
    """Return what the function is called with: the stream's failure or abort, if it asked for the status."""
    return (stream._error or item.aborted, *command.arguments) if command.wants_error else command.arguments


def run_function(stream: StreamQueue, item: Completion, command: Call) -> None:
    """Call a plain function, in its submitter's context."""
    before, HERE.callback = (HERE.role, HERE.callback), item
    HERE.role = "callback"
    error: AtopsError | None = None
    try:
        result = command.context.run(command.function, *arguments(stream, item, command))
        if inspect.iscoroutine(result):
            result.close()  # nobody would ever run it
            raise InvalidType(f"{command.name} returned a coroutine; enqueue the coroutine function itself")
        item.give(result)
    except BaseException as failure:  # SystemExit and KeyboardInterrupt end the call, not the callback thread
        error = host_failure(command, failure)
    finally:
        HERE.role, HERE.callback = before
    ended(stream, item, error)


def start_on_loop(stream: StreamQueue, item: Completion, command: Call) -> None:
    """Run a coroutine function on the loop that enqueued it; notice when that loop closes first."""
    adapter = command.adapter
    driver = stream.driver
    assert adapter is not None, "checked when it was enqueued"

    def done(failure: BaseException | None, value: Any) -> None:
        driver.debts.paid(debt)
        error: AtopsError | None = None
        if failure is None:
            item.give(value)
        elif item.parked is ABORTED:  # asyncio and trio tell of a cancellation in different ways
            error = StreamAborted(f"{command.name} was cancelled by an abort of {stream.label}")
        elif adapter.closed() or not isinstance(failure, Exception):  # mostly the end of a loop cancels it
            error = loop_closed(command)
        else:
            error = host_failure(command, failure)
        ended(stream, item, error)

    task: HostTask | None = None

    def lost() -> None:
        if task is not None:
            task.forget()
        ended(stream, item, loop_closed(command))

    debt = driver.debts.owe(adapter, lost)

    def cancel(_: AtopsError) -> None:
        item.parked = ABORTED
        if task is not None:
            task.cancel()

    task = adapter.spawn(lambda: command.function(*arguments(stream, item, command)), command.context, done)
    if not item.duty:
        item.cancel = cancel


ABORTED = object()


def ended(stream: StreamQueue, item: Completion, error: AtopsError | None) -> None:
    """Settle the call and start the next one in line."""
    stream.finish(item, error)  # first: when the next one starts, this one is done
    following = None
    with stream.driver.lock:
        line = stream._callbacks
        if line and line[0] is item:
            line.popleft()
            following = line[0] if line else None
    if following is not None:
        start(stream, following)
        catch_up(following)


def host_failure(command: Call, failure: BaseException) -> AtopsError:
    """Wrap what a host callable raised."""
    try:
        said = repr(failure)
    except Exception:  # the program's own: whatever it does, the call must end
        said = type(failure).__name__
    error = HostCallFailure(f"{command.name} raised {said} in stream order")
    error.__cause__ = failure
    return error


def loop_closed(command: Call) -> LoopClosed:
    """Return the error for a coroutine that its loop left unfinished."""
    return LoopClosed(
        f"{command.name} was cancelled, or the event loop that owed it closed, before it ended; "
        "keep the loop until the stream is done"
    )
