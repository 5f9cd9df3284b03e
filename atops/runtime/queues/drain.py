"""The drain of a stream: it takes commands from the head of the queue, runs them and settles them.

It is a step of the driver that never waits: a head that must wait is parked, and its end posts the next drain. What
runs on another thread leaves by `finish`. The queue is touched with the driver's lock held; nothing is called back
under it.
"""

from __future__ import annotations

from functools import partial
from weakref import finalize, ref

from atops.base.errors import AtopsError, LoopClosed, PriorLaunchFailure, StreamAborted
from atops.base.locks import take_patiently
from atops.base.log_fields import get_logger, message_of
from atops.base.waiting.parking_lot import Waiter, wake
from atops.runtime.commands.copy import CopyCompletion
from atops.runtime.commands.events import Cancelled
from atops.runtime.commands.launch import Launch
from atops.runtime.commands.memory import Alloc
from atops.runtime.core import command_trace
from atops.runtime.core.commands import ENDED, SILENT, Ended, ended
from atops.runtime.core.completion import (
    DONE,
    PENDING,
    RUNNING,
    Completion,
    as_failure,
    failure_fields,
    log_if_left,
    look_at,
    seen,
    verb,
)
from atops.runtime.executors.executor import StepWaiter
from atops.runtime.queues.abort import catch_up
from atops.runtime.queues.queue import StreamQueue
from atops.runtime.queues.short_copies import carry_out_run, claim_run, look_and_carry_out_run, settle_run

__all__ = ("DrainedQueue",)


DRAIN_COMMANDS = 64  # a drain lets others run after so many commands ...
DRAIN_NS = 500_000  # ... or after so long, whichever comes first ...
NEVER = 1 << 63  # ... but inline by count alone: how long something takes must not change the order of a replay

log = get_logger("atops.stream")


