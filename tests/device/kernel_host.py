"""A board without a runtime: it places grids, steps their blocks on as many OS threads as asked, and joins them.

With it, the few words of the kernel language that the tests of the interpreter need.
"""

from __future__ import annotations

import inspect
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

from atops.base.dims import Dim3
from atops.base.options import EmulatorOptions
from atops.device.arch import architecture
from atops.device.chip import Chip
from atops.device.exec.barrier import SignalWait, grid_sync
from atops.device.exec.block import Block, Progress
from atops.device.exec.block_scheduler import ClusterArray
from atops.device.exec.grid import Grid
from atops.device.exec.thread import KernelThread, Request, current_thread, missing_await

MODES = [1, 2, "sip"]
PATIENCE = 30.0  # seconds until a run counts as hung; a good run never waits so long


def syncthreads() -> Request:
    """Return the block barrier's request."""
    thread = current_thread()
    if thread.unawaited is not None:
        raise missing_await(thread)
    request = thread.sync
    request.frame = frame = sys._getframe(1)
    request.lasti = frame.f_lasti
    thread.unawaited = request
    return request


def syncblocks() -> Request:
    """Return the grid barrier's request."""
    thread = current_thread()
    return grid_sync(thread).made_by(thread)


def signal(index: int, condition: str, value: int) -> Request:
    """Return the request that waits for a kernel signal."""
    thread = current_thread()
    return SignalWait(thread.grid.chip.signals, index, condition, value).made_by(thread)


class Turn(Request):
    """A request that is served at once."""

    __slots__ = ()

    def serve(self, thread: KernelThread) -> bool:
        return True

    def describe(self) -> str:
        return "turn"


def turn() -> Request:
    """Return a request that is served at once."""
    return Turn().made_by(current_thread())


def line_of(function: Callable[..., Any], text: str) -> str:
    """Return "file:line" of the first line of a function's source that has `text` in it."""
    lines, first = inspect.getsourcelines(function)
    offset = next(number for number, line in enumerate(lines) if text in line)
    return f"{inspect.getsourcefile(function)}:{first + offset}"


class Bound:
    """A kernel with no arguments; it is given its thread if it takes a parameter."""

    make = None
    suspends = True
    native = None

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = function.__name__
        self.start = function if inspect.signature(function).parameters else self._start
        self.finished: list[int] = []

    def _start(self, thread: KernelThread) -> Any:
        return self.function()

    prepares = False

    def prepare(self, grid: Grid) -> None:
        """Have nothing to look at."""

    def finish(self, thread: KernelThread, value: object) -> None:
        self.finished.append(thread.linear)


class ToldGrid(Grid):
    """A grid that calls `told` when it is over."""

    __slots__ = ("told",)

    def __init__(self, told: Callable[[Grid], None], *arguments: Any, **options: Any) -> None:
        self.told = told
        super().__init__(*arguments, **options)

    def on_done(self) -> None:
        self.told(self)


class Host:
    """Chips, their schedulers, and what runs the blocks. `done` lists the grids in the order they ended."""

    def __init__(self, workers: Any = 1, devices: int = 1, **options: Any) -> None:
        self.options = EmulatorOptions(workers=workers, devices=devices, **options)
        self.chips = [Chip(architecture(self.options.arch), ordinal, self.options) for ordinal in range(devices)]
        self.arrays = [ClusterArray(chip.clusters) for chip in self.chips]
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.placed: list[tuple[str, int, int]] = []
        self.done: list[Grid] = []
        self.steps: list[Progress] = []
        self._threads: list[threading.Thread] = []
        self._ended = threading.Condition()
        for array in self.arrays:
            array.place = self._place

    def grid(
        self, function: Callable[..., Any], blocks: Any, threads: Any = 12, device: int = 0, **options: Any
    ) -> Grid:
        """Make a grid of a kernel function, not yet submitted."""
        return ToldGrid(
            self._on_done, Bound(function), self.chips[device], Dim3.of(blocks), Dim3.of(threads), **options
        )

    def submit(self, grid: Grid, priority: int = 0, ticket: int = 0, **options: Any) -> Grid:
        """Queue a grid's blocks on its device."""
        self.arrays[grid.chip.ordinal].submit(grid, priority, ticket, **options)
        return grid

    def drain(self, budget: int = 256) -> None:
        """Step what there is to step, here, until everything is parked or done."""
        while not self.tasks.empty():
            self._step(self.tasks.get(), budget)

    def run(self, *grids: Grid) -> Grid:
        """Submit grids, run them to their end in the mode of the options, and return the first."""
        workers = self.options.workers
        for ticket, grid in enumerate(grids):
            self.submit(grid, ticket=ticket)
        if workers == 1:
            self.drain()
            assert all(grid.done for grid in grids), [grid.waits() for grid in grids]
        else:
            self.start()
            self.wait(*grids)
            self.stop()
        return grids[0]

    def start(self) -> None:
        """Start the OS threads that step what is placed from now on, where there are any."""
        if self.options.workers != "sip":
            for _ in range(int(self.options.workers)):
                self._spawn(self._work)

    def wait(self, *grids: Grid) -> None:
        """Wait until grids are done. A hang fails the test and says what waits for what."""
        with self._ended:
            ended = self._ended.wait_for(lambda: all(grid in self.done for grid in grids), PATIENCE)
        assert ended, f"hung: {[grid.waits() for grid in grids]}"

    def stop(self) -> None:
        """End the OS threads."""
        for _ in self._threads:
            self.tasks.put(None)
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        self._threads = []

    def _on_done(self, grid: Grid) -> None:
        with self._ended:
            self.done.append(grid)
            self._ended.notify_all()

    def _place(self, block: Block) -> None:
        block.resume = self.tasks.put
        self.placed.append((block.grid.name, block.linear, block.cluster.ordinal))
        for task in block.tasks():
            if self.options.workers == "sip":
                self._spawn(lambda task=task: task.step(1))
            else:
                self.tasks.put(task)

    def _spawn(self, work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work, daemon=True)  # one that hangs must fail its test, not hold the run
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (task := self.tasks.get()) is not None:
            self._step(task, 64)

    def _step(self, task: Any, budget: int) -> None:
        progress = task.step(budget)
        self.steps.append(progress)
        if progress is Progress.AGAIN:
            self.tasks.put(task)
