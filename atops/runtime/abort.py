"""Aborting a stream: what has not started is dropped, what runs ends at its next chance, duties stay."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

from atops.base.errors import ExecutionError, StreamAborted
from atops.base.waiting import Waiter
from atops.runtime.completion import PENDING, Completion
from atops.runtime.outcomes import wake
from atops.runtime.stream_state import StreamState

__all__ = ("abort_stream", "catch_up", "note")


def abort_stream(stream: StreamState, reason: ExecutionError | None) -> int:
    """Do what `StreamQueue.abort` promises. Returns how many commands were dropped."""
    driver = stream.driver
    if driver.inline:
        driver.executor.check_caller()
    error = reason or StreamAborted(f"{stream.label} was aborted")
    woken: list[Waiter] = []
    with driver.lock:
        queue = stream._queue or deque()
        dropped = [item for item in queue if item._state == PENDING and not item.duty]
        kept = [item for item in queue if item._state != PENDING or item.duty]
        queue.clear()
        queue.extend(kept)
        for item in dropped:
            woken += item.settle(error) or ()
            if driver.tracer.active:
                driver.trace(item, error)
            if stream.capacity is not None:
                woken += stream.capacity.give_back(1)
        stream.keep_order(kept)
        if not kept:
            stream.retire()
        # Of the calls that stand in line only the first has started.
        line = stream._callbacks or deque()
        unstarted = [item for item in islice(line, 1, None) if not item.duty]
        for item in unstarted:
            line.remove(item)
        cancels = [cancel for item in (*kept, *(stream._detached or ())) if (cancel := note(item, error))]
    wake(woken)
    for item in unstarted:
        stream.finish(item, error)
    for cancel in cancels:
        cancel(error)
    if stream._side is not None:
        stream._side.abort(error)
    driver.post(stream.drain)
    return len(dropped) + len(unstarted)


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
