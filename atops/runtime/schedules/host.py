"""The host that the options of an inline run ask for: with a schedule or without, on asyncio or on trio."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Literal, TypeAlias

from atops.base.choice import Chooser, Plain, Random
from atops.base.clock import VirtualClock
from atops.base.errors import NotSupported
from atops.base.options import EmulatorOptions
from atops.base.schedule_string import RecordedReplay, read_schedule
from atops.runtime.executors.inline import InlineExecutor
from atops.runtime.schedules.choosing import ScheduledExecutor
from atops.runtime.schedules.fingerprint import check_fingerprint, fingerprint

__all__ = ("Backend", "inline_executor", "need_trio")

Backend: TypeAlias = Literal["asyncio", "trio"]


def inline_executor(
    options: EmulatorOptions, main: Callable[..., object] | None = None, backend: str = "asyncio",
    chooser: Chooser | None = None,
) -> InlineExecutor:  # fmt: skip
    """Return the host of one inline run of `main`. A trio run has the plain schedule where the options have none.

    `chooser` takes the place of the one that the options ask for, where they ask for one.

    Raises InvalidValue where its schedule's string does not fit, NotSupported where trio is missing.
    """
    clock = VirtualClock() if options.clock == "virtual" else None
    if options.schedule is None and backend == "asyncio":
        return InlineExecutor(options.seed, clock)
    chooser = chooser or _chooser(options, main, backend)
    program = partial(fingerprint, main, options, backend)
    if backend == "trio":
        need_trio()
        trio_run: Any = import_module("atops.runtime.schedules.trio_run")  # a program without trio does not load it
        found: InlineExecutor = trio_run.TrioExecutor(chooser, clock, options.steps, program)
        return found
    return ScheduledExecutor(chooser, clock, options.steps, program)


def _chooser(options: EmulatorOptions, main: Callable[..., object] | None, backend: str) -> Chooser:
    schedule = options.schedule
    if schedule is None or schedule == "plain":
        return Plain()
    if schedule == "random":
        return Random(options.seed or 0)
    if isinstance(schedule, str):
        recorded = read_schedule(schedule)
        check_fingerprint(recorded, main, options, backend)
        return RecordedReplay(recorded)
    return schedule


def need_trio() -> Any:
    """Return the module of trio. Raises NotSupported where it is missing."""
    try:
        return import_module("trio")
    except ImportError as error:
        raise NotSupported("backend='trio' needs trio: pip install 'atops[trio]'") from error
