"""The timeline: one row a stream, copy engines and clusters below, arrows of waits, critical path, overlap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import traitlets

from atops.trace.awaited import awaited
from atops.trace.text import describe, render_text
from atops.trace.words import format_bytes, format_ns, races_text
from atops_widgets.drawing.base import TraceWidget
from atops_widgets.drawing.scene import Scene, Told, Window
from atops_widgets.drawing.svg import Drawing, MarkPlace, mark_gaps, mark_races, moments_told, outline, sentence, ticks
from atops_widgets.drawing.theme import NAMES, STYLES, Theme
from atops_widgets.feed.axis import TimeAxis
from atops_widgets.feed.feed import Marks
from atops_widgets.timeline.scene import SHAPE, Timetable, following, sums

__all__ = ("Timeline",)

MARGIN: Final = 150  # at most, right of the names of the rows
NARROW: Final = 0.28  # of the width: it takes no more
TOP: Final = 28
ROW: Final = 22
HEAD: Final = 18  # of the line that names a device
NAMED: Final = 34  # pixels from which a shape carries its letter and its name
LETTERED: Final = 14
SIGN: Final = 13  # pixels of the sign of what failed
MONOSPACED: Final = 'text-anchor="middle" font-family="monospace"'
SWATCH: Final = '<svg width="22" height="14">{}</svg>'
TOLD: Final = 2000  # records that the text tells; the newest


class Timeline(TraceWidget):
    """Draw when every command ran. Drag or use the arrow keys to move, the wheel or + and - to zoom."""

    script: ClassVar[str] = "timeline/timeline.js"
    label: ClassVar[str] = "Timeline"
    swatches: ClassVar[Sequence[tuple[str, str]]] = (
        ("failed, skipped or aborted", SWATCH.format('<rect x="1" y="1" width="20" height="12" fill="none" '
         'stroke="var(--failed)" stroke-width="2"/><rect width="13" height="14" fill="var(--failed)"/>'
         '<text x="6.5" y="11" text-anchor="middle" font-size="12" font-family="monospace" fill="var(--on)">!</text>')),
        ("critical path", SWATCH.format('<rect y="6" width="22" height="3" fill="var(--path)"/>')),
    )  # fmt: skip

    span = traitlets.List(traitlets.Float()).tag(sync=True)  # from when to when it shows, ns since 0; empty: everything

    def prepare(self) -> None:
        """Make the timetable that keeps what was computed from one scene to the next."""
        self._timetable = Timetable(self.feed)
        self.feed.ask_waits()
        self._find = ""
        self._range: tuple[int, int] | None = None
        self._shown_span: tuple[int, int] | None = None
        self.observe(self._spanned, "span")

    def scene(self, window: Window) -> Scene:
        """Return the picture of a window: see `Timetable.scene`."""
        scene = self._timetable.scene(window)
        found = len(self._timetable.found(self._find)) if self._find else 0
        told = {**scene.told, "find": self._find, "found": found, "range": self._measured()}
        return Scene(told, scene.columns)

    def heard(self, message: Mapping[str, object]) -> None:
        """Look for names, or measure a range of time, as the page asks."""
        match message:
            case {"type": "find", "text": str(text), "by": int(by)}:
                with self.feed.lock:
                    self._find = text
                    seqs = self._timetable.found(text) if text else []
                    if seqs:
                        self.feed.selection.select(following(seqs, self.feed.selection.seq, by))
                self.redraw()
            case {"type": "range", "start": int(start) | float(start), "end": int(end) | float(end)}:
                self._range = int(min(start, end)), int(max(start, end))
                self.redraw()
            case {"type": "range"}:
                self._range = None
                self.redraw()

    def _measured(self) -> list[object] | None:
        """Return from when to when is measured, and what happened then in words."""
        if self._range is None:
            return None
        start, end = (at + self.feed.origin_ns for at in self._range)
        return [*self._range, sums(self.feed.records, start, end, self.feed.missing)]

    def tick(self, now: float) -> float | None:
        """Note what the page shows, for the widgets beside it, too; then send a frame if one is due."""
        self.span = self._asked_span()
        start, end = self.window.start_ns, self.window.end_ns
        span = None if start is None or end is None else (start, end)
        if span != self._shown_span:
            self._shown_span = span
            self.feed.selection.show(span)
        return super().tick(now)

    def _asked_span(self) -> list[float]:
        start, end, origin = self.window.start_ns, self.window.end_ns, self.feed.origin_ns
        return [] if start is None or end is None else [float(start - origin), float(end - origin)]

    def _spanned(self, change: Mapping[str, Any]) -> None:
        """Have the pages show what was asked for; what they asked for themselves they show already."""
        span = change["new"]
        if span != self._asked_span() and (len(span) == 0 or (len(span) == 2 and span[0] < span[1])):
            asked = {"start": span[0], "end": span[1]} if span else {}
            self.window = Window.asked(
                {**asked, "width": self.window.width, "options": {**self.window.options, "follow": False}},
                self.feed.origin_ns,
            )
            self.send({"type": "show", "span": span})
            self.redraw()

    def saved_window(self) -> Window:
        """Return everything, finely, with the critical path, which a page can show without asking."""
        return Window(width=4096, options={"path": True})

    def to_svg(self, *, width: int = 960, theme: Theme | None = None) -> str:
        """Return the whole trace as one `<svg>` element."""
        with self.feed.lock:
            scene = self.scene(Window(width=max(100, width - _edge(width))))
            marks, origin = self.feed.marks(), self.feed.origin_ns
            if marks.cursor_ns is not None:
                marks = replace(marks, cursor_ns=marks.cursor_ns - origin)
            drawing = Drawing(width, self.label, theme)
            axis, texts = self.feed.axis().since(origin), self.feed.texts.all
            return _draw(drawing, scene, axis, texts, marks, self.feed.told_races())

    def to_text(self, width: int = 100) -> str:
        """Return a line for each stream, and then the newest records in sentences."""
        trace, held, origin = self.feed.trace(TOLD), len(self.feed.records), self.feed.origin_ns
        parts = [f"the newest {TOLD:,} of {held:,} records"] if held > TOLD else []
        parts.append(render_text(trace.records, width, colour=False, names=trace.names, origin_ns=origin))
        told = describe(trace.records, names=trace.names, origin_ns=origin).splitlines()
        parts += told[1:]  # the first line has the figures, which stand below the drawing
        first = min((record.started_ns for record in trace.records), default=0)
        if waits := tuple(wait for wait in trace.waits if wait.finished_ns >= first):
            parts += ["", str(awaited(replace(trace, waits=waits)))]
        if trace.races:
            parts += ["", races_text(trace.races, trace.names)]
        return "\n".join(parts)


def _edge(width: int) -> int:
    """Return where the rows begin in a drawing so many pixels wide."""
    return min(MARGIN, int(width * NARROW))


def _draw(
    drawing: Drawing, scene: Scene, axis: TimeAxis, texts: list[str], marks: Marks, races: Sequence[Sequence[int | str]]
) -> str:
    """Return the drawing of a timeline's scene, with what is marked; the cursor counts from the origin."""
    told, width = scene.told, drawing.width
    edge = _edge(width)
    tops, bottom = _tops(told["rows"])
    first, last = (float(axis.place(at)) for at in told["window"])
    scale = (width - edge - 8) / max(1.0, last - first)

    def x_of(at: float) -> float:
        return float(edge + (axis.place(at) - first) * scale)

    _rows(drawing, told["rows"], tops)
    if told["rows"]:
        _axis(drawing, told["window"], axis, x_of, bottom)
        mark_gaps(drawing, axis, x_of, TOP - 8, bottom)
    places: list[MarkPlace] = []
    for shape in scene.rows(*SHAPE):
        places.append(_shape(drawing, shape, tops, x_of, texts, width - 8.0))
    shapes = zip(places, scene.columns["failed"].tolist(), scene.columns["row"].tolist(), strict=True)
    _signs(drawing, [(min(place[1], width - 8.0 - SIGN), tops[row] + 2) for place, failed, row in shapes if failed])
    for row, start, end in (each.values() for each in scene.rows("path_row", "path_start", "path_end")):
        if row >= 0:
            drawing.rect(x_of(start), tops[row] + ROW - 4, max(2.0, x_of(end) - x_of(start)), 3, "path")
    for arrow in scene.rows("arrow_from", "arrow_to", "arrow_start", "arrow_end"):
        y, to = tops[arrow["arrow_from"]] + ROW / 2, tops[arrow["arrow_to"]] + ROW / 2
        x, end = x_of(arrow["arrow_start"]), x_of(arrow["arrow_end"])
        curve = f"M{x:.1f} {y:.1f}C{x + 14:.1f} {y:.1f} {end - 14:.1f} {to:.1f} {end:.1f} {to:.1f}"
        drawing.path(curve, "ink", f'stroke-width="1.2" {drawing.arrow}')
    outline(drawing, places, marks)
    mark_races(drawing, races, _spots(places))
    if marks.cursor_ns is not None and told["window"][0] <= marks.cursor_ns <= told["window"][1]:
        drawing.path(f"M{x_of(marks.cursor_ns):.1f} {TOP - 10}V{bottom:.0f}", "cursor", 'stroke-width="2"')
    if told["more"]:
        drawing.text(8, bottom + 8, f"and {told['more']} more rows", "quiet")
        bottom += ROW
    below = drawing.legend(told["kinds"], bottom + 10)
    say = sentence(marks) or str(told["say"])
    return drawing.finish(drawing.lines(8, below, say) + 4, say)


