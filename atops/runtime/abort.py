"""Aborting a stream: what has not started is dropped, what runs ends at its next chance, duties stay."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice

from atops.base.errors import ExecutionError, StreamAborted
from atops.base.waiting import Waiter
from atops.runtime.commands import Call
from atops.runtime.completion import DONE, PENDING, Completion, Owner
from atops.runtime.outcomes import wake
from atops.runtime.stream_state import StreamState

__all__ = ("abort_stream", "catch_up", "note")


def abort_stream(stream: StreamState, reason: ExecutionError | None, newest: int | None = None) -> int:
    """Do what `StreamQueue.abort` promises. Returns how many commands were dropped.

    `newest` is the number of the last command that it means, where it is done later than it was asked for.
    """
    driver = stream.driver
    if driver.called_amid():
        driver.post(partial(abort_stream, stream, reason, driver.seq))
        return 0
    newest = driver.seq if newest is None else newest
    woken: list[Waiter] = []
    try:
        return _abort(stream, reason or StreamAborted(f"{stream.label} was aborted"), newest, woken)
    except BaseException:  # Ctrl-C: what is left to do the driver does
        driver.post(partial(abort_stream, stream, reason, newest))
        wake(woken)
        raise


def _abort(stream: StreamState, error: ExecutionError, newest: int, woken: list[Waiter]) -> int:
    """Drop what has not started and end what runs, up to command `newest`. Whom to wake comes into `woken`."""
    with stream.driver.lock:
        dropped, unstarted, cancels = _drop(stream, error, newest, woken)
    wake(woken)
    for item in unstarted:
        stream.finish(item, error)
    for cancel in cancels:
        cancel(error)
    if stream._side is not None:
        abort_stream(stream._side, error, newest)
    return dropped + len(unstarted)


def _drop(
    stream: StreamState, error: ExecutionError, newest: int, woken: list[Waiter]
) -> tuple[int, list[Completion], list[Callable[[ExecutionError], None]]]:
    """Take what is dropped out of the queue. With the driver's lock held.

    Returns how many they were, the detached calls that have not started, and what ends those that run.
    """
    driver = stream.driver
    queue = stream._queue or deque()
    left = [item for item in queue if item._state < DONE]
    dropped = [item for item in left if item._state == PENDING and not item.duty and item.seq <= newest]
    kept = [item for item in left if item._state != PENDING or item.duty or item.seq > newest]
    if dropped and kept:
        _stand_in(stream, queue, dropped)
    for item in dropped:
        woken += item._lot or ()
        stream.overtake(item)
        item.settle(error)
        if driver.tracer.active:
            driver.trace(item, error)
        if stream.capacity is not None:
            woken += stream.capacity.give_back(1)
    queue.__init__(kept)  # type: ignore[misc]  # one call: no Ctrl-C comes between emptying and filling it
    stream.keep_order(kept)
    if not kept:
        stream.retire()
    # Of the calls that stand in line only the first has started.
    line = stream._callbacks or deque()
    unstarted = [item for item in islice(line, 1, None) if not item.duty and item.seq <= newest]
    for item in unstarted:
        line.remove(item)
    running = [item for item in (*kept, *(stream._detached or ())) if item.seq <= newest]
    cancels = [cancel for item in running if (cancel := note(item, error))]
    driver.post(stream.drain)
    return len(dropped), unstarted, cancels


def _stand_in(stream: StreamState, queue: deque[Completion], dropped: list[Completion]) -> None:
    """Keep the order between queues over the gap that the dropped commands leave. With the driver's lock held.

    1. What another stream was to wait for is now what stays before it: a copy that has begun, say, or a free.
    2. What stays behind a dropped command takes over what that was to wait for, of which it has none of its own.
    """
    before: dict[Completion, tuple[Completion, ...]] = dict.fromkeys(dropped, ())
    last: tuple[Completion, ...] = ()
    owed: dict[Owner, Completion] = {}
    for item in queue:
        if item in before:
            before[item] = last
            for dep in item.deps or ():
                owed[dep.stream] = dep  # the newest of a stream comes after its others
            continue
        if owed:
            item.deps = (*(item.deps or ()), *owed.values())
        if item.command.__class__ is not Call or item.command.holds:  # what holds nothing stands in for nothing
            last = (item,)
            owed = {}
    for other in stream.context.active:
        for item in other._queue or ():
            if item.deps is not None:
                item.deps = tuple(each for dep in item.deps for each in before.get(dep, (dep,)))


def note(item: Completion, error: ExecutionError) -> Callable[[ExecutionError], None] | None:
    """Return how a command is ended, or tell it of the abort if there is no way yet. With the lock held."""
    if item.cancel is None:
        item.aborted = error
    return item.cancel


def catch_up(item: Completion) -> None:
    """End a command that an abort found running before there was a way to end it. Called once there is."""
    with item.stream.driver.lock:
        error, cancel = item.aborted, item.cancel
    if error is not None and cancel is not None:
        cancel(error)
