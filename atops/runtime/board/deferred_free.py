"""Give memory back once nothing uses it any more, without blocking until then; and keep the lost commands of streams.

A command is lost to a stream if the stream was to wait for it, and the wait is dropped or skipped while the command is
not over. The stream goes on, so what it frees may still be in use: by the lost command, or by one before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from atops.base.errors import IllegalAddress
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.completion import DONE, Completion
from atops.runtime.executors.executor import StepWaiter

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = (
    "BoardWork",
    "Lost",
    "close_when_over",
    "free_when_idle",
    "lost_behind",
    "lost_with",
    "newest",
    "unfinished",
    "when_one_is_over",
    "when_over",
    "when_unused",
)


_TIMES = count(1)
WORN = 16  # a list is made anew once so many more of its commands were replaced than are left


class BoardWork:
    """All that the board had to do at one time: of each stream the newest command.

    A later one stands for all earlier ones: it has what was not over by then, and leads to what was lost before. So of
    several only the latest is looked through.
    """

    __slots__ = ("__weakref__", "at", "items", "left")

    def __init__(self, items: list[Completion]) -> None:
        self.at = next(_TIMES)
        self.items = items
        self.left: _Left | None = None

    def one(self) -> Completion | None:
        """Return a command, of this or of later work that it leads to, that is not over. Driver's lock held."""
        board = self
        while True:
            left, later = board.left, None
            if left is None or left.worn:
                board.items, later = _reach(board.items, board)
                left = board.left = _Left(board.items)
            if later is None or later is board:
                item, later = left.one(), left.board
                if item is not None or later is None or later.at <= board.at:
                    return item
            board = later


class _Left:
    """Commands, of which `one` finds one that is not over. Those that are over are taken out on the way, once for all.

    The place of a command that is over goes to the commands that were lost to it. `board`: the latest work of the
    board that these led to. The driver's lock guards it.
    """

    __slots__ = ("board", "items", "seen")

    def __init__(self, items: Iterable[Completion]) -> None:
        self.items = list(items)
        self.seen: dict[int, Lost] = {}  # by id: lost commands that are in the list already
        self.board: BoardWork | None = None

    def one(self) -> Completion | None:
        """Return a command of the list that is not over, None where there is none."""
        items, seen = self.items, self.seen
        while items:
            item = items[-1]
            if item.stage < DONE:
                return item
            lost = item.lost
            if lost is None or id(lost) in seen:
                items.pop()
                continue
            if lost.board is not None and (self.board is None or lost.board.at > self.board.at):
                self.board = lost.board
            items[-1:] = lost.values()
            seen[id(lost)] = lost  # last: a Ctrl-C before puts them in twice, which is harmless
        return None

    @property
    def worn(self) -> bool:
        """Whether so much has been replaced that it is time for a new list."""
        return len(self.seen) > WORN + len(self.items)


class Lost(dict["StreamQueue | Completion", Completion]):
    """The lost commands of a stream: the newest of each other stream, or, in `board`, all work that the board had.

    A call that does not hold its stream has an entry of its own. An instance is never changed, only replaced, so that
    it is read without a lock; streams share one where they can.
    """

    __slots__ = ("__weakref__", "_left", "board")
    board: BoardWork | None

    def __init__(
        self, commands: dict[StreamQueue | Completion, Completion] | None = None, board: BoardWork | None = None
    ) -> None:
        super().__init__(commands or {})
        self.board = board
        self._left: _Left | None = None

    def __bool__(self) -> bool:
        return len(self) > 0 or self.board is not None

    def unfinished(self) -> list[Completion]:
        """Return the commands that are not over, as the function `unfinished` does."""
        return unfinished(self.values(), self.board)

    def one(self) -> Completion | None:
        """Return one that is not over, None if all are. With the driver's lock held."""
        left = self._left
        if left is None:
            left = self._left = _Left(self.values())
        item, board = left.one(), self.board
        if item is not None:
            return item
        if left.board is not None and (board is None or left.board.at > board.at):
            board = left.board
        return None if board is None else board.one()

    def still(self) -> Lost | None:
        """Return this, or a smaller one with the same unfinished commands; None if all are over. Driver's lock held."""
        if self.one() is None:
            return None
        return lost_behind(self.values(), self.board) if self._left is not None and self._left.worn else self

    def with_command(self, key: StreamQueue | Completion, item: Completion) -> Lost:
        """Return this with one more command."""
        return Lost({**self, key: item}, self.board)


def _reach(items: Iterable[Completion], board: BoardWork | None) -> tuple[list[Completion], BoardWork | None]:
    """Return as `unfinished` does, but the latest work of the board that it leads to as it is, not looked through."""
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
            if lost.board is not None and (board is None or lost.board.at > board.at):
                board = lost.board
    return found, board


