"""The outcome of one enqueued command: awaitable from asyncio and trio, waitable from threads, by many at once.

A completion is also the command's place in its stream's queue. It settles once, with the driver's lock held; its
waiters come and go without a lock, and are woken after it is released.
"""

from __future__ import annotations

import sys
from _thread import RLock
from collections.abc import Callable, Generator, Iterable
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any

from atops.base.errors import AtopsError, CommandCancelled, ExecutionError, InvalidType, NotReady
from atops.base.html_table import html_table
from atops.base.locks import fork_safe
from atops.base.log_fields import get_logger, said_of
from atops.base.neighbours import answers
from atops.base.waiting.current_loop import checkpoint, current_loop_adapter, running_loop_adapter
from atops.base.waiting.loop_adapter import LoopWaiter
from atops.base.waiting.parking_lot import Waiter
from atops.runtime.core.capacity import QueuePlace, Room
from atops.runtime.core.commands import words_of
from atops.runtime.core.future import (
    AT_ONCE,
    FutureLike,
    LoopCallback,
    T_co,
    Timeout,
    call_here,
    checked_callback,
    ends_a_wait,
)
from atops.runtime.core.host_waits import standing
from atops.runtime.core.thread_waits import Watch

if TYPE_CHECKING:
    from atops.device.call_site import Site
    from atops.device.copy_engine import CopyEngines
    from atops.runtime.board.deferred_free import Lost
    from atops.runtime.driver_board import Board
    from atops.runtime.queues.queue import StreamQueue
    from atops.runtime.races.command_clock import Epoch
    from atops.runtime.stream import Stream

__all__ = (
    "CallbackWaiter", "Completion", "T_co", "as_failure", "command_of", "driver_fields", "failure_fields",
    "fields_of", "log_if_left", "log_if_unseen", "look_at", "over", "prepare", "seen", "verb",
)  # fmt: skip

log = get_logger("atops.stream")
UNSEEN = "%s ended with a failure that was never looked at: %s"

PENDING, RUNNING, DONE, FAILED = range(4)
FIRST_WAITER = fork_safe(RLock())
STATES = ("pending", "running", "done", "failed")


