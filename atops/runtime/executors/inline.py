"""The inline host: driver steps, kernels, copies, callbacks and the program's own tasks share one loop and one thread.

The order is a policy's choice, so a run can be replayed from its seed. A blocking wait pumps driver steps itself; when
none is left, nothing could ever end the wait and it raises. Foreign threads are refused: an order that depends on
when they enqueue cannot be replayed.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

from atops.base.clock import VirtualClock
from atops.base.errors import AtopsError, IllegalState, StepLimit, WouldDeadlock
from atops.base.log_fields import first_line
from atops.base.waiting.asyncio_loop import TaskWaiter
from atops.base.waiting.parking_lot import seconds
from atops.device.races.race import Access
from atops.runtime.executors.cycle_collector import COLLECT, OLDER, collect
from atops.runtime.executors.executor import HERE, Executor, Lane, LaterStep, Step
from atops.runtime.executors.inline_loop import POLLING, InlineLoop
from atops.runtime.executors.ready import Ready
from atops.runtime.executors.standing import OtherThreads, no_way_on, sides_of

__all__ = ("InlineExecutor", "rest")

# After POLLING questions whether something is over, each takes so many nanoseconds on a virtual clock; and where
# nothing is left to run, so many in a row end the run.
QUESTION = 100_000
IN_VAIN = 1_000_000
# So many turns of kernels in a row, and no other step of the driver in between: the kernels count as never ending.
ENDLESS = 10_000
# Tasks that go on although they were cancelled are abandoned after so many turns of the loop.
MOST_TURNS = 100_000
# Seconds between two looks at other threads, while only they may let a task go on.
LOOK = 0.1


class InlineExecutor(Executor):
    """Run everything as steps of `loop`, in the order that `choose` picks."""

    inline = True

    def __init__(self, seed: int | None = None, clock: VirtualClock | None = None) -> None:
        self.clock = clock
        self._thread = threading.get_ident()
        self._steps: Ready[Step] = Ready()
        self._timers: list[tuple[int, int, LaterStep]] = []
        self._serial = itertools.count()
        self._random = None if seed is None else random.Random(seed)
        self._closed = False
        self._spending = 0  # commands that take virtual time now
        self.questions: dict[int, int] = {}  # asked since anything else ran: by the id of what they were about
        self.in_vain = 0  # questions since anything was left to run
        self._went_on = 0  # turns of kernels that were not their last
        self._endless = 0  # of those in a row
        self._going: dict[Step, int] = {}  # under a virtual clock, those to come, and how far it may go before each
        self.threads = OtherThreads(1)
        self._collections = 0
        self._pumped = 0  # steps that a blocking wait has run since a collection
        self.deadlocked: Callable[[list[Access]], None] | None = None  # told of tasks that nothing can let go on
        self.sees_rest = False  # whether it ends a run in which nothing is left to run
        self.ending = 0  # turns of the loop since what is left of the run is ended
        self.interrupt: Step | None = None  # raises a Ctrl-C that nothing has raised yet
        self.loop = self.make_loop()

    def program_over(self) -> None:
        """Note that the program and its driver's scope are over."""

    def make_loop(self) -> InlineLoop:
        """Return the loop that runs the steps."""
        return InlineLoop(self)

    def now(self) -> int:
        """Return the clock's time, which is the wall's unless the clock is virtual."""
        return time.monotonic_ns() if self.clock is None else self.clock.now()

    def choose(self, count: int) -> int:
        """Pick one of `count` ready steps: the first, or any by the seed."""
        return 0 if self._random is None or count == 1 else self._random.randrange(count)

    def collect(self) -> None:
        """Have the collector run, between two steps, unless the program has it off."""
        self._collections += 1
        collect(0 if self._collections % 10 else OLDER if self._collections % 500 else 2)

    def post(self, step: Step) -> None:
        """Queue a step for the loop, or for the pump of a blocking wait."""
        self.offer(step, 0)

    def offer(self, step: Step, priority: int) -> None:
        """Queue a step by urgency: the policy chooses among those that are as urgent as any."""
        if self._closed:
            return  # whatever thread a finalizer of what is left runs on
        self.check_caller()
        self._steps.put(step, priority)
        self.loop.call_soon(self._run_one)

    def post_in_finalizer(self, step: Step) -> None:
        """Post the step, unless the process ends while another thread runs the program."""
        if not (self.foreign and sys.is_finalizing()):
            self.post(step)

    def later(self, delay: int, step: Step) -> LaterStep:
        """Queue a step for a time; the loop's selector and the pump both look at the timers."""
        self.check_caller()
        timer = LaterStep(step)
        due = self.now() + delay
        heapq.heappush(self._timers, (due, next(self._serial), timer))
        return timer  # the loop's selector fires it: a handle of the loop would be one more to choose from

    def spend(self, duration: int, step: Step, priority: int = 0) -> LaterStep:
        """Offer a step at a time, and note that a command takes time until then."""
        return self.spending(duration, partial(self.offer, step, priority))

    def spending(self, duration: int, step: Step) -> LaterStep:
        """As `later`, and note that a command takes time until then."""
        self.check_caller()
        self._spending += 1
        timer = _Spending(self, step)
        heapq.heappush(self._timers, (self.now() + duration, next(self._serial), timer))
        return timer

    def spent(self) -> None:
        """Note that a command's time is over, or that nothing waits for it any more."""
        self._spending -= 1

    @property
    def held_up(self) -> bool:
        """Whether the driver has nothing to do before a command's time is over."""
        return self._spending > 0 and not self.has_steps()

    def has_steps(self) -> bool:
        """Say whether the driver has something to do."""
        return bool(self._steps)

    def run(self, lane: Lane, work: Step, priority: int = 0) -> None:
        """Queue the work as a step: one thread runs everything."""
        self.offer(work, priority)

    def go_on(self, lane: Lane, work: Step, priority: int = 0, ahead: int = 0) -> None:
        """Queue the kernel's next turn, and count this one."""
        self._went_on += 1
        self.check_caller()
        if not self._closed:
            if self.clock is not None:
                self._going[work] = ahead
            self._steps.put_back(work, priority)
            self.loop.call_soon(self._run_one)

    @property
    def kernels_only(self) -> bool:
        """Whether only kernels have gone on for so long that a virtual clock must move.

        The time of a kernel passes when a block of it is over; one that never ends takes none. So the clock then moves
        whenever the program has nothing to do, until the driver does something else.
        """
        return self._endless > ENDLESS

    def kernels_ahead(self, time: int) -> bool:
        """Whether kernels go on, nothing else of the driver's does, and all have come to a time by their own clocks."""
        going = self._going
        return bool(going) and len(going) == len(self._steps) and min(going.values()) >= time

    @property
    def held_up_for_ever(self) -> bool:
        """Whether it is so, and the program waits."""
        return self.kernels_only and self.alone

    @property
    def alone(self) -> bool:
        """Whether nothing but its own step is ready in the loop."""
        return self.loop.only(self._run_one)

    def backlog(self, lane: Lane) -> Callable[[], bool]:
        """Return a function that says False: all work waits for the one thread, in the order of the policy."""
        return bool

    def widen(self, lane: Lane, threads: int) -> None:
        """Do nothing: one thread runs every lane."""

    def grow(self, lane: Lane, threads: int) -> None:
        """Do nothing: one thread runs every lane."""

    def abandon(self, lane: Lane) -> None:
        """Do nothing: a kernel that never suspends holds the only thread, so no other could abandon it."""

    def block(self, source: Any, timeout: float | None) -> bool:
        """Pump driver steps until `source` settles. Raises WouldDeadlock when none is left.

        Raises KeyboardInterrupt between two steps, where nothing is lost, if Ctrl-C was pressed.
        """
        self.check_caller()
        if HERE.role not in (None, "callback"):
            raise WouldDeadlock(f"a blocking wait inside a {HERE.role} step would never end")
        limit = seconds(timeout)
        deadline = None if limit is None else self.now() + int(limit * 1e9)
        while not source.is_done:
            if self.interrupt is not None:
                self.interrupt()
            if deadline is not None and self.now() >= deadline:
                return False
            if self._run_one():
                self._pumped += 1
                if self._pumped >= COLLECT:
                    self._pumped = 0
                    self.collect()
                if self.clock is not None:
                    due = self._next_due(deadline) if self._going else None
                    if self.kernels_only or (due is not None and self.kernels_ahead(due)):
                        self._await_timer(deadline)
                continue
            if not self._await_timer(deadline):
                raise WouldDeadlock(f"nothing is left to run that could end the wait for {source!r}")
        return True

    def asked_in_vain(self, thing: object) -> None:
        """Run a step, or advance the timers, for a program that polls: it holds the only thread."""
        asked = self.questions[id(thing)] = self.questions.get(id(thing), 0) + 1
        if asked > POLLING and HERE.role in (None, "callback") and threading.get_ident() == self._thread:
            if self._run_one() or self._await_timer(None):
                self.in_vain = 0
            else:
                self.polled_in_vain()
            self.questions = {id(thing): POLLING}  # what it waits for may take many steps

    def polled_in_vain(self) -> None:
        """Note that a program polls though nothing is left to run: it may give up, or do something itself.

        On a virtual clock each question takes time, so that timeouts pass. Raises StepLimit if it polls on and on.
        """
        if self.clock is None:
            return
        self.clock.advance_to(self.clock.now() + QUESTION)
        self.in_vain += 1
        if self.in_vain >= IN_VAIN:
            self.in_vain = 0
            raise StepLimit(
                f"{IN_VAIN:,} times in a row the program has asked whether something is over, and nothing is left to "
                "run that could end it"
            )

    def stalled(
        self, report: str, timers: int, outside: list[object], cause: AtopsError | None
    ) -> list[Access] | None:  # fmt: skip
        """Raise WouldDeadlock in every task that awaits the driver, if nothing is left that could let any task go on.

        A file, a timer, a signal or another thread may do that, unless each task waits for a stream or another task.
        Returns where each task waits if it was so.
        """
        if self.has_steps() or self.loop.may_go_on() or sum(timer.live for *_, timer in self._timers) > timers:
            return None
        tasks = asyncio.all_tasks(self.loop)
        waits = [getattr(task, "_fut_waiter", None) for task in tasks]
        futures = [each for each in outside if isinstance(each, asyncio.Future | Future)]
        others = self.threads.may_act()
        if None in waits or (others and not all(map(self._stands, (*waits, *futures)))):
            return None
        sides = sides_of(tasks)
        before = "" if cause is None else f"after a failure, {first_line(cause)}, "
        for each in waits:
            if isinstance(each, TaskWaiter):
                error = WouldDeadlock(f"{before}nothing is left to run that could end this wait; {report}")
                error.__cause__ = cause
                each.fail(error)
        return sides

    def _stands(self, wait: object) -> bool:
        """Whether only streams and other tasks of the loop could end what a task or a stream waits for."""
        if isinstance(wait, TaskWaiter):
            return True
        if isinstance(wait, asyncio.Task):
            return wait.get_loop() is self.loop
        children = getattr(wait, "_children", ())  # of asyncio.gather
        return bool(children) and all(map(self._stands, children))

    def at_rest(self) -> float | None:
        """Note that nothing is ready, and that no timer, file or signal handler can change that: only a thread can.

        Where detectors are on and no other thread does, raise WouldDeadlock out of the run. Returns after how many
        seconds to look again.
        """
        tasks = asyncio.all_tasks(self.loop)
        if not tasks or (self.deadlocked is None and not self.ending):
            return None
        if self.threads.may_act():
            return LOOK
        self.tell_standing(tasks)
        raise WouldDeadlock(no_way_on(tasks))

    def ends(self) -> None:
        """Count a turn of the loop while the run's last tasks are ended. Raises StepLimit after `MOST_TURNS`."""
        self.ending += 1
        if self.ending > MOST_TURNS:
            self.ending = 1
            raise StepLimit(f"tasks go on for {MOST_TURNS:,} turns of the loop after they were cancelled")

    def tell_standing(self, tasks: Iterable[object]) -> None:
        """Tell the detectors, if there are any, once of the tasks that can never go on."""
        tell, self.deadlocked = self.deadlocked, None  # what ends the tasks may wait, too
        if tell is not None:
            tell(sides_of(tasks))

    @property
    def foreign(self) -> bool:
        """Whether this is any thread but the one that runs the program."""
        return threading.get_ident() != self._thread

    def check_caller(self) -> None:
        """Raise IllegalState in a foreign thread."""
        if self.foreign:
            raise IllegalState(
                f"thread {threading.current_thread().name!r} used a driver that runs inline in another thread; "
                "an inline run has one thread, so that it can be replayed"
            )

    def close(self) -> None:
        """Drop what is queued. Idempotent."""
        self._closed = True
        self._steps.clear()
        self._going.clear()
        self._timers.clear()
        self._spending = 0

    def _run_one(self) -> bool:
        steps = self._steps.next_level()
        if not steps:
            return False  # the pump of a blocking wait took it
        if (index := self.choose(len(steps))) != 0:
            steps.rotate(-index)
        step = steps.popleft()
        if index:
            steps.rotate(index)
        self.questions = {}
        if self._going:
            self._going.pop(step, None)
        before = self._went_on
        step()
        self._endless = self._endless + 1 if self._went_on != before else 0
        return True

    def run_timers(self) -> int | None:
        """Run the steps whose time has come. Returns when the next one is due, None without one."""
        while self._timers and (self._timers[0][0] <= self.now() or not self._timers[0][2].live):
            heapq.heappop(self._timers)[2].fire()
        return self._timers[0][0] if self._timers else None

    def _next_due(self, deadline: int | None) -> int | None:
        """Return when the next timer is due, or the deadline if that is earlier; None where there is neither."""
        while self._timers and not self._timers[0][2].live:
            heapq.heappop(self._timers)
        return min((x for x in (deadline, self._timers[0][0] if self._timers else None) if x is not None), default=None)

    def _await_timer(self, deadline: int | None) -> bool:
        due = self._next_due(deadline)
        if due is None:
            return False
        if self.clock is not None:
            self.clock.advance_to(max(due, self.clock.now()))
        else:
            rest(max(0, due - self.now()) / 1e9)
        self.run_timers()
        return True


class _Spending(LaterStep):
    """The end of a command that takes time."""

    __slots__ = ("_executor",)

    def __init__(self, executor: InlineExecutor, step: Step) -> None:
        super().__init__(step)
        self._executor = executor

    def cancel(self) -> None:
        """Forget the step, and that the command takes time."""
        if self.live:
            super().cancel()
            self._executor.spent()

    def fire(self) -> None:
        """Run the step unless it was cancelled."""
        if self.live:
            self._executor.spent()
            super().fire()


def rest(duration: float) -> None:
    """Sleep so many seconds. Nothing is under way meanwhile, so Ctrl-C may end it."""
    time.sleep(duration)
