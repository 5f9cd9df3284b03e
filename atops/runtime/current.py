"""Which device is meant when none is named: a context variable over a thread's default.

A task that never chose one reads its thread's choice, so that a choice made in one notebook cell holds in the next.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar, Token

__all__ = ("ThreadChoice", "current_ordinal", "restore_ordinal", "set_ordinal")

TASK: ContextVar[int | None] = ContextVar("atops_current_device", default=None)


class ThreadChoice(threading.local):
    """The choice of one thread."""

    ordinal = 0


THREAD = ThreadChoice()


def current_ordinal() -> int:
    """Return the ordinal of the current device."""
    chosen = TASK.get()
    return THREAD.ordinal if chosen is None else chosen


def set_ordinal(ordinal: int) -> tuple[Token[int | None], int]:
    """Make a device current for this task, and the default of this thread. Returns what `restore_ordinal` takes."""
    before = THREAD.ordinal
    THREAD.ordinal = ordinal
    return TASK.set(ordinal), before


def restore_ordinal(saved: tuple[Token[int | None], int]) -> None:
    """Undo a `set_ordinal` of the same task."""
    token, THREAD.ordinal = saved
    TASK.reset(token)
