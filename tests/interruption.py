"""Signals at chosen points: whatever a SIGINT can come in between, in the main thread's frames of the package.

The interpreter runs a handler of the program's only at some of its instructions: at calls, at jumps backward and where
generators go on. A trace function counts those, and makes the signal pending just before the chosen one, by C code,
so that the handler runs where it really would: not between a lock's taking and its `with`, say.
"""

from __future__ import annotations

import _thread
import dis
import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import atops

ROOT = str(Path(atops.__file__).parent)
NAMES = ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "BEFORE_WITH", "FOR_ITER", "SEND", "JUMP_BACKWARD")
POINTS = {dis.opmap[name] for name in NAMES if name in dis.opmap}


class Signal:
    """`-Signal()` makes SIGINT pending, and leaves it so: no instruction that looks for signals is in between.

    `~Signal()` does so with SIGALRM.
    """

    __neg__ = _thread.interrupt_main
    __invert__ = staticmethod(partial(_thread.interrupt_main, signal.SIGALRM))


PENDING: Any = Signal()


@lru_cache(None)
def instructions(code: CodeType) -> dict[int, int]:
    """Return the instruction at each offset."""
    return {each.offset: each.opcode for each in dis.get_instructions(code)}


class Points:
    """Runs actions, counts the points at which a signal may come, and makes one pending before the chosen one."""

    def __init__(self, chosen: int = 0) -> None:
        self.chosen = chosen
        self.passed = 0
        self.number = signal.SIGINT

    def run(self, action: Callable[[], object]) -> None:
        """Run an action, and let what the signal's handler raises pass."""
        before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # from Python 3.12 on some frame has to ask before the trace is set
        sys.settrace(self._enter)
        try:
            action()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(ROOT):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._look

    def _look(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode" and instructions(frame.f_code).get(frame.f_lasti) in POINTS:
            self.passed += 1
            if self.passed == self.chosen:
                sys.settrace(None)
                pending = PENDING
                _ = ~pending if self.number == signal.SIGALRM else -pending
                return None
        return self._look


def every_point(action: Callable[[], object], most: int = 80) -> Iterator[Points]:
    """Yield what makes one signal come at each point of an action, or at `most` of them, evenly spread.

    The action is run twice before, traced, too: then what is made at first use is there, and Python 3.13 traces it all.
    """
    Points().run(action)
    whole = Points()
    whole.run(action)
    assert whole.passed
    step = max(1, -(-whole.passed // most))
    for chosen in range(1, whole.passed + 1, step):
        yield Points(chosen)


def interrupted(points: Points, action: Callable[[], object]) -> bool:
    """Run an action, and let Ctrl-C come at the chosen point. Returns whether KeyboardInterrupt came out of it."""
    try:
        with handling(signal.default_int_handler):
            points.run(action)
    except KeyboardInterrupt:
        return True
    return False


def handled(points: Points, action: Callable[[], object], handler: Callable[[], object]) -> None:
    """Run an action, and have a signal handler called at the chosen point."""
    with handling(lambda number, frame: handler()):
        points.run(action)


@contextmanager
def handling(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Have SIGINT handled so for the block. Nothing is collected meanwhile: garbage of other tests has points, too."""
    before, collects = signal.signal(signal.SIGINT, handler), gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if collects:
            gc.enable()
