"""The cluster grid: the blocks and SIP threads of one launch, step by step, beside the lines where they stand."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import ClassVar

from atops.trace.words import format_bytes
from atops_widgets.cluster_grid.scene import Stage
from atops_widgets.cluster_grid.svg import draw
from atops_widgets.cluster_grid.words import STATES
from atops_widgets.drawing.base import TraceWidget
from atops_widgets.drawing.scene import Scene, Window
from atops_widgets.drawing.svg import Drawing
from atops_widgets.drawing.theme import Theme
from atops_widgets.feed.feed import FeedSource

__all__ = ("ClusterGrid",)


class ClusterGrid(TraceWidget):
    """Draw what every thread of a launch does at one of its steps, and go through them forwards and backwards."""

    script: ClassVar[str] = "cluster_grid/cluster_grid.js"
    label: ClassVar[str] = "Cluster grid"

    def __init__(self, source: FeedSource = None, *, threads: bool = False, board: object = None) -> None:
        """Show `source`: see `feed_of`. `threads` has the driver record every step of its launches from now on.

        That makes launches many times slower; the widget's own button does the same later.
        """
        super().__init__(source, board=board)
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
            drawing, feed = Drawing(width, self.label, theme), self.feed
            return draw(drawing, self.scene(Window()), feed.marks(), feed.told_races())

    def to_text(self, width: int = 100) -> str:
        """Return the launch at the step on show: threads, their waits, and the source lines they stand at."""
        with self.feed.lock:
            return _describe(self.scene(Window()), width)

    def shows(self) -> object:
        """Return what a scene without steps depends on; with steps any news count."""
        feed = self.feed
        return None if len(feed.steps) else (feed.live, feed.tells_steps, feed.marks_version)

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


def _describe(scene: Scene, width: int) -> str:
    """Return the text of a scene."""
    told = scene.told
    parts = [str(told["say"])]
    if told["blocks"]:
        letters = ", ".join(f"{letter} {words}" for _, letter, words, _ in told["states"])
        parts += ["", f"Each letter is a thread: {letters}."]
        parts += _blocks(scene)
    if told["waits"]:
        parts += ["", "Waits:"]
        for threads, what, missing, hope, _ in told["waits"]:
            text = f"{threads} at {what}, waiting for {missing}: {hope}"
            parts += textwrap.wrap(text, max(40, width), initial_indent="  ", subsequent_indent="    ")
    for number, (title, rows) in enumerate(told["sections"]):
        parts += ["", f"{title}:"]
        for line, text in rows:
            here = [f"{count}{STATES[turn][0]}" for *place, turn, count in told["stands"] if place == [number, line]]
            parts.append(f"{' '.join(here):>9} {line:>5} {text}".rstrip())
    return "\n".join(parts)


def _blocks(scene: Scene) -> list[str]:
    told, turns = scene.told, scene.columns["turn"].astype(int).tolist()
    parts, at, before = [], 0, None
    for block, cluster, l2_bytes, threads in told["blocks"]:
        if cluster != before:
            before = cluster
            parts.append(f"cluster {cluster}" if cluster >= 0 else "clusters not told")
        letters = "".join(STATES[turn][0] for turn in turns[at : at + threads])
        used = sum(scene.columns["l1_bytes"][at : at + threads].tolist())
        at += threads
        parts.append(f"  block {block:<5} {letters}  L1 {format_bytes(int(used))} in all, L2 {format_bytes(l2_bytes)}")
    more = told["all_blocks"] - told["first"] - len(told["blocks"])
    if told["first"] or more > 0:
        parts.append(f"  {told['first']:,} blocks before these and {max(0, more):,} after them are not told")
    return parts
