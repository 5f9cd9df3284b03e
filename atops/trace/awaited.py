"""Where a program waited for the device: how long each of its lines stood still, and what the device did meanwhile."""

from __future__ import annotations

import asyncio
import linecache
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from atops.base.html_table import bar, columns
from atops.base.trace.records import WAITS, Kind, Place, Trace
from atops.device.call_site import file_shown
from atops.trace.summary import Interval, intersect, interval, length, merge
from atops.trace.words import KIND_NAMES, format_ns, percent, printable

__all__ = ("Awaited", "AwaitedLine", "awaited")

MOST: Final = 20  # lines as text
MOST_WORK: Final = 4  # sorts of work of a line, as text
WIDEST: Final = 60  # of a line's own text
ASYNCIO: Final = os.path.dirname(asyncio.__file__) + os.sep
NO_LINE: Final = "tasks that no line awaits itself"


@dataclass(frozen=True, slots=True)
class AwaitedLine:
    """One line of a program, or the tasks that no line of it awaits itself (`place` is None). Times in nanoseconds.

    - `waits`: how often it waited, in all tasks and threads; `longest_ns`: the longest of these waits.
    - `total_ns`: the time in which it waited, counted once where several tasks waited there at once.
    - `meanwhile`: by what the device did in that time, how long; several things may have run at once. Longest first.
    - `idle_ns`: the part of that time in which nothing ran.
    """

    place: Place | None
    waits: int
    total_ns: int
    longest_ns: int
    meanwhile: tuple[tuple[str, int], ...]
    idle_ns: int

    @property
    def text(self) -> str:
        """The line's own text; empty where its file cannot be read."""
        return "" if self.place is None else linecache.getline(self.place.file, self.place.line).strip()

    @property
    def where(self) -> str:
        """Return "file:line in function"."""
        place = self.place
        return NO_LINE if place is None else f"{file_shown(place.file)}:{place.line} in {place.function}"

    @property
    def work(self) -> str:
        """Say what the device did meanwhile, down to a hundredth: "kernel scale 4.1 ms, nothing 0.2 ms"."""
        shown = [f"{name} {format_ns(ns)}" for name, ns in self.meanwhile[:MOST_WORK] if ns * 100 >= self.total_ns]
        if len(shown) < len(self.meanwhile):
            shown.append("and shorter work" if shown else "shorter work")
        if self.idle_ns * 100 >= self.total_ns and self.idle_ns:
            shown.append(f"nothing {format_ns(self.idle_ns)}")
        return printable(", ".join(shown))


@dataclass(frozen=True, slots=True, repr=False)
class Awaited:
    """Which lines of a program waited for the device, the longest first. `print` shows them; times in nanoseconds.

    - `span_ns`: from the first to the last of what the trace has.
    - `total_ns`: the time in which at least one line waited; `idle_ns`: the part of it in which nothing ran.
    """

    lines: tuple[AwaitedLine, ...]
    span_ns: int
    total_ns: int
    idle_ns: int

    @property
    def sentence(self) -> str:
        """Say it in one sentence."""
        if not self.lines:
            return "awaited here: no line of the program waited for the device"
        share = percent(self.total_ns, self.span_ns)
        nothing = f", in {format_ns(self.idle_ns)} of it nothing ran" if self.idle_ns else ""
        return f"awaited here: {format_ns(self.total_ns)} of {format_ns(self.span_ns)}, {share}{nothing}"

    def __str__(self) -> str:
        parts = [self.sentence]
        for line in self.lines[:MOST]:
            times = f"{line.waits:,} wait{'s, longest ' + format_ns(line.longest_ns) if line.waits > 1 else ''}"
            share = percent(line.total_ns, self.span_ns)
            parts.append(f"  {format_ns(line.total_ns):>8}  {share:>4}  {line.where}, {times}")
            parts += [f"{'':18}{printable(text)}" for text in (line.text[:WIDEST],) if text]
            parts += [f"{'':18}meanwhile: {line.work}"] if line.work else []
        if len(self.lines) > MOST:
            parts.append(f"  and {len(self.lines) - MOST} more lines")
        return "\n".join(parts)

    __repr__ = __str__  # to look at where it is the last word of a cell

    def _repr_html_(self) -> str:
        rows = [
            [bar(line.total_ns, self.span_ns, format_ns(line.total_ns)), f"{line.waits:,}", format_ns(line.longest_ns),
             line.where, line.text[:WIDEST], line.work]
            for line in self.lines[:MOST]
        ]  # fmt: skip
        table = columns(("waited", "times", "longest", "where", "line", "meanwhile"), rows)
        more = f"<div>and {len(self.lines) - MOST} more lines</div>" if len(self.lines) > MOST else ""
        return f"<div>{self.sentence}</div>{table if rows else ''}{more}"


def awaited(trace: Trace) -> Awaited:
    """Return where the program waited in a trace, one of `atops.profile` say, and what the device did meanwhile.

    Commands that only waited in their streams are no work of the device.
    """
    work: dict[str, list[Interval]] = defaultdict(list)
    for record in trace.records:
        if record.kind not in WAITS and record.kind is not Kind.API:
            name = f"kernel {record.name}" if record.kind is Kind.LAUNCH else KIND_NAMES[record.kind]
            work[name].append(interval(record))
    merged = {name: merge(each) for name, each in work.items()}
    busy = merge(each for some in merged.values() for each in some)
    places: dict[Place | None, list[Interval]] = defaultdict(list)
    for wait in trace.waits:
        place = trace.names.sites.get(wait.site)
        if place is not None and place.file.startswith(ASYNCIO):
            place = None
        places[place].append((wait.started_ns, wait.finished_ns))
    lines = [_line(place, waits, merged, busy) for place, waits in places.items()]
    lines.sort(key=lambda line: (-line.total_ns, line.where))
    total = merge(each for waits in places.values() for each in waits)
    ends = [*(interval(record) for record in trace.records), *total]
    span = max((end for _, end in ends), default=0) - min((start for start, _ in ends), default=0)
    return Awaited(tuple(lines), span, length(total), length(total) - length(intersect(total, busy)))


def _line(
    place: Place | None, waits: Sequence[Interval], work: dict[str, list[Interval]], busy: Sequence[Interval]
) -> AwaitedLine:
    waited = merge(waits)
    found = {name: length(intersect(waited, ran)) for name, ran in work.items()}
    meanwhile = sorted(((name, ns) for name, ns in found.items() if ns), key=lambda each: (-each[1], each[0]))
    idle = length(waited) - length(intersect(waited, busy))
    longest = max(end - start for start, end in waits)
    return AwaitedLine(place, len(waits), length(waited), longest, tuple(meanwhile), idle)
