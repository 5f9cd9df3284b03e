"""The data of all widgets of one driver, or of one recorded trace: the records so far, and the selection.

A live feed reads the driver's tracer from the widgets' own thread and takes at most a few percent of one processor:
what comes faster than that is missed and counted, never waited for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Final, Protocol, TypeAlias
from weakref import WeakSet, WeakValueDictionary

import numpy as np
import numpy.ma  # np.unique imports it: 0.03 s that would fall into the first picture

from atops.base.errors import InvalidValue
from atops.base.locks import fork_safe
from atops.base.trace.event_log import Closable, Detailing
from atops.base.trace.records import (
    AllocationEvent,
    CommandEvent,
    CounterSample,
    MemoryUse,
    Position,
    RaceEvent,
    ThreadEvent,
    Trace,
    TraceNames,
    TraceRecord,
)
from atops.base.trace.tracer import Tracer
from atops.runtime.driver import Driver, current_driver
from atops.trace.file import load
from atops.trace.text import sentence
from atops.trace.words import race_sentence
from atops_widgets.feed.axis import Axes, TimeAxis
from atops_widgets.feed.columns import CHANGES, MOMENTS, RECORDS, STEPS, USES, Column, Columns, Ranges, Texts
from atops_widgets.feed.host import HOST, HostLog
from atops_widgets.feed.links import Links, SeqOrder, line_of
from atops_widgets.feed.pace import Pace

__all__ = (
    "CAPACITY", "NOTHING", "Feed", "FeedSource", "Marks", "Selection", "TraceSource", "Watcher", "feed_of", "new_feed",
    "told_apart", "trace_of",
)  # fmt: skip

NOTHING: Final = -1


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of all widgets: the operation (NOTHING for none), the moment, and the operations before and after it.

    `before` is what it waited for and `after` what waits for it, as seqs. `place` is the source line that enqueued it,
    empty where it is not known, and `text` tells the operation in a sentence. `races` are the sentences of its races.
    """

    seq: int = NOTHING
    cursor_ns: int | None = None
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    place: str = ""
    text: str = ""
    races: tuple[str, ...] = ()


class Selection:
    """The selected operation, the moment of the time cursor (None: the newest), and which time is shown.

    Any thread may change it.
    """

    def __init__(self, changed: Callable[[], object]) -> None:
        self._changed = changed
        self._state: tuple[int, int | None] = NOTHING, None
        self.opened: frozenset[int] = frozenset()  # the moments at which idle gaps begin that are not folded
        self.span: tuple[int, int] | None = None  # from when to when a timeline shows; None: everything

    @property
    def seq(self) -> int:
        """The selected operation, NOTHING for none."""
        return self._state[0]

    @property
    def cursor_ns(self) -> int | None:
        """The moment looked at, in nanoseconds of the driver's clock; None for the newest."""
        return self._state[1]

    def select(self, seq: int) -> None:
        """Select the operation of a seq, or NOTHING."""
        self._set(max(NOTHING, int(seq)), self._state[1])

    def look_at(self, cursor_ns: int | None) -> None:
        """Move the time cursor to a moment; None puts it to the newest."""
        self._set(self._state[0], cursor_ns)

    def open(self, starts: Iterable[int]) -> None:
        """Draw the idle gaps that begin at these moments to scale, and fold all others."""
        self.opened = frozenset(starts)
        self._changed()

    def show(self, span: tuple[int, int] | None) -> None:
        """Show the time from one moment to another, in nanoseconds of the driver's clock; None shows everything."""
        if span != self.span:
            self.span = span
            self._changed()

    def _set(self, seq: int, cursor_ns: int | None) -> None:
        if (seq, cursor_ns) != self._state:
            self._state = seq, cursor_ns
            self._changed()


FeedSource: TypeAlias = "Feed | Driver | Trace | str | os.PathLike[str] | None"
TraceSource: TypeAlias = Trace | Driver | str | os.PathLike[str]

MOST_RACES: Final = 100  # that a page is told; the newest
MOMENTS_EACH: Final = 2  # of most commands: submitted and started
FINISHED: Final = TraceRecord._fields.index("finished_ns")
CAPACITY: Final = 1_000_000  # records kept for the pictures, and as many of each kind of detail


class Watcher(Protocol):
    """A listener to news of a feed: a widget."""

    @property
    def seen(self) -> bool:
        """True while a page shows it."""

    def tick(self, now: float) -> float | None:
        """Send what is due; return in how many seconds to come again, None when there is nothing to do."""

    def rest(self) -> None:
        """Write down what a saved notebook shows: nothing happens at present."""


