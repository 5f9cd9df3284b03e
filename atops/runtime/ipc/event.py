"""Events between processes: an event that others may record and wait for as this process does.

What another process has recorded is a command here too, on a stream of its own, so that everything that waits for work
(streams, awaits, blocking calls) waits for it alike, and a reset ends the wait.
"""

from __future__ import annotations

import itertools
import os
import struct
import threading
import time
import weakref
from typing import Final

from atops.base.errors import InvalidHandle, LaunchFailure, NotSupported
from atops.base.log_fields import get_logger
from atops.base.waiting.parking_lot import seconds
from atops.device.memory.value_wait import Condition
from atops.runtime.board.context import DeviceContext
from atops.runtime.commands.values import WaitValue
from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event
from atops.runtime.executors.executor import HERE
from atops.runtime.ipc.lending import EXPORTER, Handle, HandleKind, MapFailed, borrow, exporter, no_descriptor
from atops.runtime.ipc.page import EventPage, TicketState
from atops.runtime.queues.drain import DrainedQueue
from atops.runtime.queues.queue import StreamQueue

__all__ = ("LentEvent", "SharedRecords", "export_event", "import_event")

log = get_logger("atops.ipc")

LOOK: Final = 0.02  # seconds between two looks at whether a process that owes a record still runs
DESCRIPTION: Final = struct.Struct("<i")
SERIALS: Final = itertools.count(1)  # of handles
STATES: Final = ("recording", "recorded", "failed", "failed")
FATES: Final = {TicketState.FAILED: "failed", TicketState.LOST: "ended before it was over"}


class SharedRecords:
    """The records of one event, of all processes; what `Event.shared` holds."""

    def __init__(self, page: EventPage, context: DeviceContext, *, imported: bool = False) -> None:
        self.page = page
        self.serial = next(SERIALS)  # of its handle
        self._imported = imported
        self._context = weakref.ref(context)
        self._lock = threading.Lock()
        self._own: tuple[int, Completion] | None = None  # this process's newest record
        self._owed: dict[Completion, int] = {}  # tickets of this process's records that others do not know to be over
        self._remote: dict[int, Completion] = {}  # by ticket, records of other processes that this one waits for
        self._watching = False

    # ---- for the event

    def recorded(self, record: Completion) -> None:
        """Enter a record of this process. With the driver's lock held."""
        ticket = self.page.submit()
        self._own = ticket, record
        self._owed[record] = ticket
        publisher = _Publisher(self, record)
        if not record.add_waiter(publisher):
            publisher.wake()

    def publish(self, record: Completion) -> None:
        """Tell the other processes, once, that a record of this one is over: it is done unless it has a failure.

        A record that runs says so before this process can see it as done. One that waited for it may end at once, and
        the others would take what was not said for lost.
        """
        if (ticket := self._owed.pop(record, None)) is None:
            return
        if (detector := record.queue.board.detector) is not None:
            detector.shared(record)
        self.page.finish(ticket, record.failure is not None)

    def latest(self) -> Completion | None:
        """Return the newest record of any process; None when there is nothing to wait for."""
        ticket = self.page.latest
        if not ticket:
            return None
        if self._own is not None and self._own[0] == ticket:
            return self._own[1]
        state = self.page.state(ticket, look=True)
        if state == TicketState.DONE:
            self._was_told()
            return None
        if state != TicketState.PENDING:
            return self._failed(ticket, state)
        with self._lock:
            found = self._remote.get(ticket)
            if found is None:
                found = self._remote[ticket] = self._wait_for(ticket)
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="atops ipc event", daemon=True).start()
        return found

    def block(self, timeout: float | None) -> bool:
        """Block until the newest record is over, if another process owes it: on the page, with no thread between.

        Returns False where there is nothing to wait for here, or where it takes a command that stands for the record:
        to tell of a failure or a reset, inline, and on the runtime's own threads. Raises TimeoutError, as `seconds`.
        """
        page, context, limit = self.page, self._context(), seconds(timeout)
        ticket = page.latest
        own = self._own is not None and self._own[0] == ticket
        if not ticket or own or context is None or context.board.inline or HERE.role is not None:
            return False
        deadline = None if limit is None else time.monotonic() + limit
        while True:
            seen = page.generation
            state = page.state(ticket, look=True)
            if state != TicketState.PENDING or context.dead is not None:
                if state == TicketState.DONE:
                    self._was_told()
                return state == TicketState.DONE
            left = LOOK if deadline is None else min(LOOK, deadline - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"the record of process {page.process(ticket)} was not done within {timeout} s")
            page.wait(seen, left)

    def waited_by(self, stream: str) -> None:
        """Say, in strict mode, what is not portable (2.2 topsIpcGetEventHandle)."""
        if self._imported:
            log.warning("%s waits for an imported event; elsewhere only streams of its own process may", stream)

    @property
    def state(self) -> str:
        """One of "idle", "recording", "recorded", "failed"."""
        ticket = self.page.latest
        return STATES[self.page.state(ticket, look=True)] if ticket else "idle"

    def end(self) -> None:
        """Lend the records no more. Takes no lock: finalizers call it."""
        for lender in EXPORTER:
            lender.withdraw(HandleKind.EVENT, self.serial)

    # ---- what others owe

    def _wait_for(self, ticket: int) -> Completion:
        stream, command = self._stand_in(ticket)
        item = stream.submit(command)
        if (detector := stream.board.detector) is not None:
            detector.told_elsewhere(item)
        return item

    def _was_told(self) -> None:
        """Tell the race detector, where there is one, that the host knows a record of another process to be over."""
        context = self._context()
        if context is not None and (detector := context.board.detector) is not None:
            detector.told_elsewhere(None)

    def _failed(self, ticket: int, state: int) -> Completion:
        stream, command = self._stand_in(ticket)
        item = Completion(stream, command)
        with stream.board.lock:
            item.settle(self._failure(ticket, state))
        return item

    def _stand_in(self, ticket: int) -> tuple[StreamQueue, WaitValue]:
        """Return a stream and a command of it that stand for a record of another process."""
        context = self._context()
        if context is None:
            raise InvalidHandle("the device of this event was reset")
        stream = DrainedQueue(context, blocking=False, label=f"a record of process {self.page.process(ticket)}")
        return stream, WaitValue(self.page.words, self.page.slot(ticket), 32, ticket, Condition.Gte, None)

    def _failure(self, ticket: int, state: int) -> LaunchFailure:
        return LaunchFailure(f"process {self.page.process(ticket)}, which recorded the event, {FATES[state]}")

    def _watch(self) -> None:
        """End the waits whose records are over, until none is left. On a thread of its own."""
        page = self.page
        while True:
            seen = page.generation
            with self._lock:
                for ticket, item in list(self._remote.items()):
                    state = page.state(ticket, look=True)
                    if state == TicketState.PENDING and not item.over:
                        continue
                    del self._remote[ticket]
                    if state == TicketState.DONE:
                        page.words.wrote(page.slot(ticket), 4)
                    elif not item.over:
                        item.queue.abort(self._failure(ticket, state))
                if not self._remote:
                    self._watching = False
                    return
            page.wait(seen, LOOK)


