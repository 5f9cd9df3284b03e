"""Combining two arrays element by element in stream order (TOPS Runtime API, 2.11): the arithmetic, and how it runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import ml_dtypes
import numpy as np

from atops.base.dtypes import quietly
from atops.runtime.core.commands import Reduce
from atops.runtime.core.completion import Completion
from atops.runtime.execute.copy import run_here_or_beside
from atops.runtime.memory.scatter import read_from, write_to
from atops.runtime.queues.queue import StreamQueue

__all__ = ("OPERATIONS", "carry_out_reduce", "combine", "run_reduce")

OPERATIONS: Final[Mapping[str, Any]] = MappingProxyType(
    {"sum": np.add, "product": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
)
NARROW: Final = frozenset({np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})
LARGE: Final = 1 << 20  # bytes; a larger one takes longer than a thread hop


def combine(operation: str, lhs: Any, rhs: Any) -> Any:
    """Return the element-wise result of two arrays of one dtype, in that dtype.

    Integers wrap; half and bfloat16 are computed in float32 and rounded once; maximum and minimum propagate NaN.
    """
    dtype, function = lhs.dtype, OPERATIONS[operation]
    if dtype in NARROW:
        return quietly(quietly(function, lhs.astype(np.float32), rhs.astype(np.float32)).astype, dtype)
    return quietly(function, lhs, rhs)


def run_reduce(stream: StreamQueue, item: Completion) -> bool:
    """Combine here, or on a copy thread when it is large."""
    command: Reduce = item.command
    short = command.elements * command.dtype.itemsize <= LARGE
    return run_here_or_beside(stream, item, partial(carry_out_reduce, command), short)


def carry_out_reduce(command: Reduce) -> None:
    """Combine and store. Raises IllegalAddress when an end is not live; then nothing is stored."""
    nbytes = command.elements * command.dtype.itemsize
    who, (result, offset) = f"reduce {command.operation}", command.result
    lhs, rhs = (read_from(*end, nbytes, who).view(command.dtype) for end in (command.lhs, command.rhs))
    write_to(result, offset, combine(command.operation, lhs, rhs).view(np.uint8), who)
