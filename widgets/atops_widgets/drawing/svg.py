"""SVG by hand: elements, text that fits, hatches, outlines of what is selected, and a frame with the colours of themes.

Outlines are as in the page's script: solid for what is selected, dashed for what it waited for, dotted for what waits.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import chain, count, pairwise
from typing import Final, TypeAlias

from atops.trace.words import format_ns
from atops_widgets.drawing.theme import GAPS, HATCHES, NAMES, STYLES, THINNEST, Theme, style_sheet
from atops_widgets.feed.axis import TimeAxis
from atops_widgets.feed.feed import NOTHING, Marks
from atops_widgets.feed.host import HOST

__all__ = ("Drawing", "MarkPlace", "fit", "mark_gaps", "mark_races", "moments_told", "outline", "sentence", "ticks")

LETTER: Final = 6.6  # pixels that a letter of 12 px takes, about
NUMBERS: Final = count()


class Drawing:
    """One `<svg>` that grows by elements. Colours are names of the theme: "ink", "page", "k6"."""

    def __init__(self, width: int, label: str, theme: Theme | None = None) -> None:
        self.width = width
        self.label = label
        self.theme = theme
        self._id = f"atops{next(NUMBERS)}"  # of this drawing: several stand in one page
        self._parts: list[str] = []
        self._hatches: set[int] = set()

    def rect(self, x: float, y: float, width: float, height: float, fill: str, more: str = "", title: str = "") -> None:
        """Add a rectangle; `more` are further attributes, `title` is what hovering and screen readers say."""
        shape = f'<rect {_place(x, y, width, height)} fill="{self.fill(fill)}"'
        told = f"><title>{_escaped(title)}</title></rect>" if title else "/>"
        self._parts.append(f"{shape} {more}{told}")

    def kind(self, kind: int, x: float, y: float, width: float, height: float, title: str = "", more: str = "") -> None:
        """Add a rectangle in the colour and hatch of a kind; a thin one has gaps in place of the hatch."""
        self.rect(x, y, width, height, f"k{int(kind)}", more, title)
        if width < THINNEST:
            for part in GAPS[STYLES[kind].hatch]:
                self.rect(x, y + part * height - 1, width, 2, "page", 'pointer-events="none" data-gap=""')
            return
        if STYLES[kind].hatch != "none":
            self._hatches.add(kind)
            self._parts.append(
                f'<rect {_place(x, y, width, height)} fill="url(#{self._id}h{int(kind)})" pointer-events="none"/>'
            )

    def text(self, x: float, y: float, text: str, fill: str = "ink", more: str = "", room: float | None = None) -> None:
        """Add text whose middle is at y; cut where it does not fit into `room` pixels, left out where nothing does."""
        text = text if room is None else fit(text, room)
        if text:
            place = f'x="{x:.1f}" y="{y:.1f}" dominant-baseline="central" fill="{self.fill(fill)}"'
            self._parts.append(f"<text {place} {more}>{_escaped(text)}</text>")

    def lines(self, x: float, y: float, text: str) -> float:
        """Add text in as many lines as the width takes; return the y below them."""
        for line in textwrap.wrap(text, max(1, int((self.width - 2 * x) / LETTER))):
            self.text(x, y + 8, line)
            y += 18
        return y

    def path(self, d: str, stroke: str, more: str = "") -> None:
        """Add a line."""
        self._parts.append(f'<path d="{d}" stroke="{self.fill(stroke)}" fill="none" {more}/>')

    def badge(self, x: float, y: float, title: str) -> None:
        """Add the mark of a race: the letter R in a circle, with a title."""
        style = 'text-anchor="middle" font-family="monospace" font-weight="600" pointer-events="none"'
        self._parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{BADGE}" fill="{self.fill("failed")}" '
            f'stroke="{self.fill("page")}" stroke-width="2" data-race="mark"><title>{_escaped(title)}</title></circle>'
        )
        self.text(x, y, "R", "on", style)

    def fill(self, colour: str) -> str:
        """Return how a colour of the theme is written; "none" stays."""
        return colour if colour == "none" else f"var(--{colour})"

    def legend(self, kinds: Iterable[int], y: float) -> float:
        """Add a legend of kinds, in lines of the drawing's width; return the y below it."""
        from_left = 8.0
        for kind in kinds:
            name = NAMES[kind]
            need = 40 + len(name) * LETTER
            if from_left + need > self.width:
                from_left, y = 8.0, y + 20
            self.kind(kind, from_left, y, 22, 14)
            self.rect(from_left + 5, y, 12, 14, f"k{int(kind)}")
            self.text(from_left + 11, y + 7, STYLES[kind].glyph, "on", 'text-anchor="middle" font-family="monospace"')
            self.text(from_left + 28, y + 7, name)
            from_left += need
        return y + 22

    def finish(self, height: float, description: str = "") -> str:
        """Return the whole drawing as one element of its width and `height`."""
        theme = f' data-theme="{self.theme}"' if self.theme else ""
        hatches = "".join(
            f'<pattern id="{self._id}h{int(kind)}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<path d="{HATCHES[STYLES[kind].hatch]}" stroke="var(--on)" stroke-opacity=".3" stroke-width="1.4" '
            'fill="none"/></pattern>'
            for kind in sorted(self._hatches)
        )
        marker = (
            f'<marker id="{self._id}a" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" '
            'orient="auto"><path d="M0 0L6 3L0 6z" fill="context-stroke"/></marker>'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="atops-svg"{theme} role="img" '
            f'aria-label="{_escaped(self.label)}" viewBox="0 0 {self.width} {height:.0f}" width="{self.width}" '
            f'height="{height:.0f}" style="max-width:100%;height:auto;background:var(--page)" '
            f'font-family="system-ui, sans-serif" font-size="12">'
            f"<title>{_escaped(self.label)}</title><desc>{_escaped(description)}</desc>"
            f"<style>{style_sheet('.atops-svg')}</style><defs>{hatches}{marker}</defs>"
            f"{''.join(self._parts)}</svg>"
        )

    @property
    def arrow(self) -> str:
        """The attribute that gives a line its head."""
        return f'marker-end="url(#{self._id}a)"'


