"""How commands that move bytes run under a virtual clock: each holds a copy engine for as long as its bytes take.

The other commands run as ever, in no time: kernels have no cost model, and what the host calls is the host's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from atops.base.options import EmulatorOptions
from atops.base.trace.tracer import Kind
from atops.device.copy_engine import Direction
from atops.device.memory.allocation import fill
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.commands import Copy, Fill, Reduce, ScatteredCopy
from atops.runtime.core.completion import Completion
from atops.runtime.execute.copy import copying_context, linked, run_here_or_beside, run_on_engine, stage_through_host
from atops.runtime.execute.cost_model import command_ns
from atops.runtime.execute.reduce import carry_out_reduce
from atops.runtime.execute.scattered_copy import carry_out_scattered
from atops.runtime.execute.stale_reads import Run, looking
from atops.runtime.execute.table import EXECUTE
from atops.runtime.queues.copy_batch import DIRECTIONS, carry_out
from atops.runtime.queues.queue import StreamQueue

__all__ = ("how_to_run", "run_timed_copy", "run_timed_fill", "run_timed_reduce", "run_timed_scattered")


def how_to_run(options: EmulatorOptions) -> Mapping[type, Run]:
    """Return how commands of each type run on a board with these options: chosen once, so that none asks again."""
    execute = EXECUTE_TIMED if options.clock == "virtual" else EXECUTE
    return looking(execute) if options.strict else execute


def run_timed_copy(stream: StreamQueue, item: Completion) -> bool:
    """Copy on an engine, however short; between devices without a link in two halves, on an engine of each."""
    command: Copy = item.command
    if command.kind == Kind.COPY_PEER and not linked(stream, command):
        return stage_through_host(stream, item, command_ns)
    direction = DIRECTIONS.get(command.kind, Direction.NONE)
    return _run(stream, item, copying_context(stream, command), direction, partial(carry_out, command))


def run_timed_scattered(stream: StreamQueue, item: Completion) -> bool:
    """Copy scatter memory on an engine; a fill of it is such a copy, too."""
    command: ScatteredCopy = item.command
    direction = DIRECTIONS.get(command.kind, Direction.NONE)
    return _run(stream, item, copying_context(stream, command), direction, partial(carry_out_scattered, command))


def run_timed_fill(stream: StreamQueue, item: Completion) -> bool:
    """Fill on an engine: device memory without the link, mapped host memory over it."""
    command: Fill = item.command
    device, action = command.dst.device, partial(fill, command.dst, command.offset, command.pattern, command.times)
    if device is None:
        return _run(stream, item, stream.context, Direction.DEVICE_TO_HOST, action)
    context = stream.context if device == stream.context.ordinal else stream.driver.context(device)
    return _run(stream, item, context, Direction.NONE, action)


def run_timed_reduce(stream: StreamQueue, item: Completion) -> bool:
    """Combine when its bytes have had their time. It computes, which is no copy engine's work: it holds none."""
    command: Reduce = item.command
    action = partial(carry_out_reduce, command)
    duration = command_ns(stream.context, command)
    if duration:
        stream.driver.executor.spend(duration, lambda: run_here_or_beside(stream, item, action, short=False))
        return False
    return run_here_or_beside(stream, item, action, short=True)


def _run(
    stream: StreamQueue, item: Completion, context: DeviceContext, direction: Direction, action: Callable[[], None]
) -> bool:
    """Hold an engine of a device for the command's time. As an `EXECUTE` function."""
    takes = partial(command_ns, context, item.command)
    run_on_engine(context, stream, item, direction, action, partial(stream.finish, item), takes)
    return False


EXECUTE_TIMED: Final[Mapping[type, Run]] = MappingProxyType({
    **EXECUTE,
    Copy: run_timed_copy,
    ScatteredCopy: run_timed_scattered,
    Fill: run_timed_fill,
    Reduce: run_timed_reduce,
})
