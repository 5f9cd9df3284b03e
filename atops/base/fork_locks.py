"""Locks that are free in a forked child: those of modules, of classes, and of objects that belong to no driver.

A fork copies a lock as it is. If another thread held it, that thread does not exist in the child, and the child would
wait for ever. A driver's own locks need none of this: a child does not use its parent's drivers.

What a forked child does is decided in three hooks, each `os.register_at_fork` at the end of its file: here (locks),
`runtime/driver.py` (drivers) and `runtime/ipc/lending.py` (what the parent lends to other processes, and has borrowed).
"""

from __future__ import annotations

import os
from typing import Any, Final, TypeVar
from weakref import WeakSet

__all__ = ("fork_safe",)

T = TypeVar("T")

LOCKS: Final[WeakSet[Any]] = WeakSet()


def fork_safe(lock: T) -> T:
    """Have a `threading.Lock` or `RLock` free in every forked child. Returns the lock."""
    LOCKS.add(lock)
    return lock


def _renew() -> None:
    for lock in list(LOCKS):
        lock._at_fork_reinit()  # as Python's own modules do


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
