"""The cluster grid as SVG: the same scene that the page draws, for where no script runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from atops.base.trace.records import Kind, ThreadState
from atops.trace.words import format_bytes
from atops_widgets.cluster_grid.history import NOT_BEGUN
from atops_widgets.drawing.scene import Scene, Told
from atops_widgets.drawing.svg import LETTER, Drawing, mark_races, sentence
from atops_widgets.feed.feed import Marks

__all__ = ("Box", "draw", "layout")

CELL: Final = 24
GAP: Final = 3
PAD: Final = 6
HEAD: Final = 18
LABEL: Final = 74
ROW: Final = 17  # of source
PILL: Final = 40
WIDE: Final = 820  # pixels from which the source stands beside the blocks
IN_A_ROW: Final = 12
MONOSPACED: Final = 'font-family="ui-monospace, monospace" xml:space="preserve"'


@dataclass(frozen=True, slots=True)
class Box:
    """The place of a block: its first thread among the cells, their number, their number in a row, and its frame."""

    block: int
    cluster: int
    first: int
    threads: int
    columns: int
    x: float
    y: float
    width: float
    height: float
    starts: bool  # it is the first one of its cluster


def layout(blocks: Sequence[Sequence[int]], width: float, top: float) -> list[Box]:
    """Return where blocks stand: a row, or several, for each cluster. The script does the same."""
    boxes: list[Box] = []
    x, y, high, first = float(LABEL), top, 0.0, 0
    for block, cluster, _, threads in blocks:
        columns = max(1, min(threads, IN_A_ROW, int((width - LABEL - 2 * PAD) // (CELL + GAP))))
        wide = max(104, columns * (CELL + GAP) - GAP + 2 * PAD)
        tall = HEAD + -(-threads // columns) * (CELL + GAP) - GAP + PAD
        starts = not boxes or boxes[-1].cluster != cluster
        if starts or x + wide > width:
            y += (high + (10 if starts else 6)) if boxes else 0
            x, high = float(LABEL), 0.0
        boxes.append(Box(block, cluster, first, threads, columns, x, y, wide, tall, starts))
        x, high, first = x + wide + 6, max(high, tall), first + threads
    return boxes


def draw(drawing: Drawing, scene: Scene, marks: Marks, races: Sequence[Sequence[int | str]] = ()) -> str:
    """Return the drawing of a scene, with what is marked in words, and the races of threads."""
    told, width = scene.told, drawing.width
    if not told["blocks"]:
        drawing.text(8, 16, str(told["say"]), "quiet", room=width - 16.0)
        return drawing.finish(drawing.lines(8, 32, sentence(marks)), str(told["say"]))
    drawing.text(8, 14, f"{told['title']}, step {told['step']:,} of {told['steps']:,}", more='font-weight="600"')
    top = _states(drawing, told, 28)
    beside = width >= WIDE and bool(told["sections"])
    left = width * 0.5 - 8 if beside else width - 8.0
    boxes = layout(told["blocks"], left, top)
    below = _blocks(drawing, scene, boxes)
    _races(drawing, scene, boxes, races)
    if beside:
        edge = max(box.x + box.width for box in boxes)
        below = max(below, _source(drawing, told, edge + 20, width - edge - 28, top))
    else:
        below = _source(drawing, told, 8, width - 16.0, below + 12)
    below = drawing.lines(8, _waits(drawing, told, below + 8), sentence(marks))
    return drawing.finish(below + 4, str(told["say"]))


def _look(
    drawing: Drawing, look: tuple[str, str, int], turn: int, x: float, y: float, size: tuple[float, float]
) -> None:
    (letter, words, kind), (width, height) = look, size
    quiet = kind < 0 and turn != ThreadState.FAILED
    if kind >= 0:
        drawing.kind(Kind(kind), x, y, width, height, title=words)
        drawing.rect(x + width / 2 - 7, y + 2, 14, height - 4, f"k{kind}")
    elif quiet:
        dash = ' stroke-dasharray="2 2"' if turn == NOT_BEGUN else ""
        fill = "page" if turn == NOT_BEGUN else "band"
        drawing.rect(x + 0.5, y + 0.5, width - 1, height - 1, fill, f'stroke="var(--line)"{dash}', title=words)
    else:
        drawing.rect(x, y, width, height, "failed", title=words)
    style = 'text-anchor="middle" font-family="ui-monospace, monospace" font-weight="600" pointer-events="none"'
    drawing.text(x + width / 2, y + height / 2, letter, "quiet" if quiet else "on", style)


def _states(drawing: Drawing, told: Told, top: float) -> float:
    x = 8.0
    for turn, _, words, count in told["states"]:
        text = f"{count:,} {words}"
        wide = 40 + len(text) * LETTER
        if x + wide > drawing.width and x > 8:
            x, top = 8.0, top + 22
        _look(drawing, told["looks"][turn], turn, x, top, (20, 16))
        drawing.text(x + 26, top + 8, text, room=drawing.width - x - 30)
        x += wide
    return top + 28


def _blocks(drawing: Drawing, scene: Scene, boxes: Sequence[Box]) -> float:
    told, turns = scene.told, scene.columns["turn"].astype(int).tolist()
    threads = scene.columns["thread"].astype(int).tolist()
    for box, (_, _, l2_bytes, _) in zip(boxes, told["blocks"], strict=True):
        if box.starts:
            name = f"cluster {box.cluster}" if box.cluster >= 0 else "blocks"
            drawing.text(8, box.y + 10, name, "quiet", room=LABEL - 10.0)
        drawing.rect(box.x, box.y, box.width, box.height, "band")
        more = f" · L2 {format_bytes(l2_bytes)}" if l2_bytes else ""
        drawing.text(box.x + PAD, box.y + 10, f"block {box.block}{more}", room=box.width - PAD)
        for place in range(box.threads):
            x = box.x + PAD + place % box.columns * (CELL + GAP)
            y = box.y + HEAD + place // box.columns * (CELL + GAP)
            turn = turns[box.first + place]
            _look(drawing, told["looks"][turn], turn, x, y, (CELL, CELL))
            if [box.block, threads[box.first + place]] == told["moved"]:
                drawing.rect(x, y + CELL, CELL, 3, "cursor")
    bottom = boxes[-1].y + boxes[-1].height
    if told["all_blocks"] == len(boxes):
        return bottom
    last = told["first"] + len(boxes)
    drawing.text(LABEL, bottom + 12, f"blocks {told['first'] + 1:,} to {last:,} of {told['all_blocks']:,}", "quiet")
    return bottom + 24


def _races(drawing: Drawing, scene: Scene, boxes: Sequence[Box], races: Sequence[Sequence[int | str]]) -> None:
    """Mark the threads of the launch on show that raced."""
    threads, launch = scene.columns["thread"].astype(int).tolist(), scene.told["launch"]
    cells: dict[tuple[int, int], int] = {}
    spots: dict[int, tuple[float, float]] = {}
    for box in boxes:
        for place in range(box.threads):
            x, y = place % box.columns, place // box.columns
            spots[len(spots)] = box.x + PAD + x * (CELL + GAP) + CELL - 3, box.y + HEAD + y * (CELL + GAP) + 3
            cells[box.block, threads[box.first + place]] = len(spots) - 1
    found: list[tuple[int | str, ...]] = []
    for one, other, text, *where in races:
        first, second, third, fourth = map(int, where)
        if one == other == launch and first >= 0:
            found.append((cells.get((first, second), -1), cells.get((third, fourth), -1), text))
    mark_races(drawing, found, spots)


def _source(drawing: Drawing, told: Told, left: float, room: float, y: float) -> float:
    for number, (title, rows) in enumerate(told["sections"]):
        drawing.text(left, y + 8, title, more='font-weight="600"', room=room)
        y += 20
        for line, text in rows:
            stands = [mark for mark in told["stands"] if mark[:2] == [number, line]]
            if stands:
                drawing.rect(left, y, room, ROW, "band")
            x = left + 6
            for _, _, turn, count in stands[:3]:
                _look(drawing, told["looks"][turn], turn, x, y + 1, (18, ROW - 2))
                drawing.text(x + 20, y + ROW / 2, str(count))
                x += 23 + 7 * len(str(count))
            drawing.text(left + 124, y + ROW / 2, str(line), "quiet", f'text-anchor="end" {MONOSPACED}')
            drawing.text(left + 134, y + ROW / 2, text, "ink", MONOSPACED, room=(room - 138) * LETTER / 7.3)
            y += ROW
        y += 8
    return y


def _waits(drawing: Drawing, told: Told, y: float) -> float:
    """Draw the waits: two boxes each, and an arrow between them."""
    if not told["waits"]:
        return y
    colour = "failed" if told["verdict"] else "ink"
    drawing.text(8, y + 8, told["verdict"] or "Waits", colour, 'font-weight="600"', drawing.width - 16.0)
    wide = (drawing.width - 136) / 2
    right, y = wide + 128, y + 22
    for threads, what, missing, hope, tone in told["waits"][:8]:
        first, second = (
            (8.0, "k4", threads, what, "quiet"),
            (right, tone, missing, hope, tone if tone == "failed" else "quiet"),
        )
        for x, edge, upper, lower, ink in (first, second):
            drawing.rect(x, y, wide, PILL, "band")
            drawing.rect(x, y, 4, PILL, edge)
            drawing.text(x + 12, y + 12, upper, room=wide - 20)
            drawing.text(x + 12, y + 28, lower, ink, room=wide - 20)
        middle = y + PILL / 2
        drawing.path(f"M{wide + 14:.0f} {middle}H{right - 4:.0f}", tone, f'stroke-width="2" {drawing.arrow}')
        drawing.text(wide + 68, middle - 9, "waits for", "quiet", 'text-anchor="middle"')
        y += PILL + 6
    if len(told["waits"]) > 8:
        drawing.text(8, y + 8, f"and {len(told['waits']) - 8} more", "quiet")
        y += 22
    return y + 4
