"""Running a whole program inline: driver, kernels, callbacks and tasks as steps of one loop in one thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar, TypeVarTuple, cast, get_args

from atops.base.errors import InvalidType, InvalidValue
from atops.base.options import EmulatorOptions
from atops.base.waiting.current_loop import running_loop_adapter
from atops.kernels.vectors.counting import counting
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from atops.runtime.executors.cycle_collector import collecting_by_steps
from atops.runtime.executors.ending import EndingTasks
from atops.runtime.executors.inline import InlineExecutor
from atops.runtime.interrupts import Interrupts
from atops.runtime.schedules.choosing import ScheduledExecutor
from atops.runtime.schedules.fingerprint import as_recorded
from atops.runtime.schedules.host import Backend, inline_executor, need_trio

__all__ = ("INSTEAD", "drive", "run", "run_in_trio")

T = TypeVar("T")
MOST_NOTED = 4000  # characters of a schedule that an error's note shows
Arguments = TypeVarTuple("Arguments")
# By thread: what runs a program in there instead, for it is checked under many schedules.
INSTEAD: dict[int, Callable[[Callable[..., Any], EmulatorOptions, tuple[object, ...], Backend], Any]] = {}


def run(
    main: Callable[[*Arguments], Coroutine[object, None, T]],
    options: EmulatorOptions | None = None,
    *arguments: *Arguments,
    backend: Backend = "asyncio",
) -> T:
    """Run `main(*arguments)` with a driver of its own, inline, and return its result.

    The same program with the same `options.seed` takes the same steps in the same order and leaves the same trace. With
    `options.clock="virtual"` time advances only when no step is ready. Python's cycle collector runs after fixed
    numbers of steps, unless the program changes its settings. The driver is current inside `main`, and closed then.

    Ctrl-C cancels the program, as with `asyncio.run`, and raises KeyboardInterrupt in a kernel, a host call or a
    blocking wait that is running: it might never give the thread back. The second one ends the run between two steps,
    or in the program's code that holds the thread. KeyboardInterrupt comes out, unless the program catches its
    cancellation and returns. Where a failure ends the run that is what a signal handler of the program's own has raised
    in a kernel or a host call, that exception comes out.

    With `backend="trio"` a trio run takes the place of asyncio's loop. Under a schedule it is inline, and with the
    virtual clock, which has the plain schedule there unless told; Ctrl-C is trio's affair. Else this is `trio.run` with
    a driver of its own, whose threads make progress as they do in any program.

    Under `options.schedule` all that could come next is one choice by name: see docs/races.md. What ends such a run
    has a note with its schedule as a string.

    Raises InvalidType when `main` is no coroutine function, RuntimeError inside a running loop, InvalidValue for
    options that need threads, a schedule of another program or other options, and a run that departs from its schedule.
    Under a schedule, StepLimit after `options.steps` steps, and IllegalState where a thread of the program's own uses
    the loop. NotSupported for `backend="trio"` where trio is missing, or has changed too much for a schedule.
    """
    options = _looked_at(main, options, backend)
    instead = INSTEAD.get(threading.get_ident())
    if backend == "trio" and options.schedule is None and options.clock != "virtual" and instead is None:
        return _trio_run(main, options, arguments)
    if options.workers != 1:
        raise InvalidValue(
            f"workers is {options.workers!r}; an inline run has one thread: workers=1 in its EmulatorOptions, or in "
            "ATOPS_WORKERS"
        )
    options = as_recorded(options, main, backend)
    if instead is not None:
        return cast(T, instead(main, options, arguments, backend))
    if backend == "trio":
        return _scheduled_trio_run(main, options, arguments)
    results: list[T] = []
    with Interrupts() as interrupts, collecting_by_steps(), counting(options.clock == "virtual"):
        executor = inline_executor(options, main)
        with asyncio.Runner(loop_factory=lambda: executor.loop) as runner:
            driver = Driver(options, executor=executor)
            _enter(driver)
            # Not the task's own result: asyncio formats the finished task, and with it perhaps millions of numbers.
            program = drive(main, arguments, driver, results, interrupts)
            try:
                with EndingTasks(executor, driver.aclose):
                    runner.run(interrupts.watch(program, executor))
            except BaseException as error:
                if isinstance(executor, ScheduledExecutor):
                    _note(error, executor)
                raise
            finally:
                leave(driver)
    if isinstance(executor, ScheduledExecutor):
        _check_end(executor)
    return results.pop()


def _enter(driver: Driver) -> None:
    """Make a driver current, and have its detector, if it has one, told of tasks that nothing can let go on."""
    board = board_of(driver)
    enter(driver, board)
    if board.detector is not None and isinstance(board.executor, InlineExecutor):
        board.executor.deadlocked = board.detector.tasks_stand
        board.executor.sees_rest = True


def _looked_at(main: object, options: EmulatorOptions | None, backend: str) -> EmulatorOptions:
    """Return the options of a run. Raises what it raises for arguments."""
    if backend not in get_args(Backend):
        raise InvalidValue(f"backend is {backend!r}; expected one of {', '.join(map(repr, get_args(Backend)))}")
    if not asyncio.iscoroutinefunction(main):
        raise InvalidType(f"run of {main!r}; expected a coroutine function: async def main(): ...")
    if running_loop_adapter() is not None:
        raise RuntimeError(
            f"run of {main!r} inside a running loop; an inline run makes a loop of its own, so give it a thread too: "
            "await asyncio.to_thread(atops.run, main, options)"
        )
    options = EmulatorOptions.from_environment() if options is None else options
    if not isinstance(options, EmulatorOptions):
        raise InvalidType(f"the options of run are {options!r}; expected EmulatorOptions, or None before arguments")
    return options


def _trio_run(
    main: Callable[..., Coroutine[object, None, T]], options: EmulatorOptions, arguments: tuple[object, ...]
) -> T:
    """Run a program by `trio.run`, with a driver that has threads of its own."""
    trio, results = need_trio(), list[T]()

    async def program() -> None:
        async with Driver(options):
            results.append(await main(*arguments))

    trio.run(program)
    return results.pop()


def _scheduled_trio_run(
    main: Callable[..., Coroutine[object, None, T]], options: EmulatorOptions, arguments: tuple[object, ...]
) -> T:
    """Run a program inline in a trio run, everything of it by a schedule."""
    options = replace(options, schedule=options.schedule or "plain")
    results: list[T] = []
    with collecting_by_steps(), counting(options.clock == "virtual"):
        executor = inline_executor(options, main, "trio")
        assert isinstance(executor, ScheduledExecutor)
        try:
            run_in_trio(main, arguments, Driver(options, executor=executor), results)
        except BaseException as error:
            _note(error, executor)
            raise
    _check_end(executor)
    return results.pop()


def run_in_trio(
    main: Callable[..., Coroutine[object, None, T]], arguments: tuple[object, ...], driver: Driver, results: list[T]
) -> None:
    """Run a program inside its driver's scope, in the trio run of the driver's executor."""
    _enter(driver)
    try:
        executor: Any = board_of(driver).executor
        executor.run_program(lambda: drive(main, arguments, driver, results))
    finally:
        leave(driver)


def _check_end(executor: ScheduledExecutor) -> None:
    """Raise what has ended a run whose program took no notice of it, and where a run departs from its schedule."""
    if executor.gave_up is not None:
        raise executor.gave_up
    if executor.departure is not None:
        raise InvalidValue(f"the run departs from its schedule at {executor.departure}")


def _note(error: BaseException, executor: ScheduledExecutor) -> None:
    """Have what ends a run say how to repeat it, or why that was no repetition."""
    executor.program_over()
    if executor.departure is not None:
        error.add_note(f"the run departs from its schedule at {executor.departure}")
    elif len(text := executor.said()()) <= MOST_NOTED:
        error.add_note(f"to repeat the run: EmulatorOptions(schedule={text!r})")


async def drive(
    main: Callable[..., Coroutine[object, None, T]],
    arguments: tuple[object, ...],
    driver: Driver,
    results: list[T],
    interrupts: Interrupts | None = None,
) -> None:
    """Run the program inside its driver's scope, and put what it returns into `results`."""
    try:
        async with driver:
            program = main(*arguments)
            results.append(await (program if interrupts is None else interrupts.note_return(program)))
    finally:
        executor = board_of(driver).executor
        assert isinstance(executor, InlineExecutor)
        executor.program_over()
