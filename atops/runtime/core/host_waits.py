"""Waits of the program for the device: noted with their place for profiles and traces that want them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from atops.base.trace.tracer import Tracer
from atops.device.call_site import calling_place

__all__ = ("standing",)

UNNOTED: AbstractContextManager[None] = nullcontext()


def standing(tracer: Tracer, seq: int = -1) -> AbstractContextManager[None]:
    """Return a block in which the program waits, for command `seq` or for room; noted if the tracer holds waits."""
    return _Standing(tracer, seq) if tracer.notes_waits else UNNOTED


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
