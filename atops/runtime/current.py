"""Which device is meant when none is named, and which stream of a device: context variables.

A task that never chose a device reads its thread's choice, so that a choice made in one notebook cell holds in the
next. A stream is current inside `with stream:` only; it knows nothing of what either is.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar, Token
from typing import Any

__all__ = (
    "ThreadChoice",
    "current_ordinal",
    "current_stream",
    "enter_stream",
    "leave_stream",
    "restore_ordinal",
    "set_ordinal",
)

TASK: ContextVar[int | None] = ContextVar("atops_current_device", default=None)
ENTERED: ContextVar[tuple[Any, ...]] = ContextVar("atops_current_streams", default=())


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


# ---- streams


def current_stream(context: Any) -> Any:
    """Return the stream of a device that this task entered last and has not left; None where there is none."""
    return next((stream for stream in reversed(ENTERED.get()) if stream.context is context), None)


def enter_stream(stream: Any) -> None:
    """Make a stream its device's current one for this task, until `leave_stream`. It may be so several times over."""
    ENTERED.set((*ENTERED.get(), stream))


def leave_stream(stream: Any) -> None:
    """Undo the last `enter_stream` of this stream. Without one nothing happens."""
    entered = ENTERED.get()
    last = next((place for place in range(len(entered) - 1, -1, -1) if entered[place] is stream), None)
    if last is not None:
        ENTERED.set(entered[:last] + entered[last + 1 :])
