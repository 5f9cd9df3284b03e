"""Texts, boxes and lines in pixels, as the page's script and the SVG both draw them. It knows no memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from atops_widgets.drawing.svg import Drawing

__all__ = ("Sketch", "paint")

SMALL: Final = 'font-size="10"'


class Sketch:
    """What is drawn beside the shapes. `items` travel to a page as they are; colours are names of the theme.

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

    def line(self, points: Sequence[float], colour: str, width: float = 1, dash: str = "", alpha: float = 0) -> None:
        """Add a line through points, x and y in turn; with `alpha` the area that it encloses instead."""
        self.items.append(["l", [round(each, 1) for each in points], colour, width, dash, alpha])

    def frame(self, x: float, y: float, width: float, height: float, colour: str, dash: str = "") -> None:
        """Add the outline of a box."""
        right, bottom = x + width, y + height
        self.line([x, y, right, y, right, bottom, x, bottom, x, y], colour, 1, dash)

    def spot(
        self, x: float, y: float, width: float, height: float, text: str, seq: int = -1, curve: int = -1
    ) -> None:
        """Say what hovering over a place says, and what clicking selects: an operation, or a moment of a curve."""
        self.items.append(["h", round(x, 1), round(y, 1), round(width, 1), round(height, 1), text, seq, curve])


def paint(sketch: Sketch, drawing: Drawing) -> None:
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
