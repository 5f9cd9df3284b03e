"""Where a function runs and who may call it: the execution spaces of TOPS C++, 8.1. It knows no kernel."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import Flag
from types import FunctionType
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

from atops.base.errors import IllegalState, InvalidType
from atops.device.call_site import caller
from atops.device.exec.thread import maybe_current_thread
from atops.kernels.device_call import DeviceCall, awaited

__all__ = ("ExecutionSpace", "execution_space", "qualified")

P = ParamSpec("P")
R = TypeVar("R")

MARK = "__execution_space__"

_made: WeakSet[Callable[..., Any]] = WeakSet()  # by `qualified`: `functools.wraps` copies the mark to other functions


class ExecutionSpace(Flag):
    """The execution space of a function; HOST and DEVICE go together, GLOBAL with neither."""

    HOST = 1
    DEVICE = 2
    GLOBAL = 4

    def __str__(self) -> str:
        return " ".join(text for space, text in _DECORATORS.items() if space in self)


_DECORATORS = {ExecutionSpace.HOST: "@host", ExecutionSpace.DEVICE: "@device", ExecutionSpace.GLOBAL: "@kernel"}


def execution_space(function: object) -> ExecutionSpace | None:
    """Return the execution space that a function was given, None without any."""
    found = getattr(function, MARK, None)
    return found if isinstance(found, ExecutionSpace) else None


def qualified(function: Callable[P, R], space: ExecutionSpace) -> Callable[P, R]:
    """Return a function that is called in `space` only, or in both where it has the other one already.

    Raises InvalidType for what is no function, and for a kernel.
    """
    before = execution_space(function)
    if before is ExecutionSpace.GLOBAL:
        raise InvalidType(f"{function!r} cannot be {space} as well: a kernel is launched, and nobody calls it")
    if not isinstance(function, FunctionType):
        raise InvalidType(f"a {_name(space)} function is made of a function, not of {function!r}")
    plain: Callable[P, R] = function
    if function in _made and before is not None:
        plain, space = function.__wrapped__, space | before  # type: ignore[attr-defined]  # `wraps` has set it
    call = _on_both(plain) if space == ExecutionSpace.HOST | ExecutionSpace.DEVICE else _on_one(plain, space)
    setattr(call, MARK, space)
    _made.add(call)
    return call


def _on_both(function: Callable[P, R]) -> Callable[P, R]:
    waits = inspect.iscoroutinefunction(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if waits and (thread := maybe_current_thread()) is not None:
            return awaited(DeviceCall(thread, function), args, kwargs)  # type: ignore[arg-type, return-value]  # it waits
        return function(*args, **kwargs)

    return call


def _on_one(function: Callable[P, R], space: ExecutionSpace) -> Callable[P, R]:
    on_host = space is ExecutionSpace.HOST
    name = getattr(function, "__name__", repr(function))
    waits = inspect.iscoroutinefunction(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        thread = maybe_current_thread()
        if (thread is None) is not on_host:
            if thread is not None:
                raise IllegalState(f"{thread} at {caller()}: host function {name} was called; only the host calls it")
            raise IllegalState(f"device function {name} was called on the host; only kernels call it")
        if waits and thread is not None:
            return awaited(DeviceCall(thread, function), args, kwargs)  # type: ignore[arg-type, return-value]  # it waits
        return function(*args, **kwargs)

    return call


def _name(space: ExecutionSpace) -> str:
    return "host" if space is ExecutionSpace.HOST else "device"
