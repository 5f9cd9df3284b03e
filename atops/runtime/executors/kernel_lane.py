"""The kernel lane of one device: the threads that step its blocks.

A lane of one thread hands tasks to itself where that saves a way through the executor's queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from atops.base.options import EmulatorOptions
from atops.base.waiting.parking_lot import Waiter, wake
from atops.device.exec.block import Block, Progress, Task
from atops.runtime.executors.executor import HERE, Executor, Lane

__all__ = ("DrainTask", "KernelLane")

Drain = Callable[[], None]


def _wake() -> None:
    waiters, HERE.waiters = HERE.waiters, None
    wake(waiters or ())


class DrainTask:
    """The drain of a stream, as a task."""

    __slots__ = ("drain",)

    def __init__(self, drain: Drain) -> None:
        self.drain = drain

    def step(self, budget: int) -> Progress:
        """Run commands of the stream. The budget is the drain's own."""
        self.drain()
        return Progress.DONE


class KernelLane:
    """The kernel lane of one device, with `width` threads.

    A lane of one thread hands tasks to itself: it next steps what its own work places or wakes, and it drains what
    follows a kernel in its stream. That saves a way through the queue for each block of a launch and each turn at a
    grid barrier, and saves waking the driver's thread, which costs as much as a small kernel. While other work waits in
    the queue, which may be more urgent, tasks go to the end of the queue and drains to the driver. Inline, a policy
    chooses the order.
    """

    __slots__ = ("_alone", "_executor", "_given_up", "_handed", "_idle", "_slice", "_turn", "name")

    def __init__(self, executor: Executor, ordinal: int, width: int, options: EmulatorOptions) -> None:
        self.name = Lane(f"kernel {ordinal}")
        executor.widen(self.name, width)
        self._executor = executor
        self._idle = executor.backlog(self.name)  # whether no other work waits
        self._slice = options.slice
        self._turn = self._given_up = 0  # turns of its threads are numbered; those below `_given_up` never come back
        self._alone = width == 1 and not executor.inline
        self._handed: deque[Task] = deque()  # what the one thread will step next; both ends are used atomically

    def place(self, block: Block) -> None:
        """Step a block that got its cluster, now and whenever it is woken. Safe from any OS thread."""
        block.resume = self.resume
        for task in block.tasks():
            self.resume(task)

    def resume(self, task: Task) -> None:
        """Have a task stepped. Safe from any OS thread."""
        if HERE.lane is self:
            self._handed.append(task)
            if HERE.turn < self._given_up:
                self._pass_on()  # checked last: `abandon` passes on what was handed over before it
        else:
            self._executor.run(self.name, partial(self._step, task))

    def run_drain(self, drain: Drain) -> None:
        """Have a stream drained where its kernel will run: one thread hop less."""
        self._executor.run(self.name, partial(self._step, DrainTask(drain)) if self._alone else drain)

    @property
    def free(self) -> bool:
        """Whether the lane's one thread, which asks, has nothing else to step next."""
        return not self._handed

    def drain_next(self, drain: Drain) -> None:
        """Have a stream drained by the lane's one thread, which calls this at the end of a step, or by the driver's."""
        self._handed.append(DrainTask(drain))

    def wake_last(self, waiters: list[Waiter]) -> None:
        """Wake the waiters of a kernel after this step of the lane's one thread, which calls this at the step's end.

        Waking a thread is slow, and twice as slow when that thread then finds the interpreter's lock taken: so what
        this thread still has to do comes first.
        """
        HERE.waiters = waiters if HERE.waiters is None else HERE.waiters + waiters

    def abandon(self) -> None:
        """Replace a thread that never comes back; its successor gets the tasks handed to it."""
        self._given_up = self._turn + 1
        self._executor.abandon(self.name)
        self._pass_on()

    def _step(self, task: Task) -> None:
        """Step a task, and then those that it handed to this thread."""
        if self._alone:
            self._handed.appendleft(task)
            self._go_on(now=True)
            return
        role, HERE.role = HERE.role, "executor"
        try:
            progress = task.step(self._slice)
        finally:
            HERE.role = role
        if progress is Progress.AGAIN:
            self._executor.go_on(self.name, partial(self._step, task))

    def _go_on(self, now: bool = False) -> None:
        """Step what was handed to this thread, until nothing is or other work waits; `now`: the first in any case."""
        handed, idle, budget = self._handed, self._idle, self._slice
        HERE.lane = self
        self._turn = HERE.turn = self._turn + 1
        try:
            while now or (handed and idle()):
                now = False
                try:
                    task = handed.popleft()
                except IndexError:  # a thread that was abandoned came back and took it
                    break
                if HERE.waiters is not None:
                    _wake()
                if task.step(budget) is Progress.AGAIN:
                    handed.append(task)
        finally:
            HERE.lane = None
            self._pass_on()
            if HERE.waiters is not None:
                _wake()

    def _pass_on(self) -> None:
        while self._handed:
            try:
                task = self._handed.popleft()
            except IndexError:  # as above
                return
            if type(task) is DrainTask:
                self._executor.post(task.drain)
            else:
                self._executor.run(self.name, partial(self._step, task))

    def __repr__(self) -> str:
        return f"<KernelLane {self.name!r}: {len(self._handed)} tasks handed over>"
