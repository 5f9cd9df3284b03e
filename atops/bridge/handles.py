"""The board, device and streams that a C-style call means, and its opaque handles: ints that stand for objects.

A handle is dead once its object is destroyed, its device reset or its driver closed. Another board refuses it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeVar
from weakref import ref

from atops.base.errors import InvalidHandle, InvalidType
from atops.base.result_codes import Result
from atops.bridge.arguments import whole
from atops.bridge.codes import CodeError, NullHandle
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.current_device import current_ordinal
from atops.runtime.board.handles import HANDLES, handle_from, register
from atops.runtime.core.event import Event
from atops.runtime.device import Device
from atops.runtime.driver import current_board
from atops.runtime.queues.queue import StreamQueue
from atops.runtime.stream import Stream, queue_of

__all__ = (
    "PER_THREAD",
    "current_board",
    "current_device",
    "device_at",
    "drop",
    "event_of",
    "live",
    "null_stream",
    "register",
    "stream_of",
    "take",
    "usable_stream_of",
)  # fmt: skip

PER_THREAD: Final = 2  # the handle of the stream that each thread has of its own; topsStreamPerThread

# ---- the current device and its streams


def current_device() -> Device:
    """Return the current device of the current board. Raises NoDevice on a board without any."""
    board = current_board()
    if not board.options.devices:
        raise CodeError(Result.NoDevice, f"{board!r} has no device; ATOPS_DEVICES sets how many it has")
    return board.device(board.context(current_ordinal(board.serial)).ordinal)


def null_stream() -> Stream:
    """Return the null stream of the current device, which most calls mean. Raises NoDevice."""
    board = current_board()
    if board.options.devices:
        found = board.context(current_ordinal(board.serial)).null_stream
        if found is not None:
            return found
    return current_device().null_stream  # which makes it


def device_at(ordinal: object) -> Device:
    """Return device `ordinal`. Raises InvalidDevice, InvalidType for other types than int."""
    return Device(whole(ordinal, "the device"))


# ---- handles

T = TypeVar("T")


def live(handle: object, kind: type[T]) -> T:
    """Return the object of a handle. Raises InvalidHandle if it is dead, of another board, unknown or not of `kind`."""
    if handle is None or (type(handle) is int and not handle):
        raise NullHandle(f"expected the handle of a {kind.__name__}, got {handle!r}")
    number = _number(handle)
    entry = HANDLES.get(number)
    if entry is None:
        raise InvalidHandle(f"{handle!r} is not a handle, or its object was destroyed")
    thing, context = entry
    if context is not None and context.dead is not None:
        raise InvalidHandle(f"{number:#x} of {thing!r} is dead: {context.dead}")
    if type(thing) is ref:
        thing = thing()  # of the object API: its owner closes it
        thing = thing.stream if isinstance(thing, StreamQueue) else thing
    if not isinstance(thing, kind):
        raise InvalidHandle(f"expected the handle of a {kind.__name__}, got {number:#x}, the handle of {thing!r}")
    if isinstance(context, DeviceContext) and context.board is not current_board():
        raise InvalidHandle(f"{number:#x} of {thing!r} belongs to another driver: {context.board}")
    return thing


def take(handle: object, kind: type[T]) -> T:
    """Return the object of a handle, which is dead from now on. Of several calls at once exactly one succeeds.

    Raises InvalidHandle as `live` does, and for an object of the object API, which is closed there.
    """
    thing = live(handle, kind)
    number = _number(handle)
    entry = HANDLES.get(number)
    if entry is not None and type(entry.thing) is ref:
        raise InvalidHandle(f"{number:#x} is the handle of {thing!r} of the object API; call its close() instead")
    if HANDLES.pop(number, None) is None:
        raise InvalidHandle(f"{number:#x} of {thing!r} was destroyed by another thread")
    return thing


def drop(things: Collection[object]) -> None:
    """End every handle of these objects, such as the functions of a module that is unloaded."""
    for handle, entry in HANDLES.copy().items():
        if entry.thing in things:
            HANDLES.pop(handle, None)


def stream_of(handle: object) -> Stream:
    """Return the stream of a handle: 0 or None is the null stream of the current device, 2 the thread's own.

    A stream of the object API is its own handle, and an object with `__tops_stream__` gives its handle by that. Raises
    InvalidHandle, InvalidType for a `__tops_stream__` of another form.
    """
    if issubclass(type(handle), Stream):  # and no wrapper of one
        assert isinstance(handle, Stream)
        context = queue_of(handle).context
        if handle.closed or context.dead is not None or context.board is not current_board():
            raise InvalidHandle(f"{handle!r} is closed, dead or of another driver")
        return handle
    if handle is None:
        return null_stream()
    if type(handle) is not int and hasattr(type(handle), "__tops_stream__"):
        handle = handle_from(handle)
    number = _number(handle)
    if number > PER_THREAD:
        return live(number, Stream)
    if number == 0:
        return null_stream()
    if number == PER_THREAD:
        return current_device().per_thread_stream
    raise InvalidHandle(f"expected a stream (0 or None: the null stream, 2: the per-thread stream), got {handle!r}")


def usable_stream_of(handle: object) -> Stream:
    """Return a stream to enqueue on, as `stream_of` does. Raises the failure of the stream too (2.5, failures)."""
    stream = stream_of(handle)
    stream.raise_error()
    return stream


def event_of(handle: object) -> Event:
    """Return the event of a handle, or an event object itself. Raises InvalidHandle, for None too."""
    return handle if isinstance(handle, Event) else live(handle, Event)


def _number(handle: object) -> int:
    if type(handle) is int:
        return handle
    try:
        return whole(handle, "the handle")
    except InvalidType:
        raise InvalidHandle(f"expected a handle, which is an int, got {handle!r}") from None
