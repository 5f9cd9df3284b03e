"""The inline host under a schedule: every step of the driver, the kernels and the program is chosen from one list.

What is no choice runs as soon as it is there: the loop's own wake-ups, which only say what could come next, and what a
signal handler asks for.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from asyncio import Future
from collections import deque
from collections.abc import Callable, Container, Coroutine, Iterable
from contextvars import Context
from functools import partial
from itertools import islice, starmap
from typing import Any, TypeVar, TypeVarTuple

from atops.base.agenda import MOST_STEPS, Agenda
from atops.base.choice import PASSING, STREAM, TASK, THREAD, TIME, TRANSFER, Choice, ChoiceLog, Chooser, Name, Plain
from atops.base.clock import VirtualClock
from atops.base.errors import IllegalState, NotSupported, StepLimit, WouldDeadlock
from atops.base.footprint import RUNTIME
from atops.base.schedule_string import schedule_string
from atops.base.waiting.asyncio_loop import OWN_CALLBACKS
from atops.runtime.executors.cycle_collector import COLLECT
from atops.runtime.executors.executor import HERE, Lane, LaterStep, Step
from atops.runtime.executors.inline import ENDLESS, InlineExecutor
from atops.runtime.executors.inline_loop import InlineLoop
from atops.runtime.executors.standing import OtherThreads, no_way_on, told_waits
from atops.runtime.schedules.names import CALLBACK, ENGINE, STEP, TIMER, Names

__all__ = ("ChosenLoop", "ReadySteps", "ScheduledExecutor", "ScheduledTask")

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

KERNELS = frozenset((THREAD, TRANSFER, "block"))
ENGINES = frozenset(("copy", "copy half"))
OWN = frozenset(OWN_CALLBACKS)
MORE_STEPS = 100_000  # for closing what is left after the limit


class ScheduledExecutor(InlineExecutor):
    """Run everything as steps of an agenda. `log` has what was chosen, until the program was over."""

    def __init__(
        self,
        chooser: Chooser,
        clock: VirtualClock | None = None,
        limit: int = MOST_STEPS,
        program: Callable[[], bytes] = bytes,
    ) -> None:
        """Make one; `program` is asked what it runs, for the string of its schedule."""
        self.program = program
        self.departure: str | None = None  # where a replay was another run
        self._over = False
        self.agenda: Agenda = Agenda(chooser, limit)
        self.agenda.hand_back = frozenset((asyncio.Handle, asyncio.TimerHandle, _NamedTimerHandle))
        self.agenda.other = self._other
        self.agenda.standing = self._standing
        self.log: ChoiceLog = self.agenda.log
        self._first = len(self.log.taken)  # of this run: a chooser may have had others before
        self.names = Names(self.agenda)
        self.refusal: BaseException | None = None  # ends the run, as soon as a step is to be chosen
        self.gave_up: BaseException | None = None  # what has ended it, also where the program took no notice of that
        self._others = 0  # steps that were no kernel's
        super().__init__(None, clock)
        self.threads = OtherThreads(threading.active_count())
        self.sees_rest = True

    def said(self) -> Callable[[], str]:
        """Return what returns the string of what was chosen until now, or until the program was over."""
        taken = self.log.taken
        return partial(_string, taken, self._first, len(taken), self.program, self._over)

    def program_over(self) -> None:
        """Note that the program is over: what is left is closing, first come, first served, and no part of the run."""
        if self._over:
            return
        self.gave_up, self.refusal = self.refusal, None
        ended = getattr(self.log.chooser, "ended", None)
        if ended is not None:
            self.departure = ended()
        self._choose_no_more()

    loop: ChosenLoop

    def make_loop(self) -> ChosenLoop:
        """Return the loop that runs the steps."""
        return ChosenLoop(self)

    def has_steps(self) -> bool:
        """Say whether the driver has something to do."""
        agenda, theirs = self.agenda, self.agenda.hand_back
        for name, step in zip(agenda.names, agenda.steps, strict=True):  # `any` takes twice as long
            if step.__class__ not in theirs and name[0] != TIME:
                return True
        return False

    def offer(self, step: Step, priority: int) -> None:
        """Have a step ready. Urgency decides nothing here: it promises no order."""
        self._add(STEP, step)

    def run(self, lane: Lane, work: Step, priority: int = 0) -> None:
        """Have the work ready."""
        self._add(ENGINE if lane in ENGINES else CALLBACK, work)

    def go_on(self, lane: Lane, work: Step, priority: int = 0, ahead: int = 0) -> None:
        """Have the kernel's next turn ready."""
        self._add(STEP, work)

    def _add(self, kind: str, step: Step) -> None:
        if self._closed:
            return
        super().check_caller()
        name = self.names.of_step(step, kind)
        if self.touches is not None:
            self.touches.added(name, step)
        self.agenda.add(name, step)

    def later(self, delay: int, step: Step) -> LaterStep:
        """Have a step ready at a time. Under the wall clock it runs then: when that is, is chance and no choice."""
        if self.clock is None:
            return super().later(delay, step)
        super().check_caller()
        timer = _NamedStep(step, self.names.of_step(step, TIMER), self)
        heapq.heappush(self._timers, (self.now() + delay, next(self._serial), timer))
        return timer

    def spend(self, duration: int, step: Step, priority: int = 0) -> LaterStep:
        """Have a step ready at a time. Until then it is one of the choices that time goes on, though others are ready.

        Urgency decides nothing here.
        """
        if self.clock is None:
            return super().spend(duration, step, priority)
        name = self.names.anonymous(TIMER)
        end = self.spending(duration, partial(self._spent, name, step))
        if (footprint := self.agenda.footprint) is not None:
            footprint.pending[name] = partial(getattr, end, "live")
        if PASSING not in self.agenda.names:
            self.agenda.add(PASSING, self._let_time_go_on)
        return end

    def _spent(self, name: Name, step: Step) -> None:
        """Have a step ready whose time is over."""
        if (footprint := self.agenda.footprint) is not None:
            footprint.pending.pop(name, None)
        self.agenda.add(name, step)

    def sees_order(self, what: str) -> None:
        """Note that steps of streams and engines may depend on each other by what is not told."""
        if (footprint := self.agenda.footprint) is not None:
            footprint.refuse(what)

    def _let_time_go_on(self) -> None:
        """Move the time to the next timer, the driver's or the loop's, as if all that is ready had been slow."""
        times = [due for due, _, timer in self._timers if timer.live]
        if (footprint := self.agenda.footprint) is not None:
            footprint.begin(PASSING)
            footprint.write(RUNTIME)
        if not times or self.clock is None:
            return  # what takes time was cancelled, or has come and waits for its turn
        if (own := self.loop.next_timer()) is not None:
            times.append(own)
        self.clock.advance_to(max(min(times), self.clock.now()))
        self.run_timers()
        self.loop.look()
        if self._timers and self._spending:
            self.agenda.add(PASSING, self._let_time_go_on)

    def number_launch(self, stream: Name) -> str:
        """Return what the next launch of a stream is called."""
        return self.names.launch(stream)

    @property
    def kernels_only(self) -> bool:
        """Whether nothing but kernels has gone on for so long that a virtual clock must move."""
        return self._endless > 20 * ENDLESS

    @property
    def held_up_for_ever(self) -> bool:
        """Whether only kernels have gone on for that long, and nothing else could come next: the program waits."""
        return self.kernels_only and all(name[0] in KERNELS for name in self.agenda.names)

    def close(self) -> None:
        """Drop what is queued. Idempotent."""
        super().close()
        agenda = self.agenda
        agenda.drop_all([(str(name[0]),) for name in agenda.names if name[0] in KERNELS or name[0] in (STEP, STREAM)])

    def next_handle(self, urgent: deque[Any]) -> Any:
        """Run steps until one of the loop's is chosen, and return that; None if none is, or something is urgent."""
        if self.refusal is not None:
            self._give_up()
        self.questions = {}
        role, HERE.role = HERE.role, "executor"
        made, others = self.agenda.made, self._others
        try:
            handle = self.agenda.run_some(urgent)
        except StepLimit as error:
            self.refusal = error
            self._give_up()
        finally:
            HERE.role = role
        if handle is not None or others != self._others:
            self._endless = 0
        else:
            self._endless += self.agenda.made - made
        return handle

    def _standing(self, going: Container[Name]) -> str:
        """Say where the tasks wait that are not among what goes on."""
        return "; ".join(told_waits(task for task, name in self.known_tasks() if name not in going))

    def known_tasks(self) -> Iterable[tuple[object, Name]]:
        """Return the tasks of the run that are not over and have begun, and what their steps are called."""
        tasks = self.names.tasks
        return [(task, tasks[task]) for task in asyncio.all_tasks(self.loop) if task in tasks]

    def _give_up(self) -> None:
        """Raise what ends the run; what is left is then closed, first come, first served."""
        error, self.refusal = self.refusal, None
        assert error is not None
        if not self._over:
            self.gave_up = error
        self._choose_no_more()
        raise error

    def _choose_no_more(self) -> None:
        self._over = True
        if self.touches is not None:
            self.touches.task_over()
            self.touches = None
        agenda = self.agenda
        agenda.chooser, agenda.limit = Plain(), agenda.made + MORE_STEPS
        agenda.log = ChoiceLog(agenda.chooser)

    def _other(self, step: Step) -> None:
        """Run a step that is no kernel thread's."""
        if self.agenda.current[0] not in KERNELS:
            self._others += 1
            if self.touches is not None:
                self.touches.begin(step)
        HERE.role = None
        try:
            step()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.loop.call_exception_handler({"message": f"{step!r} failed", "exception": error})
        finally:
            HERE.role = "executor"

    def _run_one(self) -> bool:
        """Run a step for a program that blocks: one of the driver's, for its own tasks cannot go on."""
        if self.refusal is not None:
            self._give_up()
        agenda, loops = self.agenda, self.agenda.hand_back
        self.sees_order("a wait that blocks")
        try:
            step = agenda.take_of(lambda step: step.__class__ not in loops)
        except StepLimit as error:
            self.refusal = error
            self._give_up()
        if step is None:
            return False
        self.questions = {}
        kernel = agenda.current[0] in KERNELS
        role = HERE.role
        HERE.role = "executor" if kernel else role
        try:
            step()
        finally:
            HERE.role = role
        self._endless = self._endless + 1 if kernel else 0
        return True

    def polled_in_vain(self) -> None:
        """Count a step: whatever the program goes on by, it has so many. Raises StepLimit."""
        agenda = self.agenda
        agenda.made += 1
        if agenda.made >= agenda.limit:
            self.refusal = StepLimit(
                f"{agenda.made} steps were made and the run is not over: the program asks again and again whether "
                "something is over, and nothing is left to run that could end it"
            )
            self._give_up()

    def at_rest(self) -> None:
        """Raise WouldDeadlock out of the run: other threads are refused, so nothing will ever go on."""
        if not (tasks := asyncio.all_tasks(self.loop)) or (self._over and not self.ending):
            return
        self.program_over()
        self.tell_standing(tasks)
        raise WouldDeadlock(no_way_on(tasks))

    def check_caller(self) -> None:
        """As inline; the run ends by it, too, whatever becomes of the exception in that thread."""
        try:
            super().check_caller()
        except IllegalState as error:
            if not self._over:
                self.refusal = IllegalState(str(error))
            raise

    def refuse_thread(self, name: str) -> IllegalState:
        """End the run because another thread uses its loop, and return the error for that thread, too."""
        text = (
            f"thread {name!r} used the loop of a run under a schedule; the system chooses when it does, which no "
            "schedule can repeat: leave the schedule out, or the thread"
        )
        self.refusal = IllegalState(text)
        return IllegalState(text)


