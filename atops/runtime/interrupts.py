"""Ctrl-C while a program runs inline: where KeyboardInterrupt may be raised, and how it comes out of the run.

One thread runs everything, so a signal handler that raises wherever it is called would break off the runtime between
two of its instructions, and what it was about to do would be lost. So the handler raises in the program's code alone.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C module, which typeshed leaves out
import _weakrefset
import asyncio
import os
import selectors
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Awaitable, Iterator
from functools import partial
from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar

from atops.base.errors import AtopsError
from atops.base.waiting.loop_adapter import HostTask
from atops.device.call_site import Site
from atops.device.exec import interpreter, scheduled_block
from atops.device.exec.thread import KernelThread
from atops.kernels.bound import BoundKernel
from atops.runtime.commands.call import result_of
from atops.runtime.core.completion import look_at
from atops.runtime.executors.inline import InlineExecutor, rest

__all__ = ("Interrupts",)

T = TypeVar("T")
# Taken and set by what `signal` wraps: that looks whether a handler is one of its enumeration, ten times as long.
SIGINT = signal.SIGINT
PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
PROGRAMS = PACKAGE + "apps" + os.sep  # they use the runtime, as a user's do
LOOP = (os.path.dirname(asyncio.__file__) + os.sep, selectors.__file__)
FINALIZERS = (weakref.__file__, _weakrefset.__file__)  # what is raised there is printed and lost
# Whose callees are kernels and host functions: what is raised in those is the command's failure.
STEPS: frozenset[CodeType] = frozenset(
    function.__code__
    for function in (
        *interpreter.CALLS_KERNELS,
        *scheduled_block.CALLS_KERNELS,
        *(KernelThread.begin, BoundKernel.start, result_of),
    )
)


class Interrupts:
    """Handles Ctrl-C while its block runs, in the main thread and unless the program does so itself.

    The first cancels the program's task by a step of the loop, as asyncio's runner does by the handler; a kernel or a
    host call that holds the thread, and the program where it blocks, gets KeyboardInterrupt. The second ends the run:
    KeyboardInterrupt is raised in whatever code of the program holds the thread, else the loop stops between two steps.
    The block ends with KeyboardInterrupt, unless the program has caught its cancellation and returned. What a handler
    of the program's own has raised in a kernel or a host call ends the block as such, not as the command's failure.
    """

    def __init__(self) -> None:
        self.executor: InlineExecutor | None = None
        self._taken = self._over = self._told = self._returned = False
        self._pressed = 0
        self._place: tuple[str, ...] = ()  # what the program did when it was pressed first, where that held the thread
        self._task: asyncio.Task[object] | None = None
        self._traced: list[FrameType] = []
        self._tracer: Any = None

    def __enter__(self) -> Interrupts:
        in_main = threading.current_thread() is threading.main_thread()
        self._taken = in_main and _signal.getsignal(SIGINT) is signal.default_int_handler
        if self._taken:
            _signal.signal(SIGINT, self._press)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._over = True
        if self._traced:
            self._trace_no_more()
        if self._taken and _signal.getsignal(SIGINT) == self._press:  # else the program has set its own
            _signal.signal(SIGINT, signal.default_int_handler)
        if self._pressed and not isinstance(error, KeyboardInterrupt | SystemExit) and (error or not self._told):
            raise KeyboardInterrupt(*self._place)
        if (raised := _raised_by_handler(error)) is not None:
            raise raised

    async def watch(self, program: Awaitable[T], executor: InlineExecutor) -> T:
        """Run the program's coroutine as the task that Ctrl-C cancels."""
        self._told = self._returned = False
        self._task, self.executor = asyncio.current_task(), executor
        if self._pressed:
            executor.loop.call_soon(self._cancel)
        return await program

    async def note_return(self, main: Awaitable[T]) -> T:
        """Await what may catch its cancellation: what comes later is the runtime's own."""
        try:
            return await main
        finally:
            self._returned = True

    def _cancel(self) -> None:
        if self._task is not None and not self._task.done():
            self._told = not self._returned
            self._task.cancel()

    def _press(self, number: int, frame: FrameType | None) -> None:
        self._pressed += 1
        executor = self.executor
        if self._over or executor is None or executor.loop.is_closed():
            return  # the block's end raises it
        executor.interrupt = self._raise
        if self._pressed == 1:
            executor.loop.call_soon_threadsafe(self._cancel)
        else:
            executor.loop.stop()
            executor.loop.call_soon_threadsafe(bool)  # else it may wait for files and timers
        if frame is None:
            return
        if self._pressed > 2:
            self._raise()  # wherever it is: something refuses to end
        program, border = _program(frame)
        if program and self._pressed == 1:
            self._place = (str(Site(program[-1].f_code, program[-1].f_lasti)),)
        if border is not None and (border in STEPS or self._pressed > 1):
            if program[-1:] == [frame]:
                self._raise()
            self._trace(program)
        elif frame.f_code is rest.__code__:
            self._raise()

    def _raise(self) -> None:
        if self.executor is not None:
            self.executor.interrupt = None
        pressed = KeyboardInterrupt()
        look_at(pressed)  # a kernel's failure that Ctrl-C has caused is not logged
        raise pressed

    def _trace(self, program: list[FrameType]) -> None:
        """Raise at the next line of a program that is in a call of the runtime."""
        if not self._traced:
            self._tracer = sys.gettrace()
            sys.settrace(lambda frame, event, argument: None)
        for frame in program:
            frame.f_trace = self._at_line
            self._traced.append(frame)

    def _at_line(self, frame: FrameType, event: str, argument: object) -> object:
        if event == "line" and self._traced:
            self._trace_no_more()
            if self.executor is not None and self.executor.interrupt is not None:
                self._raise()
        return self._at_line

    def _trace_no_more(self) -> None:
        for frame in self._traced:
            frame.f_trace = None
        self._traced = []
        sys.settrace(self._tracer)


def _program(frame: FrameType) -> tuple[list[FrameType], CodeType | None]:
    """Return the program's frames, outermost first, that the runtime has called last, and what called them.

    Not those of finalizers and signal handlers, which may be called in the middle of anything.
    """
    program: list[FrameType] = []
    anywhere = _handlers()
    for each in _outwards(frame):
        code = each.f_code
        if code.co_name == "__del__" or code.co_filename in FINALIZERS or code in anywhere:
            program = []
        elif not _of_runtime(each):
            program.append(each)
        elif program and (code in STEPS or code in TASKS):
            return program[::-1], code
        else:
            program = []
    return [], None


def _raised_by_handler(error: BaseException | None) -> BaseException | None:
    """Return what a signal handler of the program has raised in a kernel or a host call, whose failure it became."""
    while isinstance(error, AtopsError) and error.__cause__ is not None:
        error = error.__cause__
        if not isinstance(error, AtopsError) and error.__traceback__ is not None:
            frames = traceback.walk_tb(error.__traceback__)
            return error if not _handlers().isdisjoint(frame.f_code for frame, _ in frames) else None
    return None


def _handlers() -> set[CodeType | None]:
    return {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}


def _code_of(handler: object) -> CodeType | None:
    while isinstance(handler, partial):
        handler = handler.func
    return getattr(handler, "__code__", None)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _of_runtime(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return path.startswith(LOOP) or (path.startswith(PACKAGE) and not path.startswith(PROGRAMS))


# Whose callees are tasks and callbacks of the loop.
TASKS: frozenset[CodeType] = frozenset(
    function.__code__ for function in (asyncio.Handle._run, HostTask._call, Interrupts.note_return)
)
