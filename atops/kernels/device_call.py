"""The call of an `async` device function, which is awaited, or told as a MissingAwait with its line. TOPS C++, 8.1."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from atops.device.call_site import Site
from atops.device.exec.thread import KernelThread, Request

__all__ = ("DeviceCall", "awaited")


class DeviceCall(Request):
    """What a call is until it is awaited. When it goes before, its thread owes it, as it would a request."""

    __slots__ = ("code", "function", "thread")

    def __init__(self, thread: KernelThread, function: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        """Note that `thread` called `function` at its caller's caller."""
        frame = sys._getframe(2)
        self.thread: KernelThread | None = thread
        self.function = function
        self.code = frame.f_code
        self.lasti = frame.f_lasti

    def __del__(self) -> None:
        thread = self.thread
        if thread is None or thread.ended:
            return
        if thread.unawaited is None:
            thread.unawaited = self  # it lives on there; the thread's next request or its end tells
        else:  # a thread owes one request: another call is told as Python tells of coroutines
            said = f"{thread}: {self.describe()} at {self.site()} was never awaited"
            warnings.warn(said, RuntimeWarning, stacklevel=2)

    def describe(self) -> str:
        """Name the function."""
        return f"device function {self.function.__name__}"

    def line(self) -> tuple[str, int]:
        """Return the file and line of the call."""
        site = self.site()
        return site.path, site.line

    def site(self) -> Site:
        """Return the place of the call."""
        return Site(self.code, self.lasti)


@types.coroutine
def awaited(call: DeviceCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generator[Any, Any, Any]:
    """Return what runs the function of `call` when it is awaited, which it is once.

    Of a call that nobody awaits not even this begins, and `call` goes with it.
    """
    call.thread = None
    return (yield from call.function(*args, **kwargs))
