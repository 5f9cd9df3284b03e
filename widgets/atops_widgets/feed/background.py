"""The one thread of the widgets: a loop that reads traces and sends frames, so that neither the user's loop nor the
driver's threads do. It starts with the first feed that follows a driver or meets a page, and is a daemon.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Final

from atops.base.fork_locks import fork_safe

__all__ = ("call_later", "call_soon")

LOCK: Final = fork_safe(threading.Lock())
LOOPS: dict[int, asyncio.AbstractEventLoop] = {}  # by process: a forked child has a thread of its own


def _loop() -> asyncio.AbstractEventLoop:
    """Return this process's loop; start its thread if there is none."""
    with LOCK:
        loop = LOOPS.get(os.getpid())
        if loop is None:
            loop = asyncio.new_event_loop()
            LOOPS.clear()
            LOOPS[os.getpid()] = loop
            threading.Thread(target=loop.run_forever, name="atops-widgets", daemon=True).start()
        return loop


def call_soon(function: Callable[..., object], *arguments: object) -> None:
    """Have the widgets' thread call a function, soon, in order. From any thread; returns at once."""
    _loop().call_soon_threadsafe(function, *arguments)


def call_later(seconds: float, function: Callable[..., object]) -> asyncio.TimerHandle:
    """Have a function called in some seconds. On the widgets' thread only."""
    return asyncio.get_running_loop().call_later(seconds, function)
