"""How traces are told: names of kinds, times, sizes, the figures of a trace as tables, and its races.

Plain strings, below all that reads traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from atops.base.trace.records import Kind, RaceEvent, RaceSide, TraceNames
from atops.device.call_site import file_shown

if TYPE_CHECKING:
    from atops.trace.summary import Summary

__all__ = (
    "KIND_NAMES", "Table", "bytes_of", "format_bytes", "format_ns", "percent", "printable", "race_sentence",
    "race_text", "races_text", "report", "shortened", "side_words", "tables", "totals",
)  # fmt: skip

MOST_ROWS: Final = 40  # of a table as text
LONGEST: Final = 60  # letters of a name
MOST_RANGES: Final = 4  # of a race
MOST_RACES: Final = 100  # as text
HELD: Final = frozenset({Kind.ALLOC, Kind.FREE})  # their bytes are held or given back, and not moved

KIND_NAMES: Final[Mapping[Kind, str]] = {
    Kind.COPY_H2D: "copy host to device",
    Kind.COPY_D2H: "copy device to host",
    Kind.COPY_D2D: "copy within the device",
    Kind.COPY_H2H: "copy host to host",
    Kind.COPY_PEER: "copy to another device",
    Kind.FILL: "fill",
    Kind.LAUNCH: "kernel",
    Kind.RECORD: "record event",
    Kind.WAIT_EVENT: "wait for event",
    Kind.WAIT_VALUE: "wait for value",
    Kind.WRITE_VALUE: "write value",
    Kind.CALL: "host call",
    Kind.ALLOC: "allocate",
    Kind.FREE: "free",
    Kind.API: "API call",
}


class Table(NamedTuple):
    """Figures in rows, as texts. A column without a name belongs to the one before it."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def format_ns(ns: int, apart: int = 0) -> str:
    """Return a time with three digits and its unit: 0 ns, 1.5 µs, 20 ms, 3.25 s.

    With `apart` it has as many digits as tell it from another one so many nanoseconds away: 3.01234 s.
    """
    for unit, scale in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        value = ns / scale
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
        if 0 < apart <= scale:
            digits = max(digits, len(str(scale // apart)))
        if abs(round(value, digits)) >= 1:
            text = f"{value:.{digits}f}"
            return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"
    return f"{ns} ns"


def format_bytes(size: int) -> str:
    """Return a size in binary units: 512 B, 4 KiB, 1.5 MiB."""
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"


def printable(text: str) -> str:
    """Return text that cannot move the cursor or break a line, whatever a kernel or stream is called."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def shortened(name: str, room: int = LONGEST) -> str:
    """Return a name as printable text of at most `room` letters: what is left out lies in the middle."""
    name = printable(name)
    return name if len(name) <= room else f"{name[: room // 2]}~{name[len(name) - (room - 1) // 2 :]}"


def percent(part: int, whole: int) -> str:
    """Return what part of a whole this is, in percent; 0% of nothing."""
    return f"{part / whole if whole else 0:.0%}"


def report(figures: Summary) -> str:
    """Return the figures of a trace as text: lines of totals, and tables of streams, kinds and kernels."""
    wide = max(len(what) for what, _ in totals(figures))
    lines = [f"{what:<{wide}}  {figure}" for what, figure in totals(figures)]
    parts = ["\n".join(lines), *(_aligned(table) for table in tables(figures))]
    return "\n\n".join(parts)


def totals(figures: Summary) -> list[tuple[str, str]]:
    """Return the main figures of a trace: what, and how much."""
    count, span = sum(figures.counts.values()), figures.span_ns
    ended = [f"{number:,} {status.name.lower()}" for status, number in sorted(figures.statuses.items()) if status]
    found = [("records", ", ".join([f"{count:,}", *ended])), ("time", format_ns(span))]
    if not count:
        return found[:1]
    start, end = figures.longest_idle
    longest = f", longest {format_ns(end - start)} at {format_ns(start - figures.first_ns)}" if end > start else ""
    found.append(("idle", f"{percent(figures.idle_ns, span)}, {format_ns(figures.idle_ns)}{longest}"))
    if figures.kernel_ns:
        found.append(("kernels", f"{percent(figures.kernel_ns, span)}, {format_ns(figures.kernel_ns)}"))
    if figures.copy_ns:
        copies = f"{percent(figures.copy_ns, span)}, {format_ns(figures.copy_ns)}"
        beside = f", {figures.overlap:.0%} of it beside a kernel" if figures.kernel_ns else ""
        found.append(("copies", copies + beside))
    return found


def tables(figures: Summary) -> list[Table]:
    """Return the figures of a trace by stream, by kind, and by kernel, the longest first."""
    span = figures.span_ns
    found = [Table(("stream", "busy", "", "waits", ""), [
        [_stream_name(figures, stream), format_ns(busy), percent(busy, span), format_ns(waits), percent(waits, span)]
        for stream, busy in figures.busy_ns.items()
        for waits in [figures.waiting_ns[stream]]
    ])]  # fmt: skip
    found.append(Table(("kind", "count", "time", "", "bytes", "rate"), [
        [KIND_NAMES[kind], f"{count:,}", format_ns(figures.kind_ns[kind]), percent(figures.kind_ns[kind], span),
         *_moved(figures.kind_bytes.get(kind, 0), 0 if kind in HELD else figures.kind_ns[kind])]
        for kind, count in figures.counts.items()
    ]))  # fmt: skip
    found.append(Table(("kernel", "count", "time", "", "mean"), [
        [printable(name) or "(no name)", f"{count:,}", format_ns(ns), percent(ns, span), format_ns(ns // count)]
        for name, (count, ns) in sorted(figures.kernels.items(), key=lambda entry: (-entry[1][1], entry[0]))
    ]))  # fmt: skip
    return [table for table in found if table.rows]


def _stream_name(figures: Summary, stream: tuple[int, int]) -> str:
    device, number = stream
    board = figures.devices.get(device) or ("host" if device < 0 else f"device {device}")
    name = figures.streams.get(stream) or (f"stream {number}" if number >= 0 else "outside")
    return printable(f"{board}, {name}")


def _moved(size: int, ns: int) -> list[str]:
    return [format_bytes(size) if size else "", f"{size / ns:.3g} GB/s" if size and ns else ""]


def _aligned(table: Table) -> str:
    """Return a table in columns: the first to the left, the others to the right. What is left out is counted."""
    shown = [table.head, *table.rows[:MOST_ROWS]]
    first, *widths = (max(map(len, column)) for column in zip(*shown, strict=True))
    aligned = ([f"{row[0]:<{first}}", *map("{:>{}}".format, row[1:], widths)] for row in shown)
    lines = ["  ".join(row).rstrip() for row in aligned]
    lines += [f"and {len(table.rows) - MOST_ROWS} more"] if len(table.rows) > MOST_ROWS else []
    return "\n".join(lines)


# ---- races


def race_text(race: RaceEvent, names: TraceNames) -> str:
    """Return a race in four lines: what it is and where, its two sides, and what would order them."""
    where = f"{race.memory}, {bytes_of(race)}" if race.ranges else race.memory
    sides = (("first: ", race.first), ("second:", race.second))
    told = [f"  {which} {side_words(side, names)}{_number(side)}" for which, side in sides]
    return "\n".join([f"{race.kind}: {printable(where)}", *told, f"  {printable(race.advice)}"])


def race_sentence(race: RaceEvent, names: TraceNames) -> str:
    """Return a race in one line."""
    first, second = (side_words(side, names) + _number(side) for side in (race.first, race.second))
    where = f"{race.memory}, {bytes_of(race)}" if race.ranges else race.memory
    return f"{race.kind}, {printable(where)}: {first}; and {second}; {printable(race.advice)}"


def races_text(races: Sequence[RaceEvent], names: TraceNames) -> str:
    """Return the races of a trace as text, numbered; empty where there are none."""
    lines = [f"{len(races)} race{'s' if len(races) != 1 else ''}"] if races else []
    for number, race in enumerate(races[:MOST_RACES], 1):
        first, *rest = race_text(race, names).splitlines()
        lines += ["", f"{number}. {first}", *(f"   {line}" for line in rest)]
    if len(races) > MOST_RACES:
        lines += ["", f"and {len(races) - MOST_RACES} more"]
    return "\n".join(lines)


def side_words(side: RaceSide, names: TraceNames) -> str:
    """Return one side: "stream 'load': copy writes, at main.py:12 in main"."""
    place = names.sites.get(side.site)
    at = "" if place is None else f", at {file_shown(place.file)}:{place.line} in {place.function}"
    return printable(f"{side.actor}: {side.what}{at}")


def bytes_of(race: RaceEvent) -> str:
    """Return the bytes where the two sides meet: "bytes 0 to 64"; empty where none are known."""
    shown = ", ".join(f"{start} to {stop}" for start, stop in race.ranges[:MOST_RANGES])
    more = len(race.ranges) - MOST_RANGES
    return (f"bytes {shown}" if shown else "") + (f" and {more} more ranges" if more > 0 else "")


def _number(side: RaceSide) -> str:
    return f" (number {side.seq})" if side.seq >= 0 else ""
