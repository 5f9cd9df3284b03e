"""How the bytes of a copy move, and runs of short copies that are carried out in one go.

A short copy costs less than anything that could be done around it. So the drain claims a run of them under one taking
of the driver's lock and settles them under one more: besides the time, this keeps a producer and the drain from
queueing for that lock at every command.
"""

from __future__ import annotations

import zlib
from collections import deque
from itertools import islice

import numpy as np

from atops.base.errors import AtopsError, ExecutionError
from atops.base.trace.tracer import Kind
from atops.base.waiting.parking_lot import Waiter
from atops.device.copy_engine import Direction
from atops.device.memory.allocation import FENCED, Allocation, move
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.commands import Copy
from atops.runtime.core.completion import DONE, PENDING, RUNNING, Completion
from atops.runtime.core.failures import as_failure
from atops.runtime.core.services import DriverServices
from atops.runtime.queues.trace_record import copy_record

__all__ = (
    "COPY_D2H",
    "COPY_H2D",
    "DIRECT",
    "DIRECTIONS",
    "carry_out",
    "carry_out_run",
    "check_source",
    "checksum",
    "claim_run",
    "move_bytes",
    "settle_run",
)

DIRECT = 64 << 10  # up to here a copy costs less than the hop to a copy thread
KEEPS_GIL = 128 << 10  # up to here a memoryview moves bytes faster than numpy, and does not give up the GIL
RUN = 32  # copies claimed at a time
COPY_D2D, COPY_D2H, COPY_H2D = int(Kind.COPY_D2D), int(Kind.COPY_D2H), int(Kind.COPY_H2D)
DIRECTIONS: dict[int, Direction] = {
    Kind.COPY_H2D: Direction.HOST_TO_DEVICE,
    Kind.COPY_D2H: Direction.DEVICE_TO_HOST,
}


def claim_run(queue: deque[Completion], context: DeviceContext) -> list[Completion]:
    """Claim the short copies of one kind at the head of a queue, if the engines let them run now.

    With the driver's lock held. Returns an empty list where the head is something else. Claimed commands are running;
    what an abort finds so, it notes in them.
    """
    kind = queue[0].command.kind
    if context.prefetched.watched:
        return []  # each is looked at as it begins
    if kind == COPY_D2D:
        if context.engines.waiting:
            return []
    elif kind not in DIRECTIONS or not context.engines.quiet(DIRECTIONS[kind]):
        return []
    run: list[Completion] = []
    side = 0 if kind == COPY_H2D else 2  # where the end lies that may be of another device, whose link it would take
    here = context.ordinal
    for item in islice(queue, RUN):
        command = item.command
        if command.__class__ is not Copy or command[5] != kind or command[4] > DIRECT or item.deps is not None:
            break
        if item.share is not None:
            break  # it is held to engines of its own
        if kind != COPY_D2D and command[side].device != here:  # type: ignore[union-attr]  # that end is an allocation
            break
        item._state = RUNNING
        run.append(item)
    return run


def carry_out_run(run: list[Completion], driver: DriverServices) -> tuple[int, AtopsError | None]:
    """Carry out claimed copies, and leave a record of each where the trace is on; each begins when the one before ends.

    Returns how many went well, and what the next one failed with, if one did.
    """
    done = begun = 0
    now, emit, stream = driver.now, driver.tracer.emit, run[0].stream
    device, number = stream.context.ordinal, stream.number
    if tracing := driver.tracer.active:
        begun = now()
    try:
        for item in run:
            if item.aborted is not None and not item.duty:
                return done, item.aborted
            # `carry_out` spelled out, which pays by a tenth. The range was checked at the call and an allocation never
            # shrinks: only its life is asked here, after its bytes were taken: a free unmaps nothing that is held.
            dst, at, src, start, size, kind, check = item.command
            stores, loads = dst.__class__ is Allocation, src.__class__ is Allocation
            into, out = dst.view if stores else dst, src.view if loads else src
            if (stores and not dst.alive) or (loads and not src.alive) or check is not None:
                carry_out(item.command)  # raises, naming whose life is over, unless a checksum was all
            else:
                into[at : at + size] = out[start : start + size]
                if stores and (FENCED or dst.watches is not None):
                    dst.wrote(at, size)
            if tracing:
                ended = now()
                times = item.submitted_ns, begun, ended
                emit(copy_record(item.seq, kind, device, number, *times, size, dst, at, src, start))
                begun = ended
            done += 1
    except Exception as failure:
        if tracing:
            run[done].started_ns = begun
        return done, as_failure(failure, run[done])
    finally:
        if tracing:
            driver.tell_subscribers()
    return done, None


def settle_run(run: list[Completion], done: int, queue: deque[Completion]) -> list[Waiter]:
    """Settle the first `done` of a run, unclaim those behind the one that failed. With the driver's lock held.

    Returns whom to wake after it.
    """
    woken: list[Waiter] = []
    for item in run[:done]:
        queue.popleft()  # in order: nobody else takes what is claimed
        item._state = DONE
        if item._waiters is not None:
            woken += item.take_waiters()
    for item in run[done + 1 :]:
        item._state = PENDING
    return woken


def carry_out(command: Copy) -> None:
    """Move the bytes of one copy. Raises IllegalAddress when an end is not live."""
    dst, src, size = command.dst, command.src, command.size
    if type(src) is Allocation:
        if type(dst) is Allocation:
            move(dst, command.dst_offset, src, command.src_offset, size)
            return
        src.check(command.src_offset, size, "copy to the host")
        move_bytes(dst, command.dst_offset, src.view, command.src_offset, size)  # type: ignore[arg-type]  # host bytes
        return
    if command.checksum is not None:
        check_source(command)
    if type(dst) is Allocation:
        dst.check(command.dst_offset, size, "copy from the host")
        move_bytes(dst.view, command.dst_offset, src, command.src_offset, size)  # type: ignore[arg-type]  # host bytes
        dst.wrote(command.dst_offset, size)
    else:
        move_bytes(dst, command.dst_offset, src, command.src_offset, size)  # type: ignore[arg-type]  # host bytes


def check_source(command: Copy) -> None:
    """Raise ExecutionError when the host source of a copy is not what it was at the call (strict mode)."""
    if checksum(command.src) != command.checksum:  # type: ignore[arg-type]  # only host bytes have a checksum
        raise ExecutionError("the source of a copy changed after the call; leave it alone until the copy is done")


def move_bytes(dst: memoryview, dst_offset: int, src: memoryview | bytes, src_offset: int, size: int) -> None:
    """Move bytes between two flat views."""
    if size <= KEEPS_GIL:
        dst[dst_offset : dst_offset + size] = src[src_offset : src_offset + size]
    else:
        target = np.frombuffer(dst, np.uint8, size, dst_offset)
        np.copyto(target, np.frombuffer(src, np.uint8, size, src_offset))


def checksum(source: memoryview | bytes) -> int:
    """Return a checksum of a host source, so that strict mode notices a change before the copy ran."""
    return zlib.crc32(source)
