"""What a trace is made of: records of finished commands, samples of memory in use, and what their numbers are called.

Values only: they know no tracer, no stream and no device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

__all__ = (
    "COPIES",
    "FIELDS",
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


class Kind(IntEnum):
    """What a record is about."""

    COPY_H2D = 0
    COPY_D2H = 1
    COPY_D2D = 2
    COPY_H2H = 3
    COPY_PEER = 4
    FILL = 5
    LAUNCH = 6
    RECORD = 7
    WAIT_EVENT = 8
    WAIT_VALUE = 9
    WRITE_VALUE = 10
    CALL = 11
    ALLOC = 12
    FREE = 13
    BARRIER = 14
    API = 15


WAITS: Final = frozenset({Kind.WAIT_EVENT, Kind.WAIT_VALUE, Kind.BARRIER})
COPIES: Final = frozenset({Kind.COPY_H2D, Kind.COPY_D2H, Kind.COPY_D2D, Kind.COPY_H2H, Kind.COPY_PEER})


class Status(IntEnum):
    """How it ended."""

    DONE = 0
    FAILED = 1
    SKIPPED = 2
    ABORTED = 3


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
    "engine": "ordinal of the cluster (launches) or copy engine (copies) that served it, -1 for none",
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
    """What the numbers in records are called: devices, (device, stream) pairs, and notes on names."""

    devices: Mapping[int, str] = field(default_factory=dict)
    streams: Mapping[tuple[int, int], str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole trace as a value: what a viewer needs, and what a trace file holds."""

    records: Sequence[TraceRecord] = ()
    counters: Sequence[CounterSample] = ()
    names: TraceNames = TraceNames()
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class TraceStatistics:
    """Figures of a tracer: records emitted ever, held now, dropped since the last clear, and who is subscribed."""

    emitted: int
    held: int
    dropped: int
    capacity: int
    subscribers: int
