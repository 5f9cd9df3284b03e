"""One run of a program under a chooser: inline, on the virtual clock, with a board of its own."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import replace
from typing import Any

from atops.base.agenda import Agenda
from atops.base.choice import Chooser, Name, Plain
from atops.base.errors import AtopsError, KernelDeadlock, MissingAwait, PriorLaunchFailure, StepLimit, WouldDeadlock
from atops.base.log_fields import message_of
from atops.base.options import EmulatorOptions
from atops.base.schedule_string import Recorded, read_schedule
from atops.base.trace.tracer import Tracer
from atops.checking.actors import place_of, raised_at
from atops.checking.command_touches import CommandTouches
from atops.checking.search import Ended, Failure
from atops.checking.strategies.strategy import Recorder
from atops.device.chip import keeping_clusters
from atops.device.memory.allocation import numbered_from_one
from atops.device.memory.arena import keeping_arenas
from atops.device.races.race import Race
from atops.kernels.vectors.counting import counting
from atops.runtime.board.current_device import DEFAULT, enter, leave
from atops.runtime.driver import Driver, board_of
from atops.runtime.driver_board import Board
from atops.runtime.executors.cycle_collector import OLDER, collect, collecting_by_steps, setting_aside
from atops.runtime.executors.ending import EndingTasks
from atops.runtime.executors.inline_loop import keeping_selectors
from atops.runtime.interrupts import Interrupts
from atops.runtime.run import INSTEAD, drive, run_in_trio
from atops.runtime.schedules.choosing import ChosenLoop, ScheduledExecutor
from atops.runtime.schedules.fingerprint import check_fingerprint
from atops.runtime.schedules.host import Backend, inline_executor, need_trio

__all__ = ("Program", "Quiet", "Runner", "Watching", "classified", "failure_by")

Program = Callable[..., Any]

# Runs after which the collector passes over all that there is, but for what the first such pass leaves: else over what
# is of the last run.
COLLECT_ALL = 2000


class Runner:
    """Runs `program(*arguments)` under one chooser after another, inside its `with` block.

    Each run has a board and a loop of its own, and what it leaves is collected before the next one.
    """

    def __init__(
        self, program: Program, arguments: tuple[object, ...], options: EmulatorOptions, steps: int,
        backend: Backend = "asyncio",
    ) -> None:  # fmt: skip
        """Raises NotSupported for the backend "trio" where trio is missing."""
        if backend == "trio":
            need_trio()
        self.program, self.arguments, self.backend = program, arguments, backend
        self.options = replace(options, clock="virtual", steps=steps, schedule=Plain())  # any: each run has its own
        self.races: tuple[Race, ...] = ()  # that the detectors have reported in the latest run
        self.escapes: dict[str, None] = {}  # what the detectors have not seen, in all runs
        self.unseen: Exception | None = None  # a failure in that run that the program never looked at
        self.plain = not asyncio.iscoroutinefunction(program)
        self.string: Callable[[], str] = str  # returns the schedule of the latest run
        self.runs = 0
        self.driver: Driver | None = None  # of the run that goes on
        self._held = ExitStack()
        self._quiet = Quiet()

    def __enter__(self) -> Runner:
        """Take what all runs need: it would be put up and taken down again for each."""
        kept = keeping_clusters(), keeping_arenas(), keeping_selectors()
        for each in (self._quiet, collecting_by_steps(), counting(True), *kept):
            self._held.enter_context(each)
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def __call__(self, chooser: Chooser) -> Ended:
        """Run once. What the program raises is how it failed; Ctrl-C comes out."""
        self.chooser = chooser
        try:
            with numbered_from_one():
                return self._once(self.options, self._executor(self.options, self.program, self.backend))
        finally:
            self.string = self.executor.said()
            del self.executor, self.chooser  # nothing here holds the run any more: the collector finds all of it
            self.driver = None
            self.runs += 1
            collect(2 if self.runs % COLLECT_ALL == 0 else OLDER)
            if self.runs == COLLECT_ALL:
                self._held.enter_context(setting_aside())

    def _once(self, options: EmulatorOptions, executor: ScheduledExecutor) -> Ended:
        self.races, self.unseen = (), None
        ended = Ended()
        self._quiet.more()
        try:
            if self.plain:
                ended = Ended(self._plain(options, executor))
            else:
                ended = Ended(self._run(self.program, self.arguments, options, executor, self.backend))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            ended = Ended(failure=classified(error))
        if (gave_up := executor.gave_up) is not None:  # also where the program has caught it, or has failed by it
            ended = Ended(failure=classified(gave_up))
        failed = ended.failure
        if self.races and (failed is None or _comes_of_races(failed)):
            return Ended(failure=failure_by(self.races, None if failed is None else failed.error))
        if failed is None and self.unseen is not None:
            return Ended(failure=classified(self.unseen))
        return ended

    def _executor(self, options: EmulatorOptions, main: Program, backend: Backend) -> ScheduledExecutor:
        """Return the host of one run, which ends where nothing can go on."""
        executor = inline_executor(options, main, backend, self.chooser)
        assert isinstance(executor, ScheduledExecutor)
        if backend == "asyncio":
            executor.loop.set_exception_handler(self._note_callback)
        if isinstance(self.chooser, Recorder):
            self._tell(self.chooser, executor, backend)
        if isinstance(self.chooser, Watching):
            self.chooser.agenda = executor.agenda
        self.executor = executor
        return executor

    @staticmethod
    def _tell(chooser: Recorder, executor: ScheduledExecutor, backend: Backend) -> None:
        """Have the run tell its chooser what its steps touch, as far as that is told."""
        if (footprint := chooser.footprint) is not None and footprint.commands:
            if backend == "asyncio":
                executor.touches = CommandTouches(footprint, executor.agenda)
            else:
                footprint.commands = False

    def recorded(self, schedule: str) -> Recorded:
        """Return a schedule string, read. Raises InvalidValue where it is not one of this program and these options."""
        recorded = read_schedule(schedule)
        check_fingerprint(recorded, self.program, replace(self.options, schedule=None), self.backend)
        return recorded

    def _run(
        self, main: Program, arguments: tuple[object, ...], options: EmulatorOptions, executor: ScheduledExecutor,
        backend: Backend,
    ) -> object:  # fmt: skip
        """Run a coroutine function, as `atops.run` does."""
        results: list[object] = []
        if backend == "trio":
            driver = self._began(Driver(options, executor=executor))
            try:
                run_in_trio(main, arguments, driver, results)
            finally:
                self._note_races(driver)
            return results.pop()
        loop, context = executor.loop, copy_context()
        with Interrupts() as interrupts, _closing(loop):
            driver = self._began(Driver(options, executor=executor))
            enter(driver, board_of(driver))
            program = drive(main, arguments, driver, results, interrupts)
            try:
                with EndingTasks(executor, driver.aclose):
                    loop.run_until_complete(loop.create_task(interrupts.watch(program, executor), context=context))
            finally:
                leave(driver)
                self._note_races(driver)
        return results.pop()

    def _plain(self, options: EmulatorOptions, executor: ScheduledExecutor) -> object:
        """Run a plain function: its blocking calls run the steps. What it returns is awaited if it can be.

        Where it calls `asyncio.run`, the steps run there, and where `atops.run`, under the same chooser.
        """
        before, asyncio_run, thread = DEFAULT[:], asyncio.run, threading.get_ident()
        with asyncio.Runner(loop_factory=lambda: executor.loop) as runner, EndingTasks(executor):

            def run_here(main: Any, **how: Any) -> Any:
                return runner.run(main) if threading.get_ident() == thread else asyncio_run(main, **how)

            driver = self._began(Driver(options, executor=executor))
            board = board_of(driver)
            DEFAULT[:] = [board]
            enter(driver, board)
            asyncio.run = run_here
            INSTEAD[thread] = self._nested
            try:
                result = self.program(*self.arguments)
                return runner.run(_awaited(result)) if inspect.isawaitable(result) else result
            finally:
                del INSTEAD[thread]
                asyncio.run = asyncio_run
                executor.program_over()
                leave(driver)
                DEFAULT[:] = before
                runner.run(driver.aclose())
                self._note_races(driver)

    def _began(self, driver: Driver) -> Driver:
        """Note the driver of the run, and tell a chooser that looks at the run which board it has."""
        self.driver = driver
        if isinstance(self.chooser, Watching):
            self.chooser.begun(board_of(driver))
        return driver

    def _note_callback(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep what a callback of the run's loop has raised, or a task whose exception nothing retrieves.

        Not what the driver's close fails, such as a wait for a stream. What of an earlier run is collected only now is
        that one's.
        """
        running, error = getattr(self, "executor", None), context.get("exception")  # None: the run is over
        if running is None or loop is not running.loop or not isinstance(error, Exception):
            return
        closing = self.driver is not None and self.driver.closed is not None
        if not (closing and isinstance(error, AtopsError)):
            self.unseen = self.unseen or error

    def _note_races(self, driver: Driver) -> None:
        """Keep what the detectors have said of a run, where they were on, and a failure that was never looked at."""
        board = board_of(driver)
        self.unseen = self.unseen or board.unseen
        if board.detector is not None:
            self.escapes.update(dict.fromkeys(board.detector.findings.escapes))
            found = board.detector.findings.races
            self.races += tuple(race for race in found if race.among != "threads")  # which a failed launch tells

    def _nested(
        self, main: Program, options: EmulatorOptions, arguments: tuple[object, ...], backend: Backend
    ) -> object:
        """Run what a plain program gives to `atops.run`, under this run's chooser."""
        options = replace(options, clock="virtual", schedule=self.options.schedule, steps=self.options.steps)
        executor = self._executor(options, main, backend)
        return self._run(main, arguments, options, executor, backend)


