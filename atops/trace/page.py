"""A trace as one page of HTML that opens without a network: a timeline to move and zoom in, figures and a text.

The page is `page.html` beside this file, with the trace, its figures and the colours put in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from atops.base.trace.records import Status, Trace, TraceRecord
from atops.trace.chrome import engine_tracks, time_of_day
from atops.trace.colours import LOOKS, PAGE
from atops.trace.summary import critical_path, interval, rows, summary
from atops.trace.text import GLYPHS, describe
from atops.trace.words import KIND_NAMES, Table, races_text, tables, totals

__all__ = ("to_page",)

MOST: Final = 200_000  # records on a page, the newest: 16 MB
TOLD: Final = 500  # records in the text of a page
SAMPLES: Final = 5_000  # of memory in use on each device
TEMPLATE: Final = Path(__file__).with_name("page.html")


def to_page(trace: Trace, title: str = "trace") -> str:
    """Return the page of a trace, called `title`. Figures are of all records, the timeline of the newest."""
    figures = summary(trace.records, trace.names)
    shown = trace.records[-MOST:]
    left_out = trace.dropped + len(trace.records) - len(shown)
    parts = {
        "TITLE": escape(title),
        "COLOURS": _style(),
        "TOTALS": "".join(f"<div><dt>{what}</dt><dd>{escape(figure)}</dd></div>" for what, figure in totals(figures)),
        "NOTE": _note(trace, figures.first_ns, left_out),
        "TABLES": "".join(map(_table, tables(figures))),
        "TEXT": escape(_text(trace)),
        "DATA": _script_safe(_data(trace, shown)),
    }
    head, *rest = TEMPLATE.read_text(encoding="utf-8").split("{{")
    return head + "".join(parts[name] + text for name, text in (part.split("}}", 1) for part in rest))


def _text(trace: Trace) -> str:
    """Return the trace in words: its races first."""
    told = describe(trace.records, names=trace.names, limit=TOLD)
    return "\n\n".join(part for part in (races_text(trace.races, trace.names), told) if part)


def _note(trace: Trace, first_ns: int, left_out: int) -> str:
    """Return when the trace begins, if it has a time of day, and how many records the timeline lacks."""
    parts: list[str] = []
    if trace.anchor_ns is not None:
        parts.append(f"from {time_of_day(trace.anchor_ns + first_ns)[:19].replace('T', ' ')} UTC")
    if trace.races:
        parts.append(f"{len(trace.races)} race{'s' if len(trace.races) > 1 else ''}, told in the text below")
    if left_out:
        parts.append(f"{left_out:,} earlier records are not in the picture")
    return "; ".join(parts)


def _data(trace: Trace, shown: Sequence[TraceRecord]) -> dict[str, object]:
    """Return what the page's script draws. Times are nanoseconds from the first beginning."""
    origin = min((interval(record)[0] for record in shown), default=0)
    texts: dict[str, int] = {"": 0}
    places = {record.seq: place for place, record in enumerate(shown) if record.seq >= 0}
    by_identity = {id(record): place for place, record in enumerate(shown)}
    columns = [
        [interval(record)[0] - origin, record.finished_ns - origin, int(record.kind), int(record.status),
         texts.setdefault(record.name, len(texts)), record.bytes, record.seq, places.get(record.cause, -1),
         max(0, interval(record)[0] - record.submitted_ns), record.engine]
        for record in shown
    ]  # fmt: skip
    tracks: list[tuple[int, str, Sequence[TraceRecord], bool]] = []
    tracks += [(row.device, row.label, row.records, False) for row in rows(shown, trace.names)]
    tracks += [(device, label, held, True) for device, label, held in engine_tracks(shown)]
    tracks.sort(key=lambda track: track[0])
    memory = _memory(trace, origin)
    devices = {track[0] for track in tracks} | set(memory)
    return {
        "kinds": [[KIND_NAMES[kind], GLYPHS[kind]] for kind in KIND_NAMES],
        "statuses": [status.name.lower() for status in Status],
        "devices": {
            device: trace.names.devices.get(device) or ("host" if device < 0 else f"device {device}")
            for device in sorted(devices)
        },
        "rows": [
            {"device": device, "label": label, "engine": engine, "at": [by_identity[id(record)] for record in held]}
            for device, label, held, engine in tracks
        ],
        "names": list(texts),
        "notes": dict(trace.names.notes),
        "records": columns,
        "memory": memory,
        "path": [by_identity[id(record)] for record in critical_path(shown)],
    }


def _memory(trace: Trace, origin: int) -> dict[int, list[list[int]]]:
    """Return (time, bytes in use) by device, thinned; what was in use before the first record began is at 0."""
    found: dict[int, list[list[int]]] = {}
    for sample in trace.counters:
        own, at = found.setdefault(sample.device, []), max(0, sample.at_ns - origin)
        if own and own[-1][0] == at == 0:
            own.pop()
        own.append([at, sample.used_bytes])
    return {device: own[:: 1 + len(own) // SAMPLES] for device, own in found.items()}


def _script_safe(data: dict[str, object]) -> str:
    """Return JSON that no text in it can leave: a `<` begins no tag."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _style() -> str:
    light = "".join(f"--{name}:{both[0]};" for name, both in PAGE.items())
    dark = "".join(f"--{name}:{both[1]};" for name, both in PAGE.items())
    light += "".join(f"--k{int(kind)}:{colour};" for kind, colour, _, _ in LOOKS)
    dark += "".join(f"--k{int(kind)}:{colour};" for kind, _, colour, _ in LOOKS)
    return (
        f":root{{{light}color-scheme:light}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}color-scheme:dark}}}}"
        f":root[data-theme=dark]{{{dark}color-scheme:dark}}"
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
