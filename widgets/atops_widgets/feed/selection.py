"""What the user points at: one operation and one moment, shared by every widget of a feed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ("NOTHING", "Marks", "Selection")

NOTHING: Final = -1


@dataclass(frozen=True, slots=True)
class Marks:
    """What is marked everywhere: the operation (NOTHING for none), the moment, and the operations before and after it.

    `before` is what it waited for and `after` what waits for it, as seqs. `place` is the source line that enqueued it,
    empty where it is not known, and `text` tells the operation in a sentence.
    """

    seq: int = NOTHING
    cursor_ns: int | None = None
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    place: str = ""
    text: str = ""


class Selection:
    """The selected operation and the moment of the time cursor (None: the newest). Any thread may change it."""

    def __init__(self, changed: Callable[[], object]) -> None:
        self._changed = changed
        self._state: tuple[int, int | None] = NOTHING, None

    @property
    def seq(self) -> int:
        """The selected operation, NOTHING for none."""
        return self._state[0]

    @property
    def cursor_ns(self) -> int | None:
        """The moment looked at, in nanoseconds of the driver's clock; None for the newest."""
        return self._state[1]

    def select(self, seq: int) -> None:
        """Select the operation of a seq, or NOTHING."""
        self._set(max(NOTHING, int(seq)), self._state[1])

    def look_at(self, cursor_ns: int | None) -> None:
        """Move the time cursor to a moment; None puts it to the newest."""
        self._set(self._state[0], cursor_ns)

    def _set(self, seq: int, cursor_ns: int | None) -> None:
        if (seq, cursor_ns) != self._state:
            self._state = seq, cursor_ns
            self._changed()
