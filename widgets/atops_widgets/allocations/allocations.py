"""Allocations as bands: each from its birth to its end, at its addresses, by the line that asked for it."""

from __future__ import annotations

import linecache
import os
import string
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import ClassVar, Final

from atops.base.trace.records import Place
from atops.device.call_site import file_shown
from atops.trace.words import format_bytes, format_ns
from atops_widgets.allocations.lives import Life, Line, lines_of, lives_of, stacked
from atops_widgets.drawing.svg import Drawing, moments_told, ticks
from atops_widgets.drawing.theme import LAYOUT, Theme, style_sheet
from atops_widgets.feed.columns import plural
from atops_widgets.feed.feed import TraceSource, trace_of

__all__ = ("Allocations",)

COLOURS: Final = ("k6", "k0", "k1", "k5", "k10", "k2", "k4", "k13")  # of lines, and of those behind them the last
REST: Final = "k8"
MARGIN: Final = 10
HEIGHT: Final = 200  # of a device's bands
MOST: Final = 3_000  # bands; the largest
LINES: Final = 20  # told
CELL: Final = 'style="text-align:left;vertical-align:top;padding:1px 14px 1px 0"'
STYLE: Final = f"""<style>{style_sheet(":is(.atops,.atops-svg)")}{LAYOUT}
.atops-allocations table{{border-collapse:collapse;font-size:12px}}</style>"""
LETTER: Final = 'style="text-align:left;vertical-align:top;padding:1px 14px 1px 0;white-space:nowrap"'
SWATCH: Final = "display:inline-block;width:10px;height:10px;margin-right:6px"
NOTHING: Final = "This trace tells of no allocations: record it inside `with tracer.detailed():`."


