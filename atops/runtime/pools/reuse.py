"""The rules of reuse: the searches for a freed block that a pool may give out next. Callers hold the pool's lock."""

from __future__ import annotations

from collections import OrderedDict
from enum import IntEnum
from typing import TYPE_CHECKING

from atops.runtime.pools.blocks import Block, Shelf

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue
    from atops.runtime.stream_memory import StreamMemory

__all__ = ("ANY", "FreeBlocks", "Origin", "order_of", "waited_for")

ANY = 1 << 63  # no block is larger


class Origin(IntEnum):
    """Where the memory of an allocation came from."""

    FRESH = 0
    SAME_STREAM = 1
    OPPORTUNISTIC = 2
    AFTER_EVENT = 3
    INTERNAL_DEPENDENCY = 4


class FreeBlocks:
    """The free blocks: idle ones, and promised ones, of which an enqueued free has still to run.

    Promised blocks are on one shelf for each stream, by its `order_of`. `opportunistic` and `events` switch two
    of the rules.
    """

    __slots__ = ("_age", "_spare", "events", "idle", "opportunistic", "promised")

    def __init__(self) -> None:
        self.opportunistic = self.events = True
        self.idle = Shelf()
        self._age: OrderedDict[Block, None] = OrderedDict()  # idle blocks, longest idle first
        self.promised: dict[int, Shelf] = {}
        self._spare: Shelf | None = None  # an empty one for reuse: some streams need one again and again

    def rest(self, block: Block) -> None:
        """Add a block that is idle: none of its frees has still to run."""
        self.idle.put(block)
        self._age[block] = None

    def promise(self, block: Block) -> None:
        """Add a block of which a free has still to run."""
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

    @property
    def promised_bytes(self) -> int:
        """Bytes of the blocks that are not idle."""
        return sum(shelf.total for shelf in self.promised.values())


def order_of(stream: StreamQueue) -> int:
    """Return a number for a stream's order: its own, and one below 0 for the null stream of each device."""
    return stream.number or ~stream.context.ordinal


def waited_for(stream: StreamMemory, order: int) -> int:
    """Return the number of the newest record of another order that `stream` has waited for; 0 if there is none."""
    return stream.waited.get(order, 0) if stream.waited else 0


def _in_use(block: Block, *streams: StreamMemory) -> bool:
    """Return whether commands may use the block even after its frees: one is over, or a stream skipped waits (a gap).

    With a gap, the free may run before commands that use the block, for which its stream was to wait.
    """
    return any(item.over or item.stream.gap for _, item in block.frees.values()) or any(each.gap for each in streams)
