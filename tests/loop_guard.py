"""A guard that makes blocking an event loop an error, without looking at a clock."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio

WAITING_MODULES = {"threading", "queue", "concurrent.futures._base"}
LOOP_PACKAGES = {"asyncio", "anyio", "trio", "pytest_asyncio"}  # what they wait for on their own loop is their affair


@contextmanager
def no_blocking_on_loops() -> Iterator[None]:
    """Refuse sleeping, joining a thread and waiting on a condition wherever the calling thread runs an event loop.

    Conditions are under threading.Event, Semaphore, Barrier, queue.Queue and concurrent futures. The wait raises
    AssertionError where it stands, and leaving the block fails the test, in case it was swallowed. Locks are
    not seen: a short critical section is allowed.
    """
    blocked: list[str] = []

    def guarded(function: Callable[..., Any], waits: Callable[..., bool]) -> Callable[..., Any]:
        def guard(*args: Any, **kwargs: Any) -> Any:
            if waits(*args, **kwargs) and runs_a_loop() and not waits_for_the_loop():
                what = f"{function.__qualname__} would block the event loop of {threading.current_thread().name}"
                blocked.append(what + "\n" + "".join(traceback.format_stack(limit=6)))
                raise AssertionError(what)
            return function(*args, **kwargs)

        return guard

    wait, join = threading.Condition.wait, threading.Thread.join
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Condition, "wait", guarded(wait, lambda _, timeout=None: timeout != 0))
        patch.setattr(threading.Thread, "join", guarded(join, lambda thread, timeout=None: thread.is_alive()))
        patch.setattr(time, "sleep", guarded(time.sleep, lambda seconds: seconds > 0))
        yield
    if blocked:
        pytest.fail("\n".join(blocked))


def runs_a_loop() -> bool:
    """Say whether the calling thread is inside a running event loop."""
    return asyncio._get_running_loop() is not None or trio.lowlevel.in_trio_run()


def waits_for_the_loop() -> bool:
    """Say whether the guarded wait belongs to a loop's own machinery, or to a thread's start, which ends by itself."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__") in WAITING_MODULES:
        if frame.f_code is threading.Thread.start.__code__:
            return True
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in LOOP_PACKAGES
