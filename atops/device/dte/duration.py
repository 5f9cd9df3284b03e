"""How long a transfer takes under a virtual clock: which memories its bytes cross, and which of them is the slowest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from atops.device.cost import LaunchCost
from atops.device.dte.transfer import CHAINED, DteEvent, Operand
from atops.device.geometry import Space, root_of
from atops.device.span.span import Span

if TYPE_CHECKING:
    from atops.device.dte.context import DteContext
    from atops.device.exec.thread import KernelThread

__all__ = ("duration", "time_transfer")

Memory = str | int | None  # "l1", "l2" or "l3", the number of another chip, or None for the host's memory
LOCAL, SHARED = Space.LOCAL, Space.SHARED  # an enumeration's member takes long to find
MOST_KNOWN = 4096


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
    read, written = event.operation.work.moved(event.into, event.out, event.parameters)
    source, target = _memory(event, event.source, thread) if read else "l1", _memory(event, event.destination, thread)
    key = read, written, source, target
    time = launch.known.get(key)
    if time is None:
        time = _longest(launch, read, written, source, target)
        if len(launch.known) < MOST_KNOWN:
            launch.known[key] = time
    return time


def _longest(launch: LaunchCost, read: int, written: int, source: Memory, target: Memory) -> int:
    in_l3 = read * (source == "l3") + written * (target == "l3")
    in_l2 = read * (source == "l2") + written * (target == "l2")
    longest = max(launch.through(max(read, written)), launch.l3.crossing(in_l3), launch.l2.crossing(in_l2))
    for memory, nbytes in ((source, read), (target, written)):
        if not isinstance(memory, str):
            longest = max(longest, launch.link(memory)[nbytes])
    return longest


def _memory(event: DteEvent, operand: Operand | None, thread: KernelThread) -> Memory:
    if type(operand) is Span:
        if (allocation := operand.allocation) is not None:
            return "l3" if allocation.device == thread.grid.chip.ordinal else allocation.device
        space = operand.space
        return "l1" if space is LOCAL else "l2" if space is SHARED else "l3"  # there, too, are segments of constants
    if event.context.shared or not isinstance(operand, np.ndarray):
        return "l2"
    l1 = thread.sip.l1
    return "l1" if operand.base is l1 or root_of(operand) is l1 else "l2"
