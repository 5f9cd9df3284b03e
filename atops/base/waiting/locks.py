"""Locks that know who holds them, for what a finalizer or a signal handler calls in the middle of a call of its thread.

Such code runs between any two steps of a thread, which may hold a lock just then: waiting for it would never end. It
may look, and hand work over; what would change a state that is half changed is refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, cast

from atops.base.errors import IllegalState

__all__ = ("OwnedLock", "attempt", "check_entry", "make_lock", "reentered", "take_patiently")

NOW = (False,)  # do not wait
PATIENCE = 256  # how often one steps back from a lock before queueing for it


class OwnedLock(Protocol):
    """A lock that its holder may take again.

    `with lock:` is C code where it takes it and gives it back: no signal handler, and so no Ctrl-C, comes in between.
    No loop or comprehension stands right under it: CPython 3.12 and 3.13 have no entry for a jump backward in the table
    of what is to be left when an exception comes there, and would keep the lock. A function called there may loop.
    """

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it. Returns whether that went well."""

    def release(self) -> None:
        """Give it back."""

    def _is_owned(self) -> bool:
        """Return whether the calling thread holds it."""

    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


def make_lock() -> OwnedLock:
    """Return a new lock."""
    return cast(OwnedLock, threading.RLock())


def attempt(lock: OwnedLock, call: Callable[[], object]) -> None:
    """Call with the lock taken, if that takes no waiting and this thread does not hold it; else do nothing."""
    if lock._is_owned():
        return
    # C code takes the lock, and no signal handler runs between that and the `try`, as one does after `acquire(False)`.
    for _ in filter(None, map(lock.acquire, NOW)):
        try:
            call()
        finally:
            lock.release()


def take_patiently(lock: OwnedLock) -> None:
    """Take a lock for a worker, stepping back while a producer has it.

    A worker that queued for it would get it without a turn with the interpreter; then the producer would queue, and the
    two would hand both over again and again: a convoy, at twice the cost.
    """
    for _ in range(PATIENCE):
        if lock.acquire(blocking=False):
            return
        time.sleep(0)  # gives up the turn, and nothing else
    lock.acquire()


def check_entry(lock: OwnedLock, what: str) -> None:
    """Raise IllegalState where this very thread holds the lock, as only a finalizer or a signal handler can find it."""
    if lock._is_owned():
        raise reentered(what)


def reentered(what: object) -> IllegalState:
    """Return the error for a call that came in the middle of another one of its own thread, which holds a lock."""
    return IllegalState(
        f"{what} by a finalizer or a signal handler, in the middle of a call that its thread was making; have the "
        "thread do it when that call is over (loop.call_soon, a queue), or another thread"
    )
