"""Blocks of memory that a pool keeps, and the rules of their reuse. Callers hold the pool's lock.

A block is a range of device memory that belongs to one allocation after another. The next allocation may get it while
commands that use the one before are still queued.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING

from atops.runtime.core.order import EVERYTHING, NOTHING, seen_by

if TYPE_CHECKING:
    from atops.device.memory.allocation import Allocation
    from atops.runtime.core.completion import Completion
    from atops.runtime.owning_queue import OwningQueue

__all__ = ("ANY", "FreeBlocks", "Origin", "PoolBlock", "Shelf")

ANY = 1 << 63  # no block is larger
LOOKED_AT = 256  # so many of the largest free blocks are looked at first for neighbours


class PoolBlock:
    """A range of `size` bytes. `newest` is the allocation that has it, or had it last, and takes `used` of them.

    `frees`: by stream order, the newest enqueued free, with the serial of its allocation; older ones of that order end
    before it. Some may have given back already: `left` counts those that have not, `held` those of them that have run
    and are put off.
    `order`, `group` and `seq`: the stream order, its group and the command number of the last free. `since`: the
    board's newest command when nothing used it. `spoiled`: an allocation of it was not ended by its free, and may still
    be written to. `into`: the blocks that it was cut or joined into. Then only its frees are left of it: together they
    count as one free for each of those blocks, which gives back when the last of them does.
    """

    __slots__ = (
        "frees", "group", "held", "into", "left", "lent", "newest", "order", "seq", "since", "size", "spoiled", "used",
    )  # fmt: skip

    def __init__(self, newest: Allocation, size: int) -> None:
        self.newest = newest
        self.size = size
        self.used = size
        self.lent = True
        self.frees: dict[int, tuple[int, Completion]] = {}
        self.left = self.held = 0
        self.order = self.group = 0
        self.seq = self.since = 0
        self.spoiled = False
        self.into: tuple[PoolBlock, ...] = ()

    @classmethod
    def made_of(cls, parts: Sequence[PoolBlock], newest: Allocation, size: int) -> PoolBlock:
        """Return a free block that is made of these, or is a part of one."""
        block, last = cls(newest, size), max(parts, key=lambda part: part.seq)
        block.lent = False
        block.order, block.group, block.seq = last.order, last.group, last.seq
        block.since = min(part.since for part in parts)
        block.left = sum(part.left > 0 for part in parts)
        for part in parts:
            for order, free in part.frees.items():
                if order not in block.frees or free[1].seq > block.frees[order][1].seq:
                    block.frees[order] = free
        return block


class Shelf:
    """Free blocks, by size; of one size in the order in which they came."""

    __slots__ = ("_rows", "_sizes", "group", "total")

    def __init__(self) -> None:
        self.group = 0  # of the order whose blocks are here
        self._rows: dict[int, dict[PoolBlock, None]] = {}
        self._sizes: list[int] = []
        self.total = 0  # bytes

    def put(self, block: PoolBlock) -> None:
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

    def drop(self, block: PoolBlock) -> None:
        """Take a block away."""
        size = block.size
        row = self._rows[size]
        at = bisect_left(self._sizes, size)  # first, as above
        del row[block]
        if not row:
            del self._rows[size], self._sizes[at]
        self.total -= size

    def newest(self, least: int, most: int) -> PoolBlock | None:
        """Return the newest block of the smallest size from `least` to `most`."""
        row = self._row(least, most)
        return None if row is None else next(reversed(row))

    def oldest(self, least: int, most: int) -> PoolBlock | None:
        """Return the oldest block of the smallest size from `least` to `most`."""
        row = self._row(least, most)
        return None if row is None else next(iter(row))

    def freed_before(self, seq: int, least: int, most: int) -> PoolBlock | None:
        """Return a block that was freed before command `seq`: of the smallest such size in that range, the oldest."""
        for size in self._sizes[bisect_left(self._sizes, least) : bisect_right(self._sizes, most)]:
            block = next(iter(self._rows[size]))
            if block.seq < seq:
                return block
        return None

    def largest(self, count: int | None) -> Iterator[PoolBlock]:
        """Yield so many blocks, or all, the largest first."""
        return islice((block for size in reversed(self._sizes) for block in self._rows[size]), count)

    def between(self, least: int, most: int) -> Iterator[PoolBlock]:
        """Yield the blocks of sizes from `least` to `most`, the smallest first, of one size the newest first."""
        for size in self._sizes[bisect_left(self._sizes, least) :]:
            if size > most:
                return
            yield from reversed(self._rows[size])

    def _row(self, least: int, most: int) -> dict[PoolBlock, None] | None:
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
    """The free blocks: idle, promised (an enqueued free has still to run), or held (a free has run and is put off).

    Promised blocks have a shelf for each stream, by its `order_of`. No rule gives out a held block. `opportunistic` and
    `events` switch two of the rules.
    """

    __slots__ = ("_age", "events", "freed", "held", "host", "idle", "opportunistic", "promised")

    def __init__(self) -> None:
        self.freed: dict[int, PoolBlock] = {}  # by serial of an allocation whose enqueued free has not given back
        self.opportunistic = self.events = True
        self.host: dict[int, int] = {}  # by order, the newest command behind which the host has synchronised
        self.idle = Shelf()
        self.held = Shelf()
        self._age: OrderedDict[PoolBlock, None] = OrderedDict()  # idle blocks, longest idle first
        self.promised: dict[int, Shelf] = {}

    def add(self, block: PoolBlock) -> None:
        """Add a block: it is idle if none of its frees has still to run or is put off."""
        if not block.left:
            self.idle.put(block)
            self._age[block] = None
            return
        if block.held:
            self.held.put(block)
            return
        shelf = self.promised.get(block.order)
        if shelf is None:
            shelf = self.promised[block.order] = Shelf()
        shelf.group = block.group
        shelf.put(block)

    def drop(self, block: PoolBlock) -> None:
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
            del self.promised[block.order]

    def find(self, least: int, most: int, order: int, stream: OwningQueue) -> tuple[PoolBlock, Origin] | None:
        """Return a block of `least` to `most` bytes that `stream` may have without waiting, and by which rule."""
        events = self.events
        own = self.promised.get(order)
        if own is not None and (block := own.newest(least, most)) is not None and not self._in_use(block, stream):
            return block, Origin.SAME_STREAM
        if self.idle.total:
            if self.opportunistic:
                if (block := self.idle.newest(least, most)) is not None:
                    return block, Origin.SAME_STREAM if block.order == order else Origin.OPPORTUNISTIC
            else:
                for block in self.idle.between(least, most):
                    if (origin := self._idle_for(block, order, stream)) is not None:
                        return block, origin
        if events and self.promised and (seen := seen_by(stream)) is not NOTHING:
            for other, shelf in self.promised.items():
                seq = 0 if other == order else seen.newest(other, shelf.group)
                block = shelf.freed_before(seq + 1, least, most) if seq else None
                if block is not None and not self._in_use(block, stream):
                    return block, Origin.AFTER_EVENT
        return None

    def neighbours(
        self, least: int, most: int, order: int, stream: OwningQueue, reach: Origin, every: bool = False
    ) -> tuple[tuple[PoolBlock, ...], Origin] | None:
        """Return adjacent blocks of `least` to `most` bytes in all: at least one promised, none that could be left out.

        `reach`: the last of the rules by which `stream` may have them. Only the largest of each stream are looked at,
        but with `every` all of them, and then a single block will do. They span banks only if `most` is `ANY`.
        """
        own = self.promised.get(order)
        total = self.promised_bytes if reach > Origin.SAME_STREAM else own.total if own is not None else 0
        if not total or total + self.idle.total < least:
            return None
        usable = list(self._usable(order, stream, reach, None if every else LOOKED_AT))
        usable.sort(key=lambda each: each[0].newest.offset)
        first = total = promised = end = bank = 0
        for at, (block, _) in enumerate(usable):
            place = block.newest
            if place.offset != end or (place.bank != bank and most < ANY):
                first, total, promised = at, 0, 0
            end, bank = place.offset + block.size, place.bank
            total += block.size
            promised += block.left > 0
            while total - usable[first][0].size >= least:
                total -= usable[first][0].size
                promised -= usable[first][0].left > 0
                first += 1
            if total - block.size < least <= total <= most and promised and (first < at or every):
                run = usable[first : at + 1]
                return tuple(each for each, _ in run), max(origin for _, origin in run)
        return None

    def _usable(
        self, order: int, stream: OwningQueue, reach: Origin, count: int | None
    ) -> Iterator[tuple[PoolBlock, Origin]]:
        """Yield the free blocks that a stream may have by the rules up to `reach`, each with its rule."""
        seen = seen_by(stream) if self.events and reach >= Origin.AFTER_EVENT else NOTHING
        for other, shelf in self.promised.items():
            known = ANY if other == order else seen.newest(other, shelf.group) if reach > Origin.SAME_STREAM else 0
            if not known and reach < Origin.INTERNAL_DEPENDENCY:
                continue
            within = Origin.SAME_STREAM if other == order else Origin.AFTER_EVENT
            for block in shelf.largest(count):
                origin = within if block.seq <= known else Origin.INTERNAL_DEPENDENCY
                if origin <= reach and not self._in_use(block, stream):
                    yield block, origin
        for block in self.idle.largest(count):
            idle = self._idle_for(block, order, stream)
            if idle is not None and not self._in_use(block, stream):
                yield block, idle

    def _idle_for(self, block: PoolBlock, order: int, stream: OwningQueue) -> Origin | None:
        """Return the rule by which a stream may have an idle block; None if there is none."""
        if block.order == order:
            return Origin.SAME_STREAM
        if self.opportunistic:
            return Origin.OPPORTUNISTIC
        if self.events and block.seq <= seen_by(stream).newest(block.order, block.group):
            return Origin.AFTER_EVENT
        if block.seq <= max(map(self.host.get, (block.order, block.group, EVERYTHING), (0, 0, 0))):
            return Origin.OPPORTUNISTIC
        return None

    def elsewhere(self, least: int, order: int) -> PoolBlock | None:
        """Return the smallest block of `least` bytes or more that another stream will free, of these the earliest."""
        first = [shelf.oldest(least, ANY) for other, shelf in self.promised.items() if other != order]
        usable = [block for block in first if block is not None and not self._in_use(block)]
        return min(usable, key=lambda block: (block.size, block.seq), default=None)

    def frees_of(self, block: PoolBlock) -> dict[int, Completion]:
        """Return by stream order the newest free of a block, if it has not given back."""
        return {order: item for order, (serial, item) in block.frees.items() if serial in self.freed}

    def _in_use(self, block: PoolBlock, stream: OwningQueue | None = None) -> bool:
        """Return whether commands that are lost to this stream, or to one that frees the block, may still use it."""
        if stream is not None and stream.lost is not None and stream.lost_since(block.since):
            return True
        for serial, item in block.frees.values():
            if (queue := item.queue).lost is not None and serial in self.freed and queue.lost_since(block.since):
                return True
        return False

    def eldest(self) -> PoolBlock:
        """Return the block that has been idle longest. There must be one."""
        return next(iter(self._age))

    def by_age(self) -> list[PoolBlock]:
        """Return the idle blocks, the one that has been idle longest first."""
        return list(self._age)

    @property
    def promised_bytes(self) -> int:
        """Bytes of the promised blocks."""
        return sum(shelf.total for shelf in self.promised.values())
