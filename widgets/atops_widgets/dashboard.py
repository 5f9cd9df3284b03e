"""The picture of `watch()`: all widgets of one feed on one board, which is one widget, with one legend."""

from __future__ import annotations

import base64
import os
from collections import deque
from collections.abc import Sequence
from numbers import Real
from secrets import token_hex
from typing import Any, ClassVar, Final
from weakref import ref

import numpy as np
import traitlets

from atops.base.errors import InvalidValue
from atops.runtime.driver import Driver
from atops_widgets.cluster_grid.cluster_grid import ClusterGrid
from atops_widgets.drawing.base import FeedWidget, TraceWidget
from atops_widgets.drawing.page import below, board_script, page
from atops_widgets.drawing.theme import LAYOUT, style_sheet
from atops_widgets.feed.feed import FeedSource, feed_of, new_feed
from atops_widgets.feed.pace import tried
from atops_widgets.memory_map.memory_map import MemoryMap
from atops_widgets.queues.queues import Queues
from atops_widgets.timeline.timeline import Timeline

__all__ = ("WIDGETS", "Dashboard", "PartComm", "watch")

WIDGETS: Final[list[type[TraceWidget]]] = [Timeline, Queues, MemoryMap, ClusterGrid]  # in the order shown
BESIDE: Final = (Queues, MemoryMap)  # next to each other where the page is wide enough; the others have its width
OF_KINDS: Final = (Timeline, Queues)  # the first of these explains the kinds of commands for all
BOARD: Final = ":is(.atops,.atops-board)"
SCRIPTS: Final = tuple(kind.script for kind in WIDGETS)


