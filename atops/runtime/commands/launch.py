"""Launches: resolve the arguments, make the grid, give it to the clusters, and end it whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from atops.base.errors import AtopsError, ExecutionError, LaunchFailure, StreamAborted
from atops.base.log_fields import get_logger
from atops.base.trace.records import Kind
from atops.device.cost import LaunchCost
from atops.device.exec.block_scheduler import Gang
from atops.device.exec.grid import Grid, GridBarrier, policy_of
from atops.kernels.arguments import MemoryArgument
from atops.kernels.bound import BoundKernel
from atops.kernels.launch_config import LaunchConfig
from atops.runtime.commands.copy import COPIES
from atops.runtime.commands.kernel_steps import KernelSteps
from atops.runtime.core import command_trace
from atops.runtime.core.commands import Ended, ReadRange, Touch, UsedRange, always, define
from atops.runtime.core.completion import Completion, failure_fields
from atops.runtime.core.event import Event
from atops.runtime.executors.executor import LaterStep
from atops.runtime.memory.scatter import ranges_of

if TYPE_CHECKING:
    from atops.runtime.board.context import DeviceClock, DeviceContext
    from atops.runtime.core.order import Seen
    from atops.runtime.resources.bundle import ResourceBundle

__all__ = ("PLAIN_LAUNCH", "Launch", "LaunchGrid", "LaunchOptions", "Rendezvous")

log = get_logger("atops.kernel")
LAUNCH = int(Kind.LAUNCH)
new_tuple = tuple.__new__  # what a named tuple does, without the Python frame that it puts before it


class Launch(NamedTuple):
    """Run a kernel that is bound to its arguments."""

    bound: Any
    config: LaunchConfig
    options: LaunchOptions
    context: Context | None = None  # the launcher's context variables, as its kernel sees them

    def of_meeting(self, meeting: Rendezvous | None) -> Launch:
        """Return the launch as one of the grids that meet there."""
        return self._replace(options=self.options._replace(meeting=meeting))

    @property
    def seen(self) -> Seen | None:
        """Of one that is a record, what comes before it in other streams."""
        return self.options.seen

    def in_bundle(self, bundle: ResourceBundle | None) -> Launch:
        """Return the launch as one that runs in a resource bundle."""
        return self._replace(options=self.options._replace(bundle=bundle))


class LaunchOptions(NamedTuple):
    """What a launch carries beside its geometry."""

    start: Event | None = None
    stop: Event | None = None
    meeting: Rendezvous | None = None  # of a cooperative launch over several streams
    bundle: ResourceBundle | None = None  # the resource bundle that it runs in
    pinned: tuple[int, ...] | None = None  # the cluster of each block
    seen: Seen | None = None  # of one that is a record, what comes before it in other streams, for pools


PLAIN_LAUNCH = LaunchOptions()  # of a launch that carries nothing: known by being this very tuple


def _run_launch(command: Launch, item: Completion) -> bool:
    """Hand the kernel to the clusters. Raises IllegalAddress when an argument was freed meanwhile."""
    queue, (bound, _, options, _) = item.queue, command
    context, board = queue.context, queue.board
    bound.resolve(context.reaches)
    meeting = None if options is PLAIN_LAUNCH else options.meeting
    if meeting is not None and meeting.failed:
        raise meeting.failure()
    grid = LaunchGrid(command, item)
    if board.detector is not None:
        board.detector.started(item, grid)
    item.parked, item.stop = grid, grid.end_early
    if board.tracer.detail and (meeting is not None or not context.clusters.idle):
        command_trace.park(item)
    if options is PLAIN_LAUNCH:
        context.clusters.submit(grid, queue.priority, item.seq, queue.cluster_mask, queue.sip_mask)
    elif meeting is None:
        _submit(command, item, grid)
    else:
        meeting.arrive(partial(_submit_to_meeting, command, item, grid))
    return False


def _submit(command: Launch, item: Completion, grid: Grid) -> None:
    queue, options = item.queue, command.options
    part = None if options.bundle is None else options.bundle.part
    gang = None if options.meeting is None else options.meeting.gang
    queue.context.clusters.submit(
        grid, queue.priority, item.seq, queue.cluster_mask, queue.sip_mask, options.pinned, part, gang
    )


def _submit_to_meeting(command: Launch, item: Completion, grid: Grid) -> None:
    """Submit one of the grids that meet; where it cannot start, the others end with it."""
    try:
        _submit(command, item, grid)
    except AtopsError as error:
        grid.stop(LaunchFailure(f"another grid of the same cooperative launch could not start: {error}"))
        item.finish(error)


class LaunchGrid(Grid):
    """The grid of a launch, which it settles when it is over."""

    __slots__ = ("command", "extras", "item")

    extras: LaunchOptions | None  # what it carries, if anything

    def __init__(self, command: Launch, item: Completion) -> None:
        queue, (bound, config, extras, launcher) = item.queue, command
        board, context = queue.board, queue.context
        executor, tracer, options = board.executor, board.tracer, board.options
        eager = options.dte == "eager" and not board.inline
        self.command, self.item, self.extras = command, item, None if extras is PLAIN_LAUNCH else extras
        Grid.__init__(  # quicker than by super()
            self,
            bound,
            context.chip,
            config.grid,
            config.block,
            config.shared,
            config.cooperative,
            context=launcher,
            barrier=None if self.extras is None or extras.meeting is None else extras.meeting.barrier,
            policy=None if options.seed is None else policy_of(options.seed, item.seq),
            offload=partial(executor.run, COPIES, priority=queue.priority) if eager else None,
            observer=KernelSteps(tracer, item.seq) if tracer.thread_detail else None,
            agenda=executor.agenda,
            label="" if executor.agenda is None else executor.number_launch(queue.choice),
            cost=None if context.clock is None else _cost(command, context, context.clock),
        )

    def on_start(self) -> None:
        """Note when the launch got its first cluster: until then it stood behind other kernels."""
        item = self.item
        board = item.queue.board
        item.started_ns = now = board.now()
        if self.extras is not None and (start := self.extras.start) is not None:
            start.stamp(item, now)
        if board.tracer.detail:
            command_trace.start(item, now)

    def on_done(self) -> None:
        """Settle the launch. On the thread that ran the last block, with no lock held."""
        item, bound = self.item, self.entry
        queue = item.queue
        board, printing = queue.board, queue.context.printing
        item.engine = self.cluster
        for warning in self.warnings:
            log.warning("%s", warning, extra=failure_fields(queue, item))
        if self.extras is not None and (stop := self.extras.stop) is not None and not item.over:
            stop.stamp(item, board.now())
        failure: AtopsError | None = self.error and _failure_of(item, self)
        if board.detector is not None and not item.over:
            failure = board.detector.launched(item, self, failure)
        if printing.fifo.owes(bound):
            printing.when_shown(bound, queue.finish, item, failure)
        else:
            queue.finish(item, failure)

    def end_early(self, error: ExecutionError) -> None:
        """Close the kernel at its next suspension; give up on it after the grace if it never suspends."""
        command, item = self.command, self.item
        stream, name = item.queue, _command_name(command, item)
        context, board = stream.context, stream.board
        meeting = command.options.meeting
        if meeting is not None and meeting.leave():
            item.finish(error)  # which tells the others
            return
        self.abort(error)
        context.clusters.withdraw(self)

        def give_up() -> None:
            if item.over:
                return
            if self.done:  # its thread has come back; what does not is the sink
                grace = board.options.abort_grace
                item.finish(StreamAborted(f"what {name} printed was not shown within {grace} s of its abort"))
                return
            log.error(
                "%s of %s did not end within %s s of its abort: its thread is abandoned, its memory quarantined",
                name, stream.label, board.options.abort_grace, extra=failure_fields(stream, item),
            )  # fmt: skip
            for allocation in command.bound.allocations:
                if allocation.device is not None:
                    with suppress(AtopsError):  # a reset, the driver's close or a free has ended it
                        adapter = context if allocation.device == context.ordinal else board.context(allocation.device)
                        adapter.memory.quarantine(allocation)
            # First its own end: that of the grid would end it with the abort's error, which names no kernel.
            item.finish(StreamAborted(f"{name} never suspended and was abandoned"))
            self.abandon()
            context.lane.abandon()

        if not item.over:
            grace = _Grace(board.executor.later(int(board.options.abort_grace * 1e9), give_up))
            if not item.add_waiter(grace):
                grace.wake()


def _cost(command: Launch, context: DeviceContext, clock: DeviceClock) -> LaunchCost:
    """Return what a launch takes of a virtual clock."""
    config = command.config
    return LaunchCost(context.arch, context.ordinal, clock, config.block.volume, config.grid.volume)


def _failure_of(item: Completion, grid: Grid) -> ExecutionError | None:
    """Return what a grid failed with. The abort of another grid of a cooperative launch counts as its own failure.

    Otherwise the next commands of this stream would run, as after an abort, and find the kernel's work half done.
    """
    error, stream = grid.error, item.queue
    others = isinstance(error, StreamAborted) and grid.aborted is None
    if others and stream.context.dead is None and not stream.board.closed:
        failure = LaunchFailure(f"another grid of the same cooperative launch was aborted: {error}")
        failure.__cause__ = error
        return failure
    return error


class _Grace:
    """Forgets the timer of an abort once the command is over; the timer keeps the kernel's arguments alive."""

    __slots__ = ("_timer",)

    def __init__(self, timer: LaterStep) -> None:
        self._timer = timer

    def wake(self) -> None:
        """Cancel it."""
        self._timer.cancel()