class Allocations:
    """Show who held memory, how much, and how long.

        with driver.tracer.detailed():
            ...                                          # what is to be seen
        atops_widgets.Allocations(driver)                # or a trace, or the path of a trace file

    A band is one allocation: time from left to right, its addresses from top to bottom, without those that were never
    in use. Bands of one line of the program have one colour and letter; the table has what each line held. It is plain
    HTML, without a script.
    """

    label: ClassVar[str] = "Allocations"

    def __init__(self, source: TraceSource) -> None:
        """Take a trace. Raises InvalidValue for what is none, or a file without a trace."""
        trace = self._trace = trace_of(source)
        self.lives: Sequence[Life] = lives_of(trace)
        moments = [each.at_ns for each in trace.changes] + [each.finished_ns for each in trace.records]
        self._span = (min(moments, default=0), max(moments, default=0))
        self.lines: Sequence[Line] = lines_of(self.lives, self._span[1])

    def to_text(self) -> str:
        """Return what each line of the program held, as text."""
        if not self.lives:
            return NOTHING
        texts = [self._sentence()]
        for device, letter, line in self._lettered()[:LINES]:
            texts.append(f"  {letter}  device {device}, {_where(line.place)}: {_held(line)}")
            texts += [f"     {text}" for text in (_text(line.place), _called(line)) if text]
        if len(self.lines) > LINES:
            texts.append(f"  and {len(self.lines) - LINES} more lines")
        return "\n".join(texts)

    def to_svg(self, *, width: int = 960, theme: Theme | None = None) -> str:
        """Return the bands as one `<svg>` element."""
        drawing, y = Drawing(width, self.label, theme), 8.0
        for device in sorted({life.device for life in self.lives}):
            y = self._device(drawing, device, y)
        says = self._sentence() if self.lives else NOTHING
        return drawing.finish(drawing.lines(MARGIN, y, says) + 4, says)

    def to_html(self, path: str | os.PathLike[str] | None = None, theme: Theme | None = None) -> str:
        """Return it as HTML that needs nothing else; write it to `path`. Without a theme it follows the page."""
        themed = f' data-theme="{theme}"' if theme else ""
        heads = "".join(f"<th {CELL}>{each}</th>" for each in ("", "where", "held", "line"))
        rows = "".join(
            f'<tr><th {LETTER}><span aria-hidden="true" style="{SWATCH};background:var(--{_colour(letter)})"></span>'
            f"{letter}</th><td {CELL}>{escape(_where(line.place))}, device {device}"
            f'<div style="color:var(--quiet)">{escape(_called(line))}</div></td>'
            f"<td {CELL}>{escape(_held(line))}</td><td {CELL}><code>{escape(_text(line.place))}</code></td></tr>"
            for device, letter, line in self._lettered()[:LINES]
        )
        more = f"<p>And {len(self.lines) - LINES} more lines.</p>" if len(self.lines) > LINES else ""
        table = f"<table><tr>{heads}</tr>{rows}</table>{more}" if rows else ""
        text = (
            f'{STYLE}<section class="atops atops-allocations" aria-label="{self.label}"{themed}>'
            f"{self.to_svg(theme=theme)}{table}</section>"
        )
        if path is not None:
            Path(path).write_text(f"<!doctype html><meta charset=utf-8><title>{self.label}</title>{text}", "utf-8")
        return text

    def _device(self, drawing: Drawing, device: int, y: float) -> float:
        """Draw the bands of a device; return the y below them."""
        own = [life for life in self.lives if life.device == device]
        places, total = stacked(own)
        looks = {line.place: (letter, _colour(letter)) for at, letter, line in self._lettered() if at == device}
        (start, end), width = self._span, drawing.width - 2 * MARGIN
        drawing.text(MARGIN, y + 8, f"device {device}: {format_bytes(total)} of addresses were in use", "ink",
                     'font-weight="600"')  # fmt: skip
        top, scale = y + 36, width / max(1, end - start)
        moments = ticks(0, end - start, width)
        for at, text in zip(moments, moments_told(moments), strict=True):
            x = MARGIN + at * scale
            drawing.path(f"M{x:.1f} {top - 6}V{top + HEIGHT}", "grid")
            drawing.text(x + 3, y + 25, text, "quiet", room=drawing.width - x)
        for life in sorted(own, key=lambda life: -life.size)[:MOST]:
            last = end if life.died_ns is None else life.died_ns
            x, tall = MARGIN + (life.born_ns - start) * scale, max(1.0, life.size / total * HEIGHT)
            letter, colour = looks[life.place]
            wide, high = max(1.5, (last - life.born_ns) * scale), top + places[life.offset] / total * HEIGHT
            drawing.rect(x, high, wide, tall, colour, 'stroke="var(--page)" stroke-width=".6"', self._told(life))
            if tall >= 14 and wide >= 16:
                drawing.text(x + 4, high + tall / 2, letter, "on", 'pointer-events="none" font-family="monospace"')
        y = top + HEIGHT + 6
        if len(own) > MOST:
            drawing.text(MARGIN, y + 8, f"and {len(own) - MOST:,} smaller ones", "quiet")
            y += 18
        return y + 10

    def _lettered(self) -> list[tuple[int, str, Line]]:
        """Return the lines with their devices and letters, which are those of each device from A on."""
        found, number, device = [], 0, -1
        for line in self.lines:
            number = number + 1 if line.device == device else 0
            device = line.device
            letter = string.ascii_uppercase[number] if number < len(string.ascii_uppercase) else "+"
            found.append((device, letter, line))
        return found

    def _told(self, life: Life) -> str:
        """Return what hovering says of a band."""
        if life.died_ns is None:
            lived = "lives at the end"
        else:
            lived = f"for {format_ns(life.died_ns - life.born_ns)}"
            lived += f", freed at {_where(life.freed)}" if life.freed is not None else ""
        what = f"{format_bytes(life.size)} at offset {life.offset:#x}"
        called = "".join(f", from {_where(each)}" for each in life.callers)
        when = format_ns(life.born_ns - self._span[0])
        return f"{what}, allocated at {_where(life.place)}{called} at {when}, {lived}"

    def _sentence(self) -> str:
        still = sum(life.died_ns is None for life in self.lives)
        left = f"; {still:,} of them live at its end" if still else ""
        return f"{plural(len(self.lives), 'allocation')} by {plural(len(self.lines), 'line')} of the program{left}"

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        return f"<Allocations: {self._sentence()}>"


def _colour(letter: str) -> str:
    number = string.ascii_uppercase.find(letter)
    return COLOURS[number] if 0 <= number < len(COLOURS) else REST


def _held(line: Line) -> str:
    still = f", {line.still:,} of them to the end" if line.still else ""
    return f"{plural(line.count, 'allocation')}, at most {format_bytes(line.most)} at once{still}"


def _where(place: Place | None) -> str:
    return "no known line" if place is None else f"{file_shown(place.file)}:{place.line} in {place.function}"


def _called(line: Line) -> str:
    """Return from where the line was called, by the stack that asked most often; empty where nothing called it."""
    called = ", ".join(f"from {_where(each)}" for each in line.callers)
    return called + (f"; {plural(line.stacks - 1, 'other stack')}" if line.stacks > 1 else "")


def _text(place: Place | None) -> str:
    return "" if place is None else linecache.getline(place.file, place.line).strip()[:80]
