"""The parts of a trace: records of finished commands, samples of memory in use, details, and what numbers are called.

Details are of commands under way, uses of memory and kernel threads. Places of a program are numbers into
`TraceNames.sites`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from atops.base.errors import AtopsError

__all__ = (
    "COPIES", "DEEPEST", "FIELDS", "MOVES", "WAITS", "AllocationEvent", "Change", "CommandEvent", "ContextTuple",
    "CounterSample", "DetailBatch", "ExportRecord", "HostWait", "Kind", "MemoryUse", "Phase", "Place", "Position",
    "RaceEvent", "RaceSide", "Status", "ThreadEvent", "ThreadState", "Trace", "TraceBatch",
    "TraceNames", "TraceRecord", "TraceStatistics", "TraceTuple",
)  # fmt: skip

Position: TypeAlias = tuple[int, int, int, int]  # opaque to readers: a place in each of the four rings


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
    API = 14


WAITS: Final = frozenset({Kind.WAIT_EVENT, Kind.WAIT_VALUE})
COPIES: Final = frozenset({Kind.COPY_H2D, Kind.COPY_D2H, Kind.COPY_D2D, Kind.COPY_H2H, Kind.COPY_PEER})
MOVES: Final = COPIES | {Kind.FILL}  # what copy engines carry out


class Status(IntEnum):
    """How it ended."""

    DONE = 0
    FAILED = 1
    SKIPPED = 2
    ABORTED = 3


class Place(NamedTuple):
    """A place in a program."""

    file: str
    line: int
    function: str


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
    "correlation": "of a wait: seq of the record or write that satisfied it; of a record: number of its event; "
    "of an API call: seq of the newest command that was enqueued while it ran; else -1",
    "name": "kernel, callable, function, or the link of a copy between devices; emitted as a number (`Tracer.intern`)",
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


class ExportRecord(TraceRecord):
    """A record for a subscriber that asked for contexts: equal to the record without them.

    `context` is a copy of the context variables where the command was submitted, None where that was before anything
    asked for them, or of an API call; `failure` is what it failed with, or None.
    """

    context: Context | None = None
    failure: AtopsError | None = None


class ContextTuple(tuple[int, ...]):
    """What is emitted of a command while contexts are asked for: a `TraceTuple` that has them until it is delivered."""

    context: Context | None = None
    failure: AtopsError | None = None


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


# ---- races


class RaceSide(NamedTuple):
    """One of the two accesses of a race: `actor` does `what`.

    `seq` is that of its command, in a kernel of its launch, -1 of the host's. `block` and `thread` are linear indices
    of a kernel thread, else -1. `site` is its place in the program, a number into `TraceNames.sites`, -1 if not known.
    """

    actor: str
    what: str
    write: bool
    seq: int = -1
    block: int = -1
    thread: int = -1
    site: int = -1


class RaceEvent(NamedTuple):
    """A race that the detectors found at `at_ns`, once for each pair of lines; see `atops.Race`.

    `ranges` are (first byte, end) in `memory`, which begins at `offset` in the memory of `device`; both are -1 where it
    is none of a device's allocations.
    """

    at_ns: int
    kind: str
    memory: str
    device: int
    offset: int
    ranges: tuple[tuple[int, int], ...]
    advice: str
    first: RaceSide
    second: RaceSide

    @property
    def seqs(self) -> tuple[int, int]:
        """Return the commands of both sides: one and the same inside a launch, -1 of the host's."""
        return self.first.seq, self.second.seq


# ---- the program


class HostWait(NamedTuple):
    """The program, or a task of it, stood still for the device from `started_ns` to `finished_ns`.

    `seq` is that of the command that it waited for, -1 for room in a queue. `site` is its place in the program, a
    number into `TraceNames.sites`.
    """

    started_ns: int
    finished_ns: int
    seq: int
    site: int


# ---- details


class Phase(IntEnum):
    """How far a command is. Its end is the `TraceRecord` of the same seq, whichever of the two is read first.

    What is over as soon as it has begun (records, allocations, frees, short copies) is not told to have STARTED.
    """

    SUBMITTED = 0
    STARTED = 1
    PARKED = 2


class CommandEvent(NamedTuple):
    """Something that happened to a command that was not over yet.

    `cause` of a PARKED one is the seq of the command that it waits for, -1 where that is no command or not known (a
    value, an engine that is busy). `site` is where it was enqueued, of a SUBMITTED one; -1 where details
    were not wanted then.
    `on_device` and `on_offset` are the word that a wait for a value looks at, -1 of any other command.
    """

    at_ns: int
    seq: int
    phase: Phase
    kind: Kind
    device: int
    stream: int
    cause: int = -1
    bytes: int = 0
    name: str = ""
    site: int = -1
    on_device: int = -1
    on_offset: int = -1


