"""The order of connected DTE contexts: which transfers begin only after which others. TOPS C++, beside 8.7.

It knows contexts as its nodes and transfers in flight; it knows no operation.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from atops.base.fork_locks import fork_safe
from atops.device.dte.transfer import CHAINED, DteEvent

if TYPE_CHECKING:
    from atops.device.dte.context import DteContext

__all__ = ("Chain", "connect", "reaches")

_lock = fork_safe(threading.Lock())  # a leaf: contexts of a block may be connected, and its threads may be OS threads


class Chain:
    """What one context is connected to.

    Each transfer of an earlier context lets one of a later one begin; `first` has, for each earlier context, its last
    transfer that has let none begin yet.
    """

    __slots__ = ("context", "first", "later")

    def __init__(self, context: DteContext) -> None:
        """Be the place of `context` in no order yet."""
        self.context = context
        self.first: dict[DteContext, DteEvent | None] = {}
        self.later: list[DteContext] = []

    def started(self, event: DteEvent) -> None:
        """Put a transfer of this context behind those before it, and before those that wait for it."""
        with _lock:
            if self.first:
                event.after = [transfer or context for context, transfer in self.first.items()]
                self.first = dict.fromkeys(self.first)
                event.state = CHAINED
            for later in self.later:
                waiting, chain = later.busy, later.chain
                if waiting is not None and waiting.state is CHAINED and self.context in waiting.after:
                    waiting.after[waiting.after.index(self.context)] = event
                elif chain is not None:
                    chain.first[self.context] = event

    def cut(self) -> None:
        """Take the context out of every order."""
        with _lock:
            for later in self.later:
                if later.chain is not None:
                    later.chain.first.pop(self.context, None)
            for earlier in self.first:
                if earlier.chain is not None:
                    earlier.chain.later.remove(self.context)
            self.first.clear()
            self.later.clear()


def connect(earlier: DteContext, later: DteContext) -> None:
    """Let transfers of `later` begin after those of `earlier`, each after one. A second time changes nothing."""
    with _lock:
        before = earlier.chain = earlier.chain or Chain(earlier)
        behind = later.chain = later.chain or Chain(later)
        if later not in before.later:
            before.later.append(later)
            behind.first[earlier] = None


def reaches(earlier: DteContext, later: DteContext) -> bool:
    """Return whether transfers of `later` begin after those of `earlier`, or both are one."""
    if earlier is later:
        return True
    with _lock:
        following = [] if earlier.chain is None else list(earlier.chain.later)
    return any(reaches(each, later) for each in following)
