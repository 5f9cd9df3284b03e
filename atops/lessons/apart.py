"""Runs that stand apart: each begins with what a task's file held at first, and one that never ends is ended."""

from __future__ import annotations

import asyncio
import ctypes
import re
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from math import inf
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Final

from atops.device.call_site import file_shown, program_place

if TYPE_CHECKING:
    from atops.checking.runner import Runner

__all__ = ("Kept", "NeverEnds", "Patience", "noted_unawaited", "raise_in")

TICK_S: Final = 0.25
BLOCKED_TICKS: Final = 20  # without a step, and with hardly any computing
BLOCKED_CPU_S: Final = 0.01  # of a tick
# Which a thread that is blocked gets. SIGURG ends kernels in C++.
WAKES: Final = signal.SIGRTMIN + 1 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
OURS: Final = str(Path(__file__).parents[1])
NEVER_AWAITED: Final = re.compile(r"coroutine '(.+?)' was never awaited")
# What a run may change of the variables of a file, or what belongs to the loop of one run.
CHANGED: Final = (
    int, float, str, bytes, tuple, type(None), list, dict, set, bytearray, deque,
    asyncio.Lock, asyncio.Event, asyncio.Condition, asyncio.Semaphore, asyncio.Queue,
)  # fmt: skip


class Kept:
    """The variables of a task's file as they are at first, as far as the task names them and a run may change them.

    A lock that one run has used belongs to its loop, and a list has what that run has put there.
    """

    def __init__(self, task: object) -> None:
        self._globals: dict[str, object] = getattr(task, "__globals__", {})
        found = {name: self._globals[name] for name in _named(task, set()) if name in self._globals}
        self._given = {name: value for name, value in found.items() if isinstance(value, CHANGED)}
        self._kept: dict[str, object] = {}
        copied: dict[int, object] = {}  # one thing of two names stays one
        for name, value in self._given.items():
            with suppress(Exception):  # what cannot be copied is as it is
                self._kept[name] = deepcopy(value, copied)

    def begin(self) -> None:
        """Have them hold what they held at first: copies of it."""
        self._globals.update(deepcopy(self._kept))

    def end(self) -> None:
        """Have them be the file's own again."""
        self._globals.update(self._given)


def _named(function: object, seen: set[int]) -> Iterator[str]:
    """Yield the names of variables in a function, and in the functions of the same file that it names."""
    if not isinstance(function, FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    for name in _names_in(function.__code__):
        yield name
        yield from _named(function.__globals__.get(name), seen)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names_in(each)


@contextmanager
def noted_unawaited(noting: bool) -> Iterator[list[str]]:
    """Note the calls whose coroutines are dropped in the block without an `await`: "`write()` at bank.py:7".

    Python warns of them, with the line that dropped them. With `noting` False nothing is noted.
    """
    found: list[str] = []
    if not noting:
        yield found
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", RuntimeWarning)
        yield found
    for each in said:
        dropped = NEVER_AWAITED.search(str(each.message))
        if dropped is None:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
            continue
        place = "" if each.filename.startswith(OURS) else f" at {file_shown(each.filename)}:{each.lineno}"
        call = f"`{dropped[1].rpartition('.')[2]}()`{place}"
        found += [call] if call not in found else []


def raise_in(thread: int, error: type[BaseException]) -> None:
    """Raise `error` in the thread of this identifier, at its next instruction of Python: whatever computes is ended.

    The thread may have left the code that was to be ended by then: the caller has to expect `error` behind it, too.
    """
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


class NeverEnds(KeyboardInterrupt):
    """A run has computed for too long: no step of it ends. As Ctrl-C, it comes out of a run."""


def _never_ends(number: int, frame: object) -> None:
    raise NeverEnds


class Patience:
    """Raises NeverEnds inside its block, on the thread that entered it, after so many seconds of computing.

    Also after `idle` of them in which the `runner` that is set has made no step, and where the thread is blocked:
    nothing else can go on then. Again and again, as long as the block goes on. `stood` is the place in the program
    where it was first, None if it was never, and `blocked` says how. A thread that is not the main one cannot be woken:
    where it is blocked is printed.
    """

    def __init__(self, seconds: float, idle: float = inf) -> None:
        self.seconds, self.idle = seconds, idle
        self.runner: Runner | None = None
        self.stood: str | None = None
        self.blocked = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Wait no longer than this for the block."""
        thread, over = threading.get_ident(), threading.Event()
        main = thread == threading.main_thread().ident
        before = signal.signal(WAKES, _never_ends) if main else None
        watcher = threading.Thread(target=self._watch, args=(thread, over, main), name="atops patience", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            while watcher.is_alive():  # it may be raised here, too
                with suppress(NeverEnds):
                    over.set()
                    watcher.join()
            if self.stood is not None:  # one may be pending still
                self._take(thread)
            if main:
                signal.signal(WAKES, signal.SIG_DFL if before is None else before)

    @staticmethod
    def _take(thread: int) -> None:
        """Raise one more, and catch it: to set none in its place leaves CPython looking for one for ever.

        Then everything is slower, and a function that is traced never begins.
        """
        with suppress(NeverEnds):
            raise_in(thread, NeverEnds)
            while True:
                pass

    def _watch(self, thread: int, over: threading.Event, main: bool) -> None:
        moved = computed = time.process_time()
        end = moved + self.seconds
        steps: object = None
        still = 0  # ticks
        while not over.wait(TICK_S):
            now, before = time.process_time(), steps
            if (steps := self._steps()) != before:
                moved = now
            still = still + 1 if steps == before and now - computed < BLOCKED_CPU_S else 0
            computed = now
            blocked = still >= BLOCKED_TICKS
            if self.stood is None and not blocked and now < min(end, moved + self.idle):
                continue
            if self.stood is None:
                place = program_place(sys._current_frames().get(thread))
                self.stood = "" if place is None else f"{file_shown(place.path)}:{place.line}"
                self.blocked = blocked
                if blocked and not main:
                    print(f"the check is blocked at {self.stood}, in a call that does not return: interrupt it")
            if blocked and main:
                signal.pthread_kill(thread, WAKES)
            elif not blocked:
                raise_in(thread, NeverEnds)

    def _steps(self) -> object:
        """Return a value that changes with each step of the runner's run, and with each run."""
        runner = self.runner
        executor = getattr(runner, "executor", None)  # of the run that goes on
        return None if runner is None else (id(runner), runner.runs, executor and executor.agenda.made)
