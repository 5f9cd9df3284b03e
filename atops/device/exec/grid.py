"""One launch on one device: its geometry, its blocks while they run, its barrier, its first error and its end.

Which thread of a block runs next is chosen by a policy. Where blocks are placed is chosen in `block_scheduler.py`.
"""

from __future__ import annotations

import random
from _thread import RLock
from collections.abc import Callable, Iterable
from contextvars import Context
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from atops.base.agenda import Agenda
from atops.base.dims import Dim3
from atops.base.errors import ExecutionError, IllegalState
from atops.base.footprint import RUNTIME, Footprint
from atops.device.chip import Chip
from atops.device.cost import LaunchCost, meet
from atops.device.exec.failures import deadlock, waiting_lines
from atops.device.exec.thread import Reach
from atops.device.races.detector import LaunchDetector

if TYPE_CHECKING:
    from atops.device.chip import Cluster, Sip
    from atops.device.exec.block import Block
    from atops.device.exec.block_scheduler import ClusterArray
    from atops.device.exec.thread import KernelCoroutine, KernelThread

__all__ = ("Entry", "Grid", "GridBarrier", "Observer", "Policy", "RoundRobin", "Seeded", "policy_of")

# Being suspended only to go on costs more than a small transfer, so most waits for one are over at once. Not all: a
# thread that polls by DTE must let others run.
TURNS = 64

Observer = Callable[[str, "KernelThread", object], None]
Offload = Callable[[Callable[[], None]], None]
Extent = Dim3 | int | tuple[int, ...]


# ---- which ready thread of a block the interpreter resumes next


class Policy(Protocol):
    """Choose which thread runs next; `slice` is how many requests of it may be served before the next choice."""

    slice: int

    def choose(self, ready: int, /) -> int:
        """Return the position, from 0, of one of `ready` ready threads; they are in the order they became ready."""


class RoundRobin:
    """First come, first served: deterministic, and the interpreter's fast path, which never asks it.

    A thread whose request is served at once goes on at once, while what it touched is still in the cache.
    """

    slice = 1 << 30

    def choose(self, ready: int, /) -> int:
        """Return the oldest."""
        return 0


class Seeded:
    """Choose at random after every request. The same seed gives the same run wherever one OS thread runs the grid."""

    slice = 1

    def __init__(self, seed: int | random.Random) -> None:
        self._random = seed if isinstance(seed, random.Random) else random.Random(seed)

    def choose(self, ready: int, /) -> int:
        """Return any position."""
        return self._random.randrange(ready)


ROUND_ROBIN = RoundRobin()


def policy_of(seed: int | None, launch: int = 0) -> Policy:
    """Return the policy of a launch, by its number: round robin without a seed, else random from both."""
    return ROUND_ROBIN if seed is None else Seeded(seed * 1_000_003 + launch)


