"""Clocks in integer nanoseconds: the machine's own, and a virtual one that moves only when it is advanced."""

from __future__ import annotations

import time
from typing import Protocol, runtime_checkable

from atops.base.errors import InvalidValue

__all__ = ("Clock", "VirtualClock", "WallClock")


@runtime_checkable
class Clock(Protocol):
    """Anything that tells the time in integer nanoseconds, from an origin of its own, never backwards."""

    def now(self) -> int:
        """Return the time in nanoseconds."""
        ...


class WallClock:
    """The machine's monotonic clock. Its origin is the machine's own; only differences of times mean something."""

    __slots__ = ()

    # The bare builtin: reading the clock is on the path of every command, and a Python frame would double its price.
    now = staticmethod(time.monotonic_ns)

    def __repr__(self) -> str:
        return "<WallClock>"


class VirtualClock:
    """A clock that stands still until it is advanced. It belongs to one thread: the inline executor's."""

    __slots__ = ("_now",)

    def __init__(self, start: int = 0) -> None:
        """Make a clock that shows `start` nanoseconds. Raises InvalidValue when that is negative."""
        if start < 0:
            raise InvalidValue(f"a virtual clock cannot start at {start} ns; expected 0 or later")
        self._now = start

    def advance(self, ns: int) -> int:
        """Move on by `ns` nanoseconds and return the new time. Raises InvalidValue when `ns` is negative."""
        if ns < 0:
            raise InvalidValue(f"a virtual clock cannot advance by {ns} ns; time never runs backwards")
        self._now += ns
        return self._now

    def advance_to(self, ns: int) -> int:
        """Move on to the time `ns` and return it. Raises InvalidValue when that has passed already."""
        if ns < self._now:
            raise InvalidValue(f"a virtual clock at {self._now} ns cannot go to {ns} ns; time never runs backwards")
        self._now = ns
        return ns

    def now(self) -> int:
        """Return the time in nanoseconds."""
        return self._now

    def __repr__(self) -> str:
        return f"<VirtualClock {self._now} ns>"
