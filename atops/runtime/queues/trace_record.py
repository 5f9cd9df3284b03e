"""The trace records of settled commands and of API calls: sixteen integers each."""

from __future__ import annotations

from atops.base.errors import AtopsError
from atops.base.trace.tracer import Kind, Status, Tracer, TraceTuple
from atops.device.memory.allocation import Allocation
from atops.runtime.core.commands import NOWHERE, row_of
from atops.runtime.core.completion import Completion
from atops.runtime.core.failures import status_of

__all__ = ("call_record", "copy_record", "trace_tuple")

API, WENT_WELL, FAILED = int(Kind.API), int(Status.DONE), int(Status.FAILED)


def copy_record(
    seq: int, kind: int, device: int, stream: int, submitted: int, started: int, finished: int, size: int,
    dst: object, dst_at: int, src: object, src_at: int,
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
    kind, size, dst, dst_at, src, src_at, correlation, name = row_of(item.command).describe(item.command, item)
    stream = item.stream
    started = now if item.started_ns < 0 else item.started_ns
    status = WENT_WELL if error is None else status_of(error)
    return (
        item.seq, kind, stream.context.ordinal, stream.number, item.submitted_ns, started, now,
        status, size, dst, dst_at, src, src_at, correlation, tracer.intern(name), item.engine,
    )  # fmt: skip
