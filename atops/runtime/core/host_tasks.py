"""Host coroutines that loops owe to streams: who owes what, and noticing a loop that closed before it paid.

A loop that closes tells nobody. While somebody owes, a slow timer asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from atops.base.waiting.locks import OwnedLock
from atops.base.waiting.loop_adapter import LoopAdapter
from atops.runtime.executors.executor import Executor

__all__ = ("Debt", "Debts")

ASK_NS = 20_000_000


@dataclass(eq=False, slots=True)
class Debt:
    """One coroutine that a loop owes to a stream."""

    adapter: LoopAdapter
    lost: Callable[[], None]


class Debts:
    """All debts of one driver."""

    def __init__(self, lock: OwnedLock, executor: Executor) -> None:
        self._lock = lock
        self._executor = executor
        self._open: dict[Debt, None] = {}
        self._asking = False

    def owe(self, adapter: LoopAdapter, lost: Callable[[], None]) -> Debt:
        """Note a debt. `lost` is called if the loop closes before it is paid."""
        debt = Debt(adapter, lost)
        with self._lock:
            self._open[debt] = None
            ask, self._asking = not self._asking, True
        if ask:
            self._executor.later(ASK_NS, self._ask)
        return debt

    def paid(self, debt: Debt) -> None:
        """Strike a debt. Harmless when it is struck already."""
        with self._lock:
            self._open.pop(debt, None)

    def _ask(self) -> None:
        with self._lock:
            debts = list(self._open)
            self._asking = bool(debts)
        for debt in debts:
            if debt.adapter.closed():
                self.paid(debt)
                debt.lost()
        if debts:
            self._executor.later(ASK_NS, self._ask)
