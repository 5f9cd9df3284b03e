"""The parts of a trace: records of finished commands, samples of memory in use, and what their numbers are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from atops.base.trace.events import (
    COPIES,
    MOVES,
    WAITS,
    AllocationEvent,
    CommandEvent,
    Kind,
    MemoryUse,
    Place,
    Status,
    ThreadEvent,
)

__all__ = (
    "COPIES",
    "FIELDS",
    "MOVES",
    "WAITS",
    "CounterSample",
    "Kind",
    "Status",
    "Trace",
    "TraceBatch",
    "TraceNames",
    "TraceRecord",
    "TraceStatistics",
    "TraceTuple",
)

# What is emitted: the fields of a `TraceRecord` in their order, all as integers, the name as its number.
TraceTuple: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int, int, int]


FIELDS: Final[Mapping[str, str]] = {
    "seq": "number of the command, in the order of submission to its driver",
    "kind": "what it is: a Kind",
    "device": "ordinal of the device it ran on, -1 for the host",
    "stream": "number of its stream, -1 for none",
    "submitted_ns": "when it was enqueued, in nanoseconds of the driver's clock",
    "started_ns": "when it began to run",
    "finished_ns": "when it ended",
    "status": "how it ended: a Status",
    "bytes": "bytes moved, filled, allocated or freed; 0 where that has no meaning",
    "dst_device": "device written to, -1 for host memory or none",
    "dst_offset": "offset of the destination in that device's memory; 0 for host memory, -1 for none",
    "src_device": "device read from, -1 for host memory or none",
    "src_offset": "offset of the source in that device's memory; 0 for host memory, -1 for none",
    "correlation": "of a wait: seq of the record or write that satisfied it; of a record: number of its event; else -1",
    "name": "kernel, callable or function; emitted as a number from `Tracer.intern`",
    "engine": "ordinal of the cluster (launches) or copy engine (copies) that served it, -1 for none or several",
}


class TraceRecord(NamedTuple):
    """One finished command. The fields are described in `FIELDS`; times are nanoseconds, places (device, offset)."""

    seq: int
    kind: Kind
    device: int
    stream: int
    submitted_ns: int
    started_ns: int
    finished_ns: int
    status: Status
    bytes: int = 0
    dst_device: int = -1
    dst_offset: int = -1
    src_device: int = -1
    src_offset: int = -1
    correlation: int = -1
    name: str = ""
    engine: int = -1

    @property
    def duration_ns(self) -> int:
        """Return how long it ran."""
        return self.finished_ns - self.started_ns

    @property
    def queued_ns(self) -> int:
        """Return how long it stood in its stream before it began."""
        return self.started_ns - self.submitted_ns

    @property
    def cause(self) -> int:
        """Return the seq of what satisfied this wait; -1 when that is unknown, or this is no wait."""
        return self.correlation if self.kind in WAITS else -1


class CounterSample(NamedTuple):
    """How many bytes of a device's memory were in use at a time."""

    at_ns: int
    device: int
    used_bytes: int


class TraceBatch(NamedTuple):
    """What a streaming reader gets: records, the position to ask for next, and how many were gone before it asked."""

    records: list[TraceRecord]
    next: int
    missed: int


@dataclass(frozen=True, slots=True)
class TraceNames:
    """What the numbers in records are called: devices, (device, stream) pairs, notes on names, places of a program.

    `capacities` is how many commands a stream takes at most, by (device, stream), of those that have a limit.
    """

    devices: Mapping[int, str] = field(default_factory=dict)
    streams: Mapping[tuple[int, int], str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    sites: Mapping[int, Place] = field(default_factory=dict)
    capacities: Mapping[tuple[int, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole trace as a value: what a viewer needs, and what a trace file holds."""

    records: Sequence[TraceRecord] = ()
    counters: Sequence[CounterSample] = ()
    names: TraceNames = TraceNames()
    dropped: int = 0
    moments: Sequence[CommandEvent] = ()
    changes: Sequence[AllocationEvent] = ()
    steps: Sequence[ThreadEvent] = ()
    uses: Sequence[MemoryUse] = ()


@dataclass(frozen=True, slots=True)
class TraceStatistics:
    """Figures of a tracer: records emitted ever, held now, dropped since the last clear, and subscribers.

    Of details: how many readers want them now, how many of each sort are held, how many were dropped since the clear.
    """

    emitted: int
    held: int
    dropped: int
    capacity: int
    subscribers: int
    detailing: int = 0
    moments: int = 0
    changes: int = 0
    steps: int = 0
    uses: int = 0
    details_dropped: int = 0
