"""Which line of a program in C++ calls the runtime: read off the stack of machine code, where something asks for it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from atops.bridge.handles import current_board
from atops.device.call_site import Site, asked_at
from atops.device.native.library import NativeModule
from atops.device.native.watching import site_in
from atops.kernels.cxx.registration import MAIN

__all__ = ("CallLines", "Callback")

Callback = Callable[..., Any]  # of C


DEEPEST: Final = 128  # frames, most of them the interpreter's, up to the program's innermost
API: Final = ("topsLaunchKernel",)  # advice is in the names of what a program calls: the C-style functions
MOST: Final = 6  # of the program's that are looked at


class CallLines:
    """The lines of one program. Each place costs a look at its debug lines, once."""

    def __init__(self, module: NativeModule) -> None:
        self._module = module
        self._known: dict[tuple[int, ...], Site | None] = {}
        libc: Any = ctypes.CDLL(None)
        self._backtrace: Any = getattr(libc, "backtrace", None)  # not of every C library

    def asking(self) -> AbstractContextManager[object]:
        """Have what is asked for inside the block be asked for where the program now calls, with the detectors on."""
        if self._backtrace is None or current_board().detector is None or (site := self._site()) is None:
            return nullcontext()
        return asked_at(site)

    def _site(self) -> Site | None:
        frames = (ctypes.c_void_p * DEEPEST)()
        count = self._backtrace(frames, DEEPEST)
        low, high = self._module.text_low, self._module.text_high
        own = tuple(each - 1 for each in frames[:count] if each and low < each <= high)[:MOST]
        if own not in self._known:
            function, file, line = self._module.place_of(own) or ("", "", 0)
            self._known[own] = site_in(function.replace(MAIN, "main"), file, line, API) if file else None
        return self._known[own]
