"""The queue of one stream: submitting, order, failure, abort, capacity. What empties it is in `drain` beside it.

A stream with work has exactly one drain on the driver; an idle one has none. `submit` numbers a command, resolves its
null-stream predecessors, appends it and, if the stream was idle, posts the drain: all under the driver's one lock, so
that any two threads agree on one order. The head of the queue is the command that runs; it leaves when it settles.
Everything here that touches the queue holds that lock; nothing that is called back does.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import finalize, ref

from atops.base.choice import Name
from atops.base.errors import AtopsError, ExecutionError, InvalidHandle
from atops.base.locks import reentered
from atops.device.exec.block import DONE as DRAINED
from atops.device.exec.block import Progress
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.deferred_free import Lost, lost_behind, lost_with, when_one_is_over
from atops.runtime.commands.awaited import WaitAwaited
from atops.runtime.commands.call import Call, begin_here, may_begin_here, owe
from atops.runtime.commands.copy import Copy, CopyCompletion
from atops.runtime.commands.events import WaitEvent
from atops.runtime.commands.launch import Launch
from atops.runtime.commands.memory import Alloc
from atops.runtime.commands.values import WaitValue
from atops.runtime.core import command_trace
from atops.runtime.core.capacity import Capacity
from atops.runtime.core.commands import PERHAPS_NOTHING, Command, has_effect
from atops.runtime.core.completion import (
    DONE,
    PENDING,
    RUNNING,
    Completion,
    look_at,
    prepare,
    verb,
)
from atops.runtime.core.event import Event
from atops.runtime.core.future import InProcess
from atops.runtime.queues.abort import abort_stream, break_off, cancel_command, catch_up
from atops.runtime.queues.host_functions import CALLS, warn_in_host_function

if TYPE_CHECKING:
    from atops.runtime.races.stream_clocks import StreamClock
    from atops.runtime.stream import Stream

__all__ = ("StreamQueue", "submit_items")

new_object = object.__new__
OPEN_WAITS = (WaitValue, WaitAwaited, Call)  # what ends them may be anything


class StreamQueue(InProcess):
    """The commands of one stream in order. The driver's lock guards all of it."""

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_detached",
        "_left",
        "_loose",
        "_ordered_to",
        "_queue",
        "_scheduled",
        "_stream",
        "blocking",
        "board",
        "clock",
        "closed",
        "cluster_mask",
        "context",
        "failure",
        "handle",
        "label",
        "lost",
        "needs_admission",
        "newest",
        "null",
        "number",
        "ordered_last",
        "places",
        "priority",
        "sip_mask",
    )

    ahead: ClassVar[int] = 0  # as a task of the kernel lane
    stream_type: ClassVar[Callable[..., Stream]]  # set by the module of Stream, which knows queues

    def __init__(
        self,
        context: DeviceContext,
        *,
        priority: int = 0,
        blocking: bool = True,
        null: bool = False,
        capacity: Capacity | None = None,
        label: str = "",
        cluster_mask: int | None = None,
        sip_mask: int | None = None,
    ) -> None:
        self.context = context
        self.cluster_mask = cluster_mask  # where its kernels may run: a bit each, None for all
        self.sip_mask = sip_mask
        self.board = context.board
        self.priority = priority  # -2 (most urgent) to 0
        self.blocking = blocking
        self.null = null
        self.places: Capacity | None = capacity  # its commands take a place each
        self.handle = 0  # its number in C-style calls, once it was asked for
        self._stream: Callable[[], Stream | None] = _none
        self.number = 0 if null else self.board.next_stream_number()
        self.label: str = label or ("null stream" if null else f"stream {self.number}")
        context.add_stream(self, bool(label or null))
        self._queue: deque[Completion] | None = None  # made when first needed: idle streams are small
        self.newest: Completion | None = None  # the newest command
        self.ordered_last: Completion | None = None  # the newest that the other side of null-stream order waits for
        self._ordered_to = 0  # up to this number it has waited for all that null-stream order puts first
        self._detached: dict[Completion, None] | None = None  # callbacks that left the queue unfinished
        self._callbacks: deque[Completion] | None = None  # detached callbacks waiting for the one before them
        self._loose = False  # whether the queue may hold callbacks that will leave it unfinished
        self.clock: StreamClock | None = None  # what the race detector knows of it, where there is one
        self.lost: Lost | None = None  # commands that it should have waited for and did not; None once all are over
        self._scheduled = False
        self.closed = False
        self.needs_admission = capacity is not None  # whether a submission must call `admit` first
        self.failure: AtopsError | None = None  # the first since the last `clear_error`
        self._left: finalize[..., StreamQueue] | None = None  # logs the failure when the stream is collected

    # ---- what programs know it by

    @property
    def stream(self) -> Stream:
        """The Stream that stands in front of it: the same one as long as anything refers to that.

        A Stream holds its queue, and the queue none: else both would wait for the collector.
        """
        stream = self._stream()
        if stream is None:
            with self.board.lock:
                stream = self._stream() or self.stream_type(self)
        return stream

    def known_as(self, stream: Stream) -> None:
        """Be known by this Stream."""
        self._stream = ref(stream)

    @property
    def choice(self) -> Name:
        """The name by which a schedule chooses its next command."""
        return "stream", self.context.ordinal, self.number

    # ---- submission

    def submit(
        self, command: Command, result: object = None, duty: bool = False, after: tuple[Completion, ...] = ()
    ) -> Completion:
        """Enqueue a command, to start when those of `after` are over too.

        Raises InvalidHandle on a closed stream, StreamFull on a full one, NotInitialized on a closed driver,
        IllegalState in a finalizer or a signal handler that came in the middle of such a call.
        """
        item = new_object(Completion)  # without what it takes to have a constructor called
        prepare(item, self)
        item.command = command
        if result is not None:
            item.give(result)
        if duty:
            item.duty = True
        if after:
            item.deps = after
        return self.submit_item(item)

    def submit_item(self, item: Completion) -> Completion:
        """Enqueue a command whose completion is made already. Returns it; raises as `submit`."""
        board = self.board
        if board.checked:
            if board.inline:
                board.executor.check_caller()
            if not item.duty or item.command.__class__ is Alloc:
                warn_in_host_function(board, CALLS, f"a verb of {self.label}")
        if (lock := board.lock).is_owned():
            raise reentered(f"{verb(item)} was enqueued on {self.label}")
        try:
            lock.acquire()
            # An allocation is a duty so that no abort drops it; it is refused as any other command.
            if (self.needs_admission or self.context.dead is not None) and (
                not item.duty or item.command.__class__ is Alloc
            ):
                self.admit(item)
            if self.append(item):
                # With the lock held: what a handler that comes after it waits for has its drain.
                if item.command.__class__ is Launch and self.context.clusters.idle and not board.inline:
                    # Where the kernel will run: one hop less. Not behind other kernels: their clusters go by urgency.
                    self.context.lane.run_drain(self)
                else:
                    board.offer(self.drain, self.priority)
            lock.release()
        except BaseException as error:
            try:  # noqa: SIM105  # before any other call, as `OwnedLock` says
                lock.release()
            except RuntimeError:
                pass
            break_off((item,), error)
            raise
        return item

    def has_taken(self, item: Completion) -> bool:
        """Whether a command of this stream was enqueued, where Ctrl-C came into that: it waits here, or has begun."""
        with self.board.lock:
            return item.stage != PENDING or (self._queue is not None and item in self._queue)

    def append(self, item: Completion) -> bool:  # noqa: C901  # the hot path: spelled out, not called
        """Number and append an admitted command. With the lock held; returns whether a drain must be posted."""
        board, context = self.board, self.context
        kind: Any = Copy if item.__class__ is CopyCompletion else item.command.__class__  # which a copy has to make
        in_order = False
        if ordered := self.blocking and (
            item.size if kind is Copy else kind not in PERHAPS_NOTHING or has_effect(item.command)  # type: ignore[attr-defined]
        ):
            # A wait in a blocking stream does not wait for the null stream (TOPS Runtime API, 2.4 topsStreamWaitEvent).
            if self.null or (context.null_last is not None and kind is not WaitEvent):
                in_order = True
                self._order(item)
            if context.lost is not None:  # by streams that may be idle by now
                self._lose_with_null(context)
        queue = self._queue
        if queue is None:
            queue = self._queue = deque()
        if kind is Call:
            ordered = ordered and item.command.holds  # a call that its own stream does not wait for delays no other one
            owe(item.command.adapter, item)
        item.seq = board.seq = board.seq + 1
        if board.detector is not None:
            board.detector.submitted(item)
        if (tracer := board.tracer).active:
            item.submitted_ns = board.now()
            if tracer.observed:
                command_trace.submit(item)
        # From here on nothing is called before the queue has the command: no Ctrl-C comes in between.
        self.newest = item
        if in_order:
            self._ordered_to = item.seq - 1
        if ordered:
            self.ordered_last = item
            if self.null:
                context.null_last, order = item, context.order
                order.null_seq, order.null = item.seq, order.blocking
        if first := not self._scheduled:
            self._scheduled = True
            context.active[self] = None
        queue.append(item)
        return first

    def admit(self, item: Completion) -> None:
        """Refuse a command on a closed or full stream or a dead device, or give it a place. With the lock held."""
        if self.context.dead is not None:
            raise self.context.dead.fresh()
        if self.closed:
            raise InvalidHandle(f"cannot enqueue {verb(item)}: {self.label} is closed")
        if self.places is not None:
            item.place = self.places.take(self)

    def close_queue(self) -> None:
        """Refuse commands from now on, duties excepted, and room for them. Those enqueued still run."""
        with self.board.lock:
            self.closed = self.needs_admission = True
        if self.places is not None:
            self.places.close(InvalidHandle(f"{self.label} is closed; there will be no room in it"))

    # ---- order

    def become_idle(self) -> None:
        """Become idle. With the driver's lock held."""
        self._scheduled = self._loose = False
        self.newest = self.ordered_last = None  # an idle stream keeps nothing alive
        if self.null:
            self.context.null_last = None
        if not self._detached:
            self.context.active.pop(self, None)

    def keep_only(self, kept: list[Completion]) -> None:
        """Drop all commands from the queue but these, which stand for the stream's order from now on. With the lock."""
        if self._queue is not None:
            self._queue.__init__(kept)  # type: ignore[misc]  # one call: no Ctrl-C comes between emptying and filling it
        self.newest = kept[-1] if kept else None
        self.ordered_last = None
        self.context.dropped_at = self.board.seq
        for item in kept:
            if has_effect(item.command) and (item.command.__class__ is not Call or item.command.holds):
                self.ordered_last = item
        if self.null:
            self.context.null_last = self.ordered_last
        if not kept:
            self.become_idle()

    # ---- what was to be waited for, and was not

    def leave_out(self, item: Completion) -> None:
        """Note as lost what a command was to wait for that will not run. With the driver's lock held."""
        kind = item.command.__class__
        deps = item.deps or ()
        if kind is WaitEvent and item.command.record is not None:
            deps = (*deps, item.command.record)
        if (lost := lost_behind(deps)) is not None:
            self.lose(lost)
        # What it waits for may come behind anything that the board has been given up to now.
        if kind in OPEN_WAITS and (lost := self.board.newest_work()) is not None:
            self.lose(lost)
        if self.clock is not None and (deps or kind in OPEN_WAITS):
            self.clock.left_at = self.board.seq

    def lose(self, more: Lost) -> None:
        """Remember, until they are over, commands that it should have waited for: they may use what it frees."""
        with self.board.lock:
            if more.one() is None:
                return
            before, context = self.lost, self.context
            lost = self.lost = lost_with(before, more)
            if self.blocking:
                context.lost = lost_with(context.lost, lost)
            if before is None:
                when_one_is_over(lost, self._forget_lost)

    def _lose_with_null(self, context: DeviceContext) -> None:
        """Note as lost what the other side of null-stream order has lost. With the driver's lock held."""
        null = context.null_queue
        lost = context.lost if self.null else None if null is None else null.lost
        if lost is not None:
            self.lose(lost)

    def _forget_lost(self) -> None:
        """Forget lost commands once all are over; until then look again at the end of one that is not over."""
        with self.board.lock:
            if self.lost is not None:
                self.lost = self.lost.still()
            if self.context.lost is not None:
                self.context.lost = self.context.lost.still()
            if self.lost is not None:
                when_one_is_over(self.lost, self._forget_lost)

    def lost_since(self, seq: int) -> list[Completion]:
        """Return the lost commands of other streams that are newer than number `seq` and not over."""
        if self.lost is None:
            return []
        return [item for item in self.lost.unfinished() if item.seq > seq and item.queue is not self]

    def _order(self, item: Completion) -> None:
        """Give a command those predecessors in null-stream order that its stream's order does not imply. Lock held."""
        context = self.context
        since = self._ordered_to
        if since < context.dropped_at:  # an abort may have dropped the command waited for, and not those before it
            since = 0
        if self.null:
            deps = tuple(
                stream.ordered_last
                for stream in context.active
                if stream.blocking and stream is not self and stream.ordered_last is not None
                if stream.ordered_last.seq > since and stream.ordered_last.stage < DONE
            )
            if deps:
                item.deps = (*(item.deps or ()), *deps)
        else:
            last = context.null_last
            if last is not None and last.seq > since and last.stage < DONE:
                item.deps = (*(item.deps or ()), last)

    # ---- running, in `drain`

    def step(self, budget: int) -> Progress:
        """Drain, as a task of the kernel lane. The budget is the drain's own."""
        self.drain()
        return DRAINED

    @abstractmethod
    def drain(self) -> None:
        """Run commands from the head until one must wait, none is left, or other streams are due. On the driver."""

    @abstractmethod
    def finish(self, item: Completion, error: AtopsError | None = None, here: bool = False) -> None:
        """Settle a command that did not end inside the drain. From any thread, once; late calls are ignored."""

    def detach(self, item: Completion) -> None:
        """Let the head leave the queue unfinished: later commands go on, synchronising still waits for it."""
        with self.board.lock:
            assert self._queue is not None and self._queue[0] is item
            self._queue.popleft()
            if self._detached is None:
                self._detached = {}
            self._detached[item] = None
        self.board.offer(self.drain, self.priority)

    def expect_detached(self) -> None:
        """Note that the queue may hold a call that will leave it unfinished."""
        with self.board.lock:
            self._loose = True  # should the queue be empty again by now, this costs a look and no more

    def replace(self, item: Completion, stand_in: Completion) -> None:
        """Put another command where a pending one stands, with its number and its order. With the driver's lock held.

        Ctrl-C may come anywhere: then it is called once more.
        """
        queue = self._queue
        assert queue is not None, "it is pending"
        queue[bisect_left(queue, item.seq, key=lambda each: each.seq)] = stand_in
        if self.newest is item:
            self.newest = stand_in
        if self.ordered_last is item:
            self.ordered_last = stand_in
        if self.context.null_last is item:
            self.context.null_last = stand_in

    def leave_line(self, which: Callable[[Completion], bool]) -> list[Completion]:
        """Take calls out of the line that they stand in, and return them. With the driver's lock held.

        Not the first one, which has started.
        """
        line = self._callbacks
        taken = [call for call in islice(line, 1, None) if which(call)] if line else []
        for call in taken:
            line.remove(call)  # type: ignore[union-attr]  # it has some
        return taken

    def line_up(self, call: Completion) -> bool:
        """Put a call behind those of the stream that are not over. Returns whether it is the first."""
        with self.board.lock:
            if self._callbacks is None:
                self._callbacks = deque()
            self._callbacks.append(call)
            if len(self._callbacks) == 1:
                return True
            if self.board.tracer.detail:
                command_trace.park(call, self._callbacks[-2])
            return False

    def call_over(self, call: Completion) -> None:
        """Take a call that is over out of the line, and begin the next one."""
        following = None
        with self.board.lock:
            line = self._callbacks
            if line and line[0] is call:
                line.popleft()
                following = line[0] if line else None
        if following is not None and following.begin is not None:
            following.begin()
            catch_up(following)

    # ---- failure

    def clear_error(self) -> AtopsError | None:
        """Forget the stream's failure, so that later commands run again. Returns what it was."""
        with self.board.lock:
            error, self.failure = self.failure, None
            left, self._left = self._left, None
            self.context.poisoned.discard(self)
        look_at(error)
        if left is not None:
            left.detach()
        return error

    def raise_error(self) -> None:
        """Raise a fresh exception for the stream's failure, if there is one."""
        if (error := self.failure) is not None:
            look_at(error)
            raise error.fresh()
        self.context.check_survived()

    def poison(self, error: AtopsError) -> None:
        """Let every later command fail, as if a command had failed with `error`."""
        with self.board.lock:
            if self.failure is None:
                self.failure = error
                self.context.poison(self)

    def abort(self, reason: ExecutionError | None = None) -> int:
        """Drop what has not started, and end what runs at its next chance. Returns how many commands were dropped.

        Their completions fail with StreamAborted. Parked waits end now, kernels when next suspended; a copy that has
        begun ends. Duties (frees, callbacks) run. The stream stays usable. From a signal handler in the middle of an
        enqueue it returns 0, and the driver aborts later.
        """
        return abort_stream(self, reason)

    cancel_command = staticmethod(cancel_command)

    # ---- looking

    def outstanding(self) -> list[Completion]:
        """Return what synchronising with this stream must wait for: a snapshot."""
        with self.board.lock:
            return [item for stream in self.synchronised() for item in stream.ends()]

    def synchronised(self) -> list[StreamQueue]:
        """Return the streams that synchronising with this one waits for. With the driver's lock held."""
        streams = [self]
        if self.null:  # it stands for every blocking stream of its device (2.4 topsStreamSynchronize)
            streams += [each for each in self.context.active if each.blocking and each is not self]
        return streams

    def ends(self) -> list[Completion]:
        """Return a few commands of this stream whose end implies that all its commands are over. With the lock held."""
        items = list(self._detached or ())
        queue, last = self._queue, self.newest
        if self._loose:  # the newest command does not wait for the calls that will leave the queue unfinished
            items += [item for item in queue or () if item.command.__class__ is Call and not item.command.holds]
        if queue and queue[0] is not last and queue[0].stage == RUNNING:
            items.append(queue[0])  # an abort ends the newest command before the running one
        if last is not None and last.stage < DONE:
            items.append(last)
        return items

    def snapshot(self) -> tuple[tuple[Completion, ...], tuple[Completion, ...]]:
        """Return the commands that left the queue unfinished, and the queue, its head first."""
        with self.board.lock:
            return tuple(self._detached or ()), tuple(self._queue or ())

    def pending(self) -> tuple[Completion, ...]:
        """Return the commands that are not over, the running one first: a snapshot."""
        detached, queue = self.snapshot()
        return detached + queue


