"""Values between a widget and its page: the window that is asked for, the picture, and both as bytes.

A picture is a header, which travels as JSON, and columns, one after another in one buffer; compressed where saved.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from atops_widgets.feed.axis import TimeAxis
from atops_widgets.feed.columns import Column

__all__ = ("ALIGNED", "TYPES", "Scene", "Told", "Window", "pack", "pack_snapshot", "whole_option")

Told: TypeAlias = Mapping[str, Any]  # what travels to a page as JSON

WIDEST: Final = 8192  # pixels; a page that asks for more is answered with this many


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a picture that a page asks for: a span of time (None: everything), pixels, options of the widget."""

    start_ns: int | None = None
    end_ns: int | None = None
    width: int = 960
    options: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def asked(cls, content: Mapping[str, object], origin_ns: int) -> Window:
        """Return the window that a page's message asks for; its times count from the origin. Raises no error."""
        start, end, width = (_number(content.get(name)) for name in ("start", "end", "width"))
        options = content.get("options")
        options = options if isinstance(options, dict) else {}
        width = 960 if width is None else max(1, min(WIDEST, width))
        if start is None or end is None or start >= end:
            return cls(None, None, width, options)
        return cls(origin_ns + start, origin_ns + end, width, options)

    def axis(self, axis: TimeAxis) -> TimeAxis:
        """Return the part of an axis that is asked for: all of it where no span of time is."""
        return axis if self.start_ns is None or self.end_ns is None else axis.cut(self.start_ns, self.end_ns)

    def cut(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return the span of time to draw, at least 1 ns long: what was asked for, or all of `span`."""
        start = span[0] if self.start_ns is None else self.start_ns
        end = span[1] if self.end_ns is None else self.end_ns
        return start, max(end, start + 1)


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture to send: `told` is small and travels as JSON, `columns` are arrays and travel in one binary buffer.

    A column of names holds numbers of the feed's texts. `told["say"]` is one sentence for screen readers.
    """

    told: Told = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)

    def rows(self, *names: str) -> Iterator[dict[str, Any]]:
        """Yield the values of columns row by row, by the names of the columns."""
        for values in zip(*(self.columns[name].tolist() for name in names), strict=True):
            yield dict(zip(names, values, strict=True))


def whole_option(options: Mapping[str, object], name: str, otherwise: int = 0) -> int:
    """Return an option of a widget as an integer, and `otherwise` for what a page should not have sent."""
    number = _number(options.get(name))
    return otherwise if number is None else number


def _number(value: object) -> int | None:
    """Return an integer for a number that a page may send, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**62:
        return None
    return int(value)


ALIGNED: Final = 8  # bytes: where a typed array of doubles may begin

# JavaScript has no 64-bit integers in ordinary arrays; doubles hold 53 bits exactly, which times from the origin fit.
TYPES: Final[Mapping[str, str]] = {
    "d": "<f8", "f": "<f4", "i": "<i4", "I": "<u4", "h": "<i2", "H": "<u2", "b": "<i1", "B": "<u1",
}  # fmt: skip
CODES: Final = {kind[1:]: code for code, kind in TYPES.items()} | {"i8": "d", "u8": "d", "b1": "B"}


def pack(columns: Mapping[str, Column]) -> tuple[list[list[object]], bytes]:
    """Return the header, [name, type code, length] for each column, and one buffer with all of them, aligned."""
    header: list[list[object]] = []
    parts: list[bytes] = []
    for name, column in columns.items():
        code = CODES[column.dtype.str[1:]]
        data = np.ascontiguousarray(column, TYPES[code]).tobytes()
        header.append([name, code, len(column)])
        parts += [data, bytes(-len(data) % ALIGNED)]
    return header, b"".join(parts)


def pack_snapshot(scene: Mapping[str, object], columns: Mapping[str, Column]) -> bytes:
    """Return a scene and its columns as one compressed value: 4 bytes length, JSON, padding, columns; all deflated."""
    header, buffer = pack(columns)
    told = json.dumps({**scene, "columns": header}, separators=(",", ":")).encode()
    told += b" " * (-(len(told) + 4) % ALIGNED)
    return zlib.compress(len(told).to_bytes(4, "little") + told + buffer)
