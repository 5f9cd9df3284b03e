"""The queues: what every stream holds now, or at the moment of the time cursor, and why its head waits."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import ClassVar, Final

from atops.base.trace.records import Kind, Status
from atops.trace.text import GLYPHS
from atops.trace.words import KIND_NAMES, printable, shortened
from atops_widgets.drawing.base import TraceWidget
from atops_widgets.drawing.scene import Scene, Told, Window
from atops_widgets.drawing.svg import Drawing
from atops_widgets.drawing.theme import Theme
from atops_widgets.queues.ledger import TokenState
from atops_widgets.queues.scene import MOST_FRAMES, Board
from atops_widgets.queues.svg import draw

__all__ = ("Queues",)

NARROWEST: Final = 40
MARKS: Final = {TokenState.RUNNING: "[]", TokenState.WAITING: "()"}  # around the glyph of what runs, or waits
IN_TEXT: Final = 40  # streams that the text tells


class Queues(TraceWidget):
    """Draw the queue of every stream from head to tail, and tell what each head waits for and how streams failed."""

    script: ClassVar[str] = "queues/queues.js"
    label: ClassVar[str] = "Queues"
    timed: ClassVar[bool] = True
    details: ClassVar[bool] = True

    def prepare(self) -> None:
        """Make the board that keeps the lives of commands from one scene to the next."""
        self._board = Board(self.feed)

    def scene(self, window: Window) -> Scene:
        """Return what the streams held: see `Board.scene`."""
        return self._board.scene(window)

    def saved_window(self) -> Window:
        """Return what a saved picture shows: as many moments as one can go back to there."""
        return Window(options={"frames": MOST_FRAMES})

    def to_svg(self, *, width: int = 960, theme: Theme | None = None) -> str:
        """Return the queues as one `<svg>` element."""
        with self.feed.lock:
            feed, drawing = self.feed, Drawing(width, self.label, theme)
            return draw(drawing, self.scene(Window()), feed.texts.all, feed.marks(), feed.told_races())

    def to_text(self, width: int = 100) -> str:
        """Return a line for each stream with a glyph for each command, and below it why it waits and how it failed."""
        with self.feed.lock:
            return _tell(self._board.scene(Window(), IN_TEXT), width)


def _tell(scene: Scene, width: int) -> str:
    """Return a scene of the queues as text of at most `width` columns, at least 40."""
    width = max(NARROWEST, width)
    told = scene.told
    lines = textwrap.wrap(printable(told["say"]), width)
    margin = min(max((len(row["label"]) for row in told["rows"]), default=0), width // 4)
    tokens = groupby(scene.rows("row", "position", "kind", "state", "status"), key=itemgetter("row"))
    queues = {row: list(own) for row, own in tokens}
    for number, row in enumerate(told["rows"]):
        label = shortened(row["label"], margin)
        lines.append(f"{label:<{margin}} {_line(row, queues.get(number, []), width - margin - 1)}")
        for text in (row["reason"], row["failure"] and f"! {row['failure']}"):
            text = printable(text)
            lines += textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="    ") if text else []
    if told["streams"] > len(told["rows"]):
        lines.append(f"and {told['streams'] - len(told['rows']):,} more streams")
    legend = [f"{GLYPHS[Kind(kind)]} {KIND_NAMES[Kind(kind)]}" for kind in told["kinds"]]
    if legend:
        legend += ["[ ] runs", "( ) waits", "| head of the queue", "! failed, skipped or aborted"]
        lines += textwrap.wrap("legend: " + "; ".join(legend), width, break_on_hyphens=False)
    return "\n".join(lines)


def _line(row: Told, tokens: Sequence[Told], room: int) -> str:
    """Return what is over, a bar, and the queue as glyphs; what does not fit is counted."""
    over = "".join(_glyph(token) for token in tokens if token["position"] < 0)
    capacity = f", room for {max(0, row['capacity'] - row['open']):,} more" if row["capacity"] else ""
    figures = f" {row['open']:,} queued{capacity}, {row['over']:,} over"
    queue, following = "", 0
    for token in tokens:
        if token["position"] < 0:
            continue
        more = f" + {row['open'] - token['position']:,} more"
        if token["position"] > following or len(over) + len(queue) + 8 + len(more) + len(figures) > room:
            break
        queue += _glyph(token)
        following = token["position"] + 1
    left = f" + {row['open'] - following:,} more" if row["open"] > following else ""
    return f"{over:>3}|{queue}{left}{figures}"


def _glyph(token: Told) -> str:
    glyph = GLYPHS[Kind(token["kind"])] if token["status"] == Status.DONE else "!"
    marks = MARKS.get(TokenState(token["state"]), "")
    return marks[:1] + glyph + marks[1:]
