"""Short copies: runs of them carried out together, and one on an idle device by the calling thread.

A short copy costs less than taking a lock or settling a command. So the drain claims a run of them under one taking
of the driver's lock and settles them under one more: besides the time, this keeps a producer and the drain from
queueing for that lock at every command.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from atops.base.errors import AtopsError
from atops.base.trace.records import TraceTuple
from atops.base.waiting.parking_lot import Waiter
from atops.device.memory.allocation import FENCED, Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.commands.copy import COPY_D2D, COPY_D2H, COPY_H2D, DIRECT, DIRECTIONS, CopyCompletion, carry_out
from atops.runtime.core.command_trace import WENT_WELL, in_context
from atops.runtime.core.commands import HOST
from atops.runtime.core.completion import DONE, PENDING, RUNNING, Completion, as_failure
from atops.runtime.executors.executor import HERE

if TYPE_CHECKING:
    from atops.runtime.driver_board import Board
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("carry_out_run", "claim_run", "copy_at_once", "look_and_carry_out_run", "settle_run")

RUN = 32  # copies claimed at a time


def claim_run(head: CopyCompletion, queue: deque[Any], context: DeviceContext) -> list[CopyCompletion]:
    """Claim the short copies of the head's kind that begin a queue, if the engines let them run now.

    With the driver's lock held. Returns an empty list where the head is not short. Claimed commands are in the state
    running; an abort marks them, and `carry_out_run` stops at the mark.
    """
    kind = head.kind
    if context.prefetched.watched:
        return []  # each is looked at as it begins
    if kind == COPY_D2D:
        if context.engines.waiting:
            return []
    elif kind not in DIRECTIONS or not context.engines.quiet(DIRECTIONS[kind]):
        return []
    run: list[CopyCompletion] = []
    here = context.ordinal
    for item in islice(queue, RUN):
        if item.__class__ is not CopyCompletion or item.kind != kind or item.size > DIRECT or item.deps is not None:
            break
        if item.share is not None:
            break  # it may use only the engines of its resource bundle
        if kind != COPY_D2D and (item.dst if kind == COPY_H2D else item.src).device != here:
            break  # the end that is an allocation may lie on another device, behind a link
        item.stage = RUNNING
        run.append(item)
    return run


def carry_out_run(run: list[CopyCompletion], board: Board) -> tuple[int, AtopsError | None]:
    """Carry out claimed copies one after another, and trace each where tracing is on.

    Returns how many succeeded and the failure of the next one, or None.
    """
    done, begun, device, number, contexts = 0, -1, 0, 0, 0
    kind = run[0].kind
    up, down = kind != COPY_D2H, kind != COPY_H2D  # whether the destination lies on a device, and the source
    if tracing := board.tracer.active:
        now, stream = board.now, run[0].queue
        device, number, contexts = stream.context.ordinal, stream.number, board.tracer.contexts
        records: list[TraceTuple] = []
        begun = now()
    try:
        for item in run:
            if item.aborted is not None:
                return done, item.aborted
            # `carry_out` of a range checked at the call. A view keeps its bytes mapped; that of freed memory is empty.
            dst, at, src, start, size = item.dst, item.dst_offset, item.src, item.src_offset, item.size
            stores = up or dst.__class__ is Allocation
            into, out = dst._view if stores else dst, src._view if down or src.__class__ is Allocation else src
            if into and out:
                into[at : at + size] = out if len(out) == size else out[start : start + size]
                if stores and (FENCED or dst.watches is not None):
                    dst.wrote(at, size)
            else:
                carry_out(item.command)  # raises for freed memory
            if tracing:
                started, begun = begun, now()
                record = (
                    item.seq, kind, device, number, item.submitted_ns, started, begun, WENT_WELL, size,
                    dst.device if up else -1, dst.offset + at if up else 0,
                    src.device if down else -1, src.offset + start if down else 0, -1, 0, -1,
                )  # fmt: skip
                records.append(in_context(record, item, None) if contexts and item.context is not None else record)
            done += 1
    except Exception as failure:
        run[done].started_ns = begun
        return done, as_failure(failure, run[done])
    finally:
        if tracing:
            board.tracer.emit_all(records)  # in one go: a call for each would cost half as much as its copy
            board.tell_subscribers()
    return done, None


def look_and_carry_out_run(run: list[CopyCompletion], board: Board) -> tuple[int, AtopsError | None]:
    """Carry out claimed copies as `carry_out_run` does, each looked at by the race detector before."""
    assert board.detector is not None, "asked for"
    begun, race = board.detector.begin_run(run)
    done, error = carry_out_run(begun, board) if begun else (0, None)
    return done, error or race


def settle_run(run: list[CopyCompletion], done: int, queue: deque[Completion]) -> list[Waiter]:
    """Settle the first `done` of a run, unclaim those behind the one that failed. With the driver's lock held.

    Returns the waiters to wake after it.
    """
    woken: list[Waiter] = []
    lost = run[0].queue.lost
    for item in run[:done]:
        queue.popleft()  # in order: claimed commands stay at the head
        if lost is not None:
            item.lost = lost
        item.stage = DONE
        if item.waiters is not None:
            woken += item.take_waiters()
    for item in run[done + 1 :]:
        item.stage = PENDING
    return woken


def copy_at_once(
    stream: StreamQueue, memory: Allocation, offset: int, host: memoryview, size: int, upload: bool
) -> bool:
    """Carry out a copy of at most `DIRECT` bytes between host memory and live memory of the stream's device, here.

    It has a number and a trace record like any command. It ends before others can be enqueued, so it needs no queue.
    Returns False, having done nothing, on a busy device and wherever more than bytes are to be moved: inline, with a
    viewer, with prefetched ranges, in a stream with a capacity. The caller has checked the range of the memory. The
    bytes move under the driver's lock: they keep the interpreter lock anyway.
    """
    board, context = stream.board, stream.context
    tracer, engines = board.tracer, context.engines
    kind = COPY_H2D if upload else COPY_D2H
    if HERE.role is not None or board.inline or tracer.observed or context.prefetched.watched:
        return False
    if board.detector is not None or board.lock.is_owned():
        return False
    seq = begun = 0
    try:
        with board.lock:
            if context.active or context.dead is not None or stream.needs_admission or stream.failure is not None:
                return False
            view = memory.view
            if not memory.alive or not engines.quiet(DIRECTIONS[kind]):
                return False
            board.seq = seq = board.seq + 1
            begun = board.now() if tracer.active else 0
            if upload:
                view[offset : offset + size] = host[:size]
            else:
                host[:size] = view[offset : offset + size]
    finally:  # after a Ctrl-C too, value waits are told of the store
        if seq and upload and (FENCED or memory.watches is not None):
            memory.wrote(offset, size)
    if begun:
        here = context.ordinal, memory.offset + offset
        ends = (*here, *HOST) if upload else (*HOST, *here)
        tracer.emit((
            seq, kind, context.ordinal, stream.number, begun, begun, board.now(), WENT_WELL, size, *ends, -1, 0, -1,
        ))  # fmt: skip
        board.tell_subscribers()
    return True
