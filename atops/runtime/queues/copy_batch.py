"""Runs of short copies, which are carried out in one go.

A short copy costs less than anything that could be done around it. So the drain claims a run of them under one taking
of the driver's lock and settles them under one more: besides the time, this keeps a producer and the drain from
queueing for that lock at every command.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from atops.base.errors import AtopsError
from atops.base.waiting.parking_lot import Waiter
from atops.device.memory.allocation import FENCED, Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.commands.copy import COPY_D2D, COPY_H2D, DIRECT, DIRECTIONS, Copy, carry_out
from atops.runtime.core.completion import DONE, PENDING, RUNNING, Completion
from atops.runtime.core.failures import as_failure
from atops.runtime.core.services import DriverServices
from atops.runtime.queues.trace_record import copy_record

__all__ = ("carry_out_run", "claim_run", "settle_run")

RUN = 32  # copies claimed at a time


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
        item.stage = RUNNING
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
        item.stage = DONE
        if item.waiters is not None:
            woken += item.take_waiters()
    for item in run[done + 1 :]:
        item.stage = PENDING
    return woken
