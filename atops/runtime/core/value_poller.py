"""Testing value waits on memory whose stores nobody reports: mapped host views and other processes.

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
        self._watches: dict[Watch, None] = {}
        self._running = False

    def add(self, watch: Watch) -> None:
        """Test `watch` every half millisecond until it is over."""
        with self._lock:
            self._watches[watch] = None
            start, self._running = not self._running, True
        if start:
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
            again = self._running = bool(self._watches)
        if again:  # what `add` says meanwhile starts a timer of its own
            self._executor.later(PERIOD_NS, self._poll)
