"""The queues: what every stream holds now, or at the moment of the time cursor, and why its head waits."""

from __future__ import annotations

from typing import ClassVar, Final

from atops_widgets.drawing.base import TraceWidget
from atops_widgets.drawing.scene import Scene, Window
from atops_widgets.drawing.theme import Theme
from atops_widgets.queues.scene import MOST_FRAMES, Board
from atops_widgets.queues.svg import draw
from atops_widgets.queues.text import tell

__all__ = ("Queues",)

IN_TEXT: Final = 40  # streams that the text tells


class Queues(TraceWidget):
    """Draw the queue of every stream from head to tail, and tell what each head waits for and how streams failed."""

    script: ClassVar[str] = "queues/queues.js"
    label: ClassVar[str] = "Queues"
    details: ClassVar[bool] = True

    def prepare(self) -> None:
        """Make the board that keeps the lives of commands from one scene to the next."""
        self._board = Board(self.feed)

    def scene(self, window: Window) -> Scene:
        """Return what the streams held: see `Board.scene`."""
        return self._board.scene(window)

    def saved_window(self) -> Window:
        """Return what a saved picture shows: as many moments as one can go back to there."""
        return Window(options={"frames": MOST_FRAMES})

    def to_svg(self, *, width: int = 960, theme: Theme | None = None) -> str:
        """Return the queues as one `<svg>` element."""
        with self.feed.lock:
            return draw(self.scene(Window()), self.feed.texts.all, self.label, width, theme, self.feed.marks())

    def to_text(self, width: int = 100) -> str:
        """Return a line for each stream with a glyph for each command, and below it why it waits and how it failed."""
        with self.feed.lock:
            return tell(self._board.scene(Window(), IN_TEXT), self.feed.texts.all, width)
