"""What is ready to run, by urgency: the steps of an executor, the work of a lane, the tasks of a kernel lane.

The most urgent goes first, and among equals the first to come. The exception is for kernels that go on and on: less
urgent work has a turn now and then, for it may store the value that such a kernel polls for.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Generic, TypeVar

__all__ = ("TURNS", "Ready")

T = TypeVar("T")

TURNS = 16  # turns of kernels that go on, after which what is less urgent has one


class Ready(Generic[T]):
    """Work that is ready, by priority: -2 (most urgent) to 0. Any thread may put and take: deques are atomic there."""

    __slots__ = ("_by_urgency", "_last_had_it", "_went_on", "levels")

    def __init__(self) -> None:
        first: deque[T] = deque()  # `deque[T]()` takes ten times as long
        second: deque[T] = deque()
        last: deque[T] = deque()
        self.levels = (last, first, second)  # by priority: 0, -2, -1
        self._by_urgency = (first, second, last)
        self._went_on = 0  # turns of kernels in a row that were not their last, while something less urgent waited
        self._last_had_it = False  # whether the turn after those was the last level's when there was one before

    def put(self, work: T, priority: int = 0) -> None:
        """Add work behind what is as urgent."""
        self.levels[priority].append(work)

    def put_back(self, work: T, priority: int = 0) -> None:
        """As `put`, for more of a kernel that has had a turn; now and then it lets what is less urgent have one."""
        if priority:
            self._went_on = self._went_on + 1 if any(self._by_urgency[priority + 3 :]) else 0
        self.levels[priority].append(work)

    def next_level(self) -> deque[T]:
        """Return the queue that has the turn, which is empty if nothing is ready."""
        first, second, last = self._by_urgency
        if self._went_on >= TURNS:
            self._went_on = 0
            self._last_had_it = not self._last_had_it  # the other of the two may go on for ever, too
            return (last or second or first) if self._last_had_it else (second or last or first)
        return first or second or last

    def take(self) -> T | None:
        """Take what has the turn; None if nothing is ready."""
        first, second, last = self._by_urgency
        try:
            if last and not first and not second:  # the usual case
                return last.popleft()
        except IndexError:  # another thread was faster
            pass
        while level := self.next_level():
            with suppress(IndexError):
                return level.popleft()
        return None

    def waits(self, priority: int) -> bool:
        """Return whether something as urgent or more waits: a snapshot."""
        return any(self._by_urgency[: priority + 3])

    def clear(self) -> None:
        """Drop everything."""
        for level in self._by_urgency:
            level.clear()

    def __len__(self) -> int:
        return sum(map(len, self.levels))

    def __bool__(self) -> bool:
        first, second, last = self._by_urgency
        return bool(first or second or last)

    def __repr__(self) -> str:
        return f"<Ready: {', '.join(str(len(level)) for level in self._by_urgency)} at -2, -1, 0>"
