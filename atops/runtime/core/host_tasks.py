"""The program's coroutines that run in stream order, and noticing that an event loop closed before one ended.

An event loop does not report its close. While there are such coroutines, a slow timer asks their loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from atops.base.waiting.locks import OwnedLock
from atops.base.waiting.loop_adapter import LoopAdapter
from atops.runtime.executors.executor import Executor

__all__ = ("HostTasks", "OwedCoroutine")

ASK_NS = 20_000_000


@dataclass(eq=False, slots=True)
class OwedCoroutine:
    """One coroutine for which a stream waits. `lost` is called if its loop closes first."""

    adapter: LoopAdapter
    lost: Callable[[], None]


class HostTasks:
    """All coroutines for which the streams of one driver wait."""

    def __init__(self, lock: OwnedLock, executor: Executor) -> None:
        self._lock = lock
        self._executor = executor
        self._open: dict[OwedCoroutine, None] = {}
        self._asking = False

    def add(self, adapter: LoopAdapter, lost: Callable[[], None]) -> OwedCoroutine:
        """Watch a coroutine. `lost` is called if its loop closes before `remove` is."""
        owed = OwedCoroutine(adapter, lost)
        with self._lock:
            self._open[owed] = None
            ask, self._asking = not self._asking, True
        if ask:
            self._executor.later(ASK_NS, self._ask)
        return owed

    def remove(self, owed: OwedCoroutine) -> None:
        """Watch a coroutine no more: it has ended. Harmless the second time."""
        with self._lock:
            self._open.pop(owed, None)

    def _ask(self) -> None:
        with self._lock:
            watched = list(self._open)
            self._asking = bool(watched)
        for owed in watched:
            if owed.adapter.closed():
                self.remove(owed)
                owed.lost()
        if watched:
            self._executor.later(ASK_NS, self._ask)
