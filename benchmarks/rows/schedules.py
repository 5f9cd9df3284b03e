"""Programs under many schedules: a reduction by 24 threads, and two threads in every order.

At kernel level there is a chip and no runtime: what `atops.check` searches with, around a grid whose every turn is
chosen. Budgets are in seconds: there is nothing to compare with that does the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import atops
from atops import kernels as k
from atops.base.agenda import Agenda
from atops.base.choice import Chooser
from atops.base.options import EmulatorOptions
from atops.checking.search import Ended, search
from atops.checking.strategies.dpor import Dpor
from atops.checking.strategies.exhaustive import Exhaustive
from atops.checking.strategies.sampling import RandomRuns
from atops.device.arch import architecture
from atops.device.chip import Chip
from atops.device.exec.block import Block
from atops.device.exec.block_scheduler import ClusterArray
from atops.device.exec.grid import Grid
from atops.device.memory.allocation import Allocation
from atops.device.memory.device_memory import DeviceMemory
from atops.device.memory.host_memory import device_base
from benchmarks.measuring.figures import Figure, value_at_most
from benchmarks.measuring.measure import Effort

__all__ = ("schedules",)

BLOCKS, THREADS, EACH = 2, 12, 64  # of the reduction, and the numbers that a thread has
TOTAL = sum(range(BLOCKS * THREADS * EACH))
STEPS = 8  # of each of the two threads
ORDERS = 12_870  # of two times eight steps
SHARING = ((0, 1), (3, 20))  # steps that touch one word, and the classes of orders that these are


@k.kernel
async def reduction(y: k.Span, x: k.Span) -> None:
    """Load a tile by DTE, and add up the block's sums in shared memory, in half as many threads each time."""
    me = k.threadIdx.x
    part, tile = k.shared(THREADS, np.float32), k.local(EACH, np.float32)
    with k.dte_scope() as dte:
        start = (k.blockIdx.x * THREADS + me) * EACH
        await k.memcpy_async(dte, tile, x[start : start + EACH])
    part[me] = tile.sum()
    await k.syncthreads()
    step = 8
    while step:
        if me < step and me + step < THREADS:
            part[me] += part[me + step]
        await k.syncthreads()
        step //= 2
    if me == 0:
        y[k.blockIdx.x] = part[0]


async def reduce() -> None:
    """Run it from upload to fetch."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.upload(np.arange(BLOCKS * THREADS * EACH, dtype=np.float32))
        y = stream.zeros(BLOCKS, np.float32)
        stream.launch(reduction, (BLOCKS, THREADS), y, x)
        assert (await stream.fetch(y)).sum() == TOTAL


@k.kernel
async def steps(x: k.Span) -> None:
    """Suspend between two steps, and touch nothing."""
    event = k.event()
    for _ in range(STEPS - 1):
        await event


@k.kernel
async def shares(x: k.Span, shared: np.int32) -> None:
    """Suspend between two steps, and store to one word in the first few."""
    event = k.event()
    for nth in range(STEPS):
        if nth < shared:
            x[0] = (x[0] * 2 + k.threadIdx.x) % 1000
        if nth < STEPS - 1:
            await event


def schedules(effort: Effort) -> Iterator[Figure]:
    """Yield the seconds of 1,000 schedules of the reduction at each level, and of all orders of two threads."""
    count, times = effort.size(1_000, 5), effort.times(0.4)
    bare = _Bare()
    x, y = bare.memory_of(np.arange(BLOCKS * THREADS * EACH, dtype=np.float32)), bare.memory_of(np.zeros(BLOCKS, "f4"))
    summed = bare.grid(reduction, BLOCKS, THREADS, y, x)

    def reduced(chooser: Chooser) -> Ended:
        summed(chooser)
        assert y.values.sum() == TOTAL
        return Ended()

    def whole(detect: bool) -> Callable[[], object]:
        options = EmulatorOptions(detect=detect)
        return lambda: _all(atops.check(reduce, count, options=options).runs, count)

    name = "1,000 reductions"
    for level, run, limit in (
        ("kernel level", lambda: _all(search(reduced, RandomRuns(), count).runs, count), 1.0),
        ("whole program", whole(False), 2.0),
        ("with detectors", whole(True), 3.5),
    ):
        yield Figure(f"{name}: {level}", _least(run, times) * 1_000 / count, "s", budget=value_at_most(limit))
    orders, most = bare.grid(steps, 1, 2, y), effort.size(ORDERS, 20)

    def one(chooser: Chooser) -> Ended:
        orders(chooser)
        return Ended()

    seconds = _least(lambda: _all(search(one, Exhaustive(prune=False), most).runs, most), times)
    yield Figure("12,870 orders of two threads, unpruned", seconds, "s", budget=value_at_most(1.0))
    yield from _pruned(bare, y, times)


def _pruned(bare: _Bare, y: _Memory, times: int) -> Iterator[Figure]:
    """Yield the seconds in which as many orders are proved, one of each class."""
    for shared, classes in SHARING:
        meeting = bare.grid(shares, 1, 2, y, shared)

        def run(chooser: Chooser, meeting: Callable[[Chooser], None] = meeting) -> Ended:
            meeting(chooser)
            return Ended()

        def prove(run: Callable[[Chooser], Ended] = run, classes: int = classes) -> None:
            found = search(run, Dpor(), ORDERS)
            assert found.verdict == "proved"
            _all(found.runs - found.cut, classes)

        name = f"12,870 orders of two threads, {classes} {'class' if classes == 1 else 'classes'}"
        yield Figure(name, _least(prove, times), "s", budget=value_at_most(0.1))


def _all(runs: int, expected: int) -> None:
    assert runs == expected, f"{runs} runs instead of {expected}"


def _least(run: Callable[[], object], times: int) -> float:
    """Return the seconds of the shortest of so many times."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return min(taken)


def _begin(block: Block) -> None:
    """Put the threads of a block on the agenda."""
    block.tasks()


class _Memory:
    """Global memory with numbers in it, as kernels take it."""

    def __init__(self, allocation: Allocation, values: np.ndarray[Any, Any]) -> None:
        self._allocation = allocation
        self.values = allocation.data[: values.nbytes].view(values.dtype)
        self.values[:] = values

    def __kernel_argument__(self) -> tuple[Allocation, int, Any, tuple[int, ...]]:
        return self._allocation, 0, self.values.dtype, self.values.shape


class _Bare:
    """A chip, its memory and its clusters; nothing of a runtime."""

    def __init__(self) -> None:
        self._options = EmulatorOptions()
        arch = architecture(self._options.arch)
        # Where no program has its memory: one that finds its place taken cannot keep its mapping for the next run.
        self._memory = DeviceMemory(arch.l3_bytes, arch.banks, 0, device_base(7), self._options.warm_bytes)
        self._chip = Chip(arch, 0, self._options, self._memory)
        self._clusters = ClusterArray(self._chip.clusters)
        self._clusters.place = _begin

    def memory_of(self, values: np.ndarray[Any, Any]) -> _Memory:
        return _Memory(self._memory.allocate(values.nbytes), values)

    def grid(self, kernel: k.Kernel, blocks: int, threads: int, *arguments: object) -> Callable[[Chooser], None]:
        """Return what runs the kernel once, every turn chosen."""
        bound = kernel.bind(arguments)
        bound.resolve(lambda allocation: True)

        def run(chooser: Chooser) -> None:
            agenda = Agenda(chooser)
            grid = Grid(bound, self._chip, blocks, threads, agenda=agenda)
            self._clusters.submit(grid, 0, 0)
            agenda.run()
            if grid.error is not None:
                raise grid.error

        return run
