"""The copy engines of one device: which copies may run now, by direction, engine and urgency. Bytes move elsewhere.

Host-to-device and device-to-host copies of one device never run at the same time (TOPS Runtime API, 2.6
topsMemcpyAsync); copies of one direction share the link, up to the number of engines. Waiting copies are
served by (priority, ticket), and none overtakes a more urgent copy that the other direction holds up. What a copy gives
back goes to a less urgent one only after the next copy of its stream had its chance.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import IntEnum
from functools import partial

from atops.base.locks import OwnedLock, make_lock

__all__ = ("CopyEngines", "CopyJob", "Direction")


class Direction(IntEnum):
    """What a copy uses: the host link one way or the other, or only the device's own memory."""

    NONE = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2


class CopyJob:
    """One copy that wants an engine. `start` is called with no lock held, once, when it may run."""

    __slots__ = ("direction", "engine", "priority", "ticket")

    def __init__(self, priority: int, ticket: int, direction: Direction) -> None:
        self.priority, self.ticket = priority, ticket
        self.direction = direction
        self.engine = -1

    def start(self) -> None:
        """Begin; nothing, where only the engine is to be held."""

    def __lt__(self, other: CopyJob) -> bool:
        """Say whether it comes first: by its priority, then its ticket."""
        return (self.priority, self.ticket) < (other.priority, other.ticket)


def _at_once(step: Callable[[], None], priority: int) -> None:
    """Run a step now."""
    step()


class CopyEngines:
    """The copy engines of one device and its host link. `offer` runs a step after all that is more urgent."""

    def __init__(
        self,
        engines: int,
        lock: OwnedLock | None = None,
        offer: Callable[[Callable[[], None], int], None] = _at_once,
    ) -> None:
        """Make so many engines; those that are a share of others have the lock of these."""
        self.engines, self.offer = engines, offer
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

    def waits(self, ticket: int) -> bool:
        """Return whether the job with this ticket waits here: a snapshot."""
        with self.lock:
            return any(job.ticket == ticket for job in self.waiting)

    def request(self, job: CopyJob) -> None:
        """Start `job` now or when its turn comes."""
        with self.lock:
            heapq.heappush(self.waiting, job)
            started = self._serve(job.priority)
        for ready in started:
            ready.start()

    def give_back(self, job: CopyJob) -> None:
        """Take back the engine of a job that has ended, for jobs that are as urgent."""
        with self.lock:
            heapq.heappush(self._idle, job.engine)
            if job.direction != Direction.NONE:
                self._sharing -= 1
                if self._sharing == 0:
                    self._link = Direction.NONE
            started = self._serve(job.priority)
        for ready in started:
            ready.start()

    def give_later(self) -> None:
        """Let less urgent jobs have what was given back, once nothing more urgent is to be done."""
        if not self.waiting:
            return
        with self.lock:
            priority = self.waiting[0].priority if self.waiting and self._can_start(self.waiting[0]) else None
        if priority is not None:
            self.offer(partial(self._give, priority), priority)

    def release(self, job: CopyJob) -> None:
        """As `give_back` and `give_later`."""
        self.give_back(job)
        self.give_later()

    def _give(self, priority: int) -> None:
        with self.lock:
            started = self._serve(priority)
        for ready in started:
            ready.start()
        self.give_later()

    def withdraw(self, job: CopyJob) -> bool:
        """Forget a job that has not started. Returns False when it has."""
        with self.lock:
            if job not in self.waiting:
                return False
            self.waiting.remove(job)
            heapq.heapify(self.waiting)
            return True

    def _can_start(self, job: CopyJob) -> bool:
        """Return whether there is an engine and the link is free. The lock is held."""
        return bool(self._idle) and (job.direction == Direction.NONE or self._link in (Direction.NONE, job.direction))

    def _serve(self, limit: int) -> list[CopyJob]:
        """Take engines for the jobs that may start, up to this priority. The lock is held."""
        started: list[CopyJob] = []
        while self.waiting and self.waiting[0].priority <= limit and self._can_start(self.waiting[0]):
            job = heapq.heappop(self.waiting)
            job.engine = heapq.heappop(self._idle)
            if job.direction != Direction.NONE:
                self._link = job.direction
                self._sharing += 1
            started.append(job)
        return started

    def __repr__(self) -> str:
        busy, link = self.engines - len(self._idle), self._link.name.lower()
        return f"<CopyEngines {busy} of {self.engines} busy, link {link}, {len(self.waiting)} waiting>"