def _signs(drawing: Drawing, failed: Sequence[tuple[float, float]]) -> None:
    """Draw the sign of what failed, over all shapes and however narrow its own is; once where several are."""
    last: dict[float, float] = {}
    for x, y in failed:
        if abs(x - last.get(y, -SIGN)) >= SIGN:
            last[y] = x
            drawing.rect(x, y, SIGN, ROW - 4, "failed", 'data-sign="failed"')
            drawing.text(x + SIGN / 2, y + ROW / 2 - 2, "!", "on", MONOSPACED)


def _spots(places: Sequence[MarkPlace]) -> dict[int, tuple[float, float]]:
    """Return the middle of the top of each command, on its stream's row, which stands above its engine's."""
    spots: dict[int, tuple[float, float]] = {}
    for seq, x, y, width, _ in places:
        if seq not in spots or y < spots[seq][1]:
            spots[seq] = x + width / 2, y + 1
    return spots


def _tops(rows: Sequence[Sequence[Any]]) -> tuple[list[float], float]:
    """Return the top of each row, below a line for each device, and the bottom of the last."""
    tops: list[float] = []
    y, device = float(TOP), None
    for row in rows:
        y += HEAD * (row[1] != device)
        device = row[1]
        tops.append(y)
        y += ROW
    return tops, y


