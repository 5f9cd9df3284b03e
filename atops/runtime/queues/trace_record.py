"""Describing a settled command to the tracer in sixteen integers: a table of one small function a verb."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atops.base.errors import AtopsError
from atops.base.trace.tracer import Kind, Status, Tracer, TraceTuple
from atops.device.memory.allocation import Allocation
from atops.runtime.core import commands as c
from atops.runtime.core.completion import Completion
from atops.runtime.core.failures import status_of

__all__ = (
    "call_record",
    "copy_record",
    "of_call",
    "of_copy",
    "of_fill",
    "of_launch",
    "of_memory",
    "of_record",
    "of_reduce",
    "of_scattered",
    "of_wait_event",
    "of_wait_value",
    "of_write_value",
    "place",
    "trace_tuple",
)

# (kind, bytes, dst_device, dst_offset, src_device, src_offset, correlation, name)
Described = tuple[int, int, int, int, int, int, int, str]

NOWHERE = (-1, -1)
LAUNCH, API, WENT_WELL, FAILED = int(Kind.LAUNCH), int(Kind.API), int(Status.DONE), int(Status.FAILED)
HOST = (-1, 0)


def place(end: Any, offset: int) -> tuple[int, int]:
    """Return (device, offset) of an end of a copy: never a bare address."""
    if type(end) is Allocation and end.device is not None:
        return end.device, end.offset + offset
    return HOST


def of_copy(item: Completion, command: c.Copy) -> Described:
    """Describe a copy: its way, its bytes, both ends."""
    dst, src = command.dst, command.src
    return (
        command.kind, command.size, *place(dst, command.dst_offset), *place(src, command.src_offset), -1, ""
    )  # fmt: skip


def of_scattered(item: Completion, command: c.ScatteredCopy) -> Described:
    """Describe a copy of scatter memory, which has no one place, and so is called by its name."""
    ends = *place(command.dst, command.dst_offset), *place(command.src, command.src_offset)
    return (command.kind, command.size, *ends, -1, "scatter memory")


def of_reduce(item: Completion, command: c.Reduce) -> Described:
    """Describe a reduction: as a launch, because it computes, by its operation and type."""
    nbytes = command.elements * command.dtype.itemsize
    name = f"reduce {command.operation} {command.dtype}"
    return (LAUNCH, nbytes, *place(*command.result), *place(*command.lhs), -1, name)


def of_fill(item: Completion, command: c.Fill) -> Described:
    """Describe a fill."""
    size = len(command.pattern) * command.times
    return (Kind.FILL, size, *place(command.dst, command.offset), *NOWHERE, -1, "")


def of_launch(item: Completion, command: c.Launch) -> Described:
    """Describe a launch, by its kernel."""
    return (LAUNCH, 0, -1, -1, -1, -1, -1, command.bound.name)


def of_record(item: Completion, command: c.Record) -> Described:
    """Describe a record."""
    return (Kind.RECORD, 0, *NOWHERE, *NOWHERE, command.event.number, "")


def of_wait_event(item: Completion, command: c.WaitEvent) -> Described:
    """Describe a wait for an event: the record that satisfied it is its cause."""
    seq = command.record.seq if command.record is not None else -1
    return (Kind.WAIT_EVENT, 0, *NOWHERE, *NOWHERE, seq, "")


def of_wait_value(item: Completion, command: c.WaitValue) -> Described:
    """Describe a wait for a value: the write that satisfied it, if the runtime made it, is its cause."""
    return (Kind.WAIT_VALUE, command.width // 8, *NOWHERE, *place(command.src, command.offset), item.writer, "")


def of_write_value(item: Completion, command: c.WriteValue) -> Described:
    """Describe a write of a value."""
    return (Kind.WRITE_VALUE, command.width // 8, *place(command.dst, command.offset), *NOWHERE, -1, "")


def of_call(item: Completion, command: c.Call) -> Described:
    """Describe a host call, by the name of what is called."""
    return (Kind.CALL, 0, *NOWHERE, *NOWHERE, -1, command.name)


def of_memory(kind: Kind) -> Callable[[Completion, Any], Described]:
    """Describe an allocation or a free."""

    def describe(item: Completion, command: Any) -> Described:
        return (kind, command.allocation.size, *place(command.allocation, 0), *NOWHERE, -1, "")

    return describe


DESCRIBE: dict[type, Callable[[Completion, Any], Described]] = {
    c.Copy: of_copy,
    c.ScatteredCopy: of_scattered,
    c.Reduce: of_reduce,
    c.Fill: of_fill,
    c.Launch: of_launch,
    c.Record: of_record,
    c.WaitEvent: of_wait_event,
    c.WaitValue: of_wait_value,
    c.WriteValue: of_write_value,
    c.Call: of_call,
    c.Alloc: of_memory(Kind.ALLOC),
    c.Free: of_memory(Kind.FREE),
}


def copy_record(
    seq: int, kind: int, device: int, stream: int, submitted: int, started: int, finished: int, size: int,
    dst: Any, dst_at: int, src: Any, src_at: int,
) -> TraceTuple:  # fmt: skip
    """Return the trace record of a copy that went well: as `trace_tuple`, for those that are carried out in a batch."""
    dst_device = src_device = -1
    if dst.__class__ is Allocation and dst.device is not None:
        dst_device, dst_at = dst.device, dst_at + dst.offset
    else:
        dst_at = 0
    if src.__class__ is Allocation and src.device is not None:
        src_device, src_at = src.device, src_at + src.offset
    else:
        src_at = 0
    return (
        seq, kind, device, stream, submitted, started, finished,
        WENT_WELL, size, dst_device, dst_at, src_device, src_at, -1, 0, -1,
    )  # fmt: skip


def call_record(device: int, started: int, finished: int, failed: bool, name: int) -> TraceTuple:
    """Return the trace record of an API call; `name` is what the tracer calls it."""
    status = FAILED if failed else WENT_WELL
    return (-1, API, device, -1, started, started, finished, status, 0, *NOWHERE, *NOWHERE, -1, name, -1)


def trace_tuple(item: Completion, error: AtopsError | None, now: int, tracer: Tracer) -> TraceTuple:
    """Return the trace record of a command that settles now."""
    kind, size, dst, dst_at, src, src_at, correlation, name = DESCRIBE[type(item.command)](item, item.command)
    stream = item.stream
    started = now if item.started_ns < 0 else item.started_ns
    status = WENT_WELL if error is None else status_of(error)
    return (
        item.seq, kind, stream.context.ordinal, stream.number, item.submitted_ns, started, now,
        status, size, dst, dst_at, src, src_at, correlation, tracer.intern(name), item.engine,
    )  # fmt: skip
