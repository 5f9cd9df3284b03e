"""Opaque handles: integers that stand for streams, events, modules and the rest, and never for two things in a process.

A handle is dead when its object is destroyed, its device reset or its driver closed, and foreign on another board. The
registry keeps what it stands for alive; it does not know what the things are.
"""

from __future__ import annotations

import itertools
from typing import Any, Final, NamedTuple, TypeVar

from atops.base.errors import InvalidHandle
from atops.runtime.context import DeviceContext
from atops.runtime.event import Event
from atops.runtime.stream import Stream
from atops.tops._context import current_device, current_driver, null_stream, per_thread_stream
from atops.tops.constants import topsStreamPerThread

__all__ = ("Entry", "drop", "event_of", "live", "register", "stream_of", "take", "usable_stream_of")

T = TypeVar("T")

FIRST: Final = 1 << 48  # above every device address, so that no pointer passes for a handle
STEP: Final = 16
KEPT: Final = 1024  # dead entries below this many are not looked for


class Entry(NamedTuple):
    """What a handle stands for, and the device it goes with; None for what outlives devices."""

    thing: Any
    context: DeviceContext | None


NUMBERS = itertools.count(FIRST, STEP)
HANDLES: dict[int, Entry] = {}  # single operations of a dict are atomic, with and without the GIL
SWEEP = [KEPT]  # how many entries there may be before the dead ones are looked for


def register(thing: Any, context: DeviceContext | None) -> int:
    """Return a new handle for `thing`. It dies with the device of `context`; with None only by `take`."""
    handle = next(NUMBERS)
    HANDLES[handle] = Entry(thing, context)
    if len(HANDLES) > SWEEP[0]:
        for each, entry in HANDLES.copy().items():
            if entry.context is not None and entry.context.dead is not None:
                HANDLES.pop(each, None)
        SWEEP[0] = 2 * len(HANDLES) + KEPT
    return handle


def live(handle: Any, kind: type[T]) -> T:
    """Return what a handle stands for. Raises InvalidHandle when it is dead, foreign, no handle or of no `kind`."""
    entry = HANDLES.get(_number(handle))
    if entry is None:
        raise InvalidHandle(f"{handle!r} is no handle, or what it stood for was destroyed")
    thing, context = entry
    if not isinstance(thing, kind):
        raise InvalidHandle(f"{handle:#x} is a handle of {thing!r}; one of a {kind.__name__} is right")
    if context is not None and (context.dead is not None or context.driver is not current_driver()):
        raise InvalidHandle(f"{handle:#x} of {thing!r} is dead, or of another driver: {context.dead or context.driver}")
    return thing


def take(handle: Any, kind: type[T]) -> T:
    """As `live`, and let the handle be dead from now on. Of several calls at once exactly one succeeds."""
    thing = live(handle, kind)
    if HANDLES.pop(_number(handle), None) is None:
        raise InvalidHandle(f"{handle:#x} of {thing!r} was destroyed by another thread")
    return thing


def drop(things: set[Any]) -> None:
    """Let every handle of these things be dead: what goes down with something else, as functions with their module."""
    for handle, entry in HANDLES.copy().items():
        if entry.thing in things:
            HANDLES.pop(handle, None)


def stream_of(handle: Any) -> Stream:
    """Return the stream of a handle: 0 or None is the null stream of the current device, 2 the thread's own.

    Raises InvalidHandle. A stream object of the object API is its own handle.
    """
    if isinstance(handle, Stream):
        context = handle.context
        if context.dead is not None or context.driver is not current_driver():
            raise InvalidHandle(f"{handle!r} is dead, or of another driver")
        return handle
    if handle is None:
        return null_stream()
    number = _number(handle)
    if number > topsStreamPerThread:
        return live(number, Stream)
    if number == 0:
        return null_stream()
    if number == topsStreamPerThread:
        return per_thread_stream(current_device())
    raise InvalidHandle(f"{handle!r} is no stream; 0 or None is the null stream, 2 the per-thread stream")


def usable_stream_of(handle: Any) -> Stream:
    """As `stream_of`, for a call that would enqueue: raises the fault that has poisoned the stream (2.5, failures)."""
    stream = stream_of(handle)
    stream.raise_error()
    return stream


def event_of(handle: Any) -> Event:
    """Return the event of a handle, or an event object itself. Raises InvalidHandle, for None too."""
    return handle if isinstance(handle, Event) else live(handle, Event)


def _number(handle: Any) -> int:
    if type(handle) is int:
        return handle
    if hasattr(handle, "__index__") and not isinstance(handle, bool):
        return int(handle.__index__())
    raise InvalidHandle(f"{handle!r} is no handle; the int that made it known is right")
