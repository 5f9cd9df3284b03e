"""Functions that only the host calls: `__host__` (TOPS C++, 8.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from atops.kernels.execution_space import ExecutionSpace, qualified

__all__ = ("host",)

P = ParamSpec("P")
R = TypeVar("R")


def host(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function that only the host may call.

    Calling it in a kernel raises IllegalState naming the thread, the kernel and the line. Together with `@device`, in
    either order, it is `__host__ __device__`: both sides call it, and `k.AGCU_ARCH is None` tells which one does
    (TOPS C++, 8.1). Raises InvalidType for what is no function, and for a kernel.
    """
    return qualified(function, ExecutionSpace.HOST)
