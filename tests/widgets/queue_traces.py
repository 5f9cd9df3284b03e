"""A trace of streams that stand in every way a stream can stand: for the queues' pictures and tests."""

from __future__ import annotations

from atops.base.trace.records import CommandEvent, Kind, Phase, Place, Status, Trace, TraceNames, TraceRecord

US = 1000
LOAD, COMPUTE, STORE, FLAG, NORM, BAD, LONG = range(1, 8)
NAMES = {LOAD: "load", COMPUTE: "compute", STORE: "store", FLAG: "wait for host", NORM: "normalise", BAD: "debug",
         LONG: "backlog"}  # fmt: skip


class Story:
    """Collects moments and records; times in microseconds."""

    def __init__(self) -> None:
        self.moments: list[CommandEvent] = []
        self.records: list[TraceRecord] = []
        self.seq = 0

    def submit(self, at: float, kind: Kind, stream: int, *, size: int = 0, name: str = "", word: int = -1) -> int:
        """Enqueue a command and return its seq."""
        self.seq += 1
        site, device = stream, 0 if word >= 0 else -1
        self._moment(at, self.seq, Phase.SUBMITTED, kind, 0, stream, -1, size, name, site, device, word)
        return self.seq

    def phase(self, at: float, seq: int, phase: Phase, cause: int = -1) -> None:
        """Start or park a command."""
        told = next(moment for moment in self.moments if moment.seq == seq)
        self._moment(at, seq, phase, *told[3:6], cause, *told[7:9], -1, *told[10:])

    def end(self, at: float, seq: int, started: float, status: Status = Status.DONE, correlation: int = -1) -> None:
        """End a command: leave its record."""
        told = next(moment for moment in self.moments if moment.seq == seq)
        self.records.append(
            TraceRecord(seq, told.kind, 0, told.stream, told.at_ns, int(started * US), int(at * US), status, told.bytes,
                        name=told.name, correlation=correlation)
        )  # fmt: skip

    def ran(self, at: float, end: float, kind: Kind, stream: int, *, size: int = 0, name: str = "",
            status: Status = Status.DONE) -> int:  # fmt: skip
        """Enqueue, start and end a command."""
        seq = self.submit(at, kind, stream, size=size, name=name)
        self.phase(at, seq, Phase.STARTED)
        self.end(end, seq, at, status)
        return seq

    def trace(self, details: bool = True) -> Trace:
        """Return the whole as a trace, with or without its moments."""
        sites = {stream: Place("pipeline.py", 10 + stream, "main") for stream in NAMES}
        names = TraceNames(streams={(0, number): name for number, name in NAMES.items()}, sites=sites,
                           capacities={(0, LOAD): 16, (0, STORE): 6})  # fmt: skip
        records = sorted(self.records, key=lambda each: each.finished_ns)
        return Trace(tuple(records), names=names, moments=tuple(self.moments) if details else ())

    def _moment(self, at: float, *values: object) -> None:
        self.moments.append(CommandEvent(int(at * US), *values))  # type: ignore[arg-type]


def standing(backlog: int = 10_000) -> Story:
    """Return streams that run, wait for an event, a value and a cluster, one that failed, and one with a long queue."""
    story = Story()
    for chunk in range(3):
        story.ran(chunk * 20, chunk * 20 + 18, Kind.COPY_H2D, LOAD, size=1 << 20)
        story.ran(chunk * 20 + 18, chunk * 20 + 40, Kind.LAUNCH, COMPUTE, name="scale")
        story.ran(chunk * 20 + 40, chunk * 20 + 58, Kind.COPY_D2H, STORE, size=1 << 20)
    copy = story.submit(100, Kind.COPY_H2D, LOAD, size=64 << 20)
    story.phase(101, copy, Phase.STARTED)
    story.submit(102, Kind.FILL, LOAD, size=4096)
    loaded = story.submit(103, Kind.RECORD, LOAD)
    for chunk in range(4):
        story.submit(104 + chunk, Kind.COPY_H2D, LOAD, size=1 << 20)
        story.submit(104 + chunk, Kind.RECORD, LOAD)
    waits = story.submit(110, Kind.WAIT_EVENT, COMPUTE)
    story.phase(110, waits, Phase.STARTED)
    story.phase(110, waits, Phase.PARKED, loaded)
    story.submit(111, Kind.LAUNCH, COMPUTE, name="scale")
    computed = story.submit(112, Kind.RECORD, COMPUTE)
    stores = story.submit(113, Kind.WAIT_EVENT, STORE)
    story.phase(113, stores, Phase.STARTED)
    story.phase(113, stores, Phase.PARKED, computed)
    for _ in range(5):
        story.submit(114, Kind.COPY_D2H, STORE, size=1 << 20)
    value = story.submit(115, Kind.WAIT_VALUE, FLAG, size=4, word=0x1040)
    story.phase(115, value, Phase.STARTED)
    story.phase(115, value, Phase.PARKED)
    story.submit(116, Kind.CALL, FLAG, name="report")
    kernel = story.submit(117, Kind.LAUNCH, LONG, name="matmul")
    story.phase(118, kernel, Phase.STARTED)
    for number in range(backlog - 1):
        story.submit(118, Kind.LAUNCH if number % 4 else Kind.ALLOC, LONG, name="matmul" if number % 4 else "")
    busy = story.submit(119, Kind.LAUNCH, NORM, name="normalise")
    story.phase(120, busy, Phase.PARKED)
    story.submit(121, Kind.COPY_D2H, NORM, size=256)
    bad = story.ran(80, 95, Kind.LAUNCH, BAD, name="probe", status=Status.FAILED)
    assert bad < story.seq + 1
    for _ in range(3):
        skipped = story.submit(90, Kind.LAUNCH, BAD, name="probe")
        story.end(96, skipped, 96, Status.SKIPPED)
    return story
