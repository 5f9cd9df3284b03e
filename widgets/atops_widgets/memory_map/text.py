"""The memory map as text, for a terminal and a screen reader."""

from __future__ import annotations

from typing import Final

import numpy as np

from atops.trace.text import format_bytes
from atops_widgets.memory_map.history import Standing
from atops_widgets.memory_map.scene import RECENT, MemoryPicture

__all__ = ("render",)

MOST: Final = 16  # ranges that are told of each bank; the largest
STATES: Final = (("live", "#"), ("kept", "="), ("freed", "x"))


def render(picture: MemoryPicture, width: int) -> str:
    """Return a paragraph for each device: its figures, then a line for each of the largest ranges of each bank."""
    picture.update()
    lines: list[str] = []
    feed, history = picture.feed, picture.history
    at = feed.selection.cursor_ns
    for device in picture.devices():
        used = picture.steps(device).at(at)
        extent = picture.extent(device)
        peak, _ = picture.steps(device).peak()
        of = f" of {format_bytes(extent.capacity)}" if extent.capacity else ""
        lines.append(f"device {device}: {format_bytes(used)}{of} in use, peak {format_bytes(peak)}")
        if extent.capacity:
            lines.append(_bar(used, peak, extent.capacity, width))
        standing = history.standing(device, at, used, RECENT)
        lines += _banks(picture, standing)
    lines += picture.words.touched()
    return "\n".join(lines) if lines else picture.nothing()


def _bar(used: int, peak: int, capacity: int, width: int) -> str:
    """Return a line of `width` letters: # in use, - up to the peak, then dots."""
    room = max(10, width - 2)
    filled, most = (min(room, -(-value * room // capacity)) for value in (used, max(used, peak)))
    return f"[{'#' * filled}{'-' * (most - filled)}{'.' * (room - most)}]"


def _banks(picture: MemoryPicture, standing: Standing) -> list[str]:
    history = picture.history
    lines: list[str] = []
    rows = {name: getattr(standing, name) for name, _ in STATES}
    every = np.concatenate(list(rows.values()))
    for bank in np.unique(history["bank"][every]).tolist():
        lines.append(f"  bank {bank}:")
        for name, glyph in STATES:
            here = rows[name][history["bank"][rows[name]] == bank]
            here = here[np.argsort(-history["size"][here], kind="stable")]
            lines += [f"    {glyph} {name}: {picture.words.range(row)}" for row in here[:MOST].tolist()]
            if len(here) > MOST:
                rest = format_bytes(int(history["size"][here[MOST:]].sum()))
                lines.append(f"    {glyph} {name}: and {len(here) - MOST:,} smaller ones, {rest} together")
    return lines
