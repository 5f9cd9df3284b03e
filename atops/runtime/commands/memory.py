"""Memory that a stream may use from a command on, and no longer after another."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from atops.base.errors import StreamAborted
from atops.base.trace.records import Kind
from atops.device.memory.allocation import Allocation
from atops.runtime.board.deferred_free import unfinished, when_unused
from atops.runtime.core.commands import NOWHERE, Ended, always, define, never, nothing, place
from atops.runtime.core.completion import DONE, Completion

if TYPE_CHECKING:
    from atops.runtime.pools.pool import MemoryPool

__all__ = ("Alloc", "Free")


class Alloc(NamedTuple):
    """Memory becomes usable from here on. `after`: the frees behind which it was given out."""

    allocation: Allocation
    pool: MemoryPool
    after: tuple[Completion, ...]


class Free(NamedTuple):
    """Memory is given back once the stream comes here."""

    allocation: Allocation
    pool: MemoryPool


def _run_alloc(command: Alloc, item: Completion) -> bool:
    """Withdraw memory that may still be in use behind its frees. A duty with those: no failure or abort skips that.

    To wait instead could be for ever: an abort may have dropped the wait just because it would never have ended.
    """
    if any([each.lost is not None or each.stage < DONE for each in command.after]):
        since = command.pool.since(command.allocation)
        users = [each for each in unfinished(command.after) if each.seq > since and each.queue is not item.queue]
        if users:
            by = f"{item.queue.label}: it left out the wait for {users[0]!r}, which may still use the memory"
            command.pool.withdraw(command.allocation, by)
            raise StreamAborted(f"{command.allocation!r} was taken back by {by}")
    return True


def _run_free(command: Free, item: Completion) -> bool:
    """Give memory back. A duty: it runs after a failure and after an abort too.

    Commands that the stream has lost may still use the memory: then it is given back when they are over, and the stream
    does not wait for that.
    """
    stream, pool, allocation = item.queue, command.pool, command.allocation
    by = f"{stream.label}, command {item.seq}"
    if stream.lost is not None and (users := stream.lost_since(pool.since(allocation))):
        pool.put_off(allocation)
        when_unused(users, partial(pool.returned, allocation, by))
    else:
        pool.returned(allocation, by)
    return True


define(
    Alloc,
    words=lambda _: "alloc",
    run=_run_alloc,
    run_timed=_run_alloc,
    describe=lambda alloc, item: (Kind.ALLOC, alloc.allocation.size, *place(alloc.allocation, 0), *NOWHERE, -1, ""),
    uses=nothing,
    reads=nothing,
    touches=lambda alloc: ((alloc.allocation, 0, alloc.allocation.size, True),),
    effect=always,
    waits=never,
    silent=True,
    ended=Ended("alloc"),
)
define(
    Free,
    words=lambda _: "free",
    run=_run_free,
    run_timed=_run_free,
    describe=lambda free, item: (Kind.FREE, free.allocation.size, *place(free.allocation, 0), *NOWHERE, -1, ""),
    uses=nothing,
    reads=nothing,
    touches=lambda free: ((free.allocation, 0, free.allocation.size, True),),
    effect=always,
    waits=never,
    silent=True,
    ended=Ended("free"),
)
