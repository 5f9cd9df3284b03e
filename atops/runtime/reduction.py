"""Combining two arrays element by element in stream order (TOPS Runtime API, 2.11): the arithmetic and its command."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from atops.base.tracing import Kind
from atops.device.allocation import Allocation
from atops.runtime.completion import Completion
from atops.runtime.execute_copy import run_here_or_beside
from atops.runtime.execution import EXECUTE
from atops.runtime.stream_queue import StreamQueue
from atops.runtime.trace_item import DESCRIBE, place

__all__ = ("OPERATIONS", "Reduce", "combine", "describe_reduce", "run_reduce")

OPERATIONS: Final[Mapping[str, Any]] = MappingProxyType(
    {"sum": np.add, "product": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
)
NARROW: Final = frozenset({np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})
LARGE: Final = 1 << 20  # bytes; a larger one takes longer than a thread hop


class Reduce(NamedTuple):
    """Store `operation(lhs, rhs)` of so many `elements`. Each end is an allocation and an offset in it, in bytes."""

    operation: str
    dtype: np.dtype[Any]
    elements: int
    lhs: tuple[Allocation, int]
    rhs: tuple[Allocation, int]
    result: tuple[Allocation, int]


def combine(operation: str, lhs: Any, rhs: Any) -> Any:
    """Return the element-wise result of two arrays of one dtype, in that dtype.

    Integers wrap; half and bfloat16 are computed in float32 and rounded once; maximum and minimum propagate NaN.
    """
    dtype, function = lhs.dtype, OPERATIONS[operation]
    with np.errstate(all="ignore"):
        if dtype in NARROW:
            return function(lhs.astype(np.float32), rhs.astype(np.float32)).astype(dtype)
        return function(lhs, rhs)


def run_reduce(stream: StreamQueue, item: Completion) -> bool:
    """Combine here, or on a copy thread when it is large."""
    command: Reduce = item.command
    short = command.elements * command.dtype.itemsize <= LARGE
    return run_here_or_beside(stream, item, partial(_carry_out, command), short)


def _carry_out(command: Reduce) -> None:
    """Combine and store. Raises IllegalAddress when an end is not live; then nothing is stored."""
    nbytes = command.elements * command.dtype.itemsize
    arrays = []
    for allocation, offset in (command.lhs, command.rhs, command.result):
        data = allocation.data  # taken before the check: an allocation freed in between is then still mapped
        allocation.check(offset, nbytes, f"reduce {command.operation}")
        arrays.append(data[offset : offset + nbytes].view(command.dtype))
    lhs, rhs, result = arrays
    result[:] = combine(command.operation, lhs, rhs)
    command.result[0].wrote(command.result[1], nbytes)


def describe_reduce(item: Completion, command: Reduce) -> tuple[int, int, int, int, int, int, int, str]:
    """Describe a reduction to the tracer: as a launch, because it computes, by its operation and type."""
    nbytes = command.elements * command.dtype.itemsize
    name = f"reduce {command.operation} {command.dtype}"
    return (int(Kind.LAUNCH), nbytes, *place(*command.result), *place(*command.lhs), -1, name)


# A verb that the extensions add to the streams' own.
EXECUTE[Reduce] = run_reduce
DESCRIBE[Reduce] = describe_reduce
