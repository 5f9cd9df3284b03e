"""How a copy runs: small ones where they stand, large ones on a copy thread, when an engine and the link are free."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from atops.base.errors import AtopsError, ExecutionError, IllegalState
from atops.base.trace.tracer import Kind
from atops.base.waiting.parking_lot import ThreadWaiter
from atops.device.copy_engine import CopyJob, Direction
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.commands import Copy, ScatteredCopy
from atops.runtime.core.completion import Completion
from atops.runtime.core.services import DriverServices
from atops.runtime.executors.executor import Lane
from atops.runtime.queues import command_events as moments
from atops.runtime.queues.copy_batch import DIRECT, DIRECTIONS, carry_out, check_source
from atops.runtime.queues.queue import StreamQueue

__all__ = (
    "COPIES",
    "HALVES",
    "carry_out_halves",
    "copying_context",
    "end_copy",
    "linked",
    "run_copy",
    "run_here_or_beside",
    "run_on_engine",
    "stage_through_host",
)

COPIES = Lane("copy")
HALVES = Lane("copy half")
SPLIT = 8 << 20  # from here on two threads share a copy


def run_copy(stream: StreamQueue, item: Completion) -> bool:
    """Copy here if it is short and nothing holds the link the other way; else when an engine is free."""
    command: Copy = item.command
    if command.kind == Kind.COPY_PEER and not linked(stream, command):
        return stage_through_host(stream, item)
    direction = DIRECTIONS.get(command.kind, Direction.NONE)
    context = copying_context(stream, command)
    if command.size <= DIRECT and context.engines.quiet(direction):
        carry_out(command)
        return True
    driver = stream.driver
    alone = command.size < SPLIT or driver.inline
    action = partial(carry_out, command) if alone else partial(carry_out_halves, command, driver)
    run_on_engine(context, stream, item, direction, action, partial(end_copy, stream, item))
    return False


def run_here_or_beside(stream: StreamQueue, item: Completion, action: Callable[[], None], short: bool) -> bool:
    """Run `action` here if it is short, else on a copy thread, which settles the command. As an `EXECUTE` function."""
    if short:
        action()
        return True

    def work() -> None:
        error = None
        try:
            action()
        except AtopsError as failure:
            error = failure
        end_copy(stream, item, error)

    stream.driver.executor.run(COPIES, work)
    return False


def end_copy(stream: StreamQueue, item: Completion, error: AtopsError | None) -> None:
    """Settle a copy on its thread, which drains what follows in the stream unless other copies wait for the thread.

    Waking the driver for it takes longer than most of what follows does.
    """
    stream.finish(item, error, here=stream.driver.executor.backlog(COPIES)())


def carry_out_halves(command: Copy, driver: DriverServices) -> None:
    """Move a large copy on two threads: one does not saturate the memory. On a copy thread; raises as `carry_out`."""
    if command.checksum is not None:
        check_source(command)
    half = (command.size // 2) & ~4095
    rest = command._replace(
        dst_offset=command.dst_offset + half,
        src_offset=command.src_offset + half,
        size=command.size - half,
        checksum=None,
    )
    gate, failures = ThreadWaiter(), list[Exception]()

    def other() -> None:
        try:
            carry_out(rest)
        except Exception as failure:
            failures.append(failure)
        finally:
            gate.wake()

    driver.executor.run(HALVES, other)
    try:
        carry_out(command._replace(size=half, checksum=None))
    finally:
        gate.wait()  # bounded: it moves bytes and nothing else
    if failures:
        raise failures[0]


def copying_context(stream: StreamQueue, command: Copy | ScatteredCopy) -> DeviceContext:
    """Return the device whose engines carry the copy: the source's, the destination's, or the stream's."""
    for end in (command.src, command.dst):
        if isinstance(end, Allocation) and end.device is not None and end.device != stream.context.ordinal:
            owner: DeviceContext = stream.driver.context(end.device)
            return owner
    return stream.context


