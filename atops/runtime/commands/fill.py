"""Fills: writing one pattern many times."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from atops.base.trace.records import Kind
from atops.device.copy_engine import Direction
from atops.device.memory.allocation import Allocation, fill
from atops.runtime.board.context import DeviceContext
from atops.runtime.commands.copy import run_here_or_beside, run_on_engine
from atops.runtime.commands.cost_model import legs_ns, write_legs
from atops.runtime.core.commands import NOWHERE, Ended, define, never, nothing, place
from atops.runtime.core.completion import Completion

__all__ = ("Fill",)

LARGE = 1 << 20  # bytes; a larger fill takes longer than a thread hop


class Fill(NamedTuple):
    """Write `pattern` so many `times`."""

    dst: Allocation
    offset: int
    pattern: bytes
    times: int

    @property
    def size(self) -> int:
        """How many bytes it writes."""
        return len(self.pattern) * self.times

    def carry_out(self) -> None:
        """Write. Raises IllegalAddress when the memory is not live."""
        fill(self.dst, self.offset, self.pattern, self.times)


def _run_fill(command: Fill, item: Completion) -> bool:
    return run_here_or_beside(item, command.carry_out, command.size <= LARGE)


def _run_timed_fill(command: Fill, item: Completion) -> bool:
    """Fill on an engine: device memory without the link, mapped host memory over it."""
    device, context = command.dst.device, item.queue.context
    direction = Direction.DEVICE_TO_HOST if device is None else Direction.NONE
    if device is not None and device != context.ordinal:
        context = item.queue.board.context(device)
    run_on_engine(context, item, direction, command.carry_out, item.finish, partial(_ns, context, command))
    return False


def _ns(context: DeviceContext, command: Fill) -> int:
    return legs_ns(write_legs(context, command.dst, command.size))


define(
    Fill,
    words=lambda _: "fill",
    run=_run_fill,
    run_timed=_run_timed_fill,
    describe=lambda fill, item: (Kind.FILL, fill.size, *place(fill.dst, fill.offset), *NOWHERE, -1, ""),
    uses=nothing,
    reads=nothing,
    touches=lambda fill: ((fill.dst, fill.offset, fill.offset + fill.size, True),),
    effect=lambda fill: fill.times > 0,
    waits=never,
    silent=False,
    ended=Ended("fill"),
)
