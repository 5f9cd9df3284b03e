"""Records of events, waits for them, and the places in stream order of commands that were cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from atops.base.errors import PriorLaunchFailure
from atops.base.trace.records import Kind
from atops.runtime.core import command_trace
from atops.runtime.core.commands import NOWHERE, Described, Ended, always, define, never, nothing, words_of
from atops.runtime.core.completion import Completion, verb
from atops.runtime.core.event import Event

if TYPE_CHECKING:
    from atops.runtime.core.order import Seen

__all__ = ("Cancelled", "Record", "WaitEvent")

RECORD = "record"  # what messages call one


class Record(NamedTuple):
    """Mark this point of the stream in an event."""

    event: Event
    seen: Seen | None = None  # what comes before it in other streams, for pools


class WaitEvent(NamedTuple):
    """Wait for the record that an event held when the wait was enqueued (None: never recorded, no wait).

    Of a command's completion it is both.
    """

    event: Event | Completion
    record: Completion | None


class Cancelled(NamedTuple):
    """Stand where a cancelled command stood: what waits for that place waits for all before it. It leaves no record."""

    effect: bool  # whether null-stream order counts it


def _run_record(command: Record, item: Completion) -> bool:
    """Stamp the event with the time at which everything before it was over, and tell other processes that share it."""
    event = command.event
    event.stamp(item, item.queue.board.now())
    if (shared := event.shared) is not None:
        shared.publish(item)
    return True


def _run_wait_event(command: WaitEvent, item: Completion) -> bool:
    """Go on at once if the record is complete; else park until it is. A failed record poisons this stream."""
    record = command.record
    if record is None:
        return True
    item.parked = record
    waiter = _WaitOver(item, record)
    item.stop = item.finish
    if record.add_waiter(waiter):
        if item.queue.board.tracer.detail and not item.over:
            command_trace.park(item, record)
        return False
    item.parked = item.stop = None
    if (error := waiter.error()) is not None:
        raise error
    return True


class _WaitOver:
    """Ends a stream's wait for an event when the record it waits for is over."""

    __slots__ = ("_item", "_record")

    def __init__(self, item: Completion, record: Completion) -> None:
        self._item = item
        self._record = record

    def wake(self) -> None:
        """End the wait, well or not."""
        self._item.finish(self.error())

    def error(self) -> PriorLaunchFailure | None:
        """Return what to fail the wait with, if the record failed. The stream loses what was lost before the record."""
        stream = self._item.queue
        if self._record.lost is not None:
            stream.lose(self._record.lost)
        cause = self._record.failure
        if cause is None:
            return None
        what = "an event whose work" if words_of(self._record.command) == RECORD else f"{verb(self._record)}, which"
        error = PriorLaunchFailure(f"{stream.label} waited for {what} failed: {cause}")
        error.__cause__ = cause
        return error


def _describe_wait_event(command: WaitEvent, item: Completion) -> Described:
    """Describe a wait for an event: the record that satisfied it is its cause."""
    return (Kind.WAIT_EVENT, 0, *NOWHERE, *NOWHERE, command.record.seq if command.record is not None else -1, "")


define(
    Record,
    words=lambda _: RECORD,
    run=_run_record,
    run_timed=_run_record,
    describe=lambda record, item: (Kind.RECORD, 0, *NOWHERE, *NOWHERE, record.event.number, ""),
    uses=nothing,
    reads=nothing,
    touches=nothing,
    effect=always,
    waits=never,
    silent=True,
    ended=lambda record: Ended(RECORD, None, record.seen),
)
define(
    WaitEvent,
    words=lambda _: "wait_event",
    run=_run_wait_event,
    run_timed=_run_wait_event,
    describe=_describe_wait_event,
    uses=nothing,
    reads=nothing,
    touches=nothing,
    effect=lambda wait: wait.record is not None,
    waits=always,
    silent=False,
    ended=Ended("wait_event"),
)
define(
    Cancelled,
    words=lambda _: "the place of a cancelled command",
    run=lambda *_: True,
    run_timed=lambda *_: True,
    describe=lambda *_: (Kind.CALL, 0, *NOWHERE, *NOWHERE, -1, ""),
    uses=nothing,
    reads=nothing,
    touches=nothing,
    effect=lambda place: place.effect,
    waits=never,
    silent=True,
    ended=Ended("the place of a cancelled command"),
)
