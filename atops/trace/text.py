"""A trace as text: a timeline of one line a stream for terminals, and sentences for screen readers and logs.

Plain strings; the same records give the same text. A glyph says what a cell is; colour only repeats it.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from atops.base.errors import InvalidValue
from atops.base.trace.records import Kind, Status, TraceNames, TraceRecord
from atops.trace.summary import Row, Summary, interval, rows, summary
from atops.trace.words import KIND_NAMES, format_bytes, format_ns, printable, shortened

__all__ = ("GLYPHS", "describe", "render_text", "sentence")

MINIMUM_WIDTH: Final = 40
FAILURE: Final = "!"

# Printable ASCII that is no letter, so that the names written into long cells cannot be mistaken for glyphs.
GLYPHS: Final[dict[Kind, str]] = {
    Kind.COPY_H2D: ">",
    Kind.COPY_D2H: "<",
    Kind.COPY_D2D: "=",
    Kind.COPY_H2H: "~",
    Kind.COPY_PEER: "&",
    Kind.FILL: "*",
    Kind.LAUNCH: "#",
    Kind.RECORD: "^",
    Kind.WAIT_EVENT: ".",
    Kind.WAIT_VALUE: ":",
    Kind.WRITE_VALUE: "/",
    Kind.CALL: "@",
    Kind.ALLOC: "+",
    Kind.FREE: "-",
    Kind.API: "%",
}
NAMED: Final = frozenset({GLYPHS[Kind.LAUNCH], GLYPHS[Kind.CALL]})  # long runs of these show a name

# SGR codes that stay readable on dark and light backgrounds.
COLOURS: Final[dict[str, str]] = {
    **dict.fromkeys("><=~&", "36"),  # copies: cyan
    "*": "34",
    "#": "32",
    "@": "35",
    "%": "35",
    FAILURE: "1;31",
}
QUIET: Final = "2"


def render_text(
    records: Sequence[TraceRecord],
    width: int = 100,
    colour: bool = True,
    *,
    names: TraceNames | None = None,
    limit: int = 40,
    figures: bool = True,
    origin_ns: int | None = None,
) -> str:
    """Draw a timeline: an axis, a line for each stream, a legend of the glyphs in use, and the main `figures`.

    At most `limit` lines of streams are drawn; what is left out is counted. `colour` adds ANSI colours. The axis calls
    `origin_ns` 0, by default the beginning of what is drawn. Raises InvalidValue when `width` is below 40 columns.
    """
    if width < MINIMUM_WIDTH:
        raise InvalidValue(f"a timeline of {width} columns shows nothing; expected {MINIMUM_WIDTH} or more")
    if not records:
        return "timeline: no records"
    names = names or TraceNames()
    all_rows = rows(records, names)
    shown = all_rows[:limit]
    margin = min(max(len(row.label) for row in shown), width // 4) + 3
    cells = width - margin - 1
    known = summary(records)
    shift = 0 if origin_ns is None else known.first_ns - origin_ns
    lines = [" " * margin + part for part in _axis(known.span_ns, cells, shift)]
    used: set[str] = set()
    device: int | None = None
    for row in shown:
        if row.device != device:
            device = row.device
            lines.append(_device(device, names))
        glyphs, text = _cells(row, known.first_ns, known.span_ns, cells)
        used.update(glyphs)
        lines.append(f"  {shortened(row.label, margin - 3):<{margin - 3}} {_paint(glyphs, text, colour)}".rstrip())
    if len(all_rows) > len(shown):
        lines.append(f"  and {len(all_rows) - len(shown)} more lines")
    legend = [f"{glyph} {KIND_NAMES[kind]}" for kind, glyph in GLYPHS.items() if glyph in used]
    legend += [f"{FAILURE} failed, skipped or aborted"] if FAILURE in used else []
    lines += _wrap("legend: ", legend, width)
    lines += _wrap("", _figures(known), width) if figures else []
    for name in sorted({record.name for record in records} & set(names.notes)):
        lines += _wrap(f"{shortened(name)}: ", [printable(names.notes[name])], width)
    return "\n".join(lines)


def describe(
    records: Sequence[TraceRecord], *, names: TraceNames | None = None, limit: int = 200, origin_ns: int | None = None
) -> str:
    """Tell a trace in sentences, a line for each record in its stream's order, at most `limit` of them.

    Times count from `origin_ns`, by default from the first beginning. Long names are shortened.
    """
    names = names or TraceNames()
    if not records:
        return "No records."
    figures = summary(records)
    lines = [". ".join(part[0].upper() + part[1:] for part in _figures(figures)) + "."]
    left = limit
    for row in rows(records, names):
        count = f"{len(row.records)} record{'s' if len(row.records) != 1 else ''}"
        lines.append(f"{_device(row.device, names).capitalize()}, {shortened(row.label)}: {count}.")
        first = figures.first_ns if origin_ns is None else origin_ns
        starts = sorted({interval(record)[0] for record in row.records})
        apart = min((later - at for at, later in pairwise(starts)), default=0)
        lines += [sentence(record, first, names, apart) for record in row.records[: max(0, left)]]
        left -= len(row.records)
    if left < 0:
        lines.append(f"{-left} more records are left out.")
    return "\n".join(lines)


def sentence(record: TraceRecord, first: int, names: TraceNames, apart: int = 0) -> str:
    """Tell one record in a line, indented by two; times count from `first`, and are told from those `apart` away."""
    start, end = interval(record)
    parts = [f"  {KIND_NAMES[record.kind]}"]
    parts += [f" {shortened(record.name)}"] if record.name else []
    parts += [f" [{printable(note)}]"] if (note := names.notes.get(record.name)) else []
    parts += [f", {format_bytes(record.bytes)}"] if record.bytes else []
    parts.append(f", at {format_ns(start - first, apart)}" + (f" for {format_ns(end - start)}" if end > start else ""))
    parts += [f", satisfied by number {record.cause}"] if record.cause >= 0 else []
    parts += [f", {record.status.name.lower()}"] if record.status is not Status.DONE else []
    return "".join(parts) + f" (number {record.seq})"


def _axis(span: int, cells: int, shift: int) -> tuple[str, str]:
    """Return the line of tick labels and the ruler: a tick at each round step of 1, 2 or 5 times a power of ten.

    The first cell is called `shift`, in nanoseconds.
    """
    step = 1
    while step * cells < 11 * max(span, 1):  # a label and the space after it take 11 columns
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    labels, ruler = [" "] * cells, ["-"] * cells
    free = 0  # the first column that no label takes, nor the space behind it
    for at in range(-(-shift // step) * step, shift + span + 1, step):
        column = (at - shift) * cells // span if span else 0
        if column < cells:
            ruler[column] = "+"
            text = format_ns(at, step) if at else "0"
            if free <= column <= cells - len(text):
                labels[column : column + len(text)] = text
                free = column + len(text) + 1
    return "".join(labels).rstrip(), "".join(ruler)


def _cells(row: Row, first: int, span: int, cells: int) -> tuple[str, str]:
    """Return a row's glyphs, one a cell, and the same with names written into long runs of kernels and calls."""
    weights: list[dict[str, int]] = [defaultdict(int) for _ in range(cells)]
    labels: list[tuple[int, int, str]] = []
    span = max(span, 1)
    for record in row.records:
        start, end = (at - first for at in interval(record))
        glyph = GLYPHS[record.kind] if record.status is Status.DONE else FAILURE
        left, right = min(cells - 1, start * cells // span), min(cells - 1, max(start, end - 1) * cells // span)
        for cell in range(left, right + 1):
            # In units of 1/cells ns, so that the borders of cells are integers. A mark of no length counts as 0.
            covered = min(end * cells, (cell + 1) * span) - max(start * cells, cell * span)
            weights[cell][glyph] += max(covered, 0)
        if glyph in NAMED and record.name:
            labels.append((left, right, printable(record.name)))
    order = [FAILURE, *GLYPHS.values()]
    glyphs = "".join(max(weight, key=lambda g: (g == FAILURE, weight[g], -order.index(g))) if weight else " "
                     for weight in weights)  # fmt: skip
    text = list(glyphs)
    for left, right, name in labels:
        while left < right and glyphs[left] not in NAMED:
            left += 1  # the first and the last cell may show a neighbour that fills more of them
        while left < right and glyphs[right] not in NAMED:
            right -= 1
        if right - left + 1 >= len(name) + 2 and len(set(glyphs[left : right + 1])) == 1:
            text[left + 1 : left + 1 + len(name)] = name
    return glyphs, "".join(text)


def _paint(glyphs: str, text: str, colour: bool) -> str:
    if not colour:
        return text
    painted: list[str] = []
    start = 0
    for end in range(1, len(glyphs) + 1):
        if end == len(glyphs) or glyphs[end] != glyphs[start]:
            run = text[start:end]
            code = COLOURS.get(glyphs[start], QUIET)
            painted.append(run if run.isspace() else f"\x1b[{code}m{run}\x1b[0m")
            start = end
    return "".join(painted)


def _figures(figures: Summary) -> list[str]:
    count = sum(figures.counts.values())
    parts = [f"{count} record{'s' if count != 1 else ''} in {format_ns(figures.span_ns)}"]
    parts += [f"{number} {status.name.lower()}" for status, number in sorted(figures.statuses.items()) if status]
    for kind, moved in figures.kind_bytes.items():
        if moved and kind not in (Kind.ALLOC, Kind.FREE):
            parts.append(f"{KIND_NAMES[kind]} {format_bytes(moved)}")
    if figures.kernel_ns:
        parts.append(f"kernels {format_ns(figures.kernel_ns)}")
    if figures.copy_ns and figures.kernel_ns:
        parts.append(f"{figures.overlap:.0%} of copy time beside a kernel")
    if figures.idle_ns:
        start, end = figures.longest_idle
        idle = f"idle {format_ns(figures.idle_ns)} ({figures.idle:.0%})"
        parts.append(f"{idle}, longest {format_ns(end - start)}")
    return parts


def _device(device: int, names: TraceNames) -> str:
    return shortened(names.devices.get(device) or ("host" if device < 0 else f"device {device}"))


def _wrap(head: str, parts: Sequence[str], width: int) -> list[str]:
    """Join the parts with semicolons and break between them only where a line is full."""
    whole = "; ".join(part.replace(" ", "\xa0") for part in parts)
    lines = textwrap.wrap(whole, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]
