"""Functions that kernels call: `__device__` (TOPS C++, 8.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from atops.kernels.execution_space import ExecutionSpace, qualified

__all__ = ("device",)

P = ParamSpec("P")
R = TypeVar("R")


def device(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function that only kernels and other device functions may call; an `async def` one is awaited.

    A call that is never awaited raises MissingAwait with its line, at the thread's next request or at its end. Calling
    it on the host raises IllegalState. Together with `@host`, in either order, both sides call it, as they do
    a function without any decorator (TOPS C++, 8.1). Raises InvalidType for what is no function, and for a kernel.
    """
    return qualified(function, ExecutionSpace.DEVICE)
