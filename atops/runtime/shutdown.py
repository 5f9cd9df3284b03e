"""Ending a driver: drop the work, let what runs end within its grace, then stop the threads. It never hangs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from atops.base.errors import StreamAborted
from atops.base.waiting.loop_adapter import LoopWaiter
from atops.base.waiting.parking_lot import ParkingLot, Waiter
from atops.runtime.board.handles import bury
from atops.runtime.core.services import DriverServices

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("Closing", "streams_left")

LOOK_NS = 2_000_000
MARGIN = 1.0  # seconds beyond the abort grace before what is left is given up


class Closing:
    """The end of one driver, as something that can be waited for."""

    def __init__(self, driver: DriverServices) -> None:
        self.done = False
        self.begun = False  # whether its steps are posted
        self._driver = driver
        self._lock = threading.Lock()
        self._lot: ParkingLot[Waiter] = ParkingLot("the end of a driver")
        self._until = driver.executor.now() + int((driver.options.abort_grace + MARGIN) * 1e9)

    def look(self) -> None:
        """Stop the driver if nothing is left to end; else look again soon. A driver step."""
        driver = self._driver
        if self.done:
            return
        with driver.lock:
            left = streams_left(driver)
        shown = all([context.printing.idle() for context in driver.contexts])  # each has what is left shown
        if (left or not shown) and driver.executor.now() < self._until:
            driver.executor.later(LOOK_NS, self.look)
            return
        for stream in left:
            for item in stream.pending():
                stream.finish(item, StreamAborted(f"{driver!r} was closed while {item!r} did not end"))
        for context in (*driver.contexts, *driver.retired):
            context.close_memory("the driver's close")
        driver.retired.clear()
        driver.host.close("the driver's close")
        bury(driver.contexts)
        driver.call_apart(driver.tracer.flush)
        with self._lock:
            self.done = True
            waiters = self._lot.take_all()
        for waiter in waiters:
            waiter.wake()
        driver.executor.close()

    def add_waiter(self, waiter: Waiter) -> bool:
        """Park a waiter. Returns False when the driver has stopped."""
        with self._lock:
            if self.done:
                return False
            self._lot.park(waiter)
            return True

    def discard_waiter(self, waiter: LoopWaiter) -> None:
        """Forget a waiter that gave up."""
        with self._lock:
            self._lot.discard(waiter)

    def __repr__(self) -> str:
        state = "all has ended" if self.done else "ending what runs; `await driver.aclose()` waits for it"
        return f"<Closing of {self._driver!r}: {state}>"


def streams_left(driver: DriverServices) -> list[StreamQueue]:
    """Return every stream that has work, of devices that are being reset too. With the lock held."""
    streams = driver.active_streams()
    for context in driver.retired:
        streams += context.active
    return streams