class GridBarrier:
    """The barrier of `grids` grids that run as one, on one device or more, and what it counts to find deadlocks.

    Every grid must have been built with it before a thread of one arrives. It counts the blocks that are quiet: done,
    or idle because all their threads that are left are parked. When all are quiet and nothing outside can wake a
    thread, none will ever run again.

    `lock` is a re-entrant leaf: blocks are rescheduled, and the ends of grids reported, after it was released.
    """

    __slots__ = ("arrived", "detector", "expected", "grids", "joined", "lock", "made", "phase", "quiet", "total")

    def __init__(self, grids: int = 1, only: Grid | None = None, blocks: int = 0) -> None:
        """Make a barrier of so many grids. A single one can be given here, with its number of blocks."""
        self.expected = grids
        self.joined = 0 if only is None else 1
        self.grids: list[Grid] = [] if only is None else [only]  # until the last of them is over
        self.lock = RLock()
        self.total = blocks  # of all the grids
        self.quiet = 0  # of them idle or done
        self.arrived: list[Block] = []
        self.phase = self.made = 0  # how often it has opened, and counted barriers of all its blocks
        self.detector: LaunchDetector | None = None  # of all the grids, where races are looked for

    def join(self, grid: Grid, blocks: int) -> None:
        """Take in a grid of so many blocks. Raises IllegalState when all the grids are there already."""
        with self.lock:
            if self.joined == self.expected:
                raise IllegalState(f"a grid barrier made for {self.expected} grids was given one more")
            self.joined += 1
            self.grids.append(grid)
            self.total += blocks

    def arrive(self, block: Block) -> bool:
        """Note that every thread of `block` is at the barrier; the last block releases the threads of all the others.

        Returns True for the last block: its own threads are for the caller to run.
        """
        with self.lock:
            others = self.arrived
            if len(others) + 1 < self.total or self.joined < self.expected:
                others.append(block)
                return False
            self.arrived = []
            self.phase += 1
            if block.cost is not None:
                meet(each.cost for each in (block, *others) if each.cost is not None)
            if self.detector is not None:
                self.detector.pass_grid_barrier()
            woken = [each for each in others if each.pass_grid_barrier()]
        for each in woken:
            each.reschedule()
        return True

    def wake(self, threads: Iterable[KernelThread]) -> None:
        """Make parked threads of any of the grids runnable. Safe from any OS thread; hold no lock."""
        with self.lock:
            woken = [thread.block for thread in threads if thread.block.make_ready((thread,))]
        for block in woken:
            block.reschedule()

    def note_idle(self, block: Block) -> bool:
        """Note that all threads of `block` are parked. Return whether no grid can go on. The lock is held."""
        block.idle = True
        self.quiet = quiet = self.quiet + 1
        return quiet >= self.total and self.stuck()

    def note_busy(self, block: Block) -> None:
        """Note that a block is idle no more. The lock is held."""
        block.idle = False
        self.quiet -= 1

    def stuck(self) -> bool:
        """Return whether threads are parked and nothing will ever wake one. The lock is held."""
        if self.quiet < self.total or self.joined < self.expected:
            return False
        waiting = [block.reach() for grid in self.grids for block in grid.blocks.values()]
        return bool(waiting) and max(waiting) is not Reach.OUTSIDE

    def release(self) -> None:
        """Drop the references to the grids, which refer to this barrier, when all are over. The lock is held."""
        if self.joined == self.expected:
            for grid in self.grids:
                if grid.remaining:
                    return
            self.grids = []

    def __repr__(self) -> str:
        return f"<GridBarrier: {len(self.arrived)} of {self.total} blocks arrived>"


# ---- launches


class Entry(Protocol):
    """A kernel bound to its arguments."""

    name: str
    make: Callable[[], object] | None
    """Makes the coroutine of any thread, or runs a plain function, where that is all there is to starting one.

    It saves a call a thread. What a plain function returns is settled by `finish`.
    """
    suspends: bool
    """Whether `make` makes coroutines."""
    prepares: bool
    """Whether it has something to look at before the first thread runs."""
    native: Callable[[Grid, int, Cluster, list[Sip]], Block] | None
    """Makes a block of one that is machine code: its threads are no coroutines."""

    def prepare(self, grid: Grid, /) -> None:
        """Look at the grid before its first thread runs."""

    def start(self, thread: KernelThread, /) -> KernelCoroutine | None:
        """Return the coroutine of this thread; or run a plain function to its end and return None. May raise."""

    def finish(self, thread: KernelThread, value: object, /) -> None:
        """Settle what a thread left behind whose kernel ended without an error. May raise.

        Called where there is something: transfers that were issued, or a returned `value` that is not None.
        """


class _Shape(NamedTuple):
    """What follows from the extents of a launch."""

    grid: Dim3
    block: Dim3
    blocks: int
    threads: int  # of a block
    indices: tuple[tuple[int, int, int], ...]  # of a block's threads, in linear order


@lru_cache(maxsize=64)
def _shape(grid_dim: Extent, block_dim: Extent) -> _Shape:
    """Return the shape of a launch. A program launches in few shapes and often."""
    grid, block = Dim3.of(grid_dim, "grid_dim"), Dim3.of(block_dim, "block_dim")
    return _Shape(grid, block, grid.volume, block.volume, tuple(block.indices()))


def _detector_of(barrier: GridBarrier) -> LaunchDetector:
    """Return the detector of all grids that meet at a barrier, made by the first of them."""
    with barrier.lock:
        if barrier.detector is None:
            barrier.detector = LaunchDetector()
        return barrier.detector


