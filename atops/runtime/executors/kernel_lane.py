"""The kernel lane of one device: the threads that step its blocks.

The most urgent task goes first. A lane of one thread takes them all by itself, where that saves a way through the
executor's queue.
"""

from __future__ import annotations

from functools import partial
from threading import get_ident
from typing import Protocol

from atops.base.options import EmulatorOptions
from atops.base.waiting.parking_lot import Waiter, wake
from atops.device.exec.block import AGAIN, DONE, Block, Progress, Task
from atops.runtime.executors.executor import HERE, Executor, Lane, Step
from atops.runtime.executors.ready import Ready

__all__ = ("Drained", "KernelLane", "StepTask")


class Drained(Task, Protocol):
    """A stream, as a task of the lane: a step of it is its drain."""

    def drain(self) -> None:
        """Run commands from the head of its queue."""


class StepTask:
    """A step of the driver as a task of the lane."""

    ahead = 0  # a task that is over when it was stepped

    __slots__ = ("_step", "priority")

    def __init__(self, step: Step, priority: int) -> None:
        self._step = step
        self.priority = priority

    def step(self, budget: int) -> Progress:
        """Run the step. The budget is its own."""
        self._step()
        return DONE


class KernelLane:
    """The kernel lane of one device, with `width` threads.

    A lane of one thread keeps what is ready itself and steps it until nothing is left: what its own work places or
    wakes, and the drain of the stream whose kernel has ended. That saves a way through the executor's queue for each
    block of a launch and each turn at a grid barrier, and saves waking the driver's thread, which costs as much as a
    small kernel. Inline, a policy chooses among what is most urgent.
    """

    __slots__ = ("_alone", "_executor", "_levels", "_ready", "_slice", "_thread", "_waiters", "name")

    def __init__(self, executor: Executor, ordinal: int, width: int, options: EmulatorOptions) -> None:
        self.name = Lane(f"kernel {ordinal}")
        executor.widen(self.name, width)
        self._executor = executor
        self._slice = options.slice
        self._thread = 0  # the one thread, while it steps tasks; not one that never comes back
        self._waiters: list[Waiter] = []  # of the kernel that its step has ended
        self._alone = width == 1 and not executor.inline
        self._ready: Ready[Task] = Ready()  # of the one thread
        self._levels = self._ready.levels

    def place(self, block: Block) -> None:
        """Step a block that got its cluster, now and whenever it is woken. Safe from any OS thread."""
        block.resume = self.resume
        for task in block.tasks():
            self.resume(task)

    def resume(self, task: Task) -> None:
        """Have a task stepped. Safe from any OS thread."""
        if not self._alone:
            self._executor.run(self.name, partial(self._step, task), task.priority)
            return
        self._levels[task.priority].append(task)
        if self._thread != get_ident():  # looked at last: `abandon` rings for what came before it
            self._ring()

    def run_drain(self, stream: Drained) -> None:
        """Have a stream drained where its kernel will run: one thread hop less."""
        if self._alone:
            self.resume(stream)
        else:
            self._executor.run(self.name, stream.drain, stream.priority)

    def offer(self, step: Step, priority: int) -> None:
        """Run a step on this lane, after more urgent ones, as the drains of streams whose kernels ended here."""
        if self._alone:
            self.resume(StepTask(step, priority))
        else:
            self._executor.offer(step, priority)

    def free(self, priority: int) -> bool:
        """Whether the lane's one thread, which calls this, has nothing as urgent to step next."""
        return not self._ready.waits(priority)

    def steps_here(self) -> bool:
        """Whether this is called in a step of the lane's one thread."""
        return self._thread == get_ident()

    def wake_last(self, waiters: list[Waiter]) -> None:
        """Wake the waiters of a kernel at the end of this step; for the lane's one thread.

        Waking a thread is slow, and slower still if the woken thread finds the interpreter's lock taken. So the rest of
        the step comes first.
        """
        self._waiters += waiters

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        wake(waiters)

    def abandon(self) -> None:
        """Replace a thread that never comes back; its successor gets the tasks that are ready."""
        self._thread = 0
        self._executor.abandon(self.name)
        if self._alone:
            self._ring()

    def _ring(self) -> None:
        self._executor.run(self.name, self._step_all)

    def _step(self, task: Task) -> None:
        """Step a task, on one of several threads."""
        role, HERE.role = HERE.role, "executor"
        try:
            progress = task.step(self._slice)
        finally:
            HERE.role = role
        if progress is AGAIN:
            self._executor.go_on(self.name, partial(self._step, task), task.priority, task.ahead)

    def _step_all(self) -> None:
        """Step what is ready on the one thread, until nothing is."""
        ready, budget = self._ready, self._slice
        last, first, second = self._levels
        self._thread = me = get_ident()
        try:
            while last or first or second:
                # As `Ready` does, but in the usual case without its frames.
                try:
                    task = last.popleft() if last and not first and not second else ready.take()
                except IndexError:
                    task = None
                if task is None:
                    break  # another thread, which has taken its place, was quicker
                if self._waiters:
                    self._wake()
                if task.step(budget) is AGAIN:
                    ready.put_back(task, task.priority)
                if self._thread != me:
                    break  # another thread has taken its place
        finally:
            if self._thread == me:
                self._thread = 0
            if last or first or second:
                self._ring()
            if self._waiters:
                self._wake()

    def __repr__(self) -> str:
        return f"<KernelLane {self.name!r}: {self._ready!r}>"