@answers("Completion")
class Completion(FutureLike[T_co]):
    """The outcome of one command of a stream, now or later; `Completion[T]` is one whose result is a T.

    `await completion` returns its result (an array for `fetch`, the value of a host callable, else None) or raises what
    the command failed with. Cancelling the await leaves the command alone. It has the methods of a future, and `cancel`
    drops the command.
    """

    # What each command reads while it goes through has a slot, which CPython reads several times as fast. The defaults
    # of all else live in the class: a command costs what it uses, and a queue may hold a hundred thousand of them.
    __slots__ = (
        "aborted", "command", "deps", "parked", "queue", "seq", "stage", "started_ns", "stop", "submitted_ns",
        "waiters",
    )  # fmt: skip

    queue: StreamQueue
    command: Any  # its class says what can be done with it: see `core.commands.define`
    seq: int  # the driver's number, given at submission; 0 before
    deps: tuple[Completion, ...] | None  # what must be over before it starts, beside its stream's order
    parked: Any  # what it waits for now, for reports
    stop: Callable[[ExecutionError], None] | None  # how an abort ends it while it runs
    aborted: ExecutionError | None  # set by an abort that found no `stop`, or a duty
    submitted_ns: int
    started_ns: int  # -1 before
    stage: int  # PENDING, RUNNING, DONE or FAILED; `state` is its name
    waiters: dict[Waiter | LoopWaiter, None] | None  # in order of arrival; see `add_waiter`

    duty = False  # runs in spite of poison and abort
    place: QueuePlace | None = None  # in a stream with a capacity; it gives itself back
    awaits: tuple[Completion | Room, ...] = ()  # the commands and room that its coroutine awaits now
    awaits_at: Site | None = None  # the line of that `await`
    begin: Callable[[], None] | None = None  # what starts a call that stands in line
    thread = 0  # the identifier of the thread in which its host function runs now
    keeps_order = False  # whether it was `cancel` that set `aborted`: the stream still waits for its `deps`
    context: Context | None = None  # in which it was submitted; kept if a subscriber of the trace asks for it
    share: CopyEngines | None = None  # of a copy: the engines of its resource bundle, if it is held to them
    told: tuple[int, int, int, int, int] | None = None  # what all its events in the trace have, once there is one
    untold: Exception | None = None  # what tracing it raised: it fails with this
    engine = -1  # the cluster or copy engine that served it
    writer = -1  # seq of the write that ended a value wait
    lost: Lost | None = None  # what it should have waited for and was not over at its end; set before the stage
    epoch: Epoch | None = None  # what the race detector knows of it, where there is one
    _result: Any = None
    _error: AtopsError | None = None
    callbacks: CallbackWaiter | None = None
    instead: Completion | None = None  # cancelled before it started: what took its place in stream order

    def __init__(self, queue: StreamQueue | None = None, command: Any = None) -> None:
        if queue is None or command is None:  # a call of the program's; the runtime gives both
            raise InvalidType("Completion() makes no command; a verb of a stream gives one: stream.call(function)")
        prepare(self, queue)
        self.command = command

    # ---- waiting

    def __await__(self) -> Generator[object, object, T_co]:
        if self.stage < DONE:
            parked: Any = current_loop_adapter().park(self)
            if (tracer := self.queue.board.tracer).notes_waits:
                with standing(tracer, self.seq):
                    yield from parked
            else:
                yield from parked
        elif "trio" in sys.modules:
            yield from checkpoint().__await__()
        return self.result()

    def wait_sync(self, timeout: float | None = None) -> T_co:
        """Block until done and return the result. Never needs the caller's event loop.

        `timeout` is in seconds. Raises TimeoutError when it passes first, WouldDeadlock where the wait could never end,
        and whatever the command failed with.
        """
        if self.stage < DONE:
            self._block(timeout)
        return self.result()

    def _block(self, timeout: float | None) -> None:
        board = self.queue.board
        board.guard_blocking((self,), timeout)
        with standing(board.tracer, self.seq):
            in_time = board.executor.block(self, timeout)
        if not in_time:
            raise TimeoutError(f"{self!r} was not done within {timeout} s")

    def add_done_callback(
        self, function: Callable[[Completion[T_co]], object], *, context: Context | None = None
    ) -> None:
        """Call `function(self)` once when done, in `context` or a copy of the caller's.

        Where a loop runs it is called on that loop, as by `call_soon`, or on a callback thread if the loop has closed;
        in plain code on a callback thread, or at once and here if it is done already. Those added in one place before
        it is done are called one after another, in order. What one raises goes to the loop's exception handler, or is
        logged, and changes nothing. Raises InvalidType for what is no function or no context.
        """
        context = checked_callback(self, function, context)
        board = self.queue.board
        if (adapter := running_loop_adapter()) is not None:
            waiter = LoopCallback(self, function, context, adapter, board.run_callback)
            if not self.add_waiter(waiter):
                waiter.wake()
            return
        with board.lock:
            if pending := self.stage < DONE:
                if self.callbacks is None:
                    self.callbacks = CallbackWaiter(self)
                    self.add_waiter(self.callbacks)
                self.callbacks.functions.append((function, context))
        if not pending:
            call_here(function, self, context)

    def remove_done_callback(self, function: Callable[[Completion], object]) -> int:
        """Forget a done callback that is not on its way yet. Returns how many times it had been added."""
        with self.queue.board.lock:
            before = [] if self.callbacks is None else self.callbacks.functions[:]
            kept = [each for each in before if each[0] != function]
            if len(kept) < len(before):
                self.callbacks.functions[:] = kept  # type: ignore[union-attr]  # it had some
        waiters = self.waiters or {}
        there = [each for each in list(waiters) if isinstance(each, LoopCallback) and each.function == function]
        return len(before) - len(kept) + sum(waiters.pop(each, self) is None for each in there)

    def cancel(self, msg: object = None) -> bool:
        """Abort this one command, as `Stream.abort` does all; `msg` goes into the error. Never blocks.

        One that has not started is dropped, and its order stays: what waits for its place in the stream still waits for
        what comes before. A wait that is parked ends; a coroutine is cancelled, and a kernel closed, when next
        suspended. It fails with CommandCancelled, and its stream goes on. Returns False where nothing can be cancelled:
        it is over, it is a running copy or function, or a free or a callback, which run in any case.
        """
        if ends_a_wait():
            return False
        return self.queue.cancel_command(self, msg)

    if TYPE_CHECKING:

        def __fetched__(self) -> T_co: ...  # what a pipeline makes of it

    # ---- queries

    @property
    def stream(self) -> Stream:
        """The stream that it is a command of."""
        return self.queue.stream

    def done(self) -> bool:
        """Return whether the command is over, well or not."""
        return self.is_done

    @property
    def is_done(self) -> bool:
        """Whether the command is over, well or not."""
        if self.stage < DONE:
            self.queue.board.asked_in_vain(self)
            if self.stage < DONE:  # it may have ended just now
                return False
        if (detector := self.queue.board.detector) is not None:
            detector.saw(self)
        return True

    def running(self) -> bool:
        """Return whether it is the stream's turn and not over."""
        return self.stage == RUNNING

    def cancelled(self) -> bool:
        """Return whether `cancel` ended it."""
        return isinstance(self._error, CommandCancelled)

    @property
    def over(self) -> bool:
        """As `is_done`, for the runtime: reading it does not count as a question of the program."""
        return self.stage >= DONE

    @property
    def state(self) -> str:
        """One of "pending", "running", "done", "failed"."""
        if self.stage >= DONE and (detector := self.queue.board.detector) is not None:
            detector.saw(self)
        return STATES[self.stage]

    def result(self, timeout: Timeout = AT_ONCE) -> T_co:
        """Return the result, or raise a fresh exception when the command failed.

        Raises NotReady when it is not done. With a `timeout` in seconds, or None for no limit, it blocks until then
        as a future of concurrent.futures does: it is `wait_sync(timeout)`, with its errors.
        """
        if self.stage >= DONE and (detector := self.queue.board.detector) is not None:
            detector.saw(self)
        if self.stage == DONE:
            return self._result  # type: ignore[no-any-return]  # what the verb said it would be
        if self.stage == FAILED:
            assert self._error is not None
            look_at(self._error)
            raise self._error.fresh()
        if timeout is AT_ONCE:
            raise self._not_ready()
        self._block(timeout)
        return self.result()

    def exception(self, timeout: Timeout = AT_ONCE) -> AtopsError | None:
        """Return what the command failed with, or None.

        Raises NotReady when it is not done. With a `timeout` in seconds, or None for no limit, it blocks until then:
        TimeoutError, WouldDeadlock, as `wait_sync`.
        """
        if self.stage < DONE:
            if timeout is AT_ONCE:
                raise self._not_ready()
            self._block(timeout)
        if (detector := self.queue.board.detector) is not None:
            detector.saw(self)
        if self._error is not None:
            look_at(self._error)
        return self._error

    def _not_ready(self) -> NotReady:
        return NotReady(f"{self!r} is not done; await it, or call wait_sync() or result(timeout)")

    def _watched(self) -> tuple[Watch, Completion]:
        return (vars(self).get("watch") or vars(self).setdefault("watch", Watch())).look(self), self

    @property
    def failure(self) -> AtopsError | None:
        """The command's failure, read by the runtime: the program has not seen it yet. None while it is not over."""
        return self._error

    def __repr__(self) -> str:
        return f"<Completion {self.seq}: {words_of(self.command)} on {self.queue.label}, {STATES[self.stage]}>"

    def _repr_html_(self) -> str:
        return html_table(f"Completion {self.seq}: {words_of(self.command)}", (
            ("stream", self.queue.label),
            ("state", STATES[self.stage]),
            ("waits for", self.parked if self.stage < DONE else None),
            ("error", self.failure),
        ))  # fmt: skip

    # ---- for waiters and the stream

    def add_waiter(self, waiter: Waiter) -> bool:
        """Add a waiter. Returns False when there is nothing left to wait for. From any thread, without a lock.

        `settle` sets the state before it looks at the waiters, and this adds the waiter before it looks at the state:
        so one of the two sees the other, and a waiter that both see belongs to the one that takes it out.
        """
        if self.stage >= DONE:
            return False
        waiters = self.waiters
        if waiters is None:
            made: dict[Waiter | LoopWaiter, None] = {}
            with FIRST_WAITER:  # two threads may come at once; with nothing called in here a finalizer cannot
                if self.waiters is None:
                    self.waiters = made
            waiters = self.waiters
        waiters[waiter] = None
        return self.stage < DONE or waiters.pop(waiter, self) is self

    def discard_waiter(self, waiter: Waiter | LoopWaiter) -> None:
        """Forget a waiter that gave up."""
        if self.waiters is not None:
            self.waiters.pop(waiter, None)

    def finish(self, error: AtopsError | None = None) -> None:
        """Have its stream settle it, once a command that was carried out elsewhere is over."""
        self.queue.finish(self, error)

    def settle(self, error: AtopsError | None) -> list[Waiter] | None:
        """Become done. Called once, with the driver's lock held; returns the waiters to wake after its release."""
        if error is None:
            self.stage = DONE
        else:
            self._error = error
            self._result = None
            self.stage = FAILED
        self.parked = None
        self.stop = None
        self.deps = None
        if self.begin is not None or self.awaits:
            self.begin, self.awaits = None, ()
        if self.place is not None:
            self.place = None
        return None if self.waiters is None else self.take_waiters()

    def take_waiters(self) -> list[Waiter]:
        """Return the waiters to wake, in the order in which they came. To be called once the stage is set."""
        waiters = self.waiters or {}
        return [waiter for waiter in list(waiters) if waiters.pop(waiter, self) is None]

    def give(self, result: object) -> None:
        """Set the result. Before it settles."""
        self._result = result


