"""When a widget may send: at most 30 frames a second, at most two that no view has acknowledged. Pure arithmetic.

A view that goes silent (a hidden tab, a kernel whose cell is busy and delivers nothing) slows the sending down to one
frame a second and never stops it: what is sent is the whole picture, so nothing is lost when frames are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

__all__ = ("FRAME_S", "MOST_UNACKNOWLEDGED", "PATIENCE_S", "Flow")

FRAME_S: Final = 1 / 30
MOST_UNACKNOWLEDGED: Final = 2
PATIENCE_S: Final = 1.0  # how long a view may stay silent before frames go out without its acknowledgement


@dataclass(slots=True)
class Flow:
    """The frames of one widget: their numbers, which view has acknowledged which, and when the next may go."""

    frame: int = 0
    sent_at: float = float("-inf")
    views: dict[str, int] = field(default_factory=dict)

    def hello(self, view: str, last: int) -> bool:
        """Note a view that has seen frame `last` (0: none); return whether it needs the picture anew."""
        self.views[view] = self.frame
        return last != self.frame

    def acknowledge(self, view: str, frame: int) -> None:
        """Note that a view has received a frame."""
        self.views[view] = max(self.views.get(view, 0), min(frame, self.frame))

    def bye(self, view: str) -> None:
        """Forget a view that was closed."""
        self.views.pop(view, None)

    def wait(self, now: float) -> float | None:
        """Return in how many seconds the next frame may go, 0.0 for now, None without a view."""
        if not self.views:
            return None
        unacknowledged = self.frame - min(self.views.values())
        pause = PATIENCE_S if unacknowledged >= MOST_UNACKNOWLEDGED else FRAME_S
        return max(0.0, self.sent_at + pause - now)

    def sent(self, now: float) -> int:
        """Count a frame that goes out now, and return its number."""
        self.frame += 1
        self.sent_at = now
        return self.frame