def _none() -> None:
    """Return None, as a dead weak reference does: in place of one where there is no Stream."""


def _append(items: Sequence[Completion], here: bool) -> bool:
    """Append admitted commands, and post the drains. With the lock held: such a loop is a function (`OwnedLock`).

    Returns whether the only one, which may begin `here`, is to: then no drain was posted.
    """
    for item in items:
        first = item.queue.append(item)
        here = here and first and item.deps is None and item.queue.failure is None
        if first and not here:
            item.queue.board.offer(item.queue.drain, item.queue.priority)
    return here


def submit_items(items: Sequence[Completion], events: tuple[Event, ...] = (), launch: Completion | None = None) -> None:
    """Enqueue commands whose completions are made already, all or none, with nothing of another thread in between.

    They are of streams of one driver. `events` get the first one as their record, and none of them is seen with a
    record that is not in its queue yet; `launch` is the launch that they are bound to, if any. Raises as `submit`.
    """
    board = items[0].queue.board
    if board.checked:
        warn_in_host_function(board, CALLS, f"a verb of {items[0].queue.label}")
    if board.called_amid():
        raise reentered(f"{verb(items[0])} was enqueued on {items[0].queue.label}")
    here = len(items) == 1 and not board.inline and may_begin_here(items[0].command)
    try:
        with board.lock:
            for event in events:
                event.check_recordable()
            for item in items:
                item.queue.admit(item)
            here = _append(items, here)
            for event in events:
                event.launch = launch
                event.recorded_by(items[0])
        if here:
            begin_here(items[0])
            catch_up(items[0])
    except BaseException as error:
        break_off(items, error)
        raise