def prepare(item: Completion, queue: StreamQueue) -> None:
    """Have a new completion pending in a stream. Its command is yet to be set."""
    item.queue = queue
    item.seq = 0
    item.stage = PENDING
    item.deps = None
    item.parked = None
    item.stop = None
    item.aborted = None
    item.waiters = None
    item.submitted_ns = 0
    item.started_ns = -1


class CallbackWaiter:
    """Runs the done-callbacks of a completion on a callback thread, never on the thread that settled the completion."""

    __slots__ = ("_completion", "functions")

    def __init__(self, completion: Completion) -> None:
        self._completion = completion
        # In order; it changes with the driver's lock held.
        self.functions: list[tuple[Callable[[Completion], object], Context]] = []

    def wake(self) -> None:
        """Hand the callbacks to a callback thread, as one piece of work: they are called in order."""
        self._completion.callbacks = None
        self._completion.queue.board.run_callback(self._run)

    def _run(self) -> None:
        functions, self.functions = self.functions, []
        if (detector := self._completion.queue.board.detector) is not None:
            detector.saw(self._completion)
        for function, context in functions:
            self._completion.queue.board.call_apart(context.run, function, self._completion)


async def over(items: Iterable[Completion]) -> None:
    """Wait until commands, and what took the place of cancelled ones, are over. Under trio always a checkpoint."""
    waited, told = False, list(items)
    for item in told:
        each: Completion | None = item
        while each is not None:
            if each.stage < DONE:
                with standing(each.queue.board.tracer, each.seq):
                    await current_loop_adapter().park(each)
                waited = True
            each = each.instead
    for item in told:
        if (detector := item.queue.board.detector) is not None:
            detector.saw(item)
    if not waited:
        await checkpoint()