class Quiet:
    """Keeps what the runtime logs in this thread out of the log: hundreds of runs would say the same.

    `names` is how the names of these loggers begin.
    """

    def __init__(self, names: str = "atops.") -> None:
        self._names = names
        self._thread = 0
        self._loggers: list[logging.Logger] = []
        self._known = 0  # loggers that there were when it last looked for new ones

    def __enter__(self) -> Quiet:
        self._thread = threading.get_ident()
        self.more()
        return self

    def more(self) -> None:
        """Keep out what loggers say that were not there before."""
        loggers = logging.root.manager.loggerDict
        if len(loggers) == self._known:
            return
        self._known = len(loggers)
        for logger in [logging.getLogger(name) for name in list(loggers) if name.startswith(self._names)]:
            if logger not in self._loggers:
                logger.addFilter(self.elsewhere)
                self._loggers.append(logger)

    def elsewhere(self, record: logging.LogRecord) -> bool:
        """Whether a record is of another thread."""
        return record.thread != self._thread

    def __exit__(self, *error: object) -> None:
        for logger in self._loggers:
            logger.removeFilter(self.elsewhere)
        self._loggers.clear()
        self._known = 0


@contextmanager
def _closing(loop: ChosenLoop) -> Iterator[None]:
    """Close a loop in the end as `asyncio.Runner` does, which takes three more runs of it: where something is left."""
    try:
        yield
    finally:
        if loop.has_left():
            with asyncio.Runner(loop_factory=lambda: loop) as rest:
                rest.get_loop()
        else:
            loop.close()


