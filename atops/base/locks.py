"""Locks that know who holds them, and locks that are free in a forked child.

A finalizer or a signal handler runs between any two steps of a thread. If the thread holds a lock just then, waiting
for it would never end. Such code may read, and post work for later; what would change a half-changed state is refused.

A fork copies a lock as it is. If another thread held it, that thread does not exist in the child, and the child would
wait for ever. So the locks of modules, of classes, and of objects that belong to no driver are made by `fork_safe`; a
driver's own need none of this, for a child does not use its parent's drivers. What a forked child does is decided in
three hooks, each `os.register_at_fork` at the end of its file: here (locks), `runtime/driver.py` (drivers) and
`runtime/ipc/lending.py` (what the parent lends to other processes, and has borrowed).
"""

from __future__ import annotations

import os
import time
from _thread import RLock  # the class, of which threading.RLock makes instances
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar
from weakref import WeakSet

from atops.base.errors import IllegalState

__all__ = ("OwnedLock", "attempt", "check_entry", "fork_safe", "make_lock", "reentered", "take_patiently")

T = TypeVar("T")

LOCKS: Final[WeakSet[Any]] = WeakSet()
NOW = (False,)  # do not wait
PATIENCE = 256  # how often one steps back from a lock before queueing for it


class OwnedLock(RLock):  # type: ignore[misc]  # a base type in CPython, whatever typeshed says
    """A lock that its holder may take again.

    `with lock:` is C code where it takes it and gives it back: no signal handler, and so no Ctrl-C, comes in between.
    No loop or comprehension stands right under it: CPython 3.12 and 3.13 have no entry for a jump backward in the table
    of what is to be left when an exception comes there, and would keep the lock. A function called there may loop.

    Where each command takes it there is a way that costs half as much, for a thread that does not hold it yet: a `try`
    with `acquire()` as its first and `release()` as its last step, whose handler of all exceptions releases before it
    calls anything else, and passes over the RuntimeError of a lock that is not held.
    """

    __slots__ = ()

    # Whether the calling thread holds it.
    is_owned: ClassVar[Callable[[OwnedLock], bool]] = RLock._is_owned  # type: ignore[attr-defined]  # not in typeshed


def make_lock() -> OwnedLock:
    """Return a new lock."""
    return OwnedLock()


def attempt(lock: OwnedLock, call: Callable[[], object]) -> None:
    """Call with the lock held, if it is free now; do nothing if any thread has it, this one included."""
    if lock.is_owned():
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
    """Raise IllegalState if this thread holds the lock: then this is a finalizer or a signal handler."""
    if lock.is_owned():
        raise reentered(what)


def reentered(what: object) -> IllegalState:
    """Return the error for a call in the middle of another call of the same thread, which holds a lock."""
    return IllegalState(
        f"{what} by a finalizer or a signal handler, in the middle of a call that its thread was making; have the "
        "thread do it when that call is over (loop.call_soon, a queue), or another thread"
    )


def fork_safe(lock: T) -> T:
    """Have a `threading.Lock` or `RLock` free in every forked child. Returns the lock."""
    LOCKS.add(lock)
    return lock


def _renew() -> None:
    for lock in list(LOCKS):
        lock._at_fork_reinit()  # as Python's own modules do


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
