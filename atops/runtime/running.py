"""Running a whole program inline: driver, kernels, callbacks and tasks as steps of one loop in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from atops.base.clock import VirtualClock
from atops.base.errors import InvalidType, InvalidValue
from atops.base.loops import running_home
from atops.base.options import EmulatorOptions
from atops.runtime.driver import CURRENT, Driver
from atops.runtime.inline import InlineExecutor

__all__ = ("drive", "run")

T = TypeVar("T")


def run(main: Callable[..., Coroutine[Any, Any, T]], options: EmulatorOptions | None = None, *arguments: Any) -> T:
    """Run `main(*arguments)` with a driver of its own, inline, and return its result.

    The same program with the same `options.seed` takes the same steps in the same order and leaves the same trace. With
    `options.clock="virtual"` time advances only when no step is ready. The driver is current inside `main` and closed
    afterwards. Raises InvalidType when `main` is no coroutine function, InvalidValue for options that need threads,
    RuntimeError inside a running loop.
    """
    if not asyncio.iscoroutinefunction(main):
        raise InvalidType(f"run of {main!r}; a coroutine function is right: async def main(): ...")
    if running_home() is not None:
        raise RuntimeError(
            f"run of {main!r} inside a running loop; an inline run makes a loop of its own, so give it a thread too: "
            "await asyncio.to_thread(atops.run, main, options)"
        )
    options = EmulatorOptions.from_environment() if options is None else options
    if not isinstance(options, EmulatorOptions):
        raise InvalidType(f"the options of run are {options!r}; EmulatorOptions, or None before arguments, are right")
    if options.workers != 1:
        raise InvalidValue(f"workers is {options.workers!r}; an inline run has one thread, workers=1")
    clock = VirtualClock() if options.clock == "virtual" else None
    executor = InlineExecutor(options.seed, clock)
    with asyncio.Runner(loop_factory=lambda: executor.loop) as runner:
        driver = Driver(options, executor=executor)
        token = CURRENT.set(driver)
        try:
            return runner.run(drive(main, arguments, driver))
        finally:
            CURRENT.reset(token)


async def drive(main: Callable[..., Coroutine[Any, Any, T]], arguments: tuple[Any, ...], driver: Driver) -> T:
    """Run the program inside its driver's scope."""
    async with driver:
        return await main(*arguments)