def _command_name(command: Launch, item: Completion) -> str:
    return f"kernel {command.bound.name} (command {item.seq})"


# ---- cooperative launches


class Rendezvous:
    """Where the grids of one cooperative launch meet: all are built before the first is started."""

    def __init__(self, grids: int, priority: int = 0) -> None:
        self.barrier = GridBarrier(grids)
        self.gang = Gang(priority)
        self._grids = grids
        self.items: list[Completion] = []  # the launches, once they are enqueued
        self._starts: list[Callable[[], None]] = []
        self._lock = self.barrier.lock
        self._failed = False
        self._failure: LaunchFailure | None = None

    def expect(self, items: list[Completion]) -> None:
        """Watch the launches: one that ends before all have met fails the others."""
        self.items = items
        for item in items:
            if not item.add_waiter(_EndedEarly(self)):
                self.give_up()

    def arrive(self, start: Callable[[], None]) -> None:
        """Note that one grid is built; the last one starts all of them, with no lock held."""
        with self._lock:
            if self._failed:
                return
            self._starts.append(start)
            starts = self._starts if len(self._starts) == self._grids else []
        for each in starts:
            each()
        if starts:
            self.gang.start()

    def leave(self) -> bool:
        """Let none of the grids start, because one was aborted. Returns False when all have met and run."""
        with self._lock:
            if len(self._starts) == self._grids:
                return False
            self._failed = True
        return True

    def give_up(self) -> None:
        """Fail every launch that is not over, unless all have met."""
        if not self.leave():
            return
        for item in self.items:
            if not item.over and item.state == "running":
                item.queue.finish(item, self.failure())

    def failure(self) -> AtopsError:
        """Return what the other grids fail with: the failure of the first that ended before it was started."""
        if self._failure is None:
            cause = next((item.failure for item in self.items if item.failure is not None), None)
            why = "" if cause is None else f": {cause}"
            self._failure = LaunchFailure(f"another grid of the same cooperative launch could not start{why}")
            self._failure.__cause__ = cause
        return self._failure.fresh()

    @property
    def failed(self) -> bool:
        """Whether a grid could not start."""
        return self._failed


