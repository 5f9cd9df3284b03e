"""Which resource bundle is meant when none is named: a context variable over a thread's default, as the device is.

It knows no bundle's parts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any

__all__ = ("ThreadBundle", "Unset", "chosen_bundle", "set_chosen_bundle", "within")


class Unset(Enum):
    """What a task has that never chose: it reads its thread's choice."""

    UNSET = 0


TASK: ContextVar[Any] = ContextVar("atops_default_bundle", default=Unset.UNSET)


class ThreadBundle(threading.local):
    """The choice of one thread."""

    bundle: Any = None


THREAD = ThreadBundle()


def chosen_bundle() -> Any:
    """Return the default bundle of this task, which may be of any device, or None."""
    chosen = TASK.get()
    return THREAD.bundle if chosen is Unset.UNSET else chosen


def set_chosen_bundle(bundle: Any) -> None:
    """Make a bundle, or none, the default of this task and of this thread."""
    THREAD.bundle = bundle
    TASK.set(bundle)


@contextmanager
def within(bundle: Any) -> Iterator[None]:
    """Let what this task enqueues in the block be the bundle's; with None, as it is without."""
    token = None if bundle is None else TASK.set(bundle)
    try:
        yield
    finally:
        if token is not None:
            TASK.reset(token)
