"""Waits for the value of a word in memory, and writes of one."""

from __future__ import annotations

from typing import NamedTuple

from atops.base.errors import ExecutionError
from atops.base.trace.records import Kind
from atops.device.memory.allocation import Allocation, fill
from atops.device.memory.value_wait import Condition, Watch, satisfied
from atops.runtime.core import command_trace
from atops.runtime.core.commands import NOWHERE, Described, Ended, always, define, never, nothing, place
from atops.runtime.core.completion import Completion
from atops.runtime.executors.executor import HERE

__all__ = ("WaitValue", "WriteValue", "ends_wait", "meets")


class WaitValue(NamedTuple):
    """Wait until a 32- or 64-bit word satisfies a condition."""

    src: Allocation
    offset: int
    width: int
    value: int
    condition: Condition
    mask: int | None


class WriteValue(NamedTuple):
    """Write a 32- or 64-bit word."""

    dst: Allocation
    offset: int
    width: int
    value: int


def ends_wait(write: WriteValue, wait: WaitValue) -> bool:
    """Return whether a write stores to the word of a wait what that waits for."""
    at = wait.src, wait.offset, wait.width
    return (write.dst, write.offset, write.width) == at and meets(write.value, wait)


def meets(value: int, wait: WaitValue) -> bool:
    """Return whether a value, written to the word of a wait, is what that waits for."""
    return satisfied(value % (1 << wait.width), wait.value, wait.condition, wait.mask, wait.width)


def _run_wait_value(command: WaitValue, item: Completion) -> bool:
    """Test the word now and after every write to it, until it satisfies the condition."""
    board = item.queue.board

    def satisfied() -> None:
        item.writer = HERE.writer
        if (detector := board.detector) is not None:
            detector.satisfied(item, watch)
        item.finish()

    watch = Watch(*command, satisfied, on_dead=item.finish, poll=board.poller.add)
    item.parked = watch

    def cancel(error: ExecutionError) -> None:
        watch.cancel()
        item.finish(error)

    item.stop = cancel
    watch.arm()  # may fire here and now
    if board.tracer.detail and not item.over:
        command_trace.park(item)
    return False


def _run_write_value(command: WriteValue, item: Completion) -> bool:
    """Write the word and let every value wait on it look again."""
    size = command.width // 8
    HERE.writer = item.seq  # so that the trace can draw which write ended which wait
    try:
        fill(command.dst, command.offset, (command.value % (1 << command.width)).to_bytes(size, "little"), 1)
    finally:
        HERE.writer = -1
    return True


def _describe_wait_value(command: WaitValue, item: Completion) -> Described:
    """Describe a wait for a value: the write that satisfied it, if the runtime made it, is its cause."""
    return (Kind.WAIT_VALUE, command.width // 8, *NOWHERE, *place(command.src, command.offset), item.writer, "")


define(
    WaitValue,
    words=lambda _: "wait_value",
    run=_run_wait_value,
    run_timed=_run_wait_value,
    describe=_describe_wait_value,
    uses=nothing,
    reads=nothing,
    touches=nothing,
    effect=always,
    waits=always,
    silent=False,
    ended=Ended("wait_value"),
)
define(
    WriteValue,
    words=lambda _: "write_value",
    run=_run_write_value,
    run_timed=_run_write_value,
    describe=lambda write, _: (Kind.WRITE_VALUE, write.width // 8, *place(write.dst, write.offset), *NOWHERE, -1, ""),
    uses=nothing,
    reads=nothing,
    touches=lambda write: ((write.dst, write.offset, write.offset + write.width // 8, True),),
    effect=always,
    waits=never,
    silent=True,
    ended=Ended("write_value"),
)
