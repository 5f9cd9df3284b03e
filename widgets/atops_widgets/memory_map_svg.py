"""The memory map as SVG: the same scene that the page draws, for where no script runs."""

from __future__ import annotations

from typing import Any, Final

from atops.runtime.timeline_text import format_bytes
from atops_widgets.memory_map_drawing import LOOKS, MARGIN, SHAPE, SHAPE_TOP, STATES
from atops_widgets.memory_map_lanes import State
from atops_widgets.memory_map_sketch import Sketch, paint
from atops_widgets.scene import Scene
from atops_widgets.svg import Drawing
from atops_widgets.theme import Theme

__all__ = ("draw",)

NAMES: Final = ("lane", "left", "right", "state", "count", "fill", "size", "generation", "offset", "site", "freed_site")


def draw(scene: Scene, sketch: Sketch, label: str, width: int, theme: Theme | None) -> str:
    """Return the drawing of a memory map's scene, with the sketch of what stands around its shapes."""
    told, columns = scene.told, scene.columns
    drawing = Drawing(width, label, theme)
    paint(sketch, drawing)
    for values in zip(*(columns[name].tolist() for name in NAMES), strict=True):
        _shape(drawing, dict(zip(NAMES, values, strict=True)), told)
    _touches(drawing, scene)
    for at, top, bottom in told["cursors"]:
        drawing.path(f"M{at:.1f} {top:.1f}V{bottom:.1f}", "cursor", 'stroke-width="2"')
    y = told["height"] + 6.0
    drawing.text(8, y + 6, str(told["say"]), room=width - 16.0)
    return drawing.finish(y + 20, str(told["say"]))


def _shape(drawing: Drawing, shape: dict[str, Any], told: Any) -> None:
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
    more = f'fill-opacity="{0.25 if state >= State.LIVE else 0.06}" stroke="{drawing.fill(colour)}" '
    more += f'stroke-dasharray="{dash}"' if dash else ""
    drawing.rect(x + 0.5, y + 0.5, width - 2, height - 1, colour, more, title)
    if state is State.REUSED:
        drawing.rect(x, y + height - 3, width - 1, 3, colour)


def _touches(drawing: Drawing, scene: Scene) -> None:
    columns, seq = scene.columns, scene.told["marked"]
    names = ("lane", "left", "right", "write", "seq")
    for lane, left, right, write, owner in zip(*(columns[f"touch_{name}"].tolist() for name in names), strict=True):
        if owner == seq:
            y = scene.told["tops"][lane] + (SHAPE_TOP - 4 if write else SHAPE_TOP + SHAPE)
            drawing.rect(MARGIN + left, y, max(3.0, right - left), 4, "select")
            drawing.text(MARGIN + left, y - 6 if write else y + 9, "wrote" if write else "read", "select")
