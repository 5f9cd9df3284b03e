"""Handles: integers that stand for streams, events, modules and the rest. None is used twice in a process.

`register` keeps a thing alive; `lend` does not.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any, Final, NamedTuple
from weakref import ref

from atops.base.errors import AtopsError
from atops.runtime.board.context import DeviceContext

__all__ = ("HANDLES", "Entry", "Remains", "bury", "lend", "register")

FIRST: Final = 1 << 48  # above every device address, so that no pointer passes for a handle
STEP: Final = 16
KEPT: Final = 1024  # dead entries below this many are not looked for


class Remains(NamedTuple):
    """What is left of a thing and of its device: what they are called, and why they are dead."""

    name: str
    dead: AtopsError | None

    def __repr__(self) -> str:
        return self.name


class Entry(NamedTuple):
    """What a handle stands for, a weak reference where that is lent, and the device it goes with; None for none."""

    thing: Any
    context: DeviceContext | Remains | None


NUMBERS = itertools.count(FIRST, STEP)
HANDLES: dict[int, Entry] = {}  # single operations of a dict are atomic, with and without the GIL
SWEEP = [KEPT]  # how many entries there may be before the dead ones are looked for


def register(thing: object, context: DeviceContext | None) -> int:
    """Return a new handle for `thing`, which it keeps alive. It dies with the device of `context`; with None, never."""
    handle = next(NUMBERS)
    HANDLES[handle] = Entry(thing, context)
    if len(HANDLES) > SWEEP[0]:
        for each, entry in HANDLES.copy().items():
            if entry.context is not None and entry.context.dead is not None:
                HANDLES.pop(each, None)
        SWEEP[0] = 2 * len(HANDLES) + KEPT
    return handle


def bury(contexts: Collection[DeviceContext]) -> None:
    """Let go of what the handles of dead devices stand for. A program that asks for one is still told what it was."""
    for handle, entry in HANDLES.copy().items():
        context = entry.context
        if isinstance(context, DeviceContext) and context in contexts and type(entry.thing) is not ref:
            remains = Remains(repr(entry.thing), context.dead)
            HANDLES[handle] = Entry(remains, remains)


def lend(thing: object, context: DeviceContext) -> int:
    """Return a new handle that is good as long as `thing` lives: it has another owner."""
    handle, handles = next(NUMBERS), HANDLES  # bound here: the module may be gone when the thing goes
    handles[handle] = Entry(ref(thing, lambda _: handles.pop(handle, None)), context)
    return handle
