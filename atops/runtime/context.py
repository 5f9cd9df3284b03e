"""Everything that one device has in one driver: chip, memory, engines, and which of its streams have work."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from atops.base.errors import AtopsError, ExecutionError, StreamAborted
from atops.device.arch import Architecture
from atops.device.block import Block, Progress, Task
from atops.device.chip import Chip
from atops.device.cluster import ClusterArray
from atops.device.copy_engine import CopyEngines
from atops.device.global_memory import GlobalMemory
from atops.runtime.executor import HERE, Lane
from atops.runtime.pool import MemoryPool

if TYPE_CHECKING:
    from atops.runtime.completion import Completion
    from atops.runtime.driver import Driver
    from atops.runtime.stream_queue import StreamQueue

__all__ = ("DeviceContext",)


class DeviceContext:
    """One device of a driver's board. Made when first used."""

    def __init__(self, driver: Driver, ordinal: int, arch: Architecture) -> None:
        options = driver.options
        self.driver = driver
        self.ordinal = ordinal
        self.arch = arch
        self.memory = GlobalMemory(
            arch.l3_bytes, arch.banks, ordinal, (2 * ordinal + 1) << 36, options.warm_bytes, arch.malloc_alignment
        )
        self.chip = Chip(arch, ordinal, options, self.memory)
        self.engines = CopyEngines(arch.clusters * arch.copy_engines_per_cluster)
        self.clusters = ClusterArray(self.chip.clusters)
        self.clusters.place = self._place
        self.lane = Lane(f"kernel {ordinal}")
        workers = arch.clusters * arch.sips_per_cluster if options.workers == "sip" else options.workers
        driver.executor.widen(self.lane, workers)
        # Guarded by the driver's lock:
        self.dead: AtopsError | None = None  # after a reset
        self.active: dict[StreamQueue, None] = {}  # streams with unfinished work
        self.poisoned: WeakSet[StreamQueue] = WeakSet()
        self.null_last: Completion | None = None  # the null stream's newest command
        self.null_stream: StreamQueue | None = None
        self.pools: WeakSet[MemoryPool] = WeakSet()
        self.default_pool = MemoryPool(self, name=f"default pool of device {ordinal}")
        self.pool: MemoryPool | None = None  # what allocations without a pool use; None is the default pool
        self.peers: set[int] = set()  # devices whose memory kernels here may reach

    @property
    def current_pool(self) -> MemoryPool:
        """The pool of allocations that name none."""
        return self.pool or self.default_pool

    def release_excess(self) -> None:
        """Let every pool give back what it keeps beyond its threshold: what synchronising does."""
        for pool in list(self.pools):
            pool.release_excess()

    def trim_pools(self, but: MemoryPool | None = None) -> int:
        """Have every pool but one give back its idle memory, because there is none left. Returns the bytes given."""
        return sum(pool.trim() for pool in list(self.pools) if pool is not but)

    def _place(self, block: Block) -> None:
        """Give a block that got its cluster to the kernel lane."""
        block.resume = self._run_task
        for task in block.tasks():
            self._run_task(task)

    def _run_task(self, task: Task) -> None:
        self.driver.executor.run(self.lane, lambda: self._step(task))

    def _step(self, task: Task) -> None:
        role, HERE.role = HERE.role, "executor"
        try:
            progress = task.step(self.driver.options.slice)
        finally:
            HERE.role = role
        if progress is Progress.AGAIN:
            self._run_task(task)

    def fail_all(self, error: ExecutionError) -> None:
        """Abort every stream that has work."""
        with self.driver.lock:
            streams = list(self.active)
        for stream in streams:
            stream.abort(error)

    def shut_down(self, error: AtopsError) -> None:
        """Refuse and abort all work, because the driver closes."""
        self.dead = error
        self.fail_all(StreamAborted(f"the driver of device {self.ordinal} was closed"))
