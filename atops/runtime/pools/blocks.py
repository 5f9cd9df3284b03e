"""Blocks of memory that a pool keeps, and shelves of them in order of size. Callers hold the pool's lock.

A block is a range of device memory that allocations have one after another: the next may get it while commands that use
the last are still queued.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atops.device.memory.allocation import Allocation
    from atops.runtime.core.completion import Completion

__all__ = ("Block", "Shelf")


class Block:
    """A range of `size` bytes. `newest` is the allocation that has it, or had it last, and takes `used` of them.

    `frees`: by stream order, the newest free that is enqueued and has not run, with the serial of its allocation; older
    ones of that order end before it. `left` counts all such frees. `order` and `seq`: the stream order and the command
    number of the last free. `spoiled`: an allocation of it was ended otherwise, and may still be written to.
    """

    __slots__ = ("frees", "left", "lent", "newest", "order", "seq", "size", "spoiled", "used")

    def __init__(self, newest: Allocation, size: int) -> None:
        self.newest = newest
        self.size = size
        self.used = size
        self.lent = True
        self.frees: dict[int, tuple[int, Completion]] = {}
        self.left = 0
        self.order = 0
        self.seq = 0
        self.spoiled = False

    def forget(self, serial: int) -> None:
        """Note that the free of an allocation has given the block back, if that is the newest of its order."""
        for order, (newest, _) in self.frees.items():
            if newest == serial:
                del self.frees[order]
                return


class Shelf:
    """Free blocks, by size; of one size in the order in which they came."""

    __slots__ = ("_rows", "_sizes", "total")

    def __init__(self) -> None:
        self._rows: dict[int, dict[Block, None]] = {}
        self._sizes: list[int] = []
        self.total = 0  # bytes

    def put(self, block: Block) -> None:
        """Add a block, as the newest. Harmless when it is here already, as after a Ctrl-C."""
        size = block.size
        row = self._rows.get(size)
        if row is None:
            self._rows[size] = {block: None}
            self.total += size
            insort(self._sizes, size)  # last: Ctrl-C may come after the call
        elif block not in row:
            row[block] = None
            self.total += size

    def drop(self, block: Block) -> None:
        """Take a block away."""
        size = block.size
        row = self._rows[size]
        at = bisect_left(self._sizes, size)  # first, as above
        del row[block]
        if not row:
            del self._rows[size], self._sizes[at]
        self.total -= size

    def newest(self, least: int, most: int) -> Block | None:
        """Return the newest block of the smallest size from `least` to `most`."""
        row = self._row(least, most)
        return None if row is None else next(reversed(row))

    def oldest(self, least: int, most: int) -> Block | None:
        """Return the oldest block of the smallest size from `least` to `most`."""
        row = self._row(least, most)
        return None if row is None else next(iter(row))

    def freed_before(self, seq: int, least: int, most: int) -> Block | None:
        """Return the oldest block of its size that was freed before `seq`, of the smallest such size in that range."""
        for size in self._sizes[bisect_left(self._sizes, least) : bisect_right(self._sizes, most)]:
            block = next(iter(self._rows[size]))
            if block.seq < seq:
                return block
        return None

    def between(self, least: int, most: int) -> Iterator[Block]:
        """Yield the blocks of sizes from `least` to `most`, the smallest first, of one size the newest first."""
        for size in self._sizes[bisect_left(self._sizes, least) :]:
            if size > most:
                return
            yield from reversed(self._rows[size])

    def _row(self, least: int, most: int) -> dict[Block, None] | None:
        row = self._rows.get(least)
        if row is None:
            at = bisect_left(self._sizes, least)
            if at < len(self._sizes) and self._sizes[at] <= most:
                row = self._rows[self._sizes[at]]
        return row

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {sum(map(len, self._rows.values()))} blocks, {self.total} bytes>"
