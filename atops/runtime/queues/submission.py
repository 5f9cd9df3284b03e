"""Enqueueing a command whose completion is made already, with the events that it marks, if there are any."""

from __future__ import annotations

from atops.base.errors import InvalidHandle, InvalidType
from atops.base.waiting.locks import reentered
from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event
from atops.runtime.core.failures import verb
from atops.runtime.queues.queue import StreamQueue

__all__ = ("check_event", "enqueue_marked")


def check_event(stream: StreamQueue, event: object) -> None:
    """Raise InvalidType for what is no event, InvalidHandle for one of another device than the stream's."""
    if not isinstance(event, Event):
        raise InvalidType(f"record of {event!r}; an Event, or nothing, is right")
    if event.device is not None and event.device != stream.context.ordinal:
        raise InvalidHandle(
            f"{event!r} is of device {event.device}, {stream.label} of device {stream.context.ordinal}"
        )


def enqueue_marked(
    queue: StreamQueue, item: Completion, events: tuple[Event, ...] = (), launch: Completion | None = None
) -> Completion:
    """Enqueue a command; none of its events is seen with a record that is not in the queue yet. Raises as `submit`.

    `launch` is the launch that the events are bound to, if they are.
    """
    driver = queue.driver
    if driver.called_amid():
        raise reentered(f"{verb(item)} was enqueued on {queue.label}")
    try:
        with driver.lock:
            _enqueue(queue, item, events, launch)
    except BaseException as error:
        queue.interrupted(error, item)
        raise
    return item


def _enqueue(queue: StreamQueue, item: Completion, events: tuple[Event, ...], launch: Completion | None) -> None:
    """Do what `enqueue_marked` does under the driver's lock."""
    for event in events:
        event.check_recordable()
    first = queue.enqueue(item)
    for event in events:
        event.launch = launch
        event.recorded_by(item)
    if first:
        queue.driver.post(queue.drain)