def _string(
    taken: list[tuple[Name, int, int]], start: int, stop: int, program: Callable[[], bytes], whole: bool
) -> str:  # fmt: skip
    return schedule_string(starmap(Choice, islice(taken, start, stop)), program(), whole)


class _NamedStep(LaterStep):
    """A step for a time, which is then one of what could come next."""

    __slots__ = ("_executor", "_name")

    def __init__(self, step: Step, name: Name, executor: ScheduledExecutor) -> None:
        super().__init__(step)
        self._name = name
        self._executor = executor

    def fire(self) -> None:
        """Have the step ready, unless it was cancelled."""
        if self.live:
            if self._executor.agenda.names:
                self._executor.sees_order("a timer")
            self._executor.agenda.add(self._name, super().fire)


class _NamedTimerHandle(asyncio.TimerHandle):
    """A timer of the loop's that knows its name."""

    __slots__ = ("name",)

    name: Name


class ChosenLoop(InlineLoop):
    """An asyncio loop whose next step a schedule chooses."""

    chooses = True  # for the adapter: a wake-up makes the task's next step one of what could come next
    _executor: ScheduledExecutor

    def __init__(self, executor: ScheduledExecutor) -> None:
        super().__init__(executor)
        self._owner = threading.get_ident()
        self._ready = ReadySteps(executor, self)
        self._tasks = 0
        self.set_task_factory(ChosenLoop._numbered)  # type: ignore[arg-type]  # of this loop

    def _numbered(self, coroutine: Coroutine[object, None, T], context: Context | None = None) -> asyncio.Task[T]:
        self._tasks += 1
        return ScheduledTask(coroutine, self, self._tasks, context)

    def look(self) -> None:
        """Have the loop look at its timers and files before anything else, if there are any."""
        if self._scheduled or self.watches:
            self._ready.look()

    def has_left(self) -> bool:
        """Say whether tasks are left, or asynchronous generators, that are to be ended."""
        generators = self._asyncgens  # type: ignore[attr-defined]  # those of BaseEventLoop
        return bool(len(generators) or self.left_tasks())

    def left_tasks(self) -> set[asyncio.Task[Any]]:
        """Return the tasks that are not over."""
        if self.get_task_factory() is not ChosenLoop._numbered:
            return super().left_tasks()  # what the program's own makes may have begun without a step here
        return {task for task in list(self._executor.names.tasks) if not task.done()}

    def only(self, call: Callable[[], object]) -> bool:
        """Say whether only kernels could come next."""
        return self._executor.held_up_for_ever

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's loops; the timer is named after what sets it."""
        self._check_closed()  # type: ignore[attr-defined]  # as BaseEventLoop does
        self._executor.sees_order("a timer of the program's")
        timer = _NamedTimerHandle(when, callback, args, self, context)
        timer.name = self._executor.names.anonymous(TIMER)
        heapq.heappush(self._scheduled, timer)  # as BaseEventLoop does
        timer._scheduled = True  # type: ignore[attr-defined]  # which it notes
        return timer

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's loops, for signal handlers. Raises IllegalState in another thread, and ends the run."""
        if threading.get_ident() != self._owner:
            refusal = self._executor.refuse_thread(threading.current_thread().name)
            self._write_to_self()  # type: ignore[attr-defined]  # it may wait for files and timers
            raise refusal
        self._ready.no_choice = True
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        finally:
            self._ready.no_choice = False

    def run_in_executor(self, executor: object, func: Callable[[*Ts], T], *args: *Ts) -> Future[T]:
        """Raise NotSupported: when a thread ends is the system's choice."""
        raise NotSupported(
            f"{func!r} was to run in a thread of its own; under a schedule everything that comes next is chosen, and "
            "when a thread goes on is chosen by the system: call it, or leave the schedule out"
        )


