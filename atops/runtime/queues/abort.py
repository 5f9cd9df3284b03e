"""Abort a stream or one command: pending commands are dropped, running ones end as soon as they can, duties run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio

from atops.base.errors import AtopsError, CommandCancelled, ExecutionError, StreamAborted
from atops.base.log_fields import get_logger, said_of
from atops.base.waiting.current_loop import checkpoint, current_loop_adapter
from atops.base.waiting.parking_lot import Waiter, wake
from atops.runtime.board.deferred_free import Lost
from atops.runtime.commands.awaited import WaitAwaited
from atops.runtime.commands.call import Call
from atops.runtime.commands.events import Cancelled, WaitEvent
from atops.runtime.commands.launch import Launch
from atops.runtime.commands.values import WaitValue
from atops.runtime.core.commands import ended, has_effect
from atops.runtime.core.completion import DONE, PENDING, RUNNING, Completion, failure_fields, log_if_unseen, over, verb

if TYPE_CHECKING:
    from atops.base.waiting.loop_adapter import LoopAdapter
    from atops.runtime.driver_board import Board
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("abort_and_wait", "abort_stream", "break_off", "cancel_command", "catch_up", "note")

log = get_logger("atops.stream")
MARGIN = 1.0  # seconds beyond the abort grace before a scope that was left by an exception waits no longer


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
    board = stream.board
    if board.called_amid() or board.holds_a_lock():
        board.post(partial(abort_stream, stream, reason, board.seq))
        return 0
    newest = board.seq if newest is None else newest
    woken: list[Waiter] = []
    dropped = [] if dropped is None else dropped
    try:
        error = reason or StreamAborted(f"{stream.label} was aborted{_amid(stream)}")
        return _abort(stream, error, newest, dropped, woken)
    except BaseException:  # Ctrl-C: the driver does the rest
        board.post(partial(abort_stream, stream, reason, newest, dropped))
        wake(woken)
        raise


def _amid(stream: StreamQueue) -> str:
    """Name the kernel that runs, if one does."""
    with stream.board.lock:
        running = [each.command for each in stream.snapshot()[1] if each.stage == RUNNING]
    kernels = [each.bound.name for each in running if isinstance(each, Launch)]
    return f" while kernel {kernels[0]} ran" if kernels else ""


def _abort(
    stream: StreamQueue, error: ExecutionError, newest: int, dropped: list[Completion], woken: list[Waiter]
) -> int:
    """Drop what has not started and end what runs, up to command `newest`. The waiters to wake are added to `woken`."""
    with stream.board.lock:
        _take_out(stream, lambda item: not item.duty and item.seq <= newest, dropped)
        _settle(dropped, error, woken)
        unstarted, cancels = _running(stream, error, newest)
    count = sum(item.command.__class__ is not Cancelled for item in dropped) + len(unstarted)
    _let_go(dropped)
    wake(woken)
    for item in unstarted:
        stream.finish(item, error)
    for cancel in cancels:
        cancel(error)
    return count


def _take_out(stream: StreamQueue, which: Callable[[Completion], bool], dropped: list[Completion]) -> None:
    """Take commands that have not started out of the queue, and add them to `dropped`. With the driver's lock held.

    In stream order each then stands for what is lost to its stream, and for the commands before it that are kept. After
    a Ctrl-C, which may come anywhere, it is called once more, with those taken out before in `dropped`.
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
                lost = stream.lost if before is None else (stream.lost or Lost()).with_command(stream, before)
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
            if item.queue.board.tracer.active:
                item.queue.board.trace(item, error)


def _let_go(dropped: Iterable[Completion]) -> None:
    """Forget the arguments of dropped commands. Not under a lock: they may have finalizers, which may call anything."""
    for item in dropped:
        item.command = ended(item.command)


def _running(
    stream: StreamQueue, error: ExecutionError, newest: int
) -> tuple[list[Completion], list[Callable[[ExecutionError], None]]]:
    """Return the detached calls that have not started, and what ends the commands that run. With the lock held."""
    detached, kept = stream.snapshot()
    unstarted = stream.leave_line(lambda item: not item.duty and item.seq <= newest)
    running = [item for item in (*kept, *detached) if item.seq <= newest]
    cancels = [cancel for item in running if (cancel := note(item, error))]
    stream.board.offer(stream.drain, stream.priority)
    return unstarted, cancels


def cancel_command(item: Completion, reason: object) -> bool:
    """Carry out `Completion.cancel`. Returns whether the command is dropped, or is to end."""
    stream = item.queue
    board = stream.board
    said = "" if reason is None else f": {reason}"
    error = CommandCancelled(f"{verb(item)} on {stream.label} was cancelled{said}")
    if board.called_amid() or board.holds_a_lock():
        if item.duty or item.over:
            return False
        board.post(partial(_cancel, item, error))
        return True
    try:
        return _cancel(item, error)
    except BaseException:  # Ctrl-C: the driver does it, or finds it done
        board.post(partial(_cancel, item, error))
        raise


