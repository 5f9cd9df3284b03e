"""The memory of a resource bundle: what is reserved for it, and where it allocates once that is used up (2.11)."""

from __future__ import annotations

import threading

from atops.base.errors import OutOfMemory
from atops.device.memory.allocation import Allocation
from atops.device.memory.device_memory import DeviceMemory

__all__ = ("ReservedMemory",)

LABEL = "reserved by a resource bundle"


class ReservedMemory:
    """Ranges of a device's memory for one bundle, taken from `banks` in this order, and allocations of them."""

    def __init__(self, memory: DeviceMemory, banks: tuple[int, ...]) -> None:
        self.banks = banks
        self._memory = memory
        self._lock = threading.Lock()
        self._pieces: list[Allocation] = []  # what is free, by address
        self._inside: set[int] = set()  # by serial, what was allocated of them

    @property
    def free(self) -> int:
        """The reserved bytes that are not allocated."""
        with self._lock:
            return sum(piece.size for piece in self._pieces)

    def reserve(self, nbytes: int) -> None:
        """Take so many bytes, in as many ranges as it needs. Raises OutOfMemory; then it holds nothing."""
        site, left = "a resource bundle", nbytes
        try:
            for bank in self.banks:
                while left:
                    most = self._memory.statistics().banks[bank].largest_free
                    if not most:
                        break
                    part = min(left, most)
                    try:
                        piece = self._memory.allocate(part, bank=bank, site=site, label=LABEL)
                    except OutOfMemory:  # another thread was faster; what is left is looked at again
                        continue
                    self._pieces.append(piece)
                    left -= part
            if left:
                raise OutOfMemory(f"{nbytes} bytes for a resource bundle on banks {self.banks}: {left} are not there")
        except BaseException:
            self.close()
            raise
        self._pieces.sort(key=lambda piece: piece.offset)

    def allocate(self, nbytes: int, site: object) -> Allocation:
        """Allocate of what is reserved, or outside of it by the same order of banks. Raises OutOfMemory."""
        if nbytes:
            with self._lock:
                rank = self.banks.index
                able = [each for each in self._pieces if each.size >= nbytes]
                if able:
                    piece = min(able, key=lambda each: (rank(each.bank), each.size))
                    self._pieces.remove(piece)
                    found, rest = self._memory.cut(piece, nbytes, "the bundle it was reserved for", site)
                    self._keep(rest)
                    self._inside.add(found.serial)
                    return found
        return self._outside(nbytes, site)

    def _outside(self, nbytes: int, site: object) -> Allocation:
        for bank in self.banks:
            try:
                return self._memory.allocate(nbytes, bank=bank, site=site)
            except OutOfMemory:
                continue
        if len(self.banks) == len(self._memory.statistics().banks):
            return self._memory.allocate(nbytes, site=site)  # across the ends of banks
        raise OutOfMemory(f"none of banks {self.banks} has {nbytes} bytes in one piece")

    def give_back(self, allocation: Allocation, by: object) -> None:
        """End an allocation: its range is reserved again, as long as the bundle lives. Raises IllegalAddress.

        Not where another process has mapped it: it goes to the device then, once none has.
        """
        with self._lock:
            inside = allocation.serial in self._inside
            self._inside.discard(allocation.serial)
            if inside and not self._memory.is_pinned(allocation):
                self._keep(self._memory.cut(allocation, None, by, allocation.site, LABEL)[0])
                return
        self._memory.free(allocation, by)

    def close(self) -> None:
        """Give back what is reserved. What is allocated stays valid until it is freed."""
        with self._lock:
            pieces, self._pieces, self._inside = self._pieces, [], set()
        for piece in pieces:
            if piece.alive:  # a reset may have been faster
                self._memory.free(piece, "the end of its resource bundle")

    def _keep(self, piece: Allocation | None) -> None:
        """Put a free range among the others, joined with its neighbours. The lock is held."""
        if piece is None:
            return
        for other in self._pieces.copy():
            low, high = (other, piece) if other.offset < piece.offset else (piece, other)
            whole = self._memory.join(low, high, "its resource bundle")
            if whole is not None:
                self._pieces.remove(other)
                piece = whole
        self._pieces.append(piece)
        self._pieces.sort(key=lambda each: each.offset)
