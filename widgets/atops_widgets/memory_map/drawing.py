"""The memory map as shapes and texts on a sketch: headings, axes with breaks, curves, L1 and L2; and as SVG."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from atops.trace.words import format_bytes, format_ns
from atops_widgets.drawing.scene import Scene, Told
from atops_widgets.drawing.svg import LETTER, Drawing, moments_told, sentence, ticks
from atops_widgets.drawing.theme import STYLES
from atops_widgets.feed.axis import TimeAxis
from atops_widgets.feed.columns import Column
from atops_widgets.feed.feed import Marks
from atops_widgets.memory_map.history import Curve, Scratch
from atops_widgets.memory_map.lanes import Lane, State
from atops_widgets.memory_map.words import LABELS, Touch

__all__ = ("CURVE", "MARGIN", "STATES", "Canvas", "Sketch", "draw", "swatch")

SMALL: Final = 'font-size="10"'


class Sketch:
    """The drawing around the shapes. `items` travel to a page as they are; colours are names of the theme.

    - ["t", x, y, text, room, colour, style]: text; style "b" bold, "s" small and centred about x.
    - ["r", x, y, width, height, colour, alpha]: a box. ["h", x, y, width, height, text, seq, curve]: what a place says.
    - ["l", points, colour, width, dash, alpha]: a line through x, y, x, y, ...; alpha fills below it instead.
    """

    def __init__(self) -> None:
        self.items: list[list[Any]] = []

    def text(self, x: float, y: float, text: str, room: float, colour: str = "ink", style: str = "") -> None:
        """Add text, its middle at y, cut to `room` pixels."""
        self.items.append(["t", round(x, 1), round(y, 1), text, round(room, 1), colour, style])

    def box(self, x: float, y: float, width: float, height: float, colour: str, alpha: float = 1.0) -> None:
        """Add a filled box."""
        self.items.append(["r", round(x, 1), round(y, 1), round(width, 1), round(height, 1), colour, alpha])

    def line(
        self, points: Sequence[float] | Column, colour: str, width: float = 1, dash: str = "", alpha: float = 0
    ) -> None:
        """Add a line through points, x and y in turn; with `alpha` the area that it encloses instead."""
        few = isinstance(points, Sequence)
        rounded = [round(each, 1) for each in points] if few else np.round(points, 1).tolist()
        self.items.append(["l", rounded, colour, width, dash, alpha])

    def frame(self, x: float, y: float, width: float, height: float, colour: str, dash: str = "") -> None:
        """Add the outline of a box."""
        right, bottom = x + width, y + height
        self.line([x, y, right, y, right, bottom, x, bottom, x, y], colour, 1, dash)

    def spot(
        self, x: float, y: float, width: float, height: float, text: str, seq: int = -1, curve: int = -1
    ) -> None:
        """Say what hovering over a place says, and what clicking selects: an operation, or a moment of a curve."""
        self.items.append(["h", round(x, 1), round(y, 1), round(width, 1), round(height, 1), text, seq, curve])


def _paint(sketch: Sketch, drawing: Drawing) -> None:
    """Draw a sketch as SVG."""
    for item in sketch.items:
        match item:
            case ["t", x, y, text, room, colour, "s"]:
                drawing.text(x, y, text, colour, f'text-anchor="middle" {SMALL}', room * 1.2)
            case ["t", x, y, text, room, colour, style]:
                drawing.text(x, y, text, colour, 'font-weight="600"' if style == "b" else "", room)
            case ["r", x, y, width, height, colour, alpha]:
                drawing.rect(x, y, width, height, colour, f'opacity="{alpha}"' if alpha < 1 else "")
            case ["l", points, colour, width, dash, alpha]:
                d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in list(pairwise(points))[::2])
                more = f'stroke-width="{width}"' + (f' stroke-dasharray="{dash}"' if dash else "")
                if alpha:
                    more = f'style="fill:{drawing.fill(colour)};stroke:none" fill-opacity="{alpha}"'
                drawing.path(d, colour, more)


MARGIN: Final = 176
RIGHT: Final = 10
HEAD: Final = 26
LANE: Final = 66
SHAPE: Final = 34
SHAPE_TOP: Final = 19  # of a lane: above it stand addresses
CURVE: Final = 92
BELOW: Final = 30  # a curve, with its axis of time
BLOCK: Final = 24
CELL: Final = 18
L2: Final = 130  # pixels
ROOM: Final = MARGIN - 16
STATES: Final[Mapping[State, str]] = {
    State.LIVE: "live", State.REUSED: "live, in a reused range", State.KEPT: "kept for reuse",
    State.FREED: "freed just before",
}  # fmt: skip
LOOKS: Final[Mapping[State, tuple[str, str]]] = {  # colour and dashes
    State.LIVE: ("k12", ""), State.REUSED: ("k12", ""), State.KEPT: ("quiet", ""), State.FREED: ("k13", "3 2"),
}  # fmt: skip
FILLED: Final[Mapping[State, float]] = {state: 0.25 if state >= State.LIVE else 0.06 for state in State}  # opacity


class Canvas:
    """A sketch of a width, filled from the top; `y` is how far it is. Texts fit if it is squeezed to `least`, too."""

    def __init__(self, width: int, least: int) -> None:
        self.width = max(width, MARGIN + RIGHT + 50)
        self.lane_width = self.width - MARGIN - RIGHT
        self.squeezed = min(1.0, max(50, least - MARGIN - RIGHT) / self.lane_width)
        self.right = self.width - RIGHT
        self.sketch = Sketch()
        self.y = 0.0
        self.lanes: list[float] = []  # their tops
        self.curves: list[float] = []

    def head(self, name: str, text: str) -> None:
        """Add the line that names a device and says how full it is."""
        self.sketch.text(8, self.y + 13, name, ROOM, style="b")
        lines = textwrap.wrap(text, int(self.lane_width * self.squeezed / LETTER))
        for row, line in enumerate(lines):
            self.sketch.text(MARGIN, self.y + 13 + 15 * row, line, self.lane_width)
        self.y += HEAD + 15 * (len(lines) - 1)

    def lane(self, lane: Lane) -> None:
        """Add a bank's captions, the ground of its shapes, its addresses and the breaks between them."""
        top, sketch, told = self.y, self.sketch, lane.told()
        self.lanes.append(top)
        sketch.text(20, top + 12, f"bank {lane.bank}{', zoomed' if lane.zoomed else ''}", ROOM - 16, style="b")
        sketch.text(20, top + 28, told["use"], ROOM - 16)
        sketch.text(20, top + 44, f"{lane.live:,} live · {told['scale']}", ROOM - 6, "quiet")
        sketch.box(MARGIN, top + SHAPE_TOP, self.lane_width, SHAPE, "band")
        axis = lane.axis
        parts = list(zip(axis.left.tolist(), axis.right.tolist(), axis.start.tolist(), axis.stop.tolist(), strict=True))
        free = 0.0
        for place, (left, right, start, stop) in enumerate(parts):
            following = parts[place + 1][0] if place + 1 < len(parts) else self.lane_width
            label = f"{start:#x}"
            if left >= free and following - left > 7.2 * len(label):
                sketch.text(MARGIN + left, top + 9, label, following - left, "quiet")
                free = left + 7.2 * len(label)
            if place + 1 < len(parts):
                self._break(MARGIN + right, MARGIN + following, top + SHAPE_TOP, parts[place + 1][2] - stop)
        self.y += LANE

    def _break(self, left: float, right: float, y: float, size: int) -> None:
        """Add a break in the axis: two torn edges, and between them how much is free there."""
        sketch = self.sketch
        sketch.box(left + 1, y - 1, right - left - 2, SHAPE + 2, "page")
        for x in (left + 2, right - 3):
            points = [value for step in range(7) for value in (x + (2 if step % 2 else -1), y + step * SHAPE / 6)]
            sketch.line(points, "line")
        for row, part in enumerate(format_bytes(size).split(" ")):
            sketch.text((left + right) / 2, y + SHAPE / 2 - 5 + 11 * row, part, right - left - 6, "quiet", "s")
        sketch.spot(left, y, right - left, SHAPE, f"{format_bytes(size)} free, not drawn to scale")

    def curve(
        self, block: Told, curve: Curve, axis: TimeAxis, free: tuple[Column, Column], number: int
    ) -> None:
        """Add bytes in use over time with their peak, and how much of what was free was not the largest free range.

        `free` are moments and shares from 0 to 1; times count from the origin.
        """
        top, sketch = self.y, self.sketch
        self.curves.append(top)
        bottom, most = top + CURVE - 2, max(1, block["peak"])
        scale = (CURVE - 16) / most
        sketch.box(MARGIN, top, self.lane_width, CURVE, "band")
        self._times(axis, top)
        points = _outline(curve, MARGIN, self.lane_width, bottom, scale)
        area = np.concatenate([[MARGIN, bottom], points, [self.right, bottom]])
        sketch.line(area, "k12", alpha=0.28)
        sketch.line(points, "k12", 1.5)
        peak = bottom - most * scale
        sketch.line([MARGIN, peak, self.right, peak], "path", 1.2, "6 3")
        for row, (text, colour) in enumerate(_figures(block)):
            sketch.text(20, top + 10 + 16 * row, text, ROOM - 6, colour)
        moments, shares = free
        if len(moments):
            line = np.stack([self._x(moments, axis), bottom - shares * (CURVE - 16)], 1)
            sketch.line(line.ravel(), "before", 1.8, "2 3")
        for start, end in axis.gaps:
            left, right = self._x(start, axis), self._x(end, axis)
            sketch.box(left, top, right - left, CURVE, "page")
            sketch.frame(left + 1.5, top, right - left - 3, CURVE, "line", "4 3")
        sketch.spot(MARGIN, top, self.lane_width, CURVE,
                    f"bytes in use of {block['name']} over time; click to look at a moment", curve=number)  # fmt: skip
        self.y += CURVE + BELOW

    def _x(self, at: Column | int, axis: TimeAxis) -> Any:
        return MARGIN + axis.place(at) * self.lane_width / max(1, axis.place(axis.last))

    def _times(self, axis: TimeAxis, top: float) -> None:
        moments = ticks(axis.first, axis.last, self.lane_width, axis)
        places = self._x(np.array(moments, np.int64), axis).tolist()
        for x, text in zip(places, moments_told(moments), strict=True):
            self.sketch.line([x, top, x, top + CURVE + 4], "grid")
            room = self.right - x - 4
            if room * self.squeezed > 7 * len(text):
                self.sketch.text(x + 3, top + CURVE + 9, text, room, "quiet")

    def scratch(self, found: Scratch, told: Told, most: int) -> None:
        """Add L2 of each block and L1 of each thread of a launch, as filled parts of their capacity."""
        sketch = self.sketch
        over = ", over" if told["over"] else ""
        sketch.text(8, self.y + 12, f"L2 and L1 of {told['name'] or 'a kernel'}{over}", self.width - 16, style="b")
        self.y += HEAD
        numbers, sizes = found.blocks()
        wide = min(60.0, (self.lane_width - L2 - 16) / max(1, 1 + int(found.thread.max())) - 3)
        for block, size in list(zip(numbers.tolist(), sizes.tolist(), strict=True))[:most]:
            sketch.text(24, self.y + 9, f"block {block}", ROOM - 16)
            text = f"L2 {format_bytes(size)}"
            self._cell(MARGIN, L2, size, told["l2"], text, f"block {block}: {format_bytes(size)} of L2", told, False)
            here = found.block == block
            cells = (found.thread[here].tolist(), found.l1_bytes[here].tolist(), found.over[here].tolist())
            for thread, bytes_, ended in zip(*cells, strict=True):
                says = f"block {block}, thread {thread}: {format_bytes(bytes_)} of L1{', over' if ended else ''}"
                x = MARGIN + L2 + 12 + thread * (wide + 3)
                self._cell(x, wide, bytes_, told["l1"], format_bytes(bytes_), says, told, ended)
            self.y += BLOCK
        if told["more"]:
            sketch.text(24, self.y + 9, f"and {told['more']} more blocks", self.width - 30, "quiet")
            self.y += BLOCK
        self.y += 6

    def _cell(
        self, x: float, width: float, size: int, capacity: int, text: str, says: str, told: Told,
        over: bool,
    ) -> None:
        share = min(1.0, size / capacity) if capacity else float(size > 0)
        self.sketch.box(x, self.y, width, CELL, "band")
        if size:
            self.sketch.box(x, self.y, max(2.0, width * share), CELL, "k12", 0.35)
        self.sketch.frame(x, self.y, width, CELL, "line", "2 2" if over else "")
        if width > 6.7 * len(text):
            self.sketch.text(x + 4, self.y + 9, text, width - 4)
        self.sketch.spot(x, self.y, width, CELL, says, told["launch"])

    def note(self, text: str) -> None:
        """Add a line of quiet text."""
        self.sketch.text(8, self.y + 12, text, self.width - 16, "quiet")
        self.y += HEAD