class _EndedEarly:
    """Tells a rendezvous that one of its launches is over."""

    __slots__ = ("_meeting",)

    def __init__(self, meeting: Rendezvous) -> None:
        self._meeting = meeting

    def wake(self) -> None:
        """Have the rendezvous look whether all have met."""
        self._meeting.give_up()


# ---- the row


def _ranges_of_launch(command: Launch) -> Iterable[UsedRange]:
    """Return what the buffer arguments of a kernel, or the operands of a graph, reach; each range once.

    Of a grid whose blocks run kernels of their own these are whole allocations.
    """
    bound = command.bound
    if not bound.allocations:
        return ()
    if type(bound) is BoundKernel:
        values = bound.values.values()
        return ranges_of((each.allocation, each.offset, each.nbytes) for each in values if type(each) is MemoryArgument)
    memory = getattr(bound, "memory", None)
    if memory is None:
        return ranges_of((allocation, 0, allocation.size) for allocation in bound.allocations)
    return ranges_of((buffer.allocation, buffer.offset, buffer.nbytes) for buffer in memory)


def _readable(command: Launch) -> Iterable[ReadRange]:
    """Return all memory that the kernel is given: it may read any of it."""
    return [(memory, 0, memory.size) for memory in command.bound.allocations]


def _freed(command: Launch) -> Iterable[Touch]:
    """Return arguments that are freed already. That counts as a use of freed memory, though the kernel will not run.

    What a kernel touches is known when it has ended; what an executable touches, from the start.
    """
    touches: Iterable[Touch] = getattr(command.bound, "touches", ())
    return [*touches, *((memory, 0, memory.size, False) for memory in command.bound.allocations if not memory.alive)]


define(
    Launch,
    words=lambda launch: f"launch of kernel {launch.bound.name}",
    run=_run_launch,
    run_timed=_run_launch,
    describe=lambda launch, item: (LAUNCH, 0, -1, -1, -1, -1, -1, launch.bound.name),  # both ends NOWHERE, in one step
    uses=_ranges_of_launch,
    reads=_readable,
    touches=_freed,
    effect=always,
    waits=lambda item: item.parked is not None and not item.parked.started,  # it stands behind other kernels
    silent=True,
    ended=lambda launch: new_tuple(Ended, ("launch of kernel", launch.bound.name, launch.options.seen)),
)
