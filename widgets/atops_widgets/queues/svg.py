"""The queues as SVG: the same scene that the page draws, for where no script runs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Final, NamedTuple

from atops.base.trace.records import Kind, Status
from atops.trace.words import KIND_NAMES, format_bytes
from atops_widgets.drawing.scene import Scene, Told
from atops_widgets.drawing.svg import Drawing, mark_races, outline, sentence
from atops_widgets.drawing.theme import KINDS
from atops_widgets.feed.feed import Marks
from atops_widgets.queues.ledger import TokenState

__all__ = ("draw", "layout", "token_width")

PLAIN: Final = 22.0  # pixels of a token that shows a letter only
LETTER: Final = 6.6  # that a letter takes, about
WIDE: Final = 7.4  # the same, where nothing may be cut
GAP: Final = 3.0
LONGEST: Final = 16  # letters of a name

Spot = tuple[str, float, float, int]  # "token" or "gap", x, width, index of the token or number left out


def token_width(label: str) -> float:
    """Return how wide a token with this label is."""
    return PLAIN + (min(len(label), LONGEST) * WIDE + 4 if label else 0.0)


def layout(tokens: Sequence[tuple[int, float, bool]], total: int, room: float) -> list[Spot]:
    """Place tokens, (position in the queue, width, whether it must be seen), into `room` pixels.

    As many of the front as fit are placed, and those that must be seen; between them stands how many are left out.
    """
    shown, tight = [True] * len(tokens), False
    whole = sum(width + GAP for _, width, _ in tokens)
    if len(tokens) < total or whole > room:
        gap = _gap_width(total) + GAP
        left = room - gap - sum(width + GAP + gap for _, width, kept in tokens if kept)
        tight = left < 0  # not even these have room: none gets a label
        for index, (_, width, kept) in enumerate(tokens):
            left -= 0 if kept else width + GAP
            shown[index] = kept or left >= 0
    spots: list[Spot] = []
    x, following = 0.0, 0
    for index, (position, width, _) in enumerate(tokens):
        if not shown[index]:
            continue
        if position > following:
            spots.append(("gap", x, _gap_width(position - following), position - following))
            x += spots[-1][2] + GAP
        spots.append(("token", x, PLAIN if tight else width, index))
        x, following = x + spots[-1][2] + GAP, position + 1
    if following < total:
        spots.append(("gap", x, _gap_width(total - following), total - following))
    return spots


def _gap_width(count: int) -> float:
    """Return how wide the words "+ 9,940 more" are."""
    return len(f"+ {count:,} more") * LETTER + 8


LEAST, MOST = 80, 240  # pixels of the names left of the queues
OVER: Final = 62
SMALL: Final = 17
TOKEN: Final = 22
LINE: Final = 17
RIGHT: Final = 8
START: Final = OVER + 12  # of a queue, from the end of the names
WORDS: Final = START + 32
NARROWEST: Final = 12  # letters in a line of words, in a drawing that is too narrow for any
ROOM: Final = 96  # of the column that shows capacities
LABELLED: Final = 5  # places in a queue whose tokens are wide enough for a name


class _Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    cause: int
    waits: bool


def draw(
    drawing: Drawing, scene: Scene, texts: list[str], marks: Marks, races: Sequence[Sequence[int | str]] = ()
) -> str:
    """Return the drawing of a scene of the queues, with what is marked, and races."""
    told, width = scene.told, drawing.width
    names = ("row", "position", "seq", "kind", "state", "status", "name", "bytes", "cause", "kept")
    tokens = list(scene.rows(*names))
    drawing.text(8, 12, str(told["say"]), "ink", 'font-weight="600"', width - 16.0)
    boxes: dict[int, _Box] = {}
    y = 26.0
    margin = _margin(told["rows"], width)
    words = margin + WORDS
    right = RIGHT + (ROOM if any(row["capacity"] for row in told["rows"]) else 0)
    for number, row in enumerate(told["rows"]):
        reason = textwrap.wrap(row["reason"], max(NARROWEST, int((width - words - RIGHT) / LETTER)))
        failure = textwrap.wrap(row["failure"], max(NARROWEST, int((width - words - RIGHT - 14) / LETTER)))
        lines = len(reason) + len(failure)
        height = TOKEN + (18 + LINE * lines if lines else 28)
        if number % 2 == 0:
            drawing.rect(0, y, width, height - 2, "band")
        _head(drawing, row, y, margin)
        own = [token for token in tokens if token["row"] == number]
        _queue(drawing, row, own, texts, margin, y + 8, width - margin - START - right, boxes)
        _words(drawing, reason, failure, words, y + 8 + TOKEN + 14)
        y += height
    _arrows(drawing, boxes)
    linked = told["linked"]  # what the records do not tell yet
    both = replace(marks, before=(*marks.before, *linked["before"]), after=(*marks.after, *linked["after"]))
    outline(drawing, ((seq, *box[:4]) for seq, box in boxes.items()), both)
    mark_races(drawing, races, {seq: (box.x + box.width / 2, box.y + 1) for seq, box in boxes.items()})
    if told["streams"] > len(told["rows"]):
        drawing.text(8, y + 8, f"and {told['streams'] - len(told['rows']):,} more streams", "quiet")
        y += LINE
    below = drawing.legend([Kind(kind) for kind in told["kinds"]], y + 8)
    key = "filled: runs; dashed: waits, with an arrow to what for; outlined: queued; left of the line: over lately"
    drawing.text(8, below + 8, key, "quiet", room=width - 16.0)
    below = drawing.lines(8, below + 18, sentence(marks))
    return drawing.finish(below + 4, sentence(marks) or str(told["say"]))


def _margin(rows: Sequence[Told], width: float) -> float:
    """Return the width of the names left of the queues, as the script does: what the longest needs, within bounds."""
    longest = max((max(len(row["label"]) * WIDE, len(_counts(row)) * LETTER) for row in rows), default=0)
    return max(LEAST, min(ceil((longest + 18) / 16) * 16, MOST, max(width * 0.3, 136)))


def _counts(row: Told) -> str:
    return f"{row['open']:,} queued, {row['over']:,} over"


def _head(drawing: Drawing, row: Told, y: float, margin: float) -> None:
    drawing.text(8, y + 19, row["label"], "ink", 'font-weight="600"', margin - 16)
    drawing.text(8, y + 19 + LINE, _counts(row), "quiet", room=margin - 12)
    drawing.rect(margin + OVER + 4, y + 5, 2, TOKEN + 6, "line")
    if row["capacity"]:
        full = row["open"] >= row["capacity"]
        x, colour, room = drawing.width - ROOM, "failed" if full else "line", ROOM - RIGHT - 4
        drawing.rect(x, y + 8, room, 7, "page", f'stroke="var(--{colour})"')
        drawing.rect(x, y + 8, room * min(1.0, row["open"] / row["capacity"]), 7, colour)
        text = f"{row['open']} of {row['capacity']}" + (", full" if full else "")
        drawing.text(x, y + 23, text, "failed" if full else "quiet")


def _queue(
    drawing: Drawing, row: Told, own: Sequence[Told], texts: list[str], margin: float, y: float, room: float,
    boxes: dict[int, _Box],
) -> None:  # fmt: skip
    start = margin + START
    for token in own:
        if token["position"] < 0:
            _token(drawing, token, "", margin + OVER + token["position"] * (SMALL + 3), y + 2, SMALL, boxes)
    queue = [token for token in own if token["position"] >= 0]
    labels = [_label(token, texts) for token in queue]
    spots = layout(
        [(token["position"], token_width(label), bool(token["kept"]))
         for token, label in zip(queue, labels, strict=True)],
        row["open"], room,
    )  # fmt: skip
    for what, x, width, which in spots:
        if what == "gap":
            drawing.text(start + x + 4, y + TOKEN / 2, f"+ {which:,} more", "quiet")
        else:
            _token(drawing, queue[which], labels[which], start + x, y, width, boxes)
    if not row["open"]:
        drawing.text(margin + WORDS, y + TOKEN / 2, "idle", "quiet")


def _label(token: Told, texts: list[str]) -> str:
    if token["position"] > LABELLED and token["state"] == TokenState.PENDING and not token["kept"]:
        return ""
    size = format_bytes(token["bytes"]) if token["bytes"] and token["kind"] != Kind.WAIT_VALUE else ""
    return texts[token["name"]] or size


def _token(
    drawing: Drawing, token: Told, label: str, x: float, y: float, width: float, boxes: dict[int, _Box]
) -> None:
    kind, state, status = Kind(token["kind"]), TokenState(token["state"]), Status(token["status"])
    over, broken = state is TokenState.OVER, status is not Status.DONE
    height = SMALL if over else TOKEN
    doing = status.name.lower() if over else {0: "queued", 1: "runs", 2: "waits"}[state]
    title = f"{KIND_NAMES[kind]} {label} ({doing}, number {token['seq']})"
    full = state is TokenState.RUNNING or (over and not broken)
    if full:
        drawing.kind(kind, x, y, width, height, title)
        drawing.rect(x + 2, y + 2, width - (4 if over else 6), height - 4, f"k{int(kind)}")
    else:
        line = "failed" if broken else f"k{int(kind)}"
        dash = ' stroke-dasharray="5 3" stroke-width="2"' if state is TokenState.WAITING else ' stroke-width="1.5"'
        drawing.rect(x + 1, y + 1, width - 2, height - 2, "page", f'stroke="var(--{line})"{dash}', title)
        if state is TokenState.PENDING:
            drawing.rect(x + 1, y + 1, 4, height - 2, f"k{int(kind)}")
    ink = "on" if full else "failed" if broken else "ink"
    more = 'text-anchor="middle" font-family="monospace" font-weight="600"'
    middle = x + (SMALL / 2 if over else PLAIN / 2 + 1)
    drawing.text(middle, y + height / 2, "!" if broken else KINDS[kind].glyph, ink, more)
    if label and width > PLAIN:
        drawing.text(x + 20, y + height / 2, label[:LONGEST], ink)
    boxes[token["seq"]] = _Box(x, y, width, height, token["cause"], state is TokenState.WAITING)


def _words(drawing: Drawing, reason: list[str], failure: list[str], x: float, y: float) -> None:
    for line in reason:
        drawing.text(x, y, line, "ink")
        y += LINE
    for number, line in enumerate(failure):
        drawing.text(x, y, "" if number else "!", "failed", 'font-weight="700" font-family="monospace"')
        drawing.text(x + 14, y, line, "failed")
        y += LINE


def _arrows(drawing: Drawing, boxes: dict[int, _Box]) -> None:
    """Draw from each waiting token to what it waits for, as the script does."""
    lane = 0
    for box in boxes.values():
        to = boxes.get(box.cause) if box.waits and box.cause >= 0 else None
        if to is None or to is box:
            continue
        x, target = box.x + 5 + lane % 3 * 6, to.x + min(to.width / 2, 11)
        lane += 1
        up, same = to.y <= box.y, abs(to.y - box.y) < TOKEN
        start = box.y if up else box.y + box.height
        end = to.y + to.height if up and not same else to.y
        bend = box.y - 5 if same else end + 7 if up else end - 7
        line = f"M{x:.1f} {start:.1f}V{bend:.1f}H{target:.1f}V{end:.1f}"
        drawing.path(line, "ink", f'stroke-width="1.3" {drawing.arrow}')
