"""How long a transfer takes under a virtual clock: which memories its bytes cross, and which of them is the slowest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from atops.device.dte.operations import memcpy
from atops.device.dte.transfer import CHAINED, DteEvent, Operand
from atops.device.geometry import root_of
from atops.device.span.span import Space, Span

if TYPE_CHECKING:
    from atops.device.dte.context import DteContext
    from atops.device.exec.thread import KernelThread

__all__ = ("duration", "time_transfer")


def time_transfer(event: DteEvent, thread: KernelThread, context: DteContext) -> None:
    """Note when a transfer that was issued now is over, and those of connected contexts that waited for it.

    One that comes after a transfer that was not started yet is timed when that is.
    """
    assert thread.cost is not None
    if event.state is CHAINED:
        _time_chained(event)
    else:
        event.over_at = thread.cost.issue(duration(event, thread))
    chain = context.chain
    if chain is not None and event.over_at:
        for later in chain.later:
            if (waiting := later.busy) is not None and waiting.state is CHAINED and not waiting.over_at:
                _time_chained(waiting)


def _time_chained(event: DteEvent) -> None:
    """Time a transfer that comes after others, if they are all timed; then those that come after it."""
    if all(isinstance(step, DteEvent) and step.over_at for step in event.after):
        thread = event.thread
        assert thread.cost is not None
        event.over_at = thread.cost.issue(duration(event, thread), max(step.over_at for step in event.after))
        chain = event.context.chain
        for later in () if chain is None else chain.later:
            if (waiting := later.busy) is not None and waiting.state is CHAINED and not waiting.over_at:
                _time_chained(waiting)
    else:
        event.over_at = 0


def duration(event: DteEvent, thread: KernelThread) -> int:
    """Return the picoseconds of a transfer without its latency: of what takes the longest, for all go on at once.

    These are the bytes through the engine, those that are read or written in L3 at the launch's share of it, in the L2
    of the cluster at the block's share, and over a link to the host or another chip.
    """
    assert thread.cost is not None
    launch = thread.cost.block.launch
    read, written = _moved(event)
    source, target = _memory(event.source, thread) if read else "l1", _memory(event.destination, thread)
    in_l3 = read * (source == "l3") + written * (target == "l3")
    in_l2 = read * (source == "l2") + written * (target == "l2")
    longest = max(launch.through(max(read, written)), launch.l3.crossing(in_l3), launch.l2.crossing(in_l2))
    for memory, nbytes in ((source, read), (target, written)):
        if not isinstance(memory, str):
            longest = max(longest, launch.link(memory)[nbytes])
    return longest


def _moved(event: DteEvent) -> tuple[int, int]:
    """Return how many bytes a transfer reads and how many it writes."""
    into, out = event.into, event.out
    if event.operation is memcpy and out is not None:
        return out.nbytes, out.nbytes
    work = event.operation.work
    source = work.read(into, out, event.parameters)
    target = work.written(into, out, event.parameters)
    read = 0 if source is None else source.nbytes
    return read, read if target is None else target.nbytes


def _memory(operand: Operand | None, thread: KernelThread) -> str | int | None:
    """Return where an operand lies: "l1", "l2", "l3", the number of another chip, or None for the host's memory."""
    if isinstance(operand, Span):
        if operand.space is Space.LOCAL:
            return "l1"
        if operand.space is Space.SHARED:
            return "l2"
        allocation = operand.allocation
        if allocation is None or allocation.device == thread.grid.chip.ordinal:
            return "l3"  # a segment of constants has no allocation
        return allocation.device
    return "l2" if isinstance(operand, np.ndarray) and root_of(operand) is thread.block.cluster.l2 else "l1"