class Grid:
    """A launch of `entry` on `chip`, as `grid_dim` blocks of `block_dim` threads.

    `on_start` is called when its first block gets a cluster, and `on_done` exactly once, with no lock held, on the OS
    thread that ended the last block. `error` is the first one; once it is set, every thread is closed at its
    suspension. `offload` runs a transfer on a copy thread. `observer(kind, thread, detail)` sees every turn, request
    and end of every thread, which costs time. Grids that are to synchronise across devices share one `barrier`. With an
    `agenda` every turn of every thread is a step of that, and so is the effect of each transfer; `label` is then the
    launch in their names. With `cost` each block keeps its cluster for the time that its threads took by their own
    clocks, and the grid is over when the last block is.
    """

    __slots__ = (
        "__weakref__", "_rng", "aborted", "agenda", "arch", "barrier", "block_dim", "blocks", "chip", "context",
        "cooperative", "cost", "detector", "entry", "error", "grid_dim", "label", "looked_at", "name", "observer",
        "offload", "options", "place_told", "placement", "policy", "priority", "remaining", "shared_bytes",
        "started", "thread_indices", "threads_per_block", "total_blocks", "turns", "used", "warnings",
    )  # fmt: skip

    aborted: ExecutionError | None
    blocks: dict[int, Block]  # placed and not done; changes under the barrier's lock
    detector: LaunchDetector | None
    error: ExecutionError | None
    looked_at: bool  # whether accesses of its threads are told to a clock, an observer or a detector
    place_told: bool  # whether `error` says where an abort has stopped a thread; changes under the barrier's lock
    placement: ClusterArray | None
    priority: int  # the clusters set it: -2 (most urgent) to 0
    used: int  # a bit for each cluster that its blocks got
    warnings: list[str]
    _rng: random.Random | None

    def __init__(
        self,
        entry: Entry,
        chip: Chip,
        grid_dim: Extent,
        block_dim: Extent,
        shared_bytes: int = 0,
        cooperative: bool = False,
        *,
        offload: Offload | None = None,
        policy: Policy | None = None,
        observer: Observer | None = None,
        barrier: GridBarrier | None = None,
        context: Context | None = None,
        agenda: Agenda | None = None,
        label: str | int = 0,
        cost: LaunchCost | None = None,
    ) -> None:
        self.entry, self.name, self.chip, self.arch = entry, entry.name, chip, chip.arch
        self.grid_dim, self.block_dim, total, self.threads_per_block, self.thread_indices = _shape(grid_dim, block_dim)
        self.total_blocks = self.remaining = total
        self.shared_bytes, self.cooperative, self.options = shared_bytes, cooperative, chip.options
        self.agenda, self.label, self.cost, self.observer, self.offload = agenda, label, cost, observer, offload
        self.policy = policy or policy_of(chip.options.seed)
        self.context = context  # each block runs in a copy: a context is entered only once
        self.error = self.aborted = self.placement = self._rng = self.detector = None
        self.blocks, self.warnings, self.used, self.priority = {}, [], 0, 0
        self.started = self.place_told = False
        if barrier is None:
            self.barrier = GridBarrier(1, self, total)
        else:
            self.barrier = barrier
            barrier.join(self, total)
        if chip.detects:
            self.detector = _detector_of(self.barrier)
        seen = observer is not None or agenda is not None
        self.looked_at = seen or cost is not None or chip.detects
        self.turns = TURNS if chip.waits_move and not seen and type(self.policy) is RoundRobin else 0

    def on_start(self) -> None:
        """Do nothing; for what has to know when the first block gets a cluster."""

    def on_done(self) -> None:
        """Do nothing; for what has to know when the grid is over."""

    @property
    def rng(self) -> random.Random:
        """The random numbers of this launch (dte="seeded"), from the options' seed."""
        if self._rng is None:
            self._rng = random.Random(self.options.seed or 0)
        return self._rng

    @property
    def cluster(self) -> int:
        """The ordinal of the cluster that got all its blocks until now; -1 where several did, or none."""
        return -1 if self.used & (self.used - 1) else self.used.bit_length() - 1

    @property
    def done(self) -> bool:
        """Whether no block is left."""
        return self.remaining == 0

    def opened(self, block: Block) -> None:
        """Take in a block that has been placed."""
        with self.barrier.lock:
            self.blocks[block.linear] = block
            self.used |= 1 << block.cluster.ordinal
        if self.detector is not None:
            self.detector.opened(block)
        if not self.started:
            self.started = True
            if self.entry.prepares:
                self.entry.prepare(self)
            self.on_start()

    def abort(self, error: ExecutionError) -> None:
        """Close every thread at its suspension, the parked ones at once. `on_done` still comes. Safe from anywhere."""
        if self.aborted is None:
            self.aborted = error
        self.stop(error)

    def stop(self, error: ExecutionError) -> None:
        """End this grid, and those that share its barrier, with `error`; the first error wins."""
        with self.barrier.lock:
            if self.error is not None or self.remaining == 0:
                return
            self.error = error
            held = [block for block in self.blocks.values() if block.held is not None]
            woken = [block for block in self.blocks.values() if block.held is None and block.cancel()]
        for block in woken:
            block.reschedule()
        if self.placement is not None:
            self.placement.withdraw(self)
        for block in held:
            block.let_go()
        for other in self.barrier.grids:
            other.stop(error)

    def block_done(self, block: Block) -> None:
        """Take back a block whose threads have all ended."""
        placement = self.placement
        with self.barrier.lock:
            if self.blocks.pop(block.linear, None) is None:
                return  # it was abandoned, and counted then
        if self.agenda is not None and (footprint := self.agenda.footprint) is not None:
            self._tell_done(footprint)
        # Before the block counts as quiet: what takes its place can still run, and must be known by then.
        rest = None if placement is None else placement.retire(block)
        self.dropped(1)
        if rest is not None and placement is not None:
            placement.give_later(rest)  # the stream has offered its next launch by now

    def next_block(self, block: Block) -> bool:
        """Have a block that is done be the next one of the grid, if its cluster is that one's. Returns whether it is.

        For blocks that have nothing of their own but their place; it saves what the end of one and the start of another
        take.
        """
        if len(self.blocks) == self.remaining:
            return False  # all that are left have clusters
        placement, barrier = self.placement, self.barrier
        plain = self.agenda is None and self.cost is None and self.detector is None and not self.cooperative
        if placement is None or self.error is not None or not plain or (linear := placement.next_of(block)) is None:
            return False
        with barrier.lock:
            del self.blocks[block.linear]
            block.linear, block.index = linear, self.grid_dim.index(linear)
            self.blocks[linear] = block
            self.remaining -= 1
            barrier.quiet += 1
        return True

    def _tell_done(self, footprint: Footprint) -> None:
        """Tell the footprint of a step what the end of a block touches, where it is all that the step does."""
        assert self.agenda is not None, "asked"
        current = self.agenda.current
        if current[0] in ("timer", "step", "block") and self.error is None:
            footprint.begin(current)
        footprint.write(RUNTIME)

    def dropped(self, count: int) -> None:
        """Note that so many blocks have ended, or will never run; report the end, or a deadlock it leaves behind."""
        barrier = self.barrier
        with barrier.lock:
            self.remaining = left = self.remaining - count
            over = count > 0 and left == 0
            barrier.quiet = quiet = barrier.quiet + count
            alone = over and barrier.expected == 1  # then nothing is left to be stuck
            stuck = quiet >= barrier.total and not alone and barrier.stuck()
            if over:
                if self.detector is not None and not any(grid.remaining for grid in barrier.grids):
                    self.detector.over()
                if alone:
                    barrier.grids = []  # which refers to this one
                else:
                    barrier.release()
        if stuck:
            if self.agenda is not None:
                self.offer_deadlock()
            else:
                self.deadlocked()
        if over:
            self.on_done()

    def offer_deadlock(self) -> None:
        """Have it be one of what could come next that every grid of the barrier is stopped: nothing else will go on.

        Transfers in flight may come before it.
        """
        grid = self.barrier.grids[0]
        agenda = grid.agenda
        assert agenda is not None, "asked"

        def stop() -> None:
            if agenda.footprint is not None:
                agenda.footprint.need(("stands", grid.label))
            grid.deadlocked()

        agenda.add(("block", grid.label, "stands"), stop)

    def deadlocked(self) -> None:
        """Stop every grid of the barrier, naming what each thread waits for."""
        barrier = self.barrier
        with barrier.lock:
            error = deadlock(barrier.grids)
        for grid in barrier.grids:
            grid.stop(error)

    def abandon(self) -> None:
        """Give up blocks whose kernels never suspend: their clusters get fresh scratchpads, and the grid is over."""
        barrier = self.barrier
        with barrier.lock:
            blocks = list(self.blocks.values())
            self.blocks.clear()
            for block in blocks:
                if block.idle:
                    barrier.note_busy(block)
        for block in blocks:
            block.cluster.renew()
            if self.placement is not None and (rest := self.placement.retire(block)) is not None:
                self.placement.give_later(rest)
        if blocks:
            self.dropped(len(blocks))

    def running(self) -> list[KernelThread]:
        """Return the threads that are being run at this moment."""
        with self.barrier.lock:
            return [thread for block in self.blocks.values() for thread in block.running()]

    def moves(self) -> bool:
        """Return whether a thread of a block that has its cluster is running or can run."""
        with self.barrier.lock:
            return any(not block.idle for block in self.blocks.values())

    def waits(self) -> list[str]:
        """Say what its threads wait for, a line for blocks that wait alike, for stall reports."""
        with self.barrier.lock:
            return waiting_lines(self)

    def __repr__(self) -> str:
        state = "done" if self.remaining == 0 else f"{self.remaining} of {self.total_blocks} blocks left"
        return f"<Grid {self.name} {tuple(self.grid_dim)} x {tuple(self.block_dim)}: {state}>"
