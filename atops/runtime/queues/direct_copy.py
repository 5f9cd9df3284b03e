"""A short copy of an idle stream, carried out by the very caller that would only wait for it: no thread is woken.

It is a command like any other, with its number, its place in the order and its record; what others enqueue meanwhile
comes after it. On an idle device it is over before anybody could enqueue anything, and so needs no place in a queue.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from atops.base.errors import AtopsError
from atops.base.waiting.locks import reentered
from atops.base.waiting.parking_lot import Waiter
from atops.device.memory.allocation import FENCED, Allocation
from atops.runtime.core.commands import Copy
from atops.runtime.core.completion import PENDING, RUNNING, Completion
from atops.runtime.core.failures import wake
from atops.runtime.executors.executor import HERE
from atops.runtime.queues.copy_batch import (
    COPY_D2H,
    COPY_H2D,
    DIRECT,
    DIRECTIONS,
    WENT_WELL,
    carry_out_run,
    carry_out_traced,
    claim_run,
    settle_run,
)
from atops.runtime.queues.queue import StreamQueue
from atops.runtime.queues.trace_record import place

__all__ = ("copy_and_wait", "copy_at_once")


def copy_at_once(
    stream: StreamQueue, memory: Allocation, offset: int, host: memoryview, size: int, upload: bool
) -> bool:
    """Carry out a copy of at most `DIRECT` bytes between host memory and live memory of the stream's device, here.

    Returns False, and has done nothing, unless the device is idle and nothing else speaks against it. The range of the
    memory has been checked. The bytes move under the driver's lock: they keep the interpreter lock anyway.
    """
    driver, context = stream.driver, stream.context
    tracer, engines = driver.tracer, context.engines
    kind = COPY_H2D if upload else COPY_D2H
    if HERE.role is not None or driver.inline or tracer.detail or context.prefetched.watched:
        return False
    if driver.lock._is_owned():
        return False
    seq = begun = 0
    try:
        with driver.lock:
            if context.active or context.dead is not None or stream._unusual or stream._error is not None:
                return False
            view = memory.view
            if not memory.alive or not engines.quiet(DIRECTIONS[kind]):
                return False
            driver.seq = seq = driver.seq + 1
            begun = driver.now() if tracer.active else 0
            if upload:
                view[offset : offset + size] = host[:size]
            else:
                host[:size] = view[offset : offset + size]
    finally:  # Ctrl-C in between keeps it from nobody who waits for the value
        if seq and upload and (FENCED or memory.watches is not None):
            memory.wrote(offset, size)
    if begun:
        there, beside = place(memory, offset), place(host, 0)
        ends = (*there, *beside) if upload else (*beside, *there)
        tracer.emit((
            seq, kind, context.ordinal, stream.number, begun, begun, driver.now(), WENT_WELL, size, *ends, -1, 0, -1,
        ))  # fmt: skip
        driver.tell_subscribers()
    return True


def copy_and_wait(stream: StreamQueue, command: Copy) -> Completion:
    """Enqueue a copy; carry it out here if it is short, its stream is idle and nothing else holds it up.

    The completion may be over when this returns; if not, it has been enqueued as usual. Raises as `submit` does.
    """
    driver = stream.driver
    usual = command.size > DIRECT or stream.capacity is not None or HERE.role is not None
    if usual or driver.inline or driver.tracer.detail:
        return stream.submit(command)
    if driver.lock._is_owned():
        raise reentered(f"a copy was enqueued on {stream.label}")
    item, claimed = Completion(stream, command), True
    try:
        with driver.lock:
            if not stream.enqueue(item):
                claimed = False
                return item  # the drain that is at work comes to it
            queue = stream._queue
            assert queue is not None
            run = [] if stream._error is not None or item.deps else claim_run(queue, stream.context)
            if not run:
                claimed = False
                driver.post(stream.drain)
                return item
    except BaseException as ctrl_c:
        if claimed and item._state == RUNNING:  # by nobody
            item._state = PENDING
        stream.interrupted(ctrl_c, item)
        raise
    done, error = 0, None
    before, HERE.callback = HERE.callback, item  # what this thread owes, to a signal handler that would wait for it
    try:
        done, error = carry_out_traced(run, driver) if driver.tracer.active else carry_out_run(run)
    finally:
        HERE.callback = before
        waiters: list[Waiter] = []
        try:
            _settle(stream, queue, item, done, error, waiters)
        except BaseException:  # Ctrl-C again, or only now
            driver.post(partial(_end, stream, queue, item, done, waiters))
            raise
    return item


def _settle(
    stream: StreamQueue, queue: deque[Completion], item: Completion, done: int, error: AtopsError | None,
    waiters: list[Waiter],
) -> None:  # fmt: skip
    """End the copy, or leave it to the drain when Ctrl-C came in between; then let run what came meanwhile.

    Who waits for it comes into `waiters`.
    """
    with stream.driver.lock:
        waiters += settle_run([item], done, queue)
        idle = not queue
        if idle:
            stream.retire()
        elif not done:
            item._state = PENDING
    wake(waiters)
    if error is not None:
        stream.finish(item, error)
    elif not idle:
        stream.driver.post(stream.drain)


def _end(
    stream: StreamQueue, queue: deque[Completion], item: Completion, done: int, waiters: list[Waiter]
) -> None:
    """Do what is left of the end of a copy, whatever that is. A driver step."""
    with stream.driver.lock:
        if not done and item in queue:
            item._state = PENDING
        elif item._state == RUNNING:
            waiters = [*waiters, *(item.settle(None) or ())]
            if item in queue:
                queue.remove(item)
    wake(waiters)
    stream.drain()
