"""How scatter memory is copied and filled in stream order (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from functools import partial

import numpy as np

from atops.device.memory.allocation import Allocation
from atops.runtime.core.commands import ScatteredCopy
from atops.runtime.core.completion import Completion
from atops.runtime.execute.copy import run_here_or_beside
from atops.runtime.memory.scatter import read_from, write_to
from atops.runtime.queues.queue import StreamQueue

__all__ = ("carry_out_scattered", "run_scattered")

DIRECT = 64 << 10  # a larger copy takes longer than a thread hop


def run_scattered(stream: StreamQueue, item: Completion) -> bool:
    """Copy here, or on a copy thread when it is large."""
    command: ScatteredCopy = item.command
    return run_here_or_beside(stream, item, partial(carry_out_scattered, command), command.size <= DIRECT)


def carry_out_scattered(command: ScatteredCopy) -> None:
    """Read all, then write all. Raises IllegalAddress for memory that was freed."""
    src, start, size = command.src, command.src_offset, command.size
    if isinstance(src, Allocation):
        data = read_from(src, start, size, "copy to scatter memory")
    else:
        data = np.frombuffer(src, np.uint8)[start : start + size]
    dst, offset = command.dst, command.dst_offset
    if isinstance(dst, Allocation):
        write_to(dst, offset, data, "copy from scatter memory")
    else:
        dst[offset : offset + size] = data.data
