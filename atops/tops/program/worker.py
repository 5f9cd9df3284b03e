"""The process in which the `main` of a C++ program runs, on an emulated board of its own.

It is a child of `atops run`'s. A crash costs this process only; when its parent ends, however that is, it ends, too. At
its own end, which `exit` is, too, the trace that ATOPS_TRACE asks for is written.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

import atops.tops as tops
from atops.bridge.handles import current_board, current_device
from atops.device.native.library import Dim, load_module
from atops.kernels.cxx.variables import Loaded, LoadedModule
from atops.runtime.profiling import Profile
from atops.tops.program.callbacks import add_variables, callbacks
from atops.tops.program.launching import add_kernels, launching
from atops.tops.program.lines import CallLines

__all__ = ("run_main",)

PARENT_DEATH_SIGNAL = 1  # prctl's PR_SET_PDEATHSIG
LINES = 1  # C's _IOLBF: what is printed comes out line by line
T = TypeVar("T")

AT_EXIT = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
KEPT: list[object] = []  # what C calls
LAUNCH = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint8), ctypes.c_int32, ctypes.POINTER(Dim),
    ctypes.POINTER(Dim), ctypes.c_uint64, ctypes.c_void_p,
)  # fmt: skip


class _Host(ctypes.Structure):
    """What the module gets (`atops/host.h`)."""

    _fields_ = (("functions", ctypes.c_void_p), ("launch", LAUNCH))


def run_main(parent: int, path: Path, name: str, arguments: Sequence[str], profiled: bool) -> NoReturn:
    """Run the `main` of a compiled program, the module at `path`, in this process, which ends with what it returns.

    As C does: by `exit`, which runs what the program has for its end, and the destructors of its globals.

    `name` is the file of its source, `parent` the number of the process that this one ends with.
    """
    libc = ctypes.CDLL(None)
    _end_with(parent, libc)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the program's code would not let Python look
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # texts of kernels, among those of C
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, LINES, 0)
    _at_exit(libc, profiled)  # before the program's own: it comes behind them
    module = load_module(path)
    text = LoadedModule(module, Path(name).stem, lambda: module)
    none = Loaded(module, ())  # without a device: the calls that need one answer that
    loaded = text.on(current_device().context.chip, watched=False) if current_board().devices else none
    add_variables(text)
    library = loaded.module.library
    lines = CallLines(loaded.module)
    launch = LAUNCH(launching(loaded, lines))
    add_kernels(loaded)
    functions, table = callbacks(lines)
    host = _Host(ctypes.addressof(table), launch)
    library.atops_set_host(ctypes.byref(host))
    words = [each.encode() for each in (name, *arguments)]
    count = len(words)
    c_words = (ctypes.c_char_p * (count + 1))(*words, None)
    code = int(_called_in_main(name, lambda: library.atops_main(count, c_words)))
    libc.exit(code & 0xFF)
    raise AssertionError(f"exit has come back, with {functions}")  # which had to stay until here


def _end_with(parent: int, libc: ctypes.CDLL) -> None:
    """Have the system end this process when its parent ends: a program may go on for ever."""
    libc.prctl(PARENT_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:  # it has ended already
        os.kill(os.getpid(), signal.SIGKILL)


def _called_in_main(name: str, call: Callable[[], T]) -> T:
    """Call from a frame of Python that stands for the program's `main`: reports name it as what has asked.

    The line of a call is known with the detectors on; else the one that is told is where `main` begins.
    """
    try:
        before = re.split(r"\bmain\s*\(", Path(name).read_text(errors="replace"), maxsplit=1)[0]
    except OSError:
        before = ""
    text = "\n" * before.count("\n") + "def main(call): return call()"
    space: dict[str, Callable[[Callable[[], T]], T]] = {}
    exec(compile(text, name, "exec"), space)
    return space["main"](call)


def _end_work() -> None:
    """Wait for the work that the program has left, for no longer than the board's `abort_grace`."""
    grace = current_board().options.abort_grace
    try:
        asyncio.run(asyncio.wait_for(tops.aio.topsDeviceSynchronize(), grace))
    except TimeoutError:
        text = f"atops run: main is over, and what it has left on the device goes on after {grace:g} s: it is dropped"
        print(text, file=sys.stderr)


def _at_exit(libc: ctypes.CDLL, profiled: bool) -> None:
    """Have `exit` wait for the work that is left, and end the process's traces and profile."""
    profile = Profile()
    if profiled:
        profile.__enter__()

    def finish(_: object) -> None:
        _end_work()
        if profiled:
            profile.__exit__(None, None, None)
            print(profile, file=sys.stderr)
        atexit._run_exitfuncs()
        sys.stdout.flush()

    called = AT_EXIT(finish)
    KEPT.append(called)
    libc["__cxa_atexit"](called, None, None)
