"""Timers for what nothing reports: a store to mapped memory, and the close of an event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from atops.base.locks import OwnedLock
from atops.runtime.executors.executor import Executor

__all__ = ("Poller",)

T = TypeVar("T")


class Poller(Generic[T]):
    """A timer that asks each watched object every `period` nanoseconds whether it `is_over`, while there are any.

    Not one that `never` asks: where none can be over, a timer would be one more of what could come next.
    """

    def __init__(
        self, lock: OwnedLock, executor: Executor, period: int, is_over: Callable[[T], bool], never: bool = False
    ) -> None:
        self._lock = lock
        self._executor = executor
        self._period = period
        self._is_over = is_over
        self._watched: dict[T, None] = {}
        self._running = False  # whether the timer runs
        self._never = never

    def add(self, watched: T) -> None:
        """Ask for `watched` from now on, until it is over or removed."""
        with self._lock:
            self._watched[watched] = None
            start, self._running = not (self._running or self._never), not self._never
        if start:
            self._executor.later(self._period, self._poll)

    def remove(self, watched: T) -> None:
        """Ask for it no more. Harmless the second time."""
        with self._lock:
            self._watched.pop(watched, None)

    @property
    def runs(self) -> bool:
        """Whether its timer runs."""
        return self._running

    def __len__(self) -> int:
        """Return how many objects are watched."""
        return len(self._watched)

    def _poll(self) -> None:
        with self._lock:
            watched = list(self._watched)
        over = [each for each in watched if self._is_over(each)]
        with self._lock:
            for each in over:
                self._watched.pop(each, None)
            again = self._running = bool(self._watched)
        if again:  # where none is left, the next `add` starts the timer
            self._executor.later(self._period, self._poll)
