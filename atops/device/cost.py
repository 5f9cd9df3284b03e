"""How long kernels take under a virtual clock: a clock for each kernel thread, each SIP's DTE and each signal.

Nothing is scheduled by them: a thread's clock depends on what the thread does and on the clocks of what it waits for,
so the same kernel takes the same time in whatever order its threads have their turns. Figures are the architecture's.
Times here are picoseconds of the driver's clock, each rounded up; a launch's is rounded up to a nanosecond at its end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from atops.device.arch import Architecture

__all__ = (
    "BlockCost", "ByteTimes", "Cancellable", "KernelClock", "LaunchCost", "SignalTimes", "ThreadCost", "TickTimes",
    "meet",
)  # fmt: skip

NS: Final = 1000  # picoseconds
SECOND: Final = 10**12
_MOST_SIZES = 4096  # whose times are kept
_MOST_STORES = 4096  # of a signal whose times are kept: more than that many in no time at all are told apart no more


class Cancellable(Protocol):
    """A step that will run later."""

    def cancel(self) -> None:
        """Forget it."""


class KernelClock(Protocol):
    """The driver's clock as kernels need it."""

    def now(self) -> int:
        """Return the time in nanoseconds."""

    def hold(self, duration: int, step: Callable[[], None], priority: int) -> Cancellable:
        """Run a step after so many nanoseconds, in which a kernel goes on."""

    def link_bandwidth(self, device: int) -> int:
        """Return the bytes per second between this chip and another one."""