def unfinished(items: Iterable[Completion], board: BoardWork | None = None) -> list[Completion]:
    """Return the commands of `items` that are not over; for one that is over, those that were lost to it."""
    found, latest = _reach(items, board)
    while latest is not None:
        more, later = _reach(latest.items, latest)
        if later is latest:
            latest.items = more  # what is over by now is never needed again
            return found + more
        latest = later
    return found


def newest(items: Iterable[Completion]) -> dict[StreamQueue | Completion, Completion]:
    """Return the newest command of each stream."""
    found: dict[StreamQueue | Completion, Completion] = {}
    for item in items:
        key = item.queue if getattr(item.command, "holds", True) else item
        other = found.get(key)
        if other is None or other.seq < item.seq:
            found[key] = item
    return found


def lost_behind(items: Iterable[Completion], board: BoardWork | None = None) -> Lost | None:
    """Return what is lost to a stream that does not wait for `items`; None if all are over and had lost nothing."""
    found, board = _reach(items, board)
    return Lost(newest(found), board) or None


def lost_with(lost: Lost | None, more: Lost) -> Lost:
    """Return what is lost to a stream that had lost `lost` and now loses `more`. It may be over by now."""
    if lost is None or lost is more:
        return more  # shared: by an abort of many streams each may lose the whole board
    board = lost.board
    if more.board is not None and (board is None or more.board.at > board.at):
        board = more.board
    if board is lost.board and all(lost.get(key) is item for key, item in more.items()):
        return lost
    return lost_behind([*lost.values(), *more.values()], board) or lost


def when_over(items: Iterable[Completion], then: Callable[[], object]) -> None:
    """Call `then` once all of `items` are over: now and here, or where the last one ends."""
    _WhenOver(items, then).wake()


class _WhenOver:
    """Waits for commands one after the other, with one waiter for all."""

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


def when_one_is_over(lost: Lost, then: Callable[[], object]) -> None:
    """Call `then` at the next end of a command of `lost`, or at once if all are over. With the driver's lock held."""
    while (item := lost.one()) is not None:
        if item.add_waiter(_WhenOver((), then)):
            return
    then()


def when_unused(items: Iterable[Completion], then: Callable[[], object]) -> None:
    """Call `then` once `items` use no memory: they are over, and so are the commands that were lost to them."""
    if left := newest(unfinished(items)):
        when_over(left.values(), partial(when_unused, left.values(), then))
    else:
        then()


def free_when_idle(
    context: DeviceContext,
    free: Callable[[Allocation, str], None],
    allocation: Allocation,
    stream: StreamQueue | None = None,
) -> None:
    """Free `allocation` once all work that the board, or the given stream, has now is over.

    The whole board: a peer, another device's stream or a device in reset may use the memory, too. Nothing where a reset
    or the driver's close has freed it.
    """
    if not allocation.alive:
        return
    board = context.board
    items: list[Completion] = []
    freed: Callable[[], object] = bool
    with board.lock:
        if stream is not None and board.detector is not None:
            freed = board.detector.freeing(stream, allocation)
        for each in board.active_streams() if stream is None else _before(stream):
            items += each.ends()
        if stream is not None and (lost := context.lost if stream.null else stream.lost) is not None:
            items += lost.unfinished()
    by = "close" if stream is None else stream.label
    if items:
        when_unused(items, partial(_free, free, allocation, by, freed))
    else:
        _free(free, allocation, by, freed)


def _before(stream: StreamQueue) -> list[StreamQueue]:
    """Return the streams whose work comes before a command that a stream is given now. With the driver's lock held."""
    null = stream.context.null_queue
    return [*stream.synchronised(), *([null] if stream.blocking and not stream.null and null is not None else [])]


def _free(
    free: Callable[[Allocation, str], None], allocation: Allocation, by: str, freed: Callable[[], object]
) -> None:
    try:
        freed()
    finally:  # after a Ctrl-C in there, too
        try:  # noqa: SIM105  # every close comes here, and suppress() is slow
            free(allocation, by)
        except IllegalAddress:  # a reset or the driver's close was faster
            pass


def close_when_over(old: DeviceContext, items: list[Completion]) -> None:
    """Free the memory of a device that was reset: now if all that ran there is over, else as soon as it is."""
    items = [item.instead or item for item in items]
    step = partial(close_when_over, old, items)
    if not any(item.add_waiter(StepWaiter(old.board.post, step)) for item in items):
        old.close_memory("a reset of its device")
        with old.board.lock:
            old.board.retired.pop(old, None)
