"""How each command runs: one function a verb, chosen from a table by the command's type.

Each is called on the driver for the head of a stream, and returns True when the command is over, or False when it goes
on elsewhere and will call `stream.finish`. What it raises fails the command.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from atops.base.errors import PriorLaunchFailure
from atops.device.memory.allocation import fill
from atops.device.memory.value_wait import Watch
from atops.runtime.core.commands import (
    Alloc,
    Call,
    Copy,
    Fill,
    Free,
    Launch,
    Record,
    Reduce,
    ScatteredCopy,
    WaitEvent,
    WaitValue,
    WriteValue,
)
from atops.runtime.core.completion import Completion
from atops.runtime.execute.call import run_call
from atops.runtime.execute.copy import run_copy, run_here_or_beside
from atops.runtime.execute.launch import run_launch
from atops.runtime.execute.reduce import run_reduce
from atops.runtime.execute.scattered_copy import run_scattered
from atops.runtime.executors.executor import HERE
from atops.runtime.queues.deferred_free import free_after
from atops.runtime.queues.queue import StreamQueue

__all__ = (
    "EXECUTE",
    "WaitOver",
    "run_alloc",
    "run_fill",
    "run_free",
    "run_record",
    "run_wait_event",
    "run_wait_value",
    "run_write_value",
)

LARGE_FILL = 1 << 20  # a larger fill takes longer than a thread hop


def run_fill(stream: StreamQueue, item: Completion) -> bool:
    """Fill here, or on a copy thread when it is large."""
    command: Fill = item.command
    action = partial(fill, command.dst, command.offset, command.pattern, command.times)
    return run_here_or_beside(stream, item, action, len(command.pattern) * command.times <= LARGE_FILL)


def run_record(stream: StreamQueue, item: Completion) -> bool:
    """Stamp the event with the time at which everything before it was over."""
    command: Record = item.command
    command.event.stamp(item, stream.driver.now())
    return True


def run_wait_event(stream: StreamQueue, item: Completion) -> bool:
    """Go on at once if the record is complete; else park until it is. A failed record poisons this stream."""
    command: WaitEvent = item.command
    record = command.record
    if record is None:
        return True
    item.parked = record
    waiter = WaitOver(stream, item, record)
    item.cancel = lambda error: stream.finish(item, error)
    if record.add_waiter(waiter):
        return False
    if (error := waiter.error()) is not None:
        raise error
    return True


class WaitOver:
    """Ends a stream's wait for an event when the record it waits for is over."""

    __slots__ = ("_item", "_record", "_stream")

    def __init__(self, stream: StreamQueue, item: Completion, record: Completion) -> None:
        self._stream = stream
        self._item = item
        self._record = record

    def wake(self) -> None:
        """End the wait, well or not."""
        self._stream.finish(self._item, self.error())

    def error(self) -> PriorLaunchFailure | None:
        """Return what to fail the wait with, if the record failed. The wait takes over what its stream left out."""
        if self._record.stream.gap:
            with self._stream.driver.lock:
                self._stream.inherit(self._record)
        cause = self._record._error
        if cause is None:
            return None
        error = PriorLaunchFailure(f"{self._stream.label} waited for an event whose work failed: {cause}")
        error.__cause__ = cause
        return error


def run_wait_value(stream: StreamQueue, item: Completion) -> bool:
    """Test the word now and after every write to it, until it satisfies the condition."""
    command: WaitValue = item.command

    def satisfied() -> None:
        item.writer = HERE.writer
        stream.finish(item)

    watch = Watch(
        command.src,
        command.offset,
        command.width,
        command.value,
        command.condition,
        command.mask,
        satisfied,
        on_dead=lambda error: stream.finish(item, error),
        poll=stream.driver.poller.add,
    )
    item.parked = watch

    def cancel(error: Any) -> None:
        watch.cancel()
        stream.finish(item, error)

    item.cancel = cancel
    watch.arm()  # may fire here and now
    return False


def run_write_value(stream: StreamQueue, item: Completion) -> bool:
    """Write the word and let every value wait on it look again."""
    command: WriteValue = item.command
    size = command.width // 8
    HERE.writer = item.seq  # so that the trace can draw who satisfied whom
    try:
        fill(command.dst, command.offset, (command.value % (1 << command.width)).to_bytes(size, "little"), 1)
    finally:
        HERE.writer = -1
    return True


def run_alloc(stream: StreamQueue, item: Completion) -> bool:
    """The memory was found at the call; here is where the stream may begin to use it."""
    return True


def run_free(stream: StreamQueue, item: Completion) -> bool:
    """Give memory back. A duty: it runs after a failure and after an abort too.

    Where the stream has left out a wait, others may still use the memory: it is given back when everything is over that
    the board had been given up to then. The stream does not wait for that.
    """
    command: Free = item.command
    by = f"{stream.label}, command {item.seq}"
    if stream.gap:
        free_after(stream.context, command.release, command.allocation, by, None, min(stream.gap, item.seq - 1))
    else:
        command.release(command.allocation, by)
    return True


EXECUTE: dict[type, Callable[[StreamQueue, Completion], bool]] = {
    Copy: run_copy,
    ScatteredCopy: run_scattered,
    Reduce: run_reduce,
    Fill: run_fill,
    Launch: run_launch,
    Record: run_record,
    WaitEvent: run_wait_event,
    WaitValue: run_wait_value,
    WriteValue: run_write_value,
    Call: run_call,
    Alloc: run_alloc,
    Free: run_free,
}