def _axis(
    drawing: Drawing, window: list[int], axis: TimeAxis, x_of: Callable[[float], float], bottom: float
) -> None:
    moments = ticks(max(0, window[0]), window[1], drawing.width - _edge(drawing.width), axis)
    for at, text in zip(moments, moments_told(moments), strict=True):
        drawing.path(f"M{x_of(at):.1f} {TOP - 8}V{bottom:.0f}", "grid")
        drawing.text(x_of(at) + 3, 12, text, "quiet", room=drawing.width - x_of(at))


def _rows(drawing: Drawing, rows: Sequence[Sequence[Any]], tops: list[float]) -> None:
    device, edge = None, _edge(drawing.width)
    for number, ((label, ordinal, name, engine, _), top) in enumerate(zip(rows, tops, strict=True)):
        if ordinal != device:
            device = ordinal
            drawing.text(8, top - HEAD / 2, name, "ink", 'font-weight="600"', edge - 16)
        if number % 2 == 0:
            drawing.rect(edge, top, drawing.width - edge - 8, ROW, "band", 'opacity=".6"')
        drawing.text(16, top + ROW / 2, label, "quiet" if engine else "ink", room=edge - 24)


def _shape(
    drawing: Drawing, shape: Told, tops: list[float], x_of: Callable[[float], float], texts: list[str], right: float
) -> MarkPlace:
    """Draw one shape; return where, for what can be marked."""
    x, end = max(float(_edge(drawing.width)), x_of(shape["start"])), min(right, x_of(shape["end"]))
    width, top, kind = max(end - x, 1.5), tops[shape["row"]] + 2, int(shape["kind"])
    name = texts[shape["name"]] or NAMES[kind]
    count = shape["count"]
    title = f"{name}, {format_ns(shape['end'] - shape['start'])}" if count == 1 else f"{count} records, mostly {name}"
    title += f", {format_bytes(shape['bytes'])}" if shape["bytes"] else ""
    more = 'stroke="var(--failed)" stroke-width="2" stroke-dasharray="3 2"' if shape["failed"] else ""
    height = ROW - 4 if count == 1 else max(5.0, (ROW - 4) * shape["busy"])
    drawing.kind(kind, x, top + ROW - 4 - height, width, height, title + (", failed" if shape["failed"] else ""), more)
    if width >= LETTERED and count == 1:
        drawing.rect(x + 1, top + 1, 11, ROW - 6, f"k{kind}")
        drawing.text(x + 6.5, top + ROW / 2 - 2, STYLES[kind].glyph, "on", MONOSPACED)
        if width >= NAMED:
            text = texts[shape["name"]]
            drawing.rect(x + 12, top + 1, min(width - 13, 7.0 * len(text)), ROW - 6, f"k{int(kind)}") if text else None
            drawing.text(x + 14, top + ROW / 2 - 2, text, "on", room=width - 18)
    return int(shape["seq"]), x, top + ROW - 4 - height, width, height
