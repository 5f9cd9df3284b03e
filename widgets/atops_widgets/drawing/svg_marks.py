"""What an SVG shows of the selection: outlines about what is drawn of it and of its neighbours, and the same in words.

Looks are those of the page's script: solid for what is selected, dashed for what it waited for, dotted for what waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from atops_widgets.drawing.svg import Drawing
from atops_widgets.feed.selection import NOTHING, Marks

__all__ = ("MarkPlace", "outline", "sentence")

MarkPlace: TypeAlias = tuple[int, float, float, float, float]  # a seq, and where it is drawn: x, y, width, height

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


def sentence(marks: Marks) -> str:
    """Return what is selected, where it comes from, what it waited for and what waits; empty without a selection."""
    if marks.seq == NOTHING:
        return ""
    parts = [marks.text or f"number {marks.seq}"]
    parts += [f"enqueued at {marks.place}"] if marks.place else []
    parts += [f"waited for {_list(marks.before)}"] if marks.before else []
    parts += [f"awaited by {_list(marks.after)}"] if marks.after else []
    return "selected: " + "; ".join(parts)


def _list(seqs: Sequence[int]) -> str:
    more = f" and {len(seqs) - NAMED} more" if len(seqs) > NAMED else ""
    return ", ".join(map(str, seqs[:NAMED])) + more
