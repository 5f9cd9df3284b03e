"""The timeline: one row a stream, copy engines and clusters below, arrows of waits, critical path, overlap."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from atops.trace.text import describe, render_text
from atops_widgets.drawing.base import TraceWidget
from atops_widgets.drawing.scene import Scene, Window
from atops_widgets.drawing.theme import Theme
from atops_widgets.timeline.scene import Timetable
from atops_widgets.timeline.svg import MARGIN, draw

__all__ = ("Timeline",)

TOLD: Final = 2000  # records that the text tells; the newest


class Timeline(TraceWidget):
    """Draw when every command ran. Drag or use the arrow keys to move, the wheel or + and - to zoom."""

    script: ClassVar[str] = "timeline/timeline.js"
    label: ClassVar[str] = "Timeline"

    def prepare(self) -> None:
        """Make the timetable that keeps what was computed from one scene to the next."""
        self._timetable = Timetable(self.feed)

    def scene(self, window: Window) -> Scene:
        """Return the picture of a window: see `Timetable.scene`."""
        return self._timetable.scene(window)

    def saved_window(self) -> Window:
        """Return everything, finely, with the critical path, which a page can show without asking."""
        return Window(width=4096, options={"path": True})

    def to_svg(self, *, width: int = 960, theme: Theme | None = None) -> str:
        """Return the whole trace as one `<svg>` element."""
        with self.feed.lock:
            scene = self.scene(Window(width=max(100, width - MARGIN)))
            marks, origin = self.feed.marks(), self.feed.origin_ns
            if marks.cursor_ns is not None:
                marks = replace(marks, cursor_ns=marks.cursor_ns - origin)
            return draw(scene, self.feed.texts.all, self.label, width, theme, marks)

    def to_text(self, width: int = 100) -> str:
        """Return a line for each stream, and then the newest records in sentences."""
        trace, held, origin = self.feed.trace(TOLD), len(self.feed.records), self.feed.origin_ns
        parts = [f"the newest {TOLD:,} of {held:,} records"] if held > TOLD else []
        parts.append(render_text(trace.records, width, colour=False, names=trace.names, origin_ns=origin))
        told = describe(trace.records, names=trace.names, origin_ns=origin).splitlines()
        return "\n".join([*parts, *told[1:]])  # the first line has the figures, which stand below the drawing
