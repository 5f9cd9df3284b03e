"""Reads of prefetched ranges that were written since: what strict mode reports (TOPS Runtime API, 2.11).

Data are coherent here, so such a program works; where the L2 buffer is not, it reads old bytes. The look is taken when
a command begins to read. It knows no kernel's accesses: one reads, for all that is known, whatever memory it is given.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from atops.device.memory.allocation import Allocation
from atops.runtime.core.commands import Copy, Launch, Reduce
from atops.runtime.core.completion import Completion
from atops.runtime.queues.queue import StreamQueue

__all__ = ("Run", "looking")

log = logging.getLogger("atops.cache")

Run = Callable[[StreamQueue, Completion], bool]


def looking(execute: Mapping[type, Run]) -> dict[type, Run]:
    """Return what runs commands as `execute` does, and looks first at what they read."""
    return {kind: _looked(run) if kind in (Copy, Launch, Reduce) else run for kind, run in execute.items()}


def _looked(run: Run) -> Run:
    def look_and_run(stream: StreamQueue, item: Completion) -> bool:
        for memory, start, end in _read_by(item.command):
            if memory.device is not None:
                for entry in stream.driver.context(memory.device).prefetched.stale(memory, start, end):
                    log.warning(
                        "%r reads bytes %d to %d of %r, which were written after they were prefetched; "
                        "topsMemCacheInvalidate before that is right", item, entry.start, entry.end, memory,
                    )  # fmt: skip
        return run(stream, item)

    return look_and_run


def _read_by(command: Copy | Launch | Reduce) -> Iterator[tuple[Allocation, int, int]]:
    """Yield which bytes a command reads, or may read."""
    match command:
        case Copy(src=Allocation() as memory, src_offset=start, size=size):
            yield memory, start, start + size
        case Reduce(dtype=dtype, elements=count, lhs=lhs, rhs=rhs):
            for memory, start in (lhs, rhs):
                yield memory, start, start + count * dtype.itemsize
        case Launch(bound=bound):
            for memory in bound.allocations:
                yield memory, 0, memory.size
