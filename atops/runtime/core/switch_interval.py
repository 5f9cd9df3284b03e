"""How often this process's Python threads take turns, for as long as kernels run that asked for it.

The interval belongs to the process: it is set when the first such kernel starts and put back when the last one ends.
"""

from __future__ import annotations

import sys
import threading

from atops.base.fork_locks import fork_safe

__all__ = ("SwitchInterval",)


class SwitchInterval:
    """The switch interval of one driver's options, None to leave it alone."""

    _lock = fork_safe(threading.Lock())
    _users = 0
    _before = 0.0

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def begin(self) -> None:
        """Set the interval, as a kernel starts."""
        if self._seconds is None:
            return
        with SwitchInterval._lock:
            if SwitchInterval._users == 0:
                SwitchInterval._before = sys.getswitchinterval()
            SwitchInterval._users += 1
            sys.setswitchinterval(self._seconds)

    def end(self) -> None:
        """Put the interval back, if this was the last kernel that asked for one."""
        if self._seconds is None:
            return
        with SwitchInterval._lock:
            SwitchInterval._users -= 1
            if SwitchInterval._users == 0:
                sys.setswitchinterval(SwitchInterval._before)