def _escaped(text: str) -> str:
    """Return text as XML may hold it: without control characters, halves of letters and turns of direction."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else " " if each.isspace() else "?" for each in text)
    return escape(text)


def fit(text: str, room: float) -> str:
    """Return text cut to about `room` pixels, with an ellipsis; empty where not two letters fit."""
    most = int(room / LETTER)
    if len(text) <= most:
        return text
    return f"{text[: most - 1]}…" if most > 2 else ""


LONG: Final = 9  # letters of a moment that stands in full anyway


def ticks(start: int, end: int, width: float, axis: TimeAxis | None = None) -> list[int]:
    """Return round moments for an axis, about one in every 90 pixels, and none in what it folds."""
    gaps = [gap for gap in axis.gaps if gap[1] > start and gap[0] < end] if axis is not None else []
    length = end - start if axis is None else float(axis.place(end) - axis.place(start))
    rough = max(1.0, length * 90 / max(width, 1))
    power = 10 ** (len(str(int(rough))) - 1)
    step = next(int(power * factor) for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    edges = [start, *chain.from_iterable(gaps), end]
    stretches = zip(edges[::2], edges[1::2], strict=True)
    return [at for begin, stop in stretches for at in range(-(-begin // step) * step, stop + 1, step)]


def moments_told(moments: list[int]) -> list[str]:
    """Return what an axis says at its moments: as many digits as tell them apart.

    A long text says only how far it is from the last one that is in full, where that is shorter.
    """
    step = min((later - at for at, later in pairwise(moments)), default=0)
    full, told = 0, []
    for at in moments:
        whole, far = format_ns(at, step) if at else "0", f"+{format_ns(at - full, step)}"
        text = far if len(whole) > LONG and len(far) < len(whole) else whole
        full = at if text == whole else full
        told.append(text)
    return told


def _place(x: float, y: float, width: float, height: float) -> str:
    return f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}"'


MarkPlace: TypeAlias = tuple[int, float, float, float, float]  # a seq, and where it is drawn: x, y, width, height

RACES_TOLD: Final = 3
BADGE: Final = 7  # pixels from the middle of a race's mark to its edge
NAMED: Final = 6  # neighbours that are named
LOOKS: Final = (("before", 2.5, "7 3"), ("after", 2.5, "2 2"), ("select", 3.5, ""))  # colour, width, dashes


def outline(drawing: Drawing, places: Iterable[MarkPlace], marks: Marks) -> None:
    """Draw the outlines of all that is drawn of the selected operation, of what it waited for and of what waits."""
    if marks.seq == NOTHING:
        return
    drawn = list(places)
    for (colour, wide, dash), seqs in zip(LOOKS, (marks.before, marks.after, (marks.seq,)), strict=True):
        for _, x, y, width, height in (place for place in drawn if place[0] in set(seqs)):
            for stroke, thick, dashes in (("page", 5.0, ""), (colour, wide, dash)):
                more = f'stroke="{drawing.fill(stroke)}" stroke-width="{thick}" stroke-dasharray="{dashes}"'
                drawing.rect(x - 1.5, y - 1.5, max(width, 2) + 3, height + 3, "none", f'{more} data-mark="{colour}"')


def mark_gaps(drawing: Drawing, axis: TimeAxis, x_of: Callable[[int], float], top: float, bottom: float) -> None:
    """Draw what is left of folded gaps: a dashed frame, and how long each is where that has room."""
    for start, end in axis.gaps:
        left, right = x_of(start), x_of(end)
        length = format_ns(end - start)
        frame = f'stroke="{drawing.fill("line")}" stroke-dasharray="4 3" data-idle=""'
        drawing.rect(left + 1.5, top, right - left - 3, bottom - top, "page", frame, f"{length} idle, folded")
        if right - left > 40:
            drawing.text(left + 5, top + 16, length, "quiet")


def mark_races(
    drawing: Drawing, races: Iterable[Sequence[int | str]], spots: Mapping[int, tuple[float, float]]
) -> None:
    """Draw the marks of races, (side, side, text), where `spots` has their sides, and dashed lines between these."""
    texts: dict[int, list[str]] = {}
    for one, other, text in ((int(race[0]), int(race[1]), str(race[2])) for race in races):
        for side in {one: None, other: None}:
            if side in spots:
                texts.setdefault(side, []).append(text)
        if one != other and one in spots and other in spots:
            (x, y), (to, end) = spots[one], spots[other]
            for colour, more in (("page", 'stroke-width="5"'), ("failed", 'stroke-width="2" stroke-dasharray="5 4"')):
                drawing.path(f"M{x:.1f} {y:.1f}L{to:.1f} {end:.1f}", colour, f'{more} data-race="line"')
    for side, told in texts.items():
        drawing.badge(*spots[side], "\n".join(told))


def sentence(marks: Marks) -> str:
    """Return what is selected, where it comes from, what it waited for and what waits; empty without a selection."""
    if marks.seq == NOTHING:
        return ""
    parts = [marks.text or f"number {marks.seq}"]
    parts += [f"enqueued at {marks.place}"] if marks.place else []
    before, after = ([seq for seq in seqs if max(seq, marks.seq) < HOST] for seqs in (marks.before, marks.after))
    parts += [f"waited for {_list(before)}"] if before else []
    parts += [f"awaited by {_list(after)}"] if after else []
    parts += marks.races[:RACES_TOLD]
    return "selected: " + "; ".join(parts)


def _list(seqs: Sequence[int]) -> str:
    more = f" and {len(seqs) - NAMED} more" if len(seqs) > NAMED else ""
    return ", ".join(map(str, seqs[:NAMED])) + more
