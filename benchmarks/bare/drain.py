"""The references of every copy in a queue: bare drains that do the same copies and nothing else.

They share no code with the runtime: no checks, no order between streams, no failure, no trace.
`TaskDrain` is a deque and a task on one asyncio loop, and every copy can be awaited, as a program would write it.
`ThreadDrain` has its task on a loop in another thread, as a runtime must that does not need the caller's loop, and a
copy of it has no future, only a flag: the least of all.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress

__all__ = ("Slot", "TaskDrain", "ThreadDrain", "one_thread")


class Slot:
    """The least of a future: whether the copy is done, and the lock of the thread that waits for it."""

    __slots__ = ("done", "waiter")

    def __init__(self) -> None:
        self.done = False
        self.waiter: threading.Lock | None = None


Record = tuple[memoryview, memoryview, Slot]


class TaskDrain:
    """A deque of copies with a future each, and a task on the same loop that does them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def copy(self, target: memoryview, source: memoryview, count: int) -> None:
        """Enqueue `count` copies and wait for the last."""
        self._loop.run_until_complete(self._copy(target, source, count))

    def close(self) -> None:
        """Close the loop."""
        self._loop.close()

    async def _copy(self, target: memoryview, source: memoryview, count: int) -> None:
        records: deque[tuple[memoryview, memoryview, asyncio.Future[None]]] = deque()
        work = asyncio.Event()
        task = asyncio.create_task(_drain(records, work))
        last = None
        for _ in range(count):
            last = self._loop.create_future()
            records.append((target, source, last))
            if not work.is_set():
                work.set()
        if last is not None:
            await last
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _drain(records: deque[tuple[memoryview, memoryview, asyncio.Future[None]]], work: asyncio.Event) -> None:
    """Do the copies of a queue, and sleep while it is empty."""
    while True:
        await work.wait()
        work.clear()
        while records:
            target, source, future = records.popleft()
            target[:] = source
            future.set_result(None)


class ThreadDrain:
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
    """Do the same copies through a deque in the calling thread alone: the difference is the cost of threads."""
    records: deque[Record] = deque()
    for _ in range(count):
        records.append((target, source, Slot()))
        into, out, slot = records.popleft()
        into[:] = out
        slot.done = True
