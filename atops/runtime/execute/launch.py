"""How a launch runs: resolve its arguments, make the grid, give it to the clusters, and end it whatever happens."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial

from atops.base.errors import AtopsError, ExecutionError, LaunchFailure, StreamAborted
from atops.device.exec.grid import Grid, Seeded
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.commands import PLAIN_LAUNCH, Launch
from atops.runtime.core.completion import DONE, Completion
from atops.runtime.execute.copy import COPIES
from atops.runtime.execute.kernel_steps import KernelSteps
from atops.runtime.queues import command_events as moments
from atops.runtime.queues.queue import StreamQueue

__all__ = ("abort", "began", "command_name", "ended", "failure_of", "make_grid", "reachable", "run_launch")

log = logging.getLogger("atops.kernel")


def run_launch(stream: StreamQueue, item: Completion) -> bool:
    """Hand the kernel to the clusters. Raises IllegalAddress when an argument was freed meanwhile."""
    command: Launch = item.command
    context, driver = stream.context, stream.driver
    command.bound.resolve(lambda allocation: reachable(context, allocation))
    meeting = command.options.meeting
    if meeting is not None and meeting.failed:
        raise LaunchFailure("another grid of the same cooperative launch could not start")
    grid = make_grid(stream, item)
    grid.on_start = lambda grid: began(item, driver.now())  # until then it stood behind other kernels
    item.parked = grid
    item.cancel = lambda error: abort(stream, item, grid, error)
    if driver.tracer.detail and (meeting is not None or not context.clusters.idle):
        moments.park(item)

    options, pinned, part = command.options, None, None
    if options is not PLAIN_LAUNCH:
        pinned, part = options.pinned, None if options.bundle is None else options.bundle.part

    def submit() -> None:
        driver.switching.begin()
        try:
            context.clusters.submit(
                grid, stream.priority, item.seq, cluster_mask=stream.cluster_mask, sip_mask=stream.sip_mask,
                pinned=pinned, within=part, gang=None if meeting is None else meeting.gang,
            )  # fmt: skip
        except AtopsError as error:
            driver.switching.end()
            if meeting is None:
                raise
            grid.stop(LaunchFailure(f"another grid of the same cooperative launch could not start: {error}"))
            stream.finish(item, error)

    if meeting is None:
        submit()
    else:
        meeting.arrive(submit)
    return False


def make_grid(stream: StreamQueue, item: Completion) -> Grid:
    """Return the launch as the chip takes it."""
    command: Launch = item.command
    driver, meeting, tracer = stream.driver, command.options.meeting, stream.driver.tracer
    return Grid(
        command.bound,
        stream.context.chip,
        command.config.grid,
        command.config.block,
        shared_bytes=command.config.shared,
        cooperative=command.config.cooperative,
        options=driver.options,
        barrier=None if meeting is None else meeting.barrier,
        offload=None if driver.inline or driver.options.dte != "eager" else partial(driver.executor.run, COPIES),
        on_done=lambda grid: ended(stream, item, grid),
        policy=None if driver.options.seed is None else Seeded(driver.options.seed * 1_000_003 + item.seq),
        observer=KernelSteps(tracer, item.seq) if tracer.thread_detail else None,
    )


def reachable(context: DeviceContext, allocation: Allocation) -> bool:
    """Whether kernels of this device may touch the allocation: its own, host memory, an enabled peer's, or granted."""
    device = allocation.device
    if device is None or device == context.ordinal or device in context.peers:
        return True
    return allocation.serial in context.granted


def began(item: Completion, now: int) -> None:
    """Note when a launch got its first cluster."""
    item.started_ns = now
    if (start := item.command.options.start) is not None:
        start.stamp(item, now)
    if item.stream.driver.tracer.detail:
        moments.start(item, now)


def ended(stream: StreamQueue, item: Completion, grid: Grid) -> None:
    """Settle a launch. On the thread that ran the last block, with no lock held."""
    command: Launch = item.command
    item.engine = grid.cluster
    for warning in grid.warnings:
        log.warning("%s", warning)
    if (stop := command.options.stop) is not None and item._state < DONE:
        stop.stamp(item, stream.driver.now())
    stream.driver.switching.end()
    stream.context.printing.settle(command.bound, stream.finish, item, grid.error and failure_of(stream, grid))


def failure_of(stream: StreamQueue, grid: Grid) -> ExecutionError | None:
    """Return what a grid failed with. For a stream that nobody aborted the abort of another grid's is a failure.

    Else what comes next there would run, as after an abort, and find half of what the kernel was to do.
    """
    error, driver = grid.error, stream.driver
    if isinstance(error, StreamAborted) and grid.aborted is None and stream.context.dead is None and not driver.closed:
        failure = LaunchFailure(f"another grid of the same cooperative launch was aborted: {error}")
        failure.__cause__ = error
        return failure
    return error


def abort(stream: StreamQueue, item: Completion, grid: Grid, error: ExecutionError) -> None:
    """Close the kernel at its next suspension; give up on it after the grace if it never suspends."""
    context, driver = stream.context, stream.driver
    meeting = item.command.options.meeting
    if meeting is not None and meeting.leave():
        stream.finish(item, error)  # which tells the others
        return
    grid.abort(error)
    context.clusters.withdraw(grid)

    def give_up() -> None:
        if item.over:
            return
        if grid.done:  # its thread has come back; what does not is the sink
            what = f"what {command_name(item)} printed was not shown within {driver.options.abort_grace} s of its abort"
            stream.finish(item, StreamAborted(what))
            return
        log.error(
            "%s of %s did not end within %s s of its abort: its thread is abandoned, its memory quarantined",
            command_name(item), stream.label, driver.options.abort_grace,
        )  # fmt: skip
        for allocation in item.command.bound.allocations:
            if allocation.device is not None:
                with suppress(AtopsError):  # a reset, the driver's close or a free has ended it
                    adapter = context if allocation.device == context.ordinal else driver.context(allocation.device)
                    adapter.memory.quarantine(allocation)
        # First its own end: that of the grid would end it with the abort's error, which names no kernel.
        stream.finish(item, StreamAborted(f"{command_name(item)} never suspended and was abandoned"))
        grid.abandon()
        context.lane.abandon()

    if not item.over:
        driver.executor.later(int(driver.options.abort_grace * 1e9), give_up)


def command_name(item: Completion) -> str:
    """Name a launch."""
    return f"kernel {item.command.bound.name} (command {item.seq})"
