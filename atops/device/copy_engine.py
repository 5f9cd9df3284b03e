"""The copy engines of one device: which copies may run now, by direction, engine and urgency. Bytes move elsewhere.

Host-to-device and device-to-host copies of one device never run at the same time (TOPS Runtime API, 2.6
topsMemcpyAsync); copies of one direction share the link, up to the number of engines. Waiting copies are
served by (priority, ticket), and none overtakes a more urgent copy that the other direction holds up.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

from atops.base.locks import OwnedLock, make_lock

__all__ = ("CopyEngines", "CopyJob", "Direction")


class Direction(IntEnum):
    """What a copy uses: the host link one way or the other, or only the device's own memory."""

    NONE = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2


@dataclass(slots=True, order=True)
class CopyJob:
    """One copy that wants an engine. `start` is called with no lock held, once, when it may run."""

    priority: int
    ticket: int
    direction: Direction = field(compare=False)
    start: Callable[[], None] = field(compare=False)
    engine: int = field(default=-1, compare=False)


class CopyEngines:
    """The copy engines of one device and its host link."""

    def __init__(self, engines: int, lock: OwnedLock | None = None) -> None:
        """Make so many engines; those that are a share of others have the lock of these."""
        self.engines = engines
        self.lock = make_lock() if lock is None else lock
        self._idle = list(range(engines))
        self._link = Direction.NONE  # the direction that has the host link ...
        self._sharing = 0  # ... and how many copies share it
        self.waiting: list[CopyJob] = []  # a heap

    @property
    def full(self) -> bool:
        """Whether every engine serves a copy: a snapshot."""
        return not self._idle

    def quiet(self, direction: Direction) -> bool:
        """Return whether a copy short enough to run where it stands may do so now."""
        return not self.waiting and (direction == Direction.NONE or self._link in (Direction.NONE, direction))

    def request(self, job: CopyJob) -> None:
        """Start `job` now or when its turn comes."""
        with self.lock:
            heapq.heappush(self.waiting, job)
            started = self._serve()
        for ready in started:
            ready.start()

    def release(self, job: CopyJob) -> None:
        """Take back the engine of a job that has ended."""
        with self.lock:
            heapq.heappush(self._idle, job.engine)
            if job.direction != Direction.NONE:
                self._sharing -= 1
                if self._sharing == 0:
                    self._link = Direction.NONE
            started = self._serve()
        for ready in started:
            ready.start()

    def withdraw(self, job: CopyJob) -> bool:
        """Forget a job that has not started. Returns False when it has."""
        with self.lock:
            if job not in self.waiting:
                return False
            self.waiting.remove(job)
            heapq.heapify(self.waiting)
            return True

    def _serve(self) -> list[CopyJob]:
        started = []
        while self.waiting and self._idle:
            job = self.waiting[0]
            if job.direction not in (Direction.NONE, self._link) and self._link != Direction.NONE:
                break
            heapq.heappop(self.waiting)
            job.engine = heapq.heappop(self._idle)
            if job.direction != Direction.NONE:
                self._link = job.direction
                self._sharing += 1
            started.append(job)
        return started

    def __repr__(self) -> str:
        busy, link = self.engines - len(self._idle), self._link.name.lower()
        return f"<CopyEngines {busy} of {self.engines} busy, link {link}, {len(self.waiting)} waiting>"
