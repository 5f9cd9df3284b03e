"""The host's own wait for a word of memory, outside of every stream's order."""

from __future__ import annotations

import threading
import time

from atops.base.errors import AtopsError
from atops.base.waiting.current_loop import current_loop_adapter
from atops.base.waiting.parking_lot import ParkingLot, Waiter
from atops.device.memory.value_wait import Condition, Watch
from atops.runtime.board.context import DeviceContext
from atops.runtime.executors.executor import HERE
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.waiting import Wait, spins

__all__ = ("WordWait",)


class WordWait(Wait):
    """A wait until the 32-bit word at the start of a buffer satisfies a condition against `value`.

    It ends when such a value is stored, when the memory is freed (IllegalAddress; StreamAborted by a reset) or when its
    waiter gives up. No stream and no device waits for it.
    """

    __slots__ = ("_context", "_error", "_lock", "_lot", "_watch", "done")

    def __init__(self, context: DeviceContext, word: Buffer, value: int, condition: Condition) -> None:
        self.done = False
        self._context = context
        self._error: AtopsError | None = None
        self._lock = threading.Lock()
        self._lot: ParkingLot[Waiter] = ParkingLot("a word in memory")
        poll = context.driver.poller.add
        self._watch = Watch(word.allocation, word.offset, 32, value, condition, None, self._end, self._end, poll)

    def blocking(self) -> None:
        """Block, polling where the device's flags ask for it. Raises WouldDeadlock on the runtime's own threads."""
        driver = self._context.driver
        self._watch.arm()  # may end the wait here and now
        try:
            if spins(self._context) and not driver.inline and HERE.role in (None, "callback"):
                while not self.done:
                    time.sleep(0)  # gives up the interpreter lock, not the processor
            driver.executor.block(self, None)
        finally:
            self._watch.cancel()
        self._raise_error()

    async def awaiting(self) -> None:
        """Wait on the caller's loop."""
        self._watch.arm()
        try:
            await current_loop_adapter().park(self)
        finally:
            self._watch.cancel()
        self._raise_error()

    def _end(self, error: AtopsError | None = None) -> None:
        """Wake the waiter, once, in the thread that stored the word or freed the memory."""
        with self._lock:
            self._error = error
            self.done = True
            waiters = self._lot.take_all()
        for waiter in waiters:
            waiter.wake()

    def _raise_error(self) -> None:
        if self._error is not None:
            self._context.check_survived()
            raise self._error.fresh()

    # ---- for executors and loops

    def add_waiter(self, waiter: Waiter) -> bool:
        """Park a waiter. Returns False when there is nothing left to wait for."""
        with self._lock:
            if self.done:
                return False
            self._lot.park(waiter)
            return True

    def discard_waiter(self, waiter: Waiter) -> None:
        """Forget a waiter that gave up."""
        with self._lock:
            self._lot.discard(waiter)
