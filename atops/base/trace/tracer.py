"""The tracer of a driver: one tuple of integers for each finished command, in a ring, read as frozen records.

A command is described in numbers as it ends. Nothing here can fail or delay the run that it describes, and it costs
nothing while tracing is off.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import Any, Final, Literal, TypeVar, overload

from atops.base.clock import Clock, VirtualClock
from atops.base.errors import InvalidType, InvalidValue
from atops.base.log_fields import get_logger
from atops.base.trace.event_log import Closable, Detailing, DetailLog, Ring
from atops.base.trace.records import (
    ContextTuple,
    CounterSample,
    DetailBatch,
    ExportRecord,
    HostWait,
    Kind,
    Position,
    RaceEvent,
    Status,
    Trace,
    TraceBatch,
    TraceNames,
    TraceRecord,
    TraceStatistics,
    TraceTuple,
)  # fmt: skip

__all__ = ("Subscription", "Tracer")

T = TypeVar("T")
logger = get_logger("atops.trace")

OUTBOX: Final = 65536  # numbered tuples that may wait for the next flush to subscribers
RACES: Final = 1000  # races held; the newest
NOTED: Final = 65536  # waits of the program held for who wants these alone
LABELS: Final = 16384  # stream names kept; the oldest go first

KINDS: Final = tuple(Kind)
STATUSES: Final = tuple(Status)


class Subscription(Closable):
    """A callback that gets each batch of new records until it is closed, by its owner or because it raised."""

    __slots__ = ("callback", "contexts", "missed", "position")

    def __init__(self, tracer: Tracer, callback: Callable[[list[Any]], object], position: int, contexts: bool) -> None:
        super().__init__(partial(tracer._unsubscribe, self))
        self.callback = callback
        self.contexts = contexts
        self.position = position
        self.missed = 0

    def __repr__(self) -> str:
        return f"<Subscription of {self.callback!r}{' closed' if self.closed else ''}>"


class Tracer:
    """The trace of one driver: emit from the hot path, read or subscribe from anywhere.

    `emit(record)` adds one finished command: 16 integers in the order of `FIELDS`; `emit_all(records)` adds several.
    Ask `active` first; it costs less.
    An emit never waits for the lock, so that a reader cannot delay the run and a finalizer may emit at any time.
    """

    __slots__ = (
        "_asked", "_capacities", "_counters", "_deliverer", "_holds", "_labels", "_lock", "_name_ids",
        "_names", "_noters", "_notes", "_own", "_races", "_ring", "_waits", "active", "anchor_ns",
        "capacity", "clock", "contexts", "detail", "details", "emit", "emit_all", "notes_waits", "observed",
        "on_detailed", "subscriptions", "thread_detail",
    )  # fmt: skip

    def __init__(self, clock: Clock, capacity: int) -> None:
        """Make a tracer that holds the last `capacity` records; 0 holds none. Raises InvalidValue below that."""
        self.clock = clock
        # The time of day at the clock's 0; a virtual clock has none, and two runs the same trace.
        self.anchor_ns = None if isinstance(clock, VirtualClock) else time.time_ns() - clock.now()
        self.contexts = 0  # how many subscribers want the contexts of submission
        self._ring: Ring[TraceTuple] = Ring(0)
        self._lock = self._ring.lock
        self.emit, self.emit_all = self._ring.add, self._ring.add_all
        self._counters: deque[tuple[int, int, int]] = deque()
        self._races: Ring[RaceEvent] = Ring(RACES)
        self._waits: Ring[HostWait] = Ring(0)
        self.notes_waits = False  # whether the waits of the program are held: where somebody holds the trace
        self.subscriptions: tuple[Subscription, ...] = ()  # those that are not closed
        self._deliverer: int | None = None
        self._asked = False
        self._names: list[str] = [""]
        self._name_ids: dict[str, int] = {"": 0}
        self._labels: dict[tuple[int, int], str] = {}
        self._capacities: dict[tuple[int, int], int] = {}
        self._notes: dict[str, str] = {}
        self._noters = 0  # how many want the waits of the program alone
        self._own, self._holds = capacity, list[int]()  # the capacity without holds, and those that holds ask for
        self.details = DetailLog()
        self.detail = self.thread_detail = 0  # how many want details, and how many those of kernel threads
        self.on_detailed: Callable[[], object] | None = None  # tells a late reader what is queued and allocated
        self.resize(capacity)

    def resize(self, capacity: int) -> None:
        """Hold the last `capacity` records from now on. 0 stops tracing unless there are subscribers."""
        if capacity < 0:
            raise InvalidValue(f"a trace cannot hold {capacity} records; expected 0 (off) or more")
        with self._lock:
            self._own = capacity
            self._resize()

    def hold(self, capacity: int) -> Closable:
        """Hold at least the last `capacity` records until the answer is closed, and as many waits of the program.

        Raises InvalidValue below 1.
        """
        if capacity < 1:
            raise InvalidValue(f"a trace cannot be held at {capacity} records; expected 1 or more")
        with self._lock:
            self._holds.append(capacity)
            self._resize()
        return Closable(partial(self._release, capacity))

    def note_waits(self) -> Closable:
        """Hold the last waits of the program until the answer is closed."""
        self._note(1)
        return Closable(partial(self._note, -1))

    def _note(self, change: int) -> None:
        with self._lock:
            self._noters += change
            self._resize()

    def _release(self, capacity: int) -> None:
        with self._lock:
            self._holds.remove(capacity)
            self._resize()

    def _resize(self) -> None:
        """Take the largest capacity that is asked for. The lock is held."""
        capacity = max(self._own, *self._holds, 0)
        self._ring.resize(capacity)
        self._counters = deque(self._counters.copy(), maxlen=capacity)
        self.capacity = capacity
        self._waits.resize(max(*self._holds, NOTED if self._noters else 0, 0))
        self.notes_waits = bool(self._holds) or self._noters > 0
        self._activate()

    # Writing: the run's side.

    def counter(self, device: int, used_bytes: int) -> None:
        """Add a sample of a device's memory in use."""
        self._counters.append((self.clock.now(), device, used_bytes))

    def race(self, race: RaceEvent) -> None:
        """Add a race that the detectors found."""
        self._races.add(race)

    def wait(self, started_ns: int, seq: int, code: CodeType, instruction: int) -> None:
        """Add a wait of the program's that ends now, for command `seq`."""
        self._waits.add(HostWait(started_ns, self.clock.now(), seq, self.details.site(code, instruction)))

    def intern(self, name: str) -> int:
        """Return the number that stands for `name` in emitted tuples; the same for the same name. 0 is no name."""
        number = self._name_ids.get(name)
        if number is None:  # without the lock: this may be a finalizer; two threads at once find the same one
            (names := self._names).append(name)
            place = next(each for each in reversed(range(len(names))) if names[each] == name)  # the last, or nearly
            number = self._name_ids.setdefault(name, place)
        return number

    def label_stream(self, device: int, stream: int, name: str) -> None:
        """Give a stream the name that viewers show."""
        with self._lock:
            _keep(self._labels, (device, stream), name)

    def limit_stream(self, device: int, stream: int, capacity: int) -> None:
        """Tell viewers how many commands a stream takes at most."""
        with self._lock:
            _keep(self._capacities, (device, stream), capacity)

    def annotate(self, name: str, note: bytes) -> None:
        """Keep `note` for every record called `name`: as text if it is UTF-8, else in hexadecimal. Empty removes it."""
        try:
            text = note.decode()
        except UnicodeDecodeError:
            text = note.hex()
        with self._lock:
            if text:
                self._notes[name] = text
            else:
                self._notes.pop(name, None)

    def flush(self) -> int:
        """Give every subscriber the records that are new to it; return how many records that were.

        The driver calls this from a step of its own, holding no lock. A callback that raises is logged and removed.
        While one thread delivers, a flush on another leaves its records to it; one inside a callback does nothing.
        """
        me, count = threading.get_ident(), 0
        with self._lock:
            if self._deliverer is not None or not self.subscriptions:
                self._asked |= self._deliverer not in (None, me)
                return 0
            self._deliverer, self._asked = me, True
        try:
            while (batch := self._take()) is not None:
                count += self._deliver(*batch)
        except BaseException:
            self._deliverer = None
            raise
        return count

    # Reading: anybody, from any thread.

    def records(self, since: int = 0) -> list[TraceRecord]:
        """Return the records held, oldest first, from position `since` on."""
        return self.since(since).records

    def since(self, position: int) -> TraceBatch:
        """Return what is new since `position` (0 at first, then the `next` of the batch before)."""
        raws, end, missed = self.tuples_since(position)
        return TraceBatch([self._record(raw) for raw in raws], end, missed)

    def tuples_since(self, position: int, limit: int | None = None) -> tuple[list[TraceTuple], int, int]:
        """Return what `since` does, as it was emitted and at most `limit` of it: tuples, next position, missed."""
        return self._ring.since(position, limit)

    def texts(self, first: int = 0) -> list[str]:
        """Return what the numbers of names mean, from number `first` on."""
        return self._names[first:]

    def counters(self) -> list[CounterSample]:
        """Return the samples of memory in use, oldest first."""
        return [CounterSample._make(sample) for sample in self._counters.copy()]

    def races(self) -> list[RaceEvent]:
        """Return the races that the detectors found, in the order found; the newest 1,000."""
        return self.races_since(0)[0]

    def races_since(self, position: int) -> tuple[list[RaceEvent], int]:
        """Return the races that are new since `position`, 0 at first, and the position to ask for next."""
        return self._races.since(position)[:2]

    def waits(self) -> list[HostWait]:
        """Return the waits of the program that are held, in the order in which they ended."""
        return self.waits_since(0)[0]

    def waits_since(self, position: int, limit: int | None = None) -> tuple[list[HostWait], int]:
        """Return at most `limit` waits that are new since `position`, 0 at first, and the position to ask for next."""
        return self._waits.since(position, limit)[:2]

    def names(self) -> TraceNames:
        """Return the names of streams and the notes on names, as they are now."""
        with self._lock:
            return TraceNames(
                streams=dict(self._labels), notes=dict(self._notes), sites=self.details.sites(),
                callers=self.details.callers(),
                capacities=dict(self._capacities),
            )  # fmt: skip

    def snapshot(self) -> Trace:
        """Return everything held, as one value that can be saved, exported and drawn."""
        details = self.details_since(None)
        return Trace(
            tuple(self.records()), tuple(self.counters()), self.names(), self.dropped,
            tuple(details.moments), tuple(details.changes), tuple(details.steps), tuple(details.uses), self.anchor_ns,
            tuple(self.races()), tuple(self.waits()),
        )  # fmt: skip

    def detailed(self, threads: bool = False) -> Detailing:
        """Record details from now until the answer is closed: `with tracer.detailed():`.

        What is queued and allocated already is told at once. `threads`: also what kernel threads do, of each launch
        that begins meanwhile, which makes it many times slower. While anybody wants details commands are recorded, too,
        by a tracer that holds none.
        """
        self._want(1, threads)
        detailing = Detailing(partial(self._want, -1, threads))
        if self.on_detailed is not None:
            try:
                self.on_detailed()
            except BaseException:
                detailing.close()
                raise
        return detailing

    def details_since(self, position: Position | None = None, limit: int | None = None) -> DetailBatch:
        """Return the details that are new since `position`: None at first, then the `next` of the batch before.

        With a `limit`, at most so many of each kind.
        """
        return self.details.since(position, self._names, limit)

    def clear(self) -> None:
        """Forget what is held and the dropped count. Positions and numbers of names go on."""
        self._ring.clear()
        self._counters.clear()
        self._races.clear()
        self._waits.clear()
        self.details.clear()

    @overload
    def subscribe(self, callback: Callable[[list[TraceRecord]], object]) -> Subscription: ...
    @overload
    def subscribe(
        self, callback: Callable[[list[ExportRecord]], object], *, contexts: Literal[True]
    ) -> Subscription: ...
    def subscribe(self, callback: Callable[[list[Any]], object], *, contexts: bool = False) -> Subscription:
        """Call `callback` with the records as they come, on the thread that flushes, until closed. InvalidType.

        `contexts`: with an `ExportRecord` for each, which has the context variables of its submission and its failure.
        Each command costs a copy of the context then.
        """
        if not callable(callback):
            raise InvalidType(f"the subscriber of a tracer is {callback!r}; expected a function of a list of records")
        with self._lock:
            self._ring.take_inbox()
            if self._ring.outbox is None:
                self._ring.outbox = deque(maxlen=OUTBOX)
            subscription = Subscription(self, callback, self._ring.total, contexts)
            self.subscriptions = (*self.subscriptions, subscription)
            self.contexts += contexts
            self._activate()
        return subscription

    def deliver(self, patience: float = 1.0) -> bool:
        """Give subscribers what has ended so far, and wait while another thread does: at most `patience` seconds.

        Returns whether they have all of it. For the end of an exporter; not inside a subscriber.
        """
        until = time.monotonic() + patience
        while True:
            self.flush()
            with self._lock:
                if self._deliverer is None:
                    return True
            if time.monotonic() >= until:
                return False
            time.sleep(0.001)

    def label_of(self, device: int, stream: int) -> str:
        """Return the name of a stream, "" where it has none of its own."""
        return self._labels.get((device, stream), "")

    @property
    def pending(self) -> bool:
        """Tell whether a flush would have something to deliver."""
        return bool(self.subscriptions) and self._ring.unread

    @property
    def dropped(self) -> int:
        """Return how many records the ring has lost since the last clear, because it was full."""
        return self.statistics().dropped

    def statistics(self) -> TraceStatistics:
        """Return the tracer's figures."""
        with self._lock:
            ring, log = self._ring, self.details
            held = len(ring)  # before the totals, which it brings up to date
            return TraceStatistics(
                ring.total, held, ring.dropped, self.capacity, len(self.subscriptions), self.detail,
                len(log.moments), len(log.changes), len(log.steps), len(log.uses), log.dropped,
            )  # fmt: skip

    def _want(self, change: int, threads: bool) -> None:
        """Count one reader of details more, or one less."""
        with self._lock:
            self.detail += change
            self.thread_detail += change if threads else 0
            self._activate()

    def _activate(self) -> None:
        """See whether anybody looks. The lock is held."""
        self.active = self.capacity > 0 or bool(self.subscriptions) or self.detail > 0
        self.observed = self.detail > 0 or self.contexts > 0

    def _record(self, raw: TraceTuple) -> TraceRecord:
        kind, status, name = KINDS[raw[1]], STATUSES[raw[7]], self._names[raw[14]]
        return TraceRecord(raw[0], kind, *raw[2:7], status, *raw[8:14], name, raw[15])

    def _take(self) -> tuple[list[TraceTuple], int, tuple[Subscription, ...]] | None:
        """Return tuples to deliver, the position after them and the subscribers; None where there is no new request."""
        with self._lock:
            if not self._asked:
                self._deliverer = None
                return None
            self._asked = False
            ring = self._ring
            ring.take_inbox()
            outbox: deque[TraceTuple] = ring.outbox or deque()
            batch = list(outbox)
            outbox.clear()
            return batch, ring.total, self.subscriptions

    def _deliver(self, raws: list[TraceTuple], end: int, subscriptions: tuple[Subscription, ...]) -> int:
        records = [self._told(raw) if raw.__class__ is ContextTuple else self._record(raw) for raw in raws]
        start = end - len(records)  # the position of the first record
        for subscription in subscriptions:
            subscription.missed += max(0, start - subscription.position)
            fresh = records[max(0, subscription.position - start) :]
            if subscription.contexts:
                fresh = [each if isinstance(each, ExportRecord) else ExportRecord(*each) for each in fresh]
            subscription.position = end
            if not fresh or subscription.closed:
                continue
            try:
                subscription.callback(fresh)
            except KeyboardInterrupt:
                raise
            except BaseException:  # SystemExit, a cancellation: they would end the thread that delivers
                subscription.close()
                logger.exception("a trace subscriber raised and was removed: %r", subscription.callback)
        for raw in raws:
            if isinstance(raw, ContextTuple):
                raw.context = raw.failure = None  # the ring holds it for long yet
        return len(records)

    def _told(self, raw: Any) -> TraceRecord:  # a ContextTuple, which is as long as every other
        record = ExportRecord(*self._record(raw))
        record.context, record.failure = raw.context, raw.failure
        return record

    def _unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self.subscriptions = tuple(other for other in self.subscriptions if other is not subscription)
            self.contexts -= subscription.contexts
            self._activate()
            if not self.subscriptions:
                self._ring.outbox = None

    def __repr__(self) -> str:
        figures = self.statistics()
        return f"<Tracer {figures.held} of {figures.capacity} records, {figures.dropped} dropped>"


def _keep(table: dict[tuple[int, int], T], stream: tuple[int, int], value: T) -> None:
    """Note what is known of a stream, and forget the oldest beyond `LABELS`."""
    table[stream] = value
    while len(table) > LABELS:
        del table[next(iter(table))]
