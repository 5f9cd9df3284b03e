"""Streams of other libraries: the protocol by which objects say their handle, and a wrapper with a stream's verbs."""

from __future__ import annotations

import operator
from collections.abc import Generator
from types import TracebackType
from typing import Any, Final
from weakref import ref

from atops.base.errors import InvalidHandle, InvalidType
from atops.kernels.kernel import Kernel
from atops.runtime.board.handles import HANDLES, Remains
from atops.runtime.device import Device
from atops.runtime.stream import Stream

__all__ = ("ExternalStream", "handle_from")

PROTOCOL: Final = 0  # the version that `__tops_stream__` names


class ExternalStream:
    """A stream that was made elsewhere, and is ended there, with all verbs of a Stream: `ExternalStream(owner)`.

    `owner` is any object whose `__tops_stream__()` returns (0, handle), the handle being one that a C-style call
    returned, another Stream's, or 0 for the current device's null stream. It is kept alive as long as the wrapper is.
    `stream` is the Stream itself, for functions that want one. Raises InvalidType for what has no such method or
    answers wrongly, InvalidHandle for a handle that is dead; what a reset or a closed driver has to say of its streams.
    """

    __slots__ = ("__weakref__", "owner", "stream")

    def __init__(self, owner: object) -> None:
        handle = handle_from(owner)
        self.owner = owner
        self.stream = _stream_of(handle)

    def __getattr__(self, name: str) -> Any:
        """Return what the stream has under this name."""
        if name == "stream":  # not there yet: what copies an object asks before it fills it
            raise AttributeError(name)
        return getattr(self.stream, name)

    def __await__(self) -> Generator[Any, Any, Stream]:
        return self.stream.__await__()

    def __enter__(self) -> ExternalStream:
        self.stream.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stream.__exit__(kind, error, traceback)

    def __tops_stream__(self) -> tuple[int, int]:
        return self.stream.__tops_stream__()

    def __eq__(self, other: object) -> bool:
        return self.stream is (other.stream if isinstance(other, ExternalStream) else other)

    def __hash__(self) -> int:
        return hash(self.stream)

    def __repr__(self) -> str:
        return f"<ExternalStream of {type(self.owner).__name__}: {self.stream!r}>"


def handle_from(owner: object) -> int:
    """Return the handle that an object names by `__tops_stream__`. Raises InvalidType for any other answer."""
    method = getattr(type(owner), "__tops_stream__", None)
    if method is None:
        raise InvalidType(f"{owner!r} is no stream; expected an object whose __tops_stream__ returns (0, handle)")
    answer = method(owner)
    try:
        version, handle = (operator.index(each) for each in answer)
    except (TypeError, ValueError):
        version, handle = -1, 0
    if version != PROTOCOL or isinstance(answer, str | bytes):
        raise InvalidType(f"__tops_stream__ of {type(owner).__name__} returned {answer!r}; expected (0, handle)")
    return handle


def _stream_of(handle: int) -> Stream:
    """Return the stream of a handle. Raises InvalidHandle, and what `check_alive` of its device does."""
    if handle == 0:
        return Device().null_stream
    entry = HANDLES.get(handle)
    if entry is not None and isinstance(entry.context, Remains) and entry.context.dead is not None:
        raise entry.context.dead.fresh()
    thing = None if entry is None else entry.thing() if type(entry.thing) is ref else entry.thing
    if not isinstance(thing, Stream):
        raise InvalidHandle(f"{handle:#x} is no handle of a stream, or the stream was destroyed")
    thing.context.check_alive()
    return thing


def _named(stream: object) -> Stream | ExternalStream:
    """Return the stream that the index of a kernel names: another library's, or the current one for None."""
    return Device().current_stream if stream is None else ExternalStream(stream)


Kernel.find_stream.append(_named)
