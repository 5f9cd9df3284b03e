"""How numbers travel to a page: columns one after another in one buffer, told by a header; and compressed, to save."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Final

import numpy as np

from atops_widgets.feed.columns import Column

__all__ = ("ALIGNED", "TYPES", "pack", "pack_snapshot")

ALIGNED: Final = 8  # bytes: where a typed array of doubles may begin

# JavaScript has no 64-bit integers in ordinary arrays; doubles hold 53 bits exactly, which times from the origin fit.
CODES: Final[Mapping[str, str]] = {
    "f8": "d", "f4": "f", "i4": "i", "u4": "I", "i2": "h", "u2": "H", "i1": "b", "u1": "B", "i8": "d", "u8": "d",
    "b1": "B",
}  # fmt: skip
TYPES: Final[Mapping[str, str]] = {
    "d": "<f8", "f": "<f4", "i": "<i4", "I": "<u4", "h": "<i2", "H": "<u2", "b": "<i1", "B": "<u1",
}  # fmt: skip


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