def _cancel(item: Completion, error: CommandCancelled) -> bool:
    stream = item.queue
    woken: list[Waiter] | None = None
    stop: Callable[[ExecutionError], None] | None = None
    with stream.board.lock:
        if item.duty or item.stage >= DONE:
            return False
        if in_line := bool(stream.leave_line(lambda call: call is item)):
            pass
        elif item.stage == PENDING:
            woken = _withdraw(item, error)
        elif (stop := item.stop) is None:
            # It has just become the head of its stream. `aborted` ends it before it begins, or once it can be ended.
            if item.deps is None and not _can_be_ended(item):
                return False
            item.aborted, item.keeps_order = error, True
            return True
    if in_line:
        stream.finish(item, error)
    if woken is not None:
        _let_go((item,))
        wake(woken)
    if stop is not None:
        stop(error)  # a kernel and a coroutine end later; a copy that moves by now does not end
        return item.cancelled() or (not item.over and isinstance(item.command, (Launch, Call)))
    return True


def _can_be_ended(item: Completion) -> bool:
    """Return whether a command of this kind has a `stop` once it runs."""
    command = item.command
    if isinstance(command, Call):
        return command.adapter is not None
    return isinstance(command, (Launch, WaitEvent, WaitValue, WaitAwaited))


def _withdraw(item: Completion, error: CommandCancelled) -> list[Waiter]:
    """Settle a command in the queue, and put a stand-in in its place, for the order. With the driver's lock held.

    Ctrl-C may come anywhere: then it is called once more.
    """
    stream = item.queue
    stand_in = item.instead
    if stand_in is None:
        stand_in = Completion(stream, Cancelled(has_effect(item.command)))
        stand_in.seq, stand_in.deps = item.seq, item.deps
        item.instead = stand_in
    stream.replace(item, stand_in)
    item.deps = None  # the stand-in waits for them
    stream.leave_out(item)
    item.lost = (stream.lost or Lost()).with_command(stream, stand_in)  # for memory, it stands for what comes before it
    if stream.board.tracer.active:
        stream.board.trace(item, error)
    stream.board.offer(stream.drain, stream.priority)
    return item.settle(error) or []


def break_off(items: Sequence[Completion], error: BaseException) -> None:
    """Clean up after an error while commands were being enqueued: Ctrl-C, or no thread can be started.

    A single command runs if it is in its queue by then. Of several, those that have not started are taken out again and
    those that run are cancelled. Places give themselves back.
    """
    board = items[0].queue.board
    if isinstance(error, AtopsError):  # with which nothing was enqueued
        for item in items:
            item.place = None
        return
    if len(items) == 1 and not isinstance(error, RuntimeError):
        with suppress(RuntimeError):
            stream = items[0].queue
            board.offer(stream.drain, stream.priority)  # where that was done already, it finds nothing to do
            return
    reason = StreamAborted(f"enqueueing {len(items)} commands was broken off by {said_of(error)}")
    cancels = []
    dropped: list[Completion] = []
    woken: list[Waiter] = []
    with board.lock:
        for stream in {item.queue: None for item in items}:
            _take_out(stream, items.__contains__, dropped)
        _settle(dropped, reason, woken)
        for item in items:
            item.place = None
            if item.stage == RUNNING and (cancel := note(item, reason)):
                cancels.append(cancel)
    _let_go(dropped)
    wake(woken)
    for cancel in cancels:
        cancel(reason)
    for item in items:
        with suppress(RuntimeError):
            board.offer(item.queue.drain, item.queue.priority)


def note(item: Completion, error: ExecutionError) -> Callable[[ExecutionError], None] | None:
    """Return the function that ends a running command; mark the command if it has none yet. With the lock held."""
    if item.stop is None:
        item.aborted = error
    return item.stop


def catch_up(item: Completion) -> None:
    """End a command that was marked before it had a `stop`. Called once it has one, or waits for its predecessors."""
    with item.queue.board.lock:
        error, cancel = item.aborted, item.stop
    if error is None:
        return
    if cancel is not None:
        cancel(error)
    elif isinstance(error, CommandCancelled) and item.stage == PENDING:
        _cancel(item, error)


# ---- scopes that are left by an exception


async def abort_and_wait(streams: Sequence[StreamQueue]) -> None:
    """Abort streams and wait until what ran there has ended: `abort_grace` and a second at most.

    A cancellation of anyio or trio, which ends every wait of a task, does not end this one. Logged are commands that
    have not ended by then, such as a plain host function, which nothing can end, and failures never looked at.
    """
    for stream in streams:
        stream.abort()
    board, adapter = streams[0].board, current_loop_adapter()
    with board.lock:
        left = [item for stream in streams for item in stream.ends()]
    if left:
        await _wait_bounded(left, board, adapter)
    else:
        await checkpoint()
    for stream in streams:
        if stream.failure is not None:
            log_if_unseen(stream, stream.failure)


async def _wait_bounded(left: list[Completion], board: Board, adapter: LoopAdapter) -> None:
    # By the driver's clock: that of the loop may be one of a test, which jumps when no task runs.
    bound = anyio.CancelScope(shield=True)
    nanoseconds = int((board.options.abort_grace + MARGIN) * 1e9)
    timer = board.executor.later(nanoseconds, lambda: adapter.deliver(bound.cancel))
    try:
        with bound:
            await over(left)
    finally:
        timer.cancel()
    for item in left:
        if not item.over:
            log.warning(
                "%r did not end within %s s of its abort; it is left running", item, nanoseconds / 1e9,
                extra=failure_fields(item.queue, item),
            )  # fmt: skip