class Change(IntEnum):
    """What became of a range of memory. A REUSED one began a new life in a range that a pool had kept."""

    ALLOCATED = 0
    FREED = 1
    REUSED = 2


class AllocationEvent(NamedTuple):
    """A range of device memory that is held from here on, or no longer.

    An allocation is known by `generation`, a number that no other one of the driver has. `used_bytes` is what the
    whole device has set aside then; a range that a pool keeps counts, so freeing into one leaves it as it is. `site` is
    where it was asked for; `stream` the one that the memory belongs to, -1 for none.
    """

    at_ns: int
    device: int
    offset: int
    size: int
    bank: int
    change: Change
    generation: int
    used_bytes: int
    site: int = -1
    stream: int = -1


class ThreadState(IntEnum):
    """What a kernel thread does from a step on: it runs, waits for something, or is over."""

    RUNS = 0
    BARRIER = 1
    GRID_BARRIER = 2
    COUNTED_BARRIER = 3
    DTE = 4
    SIGNAL = 5
    ENDED = 6
    FAILED = 7


class ThreadEvent(NamedTuple):
    """A kernel thread of a launch that is traced in detail: what it does from here on.

    `launch` is the seq of the launch; `block` and `thread` are linear indices. `on` is which barrier, transfer or
    signal it waits for, each kind numbered from 0 in the launch, -1 for none. `site` is the kernel's line where it
    stands; `l1_bytes` of the thread and `l2_bytes` of its block are in use then. `cluster` is where the block runs.
    """

    at_ns: int
    launch: int
    block: int
    thread: int
    turn: ThreadState
    on: int = -1
    site: int = -1
    l1_bytes: int = 0
    l2_bytes: int = 0
    cluster: int = -1


class MemoryUse(NamedTuple):
    """A range of memory that a command was given, and may read and write: told when it is enqueued.

    Of commands with more places than their record tells: launches (buffer arguments), reductions, copies and fills of
    scatter memory. `seq` is that of the command; `offset` and `size` are bytes of the device's memory. Equal ranges of
    a command are told once, those of no bytes and host memory not at all.
    """

    seq: int
    device: int
    offset: int
    size: int


class DetailBatch(NamedTuple):
    """What a reader gets: details, the position to ask for next, and how many were gone before it asked."""

    moments: list[CommandEvent]
    changes: list[AllocationEvent]
    steps: list[ThreadEvent]
    uses: list[MemoryUse]
    next: Position
    missed: int


# ---- whole traces

DEEPEST: Final = 8  # places of a stack


@dataclass(frozen=True, slots=True)
class TraceNames:
    """What the numbers in records are called: devices, (device, stream) pairs, notes on names, places of a program.

    `capacities` is how many commands a stream takes at most, by (device, stream), of those that have a limit. `callers`
    has for a place of `sites` the one that called it: allocations have their stack of the program's own functions.
    """

    devices: Mapping[int, str] = field(default_factory=dict)
    streams: Mapping[tuple[int, int], str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    sites: Mapping[int, Place] = field(default_factory=dict)
    capacities: Mapping[tuple[int, int], int] = field(default_factory=dict)
    callers: Mapping[int, int] = field(default_factory=dict)

    def stack(self, site: int) -> tuple[Place, ...]:
        """Return a place and those that called it, the innermost first; empty where it is not known."""
        found: list[Place] = []
        while (place := self.sites.get(site)) is not None and len(found) < DEEPEST:
            found.append(place)
            site = self.callers.get(site, -1)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole trace as a value: what a viewer needs, and what a trace file holds.

    `anchor_ns` is the time of day when the driver's clock was at 0, in nanoseconds since 1970 (UTC), so that a record
    began at `anchor_ns + started_ns`; None under a virtual clock, which has no time of day.
    """

    records: Sequence[TraceRecord] = ()
    counters: Sequence[CounterSample] = ()
    names: TraceNames = TraceNames()
    dropped: int = 0
    moments: Sequence[CommandEvent] = ()
    changes: Sequence[AllocationEvent] = ()
    steps: Sequence[ThreadEvent] = ()
    uses: Sequence[MemoryUse] = ()
    anchor_ns: int | None = None
    races: Sequence[RaceEvent] = ()
    waits: Sequence[HostWait] = ()


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
