"""The cluster grid: the blocks and SIP threads of one launch, step by step, beside the lines where they stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from atops_widgets.cluster_grid.scene import Stage
from atops_widgets.cluster_grid.svg import draw
from atops_widgets.cluster_grid.text import describe
from atops_widgets.drawing.base import TraceWidget
from atops_widgets.drawing.scene import Scene, Window
from atops_widgets.drawing.theme import Theme
from atops_widgets.feed.feed import FeedSource

__all__ = ("ClusterGrid",)


class ClusterGrid(TraceWidget):
    """Draw what every thread of a launch does at one of its steps, and go through them forwards and backwards."""

    script: ClassVar[str] = "cluster_grid/cluster_grid.js"
    label: ClassVar[str] = "Cluster grid"

    def __init__(self, source: FeedSource = None, *, threads: bool = False) -> None:
        """Show `source`: see `feed_of`. `threads` has the driver record every step of its launches from now on.

        That makes launches many times slower; the widget's own button does the same later.
        """
        super().__init__(source)
        if threads:
            self.feed.ask_details(threads=True)

    def prepare(self) -> None:
        """Make the stage, which keeps the launch and the step on show."""
        self._stage = Stage(self.feed)

    def scene(self, window: Window) -> Scene:
        """Return the picture: see `Stage.scene`."""
        return self._stage.scene(window)

    def saved_window(self) -> Window:
        """Return the page with the step on show, and the steps themselves to go through without Python."""
        return Window(options={"replay": True})

    def to_svg(self, *, width: int = 960, theme: Theme | None = None) -> str:
        """Return the launch at the step on show as one `<svg>` element."""
        with self.feed.lock:
            return draw(self.scene(Window()), self.label, width, theme, self.feed.marks())

    def to_text(self, width: int = 100) -> str:
        """Return the launch at the step on show: threads, their waits, and the source lines they stand at."""
        with self.feed.lock:
            return describe(self.scene(Window()), width)

    def heard(self, message: Mapping[str, object]) -> None:
        """Go to a step, follow the newest one, or have threads traced or not."""
        with self.feed.lock:
            match message:
                case {"type": "step", "to": int(position)} if not isinstance(position, bool):
                    self._stage.go(position)
                case {"type": "step", "to": "newest"}:
                    self._stage.follow()
                case {"type": "threads", "on": True}:
                    self.feed.ask_details(threads=True)
                case {"type": "threads", "on": False}:
                    self.feed.end_threads()
                case _:
                    return
        self.redraw()
