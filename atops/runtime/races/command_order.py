"""What comes before what: what each stream has learned, and what the host knows to be over.

A stream's commands are in order; so is what follows a wait for an event or for a value, null-stream order, and what the
host enqueues once it has waited. The host is one actor, whatever tasks and threads its program has: what it does comes
after all that any of them was told is over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, TypeAlias

from atops.base.errors import DataRace, PriorLaunchFailure
from atops.base.locks import fork_safe
from atops.device.memory.allocation import Allocation
from atops.device.races.race import Race
from atops.runtime.commands.events import WaitEvent
from atops.runtime.commands.launch import Launch
from atops.runtime.core.commands import PERHAPS_NOTHING, Command
from atops.runtime.core.completion import DONE, FAILED, Completion
from atops.runtime.races.command_clock import (
    NOTHING,
    NULL_STREAMS,
    Clock,
    Epoch,
    before,
    changed,
    everything_in,
    group_in,
    joined,
    known,
    newer,
    with_entries,
    with_entry,
)
from atops.runtime.races.host_memory import HostMemory
from atops.runtime.races.report import Findings
from atops.runtime.races.stream_clocks import NOWHERE, DeviceOrder, Orders, StreamClock

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("CommandOrder", "StreamEnd")

StreamEnd: TypeAlias = "tuple[StreamQueue, Completion | None, int]"


class CommandOrder:
    """The order of the commands of one board. Every method may be called from any thread; none calls the program."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.host: Clock = NOTHING  # what the host knows to be over
        self._lock = fork_safe(threading.RLock())  # again: a finalizer may come in the middle of it
        self._running: dict[int, tuple[Epoch, Collection[Allocation]]] = {}  # kernels, by number, with their memory
        self._devices: dict[int, DeviceOrder] = {}
        self._orders = Orders()
        self._shared = Epoch(0, 0, 0, False, NOTHING, NOWHERE, "another process")  # after what was told others
        self._memory = HostMemory()
        self._late: list[Race] = []  # found with the lock held; told without

    # ---- streams

    def _clock(self, queue: StreamQueue) -> StreamClock:
        """Return the clock of a stream, made for its first command. With the driver's lock held."""
        if queue.null:
            clock = StreamClock(NULL_STREAMS + queue.context.ordinal)
        else:
            with self._lock:
                orders = self._orders
                clock = StreamClock(orders.take(self.host), orders.gone)
                for device in self._devices.values():
                    device.forget(clock.order)
        queue.clock = clock
        return clock

    def _device(self, ordinal: int) -> DeviceOrder:
        found = self._devices.get(ordinal)
        return self._devices.setdefault(ordinal, DeviceOrder()) if found is None else found

    def _advance(self, item: Completion, epoch: Epoch, kind: type, effect: Callable[[Command], bool]) -> None:
        """Find what is before a command that begins. With the lock held."""
        queue, command = item.queue, item.command
        clock = queue.clock
        assert clock is not None, "it has an epoch"
        if (last := clock.last) is not None:
            if last.told is not None:
                last.complete()
            self._running.pop(last.seq, None)  # a launch that could not begin, or was abandoned
            epoch.own = last.own
            if last.left_at:
                epoch.left_at = last.left_at
            if epoch.host is not last.host:
                epoch.host = newer(epoch.host, last.host)
        if clock.left_at > epoch.left_at:
            epoch.left_at = clock.left_at
        if epoch.after:
            for over in _epochs_of(epoch.after, epoch):
                epoch.come_after(over)
            epoch.after = ()
        if kind is WaitEvent:
            clock.waits(epoch, command.record)
            epoch.told = [*_epochs_of(filter(None, (command.record,)), epoch)]
        elif kind is Launch and (meeting := command.options.meeting) is not None:
            epoch.meeting = meeting
            epoch.told = [*_epochs_of(meeting.items, epoch)]
        if queue.blocking and (kind not in PERHAPS_NOTHING or effect(command)):
            self._device(epoch.device).take_in(queue, clock, epoch, kind)
        if last is None or epoch.own is not last.own:
            self._device(epoch.device).learned[epoch.order] = epoch
        clock.before_last, clock.last, epoch.waited = last, epoch, clock.waited

    # ---- the host

    def saw(self, item: Completion) -> None:
        """Note that the host was told that a command is over: what it enqueues from now on comes after it."""
        with self._lock:
            self._saw(item)
        self._tell_late()

    def _tell_late(self) -> None:
        """Tell what was found as the host was told something. With no lock held."""
        while self._late:
            with self._lock:
                late, self._late = self._late, []
            self.findings.add(late)

    def _saw(self, item: Completion) -> None:
        if (epoch := self._told_by(item)) is not None:
            self._host_knows(epoch)

    @staticmethod
    def _told_by(item: Completion) -> Epoch | None:
        """Return what is over, once the host was told that a command is; None where that says nothing.

        A command that was skipped never began; it comes after what was before it.
        """
        stood = item.instead or item
        if (epoch := stood.epoch) is None or (stood.stage < DONE and stood is item):
            return None
        if epoch.words == "" and item.stage == FAILED:
            clock = item.queue.clock
            skipped = isinstance(item.failure, PriorLaunchFailure | DataRace)
            return None if not skipped or clock is None else clock.last
        return epoch

    def _host_knows(self, *epochs: Epoch) -> None:
        host, entries = self.host, []
        for epoch in epochs:
            if epoch.told is not None:
                epoch.complete()
            if known(host, epoch.order) < epoch.seq:
                host = joined(host, epoch.own)
                entries.append((epoch.order, epoch.seq))
        if entries:
            self._learn(with_entries(host, entries))

    def _learn(self, host: Clock) -> None:
        if host is self.host:
            return
        self.host = host = changed(host, self.host)
        if not self._memory.watched:
            return
        here = Epoch(0, 0, 0, False, host, NOWHERE, "")
        for epoch in self._memory.watched:
            if before(epoch, here) and (race := self._memory.over(epoch)) is not None:
                self._late.append(race)

    def saw_room(self, queue: StreamQueue) -> None:
        """Note that the host was told that there is room in a stream: a command of it is over."""
        clock, idle = queue.clock, not queue.pending()
        if clock is not None and (last := clock.last if idle else clock.before_last) is not None:
            with self._lock:
                self._host_knows(last)

    def host_did(self, item: Completion) -> None:
        """Note that something of the host's has ended for which a stream waits: it comes after what the host knew."""
        with self._lock:
            if (epoch := item.epoch) is not None:
                epoch.told = [*(epoch.told or ()), self.host]

    def saw_all(self, items: Iterable[Completion]) -> None:
        """Note that the host was told that these are over."""
        with self._lock:
            self._host_knows(*(epoch for item in items if (epoch := self._told_by(item)) is not None))
        self._tell_late()

    def end_of(self, queue: StreamQueue) -> StreamEnd:
        """Return what stands for all that a stream was given by now: for `over`, after the wait for it."""
        with queue.board.lock:
            return queue, queue.newest, queue.board.seq

    def over(self, end: StreamEnd) -> None:
        """Note that the host was told that all of it is over: of the null stream what all blocking streams had, too."""
        queue, last, seq = end
        with self._lock:
            if queue.null:
                device = self._device(ordinal := queue.context.ordinal)
                device.join_blocking(seq)
                self._learn(with_entry(joined(self.host, device.blocking), group_in(ordinal), seq))
            if last is not None:
                self._saw(last)
            elif (clock := queue.clock) is not None and clock.last is not None:
                self._host_knows(clock.last)
        self._tell_late()

    def device_over(self, ordinal: int, seq: int) -> None:
        """Note that the host was told that all of a device's commands up to a number are over."""
        with self._lock:
            self._learn(with_entry(joined(self.host, self._device(ordinal).join_every()), everything_in(ordinal), seq))
        self._tell_late()

    # ---- other processes

    def shared(self, item: Completion) -> None:
        """Note that other processes can tell that a command is over: what they tell this one of comes after it."""
        with self._lock:
            if (epoch := item.epoch) is not None:
                epoch.complete()
                self._shared.come_after(epoch)

    def told_elsewhere(self, item: Completion | None) -> None:
        """Note that another process told something: a command, or the host, for None, comes after what it was told."""
        with self._lock:
            if item is None:
                self._learn(joined(self.host, self._shared.own))
            elif (epoch := item.epoch) is not None:
                epoch.told = [*(epoch.told or ()), self._shared]
        self._tell_late()


def _epochs_of(items: Iterable[Completion], epoch: Epoch) -> list[Epoch]:
    """Return the epochs of commands of other streams than this one's."""
    found = [(item.instead or item).epoch for item in items]
    return [each for each in found if each is not None and each.order != epoch.order]
