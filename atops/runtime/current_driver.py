"""Which driver is meant: the innermost `async with Driver()` or `atops.run`, else the process-wide default."""

from __future__ import annotations

import atexit
import os
import threading

from atops.base.errors import NotInitialized
from atops.base.fork_locks import fork_safe
from atops.runtime.driver import CURRENT, DRIVERS, Driver

__all__ = ("current_driver", "default_driver")

LOCK = fork_safe(threading.Lock())
DEFAULT: list[Driver] = []


def current_driver() -> Driver:
    """Return the driver that is current here; start the default one if there is none."""
    return CURRENT.get() or default_driver()


def default_driver() -> Driver:
    """Return the process-wide driver, made on first use with the options of the environment."""
    if DEFAULT and DEFAULT[0].closed is None:
        return DEFAULT[0]
    with LOCK:
        if not DEFAULT or DEFAULT[0].closed is not None:
            DEFAULT[:] = [Driver()]
        return DEFAULT[0]


def _forked() -> None:
    """In a forked child: no driver thread came along, so every driver of the parent is dead here.

    The other hooks of a fork are listed in `base/fork_locks.py`.
    """
    DEFAULT.clear()
    for driver in list(DRIVERS):
        driver.disown(NotInitialized("this driver belongs to the parent of this forked process; make a new one"))


def _exit() -> None:
    """At interpreter exit: ask every driver to stop, wait for none."""
    for driver in list(DRIVERS):
        driver.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
atexit.register(_exit)