def _ceil_ps(amount: int, rate: int) -> int:
    """Return the picoseconds of so many at a rate a second, rounded up."""
    return -(-amount * SECOND // rate)


class ByteTimes(dict[int, int]):
    """Picoseconds by bytes: of an engine that moves `engine` bytes a second, and its share of what they cross."""

    __slots__ = ("_bandwidth", "_engine", "_sharers")

    def __init__(self, engine: int, bandwidth: int, sharers: int) -> None:
        self._engine, self._bandwidth, self._sharers = engine, bandwidth, sharers

    def __missing__(self, nbytes: int) -> int:
        time = max(-(-nbytes * SECOND // self._engine), self.crossing(nbytes))
        if len(self) < _MOST_SIZES:
            self[nbytes] = time
        return time

    def crossing(self, nbytes: int) -> int:
        """Return the time of bytes at the share alone."""
        return _ceil_ps(nbytes * self._sharers, self._bandwidth)


class TickTimes(dict[int, int]):
    """Picoseconds by a number, of which `each` begun take a tick of a clock of `hz`: one at least."""

    __slots__ = ("_each", "_hz")

    def __init__(self, hz: int, each: int = 1) -> None:
        self._hz, self._each = hz, each

    def __missing__(self, count: int) -> int:
        time = _ceil_ps(-(-count // self._each) or 1, self._hz)
        if len(self) < _MOST_SIZES:
            self[count] = time
        return time


class LaunchCost:
    """The figures of one launch on chip `device`, and when it began.

    `threads` are those of a block, `blocks` all there are. L3 and links are shared evenly by the SIPs that the launch
    may have at once, the L2 of a cluster by the threads of a block. `scratchpad` has the time of a thread's own access
    to L1 or L2 by its bytes: a tick for as many as the widest vector has.
    """

    __slots__ = (
        "_links", "arch", "barrier", "blocks", "clock", "device", "dte", "engine", "global_access", "grid_barrier",
        "known", "l2", "l3", "scratchpad", "sips", "started", "threads", "ticks",
    )  # fmt: skip

    def __init__(self, arch: Architecture, device: int, clock: KernelClock, threads: int, blocks: int) -> None:
        self.arch, self.device, self.clock, self.threads, self.blocks = arch, device, clock, threads, blocks
        hz = arch.clock_khz * 1000
        self.engine = arch.dte_bytes_per_tick * hz
        self.ticks, self.scratchpad = TickTimes(hz), TickTimes(hz, arch.vector_bytes[2])
        self.barrier = arch.barrier_latency_ns * NS
        self.grid_barrier = arch.grid_barrier_latency_ns * NS
        self.dte = arch.dte_latency_ns * NS
        self.global_access = arch.global_access_latency_ns * NS
        self.l2 = ByteTimes(self.engine, arch.l2_bandwidth // arch.clusters, threads)
        self.known: dict[object, int] = {}  # what transfers took that were like others
        self.started = -1  # until its first block is there
        self.sips = 0  # as the next two, too
        self.l3: ByteTimes
        self._links: dict[int | None, ByteTimes] = {}

    def share(self, clusters: int) -> None:
        """Note how many clusters the launch may use. Changes nothing once it has begun."""
        if self.started < 0:
            self.sips = self.threads * min(self.blocks, clusters)
            self.l3 = ByteTimes(self.engine, self.arch.l3_bandwidth, self.sips)

    def link(self, device: int | None) -> ByteTimes:
        """Return the times of bytes from or to memory of the host (None), or of another chip."""
        found = self._links.get(device)
        if found is None:
            bandwidth = self.arch.host_bandwidth if device is None else self.clock.link_bandwidth(device)
            found = self._links[device] = ByteTimes(self.engine, bandwidth, self.sips)
        return found

    def reach(self, device: int | None) -> ByteTimes:
        """Return the times of bytes of global memory: the chip's own L3, another one's, or the host's (None)."""
        return self.l3 if device == self.device else self.link(device)

    def through(self, nbytes: int) -> int:
        """Return the time of bytes through a DTE, whatever they cross."""
        return _ceil_ps(nbytes, self.engine)

    def begin_block(self) -> BlockCost:
        """Return the clock of a block that gets its cluster now; none begins before the launch's latency is over."""
        now = self.clock.now() * NS
        if self.started < 0:
            if not self.sips:
                self.share(self.arch.clusters)
            self.started = now
        return BlockCost(self, max(now, self.started + self.arch.launch_latency_ns * NS))

    def flops(self, count: int, itemsize: int) -> int:
        """Return the time of so many operations at a SIP's share of the chip's peak for elements of so many bytes."""
        arch = self.arch
        peak = {1: arch.int8_ops, 2: arch.fp16_flops}.get(itemsize, arch.fp32_flops)
        return _ceil_ps(count * arch.sips, peak if itemsize <= 4 else peak // 2)


class BlockCost:
    """What the clocks of a block's threads have in common.

    `floor` is what no thread is behind: the begin, the last barrier. `latest` is the farthest that a thread has come,
    `busy` the end of the last transfer. So a barrier, where all threads are, sets one number and not one a thread.
    """

    __slots__ = ("busy", "floor", "latest", "launch", "scratchpad")

    def __init__(self, launch: LaunchCost, begin: int) -> None:
        self.launch = launch
        self.scratchpad = launch.scratchpad
        self.floor = self.latest = begin
        self.busy = 0

    def open(self) -> None:
        """Let all threads pass the block barrier."""
        self.floor = self.latest = self.latest + self.launch.barrier

    def rebase(self) -> None:
        """Come to the driver's time, where all of the block is behind it: what runs now does not run earlier."""
        now = self.launch.clock.now() * NS
        if now > self.latest:
            self.floor = self.latest = now

    @property
    def reached(self) -> int:
        """The time in nanoseconds that the block has come to."""
        return self.latest // NS

    @property
    def left(self) -> int:
        """The nanoseconds from the driver's time to the end of all that the block has done, rounded up."""
        return -(-max(self.latest, self.busy) // NS) - self.launch.clock.now()


def meet(blocks: Iterable[BlockCost]) -> None:
    """Let blocks, all of whose threads are at the grid barrier, pass it; they may be of several chips."""
    blocks = list(blocks)
    together = max(block.latest + block.launch.grid_barrier for block in blocks)
    for block in blocks:
        block.floor = block.latest = together


class ThreadCost:
    """The clock of one kernel thread, and that of its SIP's DTE, which does one transfer after the other."""

    __slots__ = ("_now", "block", "engine")

    def __init__(self, block: BlockCost) -> None:
        self.block = block
        self._now = self.engine = 0

    @property
    def now(self) -> int:
        """The thread's time in picoseconds."""
        now, floor = self._now, self.block.floor
        return floor if floor > now else now

    @property
    def now_ns(self) -> int:
        """The thread's time in nanoseconds, rounded up."""
        return -(-self.now // NS)

    def until(self, time: int) -> None:
        """Wait for something that is over at `time`."""
        block, now = self.block, self._now
        if block.floor > now:
            now = block.floor
        if time > now:
            now = time
        self._now = now
        if now > block.latest:
            block.latest = now

    def spend(self, duration: int) -> None:
        """Be busy for so long."""
        block, now = self.block, self._now
        if block.floor > now:
            now = block.floor
        self._now = now = now + duration
        if now > block.latest:
            block.latest = now

    def issue(self, duration: int, after: int = 0) -> int:
        """Have the DTE do a transfer once it is free, and `after` is over. Return when the transfer is."""
        block = self.block
        begin = max(self._now, block.floor, self.engine, after)
        self.engine = over = begin + block.launch.dte + duration
        if over > block.busy:
            block.busy = over
        return over

    def passed(self, time: int) -> None:
        """Pass a counted barrier, or see a signal: what it waited for came at `time`."""
        self.until(time + self.block.launch.barrier)

    def access(self, nbytes: int) -> None:
        """Load or store bytes of L1 or L2."""
        block, now = self.block, self._now  # `spend`, written out: of all that a thread does this is the most frequent
        if block.floor > now:
            now = block.floor
        self._now = now = now + block.scratchpad[nbytes]
        if now > block.latest:
            block.latest = now

    def access_global(self, nbytes: int, device: int | None) -> None:
        """Load or store bytes of global memory without the DTE: of the chip's own, of another one or the host's."""
        launch = self.block.launch
        self.spend(launch.global_access + launch.reach(device)[nbytes])

    def issue_global(self, nbytes: int, device: int | None) -> int:
        """Have the DTE copy bytes between L1 and global memory. Return when that is over."""
        return self.issue(self.block.launch.reach(device)[nbytes])

    def work(self, flops: int, nbytes: int, itemsize: int) -> None:
        """Compute, and then move bytes between the thread and L3."""
        launch = self.block.launch
        self.spend((launch.flops(flops, itemsize) if flops else 0) + (launch.l3[nbytes] if nbytes else 0))

    def compute(self, vectors: int, function: bool) -> None:
        """Do an operation, or a mathematical function, on each of so many vectors."""
        block, now = self.block, self._now  # `spend`, as above
        if block.floor > now:
            now = block.floor
        launch = block.launch
        self._now = now = now + launch.ticks[vectors * launch.arch.function_ticks if function else vectors]
        if now > block.latest:
            block.latest = now


class SignalTimes:
    """When a kernel signal had which value, as far as a thread may still ask: an asker is never behind `now`."""

    __slots__ = ("_stores",)

    def __init__(self) -> None:
        self._stores: deque[tuple[int, int]] = deque([(0, 0)], _MOST_STORES)  # (from when on, value), ordered

    def store(self, value: int, time: int, now: int) -> int:
        """Note a value that is stored at `time`, or after the last one that is there. Return when it is."""
        stores = self._stores
        time = max(time, stores[-1][0])
        stores.append((time, value))
        while len(stores) > 1 and stores[1][0] <= now:
            stores.popleft()
        return time

    def met(self, met: Callable[[int], bool], time: int) -> int:
        """Return when a wait that began at `time`, and whose condition is met by now, was over."""
        stores = self._stores
        first = max(0, bisect_right(stores, time, key=lambda store: store[0]) - 1)
        for place in range(first, len(stores)):
            if met(stores[place][1]):
                return max(time, stores[place][0])
        return max(time, stores[-1][0])

    @property
    def last(self) -> int:
        """When the value that is there now was stored."""
        return self._stores[-1][0]
