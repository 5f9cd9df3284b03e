"""A trio run under a schedule: its tasks are chosen from one list with all steps of the driver. Imports trio.

trio takes all the tasks that are ready from a queue of its run's, and asks a clock how long it may sleep where there
are none. The clock is trio's public `trio.abc.Clock`. The queue is not public: trio's own hook for tests makes the
order in it repeatable, but nothing can come between two tasks there. So one takes its place that hands out one task,
the one that is chosen; where trio's run has no such queue, the run is refused.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from math import ceil, inf
from typing import Any
from weakref import WeakKeyDictionary

import trio
from trio._core import _run as trios_run

from atops.base.choice import Chooser, Name
from atops.base.clock import VirtualClock
from atops.base.errors import AtopsError, NotSupported, WouldDeadlock
from atops.base.log_fields import get_logger
from atops.base.waiting.current_loop import ADAPTERS
from atops.base.waiting.trio_loop import TrioLoop
from atops.runtime.executors.cycle_collector import COLLECT
from atops.runtime.executors.executor import Step
from atops.runtime.executors.inline_loop import POLLING
from atops.runtime.executors.standing import no_way_on
from atops.runtime.schedules.choosing import ScheduledExecutor

__all__ = ("TrioExecutor", "TrioSteps")

log = get_logger("atops.driver")

SYSTEM = ("<init>", "<TrioToken.run_sync_soon task>")  # trio's own tasks: they only say what could come next


class TrioExecutor(ScheduledExecutor):
    """Run everything as steps of an agenda, trio's tasks among them."""

    loop: TrioSteps  # type: ignore[assignment]  # what a scheduled executor asks of its loop, a trio run can tell

    def __init__(self, chooser: Chooser, clock: VirtualClock | None, limit: int, program: Callable[[], bytes]) -> None:
        super().__init__(chooser, clock, limit, program)
        self.agenda.hand_back = frozenset((trio.lowlevel.Task,))

    def make_loop(self) -> TrioSteps:  # type: ignore[override]  # as above
        """Return what stands for the loop."""
        return TrioSteps(self)

    def known_tasks(self) -> Iterable[tuple[object, Name]]:
        """Return the tasks of the run that have begun, and what their steps are called."""
        return [(task, name) for task, (_, name) in self.loop.known.items()]

    def run_program(self, program: Callable[[], Awaitable[object]]) -> None:
        """Run a coroutine function as the main task of a trio run. Raises what it raises, or what ended the run."""
        steps = self.loop
        try:
            trio.run(steps.guard, program, clock=_Clock(steps))
        except trio.TrioInternalError:
            if steps.error is None:
                raise
            raise steps.error from None  # a task that waits, shielded from its cancellation

    def stalled(
        self, report: str, timers: int, outside: list[object], cause: AtopsError | None
    ) -> None:  # fmt: skip
        """Say that it is not known: where nothing is left to run, the run says so itself."""

    def at_rest(self) -> None:
        """Raise WouldDeadlock: nothing will ever go on. IllegalState where a thread of trio's may."""
        if _threads():
            raise self.refuse_thread("trio.to_thread")
        tasks = _tasks()
        self.tell_standing(tasks)
        raise WouldDeadlock(no_way_on(tasks))


