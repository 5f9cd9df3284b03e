"""Which ranges of one device's memory its L2 prefetch buffer holds: TOPS extension (2.11).

Books only: data are always coherent, so the bytes stay where they are.
"""

from __future__ import annotations

import threading
import zlib
from typing import NamedTuple

from atops.base.errors import InvalidValue, OutOfMemory
from atops.device.memory.allocation import Allocation
from atops.runtime.memory.buffer import Buffer

__all__ = ("PrefetchBuffer", "Prefetched")


class Prefetched(NamedTuple):
    """A range that was entered: `start` to `end` of a live allocation, in bytes; and, while watched, its contents."""

    allocation: Allocation
    start: int
    end: int
    checksum: int | None = None

    def noting(self, checksum: int | None) -> Prefetched:
        """Return the entry with the checksum of what it contains, or None so that it is not compared."""
        return self._replace(checksum=checksum)

    def touches(self, other: Prefetched) -> bool:
        """Say whether two ranges share a byte."""
        return self.allocation is other.allocation and self.start < other.end and other.start < self.end


class PrefetchBuffer:
    """The entries of one device, at most `capacity` bytes together; what is freed drops out. Safe from any thread.

    With `strict` it notes what they contain, for `stale` to compare. `watched` tells whether each copy is looked at as
    it begins: with `strict` while there are entries, and always with `timed`, where what a copy reads decides its time.
    """

    __slots__ = ("_entries", "_lock", "_strict", "_timed", "capacity", "watched")

    def __init__(self, capacity: int, strict: bool = False, timed: bool = False) -> None:
        self.capacity = capacity
        self.watched = timed
        self._strict = strict
        self._timed = timed
        self._entries: list[Prefetched] = []
        self._lock = threading.Lock()

    def enter(self, memory: Buffer) -> None:
        """Enter a range; an empty one enters nothing.

        Raises InvalidValue when it overlaps an entry, OutOfMemory when it does not fit beside the others.
        """
        asked = _range(memory)
        with self._lock:
            self._drop_dead()
            for entry in self._entries:
                if entry.touches(asked):
                    raise InvalidValue(
                        f"{memory!r} overlaps a prefetched range, bytes {entry.start} to {entry.end} of "
                        f"{entry.allocation!r}; invalidate that first"
                    )
            used = sum(entry.end - entry.start for entry in self._entries)
            if used + memory.nbytes > self.capacity:
                raise OutOfMemory(
                    f"the prefetch buffer has no {memory.nbytes} bytes: {used} of {self.capacity} hold "
                    f"{len(self._entries)} ranges; invalidate some"
                )
            if memory.nbytes:
                self._entries.append(asked.noting(_contents(asked)) if self._strict else asked)
                self.watched = self._timed or self._strict

    def drop(self, memory: Buffer) -> None:
        """Drop every entry that a range touches, whole."""
        asked = _range(memory)
        with self._lock:
            self._entries = [entry for entry in self._entries if not entry.touches(asked)]
            self.watched = self._timed or (self._strict and bool(self._entries))

    def entered(self, memory: Allocation, start: int, end: int) -> list[tuple[int, int]]:
        """Return which of the bytes `start` to `end` are entered, as disjoint ranges, the oldest entry first."""
        asked = Prefetched(memory, start, end)
        with self._lock:
            return [(max(start, each.start), min(end, each.end)) for each in self._entries if each.touches(asked)]

    def stale(self, memory: Allocation, start: int, end: int) -> list[Prefetched]:
        """Return the entries among these bytes that were written since they were entered: each once."""
        if not self.watched:
            return []
        asked, found = Prefetched(memory, start, end), []
        with self._lock:
            self._drop_dead()
            for place, entry in enumerate(self._entries):
                changed = entry.touches(asked) and entry.checksum not in (None, _contents(entry))
                if changed and entry.allocation.alive:  # asked last: its bytes may have gone meanwhile
                    found.append(entry)
                    self._entries[place] = entry.noting(None)
        return found

    def entries(self) -> list[Prefetched]:
        """Return what is entered, oldest first: a snapshot."""
        with self._lock:
            self._drop_dead()
            return list(self._entries)

    def _drop_dead(self) -> None:
        self._entries = [entry for entry in self._entries if entry.allocation.alive]

    def __repr__(self) -> str:
        return f"<PrefetchBuffer of {self.capacity} bytes: {len(self.entries())} ranges>"


def _range(memory: Buffer) -> Prefetched:
    return Prefetched(memory.allocation, memory.offset, memory.offset + memory.nbytes)


def _contents(entry: Prefetched) -> int:
    return zlib.crc32(entry.allocation.view[entry.start : entry.end])
