"""The clocks of kernel threads by themselves: signals, blocks that are held, and every schedule of the turns."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import atops.kernels as k
from atops.base.agenda import Agenda
from atops.base.choice import Plain, Random
from atops.base.errors import ExecutionError
from atops.device.arch import architecture
from atops.device.cost import BlockCost, LaunchCost, SignalTimes, ThreadCost, meet
from atops.device.exec.block_scheduler import ClusterArray
from atops.device.exec.grid import Grid
from tests.kernel_bench import Bench, benches

Make = Callable[..., Bench]
US = 1_000_000  # picoseconds


class Clock:
    """A driver's clock, which moves to the end of the next block that is held."""

    def __init__(self) -> None:
        self.time = 0
        self.held: list[tuple[int, int, Any]] = []
        self.count = itertools.count()

    def now(self) -> int:
        return self.time

    def hold(self, duration: int, step: Callable[[], None], priority: int) -> Any:
        held = _Held(step)
        heapq.heappush(self.held, (self.time + duration, next(self.count), held))
        return held

    def link_bandwidth(self, device: int) -> int:
        return 10**9

    def go_on(self) -> bool:
        """Let the next block end. Returns False where none is held."""
        if not self.held:
            return False
        self.time, _, held = heapq.heappop(self.held)
        held.step()
        return True


class _Held:
    def __init__(self, step: Callable[[], None]) -> None:
        self.step = step

    def cancel(self) -> None:
        self.step = lambda: None


@pytest.fixture(name="make")
def _make() -> Iterator[Make]:
    yield from benches()


def block(begin: int = 0) -> BlockCost:
    """Return the clock of a block of four threads that begins at a time."""
    launch = LaunchCost(architecture("gcu300"), 0, Clock(), 4, 1)
    launch.share(1)
    return BlockCost(launch, begin)


def test_a_transfer_begins_when_engine_thread_and_what_comes_first_are_ready() -> None:
    """Each adds its latency; waiting for what is over takes no time."""
    cost = ThreadCost(block(begin=100))
    first = cost.issue(1000)
    assert first == 100 + 200_000 + 1000 and cost.now == 100
    assert cost.issue(0) == first + 200_000
    assert cost.issue(0, after=5 * US) == 5 * US + 200_000
    cost.until(first)
    cost.until(0)
    assert cost.now == first
    assert cost.block.latest == first and cost.block.busy == 5 * US + 200_000


def test_barriers_bring_all_to_the_latest() -> None:
    """In a block and over blocks; a thread that does nothing comes along."""
    one, two = block(), block()
    threads = [ThreadCost(each) for each in (one, one, two)]
    threads[0].spend(7)
    one.open()
    assert [each.now for each in threads] == [100_007, 100_007, 0]
    threads[2].spend(900_000)
    meet([one, two])
    assert {each.now for each in threads} == {1_400_000}
    threads[1].spend(1)
    assert [each.now for each in threads] == [1_400_000, 1_400_001, 1_400_000]


def test_a_signal_has_its_values_when_they_were_stored() -> None:
    """A wait is over at the first store that it could see and that met it, however late it is asked."""
    times = SignalTimes()
    for value, time in ((1, 10), (0, 20), (1, 30), (2, 30)):
        assert times.store(value, time, now=0) == time
    assert times.store(3, 25, now=0) == 30  # later than the last in its order, so not before it
    at_least = [lambda value, least=least: value >= least for least in range(4)]
    assert [times.met(at_least[1], time) for time in (0, 10, 15, 20, 25, 40)] == [10, 10, 15, 30, 30, 40]
    assert times.met(lambda value: value == 0, 5) == 5
    assert times.met(at_least[3], 0) == 30 == times.last
    times.store(4, 50, now=40)
    assert times.met(at_least[1], 40) == 40  # what was before the driver's time is forgotten, not what was there then


@k.kernel
async def all_sorts(x: k.Span) -> None:
    """Meet, transfer and compute, unlike in each thread."""
    me = k.threadIdx.x
    tile = k.local(256, np.uint8)
    shared = k.shared((k.blockDim.x, 256), np.uint8)
    gate = k.barrier(k.BarrierScope.SIP, k.blockDim.x)
    with k.dte_scope() as one, k.dte_scope() as two:
        first = k.memcpy_async(one, tile, x)
        k.cost(bytes=10_000 * me)
        second = k.memcpy_async(two, shared[me], x)
        await second
        await first
        await k.syncthreads()
        await k.memcpy_async(one, tile, shared[(me + 1) % k.blockDim.x])
        token = gate.arrive()
        k.cost(flops=10**6 * (3 - me))
        await gate.wait(token)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 3])
def test_no_schedule_changes_a_time(make: Make, blocks: int) -> None:
    """Every turn of every thread and the effect of every transfer may come in any order."""
    bench = make()
    taken = set()
    for seed in [None, *range(60)]:
        clock = Clock()
        agenda = Agenda(Plain() if seed is None else Random(seed))
        model = bench.grid(all_sorts, (blocks, 3), bench.upload(np.zeros(256, np.uint8)))
        grid = Grid(
            model.entry, bench.chip, model.grid_dim, model.block_dim, agenda=agenda,
            label="launch", cost=LaunchCost(bench.chip.arch, bench.chip.ordinal, clock, 3, blocks),
        )  # fmt: skip
        clusters = ClusterArray(bench.chip.clusters)
        clusters.place = lambda block: block.tasks()  # type: ignore[assignment]
        clusters.submit(grid, 0, 0)
        agenda.run()
        while clock.go_on():
            agenda.run()
        assert grid.done and grid.error is None
        taken.add(clock.time)
    assert len(taken) == 1 and min(taken) > 3000


def test_a_block_keeps_its_cluster_until_its_time_is_over(make: Make) -> None:
    """It is neither idle nor done, and a launch that is stopped lets it go at once."""
    bench, clock = make(), Clock()
    for stops in (False, True):
        agenda = Agenda(Plain())
        model = bench.grid(all_sorts, (1, 3), bench.upload(np.zeros(256, np.uint8)))
        grid = Grid(
            model.entry, bench.chip, model.grid_dim, model.block_dim, agenda=agenda,
            cost=LaunchCost(bench.chip.arch, bench.chip.ordinal, clock, 3, 1),
        )  # fmt: skip
        clusters = ClusterArray(bench.chip.clusters)
        clusters.place = lambda block: block.tasks()  # type: ignore[assignment]
        clusters.submit(grid, 0, 0)
        agenda.run()
        assert not grid.done and grid.moves() and not clusters.idle
        if stops:
            grid.abort(ExecutionError("stopped"))
        else:
            clock.go_on()
        assert grid.done and clusters.idle
        assert (grid.error is not None) is stops


def test_links_and_peers_have_their_own_rates() -> None:
    """L3 is shared by the SIPs at once, so is a link, and an engine is the most that one of them has."""
    launch = LaunchCost(architecture("gcu300"), 0, Clock(), 12, 5)
    launch.share(2)
    assert launch.sips == 24
    assert launch.reach(0)[28_000] == US and launch.reach(None)[63_000] == 24 * US
    assert launch.reach(1)[1000] == 24 * US  # a gigabyte in a second, for all of them
    one = LaunchCost(architecture("gcu300"), 0, Clock(), 1, 5)
    one.share(1)
    assert one.reach(0)[896] == 10_000  # picoseconds
    one.begin_block()
    one.share(7)
    assert one.sips == 1  # as it was when the launch began
