"""The last error of each context: what topsPeekAtLastError keeps and topsGetLastError resets.

A context is an asyncio or trio task, or a thread outside of tasks. A task does not see what another one that still
runs has failed with; what a finished task left behind is read in its thread, so that an error of one notebook cell can
be asked for in the next.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextvars import ContextVar
from typing import Any, NamedTuple
from weakref import ref

from atops.tops.types.error_codes import topsError_t, topsrtcResult

__all__ = ("LastError", "ThreadError", "explain_rtc", "forget", "last", "remember", "remember_rtc", "running_task")


class LastError(NamedTuple):
    """A failure: its code, the call and the reason as text, and the task that made the call, if any."""

    code: topsError_t
    message: str
    owner: ref[Any] | None


class ThreadError(threading.local):
    """The newest failure of one thread, in whichever of its tasks."""

    error: LastError | None = None


OWN: ContextVar[LastError | None] = ContextVar("atops_tops_last_error", default=None)
THREAD = ThreadError()
# The message of the last failure of runtime compilation, which `check` explains. It is no last error.
RTC: ContextVar[tuple[topsrtcResult, str] | None] = ContextVar("atops_tops_rtc_reason", default=None)


def remember(code: topsError_t, message: str) -> None:
    """Store a failure for this context."""
    task = running_task()
    error = LastError(code, message, None if task is None else ref(task))
    OWN.set(error)
    THREAD.error = error


def remember_rtc(code: topsrtcResult, message: str) -> None:
    """Store the message of a failure of runtime compilation for `explain_rtc`."""
    RTC.set((code, message))


def explain_rtc(code: topsrtcResult) -> str | None:
    """Return the message of the last failure of runtime compilation in this context, if it had this code."""
    said = RTC.get()
    return said[1] if said is not None and said[0] is code else None


def last() -> LastError | None:
    """Return the last failure of this context since the last reset, or None."""
    task = running_task()
    own = OWN.get()
    if own is not None and _task_of(own) is task and (task is not None or own is THREAD.error):
        return own
    left = THREAD.error
    if left is None:
        return None
    owner = _task_of(left)
    return left if owner is task or owner is None or _is_over(owner) else None


def forget() -> None:
    """Reset the last failure of this context."""
    if (error := last()) is not None:
        OWN.set(None)
        if THREAD.error is error:
            THREAD.error = None


def running_task() -> Any:
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


def _task_of(error: LastError) -> Any:
    return None if error.owner is None else error.owner()


def _is_over(task: Any) -> bool:
    """Return whether a task of asyncio or trio has ended."""
    if isinstance(task, asyncio.Future):
        return task.done()
    nursery = task.parent_nursery
    return nursery is None or task not in nursery.child_tasks
