"""Running a whole program inline: driver, kernels, callbacks and tasks as steps of one loop in one thread."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

from atops.base.clock import VirtualClock
from atops.base.errors import InvalidType, InvalidValue
from atops.base.options import EmulatorOptions
from atops.base.waiting.current_loop import running_loop_adapter
from atops.runtime.core.completion import look_at
from atops.runtime.driver import CURRENT, Driver
from atops.runtime.executors.executor import HERE
from atops.runtime.executors.inline import InlineExecutor

__all__ = ("drive", "interruptible", "run", "take_back_interrupts", "takes_interrupts")

T = TypeVar("T")


def run(main: Callable[..., Coroutine[Any, Any, T]], options: EmulatorOptions | None = None, *arguments: object) -> T:
    """Run `main(*arguments)` with a driver of its own, inline, and return its result.

    The same program with the same `options.seed` takes the same steps in the same order and leaves the same trace. With
    `options.clock="virtual"` time advances only when no step is ready. The driver is current inside `main` and closed
    afterwards. Ctrl-C cancels the program, as with `asyncio.run`, and ends a kernel or a host call that is running: it
    might never give the thread back. Raises InvalidType when `main` is no coroutine function, InvalidValue for options
    that need threads, RuntimeError inside a running loop.
    """
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
    if options.workers != 1:
        raise InvalidValue(
            f"workers is {options.workers!r}; an inline run has one thread: workers=1 in its EmulatorOptions, or in "
            "ATOPS_WORKERS"
        )
    clock = VirtualClock() if options.clock == "virtual" else None
    executor = InlineExecutor(options.seed, clock)
    results: list[T] = []
    interrupts = takes_interrupts()
    try:
        with asyncio.Runner(loop_factory=lambda: executor.loop) as runner:
            driver = Driver(options, executor=executor)
            token = CURRENT.set(driver)
            # Not the task's own result: asyncio formats the finished task, and with it perhaps millions of numbers.
            program = drive(main, arguments, driver, results)
            try:
                runner.run(interruptible(program) if interrupts else program)
            finally:
                CURRENT.reset(token)
    finally:
        if interrupts:
            take_back_interrupts()
    return results.pop()


def take_back_interrupts() -> None:
    """Put back Python's own handler of Ctrl-C, which was there. A Ctrl-C meanwhile is raised once that is done.

    The runner puts it back only where it finds its own, and a program that Ctrl-C broke off ends after it has looked.
    """
    pressed: KeyboardInterrupt | None = None
    while signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        except KeyboardInterrupt as error:  # it looks for signals before it does anything
            pressed = error
    if pressed is not None:
        raise pressed


async def drive(
    main: Callable[..., Coroutine[Any, Any, T]], arguments: tuple[object, ...], driver: Driver, results: list[T]
) -> None:
    """Run the program inside its driver's scope, and put what it returns into `results`."""
    async with driver:
        results.append(await main(*arguments))


def takes_interrupts() -> bool:
    """Return whether asyncio's runner will handle Ctrl-C here: in the main thread, unless the program does itself."""
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


async def interruptible(program: Coroutine[Any, Any, None]) -> None:
    """Run the program so that one Ctrl-C also ends the kernel or the host call that holds the loop's thread.

    There KeyboardInterrupt is raised. The runner's handler, which is called first, can do no more than ask the program
    to end when the loop has its thread again.
    """
    cancel: Any = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        cancel(number, frame)
        if HERE.role in ("executor", "callback"):
            pressed = KeyboardInterrupt()
            look_at(pressed)  # a kernel's failure that Ctrl-C has caused is not logged
            raise pressed

    signal.signal(signal.SIGINT, interrupt)
    try:
        await program
    finally:
        signal.signal(signal.SIGINT, cancel)
