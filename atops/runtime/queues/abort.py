"""Aborting a stream: pending commands are dropped, running ones end when they next can, duties stay."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from atops.base.errors import AtopsError, ExecutionError, StreamAborted
from atops.base.waiting.parking_lot import Waiter, wake
from atops.runtime.core.completion import DONE, PENDING, RUNNING, Completion

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("abort_stream", "break_off", "catch_up", "note")


def abort_stream(stream: StreamQueue, reason: ExecutionError | None, newest: int | None = None) -> int:
    """Carry out `StreamQueue.abort`. Returns how many commands were dropped.

    `newest` is the number of the last command to end, for an abort that is carried out later than it was called.
    """
    driver = stream.driver
    if driver.called_amid() or driver.holds_a_lock():
        driver.post(partial(abort_stream, stream, reason, driver.seq))
        return 0
    newest = driver.seq if newest is None else newest
    woken: list[Waiter] = []
    try:
        return _abort(stream, reason or StreamAborted(f"{stream.label} was aborted"), newest, woken)
    except BaseException:  # Ctrl-C: the driver does the rest
        driver.post(partial(abort_stream, stream, reason, newest))
        wake(woken)
        raise


def _abort(stream: StreamQueue, error: ExecutionError, newest: int, woken: list[Waiter]) -> int:
    """Drop what has not started and end what runs, up to command `newest`. The waiters to wake are added to `woken`."""
    with stream.driver.lock:
        dropped, unstarted, cancels = _drop(stream, error, newest, woken)
    wake(woken)
    for item in unstarted:
        stream.finish(item, error)
    for cancel in cancels:
        cancel(error)
    return dropped + len(unstarted)


def _drop(
    stream: StreamQueue, error: ExecutionError, newest: int, woken: list[Waiter]
) -> tuple[int, list[Completion], list[Callable[[ExecutionError], None]]]:
    """Take what is dropped out of the queue. With the driver's lock held.

    Returns how many they were, the detached calls that have not started, and what ends those that run.
    """
    driver = stream.driver
    detached, queue = stream.snapshot()
    left = [item for item in queue if item.stage < DONE]
    dropped = [item for item in left if item.stage == PENDING and not item.duty and item.seq <= newest]
    kept = [item for item in left if item.stage != PENDING or item.duty or item.seq > newest]
    for item in dropped:
        stream.left_out(item)
        woken += item.settle(error) or ()
        if driver.tracer.active:
            driver.trace(item, error)
    stream.keep_only(kept)
    # Of the calls that stand in line only the first has started.
    line = stream._callbacks or deque()
    unstarted = [item for item in islice(line, 1, None) if not item.duty and item.seq <= newest]
    for item in unstarted:
        line.remove(item)
    running = [item for item in (*kept, *detached) if item.seq <= newest]
    cancels = [cancel for item in running if (cancel := note(item, error))]
    driver.post(stream.drain)
    return len(dropped), unstarted, cancels


def break_off(items: Sequence[Completion], error: BaseException) -> None:
    """Clean up after an error while commands were being enqueued: Ctrl-C, or no thread can be started.

    A single command runs if it is in its queue by then. Of several, those that have not started are taken out again and
    those that run are cancelled. Places give themselves back.
    """
    driver = items[0].stream.driver
    if isinstance(error, AtopsError):  # with which nothing was enqueued
        for item in items:
            item.place = None
        return
    if len(items) == 1 and not isinstance(error, RuntimeError):
        with suppress(RuntimeError):
            driver.post(items[0].stream.drain)  # where that was done already, it finds nothing to do
            return
    reason = StreamAborted(f"enqueueing {len(items)} commands was broken off by {error!r}")
    cancels = []
    with driver.lock:
        for item in items:
            item.stream.forget(item)
            item.place = None
            if item.stage == RUNNING and (cancel := note(item, reason)):
                cancels.append(cancel)
    for cancel in cancels:
        cancel(reason)
    for item in items:
        with suppress(RuntimeError):
            driver.post(item.stream.drain)


def note(item: Completion, error: ExecutionError) -> Callable[[ExecutionError], None] | None:
    """Return the function that ends a running command; mark the command if it has none yet. With the lock held."""
    if item.stop is None:
        item.aborted = error
    return item.stop


def catch_up(item: Completion) -> None:
    """End a command that an abort marked before it had a `stop`. Called once it has one."""
    with item.stream.driver.lock:
        error, cancel = item.aborted, item.stop
    if error is not None and cancel is not None:
        cancel(error)
