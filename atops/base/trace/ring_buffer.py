"""The last things that were added, each with a position: 0, 1, 2, ... Adding never waits for a reader."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final, Generic, TypeVar

from atops.base.waiting.locks import attempt, make_lock

__all__ = ("Ring", "part_since")

T = TypeVar("T")

CHUNK: Final = 256  # added things that may wait to be numbered


class Ring(Generic[T]):
    """The last `capacity` things added, from any thread, finalizers included.

    Adding appends to an inbox (deque's append, popleft and len are atomic, with and without the GIL). A read,
    and every 256th addition that finds the lock free, moves the inbox to the ring.
    """

    __slots__ = ("_inbox", "_lock", "_ring", "_total", "dropped")

    def __init__(self, capacity: int) -> None:
        self._lock = make_lock()
        self._inbox: deque[T] = deque()
        self._ring: deque[T] = deque(maxlen=capacity)
        self._total = 0
        self.dropped = 0  # what the ring has lost since the last clear, because it was full

    def add(self, thing: T) -> None:
        """Add one thing."""
        self._inbox.append(thing)
        if len(self._inbox) >= CHUNK:
            attempt(self._lock, self._settle)

    def since(self, position: int, limit: int | None = None) -> tuple[list[T], int, int]:
        """Return at most `limit` of what is held from `position` on, the position after it, and how many were gone."""
        with self._lock:
            self._settle()
            return part_since(self._ring, self._total, position, limit)

    def clear(self) -> None:
        """Forget what is held and what was lost. Positions go on."""
        with self._lock:
            self._settle()
            self._ring.clear()
            self.dropped = 0

    def __len__(self) -> int:
        with self._lock:
            self._settle()
            return len(self._ring)

    def _settle(self) -> None:
        """Move what is in the inbox to the ring. The lock is held."""
        inbox, ring = self._inbox, self._ring
        batch = [inbox.popleft() for _ in range(len(inbox)) if inbox]  # only the lock's holder pops, and its handlers
        new, lost = len(batch), max(0, len(ring) + len(batch) - (ring.maxlen or 0))
        ring.extend(batch)
        self.dropped, self._total = self.dropped + lost, self._total + new


def part_since(ring: deque[T], total: int, position: int, limit: int | None = None) -> tuple[list[T], int, int]:
    """Return what a ring has from `position` on, at most `limit`; the position after it, and how many were gone.

    `total` things were ever added, of which the ring holds the last ones.
    """
    first = total - len(ring)
    begin = min(max(position, first), total)
    end = total if limit is None else min(total, begin + limit)
    return list(islice(ring, begin - first, end - first)), end, max(0, begin - position)
