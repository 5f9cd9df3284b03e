"""What a stream says of itself: a snapshot of its figures, its repr, and its table in a notebook."""

from __future__ import annotations

from dataclasses import dataclass

from atops.base.html_table import columns, html_table
from atops.runtime.core.completion import verb
from atops.runtime.queues.deadlock import why
from atops.runtime.queues.queue import StreamQueue

__all__ = ("StreamStatistics", "describe", "html_of", "statistics_of")

SHOWN = 12  # commands of a queue in a notebook


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """A snapshot of one stream. `capacity` and `free` are commands, None where there is no limit."""

    label: str
    device: int
    pending: int
    running: int
    detached: int
    capacity: int | None
    free: int | None
    waiting_for_room: int
    error: str | None
    head: str | None


def statistics_of(stream: StreamQueue) -> StreamStatistics:
    """Return a snapshot of a stream."""
    detached, queued = stream.snapshot()
    capacity = stream.places
    return StreamStatistics(
        label=stream.label,
        device=stream.context.ordinal,
        pending=sum(item.state == "pending" for item in queued),
        running=sum(item.state == "running" for item in queued),
        detached=len(detached),
        capacity=None if capacity is None else capacity.limit,
        free=None if capacity is None else capacity.free,
        waiting_for_room=0 if capacity is None else capacity.waiting,
        error=None if stream.failure is None else str(stream.failure),
        head=f"{queued[0]!r} {why(queued[0])}" if queued else None,
    )


def describe(stream: StreamQueue) -> str:
    """Return the repr of a stream: its place, what it holds, and its failure."""
    state = statistics_of(stream)
    parts = [f"{state.label} on device {state.device}"]
    if stream.priority:
        parts.append(f"priority {stream.priority}")
    if not stream.blocking:
        parts.append("non-blocking")
    busy = state.pending + state.running + state.detached
    parts.append(f"{busy} command{'s' * (busy != 1)}" if busy else "idle")
    if stream.closed:
        parts.append("closed")
    if state.error is not None:
        parts.append(f"failed: {state.error}")
    return f"<Stream {', '.join(parts)}>"


def html_of(stream: StreamQueue) -> str:
    """Return a stream for a notebook: its figures and the head of its queue."""
    state = statistics_of(stream)
    items = stream.pending()
    queue = columns(
        ("command", "what", "state"),
        [(item.seq, verb(item), why(item) if item.state == "running" or item.parked else item.state)
         for item in items[:SHOWN]],
    )  # fmt: skip
    limit = None if state.capacity is None else f"{state.capacity} commands, {state.free} free"
    return html_table(f"Stream {state.label} on device {state.device}", (
        ("priority", stream.priority),
        ("order", None if stream.blocking else "non-blocking"),
        ("commands", f"{state.running} running, {state.pending} pending, {state.detached} beside it"),
        ("capacity", limit),
        ("waiting for room", state.waiting_for_room or None),
        ("queue", queue if items else "idle"),
        ("not shown", f"{len(items) - SHOWN} more" if len(items) > SHOWN else None),
        ("closed", "yes" if stream.closed else None),
        ("failed", state.error),
    ))  # fmt: skip