class Feed:
    """The records of one driver, or of one trace, as columns; shared by all widgets that show it.

    - `records`, `moments`, `changes`, `steps`, `uses`: `Columns`, in the order of ending (records) or of happening.
    - `races`: what the detectors found. `host`: API calls, and the waits of the program since these were asked for.
    - `texts`: what the numbers in the `name` columns mean. `names`: devices, streams, notes, sites.
    - `origin_ns`: the moment that pictures call 0.
    - `version`: grows whenever any of these changes.
    - `missed`: records that came faster than they were read; `missed_details` the same of details. Records that no
      longer fit are `records.start`, and `missing` is how many of all are not held.

    Hold `lock` while reading several of these together.
    """

    def __init__(
        self, trace: Trace | None = None, driver: Driver | None = None, *, capacity: int = CAPACITY,
        since_s: float = inf, share: float | None = None,
    ) -> None:  # fmt: skip
        self.lock = threading.RLock()
        self.driver = driver
        self.texts = Texts()
        self.records, self.moments, self.changes, self.steps, self.uses = (
            Columns(fields, capacity, self.texts) for fields in (RECORDS, MOMENTS, CHANGES, STEPS, USES)
        )
        self.host = HostLog(capacity, self.texts)
        self._noting: Closable | None = None
        self.races: tuple[RaceEvent, ...] = ()
        self._races_read = self._waits_read = 0
        self._races_told: tuple[int, list[list[int | str]]] = -1, []
        self.names = TraceNames()
        self.origin_ns = 0
        self._origin_known = False  # before anything was read
        self.version = self.missed = self.missed_details = self.marks_version = 0
        self.paused = False
        self.stopped = driver is None
        self.selection = Selection(self._marks_changed)
        self._marks: tuple[tuple[int, int], Marks] = (0, 0), Marks()
        self._links, self._seq_order = (-1, Links(self.records)), SeqOrder()
        self._axes = Axes()
        self._tracer: Tracer | None = driver.tracer if driver is not None else None
        self._position = 0 if driver is None else -1  # -1: nothing was read yet, so nothing can have been missed
        self._detail_position: Position | None = None
        self._numbers = np.zeros(0, np.int64)  # of the tracer's names: which of our texts each is
        self._counters: tuple[int, Sequence[CounterSample]] = 0, ()
        self._detailing: dict[bool, Detailing] = {}
        self._watchers: WeakSet[Watcher] = WeakSet()
        self.since_ns = 0  # what ended earlier is not shown
        self.replaced = False  # a newer one shows the driver: without a view it ends
        self.behind_s = 0.0  # how long what was read last has been behind
        if driver is not None and since_s != inf:
            self._begin(driver.tracer, since_s)
        self._pace = Pace(self, share)
        if trace is not None:
            self._take(trace)

    def _begin(self, tracer: Tracer, since_s: float) -> None:
        """Leave out what ended more than so many seconds before now."""
        self.since_ns = self.origin_ns = tracer.clock.now() - int(since_s * 1e9) + (since_s == 0)
        rows, following, _ = tracer.tuples_since(0)
        self._position = following - sum(row[FINISHED] >= self.since_ns for row in rows)

    @property
    def counters(self) -> Sequence[CounterSample]:
        """Samples of memory in use, up to now; at least the last one."""
        if self._tracer is not None and not self.stopped and self._counters[0] != self.version:
            known = self._tracer.counters()
            self._counters = self.version, [each for each in known if each.at_ns >= self.since_ns] or known[-1:]
        return self._counters[1]

    @property
    def missing(self) -> int:
        """How many records there were that are not held: figures are of the others."""
        return self.missed + self.records.start

    def lost(self) -> list[str]:
        """Return what is not held in words, of each reason."""
        counts = (self.missed, "missed"), (self.missed_details, "details missed"), (self.records.start, "dropped")
        return [f"{count:,} {what}" for count, what in counts if count]

    @property
    def live(self) -> bool:
        """True while more may come: it follows a driver and was not stopped."""
        return not self.stopped

    # ---- reading

    def poll(self, limit: int | None = None) -> int:
        """Take what is new from the driver, the oldest first and at most `limit` of each kind; return how many rows."""
        tracer = self._tracer
        if tracer is None or self.stopped or self.paused:
            return 0
        ended = self.driver is not None and self.driver.closed is not None  # looked at first: then all has been read
        with self.lock:
            count = self._read_records(tracer, limit) + self._read_details(tracer, limit)
            count += self._read_races(tracer) + self._read_waits(tracer, limit)
            if count:
                if not self._origin_known:
                    submitted = self.records["submitted_ns"]
                    first = self._first_ns(submitted[submitted > 0])  # 0: not recorded
                    self._origin_known = first is not None
                    self.origin_ns = self.origin_ns if first is None else first
                self.names = told_apart(tracer.names())
                self.version += 1
        if ended and not count:
            self.stop()
        return count

    def _read_records(self, tracer: Tracer, limit: int | None) -> int:
        rows, following, missed = tracer.tuples_since(max(0, self._position), limit)
        self.missed += missed if self._position >= 0 else 0
        self._position = following
        if rows:
            self._name_numbers(tracer)
            self.records.extend_tuples(rows, self._numbers)
            self.host.add_calls(self.records, len(rows))
        return len(rows)

    def _read_details(self, tracer: Tracer, limit: int | None) -> int:
        if not self._detailing:
            return 0
        batch = tracer.details.tuples_since(self._detail_position, limit)
        self.missed_details += batch.missed if self._detail_position is not None else 0
        self._detail_position = batch.next
        self._name_numbers(tracer)  # after the batch: it may name what is new
        fresh: Sequence[tuple[Columns, Sequence[tuple[int, ...]]]] = (
            (self.moments, batch.moments), (self.changes, batch.changes), (self.steps, batch.steps),
            (self.uses, batch.uses),
        )  # fmt: skip
        for columns, rows in fresh:
            if self.since_ns and rows and columns in (self.moments, self.steps):
                at = list(columns.fields).index("at_ns")
                rows = [row for row in rows if row[at] >= self.since_ns]
            if rows:
                columns.extend_tuples(rows, self._numbers)
        return sum(len(rows) for _, rows in fresh)

    def unread(self) -> int:
        """Return how many records wait to be read."""
        if self._tracer is None or self.stopped or self.paused:
            return 0
        return max(0, self._tracer.statistics().emitted - max(0, self._position))

    def skip(self, most: int) -> None:
        """Leave out all but the newest `most` records that wait to be read: they are missed, and counted."""
        skipped = self.unread() - most
        if skipped > 0:
            with self.lock:
                self._position = max(0, self._position) + skipped
                self.missed += skipped
                self._skip_moments(MOMENTS_EACH * most)

    def _skip_moments(self, most: int) -> None:
        """Leave out moments that are as old: else one would be told what was queued long ago."""
        if self._tracer is not None and self._detail_position is not None:
            moments, *others = self._detail_position
            newest = self._tracer.details.moments.total - most
            if newest > moments:
                self.missed_details += newest - moments
                self._detail_position = newest, others[0], others[1], others[2]

    def _read_races(self, tracer: Tracer) -> int:
        races, self._races_read = tracer.races_since(self._races_read)
        self.races += tuple(races)
        return len(races)

    def _read_waits(self, tracer: Tracer, limit: int | None) -> int:
        if self._noting is None:
            return 0
        waits, self._waits_read = tracer.waits_since(self._waits_read, limit)
        if waits:
            places = tracer.details.sites()  # after the waits: it has their lines
            self.host.add_waits([wait for wait in waits if wait.finished_ns >= self.since_ns], places)
        return len(waits)

    def ask_waits(self) -> None:
        """Make the driver note where the program waits for the device, from now on."""
        if self._tracer is not None and not self.stopped and self._noting is None:
            self._noting = self._tracer.note_waits()
            self.wake()

    def told_races(self) -> list[list[int | str]]:
        """Return the newest races for a page: the commands of both sides, the sentence, block and thread of each."""
        if self._races_told[0] != self.version:
            self._races_told = self.version, [
                [*race.seqs, race_sentence(race, self.names),
                 race.first.block, race.first.thread, race.second.block, race.second.thread]
                for race in self.races[-MOST_RACES:]
            ]  # fmt: skip
        return self._races_told[1]

    def _name_numbers(self, tracer: Tracer) -> None:
        fresh = [self.texts.number(text) for text in tracer.texts(len(self._numbers))]
        if fresh:
            self._numbers = np.concatenate([self._numbers, np.array(fresh, np.int64)])

    def ask_details(self, threads: bool = False) -> None:
        """Make the driver record details from now on: moments and changes; with `threads`, steps of kernel threads."""
        if self._tracer is not None and not self.stopped and threads not in self._detailing:
            self._detailing[threads] = self._tracer.detailed(threads)
            self.wake()

    def end_threads(self) -> None:
        """Stop the recording of steps of kernel threads, unless others want them: launches are quick again."""
        if (detailing := self._detailing.pop(True, None)) is not None:
            self.poll()
            detailing.close()
            self.wake()

    @property
    def tells_steps(self) -> bool:
        """True while steps of kernel threads are recorded for it."""
        return True in self._detailing

    def trace(self, newest: int | None = None) -> Trace:
        """Return what is held, or the newest records without details, as a trace: to save it, or for its figures."""
        with self.lock:
            first = 0 if newest is None else max(0, len(self.records) - newest)
            records = self.records.values(TraceRecord, slice(first, None))
            trace = Trace(tuple(records), tuple(self.counters), self.names, self.missing + first,
                          races=self.races, waits=self.host.waits())  # fmt: skip
            if newest is not None:
                return trace
            return replace(
                trace,
                moments=tuple(self.moments.values(CommandEvent)),
                changes=tuple(self.changes.values(AllocationEvent)),
                steps=tuple(self.steps.values(ThreadEvent)),
                uses=tuple(self.uses.values(MemoryUse)),
            )

    def links(self) -> Links:
        """Return the links between commands, as of now."""
        with self.lock:
            if self._links[0] != self.version:
                self._links = self.version, Links(self.records, self._seq_order)
            return self._links[1]

    def told_of(self, seq: int) -> tuple[Columns, int]:
        """Return the table and row of a command: its record, else its first moment; row -1 where it is not known."""
        row = self.links().row(seq)
        if row >= 0:
            return self.records, row
        rows = np.flatnonzero(self.moments["seq"] == seq)
        return self.moments, int(rows[0]) if len(rows) else -1

    def marks(self) -> Marks:
        """Return what is marked everywhere: the selected operation with what it waited for and what waits for it."""
        with self.lock:
            key = self.version, self.marks_version
            if self._marks[0] != key:
                self._marks = key, self._find_marks()
            return self._marks[1]

    def folding(self) -> TimeAxis:
        """Return the axis of time with all of its idle gaps folded: from the first thing that is held to the last."""
        with self.lock:
            ran, details = (self.records, self.host.rows), (self.moments, self.changes, self.steps)
            return self._axes.folded(self.version, ran, details, self.since_ns, self.origin_ns)

    def axis(self) -> TimeAxis:
        """Return the axis of time as all widgets draw it: the same object until it changes."""
        with self.lock:
            return self._axes.drawn(self.folding(), self.selection.opened)

    # ---- running

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` of news, as long as it lives."""
        self._watchers.add(watcher)
        self.wake()

    def unwatch(self, watcher: Watcher) -> None:
        """Tell `watcher` no more. Without any, nothing is read and no details are asked for."""
        self._watchers.discard(watcher)
        if not self._watchers:
            self._end_details()

    def unseen(self) -> None:
        """Stop if a newer feed shows the driver and no page shows this one any more: its cell ran again."""
        if self.replaced and not any(each.seen for each in self.watchers()):
            self.stop()

    def watchers(self) -> list[Watcher]:
        """Return the watchers."""
        return list(self._watchers)

    def wake(self) -> None:
        """Call the watchers soon. From any thread."""
        self._pace.wake()

    def pause(self) -> None:
        """Read nothing from now on, which costs the driver nothing; what is not read in time will be missed."""
        self._hold(True)

    def resume(self) -> None:
        """Read on where it was paused."""
        self._hold(False)

    def stop(self) -> None:
        """Read a last time and never again; write what a saved notebook shows. Stopping twice is allowed."""
        if not self.stopped:
            if self.driver is not None and self.driver.closed is None and not self.paused:
                self.poll()
            self.stopped = True
            self._end_details()
            self.version += 1
            for watcher in self.watchers():
                watcher.rest()
            self.wake()

    def _end_details(self) -> None:
        for detailing in self._detailing.values():
            detailing.close()
        self._detailing.clear()
        if self._noting is not None:
            self._noting.close()
            self._noting = None

    def _hold(self, paused: bool) -> None:
        if paused != self.paused:
            self.paused = paused
            self.version += 1
            self.wake()

    def _marks_changed(self) -> None:
        self.marks_version += 1
        self.wake()

    def _first_ns(self, *more: Column) -> int | None:
        """Return the earliest moment that is held, or in `more`; None where there is none.

        Changes of memory from before `since_ns`, which are held for what they have left, do not count.
        """
        changes = self.changes["at_ns"]
        details = self.moments["at_ns"], self.steps["at_ns"], changes[changes >= self.since_ns]
        times = (self.records["started_ns"], self.records["finished_ns"], self.host.rows["started_ns"], *details, *more)
        return min((int(column.min()) for column in times if len(column)), default=None)

    def _take(self, trace: Trace) -> None:
        self.names = told_apart(trace.names)
        self._counters = 1, trace.counters
        for name in ("records", "moments", "changes", "steps", "uses"):
            getattr(self, name).extend(getattr(trace, name))
        self.host.add_calls(self.records, len(self.records))
        self.host.add_waits(trace.waits, trace.names.sites)
        self.races = tuple(trace.races)
        self.origin_ns = self._first_ns() or 0
        self.missed = trace.dropped
        self.version = 1

    def _find_marks(self) -> Marks:
        marks = Marks(self.selection.seq, self.selection.cursor_ns)
        if marks.seq == NOTHING:
            return marks
        links = self.links()
        earlier, later = self.host.neighbours(marks.seq, self.records)
        if marks.seq >= HOST:
            text = self.host.sentence(marks.seq, self.origin_ns, earlier, later)
            return replace(marks, before=tuple(earlier), after=tuple(later), text=text)
        row = links.row(marks.seq)
        text = sentence(self.records.record(row), self.origin_ns, self.names).strip() if row >= 0 else ""
        if text and (uses := Ranges.of(self.uses, marks.seq).brief()):
            text += f"; {uses}"
        before, after = (*links.waited_for(marks.seq), *earlier), (*links.waiting(marks.seq), *later)
        text += self.host.told_with([*earlier, *later]) if text else ""
        races = tuple(str(told[2]) for told in self.told_races() if marks.seq in told[:2])
        return replace(marks, before=before, after=after, text=text, place=self._place(marks.seq), races=races)

    def _place(self, seq: int) -> str:
        """Return the source line that enqueued a command, from its moments."""
        known = (self.moments["seq"] == seq) & (self.moments["site"] >= 0)
        if not known.any():
            return ""
        return line_of(self.names, int(self.moments["site"][known][0]))

    def __repr__(self) -> str:
        state = "stopped" if self.stopped else "paused" if self.paused else "live"
        return f"<Feed of {len(self.records)} records, {state}, {self.missing} missed or dropped>"


def told_apart(names: TraceNames) -> TraceNames:
    """Return names in which no two streams of a device are called alike: the second "load" is "load (2)".

    A cell that is run again makes streams of the same names.
    """
    called: dict[tuple[int, str], int] = {}
    streams = dict(names.streams)
    for (device, number), name in sorted(streams.items()):
        count = called[device, name] = called.get((device, name), 0) + 1
        if name and count > 1:
            streams[device, number] = f"{name} ({count})"
    return replace(names, streams=streams) if len(called) < len(streams) else names


FEEDS: WeakValueDictionary[int, Feed] = WeakValueDictionary()  # by the id of their driver, which they keep alive
LOCK: Final = fork_safe(threading.Lock())


def trace_of(source: TraceSource) -> Trace:
    """Return a trace: itself, that of a driver up to now, or that of a file. Raises InvalidValue for what is none."""
    if isinstance(source, str | os.PathLike):
        return load(Path(source))
    if isinstance(source, Driver):
        return source.tracer.snapshot()
    if not isinstance(source, Trace):
        raise InvalidValue(f"expected a trace, the path of a trace file or a driver, got {source!r}")
    return source


def feed_of(source: FeedSource = None) -> Feed:
    """Return what shows `source`: a driver's one feed (None: the current driver's), or one of a trace or a trace file.

    Raises InvalidValue for anything else, and for a file that holds no trace.
    """
    if isinstance(source, Feed):
        return source
    if isinstance(source, Trace):
        return Feed(source)
    if isinstance(source, str | os.PathLike):
        return Feed(load(Path(source)))
    driver = current_driver() if source is None else source
    if not isinstance(driver, Driver):
        raise InvalidValue(f"source expects a driver, a trace, the path of a trace file or a feed, got {source!r}")
    with LOCK:
        feed = FEEDS.get(id(driver))
        if feed is None or feed.stopped:
            feed = FEEDS[id(driver)] = Feed(driver=driver)
        return feed


def new_feed(driver: Driver | None, since_s: float, share: float | None) -> Feed:
    """Return a new feed of a driver (None: of the current one), which the driver's later widgets share."""
    driver = current_driver() if driver is None else driver
    with LOCK:
        before = FEEDS.get(id(driver))
        if before is not None:
            before.replaced = True
        feed = FEEDS[id(driver)] = Feed(driver=driver, since_s=since_s, share=share)
        return feed
