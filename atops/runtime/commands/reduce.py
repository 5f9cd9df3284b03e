"""Reductions: combining two arrays element by element in stream order (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from atops.base.dtypes import DType, quietly
from atops.base.trace.records import Kind
from atops.device.memory.allocation import Allocation
from atops.runtime.commands.copy import ending, run_here_or_beside
from atops.runtime.commands.cost_model import legs_ns, read_legs, write_legs
from atops.runtime.core.commands import Described, Ended, ReadRange, Touch, UsedRange, always, define, never, place
from atops.runtime.core.completion import Completion
from atops.runtime.memory.scatter import ranges_of, read_from, touches_of, write_to

__all__ = ("OPERATIONS", "Reduce", "combine")

OPERATIONS: Final[Mapping[str, Any]] = MappingProxyType(
    {"sum": np.add, "product": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
)
NARROW: Final = frozenset({np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})
LARGE: Final = 1 << 20  # bytes; a larger one takes longer than a thread hop


class Reduce(NamedTuple):
    """Store `operation(lhs, rhs)` of so many `elements`. Each end is an allocation and an offset in it, in bytes."""

    operation: str
    dtype: DType
    elements: int
    lhs: tuple[Allocation, int]
    rhs: tuple[Allocation, int]
    result: tuple[Allocation, int]

    @property
    def size(self) -> int:
        """How many bytes each end has."""
        return self.elements * self.dtype.itemsize


def combine(operation: str, lhs: Any, rhs: Any) -> Any:
    """Return the element-wise result of two arrays of one dtype, in that dtype.

    Integers wrap; half and bfloat16 are computed in float32 and rounded once; maximum and minimum propagate NaN.
    """
    dtype, function = lhs.dtype, OPERATIONS[operation]
    if dtype in NARROW:
        return quietly(quietly(function, lhs.astype(np.float32), rhs.astype(np.float32)).astype, dtype)
    return quietly(function, lhs, rhs)


def _carry_out(command: Reduce) -> None:
    """Combine and store. Raises IllegalAddress when an end is not live; then nothing is stored."""
    name, (result, offset) = f"reduce {command.operation}", command.result
    lhs, rhs = (read_from(*end, command.size, name).view(command.dtype) for end in (command.lhs, command.rhs))
    write_to(result, offset, combine(command.operation, lhs, rhs).view(np.uint8), name)


def _run_reduce(command: Reduce, item: Completion) -> bool:
    return run_here_or_beside(item, partial(_carry_out, command), command.size <= LARGE)


def _run_timed_reduce(command: Reduce, item: Completion) -> bool:
    """Combine when its bytes have had their time. It computes, which is no copy engine's work: it holds none."""
    context, action = item.queue.context, partial(_carry_out, command)
    reads = (leg for end in (command.lhs, command.rhs) for leg in read_legs(context, *end, command.size))
    duration = legs_ns((*reads, *write_legs(context, command.result[0], command.size)))
    if duration:
        item.queue.board.executor.spend(duration, ending(item, action), item.queue.priority)
        return False
    return run_here_or_beside(item, action, short=True)


def _describe_reduce(command: Reduce, item: Completion) -> Described:
    """Describe a reduction: as a launch, because it computes, by its operation and type."""
    name = f"reduce {command.operation} {command.dtype}"
    return (Kind.LAUNCH, command.size, *place(*command.result), *place(*command.lhs), -1, name)


def _ranges_of_reduce(command: Reduce) -> Iterable[UsedRange]:
    """Return both operands and the result, of which the trace record tells the first and the last."""
    return ranges_of((*end, command.size) for end in (command.lhs, command.rhs, command.result))


def _operands_of(command: Reduce) -> Iterable[ReadRange]:
    return [(memory, start, start + command.size) for memory, start in (command.lhs, command.rhs)]


def _touches_of_reduce(command: Reduce) -> Iterable[Touch]:
    (result, at), size = command.result, command.size
    read = [touch for memory, start in (command.lhs, command.rhs) for touch in touches_of(memory, start, size, False)]
    return (*read, *touches_of(result, at, size, True))


define(
    Reduce,
    words=lambda _: "reduce",
    run=_run_reduce,
    run_timed=_run_timed_reduce,
    describe=_describe_reduce,
    uses=_ranges_of_reduce,
    reads=_operands_of,
    touches=_touches_of_reduce,
    effect=always,
    waits=never,
    silent=False,
    ended=Ended("reduce"),
)
