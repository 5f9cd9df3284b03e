"""Memory that a stream may use from a command on, and no longer after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from atops.base.trace.tracer import Kind
from atops.device.memory.allocation import Allocation
from atops.runtime.board.deferred_free import free_when_idle
from atops.runtime.core.commands import NOWHERE, always, define, never, nothing, place
from atops.runtime.core.completion import Completion

__all__ = ("Alloc", "Free")


class Alloc(NamedTuple):
    """Memory becomes usable from here on."""

    allocation: Allocation


class Free(NamedTuple):
    """Memory is given back once the stream comes here."""

    allocation: Allocation
    release: Callable[[Allocation, str], None]


def _run_free(command: Free, item: Completion) -> bool:
    """Give memory back. A duty: it runs after a failure and after an abort too.

    Where the stream has left out a wait, others may still use the memory: it is given back when everything is over that
    the board had been given up to then. The stream does not wait for that.
    """
    stream = item.stream
    by = f"{stream.label}, command {item.seq}"
    if stream.gap:
        free_when_idle(stream.context, command.release, command.allocation, None, by, min(stream.gap, item.seq - 1))
    else:
        command.release(command.allocation, by)
    return True


define(
    Alloc,
    words=lambda _: "alloc",
    run=always,  # the memory was found at the call
    run_timed=always,
    describe=lambda alloc, item: (Kind.ALLOC, alloc.allocation.size, *place(alloc.allocation, 0), *NOWHERE, -1, ""),
    uses=nothing,
    reads=nothing,
    effect=always,
    waits=never,
    silent=True,
)
define(
    Free,
    words=lambda _: "free",
    run=_run_free,
    run_timed=_run_free,
    describe=lambda free, item: (Kind.FREE, free.allocation.size, *place(free.allocation, 0), *NOWHERE, -1, ""),
    uses=nothing,
    reads=nothing,
    effect=always,
    waits=never,
    silent=True,
)
