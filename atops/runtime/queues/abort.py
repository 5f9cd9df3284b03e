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
from atops.runtime.board.deferred_free import Lost
from atops.runtime.core.completion import DONE, PENDING, RUNNING, Completion

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("abort_stream", "break_off", "catch_up", "note")


def abort_stream(
    stream: StreamQueue,
    reason: ExecutionError | None,
    newest: int | None = None,
    dropped: list[Completion] | None = None,
) -> int:
    """Carry out `StreamQueue.abort`. Returns how many commands were dropped.

    `newest` is the number of the last command to end, for an abort that is carried out later than it was called;
    `dropped` are those that an interrupted one has taken out of the queue.
    """
    driver = stream.driver
    if driver.called_amid() or driver.holds_a_lock():
        driver.post(partial(abort_stream, stream, reason, driver.seq))
        return 0
    newest = driver.seq if newest is None else newest
    woken: list[Waiter] = []
    dropped = [] if dropped is None else dropped
    try:
        return _abort(stream, reason or StreamAborted(f"{stream.label} was aborted"), newest, dropped, woken)
    except BaseException:  # Ctrl-C: the driver does the rest
        driver.post(partial(abort_stream, stream, reason, newest, dropped))
        wake(woken)
        raise


def _abort(
    stream: StreamQueue, error: ExecutionError, newest: int, dropped: list[Completion], woken: list[Waiter]
) -> int:
    """Drop what has not started and end what runs, up to command `newest`. The waiters to wake are added to `woken`."""
    with stream.driver.lock:
        _take_out(stream, lambda item: not item.duty and item.seq <= newest, dropped)
        _settle(dropped, error, woken)
        unstarted, cancels = _running(stream, error, newest)
    wake(woken)
    for item in unstarted:
        stream.finish(item, error)
    for cancel in cancels:
        cancel(error)
    return len(dropped) + len(unstarted)


def _take_out(stream: StreamQueue, which: Callable[[Completion], bool], dropped: list[Completion]) -> None:
    """Take commands that have not started out of the queue, and add them to `dropped`. With the driver's lock held.

    Each stands, from then on, for what its stream has lost and for the commands before it that are kept. Ctrl-C may
    come anywhere: then it is called once more, and those that were taken out are in `dropped`.
    """
    queue = stream.snapshot()[1]
    queued = set(queue)
    dropped[:] = [item for item in dropped if item not in queued]
    kept: list[Completion] = []
    taken: list[Completion] = []
    before: Completion | None = None  # the last of those kept that later ones come after
    lost: Lost | None = None
    made_of: tuple[object, object] = (None, None)
    for item in queue:
        if item.stage == PENDING and which(item):
            stream.leave_out(item)
            if stream.lost is not made_of[0] or before is not made_of[1]:
                made_of = stream.lost, before
                lost = stream.lost if before is None else Lost({**(stream.lost or {}), stream: before})
            item.lost = lost
            taken.append(item)
        elif item.stage < DONE:
            kept.append(item)
            if getattr(item.command, "holds", True):
                before = item
    dropped += taken
    stream.keep_only(kept)


def _settle(dropped: list[Completion], error: ExecutionError, woken: list[Waiter]) -> None:
    """Settle commands that were taken out of their queues, once. With the driver's lock held."""
    for item in dropped:
        if item.stage < DONE:
            woken += item.settle(error) or ()
            if item.stream.driver.tracer.active:
                item.stream.driver.trace(item, error)


def _running(
    stream: StreamQueue, error: ExecutionError, newest: int
) -> tuple[list[Completion], list[Callable[[ExecutionError], None]]]:
    """Return the detached calls that have not started, and what ends the commands that run. With the lock held."""
    detached, kept = stream.snapshot()
    # Of the calls that stand in line only the first has started.
    line = stream._callbacks or deque()
    unstarted = [item for item in islice(line, 1, None) if not item.duty and item.seq <= newest]
    for item in unstarted:
        line.remove(item)
    running = [item for item in (*kept, *detached) if item.seq <= newest]
    cancels = [cancel for item in running if (cancel := note(item, error))]
    stream.driver.post(stream.drain)
    return unstarted, cancels


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
    dropped: list[Completion] = []
    woken: list[Waiter] = []
    with driver.lock:
        for stream in {item.stream: None for item in items}:
            _take_out(stream, items.__contains__, dropped)
        _settle(dropped, reason, woken)
        for item in items:
            item.place = None
            if item.stage == RUNNING and (cancel := note(item, reason)):
                cancels.append(cancel)
    wake(woken)
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