class DrainedQueue(StreamQueue):
    """The queue of a stream, with the drain that empties it."""

    __slots__ = ()

    def drain(self) -> None:  # noqa: C901  # the hot loop: its branches are spelled out, not called
        """Run commands from the head until one must wait, none is left, or other streams are due. On the driver."""
        board = self.board
        lock, now, execute = board.lock, board.now, board.execute
        tracing = board.tracer.active
        limited = self.places is not None
        plain = not tracing and not limited
        if board.inline:
            left, until = DRAIN_COMMANDS, NEVER
            if board.chooses:
                left, limited = 1, True  # what it may run next is a choice; no copies are claimed together
        else:
            left, until = DRAIN_COMMANDS, now() + DRAIN_NS
        most = left
        item: Completion | None = None
        over: Completion | None
        run: list[CopyCompletion] = []
        error: AtopsError | None = None
        while True:
            waiters, left = None, left - 1
            if not lock.acquire(False):  # the usual case without a frame
                take_patiently(lock)
            try:
                queue = self._queue
                if item is not None:
                    if plain and error is None and item.stage < DONE:
                        queue.popleft()  # type: ignore[union-attr]  # the head is the item: only its end takes it
                        if self.lost is not None:
                            item.lost = self.lost
                        item.stage = DONE
                        waiters = None if item.waiters is None else item.take_waiters()
                    else:
                        waiters = self._settle(item, error)
                over, item = item, None
                others = left < 0 or (left < most - 1 and now() > until)  # each drain comes on, however late it is
                if not queue:
                    self.become_idle()
                elif not others and queue[0].stage == PENDING:
                    item = queue[0]
                    item.stage = RUNNING
                    if item.__class__ is CopyCompletion and not limited and self.failure is None:
                        run = claim_run(item, queue, self.context)
            finally:
                lock.release()
            if over is not None:  # not under the lock: what it held may have a finalizer, which may call anything
                command = over.command
                what = ENDED[command.__class__]
                over.command = what if what.__class__ is Ended else what(command)  # type: ignore[operator]  # no Ended
                command = None  # it is let go of here
                over = None
            if waiters is not None:
                wake(waiters)
            if run:
                left -= len(run)
                done, error = (carry_out_run if board.detector is None else look_and_carry_out_run)(run, board)
                take_patiently(lock)
                try:
                    waiters = settle_run(run, done, self._queue)  # type: ignore[arg-type]  # it holds the run
                    if not self._queue:
                        self.become_idle()  # before a waiter looks
                finally:
                    lock.release()
                for each in run[:done]:
                    each.dst = each.src = None  # not under the lock, as above
                wake(waiters)
                item = None if error is None else run[done]
                run = []
                continue
            if item is None:
                if others and queue:
                    self._drain_later()
                return  # a head that runs elsewhere posts the next drain when it settles
            if tracing:
                item.started_ns = now()
            if item.deps is not None:
                if self._must_wait(item):
                    catch_up(item)
                    return
                if tracing:
                    item.started_ns = now()  # the last of them may have ended since the first stamp
            if tracing and board.tracer.detail and item.command.__class__ not in SILENT:
                command_trace.begin(item, self.failure)
            if item.aborted is not None and not item.duty:
                error = item.aborted
                continue
            if self.failure is not None and not item.duty:
                board.stall.note_skipped(item, self.failure)
                said = message_of(self.failure)
                error = PriorLaunchFailure(f"{self.label} skipped {verb(item)} after a failure: {said}")
                continue
            try:
                error = None
                command = item.command
                if not execute[command.__class__](command, item):
                    if not board.stall.looking:  # as above
                        board.stall.look_later()
                    catch_up(item)
                    return
            except Exception as failure:
                error = as_failure(failure, item)

    def _drain_later(self) -> None:
        """Post the drain behind the steps that are due, for this thread: another thread may be woken late."""
        lane = self.context.lane
        if self.priority < 0 and lane.steps_here():  # else less urgent kernels start before this stream's next one
            lane.run_drain(self)
        else:
            self.board.offer(self.drain, self.priority)

    def _must_wait(self, item: Completion) -> bool:
        """Park the head behind the first of its predecessors that is not over, whose end posts the drain."""
        with self.board.lock:
            dropped = item.aborted is not None and not item.keeps_order
            if dropped and (not item.duty or item.command.__class__ is Alloc):
                self.leave_out(item)
                item.deps = None
            for place, dep in enumerate([each.instead or each for each in item.deps or ()]):
                if dep.stage < DONE and self._park_behind(item, dep):
                    item.deps = item.deps[place:]  # type: ignore[index]  # it is what is gone through here
                    return True
                if dep.lost is not None:
                    self.lose(dep.lost)
            item.parked = item.deps = None
        return False

    def _park_behind(self, item: Completion, dep: Completion) -> bool:
        """Park the head behind one command, unless that is over. With the driver's lock held."""
        if not dep.add_waiter(StepWaiter(self.board.offer, self.drain, self.priority)):
            return False
        item.parked, item.stage = dep, PENDING
        if self.board.tracer.detail and item.command.__class__ is not Cancelled:
            command_trace.park(item, dep)
        return True

    def _settle(self, item: Completion, error: AtopsError | None) -> list[Waiter] | None:
        """Take a settled head off the queue. With the driver's lock held; returns the waiters to wake after that."""
        if item.stage >= DONE:
            return None  # an abort was faster
        queue = self._queue
        if queue and queue[0] is item:
            queue.popleft()
        elif self._detached:
            self._detached.pop(item, None)
            if not self._scheduled and not self._detached:
                self.context.active.pop(self, None)
        if self.board.tracer.active:
            error = self.board.trace(item, error)
        if error is not None:
            self._fail(item, error)
        if self.lost is not None:
            item.lost = self.lost
        return item.settle(error)

    def _fail(self, item: Completion, error: AtopsError) -> None:
        self.leave_out(item)
        if isinstance(error, PriorLaunchFailure) and error.__cause__ is None:
            error.__cause__ = self.failure
        if self.failure is None and not isinstance(error, StreamAborted):
            self.failure = error
            self.context.poison(self)
            if seen(error.__cause__):
                look_at(error)
            if not isinstance(error, LoopClosed):  # asyncio itself reports that
                # For a stream that is collected without a close.
                vars(error)["_fields"] = fields = failure_fields(self, item)
                told = fields, type(error), message_of(error), vars(error)
                self._left = finalize(self, log_if_left, *told, ref(self.board))
                self._left.atexit = False
        elif self.failure is not None and not isinstance(error, PriorLaunchFailure | StreamAborted):
            # A callback was told of the stream's failure and raised: the stream tells of the first failure only.
            said = "%s raised behind a failure: %s", self.label, error
            self.board.run_callback(partial(log.error, *said, exc_info=error, extra=failure_fields(self, item)))

    def finish(self, item: Completion, error: AtopsError | None = None, here: bool = False) -> None:
        """Settle a command that did not end inside the drain. From any thread, once; late calls are ignored.

        `here`: the calling thread is one of the runtime's own, has nothing else to do, and drains what comes next.
        """
        board = self.board
        waiters: list[Waiter] | None = None
        try:
            with board.lock:
                if item.stage >= DONE:
                    return
                queue = self._queue
                at_head = bool(queue) and queue[0] is item  # type: ignore[index]  # a non-empty deque
                waiters = self._settle(item, error)
                post = launches = False
                if at_head and queue:
                    post, launches = True, queue[0].command.__class__ is Launch
                elif at_head:
                    self.become_idle()
        except BaseException:  # Ctrl-C, where an abort or a store of the program's thread ends the command
            if item.stage >= DONE:
                item.command = ended(item.command)
            board.offer(self.drain, self.priority)
            wake(waiters or ())
            raise
        lane = self.context.lane
        # A kernel that ended well was the last thing in its lane's step. One that failed may have been stopped by
        # another in the middle of that one's step, as a value wait is ended in the middle of the kernel that stores the
        # value: then this thread may never be given back, and what comes next is not for it.
        last = item.stage == DONE and item.command.__class__ is Launch and lane.steps_here()
        item.command = ended(item.command)
        if waiters is not None:
            if last:
                lane.wake_last(waiters)
            else:
                wake(waiters)
        if not post:
            return
        if here:
            self.drain()
        else:
            self._drain_after(last, launches)

    def _drain_after(self, last: bool, launches: bool) -> None:
        """Have the drain go on after a command that ended on another thread, with the fewest thread hops.

        `last`: that was the last thing in this lane's step; `launches`: a launch comes next.
        """
        board, lane = self.board, self.context.lane
        if (
            last and (self.priority < 0 or lane.free(self.priority))  # so the next launch comes in time
        ) or (launches and self.context.clusters.idle and not board.inline):
            lane.run_drain(self)
        else:
            board.offer(self.drain, self.priority)
