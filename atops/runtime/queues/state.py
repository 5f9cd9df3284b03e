"""What a stream holds: its queue, its place in the order, its failure. The machine that works on it stands above.

Everything is guarded by the driver's lock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any

from atops.base.errors import AtopsError, ExecutionError, StreamAborted
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.capacity import Capacity
from atops.runtime.core.commands import Call, Command, Copy, Fill, ScatteredCopy, WaitEvent
from atops.runtime.core.completion import DONE, PENDING, RUNNING, Completion
from atops.runtime.core.in_process import InProcess
from atops.runtime.core.services import DriverServices

__all__ = ("PERHAPS_NOTHING", "StreamState", "has_effect")

PERHAPS_NOTHING = frozenset({Copy, Fill, ScatteredCopy, WaitEvent})


def has_effect(item: Completion) -> bool:
    """Tell whether a command is anything to null-stream order: a copy of no bytes is not, nor a wait for no record."""
    command: Command = item.command
    if isinstance(command, WaitEvent):
        return command.record is not None
    if isinstance(command, Fill):
        return command.times > 0
    return not isinstance(command, Copy | ScatteredCopy) or command.size > 0


class StreamState(InProcess, ABC):
    """The commands of one stream that are not over, and what those that are over left behind."""

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_closed",
        "_detached",
        "_error",
        "_last",
        "_loose",
        "_ordered",
        "_ordered_to",
        "_queue",
        "_scheduled",
        "_unusual",
        "blocking",
        "capacity",
        "cluster_mask",
        "context",
        "driver",
        "gap",
        "label",
        "null",
        "number",
        "priority",
        "sip_mask",
    )

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
        self.cluster_mask = cluster_mask  # where its kernels may run: a bit each
        self.sip_mask = sip_mask
        self.driver: DriverServices = context.driver
        self.priority = priority
        self.blocking = blocking
        self.null = null
        self.capacity: Capacity | None = capacity
        self.number = 0 if null else self.driver.next_stream_number()
        self.label: str = label or ("null stream" if null else f"stream {self.number}")
        if label or null:
            self.driver.tracer.label_stream(context.ordinal, self.number, self.label)
        if capacity is not None:
            self.driver.tracer.limit_stream(context.ordinal, self.number, capacity.limit)
        self._queue: deque[Completion] | None = None  # made when first needed: idle streams are small
        self._last: Completion | None = None  # the newest command
        self._ordered: Completion | None = None  # the newest that the other side of null-stream order waits for
        self._ordered_to = 0  # up to this number the stream has come after all that null-stream order puts before it
        self._detached: dict[Completion, None] | None = None  # left the queue unfinished: callbacks that do not hold it
        self._callbacks: deque[Any] | None = None  # detached callbacks waiting for the one before them
        self._loose = False  # whether the queue may hold callbacks that will leave it unfinished
        # The newest command of the board when the stream last left out a wait; 0 when all is over up to that one.
        self.gap = 0
        self._scheduled = False
        self._closed = False
        self._unusual = capacity is not None  # whether a submission must look before it leaps
        self._error: AtopsError | None = None

    # ---- what the machine does

    @abstractmethod
    def admit(self, item: Completion) -> Any:
        """Refuse a command on a closed stream, a dead device or a full stream. With the driver's lock held."""

    @abstractmethod
    def append(self, item: Completion) -> bool:
        """Number and append an admitted command. With the driver's lock held."""

    @abstractmethod
    def drain(self) -> None:
        """Run commands from the head."""

    @abstractmethod
    def finish(self, item: Completion, error: AtopsError | None = None, here: bool = False) -> None:
        """Settle a command that did not end inside the drain."""

    @abstractmethod
    def abort(self, reason: ExecutionError | None = None) -> int:
        """Drop what has not started, and end what runs at its next chance."""

    # ---- order

    def retire(self) -> None:
        """Become idle. With the driver's lock held."""
        self._scheduled = self._loose = False
        self._last = self._ordered = None  # an idle stream keeps nothing alive
        if self.gap:
            self.close_gap()
        if self.null:
            self.context.null_last = None
        if not self._detached:
            self.context.active.pop(self, None)

    def forget(self, item: Completion) -> None:
        """Take a command that has not started out of the queue, if it is there. With the driver's lock held."""
        queue = self._queue
        if queue and item._state == PENDING and item in queue:
            queue.remove(item)
            self.keep_order(list(queue))
            if not queue:
                self.retire()

    def keep_order(self, kept: list[Completion]) -> None:
        """Let what an abort kept stand for the stream's place in the order. With the driver's lock held."""
        self._last = kept[-1] if kept else None
        self._ordered = None
        self.context.dropped_at = self.driver.seq
        for item in kept:
            if has_effect(item) and (item.command.__class__ is not Call or item.command.holds):
                self._ordered = item
        if self.null:
            self.context.null_last = self._ordered

    def left_out(self, item: Completion) -> None:
        """Note that the order through a command is lost: it was to wait, and did not. With the driver's lock held."""
        if item.deps or (item.command.__class__ is WaitEvent and item.command.record is not None):
            self.gap = self.driver.seq

    def inherit(self, dep: Completion) -> None:
        """Take over what the stream of a command that this one has waited for did not wait for. With the lock held."""
        if isinstance(dep._error, StreamAborted):
            self.gap = self.driver.seq
        else:
            self.gap = max(self.gap, dep.stream.gap)

    def close_gap(self) -> None:
        """Forget the gap when everything that it stands for is over."""
        with self.driver.lock:
            if not any(stream.unfinished_to(self.gap) for stream in self.driver.active_streams()):
                self.gap = 0

    def unfinished_to(self, seq: int) -> list[Completion]:
        """Return commands that are over when all are up to number `seq`, each but an abort. With the lock held.

        They are the newest in the queue and, as an abort ends that one before the one that runs, the head.
        """
        items = [item for item in self._detached or () if item.seq <= seq]
        queue = self._queue
        if queue and queue[0].seq <= seq:
            newest = queue[-1] if queue[-1].seq <= seq else [item for item in queue if item.seq <= seq][-1]
            items += [newest] if newest is queue[0] else [queue[0], newest]
        return items

    def _order(self, item: Completion) -> None:
        """Find the null-stream predecessors: what this stream's own order does not already imply. With the lock."""
        context = self.context
        since, self._ordered_to = self._ordered_to, self.driver.seq
        if since < context.dropped_at:  # what the stream came after may have been dropped, and not what was before it
            since = 0
        if self.null:
            deps = tuple(
                stream._ordered
                for stream in context.active
                if stream.blocking and stream is not self and stream._ordered is not None
                if stream._ordered.seq > since and stream._ordered._state < DONE
            )
            if deps:
                item.deps = (*(item.deps or ()), *deps)
        else:
            last = context.null_last
            if last is not None and last.seq > since and last._state < DONE:
                item.deps = (*(item.deps or ()), last)

    # ---- looking

    def outstanding(self) -> list[Completion]:
        """Return what synchronising with this stream must wait for: a snapshot."""
        with self.driver.lock:
            return self._unfinished()

    def synchronised(self) -> list[StreamState]:
        """Return the streams that synchronising with this one waits for. With the driver's lock held."""
        streams = [self]
        if self.null:  # it stands for every blocking stream of its device (2.4 topsStreamSynchronize)
            streams += [each for each in self.context.active if each.blocking and each is not self]
        return streams

    def _unfinished(self) -> list[Completion]:
        """As `outstanding`, with the driver's lock held."""
        items: list[Completion] = []
        for stream in self.synchronised():
            items += stream._detached or ()
            if stream._loose:  # what comes last in the queue does not wait for them
                calls = (each for each in stream._queue or () if each.command.__class__ is Call)
                items += [call for call in calls if not call.command.holds]
            if stream._queue and stream._queue[0] is not stream._last and stream._queue[0]._state == RUNNING:
                items.append(stream._queue[0])  # an abort would end the last before it
            if stream._last is not None and stream._last._state < DONE:
                items.append(stream._last)
        return items

    def snapshot(self) -> tuple[tuple[Completion, ...], tuple[Completion, ...]]:
        """Return the commands that left the queue unfinished, and the queue, its head first."""
        with self.driver.lock:
            return tuple(self._detached or ()), tuple(self._queue or ())

    def pending(self) -> tuple[Completion, ...]:
        """Return the commands that are not over, the running one first: a snapshot."""
        detached, queue = self.snapshot()
        return detached + queue
