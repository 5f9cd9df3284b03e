"""The memory map as SVG: the same scene that the page draws, for where no script runs."""

from __future__ import annotations

from typing import Final

from atops.base.trace.records import Kind
from atops.trace.text import format_bytes
from atops_widgets.drawing.scene import Scene, Told
from atops_widgets.drawing.svg import LETTER, Drawing, sentence
from atops_widgets.drawing.theme import Theme
from atops_widgets.feed.selection import Marks
from atops_widgets.memory_map.drawing import FILLED, LOOKS, MARGIN, SHAPE, SHAPE_TOP, STATES, Sketch, paint
from atops_widgets.memory_map.lanes import State
from atops_widgets.memory_map.touches import LABELS, Touch

__all__ = ("draw",)

NAMES: Final = ("lane", "left", "right", "state", "count", "fill", "size", "generation", "offset", "site", "freed_site")


def draw(scene: Scene, sketch: Sketch, label: str, width: int, theme: Theme | None, marks: Marks) -> str:
    """Return the drawing of a memory map's scene, with the sketch of what stands around its shapes."""
    told, columns = scene.told, scene.columns
    drawing = Drawing(width, label, theme)
    paint(sketch, drawing)
    for values in zip(*(columns[name].tolist() for name in NAMES), strict=True):
        _shape(drawing, dict(zip(NAMES, values, strict=True)), told)
    _touches(drawing, scene)
    for at, top, bottom in told["cursors"]:
        drawing.path(f"M{at:.1f} {top:.1f}V{bottom:.1f}", "cursor", 'stroke-width="2"')
    y = _key(drawing, [int(kind) - len(Kind) for kind in told["kinds"]], told["height"] + 6.0)
    y = drawing.lines(8, drawing.lines(8, y, str(told["say"])), sentence(marks))
    return drawing.finish(y + 4, sentence(marks) or str(told["say"]))


def _key(drawing: Drawing, numbers: list[int], y: float) -> float:
    """Add what the looks of the shapes mean, in lines of the drawing's width; return the y below."""
    left = 8.0
    for state in (list(STATES)[number] for number in numbers):
        need = 46 + LETTER * len(STATES[state])
        if left + need > drawing.width and left > 8:
            left, y = 8.0, y + 20
        _body(drawing, state, left, y, 22, 14, "")
        drawing.text(left + 28, y + 7, STATES[state])
        left += need
    return y + 22 if numbers else y


def _shape(drawing: Drawing, shape: Told, told: Told) -> None:
    state, many = State(shape["state"]), shape["count"] > 1
    height = max(5.0, SHAPE * shape["fill"]) if many else float(SHAPE)
    x, width = MARGIN + shape["left"], max(1.5, shape["right"] - shape["left"])
    y = told["tops"][shape["lane"]] + SHAPE_TOP + SHAPE - height
    where, short = told["places"].get(str(int(shape["site"])), ("", ""))
    size = format_bytes(int(shape["size"]))
    if many:
        title = f"{shape['count']:,} ranges, {size} together"
    else:
        title = f"allocation {int(shape['generation'])}: {size} at {int(shape['offset']):#x}, {STATES[state]}"
        title += f", by {where}" if where else ""
        freer = told["places"].get(str(int(shape["freed_site"])), ("",))[0]
        title += f", freed by {freer}" if freer else ""
    _body(drawing, state, x, y, width, height, title)
    if width > 30 and not many and width - 7 > 6.6 * len(size):
        site = {State.FREED: "freed ", State.KEPT: "kept "}.get(state, "") + short
        drawing.text(x + 4, y + (10 if site else 17), size, room=width - 6)
        drawing.text(x + 4, y + 24, site, room=width - 10)


def _body(drawing: Drawing, state: State, x: float, y: float, width: float, height: float, title: str) -> None:
    colour, dash = LOOKS[state]
    if width < 4:
        drawing.rect(x, y, width, height, colour, "", title)
        return
    drawing.rect(x, y, width, height, "page")
    more = f'fill-opacity="{FILLED[state]}" stroke="{drawing.fill(colour)}" '
    more += f'stroke-dasharray="{dash}"' if dash else ""
    drawing.rect(x + 0.5, y + 0.5, width - 2, height - 1, colour, more, title)
    if state is State.REUSED:
        drawing.rect(x, y + height - 3, width - 1, 3, colour)


def _touches(drawing: Drawing, scene: Scene) -> None:
    columns, seq = scene.columns, scene.told["marked"]
    names = ("lane", "left", "right", "how", "seq", "bytes")
    free: dict[float, float] = {}  # by the y of a row of labels: where the last one ends
    for lane, left, right, how, owner, size in zip(*(columns[f"touch_{name}"].tolist() for name in names), strict=True):
        if owner != seq:
            continue
        x, over, label = MARGIN + left, how == Touch.WROTE, LABELS[how]
        y = scene.told["tops"][lane] + (SHAPE_TOP - 4 if over else SHAPE_TOP + SHAPE)
        title = f"number {int(owner)} {label} {format_bytes(int(size))} here"
        drawing.rect(x, y, max(3.0, right - left), 4, "select", "", title)
        row = y - 6 if over else y + 9
        if x >= free.get(row, 0):
            x = min(x, drawing.width - LETTER * len(label) - 4)
            drawing.text(x, row, label, "select")
            free[row] = x + LETTER * len(label) + 4
