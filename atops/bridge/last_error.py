"""The last error of each context: what a function like topsPeekAtLastError keeps and topsGetLastError resets.

A context is an asyncio or trio task, or a thread outside of tasks. A task does not see what another one that still runs
has failed with; what a finished task left behind is read in its thread, so that an error of one notebook cell can be
asked for in the next.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextvars import ContextVar
from enum import IntEnum
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import ref

__all__ = ("LastError", "LastErrors", "running_task")

C = TypeVar("C", bound=IntEnum)


class LastError(NamedTuple, Generic[C]):
    """A failure: its code, the call and the reason as text, and the task that made the call, if any."""

    code: C
    message: str
    owner: ref[Any] | None


class _ThreadError(threading.local, Generic[C]):
    """The newest failure of one thread, in whichever of its tasks."""

    error: LastError[C] | None = None


class LastErrors(Generic[C]):
    """The last errors of one API, one of each context. `name` tells its context variable from others."""

    def __init__(self, name: str) -> None:
        self._own: ContextVar[LastError[C] | None] = ContextVar(f"{name}_last_error", default=None)
        self._thread = _ThreadError[C]()

    def remember(self, code: C, message: str) -> None:
        """Store a failure for this context."""
        task = running_task()
        error = LastError(code, message, None if task is None else ref(task))
        self._own.set(error)
        self._thread.error = error

    def last(self) -> LastError[C] | None:
        """Return the last failure of this context since the last reset, or None."""
        task = running_task()
        own = self._own.get()
        if own is not None and _task_of(own) is task and (task is not None or own is self._thread.error):
            return own
        left = self._thread.error
        if left is None:
            return None
        owner = _task_of(left)
        return left if owner is task or owner is None or _is_over(owner) else None

    def forget(self) -> None:
        """Reset the last failure of this context."""
        if (error := self.last()) is not None:
            self._own.set(None)
            if self._thread.error is error:
                self._thread.error = None


def running_task() -> object:
    """Return the task of asyncio or trio that runs here, or None in plain code."""
    try:
        if (task := asyncio.current_task()) is not None:
            return task
    except RuntimeError:
        pass
    trio = sys.modules.get("trio")
    try:
        return None if trio is None else trio.lowlevel.current_task()
    except RuntimeError:
        return None


def _task_of(error: LastError[C]) -> object:
    return None if error.owner is None else error.owner()


def _is_over(task: Any) -> bool:
    """Return whether a task of asyncio or trio has ended."""
    if isinstance(task, asyncio.Future):
        return task.done()
    nursery = task.parent_nursery
    return nursery is None or task not in nursery.child_tasks
