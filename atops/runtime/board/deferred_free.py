"""Giving memory back once nothing uses it any more, without blocking until then; and what a stream has lost.

A stream loses a command when it was to wait for it and the wait is dropped or skipped while the command is not over.
The stream goes on, so what it frees may still be in use by that command or by one before it in its stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from atops.base.errors import IllegalAddress
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.completion import DONE, Completion

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("Lost", "free_when_idle", "lost_with", "newest", "unfinished", "when_over", "when_unused")


class Lost(dict["StreamQueue | Completion", Completion]):
    """Commands that a stream was to wait for and did not: of each other stream the newest.

    A call that its stream does not wait for stands for itself. Never changed, only replaced: it is read without a lock.
    """

    __slots__ = ("__weakref__",)


def unfinished(items: Iterable[Completion]) -> list[Completion]:
    """Return those of `items` that are not over; in the place of one that is over, what was lost before its end."""
    found: list[Completion] = []
    seen: set[int] = set()
    left = list(items)
    while left:
        item = left.pop()
        if item.stage < DONE:
            found.append(item)
        elif (lost := item.lost) is not None and id(lost) not in seen:
            seen.add(id(lost))
            left += lost.values()
    return found


def newest(items: Iterable[Completion]) -> Lost | None:
    """Return the newest command of each stream, None for no commands."""
    found = Lost()
    for item in items:
        key = item.stream if getattr(item.command, "holds", True) else item
        other = found.get(key)
        if other is None or other.seq < item.seq:
            found[key] = item
    return found or None


def lost_with(lost: Lost | None, more: Lost) -> Lost:
    """Return what a stream has lost that loses `more` as well. Where all is over by then, it is not empty yet."""
    if lost is None or lost is more:
        return more  # shared: an abort of many streams may lose the whole board in each
    if all(lost.get(key) is item for key, item in more.items()):
        return lost
    return newest(unfinished([*lost.values(), *more.values()])) or lost


def when_over(items: Iterable[Completion], then: Callable[[], object]) -> None:
    """Call `then` once all of `items` are over: now and here, or where the last one ends."""
    _WhenOver(items, then).wake()


class _WhenOver:
    """Waits for one command after the other, and so has one waiter however many there are."""

    __slots__ = ("_left", "_then")

    def __init__(self, items: Iterable[Completion], then: Callable[[], object]) -> None:
        self._left = list(items)
        self._then: Callable[[], object] | None = then

    def wake(self) -> None:
        """Go on to the next command that is not over. After a Ctrl-C perhaps called once too often."""
        left = self._left
        while left:
            if left[-1].add_waiter(self):
                return
            left.pop()
        then, self._then = self._then, None
        if then is not None:
            then()


def when_unused(items: Iterable[Completion], then: Callable[[], object]) -> None:
    """Call `then` once no memory is in use by `items`: they are over, and so is what was lost before their ends."""
    left = newest(unfinished(items))
    if left is None:
        then()
    else:
        when_over(left.values(), partial(when_unused, left.values(), then))


def free_when_idle(
    context: DeviceContext,
    free: Callable[[Allocation, str], None],
    allocation: Allocation,
    stream: StreamQueue | None = None,
) -> None:
    """Free `allocation` once all work is over that the board has now, or the stream if one is given.

    All of the board's: a peer, or another device's stream, may use it too, and so may a device in reset.
    """
    driver = context.driver
    items: list[Completion] = []
    with driver.lock:
        for each in driver.active_streams() if stream is None else stream.synchronised():
            items += each.ends()
        if stream is not None and (lost := context.lost if stream.null else stream.lost) is not None:
            items += lost.values()
    by = "close" if stream is None else stream.label
    if items:
        when_unused(items, partial(_free, free, allocation, by))
    else:
        _free(free, allocation, by)


def _free(free: Callable[[Allocation, str], None], allocation: Allocation, by: str) -> None:
    try:  # noqa: SIM105  # every close comes here, and suppress() is slow
        free(allocation, by)
    except IllegalAddress:  # a reset or the driver's close was faster
        pass
