"""Streams of other libraries: a wrapper that keeps its owner alive and is a Stream otherwise."""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from atops.kernels.kernel import Kernel
from atops.runtime.board.handles import handle_from
from atops.runtime.device import Device
from atops.runtime.stream import Stream, stream_from

__all__ = ("ExternalStream",)

if TYPE_CHECKING:
    Base = Stream
else:
    Base = object  # it passes for a Stream, and has no queue of its own


class ExternalStream(Base):
    """A stream that was made elsewhere, and is ended there: `ExternalStream(owner)`. It is an instance of Stream.

    `owner` is any object with `__tops_stream__` (see `IsStream`); it is kept alive as long as the wrapper is. Where the
    handle is 0 or 2, the null stream of the current device or this thread's own stream there is meant, at this moment.
    `stream` is the Stream itself. `async with` and `aclose` wait, and nothing here closes it. Raises InvalidType for
    what has no such method or answers wrongly, InvalidHandle for a handle that is dead; what a reset or a closed driver
    has to say of its streams.
    """

    __slots__ = ("__weakref__", "owner", "stream")

    def __init__(self, owner: object) -> None:
        handle = handle_from(owner)
        self.owner = owner
        self.stream = Stream.from_handle(handle)

    if not TYPE_CHECKING:

        @property
        def __class__(self) -> type[Stream]:
            return Stream

        def __getattr__(self, name: str) -> Any:
            """Return what the stream has under this name."""
            if name == "stream":  # not there yet: what copies an object asks before it fills it
                raise AttributeError(name)
            return getattr(self.stream, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self.stream), "owner", "stream"})

    def __await__(self) -> Generator[object, object, Stream]:
        return self.stream.__await__()

    def close(self) -> None:
        """Do nothing: the stream is its owner's to end."""

    async def aclose(self) -> None:
        """Wait for the work. The stream is its owner's to end."""
        await self.stream

    def __enter__(self) -> ExternalStream:
        self.stream.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stream.__exit__(kind, error, traceback)

    async def __aenter__(self) -> ExternalStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self.stream

    def __tops_stream__(self) -> tuple[int, int]:
        return self.stream.__tops_stream__()

    def __eq__(self, other: object) -> bool:
        return self.stream is (other.stream if type(other) is ExternalStream else other)

    def __hash__(self) -> int:
        return hash(self.stream)

    def __repr__(self) -> str:
        return f"<ExternalStream of {type(self.owner).__name__}: {self.stream!r}>"


def _named(stream: object) -> Stream:
    """Return the stream that the index of a kernel names: any library's, or the current one for None."""
    return Device().current_stream if stream is None else stream_from(stream)


Kernel.find_stream.append(_named)
