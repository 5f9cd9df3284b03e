"""The memory map: the allocations of each device, how full it was over time, and what the bytes contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np

from atops.trace.words import format_bytes
from atops_widgets.drawing.base import TraceWidget
from atops_widgets.drawing.scene import Scene, Window, whole_option
from atops_widgets.drawing.svg import Drawing
from atops_widgets.drawing.theme import Theme
from atops_widgets.feed.feed import NOTHING
from atops_widgets.memory_map.drawing import STATES, draw, swatch
from atops_widgets.memory_map.history import RECENT, Standing
from atops_widgets.memory_map.scene import MemoryPicture

__all__ = ("MemoryMap",)

MOST: Final = 16  # ranges that are told of each bank; the largest
PARTS: Final = (("live", "#"), ("kept", "="), ("freed", "x"))
SAVED_WIDTH = 600  # pixels: a saved picture may stand beside another, and is better stretched than squeezed
LEAST_WIDTH = 400  # pixels: beside another one none is narrower


class MemoryMap(TraceWidget):
    """Draw the addresses in use of each bank, at the cursor's moment, above the curve of use over time.

    Contents of memory are read on demand, of a live driver only.
    """

    script: ClassVar[str] = "memory_map/memory_map.js"
    label: ClassVar[str] = "Memory map"
    swatches: ClassVar[Sequence[tuple[str, str]]] = tuple((name, swatch(state)) for state, name in STATES.items())
    timed: ClassVar[bool] = True
    details: ClassVar[bool] = True

    def prepare(self) -> None:
        """Make the picture that keeps what was computed from one scene to the next."""
        self._picture = MemoryPicture(self.feed)

    def scene(self, window: Window) -> Scene:
        """Return the picture of a window: see `MemoryPicture.scene`."""
        return self._picture.scene(window)

    def shows(self) -> object:
        """Return what a scene in which nothing is selected depends on; else any news count: they may be uses of it."""
        feed, options = self.feed, self.window.options
        chosen = max(feed.selection.seq, whole_option(options, "generation", NOTHING))
        if chosen != NOTHING or options.get("touches") == "all":
            return None
        rows = (feed.changes.start + len(feed.changes), feed.steps.start + len(feed.steps))
        return *rows, len(feed.races), feed.marks_version, feed.live, feed.paused

    def heard(self, message: Mapping[str, object]) -> None:
        """Look at the bytes of a range, or have the driver tell of kernel threads, as the page asks."""
        match message:
            case {"type": "contents", "generation": int(generation), "first": int(first)}:
                history = self._picture.history
                with self.feed.lock:
                    row = history.row(generation)
                    place = (int(history["device"][row]), int(history["offset"][row])) if row >= 0 else None
                if place is not None:
                    self._picture.contents.look(*place, generation, first)  # without the feed's lock
                    self.redraw()
            case {"type": "threads"}:
                self.feed.ask_details(threads=True)

    def to_svg(self, *, width: int = 960, theme: Theme | None = None) -> str:
        """Return the map at the cursor's moment as one `<svg>` element."""
        with self.feed.lock:
            scene, sketch = self._picture.sketched(Window(width=width))
            return draw(Drawing(width, self.label, theme), scene, sketch, self.feed.marks())

    def to_text(self, width: int = 100) -> str:
        """Return each bank's ranges with their owners, the largest first, and the figures."""
        with self.feed.lock:
            return _render(self._picture, width)

    def saved_window(self) -> Window:
        """Return what a saved picture shows: all lanes, with the bytes that every operation used."""
        asked = {name: self.window.options[name] for name in ("generation", "dtype") if name in self.window.options}
        return Window(width=SAVED_WIDTH, options={**asked, "touches": "all", "least": LEAST_WIDTH})


def _render(picture: MemoryPicture, width: int) -> str:
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
    rows = {name: getattr(standing, name) for name, _ in PARTS}
    every = np.concatenate(list(rows.values()))
    for bank in np.unique(history["bank"][every]).tolist():
        lines.append(f"  bank {bank}:")
        for name, glyph in PARTS:
            here = rows[name][history["bank"][rows[name]] == bank]
            here = here[np.argsort(-history["size"][here], kind="stable")]
            lines += [f"    {glyph} {name}: {picture.words.range(row)}" for row in here[:MOST].tolist()]
            if len(here) > MOST:
                rest = format_bytes(int(history["size"][here[MOST:]].sum()))
                lines.append(f"    {glyph} {name}: and {len(here) - MOST:,} smaller ones, {rest} together")
    return lines
