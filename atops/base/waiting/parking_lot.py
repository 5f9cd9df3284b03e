"""Waiters, how they are woken, and a first-in, first-out lot for them.

Reservations, the end of a driver, counted barriers and kernel signals park in such a lot. It has no lock: its owner's
lock guards it, and waiters are woken after that lock is released. A completion, the hottest of all, keeps its waiters
itself, without a lock. How a cancelled await leaves is in `asyncio_loop.py` and `trio_loop.py`, in `park`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterator
from typing import Generic, Protocol, TypeVar

from atops.base.errors import InvalidType, InvalidValue
from atops.base.log_fields import get_logger

__all__ = ("Ending", "ParkingLot", "ThreadWaiter", "Waiter", "seconds", "wake")

log = get_logger("atops.driver")


def seconds(timeout: float | None) -> float | None:
    """Return a timeout as the host can wait for it: at least 0, and infinity as None.

    Raises InvalidType for what is no number, InvalidValue for NaN.
    """
    if timeout is None or timeout == math.inf:
        return None
    try:
        if not math.isnan(timeout):
            return min(max(0.0, float(timeout)), threading.TIMEOUT_MAX)
    except TypeError:
        raise InvalidType(f"the timeout is {timeout!r}; expected seconds, or None for no limit") from None
    raise InvalidValue(f"the timeout is {timeout!r}; expected seconds, or None for no limit")


class Waiter(Protocol):
    """Whatever can be parked. `wake` is called from any thread, with no lock held; it must not block.

    It is called once; after a Ctrl-C in the middle of it, once more.
    """

    def wake(self) -> None:
        """Let the waiter go on."""


W = TypeVar("W")


class ParkingLot(Generic[W]):
    """Hold waiters in order of arrival. `what` says in words what they wait for."""

    __slots__ = ("_waiters", "what")

    def __init__(self, what: str = "") -> None:
        self.what = what
        self._waiters: dict[W, None] = {}  # a dict keeps order and removes from the middle in O(1)

    def park(self, waiter: W) -> None:
        """Add a waiter at the end."""
        self._waiters[waiter] = None

    def discard(self, waiter: W) -> bool:
        """Remove a waiter that gave up. Returns False when it had been taken already."""
        return self._waiters.pop(waiter, self) is None

    def take(self, count: int = 1) -> list[W]:
        """Remove and return up to `count` waiters, the longest-waiting first."""
        waiters = self._waiters
        taken = [waiter for waiter, _ in zip(waiters, range(count), strict=False)]
        for waiter in taken:
            del waiters[waiter]
        return taken

    def take_all(self) -> list[W]:
        """Remove and return every waiter, the longest-waiting first."""
        taken = list(self._waiters)
        self._waiters.clear()
        return taken

    def __iter__(self) -> Iterator[W]:
        """Iterate over a snapshot of the waiters, the longest-waiting first."""
        return iter(list(self._waiters))

    def __len__(self) -> int:
        return len(self._waiters)

    def __repr__(self) -> str:
        return f"<ParkingLot {self.what or 'of waiters'}: {len(self._waiters)} parked>"


def wake(waiters: Collection[Waiter]) -> None:
    """Wake waiters, with no lock held. An error in waking one is logged, and the others are woken.

    After a Ctrl-C in between, all are woken again, some twice.
    """
    try:
        for waiter in waiters:
            try:
                waiter.wake()
            except Exception:  # no thread to be had for it, say
                log.exception("%r could not be woken", waiter)
    except BaseException:
        wake(waiters)
        raise


class Ending:
    """Something that ends once, from any thread. Its waiters have a lot and a lock of its own."""

    def __init__(self, what: str) -> None:
        self.is_done = False
        self._lock = threading.Lock()
        self._lot: ParkingLot[Waiter] = ParkingLot(what)

    def add_waiter(self, waiter: Waiter) -> bool:
        """Park a waiter. Returns False when there is nothing left to wait for."""
        with self._lock:
            if self.is_done:
                return False
            self._lot.park(waiter)
            return True

    def discard_waiter(self, waiter: Waiter) -> None:
        """Forget a waiter that gave up."""
        with self._lock:
            self._lot.discard(waiter)

    def end(self) -> None:
        """Be over, and wake the waiters."""
        with self._lock:
            self.is_done = True
            waiters = self._lot.take_all()
        wake(waiters)


class ThreadWaiter:
    """A plain thread that blocks until it is woken."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()

    def wake(self) -> None:
        """Let the blocked thread go on. Harmless when it was let go before."""
        if self._gate.locked():
            self._gate.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until woken or for `timeout` seconds. Returns whether it was woken; signals interrupt it (Ctrl-C).

        Raises as `seconds` does.
        """
        limit = seconds(timeout)
        return self._gate.acquire(timeout=-1 if limit is None else limit)  # to a lock -1 means no limit
