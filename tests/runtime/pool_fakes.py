"""Streams that only count, over real device memory: what a pool sees of the runtime, run by hand."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

from atops.base.locks import make_lock
from atops.device.arch import architecture
from atops.device.memory.allocation import Allocation
from atops.device.memory.device_memory import DeviceMemory
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.order import NullOrder, order_of
from atops.runtime.pools.pool import MemoryPool

MIB = 1 << 20


class _Context(DeviceContext):
    """A device without a board."""

    def __init__(self) -> None:
        pass


def make_context(total: int = 64 * MIB, ordinal: int = 0, driver: Any = None) -> Any:
    """Return what a pool needs of a device, with `total` bytes in one bank."""
    executor = SimpleNamespace(post_in_finalizer=lambda step: step())
    options = SimpleNamespace(devices=2)
    driver = driver or SimpleNamespace(options=options, lock=threading.Lock(), seq=0, executor=executor)
    memory = DeviceMemory(total, 1, ordinal, (2 * ordinal + 1) << 36, 0)
    context: Any = _Context()
    context.board, context.ordinal, context.memory = driver, ordinal, memory
    context.arch, context.dead = architecture("gcu300"), None
    context.order = NullOrder()
    context.dropped = ()
    context.pools = WeakSet()
    context.known_pools = lambda: list(context.pools)
    context.trim_pools = lambda but: sum(pool.trim() for pool in list(context.pools) if pool is not but)
    context.default_pool, context.pool, context.pool_lock = None, None, make_lock()
    return context


class Item:
    """A completion: a number and whether it is over."""

    def __init__(self, seq: int, queue: Any) -> None:
        self.seq = seq
        self.queue = queue
        self.over = False


class Lane:
    """A stream that frees: its frees run when the test says so. It leaves out no wait."""

    lost = None
    blocking = null = False

    def __init__(self, context: Any, number: int) -> None:
        self.context = context
        self.number = number
        self.waited: dict[int, int] | None = None
        self.queue: deque[tuple[MemoryPool, Allocation, Item]] = deque()

    def item(self) -> Item:
        """Number a command of this stream."""
        self.context.board.seq += 1
        return Item(self.context.board.seq, self)

    def take(self, pool: MemoryPool, nbytes: int) -> Allocation:
        """Allocate, where no waiting is expected."""
        allocation, after, _ = pool.take(nbytes, self)
        assert after == ()
        return allocation

    def free(self, pool: MemoryPool, allocation: Allocation) -> Item:
        """Enqueue a free."""
        item = self.item()
        self.queue.append((pool, allocation, item))
        pool.give(allocation, self, item)
        return item

    def run(self) -> None:
        """Come to the oldest free."""
        pool, allocation, item = self.queue.popleft()
        pool.returned(allocation, f"stream {self.number}, command {item.seq}")
        item.over = True

    def run_all(self) -> None:
        """Come to every free."""
        while self.queue:
            self.run()

    def wait_for(self, other: Lane) -> None:
        """Record an event in another stream now and wait for it."""
        self.waited = {**(self.waited or {}), order_of(other): other.item().seq}