# ---- failures


def seen(error: BaseException | None) -> bool:
    """Return whether the program was told of a failure."""
    return getattr(error, "_seen", False)


def look_at(error: BaseException | None) -> None:
    """Note that the program was told of a failure, and so of its causes: they need not be logged."""
    while error is not None:
        error.__dict__["_seen"] = True
        error = error.__cause__ if isinstance(error, AtopsError) else None


def command_of(error: BaseException) -> int | None:
    """Return the number of the command that failed with this, where it is known."""
    found: int | None = error.__dict__.get("_fields", {}).get("command")
    return found


def driver_fields(board: Board) -> dict[str, object]:
    """Return the fields of a log record about a driver: see `base.log_fields`."""
    return {"driver": board.serial, "seed": board.options.seed}


def fields_of(stream: StreamQueue, command: int | None = None, kernel: str | None = None) -> dict[str, object]:
    """Return the fields of a log record about a stream, or one of its commands."""
    place = {"device": stream.context.ordinal, "stream": stream.label}
    return {**driver_fields(stream.board), **place, "command": command, "kernel": kernel}


def failure_fields(stream: StreamQueue, item: Completion) -> dict[str, object]:
    """Return the fields of a log record about a command that failed."""
    launched = getattr(item.command, "bound", None)  # a kernel with its arguments
    kernel = getattr(item.command, "kernel", None) if launched is None else launched.name  # over, or not
    return fields_of(stream, item.seq, kernel)


