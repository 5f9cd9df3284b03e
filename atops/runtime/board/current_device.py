"""Which driver is meant when none is named, which of its devices, and which stream of a device: one context variable.

It holds a stack of levels: one for what is chosen outside of any block, and one for each `async with driver:`,
`with device:` and `with stream:` that is not left; a device or a stream brings its driver. What is chosen inside a
block is forgotten with it. A task or a thread never sees another's choice; a task begins with that of the code that
made it, a thread with none: the process-wide driver, device 0, and its null stream.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atops.runtime.board.context import DeviceContext
    from atops.runtime.driver_board import Board
    from atops.runtime.stream import Stream

__all__ = (
    "DEFAULT", "Level", "chosen_board", "current_ordinal", "current_stream", "enter", "known_board", "leave",
    "repeat_after_cell", "use_device", "use_stream",
)  # fmt: skip

BOARDS = 1024  # whose devices may have been chosen in one level


@dataclass(frozen=True, slots=True)
class Level:
    """What was chosen in one block. Contexts share levels, so none is ever changed."""

    block: object  # the driver, device or stream that was entered; None outside of any block
    board: Board | None  # None outside of any block: the process-wide one
    ordinals: Mapping[int, int]  # devices by the serial numbers of their boards
    streams: Mapping[DeviceContext, Stream]


NONE: Mapping[DeviceContext, Stream] = {}
OUTSIDE = Level(None, None, {}, {})
CHOSEN: ContextVar[tuple[Level, ...]] = ContextVar("atops_current_device", default=(OUTSIDE,))
DEFAULT: list[Board] = []  # the process-wide driver, once there is one


def chosen_board() -> Board | None:
    """Return the driver of the innermost block, or of what was chosen there; None for the process-wide one.

    A choice outside of any block ends when its driver is closed.
    """
    levels = CHOSEN.get()
    board = levels[-1].board
    return None if board is not None and board.closed is not None and len(levels) == 1 else board


def known_board() -> Board | None:
    """Return the current driver; None as long as that is a process-wide one which has not started."""
    return chosen_board() or (DEFAULT[0] if DEFAULT else None)


def current_ordinal(board: int) -> int:
    """Return the ordinal of the current device of a board, which is known by its serial number."""
    for level in reversed(CHOSEN.get()):
        if board in level.ordinals:
            return level.ordinals[board]
    return 0


def current_stream(context: DeviceContext) -> Stream | None:
    """Return the current stream of a device; None where there is none."""
    for level in reversed(CHOSEN.get()):
        if context in level.streams:
            return level.streams[context]
    return None


def enter(
    block: object, board: Board, ordinal: int | None = None, streams: Mapping[DeviceContext, Stream] = NONE
) -> None:
    """Make a driver current until `leave(block)`, one of its devices, and a stream of that.

    Blocks may be entered again and again.
    """
    ordinals = {} if ordinal is None else {board.serial: ordinal}
    CHOSEN.set((*CHOSEN.get(), Level(block, board, ordinals, streams)))


def leave(block: object) -> None:
    """Undo the last `enter` of an equal block, whatever was entered since. In a context without one nothing happens."""
    levels = CHOSEN.get()
    last = next((place for place in range(len(levels) - 1, 0, -1) if levels[place].block == block), 0)
    if last:
        CHOSEN.set(levels[:last] + levels[last + 1 :])


def use_device(board: Board, ordinal: int) -> None:
    """Make a driver and one of its devices current until others are, or the innermost block is left."""
    *outer, level = CHOSEN.get()
    kept = {**level.ordinals}
    kept.pop(board.serial, None)
    kept = dict(islice(kept.items(), max(0, len(kept) + 1 - BOARDS), None))  # those chosen longest ago are closed
    current = None if not outer and board in DEFAULT else board
    CHOSEN.set((*outer, replace(level, board=current, ordinals={**kept, board.serial: ordinal})))
    if not outer:
        repeat_after_cell(partial(use_device, board, ordinal))


def use_stream(stream: Stream, context: DeviceContext) -> None:
    """Make a stream, its device and its driver current until others are, or the innermost block is left."""
    use_device(context.board, context.ordinal)
    *outer, level = CHOSEN.get()
    kept = {of: each for of, each in level.streams.items() if of.dead is None and not each.closed}
    CHOSEN.set((*outer, replace(level, streams={**kept, context: stream})))
    if not outer:
        repeat_after_cell(partial(use_stream, stream, context))


def repeat_after_cell(choose: Callable[[], None]) -> None:
    """Make a choice again in the notebook's own context when this cell is over, where the cell is a task of its own.

    IPython runs cells without an `await` in one context, and each of the others in a task with a copy of it.
    `post_execute` is called in the notebook's context, of several threads in the cell's.
    """
    shells = sys.modules.get("IPython.core.interactiveshell")
    if shells is None or not shells.InteractiveShell.initialized():
        return
    with suppress(RuntimeError):  # no asyncio loop runs here: the cell is not a task
        task = asyncio.current_task()
        if task is None or getattr(task.get_coro(), "__name__", "") != "run_cell_async":
            return
        events, thread = shells.InteractiveShell.instance().events, threading.get_ident()

        def repeat() -> None:
            if threading.get_ident() == thread:
                events.unregister("post_execute", repeat)
                choose()

        events.register("post_execute", repeat)