class ScheduledTask(asyncio.Task[T]):
    """A task whose place in a set is the same in every process, such as the set that a TaskGroup cancels."""

    def __init__(
        self, coroutine: Coroutine[object, None, T], loop: ChosenLoop, number: int, context: Context | None
    ) -> None:
        self._number = number  # first: asyncio enters the task in a set of its own at once
        super().__init__(coroutine, loop=loop, context=context)

    def __hash__(self) -> int:
        return self._number


ScheduledTask.__name__ = asyncio.Task.__name__  # for what asyncio says of tasks, in their repr and in its log


class ReadySteps:
    """What BaseEventLoop has for the handles that are ready: they go onto the agenda, and one comes from there."""

    def __init__(self, executor: ScheduledExecutor, loop: asyncio.AbstractEventLoop) -> None:
        self._executor = executor
        self._agenda, self._names = executor.agenda, executor.names
        self._urgent: deque[asyncio.Handle] = deque()
        self._callbacks: deque[tuple[Name, asyncio.Handle]] = deque()  # the first of which is on the agenda
        self._left = COLLECT
        self._idle = asyncio.Handle(bool, (), loop)
        self.no_choice = False  # whether what is added now is none

    def append(self, handle: asyncio.Handle) -> None:
        """Have a handle ready."""
        callback: Any = handle._callback  # type: ignore[attr-defined]  # as asyncio's own reports
        if self.no_choice or getattr(callback, "__func__", None) in OWN or _wakes_loop(callback):
            self._urgent.append(handle)
        elif handle.__class__ is _NamedTimerHandle:
            self._agenda.add(handle.name, handle)  # type: ignore[arg-type]  # it is handed back, not called
        elif (name := self._names.of_task(callback)) is not None:
            self._agenda.add(name, handle)  # type: ignore[arg-type]  # as above
        else:
            if (footprint := self._agenda.footprint) is not None:
                footprint.write("callbacks")  # they are in order
            self._callbacks.append((self._names.anonymous(CALLBACK), handle))
            if len(self._callbacks) == 1:
                self._offer_callback()

    def popleft(self) -> Any:
        """Return the handle that comes next, once what comes before it has run. After so many the collector runs."""
        if (touches := self._executor.touches) is not None:
            touches.task_over()
        self._left -= 1
        if self._left <= 0:
            self._left = COLLECT
            self._executor.collect()
        urgent = self._urgent
        handle: Any
        while urgent or (handle := self._executor.next_handle(urgent)) is None:
            handle = urgent.popleft() if urgent else self._idle
            if getattr(handle._callback, "__func__", None) not in OWN:
                return handle
            handle._run()  # here, for a turn of the loop takes longer
        if touches is not None and self._agenda.current[0] in (TASK, CALLBACK):
            touches.task_begins()
        if self._callbacks and handle is self._callbacks[0][1]:
            self._callbacks.popleft()
            if self._callbacks:
                self._offer_callback()
        return handle

    def _offer_callback(self) -> None:
        """Have the oldest callback ready: asyncio promises their order, which it does not of tasks."""
        self._agenda.add(*self._callbacks[0])  # type: ignore[arg-type]  # a handle is handed back, not called

    def look(self) -> None:
        """Have the loop look at its timers and files before anything else."""
        self._urgent.append(self._idle)

    def clear(self) -> None:
        """Drop the loop's own."""
        self._urgent.clear()

    def __len__(self) -> int:
        return len(self._urgent) + len(self._agenda.names) + (self._executor.refusal is not None)

    def __iter__(self) -> Any:
        return iter(self._urgent)


def _wakes_loop(callback: object) -> bool:
    """Whether this reads what another thread, or a signal handler, has written to wake the loop."""
    return getattr(callback, "__name__", "") == "_read_from_self"