class Dashboard(FeedWidget):
    """Several widgets of one feed on one board, linked. `widgets` are its parts, in the order shown."""

    label: ClassVar[str] = "atops"
    _esm = board_script(SCRIPTS)
    _css = style_sheet(BOARD) + LAYOUT

    parts: traitlets.List[Any] = traitlets.List().tag(sync=True)
    snapshots: traitlets.List[Any] = traitlets.List().tag(sync=True)
    span = traitlets.List(traitlets.Float()).tag(sync=True)

    def __init__(
        self, source: FeedSource = None, widgets: Sequence[type[TraceWidget]] | None = None, *, threads: bool = False
    ) -> None:
        """Show `source` (see `feed_of`) in `widgets`, or in all there are.

        `threads` has a driver record every step of its kernel threads from now on, which makes launches many times
        slower; the cluster grid's button does the same later.
        """
        kinds = WIDGETS if widgets is None else widgets
        feed = feed_of(source)
        self._told: deque[tuple[int, object, list[Any]]] = deque()  # what parts say while they draw
        self._draws = False
        self._known_kinds: set[int] = set()
        self._read = [0, 0, 0]  # rows of records, moments, and of the host, that these are of
        self.widgets = [kind(feed, board=PartComm(self, number)) for number, kind in enumerate(kinds)]
        for number, widget in enumerate(each for each in self.widgets if isinstance(each, OF_KINDS)):
            widget.legend = list if number else self._kinds
        if threads:
            feed.ask_details(threads=True)
        tables = [
            {**widget.table, "part": number, "beside": isinstance(widget, BESIDE)}
            for number, widget in enumerate(self.widgets)
        ]
        super().__init__(feed, parts=tables)
        for widget in self.widgets:
            if isinstance(widget, Timeline):
                traitlets.link((self, "span"), (widget, "span"))

    @property
    def seen(self) -> bool:
        """True while a page shows it."""
        return any(widget.seen for widget in self.widgets)

    def tick(self, now: float) -> float | None:
        """Send the frames of all parts that are due, in one message; return when to come again."""
        self._follow()
        self._draws = True
        asked = [tried("%r could not be drawn", widget, widget.tick, now) for widget in self.widgets]
        self._draws = False
        self._send_told()
        return min((wait for wait in asked if wait is not None), default=None)

    def tell(self, part: int, content: object, buffers: list[Any]) -> None:
        """Send what a part says to the page: at once, or with what other parts say that draw, too."""
        self._told.append((part, content, buffers))
        if not self._draws:
            self._send_told()

    def _send_told(self) -> None:
        told = []
        while self._told:  # another thread may add to it
            told.append(self._told.popleft())
        if told:
            parts = [[part, content, len(buffers)] for part, content, buffers in told]
            self.send({"parts": parts}, buffers=[each for _, _, buffers in told for each in buffers])

    def stop(self) -> None:
        """Read no more; the picture in the notebook becomes one that needs no kernel."""
        self.feed.stop()

    def close(self) -> None:
        """Take the views away and look no more. Closing twice is allowed."""
        for widget in self.widgets:
            widget.close()
        super().close()

    def module(self) -> str:
        """Return the ES module of the board."""
        return board_script(SCRIPTS)

    def held(self) -> dict[str, object]:
        """Return what its script is given on a page without Python."""
        snapshots = [base64.b64encode(widget.packed()).decode() for widget in self.widgets]
        return {"parts": self.parts, "snapshots": snapshots}

    def save(self) -> None:
        """Write the compressed pictures that a saved notebook shows."""
        self.snapshots = [widget.packed() for widget in self.widgets]

    def to_svg(self) -> str:
        """Return each picture as an `<svg>` element, in a `<div>` of its own."""
        return below(self.drawings().values())

    def drawings(self) -> dict[str, str]:
        """Return each picture's SVG by its label."""
        return {widget.label: widget.to_svg() for widget in self.widgets}

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return one HTML page that needs nothing else, with all pictures, linked; write it to `path`."""
        return page(self.label, self, path)

    def to_text(self, width: int = 100) -> str:
        """Return all pictures as text."""
        return "\n\n".join(f"{widget.label}\n{widget.to_text(width)}" for widget in self.widgets)

    def _kinds(self) -> list[int]:
        """Return the kinds of all commands that any of the widgets may show."""
        for place, rows in enumerate((self.feed.records, self.feed.moments, self.feed.host.rows)):
            fresh = rows["kind"][rows.since(self._read[place])]
            self._known_kinds.update(np.flatnonzero(np.bincount(fresh)).tolist())
            self._read[place] = rows.start + len(rows)
        return sorted(self._known_kinds)

    def _arrived(self, _widget: object, content: object, buffers: object) -> None:
        """Hand what a page says to the parts that it is for. Anything else is ignored."""
        parts = content.get("parts") if isinstance(content, dict) else None
        for told in parts if isinstance(parts, list) else []:
            match told:
                case [int(part), said] if 0 <= part < len(self.widgets):
                    self.widgets[part]._arrived(self, said, buffers)

    def __repr__(self) -> str:
        return f"<Dashboard of {self.feed!r}>"


class PartComm:
    """What a part of a board has instead of a comm of its own: its messages go through the board's."""

    kernel = True

    def __init__(self, board: Dashboard, part: int) -> None:
        self._board = ref(board)
        self._part = part
        self.comm_id = token_hex(16)

    def send(self, data: Any = None, metadata: Any = None, buffers: Any = None) -> None:
        """Forward a message of the part's own; its traits are the board's affair."""
        board = self._board()
        if board is not None and data["method"] == "custom":
            board.tell(self._part, data["content"], buffers or [])

    def on_msg(self, callback: object) -> None:
        """Ignore listeners: the board hears the page."""

    def on_close(self, callback: object) -> None:
        """Ignore listeners of the end."""

    def close(self, *_: object, **__: object) -> None:
        """There is nothing to close."""


def watch(
    source: FeedSource = None, *, threads: bool = False, since: float = 0.0, share: float | None = None
) -> Dashboard:
    """Show what a driver does while it does it: the current one, or another; or a recorded trace, or its file.

    Of a driver it shows what happens from now on, and what ended up to `since` seconds of its clock before (`math.inf`:
    all that its trace holds). With `threads` also what kernel threads do, step by step, which makes launches many times
    slower. `share` is the part of one processor that reading and drawing may take, whatever the program does; without
    it, 0.05 while the program uses a quarter of one or more, up to 0.15 while it uses none. What comes
    faster than they follow is missed, and counted in the corner. Raises InvalidValue for a `since` below 0, and a
    `share` outside of 0 to 1, also for what is no number.
    """
    if not isinstance(since, Real) or not since >= 0:
        raise InvalidValue(f"since expects seconds, at least 0, got {since!r}")
    if share is not None and (not isinstance(share, Real) or not 0 < share <= 1):
        raise InvalidValue(f"share expects a part of one processor, above 0 and at most 1, got {share!r}")
    if source is None or isinstance(source, Driver):
        source = new_feed(source, since, share)
    return Dashboard(source, threads=threads)
