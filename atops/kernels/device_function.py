"""Functions that kernels call: `__device__` (TOPS C++, 8.1)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from atops.base.errors import IllegalState, InvalidType
from atops.device.requests import maybe_current_thread

__all__ = ("device",)

P = ParamSpec("P")
R = TypeVar("R")


def device(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function that only kernels and other device functions may call; an `async def` one is awaited.

    Calling it on the host raises IllegalState. A function without any decorator may be called from both sides, as
    `__host__ __device__` is. Raises InvalidType for what is no function.
    """
    if not inspect.isfunction(function):
        raise InvalidType(f"a device function is made of a function, not of {function!r}")

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if maybe_current_thread() is None:
            raise IllegalState(f"device function {function.__name__} was called on the host; only kernels call it")
        result: R = function(*args, **kwargs)
        return result

    return call
