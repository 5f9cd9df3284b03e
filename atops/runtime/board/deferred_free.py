"""Freeing device memory once all commands enqueued before the free are over, without blocking until then."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from atops.base.errors import IllegalAddress
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.completion import Completion

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("Countdown", "free_when_idle")

Free = Callable[[Allocation, str], None]


def free_when_idle(
    context: DeviceContext,
    free: Free,
    allocation: Allocation,
    stream: StreamQueue | None = None,
    by: str = "",
    newest: int | None = None,
) -> None:
    """Free `allocation` once all work is over that the board has now, or the stream if one is given.

    All of the board's: a peer, or another device's stream, may use it too. `newest`: only commands up to that number
    count. `by` says what frees it, where that is not the stream, or `close`.
    """
    driver = context.driver
    with driver.lock:
        streams = driver.active_streams() if stream is None else stream.synchronised()
        newest = driver.seq if newest is None else newest
        items = _unfinished(streams, newest) if streams else None
    by = by or ("close" if stream is None else stream.label)
    if items:
        # Then look again: an abort may have ended the newest command before the running one.
        again = partial(free_when_idle, context, free, allocation, stream, by, newest)
        Countdown(context, again, len(items)).begin(items)
        return
    try:  # noqa: SIM105  # every close comes here, and suppress() is slow
        free(allocation, by)
    except IllegalAddress:  # a reset or the driver's close was faster
        pass


def _unfinished(streams: list[StreamQueue], newest: int) -> list[Completion]:
    """Return commands whose end implies that of all up to number `newest` in these streams. With the lock held."""
    return [item for each in streams for item in each.unfinished_to(newest)]


class Countdown:
    """Frees an allocation when the last of several commands is over."""

    def __init__(self, context: DeviceContext, free: Callable[[], None], items: int) -> None:
        self._context = context
        self._free = free
        self._left = items + 1  # one for the caller, which may still be adding waiters

    def begin(self, items: Iterable[Completion]) -> None:
        """Count these commands, as many as were said, as they end."""
        for item in items:
            if not item.add_waiter(_Counted(self)):
                self.one_over()
        self.one_over()

    def one_over(self) -> None:
        """Count one command, and free at the last."""
        with self._context.driver.lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._free()


class _Counted:
    """One command's part in a countdown."""

    __slots__ = ("_countdown",)

    def __init__(self, countdown: Countdown) -> None:
        self._countdown: Countdown | None = countdown

    def wake(self) -> None:
        """Count the command. Once."""
        countdown, self._countdown = self._countdown, None
        if countdown is not None:
            countdown.one_over()