async def _awaited(value: Any) -> object:
    return await value


class Watching:
    """A chooser that asks another one, and notes where in the program each choice stood and what it came before."""

    def __init__(self, chooser: Chooser) -> None:
        self.chooser = chooser
        self.agenda: Agenda | None = None  # of the run, once it has begun
        self.tracer: Tracer | None = None
        self.names: list[Name] = []
        self.places: list[str] = []
        self.all_places: list[dict[Name, str]] = []  # of all that could come

    def begun(self, board: Board) -> None:
        """Take the board of the run."""
        self.tracer = board.tracer

    def streams(self) -> dict[Name, str]:
        """Return what the program calls its streams, those that it has given a name."""
        labels = {} if self.tracer is None else self.tracer.names().streams
        return {("stream", *which): label for which, label in sorted(labels.items()) if label}

    def choose(self, kind: str, names: Sequence[Name]) -> int:
        """Return what the other one chooses."""
        index = self.chooser.choose(kind, names)
        here = {name: self._place(name) for name in names}
        self.names.append(names[index])
        self.places.append(here[names[index]])
        self.all_places.append(here)
        return index

    def _place(self, name: Name) -> str:
        agenda = self.agenda
        if agenda is None or name not in agenda.names:
            return ""
        return place_of(agenda.steps[agenda.names.index(name)])


def classified(error: BaseException) -> Failure:
    """Return what kind of failure an exception is, and its first line with the place in the program."""
    inner = [each for each in _causes(error) if not _is_of_a_failure(each)]
    kind = "exception"
    if any(isinstance(each, StepLimit) for each in inner):
        kind = "step limit"
    elif any(isinstance(each, KernelDeadlock | WouldDeadlock) for each in inner):
        kind = "deadlock"
    elif any(type(each).__name__ == "DataRace" for each in inner):
        kind = "race"
    elif any(isinstance(each, AssertionError) for each in inner):
        kind = "assertion"
    first = error
    while True:
        if isinstance(first, BaseExceptionGroup):  # whose own text counts its exceptions
            first = first.exceptions[0]
        elif isinstance(first, PriorLaunchFailure | WouldDeadlock) and first.__cause__ is not None:
            first = first.__cause__  # why a command was skipped
        else:
            break
    said = message_of(first).strip().splitlines()
    text = f"{type(first).__name__}: {said[0]}" if said else type(first).__name__
    place = next((place for each in reversed(inner) if (place := raised_at(each))), "")
    places: tuple[str, ...] = (place,) if place and kind in ("assertion", "exception") else ()
    if kind == "step limit":  # what else stands is what tells two such runs apart
        places = tuple({each.standing: None for each in inner if isinstance(each, StepLimit) and each.standing})
    return Failure(kind, f"{text} ({place})" if place and place not in text else text, error, places)


def _is_of_a_failure(error: BaseException) -> bool:
    """Whether a wait cannot end because a stream failed before, and skipped what would have ended it."""
    return isinstance(error, WouldDeadlock) and error.__cause__ is not None


def _comes_of_races(failure: Failure) -> bool:
    """Tell whether a failure comes of the races of its run, as a rule: not where a missing `await` is behind both."""
    if failure.kind not in ("assertion", "exception"):
        return False
    return not any(isinstance(each, MissingAwait) for each in _causes(failure.error))


def failure_by(races: Sequence[Race], error: BaseException | None) -> Failure:
    """Return the failure of a run with these races, told by the first; `error` is what the program raised."""
    told = str(races[0]).partition("\n")[0]
    return Failure("race", told, error, tuple(race.identity for race in races))


def _causes(error: BaseException | None) -> Sequence[BaseException]:
    """Return an error, those inside it if it is a group, and what they come from."""
    found: list[BaseException] = []
    left = [error]
    while left:
        each = left.pop(0)
        if each is None or each in found:
            continue
        found.append(each)
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions
        left.append(each.__cause__)
    return found
