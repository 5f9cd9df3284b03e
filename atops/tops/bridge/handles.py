"""Opaque handles, as C-style calls take them: which object is meant, and whether it may still be.

A handle is dead when its object is destroyed, its device reset or its driver closed, and foreign on another board.
"""

from __future__ import annotations

from typing import Any, TypeVar
from weakref import ref

from atops.base.errors import InvalidHandle, InvalidType
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.handles import HANDLES, register
from atops.runtime.core.event import Event
from atops.runtime.external_stream import handle_from
from atops.runtime.stream import Stream
from atops.tops.bridge.arguments import whole
from atops.tops.bridge.context import current_device, current_driver, null_stream, per_thread_stream
from atops.tops.types.constants import topsStreamPerThread

__all__ = ("drop", "event_of", "live", "register", "stream_of", "take", "usable_stream_of")

T = TypeVar("T")


def live(handle: Any, kind: type[T]) -> T:
    """Return what a handle stands for. Raises InvalidHandle when it is dead, foreign, no handle or of no `kind`."""
    entry = HANDLES.get(_number(handle))
    if entry is None:
        raise InvalidHandle(f"{handle!r} is no handle, or what it stood for was destroyed")
    thing, context = entry
    if context is not None and context.dead is not None:
        raise InvalidHandle(f"{handle:#x} of {thing!r} is dead: {context.dead}")
    if type(thing) is ref:
        thing = thing()  # the object API's, which its owner closes
    if not isinstance(thing, kind):
        raise InvalidHandle(f"{handle:#x} is a handle of {thing!r}; one of a {kind.__name__} is right")
    if isinstance(context, DeviceContext) and context.driver is not current_driver():
        raise InvalidHandle(f"{handle:#x} of {thing!r} is of another driver: {context.driver}")
    return thing


def take(handle: Any, kind: type[T]) -> T:
    """As `live`, and let the handle be dead from now on. Of several calls at once exactly one succeeds.

    Raises InvalidHandle also for what is the object API's: who made it closes it.
    """
    thing = live(handle, kind)
    number = _number(handle)
    entry = HANDLES.get(number)
    if entry is not None and type(entry.thing) is ref:
        raise InvalidHandle(f"{handle:#x} stands for {thing!r}, which its owner closes; its close() is right")
    if HANDLES.pop(number, None) is None:
        raise InvalidHandle(f"{handle:#x} of {thing!r} was destroyed by another thread")
    return thing


def drop(things: set[Any]) -> None:
    """Let every handle of these things be dead: what goes down with something else, as functions with their module."""
    for handle, entry in HANDLES.copy().items():
        if entry.thing in things:
            HANDLES.pop(handle, None)


def stream_of(handle: Any) -> Stream:
    """Return the stream of a handle: 0 or None is the null stream of the current device, 2 the thread's own.

    A stream object of the object API is its own handle, and what has `__tops_stream__` says its handle. Raises
    InvalidHandle, InvalidType for a `__tops_stream__` that answers wrongly.
    """
    if isinstance(handle, Stream):
        context = handle.context
        if handle._closed or context.dead is not None or context.driver is not current_driver():
            raise InvalidHandle(f"{handle!r} is closed or dead, or of another driver")
        return handle
    if handle is None:
        return null_stream()
    if type(handle) is not int and hasattr(type(handle), "__tops_stream__"):
        handle = handle_from(handle)
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
    try:
        return whole(handle, "the handle")
    except InvalidType:
        raise InvalidHandle(f"{handle!r} is no handle; the int that made it known is right") from None
