"""The calls of the package that tasks of the program make, told to the footprint of a run: they say what commutes.

A task's step runs the program's own code, so it always depends on the steps of other tasks. On streams it depends only
through what it calls of the package. Each call is seen as by a profiler: for the few functions that are known here,
what they look at is told; any other call makes the step depend on everything.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

from atops.base.footprint import Footprint
from atops.device.call_site import PACKAGE
from atops.device.races.touches import HOST
from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event
from atops.runtime.driver import Driver
from atops.runtime.executors.inline_loop import InlineLoop
from atops.runtime.stream import Stream

__all__ = ("TaskCalls",)

ASYNCIO: Final = os.path.dirname(asyncio.__file__) + os.sep
# What asyncio calls itself, and what stands around the program's coroutine.
AROUND: Final = tuple(
    PACKAGE + os.sep.join(each)
    for each in (("runtime", "schedules"), ("runtime", "executors"), ("base", "waiting"), ("base", "agenda"),
                 ("runtime", "interrupts"), ("runtime", "run"), ("checking",))
)  # fmt: skip
OUTSIDE, CALLED, HARMLESS = range(3)


class TaskCalls:
    """Looks at what is called while a task has its turn. `sees` is told of each command or stream that is asked for."""

    def __init__(self, footprint: Footprint, sees: Callable[[object], None]) -> None:
        self._footprint, self._sees = footprint, sees
        self._looks = False

    def begin(self) -> None:
        """Look from now on, unless something else does. What is seen is told of the step that begins."""
        if sys.getprofile() is not None:
            self._footprint.opaque()
            return
        self._footprint.write(HOST)  # with it all that the program has
        self._looks = True
        sys.setprofile(self._called)

    def end(self) -> None:
        """Look no more."""
        if self._looks:
            self._looks = False
            sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or _kind(code := frame.f_code) != CALLED:
            return
        back = frame.f_back
        if code is not CLOSES and back is not None and _kind(back.f_code) != OUTSIDE:
            return
        if code is TIME:
            if back is None or not back.f_code.co_filename.startswith(ASYNCIO):
                self._footprint.refuse("the time")
        elif code in ASKS:
            self._sees(next(iter(frame.f_locals.values())))
        elif code in ALLOCATES:
            self._footprint.write(("pool", next(iter(frame.f_locals.values())).device_id))
        elif code not in GIVES:
            self._footprint.opaque()


_KINDS: dict[CodeType, int] = {}


def _kind(code: CodeType) -> int:
    kind = _KINDS.get(code)
    if kind is None:
        file = code.co_filename
        kind = OUTSIDE if not file.startswith(PACKAGE) else HARMLESS if file.startswith(AROUND) else CALLED
        _KINDS[code] = kind
    return kind


def _code(method: object) -> CodeType:
    function: Any = method.fget if isinstance(method, property) else method
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code: CodeType = function.__code__
    return code


TIME: Final = _code(InlineLoop.time)
_KINDS[TIME] = CALLED
CLOSES: Final = _code(Driver.__aexit__)  # the end of the program
# What asks whether a command is over: its own, an event's newest record, or a stream's newest command.
ASKS: Final = frozenset(map(_code, (
    Completion.__await__, Completion.is_done, Completion.done, Completion.running, Completion.state, Completion.result,
    Event.__await__, Event.is_done, Event.done, Event.state, Event.result, Stream.__await__, Stream.is_done,
)))  # fmt: skip
# What enqueues commands, and sees nothing but what the task knows.
GIVES: Final = frozenset(map(_code, (
    Stream.fill, Stream.copy, Stream.fetch, Stream.record, Stream.wait_value, Stream.write_value,
    Stream.launch, Stream.call, Stream.wait, Stream.device, Stream.driver, Stream.number,
)))  # fmt: skip
ALLOCATES: Final = frozenset(map(_code, (Stream.empty, Stream.zeros, Stream.upload)))
