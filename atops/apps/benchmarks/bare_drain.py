"""The reference of every copy in a queue: the least that a threaded asyncio runtime must do to run one.

It is no part of the runtime and shares no code with it: no checks, no order between streams, no failure, no trace.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress

__all__ = ("BareDrain", "Slot", "one_thread")


class Slot:
    """What is left of a future: whether the copy is done, and who sleeps until it is."""

    __slots__ = ("done", "waiter")

    def __init__(self) -> None:
        self.done = False
        self.waiter: threading.Lock | None = None


Record = tuple[memoryview, memoryview, Slot]


class BareDrain:
    """A deque of copies, and a task on a loop in another thread that does them.

    Only the first record of an empty queue wakes the loop. There is no lock: append and popleft are atomic, and the
    task looks once more after it has said that it is about to sleep.
    """

    def __init__(self) -> None:
        self._records: deque[Record] = deque()
        self._awake = False
        self._loop = asyncio.new_event_loop()
        self._work = asyncio.Event()
        self._task = self._loop.create_task(self._drain())
        self._thread = threading.Thread(target=self._serve, name="bare-drain", daemon=True)
        self._thread.start()

    def submit(self, target: memoryview, source: memoryview, slot: Slot | None = None) -> Slot:
        """Append a copy; wake the task if the queue was empty."""
        if slot is None:
            slot = Slot()
        self._records.append((target, source, slot))
        if not self._awake:
            self._awake = True
            self._loop.call_soon_threadsafe(self._work.set)
        return slot

    def copy(self, target: memoryview, source: memoryview, count: int) -> None:
        """Enqueue `count` copies and block until the last is done."""
        submit = self.submit
        for _ in range(count - 1):
            submit(target, source)
        last = Slot()
        last.waiter = threading.Lock()
        last.waiter.acquire()
        submit(target, source, last)
        last.waiter.acquire()

    def close(self) -> None:
        """End the task and its thread."""
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _serve(self) -> None:
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.close()

    async def _drain(self) -> None:
        records = self._records
        while True:
            await self._work.wait()
            self._work.clear()
            while True:
                try:
                    target, source, slot = records.popleft()
                except IndexError:
                    self._awake = False
                    if not records:
                        break
                    self._awake = True
                    continue
                target[:] = source
                slot.done = True
                if slot.waiter is not None:
                    slot.waiter.release()


def one_thread(target: memoryview, source: memoryview, count: int) -> None:
    """Do the same copies through a deque with nobody else: what threads cost is the difference."""
    records: deque[Record] = deque()
    for _ in range(count):
        records.append((target, source, Slot()))
        into, out, slot = records.popleft()
        into[:] = out
        slot.done = True
