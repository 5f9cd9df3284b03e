"""The memory map: the allocations of each device, how full it was over time, and what the bytes contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from atops_widgets.drawing.base import TraceWidget
from atops_widgets.drawing.scene import Scene, Window
from atops_widgets.drawing.theme import Theme
from atops_widgets.memory_map.drawing import STATES, swatch
from atops_widgets.memory_map.scene import MemoryPicture
from atops_widgets.memory_map.svg import draw
from atops_widgets.memory_map.text import render

__all__ = ("MemoryMap",)

SAVED_WIDTH = 600  # pixels: a saved picture may stand beside another, and is better stretched than squeezed


class MemoryMap(TraceWidget):
    """Draw the addresses in use of each bank, at the cursor's moment, above the curve of use over time.

    Contents of memory are read on demand, of a live driver only.
    """

    script: ClassVar[str] = "memory_map/memory_map.js"
    label: ClassVar[str] = "Memory map"
    swatches: ClassVar[Sequence[tuple[str, str]]] = tuple((name, swatch(state)) for state, name in STATES.items())
    details: ClassVar[bool] = True

    def prepare(self) -> None:
        """Make the picture that keeps what was computed from one scene to the next."""
        self._picture = MemoryPicture(self.feed)

    def scene(self, window: Window) -> Scene:
        """Return the picture of a window: see `MemoryPicture.scene`."""
        return self._picture.scene(window)

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
            return draw(*self._picture.sketched(Window(width=width)), self.label, width, theme, self.feed.marks())

    def to_text(self, width: int = 100) -> str:
        """Return each bank's ranges with their owners, the largest first, and the figures."""
        with self.feed.lock:
            return render(self._picture, width)

    def saved_window(self) -> Window:
        """Return what a saved picture shows: all lanes, with the bytes that every operation used."""
        asked = {name: self.window.options[name] for name in ("generation", "dtype") if name in self.window.options}
        return Window(width=SAVED_WIDTH, options={**asked, "touches": "all"})
