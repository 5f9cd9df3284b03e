"""The blocks that a pool has reserved, lent and got back, and its figures. Callers hold the pool's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from atops.base.errors import OutOfMemory
from atops.device.memory.allocation import Allocation
from atops.device.memory.device_memory import DeviceMemory
from atops.runtime.pools.blocks import FreeBlocks, Origin, PoolBlock

if TYPE_CHECKING:
    from atops.runtime.core.completion import Completion

__all__ = ("Ledger",)

UNSYNCHRONISED = 32 << 20  # idle bytes that may stay above the threshold until a synchronisation


class Ledger:
    """The blocks of one pool and its figures in bytes. It takes memory from the device and gives it back."""

    __slots__ = ("beside", "blocks", "counts", "destroyed", "early", "freed", "given", "granule", "held", "lent",
                 "limit", "memory", "reserved", "reserved_high", "shared", "threshold", "used",
                 "used_high")  # fmt: skip

    def __init__(self, memory: DeviceMemory, granule: int, limit: int, beside: bool = False) -> None:
        self.memory = memory
        self.granule = granule
        self.limit = limit  # the most to reserve
        self.beside = beside  # its blocks may touch each other, and be joined, where the device keeps others apart
        self.threshold = 0  # reserved bytes that synchronising leaves alone
        self.destroyed = False
        # Frees that found the lock taken: serial, order, group, completion. The next holder of the lock does them.
        self.given: deque[tuple[int, int, int, Completion]] = deque()
        self.lent: dict[int, PoolBlock] = {}  # by serial: allocations that are taken and not freed
        self.held: set[int] = set()  # serials whose free has run and is put off
        self.early: set[int] = set()  # serials whose free has run before it was told that it was enqueued
        self.shared: set[int] = set()  # serials that other processes may have: freed, they leave the pool
        self.blocks = FreeBlocks()
        self.freed = self.blocks.freed
        self.reserved = self.reserved_high = self.used = self.used_high = 0
        self.counts = [0] * len(Origin)

    def rounded(self, size: int) -> int:
        """Return the bytes that an allocation of `size` bytes takes: whole granules, at least one."""
        return (-(-size // self.granule) or 1) * self.granule

    # ---- out

    def fresh(self, size: int, need: int, site: object, stream: int, now: int, give_back: bool) -> Allocation | None:
        """Allocate on the device for a stream; with `give_back`, give idle blocks back for it. None: exhausted."""
        if self.reserved - self.blocks.idle.total + need > self.limit:
            return None  # and idle blocks stay: they may have neighbours
        while True:
            if self.reserved + need <= self.limit:
                try:
                    allocation = self.memory.allocate(size, site=site, stream=stream, beside=self.beside)
                except OutOfMemory:
                    pass
                else:
                    try:
                        block = PoolBlock(allocation, need)
                        self.reserved_high = max(self.reserved_high, self.reserved + need)
                        block.since = now
                        self.lend(block, allocation, Origin.FRESH)
                    except BaseException:  # Ctrl-C: it was not given out
                        self.memory.free(allocation, "Ctrl-C")
                        raise
                    self.reserved += need
                    return allocation
            if not self.blocks.idle.total or not give_back:
                return None
            self._release(self.blocks.eldest())

    def lend(self, block: PoolBlock, allocation: Allocation, origin: Origin) -> None:
        """Note that `allocation` has the block now."""
        block.newest = allocation
        block.used = allocation.size
        block.lent = True
        self.lent[allocation.serial] = block
        self.counts[origin] += 1
        self.used = used = self.used + block.used
        if used > self.used_high:
            self.used_high = used

    def reissue(
        self, taken: PoolBlock | tuple[PoolBlock, ...], size: int, most: int, origin: Origin, site: object, stream: int,
        now: int,
    ) -> tuple[PoolBlock, Allocation]:  # fmt: skip
        """Lend a free block, or neighbours as one, to a new allocation; of more than `most` bytes only what it needs.

        `now`: the number of the newest command.
        """
        if isinstance(taken, tuple) or taken.size > most:
            taken = self._fitted(taken if isinstance(taken, tuple) else (taken,), self.rounded(size), most)
        block, old = taken, taken.newest
        try:
            self.blocks.drop(block)
            if not block.left:
                block.since = now
            allocation = self.memory.renew(old, size, site, stream=stream)
            self.lend(block, allocation, origin)
        except BaseException:  # Ctrl-C, perhaps after the range got its new allocation
            block.newest = self.memory.newest_at(old.offset) or old
            if block.newest is not old:
                self.memory.set_aside(block.newest, "Ctrl-C")
            self._put(block)
            raise
        return block, allocation

    def _fitted(self, taken: tuple[PoolBlock, ...], need: int, most: int) -> PoolBlock:
        """Make one free block of neighbours, given in order of their addresses.

        If they have more than `most` bytes it gets `need`, and the end of the last one stays a block of its own.
        """
        *others, last = taken
        before = sum(each.size for each in others)
        if before + last.size > most:
            place = last.newest
            rest = self.memory.cut_kept(place, need - before)
            front = PoolBlock.made_of([last], place, need - before)
            self._replace([last], (front, PoolBlock.made_of([last], rest, last.size - front.size)))
            last = front
        if not others:
            return last
        parts = [*others, last]
        self.memory.join_kept([part.newest for part in parts])
        whole = PoolBlock.made_of(parts, parts[0].newest, before + last.size)
        self._replace(parts, (whole,))
        return whole

    def _replace(self, old: Iterable[PoolBlock], new: tuple[PoolBlock, ...]) -> None:
        """Replace free blocks by others, to which their ranges belong already."""
        try:
            for each in old:
                self.blocks.drop(each)
                each.into = new
        except BaseException:  # Ctrl-C: the ranges are the new ones' already
            for each in old:
                with suppress(KeyError):
                    self.blocks.drop(each)
                each.into = new
            raise
        finally:
            for each in new:
                self.blocks.add(each)

    # ---- back

    def catch_up(self) -> None:
        """Catch up with the frees that found the lock taken."""
        given = self.given
        while given:
            self.free(*given[0])
            given.popleft()  # last: a free that Ctrl-C interrupted is done again

    def free(self, serial: int, order: int, group: int, item: Completion) -> None:
        """Note that a free of an allocation was enqueued in an order, as `item`."""
        block = self.lent.get(serial)
        if block is None:
            return  # another thread has freed it first
        block.order, block.group, block.seq = order, group, item.seq
        if serial not in self.early and serial not in self.freed:
            block.frees[order] = serial, item
            self.freed[serial] = block
            block.left += 1
            block.held += serial in self.held
        self._put(block)
        block.lent = False  # from here on nothing is called: no Ctrl-C comes in between
        self.used -= block.used
        del self.lent[serial]
        self.early -= {serial}

    def ran(self, serial: int, spoiled: bool) -> None:
        """Note that an allocation's free gives it back, or, `spoiled`, that it had been ended in another way before."""
        block = self.freed.pop(serial, None)
        if block is None:
            self.held.discard(serial)
            block = self.lent.get(serial)
            if block is not None:
                self.early.add(serial)
                block.spoiled |= spoiled
            return
        held = serial in self.held
        if held:
            self.held.discard(serial)
        self._count(block, -1, -held, spoiled)

    def leave(self, serial: int) -> None:
        """Forget the block of an allocation that was shared, and is over: its range is the device's."""
        self.shared.discard(serial)
        self.held.discard(serial)
        if (block := self.lent.pop(serial, None)) is not None:
            self.used -= block.used
            self.reserved -= block.size

    def put_off(self, serial: int) -> None:
        """Note that the free of an allocation has run, and gives it back later: till then nothing else gets it."""
        self.held.add(serial)
        if (block := self.freed.get(serial)) is not None:
            self._count(block, 0, 1, False)

    def _count(self, block: PoolBlock, left: int, held: int, spoiled: bool) -> None:
        """Add to the counts of frees of a block, or, if it was cut or joined, of the blocks that it went into."""
        todo = [(block, left, held, spoiled)]
        while todo:
            block, left, held, spoiled = todo.pop()
            block.spoiled |= spoiled
            ended, was_held = block.left == -left, block.held > 0
            moves = not block.lent and not block.into and (held or (left and ended))
            if moves:  # else what is promised keeps its place among the others
                self.blocks.drop(block)
            block.left += left
            block.held += held
            if not block.left:
                block.frees.clear()
            if moves:
                self._put(block)
            elif block.into:
                held, left = (block.held > 0) - was_held, -1 if left and ended else 0
                if held or left:
                    todo += [(each, left, held, block.spoiled) for each in block.into]

    def undo(self, allocation: Allocation, spoiled: bool) -> None:
        """Take back an allocation that nothing used; if its free is enqueued already, act as if that had run."""
        block = self.lent.pop(allocation.serial, None)
        if block is not None:
            self.used -= block.used
            block.lent = False
            block.spoiled |= spoiled
            self._put(block)
        elif allocation.serial in self.freed:
            self.ran(allocation.serial, spoiled)

    def shrink(self, keep: int) -> None:
        """Give idle blocks back to the device, the oldest first, until at most `keep` bytes are reserved."""
        idle = self.blocks.idle
        while idle.total and self.reserved > keep:
            self._release(self.blocks.eldest())

    def trim(self, keep: int) -> None:
        """Give idle blocks back to the device, the oldest first, as long as at least `keep` bytes stay reserved."""
        for block in self.blocks.by_age():
            if self.reserved - block.size >= keep:
                self._release(block)

    def _put(self, block: PoolBlock) -> None:
        if block.spoiled and not block.left:  # its range is quarantined, or the memory was reset: never use it again
            self.reserved -= block.size
            return
        self.blocks.add(block)
        if not block.left:
            if self.destroyed:
                self.shrink(0)
            elif (idle := self.blocks.idle.total) > UNSYNCHRONISED:
                self.shrink(max(self.threshold, self.reserved - idle) + UNSYNCHRONISED)

    def _release(self, block: PoolBlock) -> None:
        self.blocks.drop(block)
        self.reserved -= block.size
        try:
            self.memory.release(block.newest)
        except BaseException:  # Ctrl-C, perhaps before it began
            self.memory.release(block.newest)
            raise
