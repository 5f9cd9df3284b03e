"""Enqueueing several commands in one step, on one or several streams, and commands that record events."""

from __future__ import annotations

from collections.abc import Sequence

from atops.base.errors import InvalidHandle, InvalidType, InvalidValue
from atops.base.waiting.locks import reentered
from atops.runtime.core.commands import Command
from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event
from atops.runtime.core.failures import verb
from atops.runtime.queues.abort import break_off
from atops.runtime.queues.queue import StreamQueue

__all__ = ("check_event", "submit_items", "submit_together")


def check_event(stream: StreamQueue, event: object) -> None:
    """Raise InvalidType for what is no event, InvalidHandle for one of another device than the stream's."""
    if not isinstance(event, Event):
        raise InvalidType(f"record() expects an Event or nothing, got {event!r}")
    if event.device is not None and event.device != stream.context.ordinal:
        raise InvalidHandle(
            f"{event!r} is of device {event.device}, {stream.label} of device {stream.context.ordinal}"
        )


def submit_items(items: Sequence[Completion], events: tuple[Event, ...] = (), launch: Completion | None = None) -> None:
    """Enqueue commands whose completions are made already, all or none, with nothing of another thread in between.

    They are of streams of one driver. `events` get the first one as their record, and none of them is seen with a
    record that is not in its queue yet; `launch` is the launch that they are bound to, if any. Raises as `submit`.
    """
    driver = items[0].stream.driver
    if driver.called_amid():
        raise reentered(f"{verb(items[0])} was enqueued on {items[0].stream.label}")
    try:
        with driver.lock:
            for event in events:
                event.check_recordable()
            for item in items:
                item.stream.admit(item)
            for item in items:
                if item.stream.append(item):
                    driver.post(item.stream.drain)
            for event in events:
                event.launch = launch
                event.recorded_by(items[0])
    except BaseException as error:
        break_off(items, error)
        raise


def submit_together(commands: Sequence[tuple[StreamQueue, Command]]) -> list[Completion]:
    """Enqueue commands on several streams of one driver, all or none, with nothing of another thread in between.

    Raises InvalidValue for streams of several drivers, else what enqueueing one of them would; then none is enqueued.
    """
    if not commands:
        return []
    driver = commands[0][0].driver
    if any(stream.driver is not driver for stream, _ in commands):
        raise InvalidValue("streams of several drivers cannot be given commands together")
    items = [Completion(stream, command) for stream, command in commands]
    submit_items(items)
    return items