def swatch(state: State) -> str:
    """Return what a legend shows of a state: its frame and filling, and the bar of a range that is used again."""
    colour, dash = LOOKS[state]
    bar = f'<rect y="11" width="22" height="3" fill="var(--{colour})"/>' if state is State.REUSED else ""
    return (
        f'<svg width="22" height="14"><rect x=".5" y=".5" width="21" height="13" fill="var(--{colour})" '
        f'fill-opacity="{FILLED[state]}" stroke="var(--{colour})" stroke-dasharray="{dash}"/>{bar}</svg>'
    )


def _figures(block: Told) -> list[tuple[str, str]]:
    """Return the captions of a curve, with their colours; each begins with how its line is drawn."""
    found = [("— in use", "ink"), (f"- - peak {format_bytes(block['peak'])}", "path")]
    found.append((f"at {format_ns(block['peak_at'])}", "quiet"))
    if block["capacity"]:
        found.append((f"·· fragmentation {abs(block['fragmentation']):.1%}", "before"))
        found.append((f"largest free {format_bytes(block['largest'])}", "quiet"))
    else:
        found.append(("capacity not recorded", "quiet"))
    return found


def _outline(curve: Curve, left: float, width: float, bottom: float, scale: float) -> Column:
    """Return the points of a step curve: each pixel's highest figure, then its last; level parts are two points."""
    count = len(curve.high)
    level = np.round(bottom - np.stack([curve.high, curve.last], 1).ravel() * scale, 1)
    x = left + np.stack([np.arange(count), np.arange(1, count + 1)], 1).ravel() * width / count
    turns = np.flatnonzero(np.diff(level)) + 1
    corners = np.stack([x[turns], level[turns - 1], x[turns], level[turns]], 1).ravel()
    return np.concatenate([[left, level[0]], corners, [left + width, level[-1]]])


