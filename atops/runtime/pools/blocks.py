"""Blocks of memory that a pool keeps, and the rules of their reuse. Callers hold the pool's lock.

A block is a range of device memory that allocations have one after another: the next may get it while commands that use
the last are still queued.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atops.device.memory.allocation import Allocation
    from atops.runtime.core.completion import Completion
    from atops.runtime.queues.queue import StreamQueue
    from atops.runtime.stream_memory import StreamMemory

__all__ = ("ANY", "Block", "FreeBlocks", "Origin", "Shelf", "order_of", "waited_for")

ANY = 1 << 63  # no block is larger


class Block:
    """A range of `size` bytes. `newest` is the allocation that has it, or had it last, and takes `used` of them.

    `frees`: by stream order, the newest free that is enqueued and has not run, with the serial of its allocation; older
    ones of that order end before it. `left` counts all such frees, and `held` those that have run and are put off.
    `order` and `seq`: the stream order and the command number of the last free. `since`: the board's newest command
    when nothing used it. `spoiled`: an allocation of it was ended otherwise, and may still be written to.
    """

    __slots__ = ("frees", "held", "left", "lent", "newest", "order", "seq", "since", "size", "spoiled", "used")

    def __init__(self, newest: Allocation, size: int) -> None:
        self.newest = newest
        self.size = size
        self.used = size
        self.lent = True
        self.frees: dict[int, tuple[int, Completion]] = {}
        self.left = self.held = 0
        self.order = 0
        self.seq = self.since = 0
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


# ---- the rules of reuse


class Origin(IntEnum):
    """Where the memory of an allocation came from."""

    FRESH = 0
    SAME_STREAM = 1
    OPPORTUNISTIC = 2
    AFTER_EVENT = 3
    INTERNAL_DEPENDENCY = 4


class FreeBlocks:
    """The free blocks: idle ones, promised ones, of which an enqueued free has still to run, and held ones.

    Promised blocks are on one shelf for each stream, by its `order_of`. Held blocks are given out by no rule: a free of
    theirs is put off. `opportunistic` and `events` switch two of the rules.
    """

    __slots__ = ("_age", "_spare", "events", "held", "idle", "opportunistic", "promised")

    def __init__(self) -> None:
        self.opportunistic = self.events = True
        self.idle = Shelf()
        self.held = Shelf()
        self._age: OrderedDict[Block, None] = OrderedDict()  # idle blocks, longest idle first
        self.promised: dict[int, Shelf] = {}
        self._spare: Shelf | None = None  # an empty one for reuse: some streams need one again and again

    def rest(self, block: Block) -> None:
        """Add a block that is idle: none of its frees has still to run."""
        self.idle.put(block)
        self._age[block] = None

    def promise(self, block: Block) -> None:
        """Add a block of which a free has still to run, or is put off."""
        if block.held:
            self.held.put(block)
            return
        shelf = self.promised.get(block.order)
        if shelf is None:
            shelf = self.promised[block.order] = self._spare if self._spare is not None else Shelf()
            self._spare = None
        shelf.put(block)

    def drop(self, block: Block) -> None:
        """Take a block away, before its frees change."""
        if not block.left:
            self.idle.drop(block)
            del self._age[block]
            return
        if block.held:
            self.held.drop(block)
            return
        shelf = self.promised[block.order]
        shelf.drop(block)
        if not shelf.total:
            self._spare = self.promised.pop(block.order)

    def find(self, least: int, most: int, order: int, stream: StreamMemory) -> tuple[Block, Origin] | None:
        """Return a block of `least` to `most` bytes that `stream` may have without waiting, and by which rule."""
        events = self.events
        own = self.promised.get(order)
        if own is not None and (block := own.newest(least, most)) is not None and not _in_use(block, stream):
            return block, Origin.SAME_STREAM
        if self.idle.total:
            if self.opportunistic:
                if (block := self.idle.newest(least, most)) is not None:
                    return block, Origin.SAME_STREAM if block.order == order else Origin.OPPORTUNISTIC
            else:
                for block in self.idle.between(least, most):
                    if block.order == order:
                        return block, Origin.SAME_STREAM
                    if events and block.seq < waited_for(stream, block.order):
                        return block, Origin.AFTER_EVENT
        if events and stream.waited:
            for other, shelf in self.promised.items():
                seq = waited_for(stream, other)
                block = shelf.freed_before(seq, least, most) if seq else None
                if block is not None and not _in_use(block, stream):
                    return block, Origin.AFTER_EVENT
        return None

    def elsewhere(self, least: int, order: int) -> Block | None:
        """Return the smallest block of at least `least` bytes that another stream will free, the earliest of these."""
        first = [shelf.oldest(least, ANY) for other, shelf in self.promised.items() if other != order]
        usable = [block for block in first if block is not None and not _in_use(block)]
        return min(usable, key=lambda block: (block.size, block.seq), default=None)

    def eldest(self) -> Block:
        """Return the block that has been idle longest. There must be one."""
        return next(iter(self._age))

    def by_age(self) -> list[Block]:
        """Return the idle blocks, the one that has been idle longest first."""
        return list(self._age)

    @property
    def promised_bytes(self) -> int:
        """Bytes of the promised blocks."""
        return sum(shelf.total for shelf in self.promised.values())


def order_of(stream: StreamQueue) -> int:
    """Return a number for a stream's order: its own, and one below 0 for the null stream of each device."""
    return stream.number or ~stream.context.ordinal


def waited_for(stream: StreamMemory, order: int) -> int:
    """Return the number of the newest record of another order that `stream` has waited for; 0 if there is none."""
    return stream.waited.get(order, 0) if stream.waited else 0


def _in_use(block: Block, *streams: StreamMemory) -> bool:
    """Return whether commands may use the block that one of these streams, or one that frees it, has lost."""
    freeing = [item.stream for _, item in block.frees.values()]
    return any([each.lost is not None and each.lost_since(block.since) for each in (*freeing, *streams)])