def linked(stream: StreamQueue, command: Copy) -> bool:
    """Whether the two devices of a peer copy have a link and the access to use it."""
    src, dst = command.src, command.dst
    if not isinstance(src, Allocation) or not isinstance(dst, Allocation):
        raise IllegalState(f"a copy between devices has ends {src!r} and {dst!r}; two allocations are right")
    assert src.device is not None and dst.device is not None
    return stream.driver.topology.route(src.device, dst.device) is not None


def run_on_engine(
    context: DeviceContext,
    stream: StreamQueue,
    item: Completion,
    direction: Direction,
    action: Callable[[], None],
    done: Callable[[AtopsError | None], None],
    takes: Callable[[], int] | None = None,
) -> None:
    """Run `action` on a copy thread once an engine, of its bundle's if it has one, and the link are free.

    Then tell `done`. `takes`, asked when it begins, says for how many nanoseconds of the driver's clock it then holds
    the engine; the bytes move at the end of them, as late as may be. An abort meanwhile lets it finish, as any copy
    that has begun.
    """
    driver = stream.driver
    engines = context.engines if item.share is None or item.share.engines is not context.engines else item.share

    def work() -> None:
        item.engine = job.engine
        item.started_ns = driver.now()  # until then it stood behind other copies
        if driver.tracer.detail:
            moments.start(item, item.started_ns)
        if takes is not None and (duration := takes()):
            item.parked = None  # it moves, and stands behind nobody
            driver.executor.spend(duration, lambda: driver.executor.run(COPIES, move))
        else:
            move()

    def move() -> None:
        error = _failure_of(action)
        # Released first: the next copy must not find the link held by one whose waiters were told that it is over.
        engines.release(job)
        done(error)

    job = CopyJob(stream.priority, item.seq, direction, lambda: driver.executor.run(COPIES, work))

    def cancel(error: AtopsError) -> None:
        if engines.withdraw(job):
            stream.finish(item, error)

    item.cancel = cancel
    item.parked = engines
    if driver.tracer.detail and (engines.full or not engines.quiet(direction)):
        moments.park(item)
    engines.request(job)


def _failure_of(action: Callable[[], None]) -> AtopsError | None:
    """Carry out a copy, and return what it failed with, if it did."""
    try:
        action()
    except AtopsError as failure:
        return failure
    except Exception as failure:
        error = ExecutionError(f"a copy failed: {failure!r}")
        error.__cause__ = failure
        return error
    return None


def stage_through_host(
    stream: StreamQueue, item: Completion, takes: Callable[[DeviceContext, Copy], int] | None = None
) -> bool:
    """Copy between devices that have no link: to the host, then on. Each half holds its own device's link.

    `takes` says how long a half holds an engine of a device, as for `run_on_engine`.
    """
    command: Copy = item.command
    source, target = command.src, command.dst
    assert isinstance(source, Allocation) and isinstance(target, Allocation)
    assert source.device is not None and target.device is not None
    driver = stream.driver
    back, to = driver.context(source.device), driver.context(target.device)
    staging = memoryview(bytearray(command.size))
    down = Copy(staging, 0, source, command.src_offset, command.size, Kind.COPY_D2H)
    up = Copy(target, command.dst_offset, staging, 0, command.size, Kind.COPY_H2D)

    def half(context: DeviceContext, part: Copy, done: Callable[[AtopsError | None], None]) -> None:
        duration = None if takes is None else partial(takes, context, part)
        run_on_engine(context, stream, item, DIRECTIONS[part.kind], partial(carry_out, part), done, duration)

    def half_way(error: AtopsError | None) -> None:
        error = error or driver.trace_part(item, down)
        if error is not None:
            stream.finish(item, error)
            return
        item.command, item.told = up, None  # what is left of it: its end is the second record
        half(to, up, partial(end_copy, stream, item))

    half(back, down, half_way)
    return False
