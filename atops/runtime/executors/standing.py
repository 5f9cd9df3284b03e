"""Where the program's tasks stand when nothing is left to run, and whether another thread may let one of them go on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures.thread import _worker
from types import FrameType
from typing import Any, Final

from atops.device.call_site import PACKAGE, Site, file_shown
from atops.device.races.race import Access
from atops.runtime.executors.holders import chain_of, holders_of
from atops.runtime.executors.threaded import GrowingLane, ThreadedExecutor, WorkerLane

__all__ = ("UNNAMED", "OtherThreads", "frames_of", "no_way_on", "sides_of", "stands_at", "told_waits")

PROGRAM: Final = "the program"
ASYNCIO: Final = os.path.dirname(asyncio.__file__) + os.sep
LIBRARIES: Final = (PACKAGE, ASYNCIO, contextlib.__file__)
UNNAMED: Final = re.compile(r"Task-\d+|None")  # the name of a task that was given none; "None" in Python 3.13.0
ENTERS: Final = ("__aenter__", "acquire")  # methods that wait for what another task holds
LENDER: Final = "atops ipc"  # the name of the thread that lends memory to other processes, and tells this one nothing
APART: Final = 0.5  # seconds between two looks: a thread about to go on has had its turn, on a busy machine too


def frames_of(task: object) -> tuple[FrameType | None, FrameType | None]:
    """Return the innermost frame of the program at which a task goes on or waits, and what of a library it waits in.

    The task is asyncio's or trio's.
    """
    place = inside = None
    libraries = _libraries()
    for _, frame in chain_of(_coroutine_of(task)):
        if not frame.f_code.co_filename.startswith(libraries):
            place, inside = frame, None
        elif inside is None:
            inside = frame
    return place, inside


def _libraries() -> tuple[str, ...]:
    """Return where the code lies that is not the program's, as its files begin."""
    loaded = (sys.modules.get(name) for name in ("anyio", "trio"))
    return *LIBRARIES, *(path for module in loaded if module is not None for path in module.__path__)


def _coroutine_of(task: Any) -> Any:
    return task.get_coro() if isinstance(task, asyncio.Task) else task.coro


def stands_at(task: object) -> str:
    """Return the innermost "file:line" of the program at which a task goes on, or waits; empty where it has none."""
    frame, _ = frames_of(task)
    return "" if frame is None else f"{file_shown(frame.f_code.co_filename)}:{frame.f_lineno}"


def no_way_on(tasks: Iterable[object]) -> str:
    """Say that nothing is left to run, and where tasks wait."""
    return f"nothing is left to run, and the program is not over: {'; '.join(told_waits(tasks))}"


def told_waits(tasks: Iterable[object]) -> list[str]:
    """Return where each task waits, "name waits at file:line"."""
    tasks = [*tasks]
    found = []
    for task in tasks:
        frame, inside = frames_of(task)
        if frame is not None:
            place = f"{file_shown(frame.f_code.co_filename)}:{frame.f_lineno}"
            taken = " and ".join(_holders(inside, tasks))
            found.append(f"{_name_of(task)} waits at {place}{taken and ' for what '}{taken}")
    return sorted(found)


def sides_of(tasks: Iterable[object]) -> list[Access]:
    """Return what each task waits in, and at which line: those that others wait for come first."""
    tasks = [*tasks]
    found = []
    for task in tasks:
        frame, inside = frames_of(task)
        if frame is None:
            continue
        waits = "waits for others" if inside is None else f"waits in {_called(inside)}"
        if taken := " and ".join(_holders(inside, tasks)):
            waits = f"{waits} for what {taken}"
        name = _name_of(task)
        place = Site(frame.f_code, frame.f_lasti)
        found.append((str(place), Access(name if name == PROGRAM else f"task {name}", waits, False, place, "")))
    return [side for _, side in sorted(found, key=lambda each: (each[1].actor == PROGRAM, each[0]))]


def _holders(inside: FrameType | None, tasks: Iterable[object]) -> list[str]:
    """Return which of the tasks hold what another one waits for in a method of a library, and where they took it."""
    if inside is None or inside.f_code.co_name not in ENTERS or (wanted := inside.f_locals.get("self")) is None:
        return []
    return holders_of(wanted, [(_name_of(each), _coroutine_of(each)) for each in tasks])


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
    if not UNNAMED.fullmatch(given := task.get_name()) and not name.startswith("AsyncioHostTask."):
        return given
    frame, _ = frames_of(task) if name.startswith("AsyncioHostTask.") else (None, None)
    return name if frame is None else frame.f_code.co_qualname  # a coroutine in a stream


class OtherThreads:
    """The other threads of a process, but for `known` ones, which are not the program's."""

    def __init__(self, known: int) -> None:
        self._known = known
        self._seen: dict[int, tuple[int, int]] = {}  # where each rested at the last look
        self._at = 0.0

    def may_act(self) -> bool:
        """Whether one of them may go on by itself; if not, each has rested in one place since an earlier look."""
        if threading.active_count() <= self._known:
            return False
        seen, at, now = self._seen, self._at, time.monotonic()
        self._seen = {}
        frames, own = sys._current_frames(), threading.get_ident()
        for thread in threading.enumerate():
            if thread.ident == own or thread.name == LENDER:
                continue
            frame = frames.get(thread.ident or 0)
            if frame is None or not _rests(frame):
                return True
            self._seen[thread.ident or 0] = id(frame), frame.f_lasti
        if self._seen != seen:
            self._at = now
            return True
        return now < at + APART


def _rests(frame: FrameType) -> bool:
    """Tell whether a thread that stands there goes on only once another one has it do so."""
    code, names = frame.f_code, frame.f_locals
    if code is _worker.__code__:  # of a pool: it has no work
        return bool(names["work_queue"].empty())
    if frame.f_globals.get("__name__") == "threading":  # a condition, an event, a queue, the end of a thread
        return names.get("timeout", 0) in (None, -1)
    own = names.get("self")
    if code is ThreadedExecutor._drive.__code__:
        return isinstance(own, ThreadedExecutor) and own.idle
    if code is WorkerLane._serve.__code__ or code is GrowingLane._serve.__code__:
        return isinstance(own, WorkerLane) and own.idle
    return False
