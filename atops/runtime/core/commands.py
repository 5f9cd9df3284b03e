"""The verbs of a stream as frozen records. A queue of them can be printed, traced and drawn."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from atops.base.waiting.loop_adapter import LoopAdapter
from atops.device.memory.allocation import Allocation
from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event

__all__ = (
    "PERHAPS_NOTHING",
    "PLAIN_LAUNCH",
    "Alloc",
    "Call",
    "Command",
    "Copy",
    "Fill",
    "Free",
    "Launch",
    "LaunchOptions",
    "Record",
    "Reduce",
    "ScatteredCopy",
    "WaitEvent",
    "WaitValue",
    "WriteValue",
    "has_effect",
)


class Copy(NamedTuple):
    """Move `size` bytes. Either end is an allocation, or host bytes (a memoryview) with no address of their own."""

    dst: Allocation | memoryview
    dst_offset: int
    src: Allocation | memoryview | bytes
    src_offset: int
    size: int
    kind: int
    checksum: int | None = None


class ScatteredCopy(NamedTuple):
    """Move `size` bytes, at least one end of which is scatter memory. Else as a Copy; `kind` is the trace's."""

    dst: Any
    dst_offset: int
    src: Any
    src_offset: int
    size: int
    kind: int


class Reduce(NamedTuple):
    """Store `operation(lhs, rhs)` of so many `elements`. Each end is an allocation and an offset in it, in bytes."""

    operation: str
    dtype: np.dtype[Any]
    elements: int
    lhs: tuple[Allocation, int]
    rhs: tuple[Allocation, int]
    result: tuple[Allocation, int]


class Fill(NamedTuple):
    """Write `pattern` so many `times`."""

    dst: Allocation
    offset: int
    pattern: bytes
    times: int


class Launch(NamedTuple):
    """Run a kernel that is bound to its arguments."""

    bound: Any
    config: Any
    options: LaunchOptions


class LaunchOptions(NamedTuple):
    """What a launch carries beside its geometry."""

    start: Event | None = None
    stop: Event | None = None
    meeting: Any = None  # of a cooperative launch over several streams
    bundle: Any = None  # the resource bundle that it runs in
    pinned: tuple[int, ...] | None = None  # the cluster of each block


PLAIN_LAUNCH = LaunchOptions()  # of a launch that carries nothing: known by being this very tuple


class Record(NamedTuple):
    """Mark this point of the stream in an event."""

    event: Event


class WaitEvent(NamedTuple):
    """Wait for the record that an event held when the wait was enqueued (None: never recorded, no wait)."""

    event: Event
    record: Completion | None


class WaitValue(NamedTuple):
    """Wait until a 32- or 64-bit word satisfies a condition."""

    src: Allocation
    offset: int
    width: int
    value: int
    condition: Any
    mask: int | None


class WriteValue(NamedTuple):
    """Write a 32- or 64-bit word."""

    dst: Allocation
    offset: int
    width: int
    value: int


class Call(NamedTuple):
    """Call a host function or coroutine function in stream order."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    holds: bool
    wants_error: bool
    adapter: LoopAdapter | None
    context: Context

    @property
    def name(self) -> str:
        """What messages call the function. Not its repr: that of a stream's method would show the stream's queue."""
        function: Any = self.function
        while isinstance(function, partial):
            function = function.func
        return str(getattr(function, "__qualname__", type(function).__qualname__))


class Alloc(NamedTuple):
    """Memory becomes usable from here on."""

    allocation: Allocation


class Free(NamedTuple):
    """Memory is given back once the stream comes here."""

    allocation: Allocation
    release: Callable[[Allocation, str], None]


Command = (
    Copy
    | ScatteredCopy
    | Reduce
    | Fill
    | Launch
    | Record
    | WaitEvent
    | WaitValue
    | WriteValue
    | Call
    | Alloc
    | Free
)

PERHAPS_NOTHING = frozenset({Copy, Fill, ScatteredCopy, WaitEvent})  # the commands that may have no effect


def has_effect(command: Command) -> bool:
    """Tell whether a command is one to null-stream order: a copy of no bytes is not, nor a wait for no record."""
    if isinstance(command, WaitEvent):
        return command.record is not None
    if isinstance(command, Fill):
        return command.times > 0
    return not isinstance(command, Copy | ScatteredCopy) or command.size > 0