class TrioSteps:
    """The queue of trio's ready tasks, and what else an executor asks of a loop."""

    def __init__(self, executor: TrioExecutor) -> None:
        self.executor = executor
        self.error: BaseException | None = None  # what ends the run
        self._ready: list[Any] = []  # tasks and calls that are not on the agenda yet; None: trio has to look
        self.known: WeakKeyDictionary[trio.lowlevel.Task, tuple[int, Name]] = WeakKeyDictionary()
        self._made = 0  # tasks
        self._left = COLLECT
        self._turns = 0  # of the program alone, one after another, while a command takes time
        self._scope = trio.CancelScope()
        self.runner: Any = None

    async def guard(self, program: Callable[[], Awaitable[object]]) -> None:
        """Run the program until it is over, or cancelled because its run has to end."""
        raised: BaseException | None = None
        try:
            with self._scope:
                await program()
        except BaseException as error:
            raised = error
        if self.error is not None:
            raise self.error from raised
        if raised is not None:
            raise raised

    def begin(self) -> None:
        """Take the place of the queue of the run that begins. Raises NotSupported where it has none."""
        runner: Any = trios_run.GLOBAL_RUN_CONTEXT.runner
        self.runner = runner
        if type(getattr(runner, "runq", None)) is not deque or type(runner.entry_queue.queue) is not deque:
            raise NotSupported(f"trio {trio.__version__} has no queue of tasks that a schedule could choose from")
        runner.runq = self
        runner.entry_queue.queue = _Calls(self.executor)
        token = runner.current_trio_token()
        ADAPTERS[token] = _ScheduledTrioLoop(token, self)

    # ---- what trio does with its queue

    def append(self, task: trio.lowlevel.Task) -> None:
        """Have a task ready. At the first time it is named, after what made it."""
        if task.name not in SYSTEM and task not in self.known:
            self._made += 1
            self.known[task] = self._made, self.executor.names.new_task()
        self._ready.append(task)

    def __iter__(self) -> Iterator[trio.lowlevel.Task]:
        """Yield the task that comes next, once what comes before it has run; none if trio has to look at its clock."""
        self._left -= 1
        if self._left <= 0:
            self._left = COLLECT
            self.executor.collect()
        try:
            self._let_polling_end()
            return iter(self._next())
        except BaseException as error:
            self.end(error)
            return iter(())

    def clear(self) -> None:
        """Do nothing: what was taken has gone already."""

    def __len__(self) -> int:
        return len(self._ready) + len(self.executor.agenda.names) + (self.executor.refusal is not None)

    def _next(self) -> list[trio.lowlevel.Task]:
        executor = self.executor
        executor.run_timers()
        while True:
            ready, self._ready = self._ready, []
            tasks = [each for each in ready if isinstance(each, trio.lowlevel.Task)]
            system = [task for task in tasks if task not in self.known]
            # Cancelling goes through sets of tasks, whose order differs between processes.
            for _, name, task in sorted((*self.known[task], task) for task in tasks if task in self.known):
                executor.agenda.add(name, task)  # type: ignore[arg-type]  # it is handed back, not called
            for call in ready:
                if call is not None and call not in tasks:
                    call()
            if system or None in ready:
                return system
            if self._ready:
                continue
            chosen: Any = executor.next_handle(self._ready)  # type: ignore[arg-type]  # it asks whether there are any
            if chosen is not None or not self._ready:
                return [] if chosen is None else [chosen]

    def call_soon(self, call: Step) -> None:
        """Have something called before the next choice."""
        self._ready.append(call)

    def end(self, error: BaseException) -> None:
        """End the run by an error: the program is cancelled, first come, first served."""
        if self.error is None:
            self.error = error
        self.executor.program_over()
        self._scope.cancel()

    # ---- what an executor asks of its loop

    def look(self) -> None:
        """Have trio look at its clock and files before anything else."""
        self._ready.append(None)

    def next_timer(self) -> int | None:
        """Return the time, later than now, of trio's next deadline; None without one."""
        deadline = self.runner.deadlines.next_deadline()
        return None if deadline == inf else max(_nanoseconds(deadline), self.executor.now() + 1)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log what a step has raised."""
        log.error("%s", context["message"], exc_info=context["exception"])

    # ---- time

    def sleep_time(self, deadline: float) -> float:
        """Return for how many seconds trio may wait for files: nothing is ready. Virtual time goes on here."""
        executor = self.executor
        due = executor.run_timers()
        if len(self) or deadline <= executor.now() / 1e9:
            return 0
        if self.runner.entry_queue.queue or self.runner.entry_queue.idempotent_queue:
            return inf  # calls that trio was asked for: they have woken it
        if self.runner.waiting_for_idle:  # tasks in wait_all_tasks_blocked go on before time does
            return inf
        times = [time for time in (due, self.next_timer()) if time is not None]
        if times and executor.clock is not None:
            self._go_to(min(times))
            return 0
        if times:
            return (min(times) - executor.now()) / 1e9
        waits = trio.lowlevel.current_statistics().io_statistics
        if getattr(waits, "tasks_waiting_read", 1) > 1 or getattr(waits, "tasks_waiting_write", 0):
            return inf  # one reads what wakes the run
        if self.error is None:
            try:
                executor.at_rest()
            except BaseException as error:
                executor.refusal = None
                self.end(error)
        if len(self):
            return 0
        if self.error is not None and not _threads():
            raise self.error  # what is left waits, and cannot be cancelled
        return inf

    def _let_polling_end(self) -> None:
        """Let virtual time go on where the program, or a kernel, has polled for very long for what takes time."""
        executor = self.executor
        if executor.clock is None:
            return
        self._turns = self._turns + 1 if executor.held_up or executor.kernels_only else 0
        if self._turns > POLLING or executor.held_up_for_ever:
            times = [time for time in (executor.run_timers(), self.next_timer()) if time is not None]
            if times:
                self._go_to(min(times))

    def _go_to(self, time: int) -> None:
        clock = self.executor.clock
        assert clock is not None, "asked"
        self._turns = 0
        clock.advance_to(max(time, clock.now()))
        self.executor.run_timers()


class _Clock(trio.abc.Clock):
    """The executor's clock, which trio asks; the place where a run begins, and where it would sleep."""

    def __init__(self, steps: TrioSteps) -> None:
        self._steps = steps

    def start_clock(self) -> None:
        """Take the run. Raises NotSupported where trio has changed too much."""
        try:
            self._steps.begin()
        except BaseException as error:
            self._steps.error = error
            raise

    def current_time(self) -> float:
        """Return the time in seconds."""
        return self._steps.executor.now() / 1e9

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return for how long trio may wait for files."""
        return self._steps.sleep_time(deadline)


class _ScheduledTrioLoop(TrioLoop):
    """Wake tasks of the run: their next steps are among what could come."""

    def __init__(self, token: trio.lowlevel.TrioToken, steps: TrioSteps) -> None:
        super().__init__(token)
        self._steps = steps

    def ring(self) -> bool:
        """Have the run read its mail before the next choice."""
        self._steps.executor.check_caller()
        self._steps.call_soon(self._read_mail)
        return not self.closed()

    def closed(self) -> bool:
        """Return whether the run has finished."""
        return bool(self._steps.runner.entry_queue.done)


class _Calls(deque[Any]):
    """What trio was asked to call soon. Another thread that asks ends the run: when it does so is no choice."""

    def __init__(self, executor: TrioExecutor) -> None:
        super().__init__()
        self._executor, self._owner = executor, threading.get_ident()

    def append(self, job: object) -> None:
        """Take a call."""
        if threading.get_ident() != self._owner:
            self._executor.refuse_thread(threading.current_thread().name)
        super().append(job)


def _nanoseconds(time: float) -> int:
    """Return the first nanosecond at which a time in seconds has come."""
    found = ceil(time * 1e9)
    return found if found / 1e9 >= time else found + 1


def _threads() -> float:
    """Return how many threads the run's tasks wait for."""
    return trio.to_thread.current_default_thread_limiter().borrowed_tokens


def _tasks() -> list[trio.lowlevel.Task]:
    """Return the run's tasks."""
    root = trio.lowlevel.current_root_task()
    found = [] if root is None else [root]
    for task in found:
        found += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found
