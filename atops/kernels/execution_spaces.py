"""Execution spaces: functions of the device, of the host, and of both. TOPS C++, 8.1.

The call of an `async` device function is awaited; one that is not is reported as a MissingAwait with its line.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import warnings
from collections.abc import Callable, Coroutine, Generator
from enum import Flag
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

from atops.base.errors import IllegalState, InvalidType
from atops.device.call_site import Site, caller
from atops.device.exec.thread import KernelThread, Request, maybe_current_thread
from atops.kernels.stores import check_stores

__all__ = ("DeviceCall", "ExecutionSpace", "device", "execution_space", "host")

P = ParamSpec("P")
R = TypeVar("R")

MARK = "__execution_space__"

_made: WeakSet[Callable[..., object]] = WeakSet()  # by `_qualified`: `functools.wraps` copies the mark as well


class ExecutionSpace(Flag):
    """The execution space of a function; HOST and DEVICE go together, GLOBAL with neither."""

    HOST = 1
    DEVICE = 2
    GLOBAL = 4

    def __str__(self) -> str:
        return " ".join(text for space, text in _DECORATORS.items() if space in self)


_DECORATORS = {ExecutionSpace.HOST: "@host", ExecutionSpace.DEVICE: "@device", ExecutionSpace.GLOBAL: "@kernel"}


def device(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function that only kernels and other device functions may call; an `async def` one is awaited.

    A call that is never awaited raises MissingAwait with its line, at the thread's next request or at its end. Calling
    it on the host raises IllegalState. Together with `@host`, in either order, both sides call it, as they do
    a function without any decorator (TOPS C++, 8.1). Raises InvalidType for what is no function, for a kernel, and
    where the function assigns to the name of a variable, which stores nothing.
    """
    return _qualified(function, ExecutionSpace.DEVICE)


def host(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function that only the host may call.

    Calling it in a kernel raises IllegalState naming the thread, the kernel and the line. Together with `@device`, in
    either order, it is `__host__ __device__`: both sides call it, and `k.AGCU_ARCH is None` tells on which side it runs
    (TOPS C++, 8.1). Raises InvalidType for what is no function, and for a kernel.
    """
    return _qualified(function, ExecutionSpace.HOST)


def execution_space(function: object) -> ExecutionSpace | None:
    """Return the execution space that a function was given, None without any."""
    found = getattr(function, MARK, None)
    return found if isinstance(found, ExecutionSpace) else None


def _qualified(function: Callable[P, R], space: ExecutionSpace) -> Callable[P, R]:
    """Return a function that is called in `space` only, or in both where it has the other one already."""
    before = execution_space(function)
    if before is ExecutionSpace.GLOBAL:
        raise InvalidType(f"{function!r} cannot be {space} as well: a kernel is launched, never called")
    if not isinstance(function, types.FunctionType):
        raise InvalidType(f"{space} expects a function, got {function!r}")
    if ExecutionSpace.DEVICE in space:
        check_stores(function, f"device function {function.__name__}")
    plain: Callable[P, R] = function
    if function in _made and before is not None:
        plain, space = function.__wrapped__, space | before  # type: ignore[attr-defined]  # `wraps` has set it
    call = _guarded(plain, space)
    setattr(call, MARK, space)
    _made.add(call)
    return call


def _guarded(function: Callable[P, R], space: ExecutionSpace) -> Callable[P, R]:
    """Return the function with a check, at each call, that it is called in its execution space."""
    refused_in_kernels, refused_on_host = space is ExecutionSpace.HOST, space is ExecutionSpace.DEVICE
    name = getattr(function, "__name__", repr(function))
    waits = inspect.iscoroutinefunction(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        thread = maybe_current_thread()
        if thread is None:
            if refused_on_host:
                raise IllegalState(f"device function {name} was called on the host; only kernels call it")
        elif refused_in_kernels:
            raise IllegalState(f"{thread} at {caller()}: host function {name} was called; only the host calls it")
        elif waits:
            return _awaited(DeviceCall(thread, function), args, kwargs)  # type: ignore[arg-type, return-value]  # it waits
        return function(*args, **kwargs)

    return call


class DeviceCall(Request):
    """A call that is not awaited yet. When it is deleted, its thread owes it, as it would owe a request."""

    __slots__ = ("code", "function", "thread")

    def __init__(self, thread: KernelThread, function: Callable[..., Coroutine[object, None, Any]]) -> None:
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
            thread.unawaited = self  # kept alive there; the thread's next request or its end reports it
        else:  # a thread owes one request: another call is reported as Python reports coroutines
            text = f"{thread}: {self.describe()} at {self.site()} was never awaited"
            warnings.warn(text, RuntimeWarning, stacklevel=2)

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
def _awaited(
    call: DeviceCall, args: tuple[object, ...], kwargs: dict[str, object]
) -> Generator[object, None, object]:
    """Return what runs the function of `call` when it is awaited. Without an await, `call` is deleted unstarted."""
    call.thread = None
    return (yield from call.function(*args, **kwargs))
