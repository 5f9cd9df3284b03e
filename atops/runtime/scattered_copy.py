"""How scatter memory is copied and filled in stream order (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from atops.device.allocation import Allocation
from atops.runtime.completion import Completion
from atops.runtime.execute_copy import run_here_or_beside
from atops.runtime.execution import EXECUTE
from atops.runtime.scattered import Scattered
from atops.runtime.stream_queue import StreamQueue
from atops.runtime.trace_item import DESCRIBE, place

__all__ = ("ScatteredCopy", "describe_scattered", "run_scattered")

DIRECT = 64 << 10  # a larger copy takes longer than a thread hop


class ScatteredCopy(NamedTuple):
    """Move `size` bytes, at least one end of which is scatter memory. Else as a Copy; `kind` is the trace's."""

    dst: Any
    dst_offset: int
    src: Any
    src_offset: int
    size: int
    kind: int


def run_scattered(stream: StreamQueue, item: Completion) -> bool:
    """Copy here, or on a copy thread when it is large."""
    command: ScatteredCopy = item.command
    return run_here_or_beside(stream, item, partial(_carry_out, command), command.size <= DIRECT)


def _carry_out(command: ScatteredCopy) -> None:
    """Read all, then write all. Raises IllegalAddress for memory that was freed."""
    data = _read(command.src, command.src_offset, command.size)
    dst, offset = command.dst, command.dst_offset
    if isinstance(dst, Scattered):
        dst.write(offset, data)
    elif isinstance(dst, Allocation):
        view = dst.view
        dst.check(offset, command.size, "copy from scatter memory")
        view[offset : offset + command.size] = data
        dst.wrote(offset, command.size)
    else:
        dst[offset : offset + command.size] = data


def _read(src: Any, offset: int, size: int) -> Any:
    if isinstance(src, Scattered):
        return src.read(offset, size).data
    if isinstance(src, Allocation):
        view = src.view
        src.check(offset, size, "copy to scatter memory")
        return view[offset : offset + size]
    return src[offset : offset + size]


def describe_scattered(
    item: Completion, command: ScatteredCopy
) -> tuple[int, int, int, int, int, int, int, str]:
    """Describe the copy to the tracer; scatter memory has no one place, and so is called by its name."""
    ends = *place(command.dst, command.dst_offset), *place(command.src, command.src_offset)
    return (command.kind, command.size, *ends, -1, "scatter memory")


# A verb that the extensions add to the streams' own.
EXECUTE[ScatteredCopy] = run_scattered
DESCRIBE[ScatteredCopy] = describe_scattered
