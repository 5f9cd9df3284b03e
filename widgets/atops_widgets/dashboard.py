"""The picture of `watch()`: all widgets of one feed, linked, in one layout and with one legend."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import ipywidgets
import numpy as np

from atops.base.trace.records import Kind
from atops_widgets.cluster_grid.cluster_grid import ClusterGrid
from atops_widgets.drawing.base import TraceWidget, page
from atops_widgets.feed.feed import Feed, FeedSource, feed_of
from atops_widgets.memory_map.memory_map import MemoryMap
from atops_widgets.queues.queues import Queues
from atops_widgets.timeline.timeline import Timeline

__all__ = ("WIDGETS", "Dashboard", "watch")

WIDGETS: Final[list[type[TraceWidget]]] = [Timeline, Queues, MemoryMap, ClusterGrid]  # in the order shown
BESIDE: Final = (Queues, MemoryMap)  # next to each other where the page is wide enough; the others have its width
OF_KINDS: Final = (Timeline, Queues)  # the first of these explains the kinds of commands for all
COLUMNS: Final = "repeat(auto-fit, minmax(min(100%, 560px), 1fr))"


class Dashboard(ipywidgets.GridBox):
    """Several widgets of one feed, linked."""

    def __init__(
        self, source: FeedSource = None, widgets: Sequence[type[TraceWidget]] | None = None, *, threads: bool = False
    ) -> None:
        """Show `source` (see `feed_of`) in `widgets`, or in all there are.

        `threads` has a driver record every step of its kernel threads from now on, which makes launches many times
        slower; the cluster grid's button does the same later.
        """
        self.feed: Feed = feed_of(source)
        self.widgets = [kind(self.feed) for kind in (WIDGETS if widgets is None else widgets)]
        for number, widget in enumerate(each for each in self.widgets if isinstance(each, OF_KINDS)):
            widget.legend = list if number else self._kinds
        if threads:
            self.feed.ask_details(threads=True)
        layout = ipywidgets.Layout(grid_template_columns=COLUMNS, grid_gap="8px", align_items="flex-start")
        super().__init__(self.widgets, layout=layout)
        for widget in self.widgets:
            widget.layout.grid_column = "auto" if isinstance(widget, BESIDE) else "1 / -1"

    def stop(self) -> None:
        """Read no more, and save the pictures in the notebook."""
        self.feed.stop()

    def to_svg(self) -> str:
        """Return each picture as an `<svg>` element, in a `<div>` of its own."""
        return "".join(f"<div>{widget.to_svg()}</div>" for widget in self.widgets)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return one HTML page that needs nothing else, with all pictures, linked; write it to `path`."""
        return page("atops", self.widgets, path, [widget for widget in self.widgets if isinstance(widget, BESIDE)])

    def to_text(self, width: int = 100) -> str:
        """Return all pictures as text."""
        return "\n\n".join(f"{widget.label}\n{widget.to_text(width)}" for widget in self.widgets)

    def _kinds(self) -> list[int]:
        """Return the kinds of all commands that any of the widgets may show."""
        counts = [np.bincount(rows["kind"], minlength=len(Kind)) for rows in (self.feed.records, self.feed.moments)]
        kinds: list[int] = np.flatnonzero(counts[0] + counts[1]).tolist()
        return kinds

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict[str, Any], dict[str, Any]] | dict[str, Any] | None:
        self.feed.poll()  # so that the SVGs show what is over by now
        if not self.feed.live:
            for widget in self.widgets:
                widget.rest()
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            data = bundle[0] if isinstance(bundle, tuple) else bundle
            data["text/html"] = self.to_svg()
            data["text/plain"] = self.to_text()
        return bundle  # type: ignore[no-any-return]  # ipywidgets has no types

    def __repr__(self) -> str:
        return f"<Dashboard of {self.feed!r}>"


def watch(source: FeedSource = None, *, threads: bool = False) -> Dashboard:
    """Show what a driver does while it does it: the current one, or another; or a recorded trace, or its file.

    With `threads` also what kernel threads do, step by step, which makes launches many times slower.
    """
    return Dashboard(source, threads=threads)
