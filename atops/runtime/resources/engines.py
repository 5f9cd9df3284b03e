"""The copy engines of a resource bundle: at most so many of its copies hold engines of the device at once (2.11).

It stands before the device's engines and offers what they offer; which engines those are, and who has the link, it
leaves to them.
"""

from __future__ import annotations

import heapq
import threading

from atops.device.copy_engine import CopyEngines, CopyJob, Direction

__all__ = ("EngineShare",)


class EngineShare:
    """So many of a device's copy engines. Who waits is served by (priority, ticket). Safe from any thread."""

    def __init__(self, engines: CopyEngines, limit: int) -> None:
        self.engines = engines
        self.limit = limit
        self._lock = threading.Lock()
        self._busy = 0  # jobs that the device's engines have, begun or not
        self._waiting: list[CopyJob] = []  # a heap

    @property
    def full(self) -> bool:
        """Whether one more copy would wait for an engine: a snapshot."""
        return self._busy >= self.limit or self.engines.full

    def quiet(self, direction: Direction) -> bool:
        """Return whether nothing waits for the link, or holds it the other way."""
        return not self._waiting and self.engines.quiet(direction)

    def request(self, job: CopyJob) -> None:
        """Start `job` now or when its turn comes, here and with the device."""
        with self._lock:
            heapq.heappush(self._waiting, job)
        self._serve()

    def release(self, job: CopyJob) -> None:
        """Take back the engine of a job that has ended."""
        self.engines.release(job)
        self._one_less()

    def withdraw(self, job: CopyJob) -> bool:
        """Forget a job that has not started. Returns False when it has."""
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
                heapq.heapify(self._waiting)
                return True
        if not self.engines.withdraw(job):
            return False
        self._one_less()
        return True

    def _one_less(self) -> None:
        with self._lock:
            self._busy -= 1
        self._serve()

    def _serve(self) -> None:
        """Hand on to the device what may hold an engine now. A job starts on its way: no lock is held then."""
        while True:
            with self._lock:
                if not self._waiting or self._busy >= self.limit:
                    return
                job = heapq.heappop(self._waiting)
                self._busy += 1
            self.engines.request(job)

    def __repr__(self) -> str:
        return f"<EngineShare {self._busy} of {self.limit} busy, {len(self._waiting)} waiting; {self.engines!r}>"
