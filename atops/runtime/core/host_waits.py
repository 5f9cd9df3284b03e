"""Where in the program it stands still for the device, for who records it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from atops.base.trace.tracer import Tracer
from atops.device.call_site import calling_place

__all__ = ("standing",)

NOBODY: AbstractContextManager[None] = nullcontext()


def standing(tracer: Tracer, seq: int = -1) -> AbstractContextManager[None]:
    """Return a block in which the program stands still, for command `seq` or for room: noted where that is held."""
    return _Standing(tracer, seq) if tracer.notes_waits else NOBODY


class _Standing(AbstractContextManager[None]):
    __slots__ = ("_place", "_seq", "_started", "_tracer")

    def __init__(self, tracer: Tracer, seq: int) -> None:
        self._tracer, self._seq = tracer, seq
        self._place = calling_place(1)
        self._started = tracer.clock.now()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._tracer.wait(self._started, self._seq, *self._place)
