"""What a page does with what it is sent, in Python: columns out of a buffer, scenes out of a saved picture."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np

from atops_widgets.drawing.scene import ALIGNED, TYPES
from atops_widgets.feed.columns import Column


def unpack(header: list[list[Any]], buffer: bytes) -> dict[str, Column]:
    """Return the columns that `pack` was given, with the types that travelled."""
    columns, at = {}, 0
    for name, code, length in header:
        columns[name] = np.frombuffer(buffer, TYPES[code], length, at)
        at += -(-columns[name].nbytes // ALIGNED) * ALIGNED
    return columns


def unpack_snapshot(data: bytes) -> tuple[dict[str, Any], dict[str, Column]]:
    """Return what `pack_snapshot` was given."""
    raw = zlib.decompress(data)
    end = 4 + int.from_bytes(raw[:4], "little")
    scene: dict[str, Any] = json.loads(raw[4:end])
    return scene, unpack(scene.pop("columns"), raw[end:])
