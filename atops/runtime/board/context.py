"""Everything that one device has in one driver: chip, memory, engines, and which of its streams have work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ReferenceType, WeakKeyDictionary, WeakSet

from atops.base.errors import AtopsError, ExecutionError, LoopClosed, StreamAborted
from atops.base.locks import make_lock
from atops.device.call_site import Site
from atops.device.chip import Chip
from atops.device.copy_engine import CopyEngines
from atops.device.exec.block_scheduler import ClusterArray
from atops.device.memory.allocation import Allocation
from atops.device.memory.device_memory import DeviceMemory
from atops.device.memory.host_memory import device_base
from atops.device.memory.memory_reports import MemoryLog
from atops.runtime.board.printing import Printing
from atops.runtime.board.signals import Signals
from atops.runtime.core.capacity import Capacity
from atops.runtime.core.completion import Completion, log_if_unseen, seen
from atops.runtime.core.order import NullOrder
from atops.runtime.executors.executor import LaterStep
from atops.runtime.executors.kernel_lane import KernelLane
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.constants import ConstantBuffers
from atops.runtime.memory.prefetch import PrefetchBuffer

if TYPE_CHECKING:
    from atops.runtime.board.deferred_free import Lost
    from atops.runtime.core.order import Over
    from atops.runtime.driver_board import Board
    from atops.runtime.pools.pool import MemoryPool
    from atops.runtime.queues.queue import StreamQueue
    from atops.runtime.resources.bundle import Resources
    from atops.runtime.stream import Stream

__all__ = ("MADE", "DeviceClock", "DeviceContext")

MADE: list[Callable[[StreamQueue], object]] = []  # called with each new stream, by what looks for streams left open


class _HostWait(Protocol):
    """A wait of the host that a reset ends."""

    def fail(self, error: AtopsError) -> None:
        """End with an error, unless it is over."""


class _Dropped(Protocol):
    """Memory whose last reference has gone."""

    def free(self) -> None:
        """Enqueue its free, unless that was done."""


class DeviceContext:
    """One device of a driver's board. Made when first used."""

    asker: Site | None = None  # where the program allocated the newest buffer

    dropped_at = 0  # the number of the board's newest command when an abort last dropped commands

    null_queue: StreamQueue | None = None  # what is behind the null stream

    # Whether there ever was a failed stream, and a pool beside the default one: to ask a WeakSet takes a call.
    has_failed = has_pools = False

    default_pool: MemoryPool  # set by the driver: pools stand above contexts

    def __init__(self, board: Board, ordinal: int) -> None:
        options, arch = board.options, board.arch
        self.board = board
        self.ordinal, self.arch = ordinal, arch
        apart, size = options.detect or options.strict, (arch.l3_bytes, arch.banks)
        where = ordinal, device_base(ordinal)
        self.memory = DeviceMemory(*size, *where, options.warm_bytes, arch.malloc_alignment, apart)
        self.memory.log = MemoryLog(board.tracer, ordinal)
        self.chip = Chip(arch, ordinal, options, self.memory)
        self.printing = Printing(ordinal, self.chip.print_fifo, board.executor)
        self.clock = self._kernel_clock()
        self.signals = Signals(self.chip.signals, board)
        self.constants = ConstantBuffers()
        self.prefetched = PrefetchBuffer(arch.l2_reserved, options.strict, options.clock == "virtual")
        self.scattered: dict[int, Buffer] = {}  # by serial, the parts that scatter memory here owns
        self.engines = CopyEngines(arch.clusters * arch.copy_engines_per_cluster, offer=board.executor.offer)
        self.clusters = ClusterArray(self.chip.clusters)
        workers = arch.clusters * arch.sips_per_cluster if options.workers == "sip" else options.workers
        self.lane = KernelLane(board.executor, ordinal, workers, options)
        self.clusters.place, self.clusters.offer = self.lane.place, self.lane.offer
        self.resources: Resources | None = None  # its bundles and its reservation, once there was one
        self.replaced: ReferenceType[DeviceContext] | None = None  # the context that this one replaced in a reset
        # Guarded by the driver's lock:
        self.dead: AtopsError | None = None  # after a reset
        self.active: dict[StreamQueue, None] = {}  # streams with unfinished work
        self.poisoned: WeakSet[StreamQueue] = WeakSet()
        self.null_last: Completion | None = None  # the null stream's newest command
        self.order = NullOrder()
        self.lost: Lost | None = None  # what streams in null-stream order, the null stream too, should have waited for
        self.null_stream: Stream | None = None
        self.pools: WeakSet[MemoryPool] = WeakSet()
        self.pool_lock = make_lock()  # of all pools here
        self.locks = self.memory.lock, self.pool_lock, self.engines.lock, self.clusters.lock  # `Driver.holds_a_lock`
        self.pool: MemoryPool | None = None  # what allocations without a pool use; None is the default pool
        self.release: Callable[[Any, Any], object] | None = None  # what closes a buffer; made by the first allocation
        self.dropped: deque[_Dropped] = deque()  # memory made by streams, whose last reference has gone
        self.capacities: WeakKeyDictionary[Capacity, None] = WeakKeyDictionary()  # of its streams, in order
        self.peers: set[int] = set()  # devices whose memory kernels here may reach
        self.word_waits: dict[_HostWait, None] = {}  # waits of the host, in no stream, for a value in memory
        self._granted: dict[int, int] = {}  # by an allocation's serial, how often kernels here were granted it

    def _kernel_clock(self) -> DeviceClock | None:
        """Return what kernels ask for the time, under a virtual clock."""
        if self.board.options.clock == "wall":
            return None
        clock = DeviceClock(self)
        self.chip.signals.now = clock.now
        return clock

    @property
    def current_pool(self) -> MemoryPool:
        """The pool of allocations that name none."""
        return self.pool or self.default_pool

    def grant(self, allocation: Allocation) -> None:
        """Let kernels here reach one allocation of another device, once more. With the driver's lock held."""
        self._granted[allocation.serial] = self._granted.get(allocation.serial, 0) + 1

    def revoke(self, allocation: Allocation) -> None:
        """Undo one `grant`. With the driver's lock held."""
        if left := self._granted.pop(allocation.serial) - 1:
            self._granted[allocation.serial] = left

    def reaches(self, allocation: Allocation) -> bool:
        """Return whether kernels here may touch memory: the device's own, host memory, a peer's, or what is granted.

        That is one allocation by `grant`, and what a pool has given out by access to the pool. Takes no driver's lock.
        """
        device, serial = allocation.device, allocation.serial
        if device is None or device == self.ordinal or device in self.peers or serial in self._granted:
            return True
        pools = [pool for context in self.board.contexts for pool in context.known_pools()]
        return any(pool.opens(serial, self.ordinal) for pool in pools)

    def free_dropped(self) -> None:
        """Enqueue the frees of memory whose last reference has gone, in the order in which that happened.

        The driver does it for a call that interrupts one with the lock, and for a foreign thread of an inline driver.
        """
        if not self.dropped or self.board.executor.foreign or self.board.called_amid():
            return
        while self.dropped:
            try:
                first = self.dropped[0]
            except IndexError:  # another thread took it
                return
            try:
                first.free()
            except Exception:  # told once; where Ctrl-C comes, it stays
                self._free_no_more(first)
                raise
            self._free_no_more(first)

    def _free_no_more(self, first: _Dropped) -> None:
        with suppress(ValueError):  # another thread took it
            self.dropped.remove(first)

    def synchronised(self, over: Over | None = None) -> None:
        """Note, where a pool asks, what is over now that the host has waited, and let pools give back their excess."""
        if over is not None:
            seen, order, seq = over
            seen.merge(self.order.host, order, seq)
        for pool in self.known_pools() if self.has_pools else (self.default_pool,):
            pool.release_excess()

    def trim_pools(self, but: MemoryPool | None = None) -> int:
        """Have every pool but one give back its idle memory, because there is none left. Returns the bytes given."""
        return sum(pool.trim() for pool in self.known_pools() if pool is not but)

    def known_pools(self) -> list[MemoryPool]:
        """Return the pools that are in use: a snapshot, while other threads make some."""
        with self.pool_lock:
            return list(self.pools)

    def close_memory(self, by: object = None) -> None:
        """Free all memory of the device, L1 and L2 too, and forget the instances of declared variables, for good."""
        self.memory.close(by)
        self.chip.close()

    def resetting(self) -> list[Completion]:
        """Return what the reset that made this context has still to wait for: a snapshot."""
        old = None if self.replaced is None else self.replaced()
        if old is None:
            return []
        with self.board.lock:
            streams = list(old.active)
        return [item for stream in streams for item in stream.outstanding()]

    def check_alive(self) -> None:
        """Raise the error for uses of what was made here, after a reset, the driver's close or a fork."""
        if self.dead is not None:
            raise self.dead.fresh()

    def failed_streams(self) -> list[StreamQueue]:
        """Return the streams that have failed, by number. With the driver's lock held.

        Not those that are closed and whose failure was looked at: it can be cleared no more.
        """
        failed = (each for each in self.poisoned if not each.closed or not seen(each.failure))
        return sorted(failed, key=lambda stream: stream.number)

    def poison(self, stream: StreamQueue) -> None:
        """Count a stream that has failed. With the driver's lock held."""
        self.poisoned.add(stream)
        self.has_failed = True

    def check_survived(self) -> None:
        """Raise StreamAborted to a caller that waited here when a reset or the driver's end came."""
        if self.dead is not None:
            raise StreamAborted(f"device {self.ordinal} dropped what was waited for: {self.dead}")

    def add_stream(self, stream: StreamQueue, named: bool) -> None:
        """Tell the tracer the name and the capacity of a new stream, as far as it has them, and keep the capacity."""
        for tell in MADE:
            tell(stream)
        tracer, capacity = self.board.tracer, stream.places
        if named:
            tracer.label_stream(self.ordinal, stream.number, stream.label)
        if capacity is not None:
            tracer.limit_stream(self.ordinal, stream.number, capacity.limit)
            with self.board.lock:
                self.capacities[capacity] = None

    def fail_all(self, error: ExecutionError) -> None:
        """Abort every stream that has work, and end requests for room in one and waits for signals and for words."""
        self.signals.refuse(error)
        with self.board.lock:
            streams = list(self.active)
            capacities = list(self.capacities)
            waits = list(self.word_waits)
        for wait in waits:
            wait.fail(error)
        for capacity in capacities:
            capacity.close(error)
        for stream in streams:
            stream.abort(error)

    def shut_down(self, error: AtopsError) -> None:
        """Refuse and abort all work, because the driver closes."""
        self.dead = error
        for stream in sorted(self.poisoned, key=lambda stream: stream.number):
            failure = stream.failure
            if failure is not None and not isinstance(failure, LoopClosed):  # its loop reports that one
                log_if_unseen(stream, failure)
        self.fail_all(StreamAborted(f"the driver of device {self.ordinal} was closed"))


class DeviceClock:
    """The virtual clock as the kernels of one device need it: they run at once, and are over when their time is."""

    __slots__ = ("_context", "now")

    def __init__(self, context: DeviceContext) -> None:
        self._context = context
        self.now = context.board.clock.now

    def hold(self, duration: int, step: Callable[[], None], priority: int) -> LaterStep:
        """Run a step at its priority once so many nanoseconds have passed, in which a kernel goes on."""
        return self._context.board.executor.spend(duration, step, priority)

    def link_bandwidth(self, device: int) -> int:
        """Return the bytes per second of the fastest link to another device; without one, of the way by the host."""
        context = self._context
        link = context.board.topology.route(context.ordinal, device)
        return context.arch.host_bandwidth // 2 if link is None else link.bandwidth

    def __repr__(self) -> str:
        return f"<DeviceClock of device {self._context.ordinal}: {self.now()} ns>"
