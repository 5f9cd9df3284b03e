"""Where the program's tasks stand when nothing is left that could let one of them go on."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any, Final

from atops.device.call_site import PACKAGE, Site, file_shown
from atops.device.races.race import Access

__all__ = ("frames_of", "no_way_on", "sides_of", "stands_at")

PROGRAM: Final = "the program"
ASYNCIO: Final = os.path.dirname(asyncio.__file__) + os.sep


def frames_of(task: Any) -> tuple[FrameType | None, FrameType | None]:
    """Return the innermost frame of the program at which a task goes on or waits, and what of a library it waits in.

    The task is asyncio's or trio's.
    """
    place = inside = None
    awaited = task.get_coro() if isinstance(task, asyncio.Task) else task.coro
    trio = sys.modules.get("trio")
    libraries = (PACKAGE, ASYNCIO, *(() if trio is None else trio.__path__))
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            break
        if not frame.f_code.co_filename.startswith(libraries):
            place, inside = frame, None
        elif inside is None:
            inside = frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return place, inside


def stands_at(task: object) -> str:
    """Return the innermost "file:line" of the program at which a task goes on, or waits; empty where it has none."""
    frame, _ = frames_of(task)
    return "" if frame is None else f"{file_shown(frame.f_code.co_filename)}:{frame.f_lineno}"


def no_way_on(tasks: Iterable[object]) -> str:
    """Say that nothing is left to run, and where tasks wait."""
    waits = sorted(f"{_name_of(task)} waits at {place}" for task in tasks if (place := stands_at(task)))
    return f"nothing is left to run, and the program is not over: {'; '.join(waits)}"


def sides_of(tasks: Iterable[object]) -> list[Access]:
    """Return what each task waits in, and at which line: those that others wait for come first."""
    found = []
    for task in tasks:
        frame, inside = frames_of(task)
        if frame is None:
            continue
        waits = "waits for others" if inside is None else f"waits in {_called(inside)}"
        name = _name_of(task)
        place = Site(frame.f_code, frame.f_lasti)
        found.append((str(place), Access(name if name == PROGRAM else f"task {name}", waits, False, place, "")))
    return [side for _, side in sorted(found, key=lambda each: (each[1].actor == PROGRAM, each[0]))]


def _called(frame: FrameType) -> str:
    """Return a method of a library as `Lock.acquire`."""
    owner, name = frame.f_locals.get("self"), frame.f_code.co_name
    return name if owner is None else f"{type(owner).__name__}.{name.strip('_')}"


def _name_of(task: Any) -> str:
    if not isinstance(task, asyncio.Task):  # of trio
        return PROGRAM if task.name.endswith("TrioSteps.guard") else str(task.name.rpartition(".")[2])
    name = str(getattr(task.get_coro(), "__qualname__", "a task"))
    if name.startswith("Interrupts."):
        return PROGRAM
    frame, _ = frames_of(task) if name.startswith("AsyncioHostTask.") else (None, None)
    return name if frame is None else frame.f_code.co_qualname  # a coroutine in a stream