def log_if_unseen(stream: StreamQueue, error: AtopsError) -> None:
    """Log a stream's failure unless the program has looked at it. Once."""
    if not seen(error):
        error.__dict__["_seen"] = True  # as `look_at` does, but for its causes
        fields = error.__dict__.get("_fields") or fields_of(stream)
        stream.board.unseen = stream.board.unseen or error
        log.error(UNSEEN, stream.label, error, exc_info=error, extra=fields)


def log_if_left(
    fields: dict[str, object], kind: type[AtopsError], message: str, attributes: dict[str, object],
    known: Callable[[], Board | None],
) -> None:  # fmt: skip
    """As `log_if_unseen` for a stream that was collected, given the fields, and the error's kind, message, attributes.

    Not the error itself, whose traceback would keep the stream alive. A collection may come anywhere, even while the
    driver's lock is held; handlers of the log are user code, so they are called on a callback thread.
    """
    if attributes.get("_seen"):
        return
    attributes["_seen"] = True
    say = partial(log.error, UNSEEN, fields["stream"], message, extra=fields)
    board = known()
    if board is not None and board.unseen is None:
        board.unseen = kind.__new__(kind, message)
    try:
        if board is not None and board.closed is None:
            board.post(partial(board.run_callback, say))
            return
    except AtopsError:  # inline, and this is another thread
        pass
    say()


def as_failure(failure: Exception, item: Completion, doing: str = "") -> AtopsError:
    """Return a command's failure as an AtopsError; any other exception is wrapped in an ExecutionError.

    `doing` says what failed, as a prefix of the message, where it was not the command itself.
    """
    if isinstance(failure, AtopsError):
        return failure
    error = ExecutionError(f"{doing}{verb(item)} on {item.queue.label} failed: {said_of(failure)}")
    error.__cause__ = failure
    return error


def verb(item: Completion) -> str:
    """Name a command for a message."""
    name = words_of(item.command)
    return f"{name} (command {item.seq})" if item.seq else name  # it has no number before it is enqueued
