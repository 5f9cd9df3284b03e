"""Blocks with an OS thread for each of their threads, which blocks while the kernel thread is parked.

Requests of one block are served one at a time; between them kernels run at once, and nothing is deterministic.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from atops.device.chip import Cluster, Sip
from atops.device.exec.block import Block, Progress, Task, serve
from atops.device.exec.failures import block_deadlock
from atops.device.exec.grid import Grid
from atops.device.exec.thread import KernelThread, Reach, ThreadSlot, slot_here

__all__ = ("SipBlock", "SipTask")


class SipBlock(Block):
    """A block whose threads are its tasks. `parked` and `gone` count them, under the barrier's lock."""

    __slots__ = ("gone", "parked", "serving", "steps")

    def __init__(self, grid: Grid, linear: int, cluster: Cluster, sips: list[Sip]) -> None:
        self.parked = self.gone = 0
        self.serving = threading.RLock()
        self.steps: list[SipTask] = []  # the grid knows the block, and may stop it, before it has any
        super().__init__(grid, linear, cluster, sips)
        self.steps = [SipTask(self, thread) for thread in self.threads]

    def tasks(self) -> list[Task]:
        """Return one task a thread. Each needs an OS thread of its own until it is DONE."""
        return list(self.steps)

    def open_barrier(self) -> None:
        """Wake every thread at the block barrier, the last one too: it is about to park."""
        if self.races is not None:
            self.races.pass_barrier()
        arrived, self.arrived = self.arrived, []
        self.grid.barrier.wake(arrived)

    def arrive_at_grid(self) -> None:
        """Arrive at the grid barrier; the last block there wakes its own threads, the one too that is about to park."""
        barrier = self.grid.barrier
        if barrier.arrive(self):
            threads, self.at_grid = self.at_grid, []
            barrier.wake(threads)

    def make_ready(self, threads: Iterable[KernelThread]) -> bool:
        """Open the gates of woken threads."""
        for thread in threads:
            thread.waiting = None
            thread.task.open()
        return False

    def cancel(self) -> bool:
        """Open the gate of every parked thread."""
        for task in self.steps:
            if task.parked:
                task.open()
        return False

    def over(self) -> Progress:
        """End the block, and let go of its tasks."""
        for task in self.steps:
            del task.thread.task
        self.steps = []
        return super().over()

    def reschedule(self) -> None:
        """Have nothing done: OS threads that wait at a gate go on by themselves."""

    def running(self) -> list[KernelThread]:
        """Return every thread that is neither parked nor ended."""
        return [task.thread for task in self.steps if task.begun and not task.parked and not task.thread.ended]


class SipTask:
    """One thread of a block on an OS thread of its own."""

    ahead = 0  # a virtual clock has one OS thread

    __slots__ = ("begun", "block", "gate", "parked", "priority", "thread", "woken")

    def __init__(self, block: SipBlock, thread: KernelThread) -> None:
        self.block = block
        self.priority = block.priority
        self.thread = thread
        thread.task = self
        self.gate = threading.Lock()
        self.gate.acquire()
        self.begun = self.parked = self.woken = False

    def step(self, budget: int) -> Progress:
        """Run the thread to its end, blocking while it is parked. The budget has no meaning here."""
        context = self.block.grid.context
        return self._step() if context is None else context.copy().run(self._step)

    def _step(self) -> Progress:
        block, thread, grid = self.block, self.thread, self.block.grid
        slot = slot_here()
        self.begun = True
        try:
            if grid.error is None:
                self._run(slot)
            if not thread.ended:
                block.close_thread(thread, slot)
        finally:
            slot.thread = None
        return self._leave()

    def _run(self, slot: ThreadSlot) -> None:
        """Run the kernel until it ends, faults or the grid stops."""
        block, thread, grid = self.block, self.thread, self.block.grid
        observer = grid.observer
        try:
            slot.thread = thread
            if observer is not None:
                observer("run", thread, None)
            request = thread.begin(None)
            while True:
                if observer is not None:
                    observer("ask", thread, request)
                if not self._serve(request):
                    self._park()
                if grid.error is not None:
                    return
                if observer is not None:
                    observer("run", thread, None)
                request = thread.send(None)
        except StopIteration as error:
            block.ended(thread, error.value)
        except BaseException as error:
            block.fault(thread, error)

    def _serve(self, request: object) -> bool:
        if getattr(request, "alone", True):  # a kernel may have awaited anything
            with self.block.serving:
                return serve(self.thread, request)
        return serve(self.thread, request)

    def open(self) -> None:
        """Let the thread go on. The barrier's lock is held."""
        if self.parked:
            self.parked = False
            self.block.parked -= 1
            if self.block.idle:
                self.block.grid.barrier.note_busy(self.block)
            self.gate.release()
        else:
            self.woken = True

    def _park(self) -> None:
        """Block this OS thread until the kernel thread is woken or the grid stops."""
        block = self.block
        with block.grid.barrier.lock:
            if self.woken or block.grid.error is not None:
                self.woken = False
                return
            self.parked = True
            block.parked += 1
        self._look()
        self.gate.acquire()

    def _leave(self) -> Progress:
        """Take the thread out of its block; the last one ends the block."""
        block = self.block
        with block.grid.barrier.lock:
            block.gone += 1
            last = block.gone == block.size
        if last:
            return block.over()
        self._look()
        return Progress.DONE

    def _look(self) -> None:
        """Find out whether this leaves no thread that can go on."""
        block, grid = self.block, self.block.grid
        barrier = grid.barrier
        with barrier.lock:
            if block.idle or not block.parked or block.parked < block.size - block.gone or grid.error is not None:
                return
            dead = block.reach() is Reach.BLOCK
            stuck = not dead and barrier.note_idle(block)
            if stuck:
                barrier.note_busy(block)
        if dead:
            grid.stop(block_deadlock(block))
        elif stuck:
            grid.deadlocked()
