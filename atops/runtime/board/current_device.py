"""Which device is meant when none is named, and which stream of a device: context variables.

A task that never chose a device of a board reads its thread's choice, so that a choice made in one notebook cell holds
in the next; another board's is another choice. A stream is current inside `with stream:` only. It knows boards by their
serial numbers, and nothing of what a device or a stream is.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar, Token
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atops.runtime.board.context import DeviceContext
    from atops.runtime.stream import Stream

__all__ = (
    "ThreadChoice",
    "current_ordinal",
    "current_stream",
    "enter_stream",
    "leave_stream",
    "restore_ordinal",
    "set_ordinal",
)

BOARDS = 1024  # whose devices a thread or a task may have chosen among
Choices = Mapping[int, int]  # ordinals by the serial number of the board

TASK: ContextVar[Choices] = ContextVar("atops_current_device", default=MappingProxyType({}))
ENTERED: ContextVar[tuple[Stream, ...]] = ContextVar("atops_current_streams", default=())


class ThreadChoice(threading.local):
    """The choices of one thread."""

    ordinals: Choices = MappingProxyType({})


THREAD = ThreadChoice()


def current_ordinal(board: int) -> int:
    """Return the ordinal of the current device of a board, which is known by its serial number."""
    chosen = TASK.get().get(board)
    return THREAD.ordinals.get(board, 0) if chosen is None else chosen


def set_ordinal(board: int, ordinal: int) -> tuple[Token[Choices], Choices]:
    """Make a device current for this task, and the default of this thread. Returns what `restore_ordinal` takes."""
    before = THREAD.ordinals
    THREAD.ordinals = _with(before, board, ordinal)
    return TASK.set(_with(TASK.get(), board, ordinal)), before


def _with(choices: Choices, board: int, ordinal: int) -> Choices:
    """Return choices with a new one; of many boards those chosen longest ago are forgotten, as they are closed."""
    kept = {**choices}
    kept.pop(board, None)
    return {**dict(islice(kept.items(), max(0, len(kept) + 1 - BOARDS), None)), board: ordinal}


def restore_ordinal(saved: tuple[Token[Choices], Choices]) -> None:
    """Undo a `set_ordinal` of the same task."""
    token, THREAD.ordinals = saved
    with suppress(ValueError):  # left in another context than it was entered in: that one made no choice
        TASK.reset(token)


# ---- streams


def current_stream(context: DeviceContext) -> Stream | None:
    """Return the stream of a device that this task entered last and has not left; None where there is none."""
    return next((stream for stream in reversed(ENTERED.get()) if stream.context is context), None)


def enter_stream(stream: Stream) -> None:
    """Make a stream its device's current one for this task, until `leave_stream`. It may be so several times over."""
    ENTERED.set((*ENTERED.get(), stream))


def leave_stream(stream: Stream) -> None:
    """Undo the last `enter_stream` of this stream. Without one nothing happens."""
    entered = ENTERED.get()
    last = next((place for place in range(len(entered) - 1, -1, -1) if entered[place] is stream), None)
    if last is not None:
        ENTERED.set(entered[:last] + entered[last + 1 :])
