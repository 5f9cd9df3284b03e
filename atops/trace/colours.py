"""Colours and hatches of kinds of commands, and colours of pages: one palette for traces' pages and for widgets.

Shapes have a contrast of at least 3 with the page and text one of at least 4.5, on shapes too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from atops.base.trace.records import Kind

__all__ = ("HATCHES", "LOOKS", "PAGE", "Hatch")

Hatch: TypeAlias = Literal["none", "rising", "falling", "dots", "level", "upright", "cross"]

# Copies are green and magenta and kernels blue, as in common profilers. Waits are grey. Two of one hatch have colours
# that are told apart without red, green or blue cones, too.
LOOKS: Final[tuple[tuple[Kind, str, str, Hatch], ...]] = (
    (Kind.COPY_H2D, "#1a7f37", "#4ac26b", "rising"),
    (Kind.COPY_D2H, "#bf3989", "#ff80c8", "falling"),
    (Kind.COPY_D2D, "#0e7490", "#39c5cf", "level"),
    (Kind.COPY_H2H, "#6b6b00", "#c9c943", "level"),
    (Kind.COPY_PEER, "#a04100", "#f0883e", "upright"),
    (Kind.FILL, "#7a4f01", "#d4a72c", "dots"),
    (Kind.LAUNCH, "#0860ca", "#6cb6ff", "none"),
    (Kind.RECORD, "#6e40c9", "#bc8cff", "falling"),
    (Kind.WAIT_EVENT, "#656d76", "#9198a1", "dots"),
    (Kind.WAIT_VALUE, "#656d76", "#9198a1", "cross"),
    (Kind.WRITE_VALUE, "#8250df", "#d2a8ff", "rising"),
    (Kind.CALL, "#8a3ffc", "#be95ff", "upright"),
    (Kind.ALLOC, "#116329", "#7ee787", "none"),
    (Kind.FREE, "#953800", "#ffa657", "cross"),
    (Kind.API, "#5a4a78", "#a99bc9", "none"),
)
# What is not a kind. `ink` and `quiet` are text on `page` and `band`; `on` is text on a shape.
PAGE: Final[Mapping[str, tuple[str, str]]] = {
    "page": ("#ffffff", "#14171c"),
    "band": ("#f3f5f8", "#1c2128"),
    "ink": ("#1f2328", "#e6edf3"),
    "quiet": ("#57606a", "#9da7b3"),
    "line": ("#848d97", "#768390"),
    "grid": ("#d0d7de", "#373e47"),
    "on": ("#ffffff", "#14171c"),
    "failed": ("#b31d28", "#ff7b72"),
    "select": ("#b35900", "#ffd33d"),
    "before": ("#0550ae", "#79c0ff"),
    "after": ("#8a2be2", "#d2a8ff"),
    "path": ("#cf222e", "#ff9492"),
    "cursor": ("#9a3412", "#fdba74"),
}

# Strokes of each hatch in a tile of 8 x 8 units, as an SVG path; the script draws the same.
HATCHES: Final[Mapping[Hatch, str]] = {
    "none": "",
    "rising": "M-2 2L2 -2M0 8L8 0M6 10L10 6",
    "falling": "M-2 6L2 10M0 0L8 8M6 -2L10 2",
    "dots": "M2 2h1.6M6 6h1.6",
    "level": "M0 2.5h8M0 6.5h8",
    "upright": "M2.5 0v8M6.5 0v8",
    "cross": "M0 0L8 8M8 0L0 8",
}
