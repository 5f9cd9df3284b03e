"""A chip without a runtime: global memory, arrays to pass to kernels, and a launch that steps blocks by hand."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from atops.base.options import EmulatorOptions
from atops.device.arch import architecture
from atops.device.chip import Chip
from atops.device.exec.block import Progress
from atops.device.exec.grid import Grid
from atops.device.exec.interpreter import StepBlock
from atops.device.exec.os_threads import SipBlock
from atops.device.memory.allocation import Allocation
from atops.device.memory.device_memory import DeviceMemory
from atops.kernels.kernel import Kernel
from atops.kernels.launch_config import LaunchConfig


class DeviceArray:
    """A typed piece of a bench's global memory, as the runtime's arrays are to a kernel."""

    def __init__(self, allocation: Allocation, dtype: Any, shape: tuple[int, ...]) -> None:
        self.allocation = allocation
        self.dtype = np.dtype(dtype)
        self.shape = shape

    def __kernel_argument__(self) -> tuple[Allocation, int, Any, tuple[int, ...]]:
        return self.allocation, 0, self.dtype, self.shape

    @property
    def host(self) -> np.ndarray:
        """The live bytes, as the host sees them."""
        count = int(np.prod(self.shape, dtype=int))
        return self.allocation.data[: count * self.dtype.itemsize].view(self.dtype).reshape(self.shape)


class Bench:
    """One chip and its memory; `launch` runs a kernel to its end on the calling OS thread."""

    def __init__(self, options: EmulatorOptions) -> None:
        self.options = options
        self.arch = architecture(options.arch)
        self.memory = DeviceMemory(self.arch.l3_bytes, self.arch.banks, 0, 1 << 36, options.warm_bytes)
        self.chip = Chip(self.arch, 0, options, self.memory)

    @classmethod
    def of(cls, **options: Any) -> Bench:
        """Make a bench of options."""
        return cls(EmulatorOptions(**options))

    def upload(self, values: Any) -> DeviceArray:
        """Copy an array to new global memory."""
        array = np.ascontiguousarray(values)
        made = self.empty(array.shape, array.dtype)
        made.host[...] = array
        return made

    def empty(self, shape: Any, dtype: Any = np.float32) -> DeviceArray:
        """Allocate zeroed global memory."""
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        size = int(np.prod(extents, dtype=int)) * np.dtype(dtype).itemsize
        return DeviceArray(self.memory.allocate(size), dtype, extents)

    def launch(self, kernel: Kernel, config: Any, *args: Any, offload: Any = None, observer: Any = None) -> Grid:
        """Run a kernel and return its grid; raises what it failed with."""
        grid = self.attempt(kernel, config, *args, offload=offload, observer=observer)
        if grid.error is not None:
            raise grid.error
        return grid

    def attempt(self, kernel: Kernel, config: Any, *args: Any, offload: Any = None, observer: Any = None) -> Grid:
        """Run a kernel and return its grid, whose `error` says whether it failed."""
        grid = self.grid(kernel, config, *args, offload=offload, observer=observer)
        if self.options.workers == "sip":
            self._run_on_threads(grid)
        else:
            self._run_here(grid)
        return grid

    def grid(self, kernel: Kernel, config: Any, *args: Any, offload: Any = None, observer: Any = None) -> Grid:
        """Return a launch that does not run yet."""
        geometry = LaunchConfig.of(config).validate(self.arch, kernel)
        bound = kernel.bind(args)
        bound.resolve(lambda allocation: True)
        return Grid(
            bound, self.chip, geometry.grid, geometry.block, shared_bytes=geometry.shared,
            cooperative=geometry.cooperative, offload=offload, observer=observer,
        )  # fmt: skip

    def _run_on_threads(self, grid: Grid) -> None:
        """Give every kernel thread of a grid that fits the chip an OS thread."""
        blocks = [SipBlock(grid, linear, c, c.sips) for linear, c in enumerate(self.chip.clusters[: grid.total_blocks])]
        threads = [threading.Thread(target=task.step, args=(1,)) for block in blocks for task in block.tasks()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run_here(self, grid: Grid) -> None:
        """Step the blocks of a grid in turn, as clusters become free."""
        waiting = list(range(grid.total_blocks))
        free = list(self.chip.clusters)
        runnable: queue.SimpleQueue[StepBlock] = queue.SimpleQueue()
        running = 0
        while running or (waiting and grid.error is None):
            while waiting and free and grid.error is None:
                cluster = free.pop(0)
                block = StepBlock(grid, waiting.pop(0), cluster, cluster.sips)
                block.resume = runnable.put
                runnable.put(block)
                running += 1
            block = runnable.get(timeout=60)  # a block that is parked comes back by `resume`
            progress = block.step(1000)
            if progress is Progress.DONE:
                running -= 1
                free.append(block.cluster)
            elif progress is Progress.AGAIN:
                runnable.put(block)


def benches() -> Iterator[Callable[..., Bench]]:
    """Yield what makes benches with options, and give their memory back afterwards: the body of a fixture."""
    made: list[Bench] = []

    def make(**options: Any) -> Bench:
        made.append(Bench.of(**options))
        return made[-1]

    yield make
    for bench in made:
        bench.memory.close()
