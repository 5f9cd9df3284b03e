"""The queues as text: a line for each stream, head first, and below it in words why it waits and how it failed."""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import Final

from atops.base.trace.records import Kind, Status
from atops.trace.summary import KIND_NAMES
from atops.trace.text import GLYPHS
from atops_widgets.drawing.scene import Scene, Told
from atops_widgets.queues.state import TokenState

__all__ = ("tell",)

NARROWEST: Final = 40
MARKS: Final = {TokenState.RUNNING: "[]", TokenState.WAITING: "()"}  # around the glyph of what runs, or waits


def tell(scene: Scene, texts: list[str], width: int) -> str:
    """Return a scene of the queues as text of at most `width` columns, at least 40."""
    width = max(NARROWEST, width)
    told = scene.told
    lines = textwrap.wrap(_printable(told["say"]), width)
    margin = min(max((len(row["label"]) for row in told["rows"]), default=0), width // 4)
    fields = ("row", "position", "kind", "state", "status")
    values = zip(*(scene.columns[field].tolist() for field in fields), strict=True)
    tokens = {row: list(own) for row, own in groupby(values, key=lambda value: value[0])}
    for number, row in enumerate(told["rows"]):
        label = _printable(row["label"])
        label = label if len(label) <= margin else f"{label[: margin - 1]}~"
        lines.append(f"{label:<{margin}} {_line(row, tokens.get(number, []), width - margin - 1)}")
        for text in (row["reason"], row["failure"] and f"! {row['failure']}"):
            text = _printable(text)
            lines += textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="    ") if text else []
    if told["streams"] > len(told["rows"]):
        lines.append(f"and {told['streams'] - len(told['rows']):,} more streams")
    legend = [f"{GLYPHS[Kind(kind)]} {KIND_NAMES[Kind(kind)]}" for kind in told["kinds"]]
    if legend:
        legend += ["[ ] runs", "( ) waits", "| head of the queue", "! failed, skipped or aborted"]
        lines += textwrap.wrap("legend: " + "; ".join(legend), width, break_on_hyphens=False)
    return "\n".join(lines)


def _line(row: Told, tokens: list[tuple[int, int, int, int, int]], room: int) -> str:
    """Return what is over, a bar, and the queue as glyphs; what does not fit is counted."""
    over = "".join(_glyph(token) for token in tokens if token[1] < 0)
    capacity = f", room for {max(0, row['capacity'] - row['open']):,} more" if row["capacity"] else ""
    figures = f" {row['open']:,} queued{capacity}, {row['over']:,} over"
    queue, following = "", 0
    for token in tokens:
        if token[1] < 0:
            continue
        more = f" + {row['open'] - token[1]:,} more"
        if token[1] > following or len(over) + len(queue) + 8 + len(more) + len(figures) > room:
            break
        queue += _glyph(token)
        following = token[1] + 1
    left = f" + {row['open'] - following:,} more" if row["open"] > following else ""
    return f"{over:>3}|{queue}{left}{figures}"


def _printable(text: str) -> str:
    """Return text that cannot move the cursor or break a line, whatever a kernel or stream is called."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _glyph(token: tuple[int, int, int, int, int]) -> str:
    _, _, kind, state, status = token
    glyph = GLYPHS[Kind(kind)] if status == Status.DONE else "!"
    marks = MARKS.get(TokenState(state), "")
    return marks[:1] + glyph + marks[1:]
