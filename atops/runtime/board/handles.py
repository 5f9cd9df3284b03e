"""Handles: integers that stand for streams, events, modules and the rest. None is used twice in a process.

`register` keeps a thing alive; `lend` does not.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection
from typing import Final, NamedTuple, Protocol, runtime_checkable
from weakref import ref

from atops.base.errors import AtopsError, InvalidType
from atops.runtime.board.context import DeviceContext

__all__ = ("HANDLES", "HandleEntry", "IsStream", "Remains", "bury", "handle_from", "lend", "register")

PROTOCOL: Final = 0  # the version that `__tops_stream__` names

FIRST: Final = 1 << 48  # above every device address, so that no pointer passes for a handle
STEP: Final = 16
KEPT: Final = 1024  # dead entries below this many are not looked for


class Remains(NamedTuple):
    """What is left of a thing and of its device: what they are called, and why they are dead."""

    name: str
    dead: AtopsError | None

    def __repr__(self) -> str:
        return self.name


class HandleEntry(NamedTuple):
    """What a handle stands for, a weak reference where that is lent, and the device it goes with; None for none."""

    thing: object
    context: DeviceContext | Remains | None


NUMBERS = itertools.count(FIRST, STEP)
HANDLES: dict[int, HandleEntry] = {}  # single operations of a dict are atomic, with and without the GIL
SWEEP = [KEPT]  # how many entries there may be before the dead ones are looked for


def register(thing: object, context: DeviceContext | None) -> int:
    """Return a new handle for `thing`, which it keeps alive. It dies with the device of `context`; with None, never."""
    handle = next(NUMBERS)
    HANDLES[handle] = HandleEntry(thing, context)
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
            HANDLES[handle] = HandleEntry(remains, remains)


def lend(thing: object, context: DeviceContext) -> int:
    """Return a new handle that is good as long as `thing` lives: it has another owner."""
    handle, handles = next(NUMBERS), HANDLES  # bound here: the module may be gone when the thing goes
    handles[handle] = HandleEntry(ref(thing, lambda _: handles.pop(handle, None)), context)
    return handle


@runtime_checkable
class IsStream(Protocol):
    """What works wherever a Stream does: an object, of any library, whose type has `__tops_stream__`.

    The method returns (0, handle): the protocol's version, and a handle that a C-style call returned, another Stream's,
    0 for the null stream of the current device, or 2 for this thread's own stream there.
    """

    def __tops_stream__(self) -> tuple[int, int]:
        """Return (0, handle)."""
        ...


def handle_from(owner: object) -> int:
    """Return the handle that an object names by `__tops_stream__`.

    Raises InvalidType for any other answer, for what is no method, and, with its cause, where the method raises.
    """
    method = getattr(type(owner), "__tops_stream__", None)
    if method is None:
        raise InvalidType(f"{owner!r} is no stream; expected an object whose __tops_stream__ returns (0, handle)")
    if not callable(method):
        raise InvalidType(
            f"__tops_stream__ of {type(owner).__name__} is {method!r}; expected a method that returns (0, handle)"
        )
    try:
        answer = method(owner)
    except AtopsError:  # what a stream of this library has to say: it was closed, or its device reset
        raise
    except Exception as error:
        raise InvalidType(
            f"__tops_stream__ of {type(owner).__name__} raised {error!r}; expected (0, handle)"
        ) from error
    try:
        version, handle = (operator.index(each) for each in answer)
    except (TypeError, ValueError):
        version, handle = -1, 0
    if version != PROTOCOL or isinstance(answer, str | bytes):
        raise InvalidType(f"__tops_stream__ of {type(owner).__name__} returned {answer!r}; expected (0, handle)")
    return handle
