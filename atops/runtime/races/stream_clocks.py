"""Where streams and devices are: what their newest commands know, joined only when something asks for it."""

from __future__ import annotations

import sys
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from atops.runtime.commands.awaited import WaitAwaited
from atops.runtime.commands.call import Call
from atops.runtime.commands.events import WaitEvent
from atops.runtime.commands.values import WaitValue
from atops.runtime.core.completion import DONE, Completion
from atops.runtime.races.command_clock import (
    NOTHING,
    STREAMS,
    Clock,
    Epoch,
    Waited,
    before,
    group_in,
    joined,
    newer,
    with_entry,
)

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("NOWHERE", "DeviceOrder", "Orders", "StreamClock")

NOWHERE: Final = (sys._getframe().f_code, 0)  # a place that nothing asks for
MOST_LOOKED_AT: Final = 4  # orders of streams that are gone, for each new one
WAITS: Final = frozenset({WaitEvent, WaitAwaited, WaitValue, Call})  # their ends tell something


class StreamClock:
    """Where a stream is: its newest command that has begun, and the one before it. `gone` is told when it goes."""

    __slots__ = ("_gone", "before_last", "last", "left_at", "merged", "null_seen", "order", "waited")

    def __init__(self, order: int, gone: deque[tuple[int, Epoch | None]] | None = None) -> None:
        self.order = order
        self._gone = gone
        self.last: Epoch | None = None
        self.before_last: Epoch | None = None
        self.merged: Clock = NOTHING  # what null-stream order has of what the stream knows
        self.null_seen = 0
        self.left_at = 0  # the newest command there was when a wait was left out, after a failure or by an abort
        self.waited: Waited | None = None

    def waits(self, epoch: Epoch, record: Completion | None) -> None:
        """Note a wait for an event; `record` is None where nothing had recorded it. Those of others say nothing."""
        at = None if record is None else record.epoch
        if record is None or at is not None:
            self.waited = Waited(epoch.place, None if at is None else (at.order, at.seq, at.place))

    def __del__(self) -> None:
        if self._gone is not None:
            self._gone.append((self.order, self.last))


class Orders:
    """Gives each stream its order, one that another stream has left if there is one.

    An order is free again once the host knows that all its commands are over: what another stream does comes after
    them, as what the same one would do next, and nothing has to be told apart.
    """

    __slots__ = ("_free", "_made", "gone")

    def __init__(self) -> None:
        self.gone: deque[tuple[int, Epoch | None]] = deque()  # of streams that are gone: the newest that has begun
        self._free: list[int] = []  # a heap: the lowest first
        self._made = 0

    def take(self, host: Clock) -> int:
        """Return the order of a new stream, where the host knows this much."""
        here = Epoch(0, 0, 0, False, host, NOWHERE, "")
        for _ in range(min(MOST_LOOKED_AT, len(self.gone))):
            order, last = self.gone.popleft()
            if last is None or before(last, here):
                heappush(self._free, order)
            else:
                self.gone.append((order, last))
        if self._free:
            return heappop(self._free)
        self._made += 1
        return STREAMS + self._made - 1


class DeviceOrder:
    """What the streams of one device know, and null-stream order there: joined only when something asks for it."""

    __slots__ = ("blocking", "blocking_host", "changed", "every", "learned", "null", "waits")

    def __init__(self) -> None:
        self.null: Epoch | None = None  # the null stream's newest command that has begun
        self.blocking: Clock = NOTHING
        self.blocking_host: Clock = NOTHING
        self.every: Clock = NOTHING
        # By stream, the newest command with which it learned something, since the last join:
        self.changed: dict[int, Epoch] = {}  # of blocking streams, for the null stream
        self.learned: dict[int, Epoch] = {}  # of all
        # By stream, the waits at its end: what they tell is known when they are over, when the null stream asks.
        self.waits: dict[int, list[Epoch]] = {}

    def join_blocking(self, seq: int) -> None:
        """Join what blocking streams know, by their commands up to a number."""
        for order, waits in list(self.waits.items()):
            for wait in waits:
                if wait.seq <= seq:
                    wait.complete()
                    self.changed[order] = wait
            if left := [wait for wait in waits if wait.seq > seq]:
                self.waits[order] = left
            else:
                del self.waits[order]
        for epoch in self.changed.values():
            self.blocking = joined(self.blocking, epoch.own)
            self.blocking_host = newer(self.blocking_host, epoch.host)
        self.changed.clear()

    def join_every(self) -> Clock:
        """Return what any stream of the device has learned."""
        for epoch in self.learned.values():
            if epoch.told is not None:
                epoch.complete()
            self.every = joined(self.every, epoch.own)
        self.learned.clear()
        return self.every

    def forget(self, order: int) -> None:
        """Join what a stream knew that is gone, before another one has its order."""
        for wait in self.waits.pop(order, ()):
            wait.complete()
            self.changed[order] = wait
        if (epoch := self.changed.pop(order, None)) is not None:
            self.blocking = joined(self.blocking, epoch.own)
            self.blocking_host = newer(self.blocking_host, epoch.host)
        if (epoch := self.learned.pop(order, None)) is not None:
            self.every = joined(self.every, epoch.own)

    def take_in(self, queue: StreamQueue, clock: StreamClock, epoch: Epoch, kind: type) -> None:
        """Have a command come after what null-stream order puts before it, and tell the other side.

        A wait for an event in a blocking stream does not wait for the null stream, and may begin before a command there
        that was enqueued earlier.
        """
        if queue.null:
            self.join_blocking(epoch.seq)
            epoch.own = with_entry(joined(epoch.own, self.blocking), group_in(epoch.device), epoch.seq - 1)
            epoch.host = newer(epoch.host, self.blocking_host)
            self.null = epoch
            return
        if (null := self.null) is not None and null.seq > clock.null_seen and kind is not WaitEvent:
            clock.null_seen = null.seq
            epoch.come_after(null)
            epoch.own = with_entry(epoch.own, group_in(epoch.device), null.seq)
        if kind in WAITS:
            last = queue.context.null_last
            waits = self.waits.get(epoch.order, []) if last is not None and last.stage < DONE else []
            self.waits[epoch.order] = [*waits, epoch]
            return
        if self.waits:
            self.waits.pop(epoch.order, None)
        if epoch.own is not clock.merged:
            self.changed[epoch.order], clock.merged = epoch, epoch.own
        if epoch.host is not self.blocking_host:
            self.blocking_host = newer(self.blocking_host, epoch.host)