NAMED: Final = 30  # pixels from which a shape may say what it is
NAMES: Final = ("lane", "left", "right", "state", "count", "fill", "size", "generation", "offset", "site", "freed_site")


def draw(drawing: Drawing, scene: Scene, sketch: Sketch, marks: Marks) -> str:
    """Return the drawing of a memory map's scene, with the sketch of what stands around its shapes."""
    told = scene.told
    _paint(sketch, drawing)
    lane, left, right = (scene.columns[name] for name in NAMES[:3])
    for at, shape in enumerate(scene.rows(*NAMES)):
        over = (lane == shape["lane"]) & (left < shape["right"]) & (right > shape["left"])
        _shape(drawing, shape, told, shape["right"] - shape["left"] > NAMED and not over[at + 1 :].any())
    _touches(drawing, scene)
    for at, top, bottom in told["cursors"]:
        drawing.path(f"M{at:.1f} {top:.1f}V{bottom:.1f}", "cursor", 'stroke-width="2"')
    y = _key(drawing, [int(kind) - len(STYLES) for kind in told["kinds"]], told["height"] + 6.0)
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


def _shape(drawing: Drawing, shape: Told, told: Told, named: bool) -> None:
    """Draw one shape; `named`: with its size and its line, where they have room and no other shape is over them."""
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
    if named and not many and width - 7 > 6.6 * len(size):
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
    names = ("lane", "left", "right", "how", "seq", "bytes")
    free: dict[float, float] = {}  # by the y of a row of labels: where the last one ends
    for touch in scene.rows(*(f"touch_{name}" for name in names)):
        lane, left, right, how, owner, size = touch.values()
        if owner != scene.told["marked"]:
            continue
        x, over, label = MARGIN + left, how == Touch.WROTE, LABELS[how]
        raced = how == Touch.RACED
        colour, high = ("failed", 8) if raced else ("select", 4)
        y = scene.told["tops"][lane] + (SHAPE_TOP - 4 if over else SHAPE_TOP + SHAPE - 8 * raced)
        title = f"number {int(owner)} {label} {format_bytes(int(size))} here"
        drawing.rect(x, y, max(3.0, right - left), high, colour, "", title)
        if raced:  # between the labels of the others, inside the shape
            continue
        row = y - 6 if over else y + 9
        if x >= free.get(row, 0):
            x = min(x, drawing.width - LETTER * len(label) - 4)
            drawing.text(x, row, label, "select")
            free[row] = x + LETTER * len(label) + 4