class _Publisher:
    """Publishes a record that ended without running: it failed, was skipped, or is the end of a launch."""

    __slots__ = ("_record", "_records")

    def __init__(self, records: SharedRecords, record: Completion) -> None:
        self._records = records
        self._record = record

    def wake(self) -> None:
        """Tell the other processes."""
        self._records.publish(self._record)


class LentEvent:
    """An event of this process that others may open, for as long as it lives here."""

    def __init__(self, event: Event, page: EventPage) -> None:
        self._event = weakref.ref(event)
        self._page = page
        self._device = event.device_id

    @property
    def alive(self) -> bool:
        """Whether the event was not destroyed."""
        return self._event() is not None

    def lend(self) -> tuple[int, bytes]:
        """Return the page's descriptor and the event's device."""
        return os.dup(self._page.descriptor), DESCRIPTION.pack(self._device)

    def end_loan(self) -> None:
        """Do nothing: a page goes with its last descriptor."""


def export_event(context: DeviceContext, event: Event) -> bytes:
    """Return the 64 bytes that name an event in other processes, the same each time.

    Raises NotSupported on a board that runs inline: nothing outside may wake it. OutOfMemory: no descriptor is left.
    """
    _check_threads(context)
    lender = exporter()
    with context.board.lock:
        if event.shared is None:
            record = event.completion
            try:
                page = EventPage()
            except OSError as error:
                raise no_descriptor(f"the page of {event!r}", error) from error
            event.shared = SharedRecords(page, context)
            weakref.finalize(event, lender.withdraw, HandleKind.EVENT, event.shared.serial).atexit = False
            if record is not None:
                event.shared.recorded(record)
    records = event.shared
    return lender.export(HandleKind.EVENT, records.serial, context.ordinal, 0, LentEvent(event, records.page))


def import_event(context: DeviceContext, handle: Handle) -> Event:
    """Return an event of `context`'s device that shares its records with the one that a handle names.

    Raises InvalidHandle, OwnHandle, MapFailed as `borrow` does, and NotSupported on a board that runs inline.
    """
    _check_threads(context)
    lease = borrow(handle)
    try:
        page = EventPage(lease.descriptor)
    except OSError as error:
        raise MapFailed(f"cannot map the page of an event of process {handle.process}: {error}") from error
    finally:
        lease.close()
    event = Event(context, timing=False)
    event.shared = SharedRecords(page, context, imported=True)
    return event


def _check_threads(context: DeviceContext) -> None:
    if context.board.inline:
        raise NotSupported("events between processes need a board with threads; this one runs inline")
