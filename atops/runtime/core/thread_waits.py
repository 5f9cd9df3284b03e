"""What `concurrent.futures.wait` and `as_completed` see of a completion or an event.

They reach into a future: they hold its condition, read its state, and put what they wait with into a list of waiters,
all of which a `Watch` has. It is made at the first such look, so other commands pay nothing for it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol
from weakref import ref

from atops.base.errors import IllegalState, NotSupported

if TYPE_CHECKING:
    from atops.runtime.core.completion import Completion

__all__ = ("Watch", "Watchers")

PENDING, FINISHED, CANCELLED = "PENDING", "FINISHED", "CANCELLED_AND_NOTIFIED"  # as concurrent.futures has them


class _Waiter(Protocol):
    """What concurrent.futures waits with."""

    def add_result(self, future: object) -> None: ...

    def add_exception(self, future: object) -> None: ...

    def add_cancelled(self, future: object) -> None: ...


class Watch:
    """The state of a record as the functions of concurrent.futures want it: it changes with `condition` held only."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.state = FINISHED
        self.waiters: list[tuple[_Waiter, object]] = []  # each with the completion or event that it was given
        self._record: ref[Completion] | None = None

    def look(self, record: Completion | None) -> Watch:
        """Turn to a record, unless another one is still waited for. None is over."""
        with self.condition:
            if self.waiters or (self._record is None if record is None else self.turned_to(record)):
                return self
            self._record = None if record is None else ref(record)
            self.state = PENDING
            if record is None:
                self.state = FINISHED
            elif not record.add_waiter(end := _End(self, record)):
                end.wake()
        return self

    def turned_to(self, record: Completion | None) -> bool:
        """Return whether this is the record."""
        return self._record is not None and record is not None and self._record() is record

    def over(self, record: Completion) -> None:
        """Tell those that wait that the record is over."""
        with self.condition:
            if self.state != PENDING or not self.turned_to(record):
                return
            self.state = CANCELLED if record.cancelled() else FINISHED
            if self.waiters and (detector := record.queue.board.detector) is not None:
                detector.saw(record)
            for waiter, thing in self.waiters:
                if record.cancelled():
                    waiter.add_cancelled(thing)
                elif record.failure is not None:
                    waiter.add_exception(thing)
                else:
                    waiter.add_result(thing)
            self.waiters.clear()


class _End:
    """Tells a watch that its record is over, as a waiter of the record."""

    __slots__ = ("_record", "_watch")

    def __init__(self, watch: Watch, record: Completion) -> None:
        self._watch = watch
        self._record = record

    def wake(self) -> None:
        """Tell it."""
        self._watch.over(self._record)


class Watchers:
    """The waiters of a watch, as a list that concurrent.futures appends to and removes from, its condition held."""

    def __init__(self, watch: Watch, thing: object, record: Completion | None) -> None:
        self._watch = watch
        self._thing = thing
        self._record = record

    def append(self, waiter: _Waiter) -> None:
        """Have a thread wait. Refusals come here, where the caller gives the conditions of all futures back.

        Raises NotSupported inline, where the thread that would block is the only one there is; WouldDeadlock; and
        IllegalState where another thread still waits for an earlier record of an event.
        """
        watch, record = self._watch, self._record
        if watch.state != PENDING:
            return
        if record is None or not watch.turned_to(record):
            raise IllegalState(
                f"another thread waits for an earlier record of {self._thing!r}; give its `completion` instead"
            )
        board = record.queue.board
        if board.inline:
            raise NotSupported(
                f"concurrent.futures cannot wait for {self._thing!r}: this thread is the only one that could end it; "
                "use result(timeout) or sync(), or asyncio.wait in a coroutine"
            )
        board.guard_blocking((record,))
        watch.waiters.append((waiter, self._thing))

    def remove(self, waiter: _Waiter) -> None:
        """Forget a waiter, which may have been told already."""
        self._watch.waiters[:] = [each for each in self._watch.waiters if each[0] is not waiter]
