"""Testing value waits on memory that is stored to without a report: mapped host views and other processes.

A timer runs only while such a wait is armed, and finds a store at most a millisecond late.
"""

from __future__ import annotations

from atops.base.waiting.locks import OwnedLock
from atops.device.memory.value_wait import Watch
from atops.runtime.executors.executor import Executor

__all__ = ("Poller",)

PERIOD_NS = 500_000


class Poller:
    """The slow timer of one driver."""

    def __init__(self, lock: OwnedLock, executor: Executor) -> None:
        self._lock = lock
        self._executor = executor
        self._watches: dict[Watch, None] = {}  # the timer runs while there are any

    def add(self, watch: Watch) -> None:
        """Test `watch` every half millisecond until it is over."""
        with self._lock:
            first = not self._watches
            self._watches[watch] = None
        if first:
            self._executor.later(PERIOD_NS, self._poll)

    def __len__(self) -> int:
        """Return how many waits are polled for."""
        return len(self._watches)

    def _poll(self) -> None:
        with self._lock:
            watches = list(self._watches)
        over = [watch for watch in watches if watch.over or watch.test()]
        with self._lock:
            for watch in over:
                self._watches.pop(watch, None)
            again = bool(self._watches)
        if again:  # where none was left, the next `add` starts the timer
            self._executor.later(PERIOD_NS, self._poll)
