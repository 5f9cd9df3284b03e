"""The process in which the `main` of a C++ program runs, on an emulated board of its own.

`python -m atops.tops.program.worker MODULE NAME [ARGS ...]` is started by `atops run`. A crash costs this process only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Any

import atops.tops as tops
from atops.bridge.handles import current_device
from atops.device.native.library import Dim, load_module
from atops.kernels.cxx.variables import LoadedModule
from atops.tops.program.callbacks import callbacks
from atops.tops.program.launching import add_kernels, launching

__all__ = ("main",)

LINES = 1  # C's _IOLBF: what is printed comes out line by line
LAUNCH = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_uint32), ctypes.c_int32, ctypes.POINTER(Dim), ctypes.POINTER(Dim), ctypes.c_uint64,
    ctypes.c_void_p,
)  # fmt: skip


class _Host(ctypes.Structure):
    """What the module gets (`atops/host.h`)."""

    _fields_ = (("functions", ctypes.c_void_p), ("launch", LAUNCH))


def main(arguments: list[str]) -> int:
    """Run a program. Returns what its `main` returns."""
    path, name, *given = arguments
    for each in ("ATOPS_STRICT", "ATOPS_DETECT"):  # the module is not the one whose accesses are seen
        os.environ.pop(each, None)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the program's code would not let Python look
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # texts of kernels, among those of C
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, LINES, 0)
    module = load_module(Path(path))
    loaded = LoadedModule(module, Path(name).stem, lambda: module).on(current_device().context.chip, watched=False)
    library: Any = loaded.module.library
    launch = LAUNCH(launching(loaded))
    add_kernels(loaded)
    functions, table = callbacks()
    host = _Host(ctypes.addressof(table), launch)
    library.atops_set_host(ctypes.byref(host))
    words = [each.encode() for each in (name, *given)]
    count = len(words)
    code = int(library.atops_main(count, (ctypes.c_char_p * (count + 1))(*words, None)))
    tops.topsDeviceSynchronize()
    del functions
    return code & 0xFF


if __name__ == "__main__":
    ended = main(sys.argv[1:])
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(ended)
