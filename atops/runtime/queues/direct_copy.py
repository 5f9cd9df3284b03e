"""A short copy on an idle device, carried out by the calling thread: no other thread is woken.

It has a number and a trace record like any command. It ends before others can be enqueued, so it needs no queue.
"""

from __future__ import annotations

from atops.device.memory.allocation import FENCED, Allocation
from atops.runtime.commands.copy import COPY_D2H, COPY_H2D, DIRECTIONS
from atops.runtime.executors.executor import HERE
from atops.runtime.queues.queue import StreamQueue
from atops.runtime.queues.trace_record import copy_record

__all__ = ("copy_at_once",)


def copy_at_once(
    stream: StreamQueue, memory: Allocation, offset: int, host: memoryview, size: int, upload: bool
) -> bool:
    """Carry out a copy of at most `DIRECT` bytes between host memory and live memory of the stream's device, here.

    Returns False, having done nothing, on a busy device and wherever more than bytes are to be moved: inline, with a
    viewer, with prefetched ranges, in a stream with a capacity. The caller has checked the range of the memory. The
    bytes move under the driver's lock: they keep the interpreter lock anyway.
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
            if context.active or context.dead is not None or stream.needs_admission or stream.failure is not None:
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
    finally:  # after a Ctrl-C too, value waits are told of the store
        if seq and upload and (FENCED or memory.watches is not None):
            memory.wrote(offset, size)
    if begun:
        ends = (memory, offset, host, 0) if upload else (host, 0, memory, offset)
        tracer.emit(copy_record(seq, kind, context.ordinal, stream.number, begun, begun, driver.now(), size, *ends))
        driver.tell_subscribers()
    return True
