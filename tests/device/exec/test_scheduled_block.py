"""Kernel threads and transfers under a schedule: every turn is chosen, and what can happen does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import atops.kernels as k
from atops.base.agenda import Agenda
from atops.base.choice import Chooser, Name, Plain, Random, Replay
from atops.base.errors import DteError, KernelDeadlock, LaunchFailure, StepLimit
from atops.device.dte.transfer import DteEvent
from atops.device.exec.block_scheduler import ClusterArray
from atops.device.exec.grid import Grid
from atops.kernels.kernel import Kernel
from tests.kernel_bench import Bench, benches

Make = Callable[..., Bench]
ORDER: list[Any] = []  # of the turns of a run


@pytest.fixture(name="make")
def _make() -> Iterator[Make]:
    yield from benches()


def attempt(bench: Bench, chooser: Chooser, kernel: Kernel, config: Any, *args: Any, limit: int = 50_000) -> Any:
    """Run a kernel under a chooser to its end; return its grid, and the names of what was chosen."""
    agenda = Agenda(chooser, limit)
    model = bench.grid(kernel, config, *args)
    grid = Grid(
        model.entry, bench.chip, model.grid_dim, model.block_dim, cooperative=model.cooperative,
        agenda=agenda, label="launch",
    )  # fmt: skip
    clusters = ClusterArray(bench.chip.clusters)
    clusters.place = lambda block: block.tasks()  # type: ignore[assignment]  # for the runtime
    clusters.submit(grid, 0, 0)
    agenda.run()
    assert grid.done
    return grid, agenda


def run(bench: Bench, chooser: Chooser, kernel: Kernel, config: Any, *args: Any) -> list[Name]:
    """As `attempt`, for a kernel that does not fail; return the names."""
    grid, agenda = attempt(bench, chooser, kernel, config, *args)
    if grid.error is not None:
        raise grid.error
    return [choice.name for choice in agenda.choices]


class Forced:
    """Chooses as a list says, then the first; `options` is how many there were each time."""

    def __init__(self, path: list[int]) -> None:
        self.path, self.options = path, list[int]()

    def choose(self, kind: str, names: Sequence[Name], /) -> int:
        at = len(self.options)
        self.options.append(len(names))
        return self.path[at] if at < len(self.path) else 0


def every_run(once: Callable[[Forced], object]) -> Iterator[object]:
    """Yield what `once` returns for each schedule, depth first."""
    path: list[int] | None = []
    while path is not None:
        chooser = Forced(path)
        yield once(chooser)
        path = path + [0] * (len(chooser.options) - len(path))
        while path and path[-1] + 1 == chooser.options[len(path) - 1]:
            path.pop()
        path = [*path[:-1], path[-1] + 1] if path else None


@k.kernel
async def turns(x: Any, count: Any) -> None:
    for _ in range(count):
        ORDER.append((k.blockIdx.x, k.threadIdx.x))
        await DteEvent()
    ORDER.append((k.blockIdx.x, k.threadIdx.x))


@k.kernel
async def add_by_dte(x: Any) -> None:
    ctx = k.tops_dte_ctx_t()
    mine = k.local(1, np.int32)
    with k.dte_scope(ctx):
        await k.memcpy_async(ctx, mine, x)
        mine[0] += 1
        await k.memcpy_async(ctx, x, mine)


@k.kernel
async def overwrites_its_source(x: Any, y: Any) -> None:
    ctx = k.tops_dte_ctx_t()
    mine = k.local(1, np.int32)
    mine[0] = 1
    with k.dte_scope(ctx):
        event = k.memcpy_async(ctx, x, mine)
        mine[0] = 2
        await event


@k.kernel
async def reads_meanwhile(x: Any, y: Any) -> None:
    ctx = k.tops_dte_ctx_t()
    if k.threadIdx.x == 0:
        mine = k.local(1, np.int32)
        mine[0] = 7
        with k.dte_scope(ctx):
            await k.memcpy_async(ctx, x, mine)
            await DteEvent()
    else:
        y[0] = x[0]
        await DteEvent()
        y[1] = x[0]


def test_two_threads_have_every_order(make: Make) -> None:
    """Of three turns each: twenty orders in as many runs, which are all there are."""
    bench = make()
    x = bench.upload(np.zeros(1, np.int32))

    def once(chooser: Forced) -> object:
        ORDER.clear()
        run(bench, chooser, turns, (1, 2), x, 2)
        return tuple(thread for _, thread in ORDER)

    orders = list(every_run(once))
    assert len(orders) == len(set(orders)) == 20


def test_blocks_stand_in_one_list(make: Make) -> None:
    """Turns of one block come between turns of another, and names say which."""
    bench = make()
    x = bench.upload(np.zeros(1, np.int32))
    ORDER.clear()
    names = run(bench, Random(1), turns, (2, 3), x, 3)
    assert Counter(names) == {("thread", "launch", block, thread): 4 for block in range(2) for thread in range(3)}
    assert [(block, thread) for _, _, block, thread in names] == ORDER
    assert len({block for block, _ in ORDER[: len(ORDER) // 2]}) == 2


@pytest.mark.parametrize("config", [(2, 1), (1, 2)])
@pytest.mark.parametrize("dte", ["wait", "eager", "seeded"])
def test_an_update_by_dte_is_lost_by_some_schedule(make: Make, config: Any, dte: str) -> None:
    """Between blocks, between threads, and whatever `dte` is."""
    bench = make(dte=dte)
    results = Counter[int]()
    for seed in range(30):
        x = bench.upload(np.zeros(1, np.int32))
        run(bench, Random(seed), add_by_dte, config, x)
        results[int(x.host[0])] += 1
    assert set(results) == {1, 2}
    assert min(results.values()) > 3


def test_a_transfer_takes_effect_at_any_time_until_its_wait(make: Make) -> None:
    """At the issue, before its thread stores into the source; or later."""
    bench = make()
    results = set()
    for seed in range(20):
        x, y = bench.upload(np.zeros(1, np.int32)), bench.upload(np.zeros(1, np.int32))
        run(bench, Random(seed), overwrites_its_source, (1, 1), x, y)
        results.add(int(x.host[0]))
    assert results == {1, 2}


def test_strict_mode_names_a_source_that_was_overwritten(make: Make) -> None:
    """By the schedules in which that matters."""
    bench = make(strict=True)
    errors = set()
    for seed in range(20):
        x, y = bench.upload(np.zeros(1, np.int32)), bench.upload(np.zeros(1, np.int32))
        grid, _ = attempt(bench, Random(seed), overwrites_its_source, (1, 1), x, y)
        errors.add(None if grid.error is None else type(grid.error))
    assert errors == {None, DteError}


def test_others_run_between_issue_and_effect(make: Make) -> None:
    """One that reads the target twice sees it before and after, or one of both only."""
    bench = make()
    seen = set()
    for seed in range(60):
        x, y = bench.upload(np.zeros(1, np.int32)), bench.upload(np.zeros(2, np.int32))
        run(bench, Random(seed), reads_meanwhile, (1, 2), x, y)
        seen.add(tuple(map(int, y.host)))
    assert seen == {(0, 0), (0, 7), (7, 7)}


@pytest.mark.parametrize("kernel", [add_by_dte, turns])
def test_a_replay_is_the_same_run(make: Make, kernel: Kernel) -> None:
    """By what was logged."""
    bench = make()
    x = bench.upload(np.zeros(1, np.int32))
    args = (x,) if kernel is add_by_dte else (x, 3)
    _, agenda = attempt(bench, Random(3), kernel, (2, 4), *args)
    replay = Replay(agenda.choices)
    _, again = attempt(bench, replay, kernel, (2, 4), *args)
    assert replay.ended() is None
    assert again.choices == agenda.choices


@k.kernel
async def forgets_its_transfer(x: Any, y: Any) -> None:
    ctx = k.tops_dte_ctx_t()
    mine = k.local(1, np.int32)
    mine[0] = 5
    ctx.init()
    k.memcpy_async(ctx, x, mine)


def test_a_transfer_that_nothing_waits_for_is_done_at_the_end(make: Make) -> None:
    """With the warning that it has without a schedule."""
    bench = make()
    for seed in range(6):
        x = bench.upload(np.zeros(1, np.int32))
        grid, agenda = attempt(bench, Random(seed), forgets_its_transfer, (1, 1), x, x)
        assert int(x.host[0]) == 5
        assert len(agenda) == 0
        assert len(grid.warnings) in (0, 1)


@k.kernel
async def one_is_missing(x: Any) -> None:
    if k.threadIdx.x:
        await k.syncthreads()


@k.kernel
async def one_fails(x: Any) -> None:
    await DteEvent()
    assert k.thread_id() != 7
    await k.syncthreads()


@k.kernel
async def spins(x: Any) -> None:
    while x[0] == 0:
        await DteEvent()


@k.kernel
async def spins_for_another(x: Any) -> None:
    if k.threadIdx.x:
        x[0] = 1
        return
    while x[0] == 0:
        await DteEvent()


@k.kernel
async def swallows(x: Any) -> None:
    if k.threadIdx.x == 0:
        raise ValueError("wrong")
    while True:
        try:
            await k.syncthreads()
        except GeneratorExit:
            await k.syncthreads()


@k.kernel(cooperative=True)
async def grid_phases(x: Any) -> None:
    for phase in range(3):
        ORDER.append(phase)
        await k.syncblocks()


@pytest.mark.parametrize("seed", range(3))
def test_what_goes_wrong_is_found(make: Make, seed: int) -> None:
    """A deadlock, a failure, an endless loop, and a kernel that cannot be closed; nothing stays on the agenda."""
    bench = make()
    x = bench.upload(np.zeros(1, np.int32))
    for kernel, error in ((one_is_missing, KernelDeadlock), (one_fails, LaunchFailure), (swallows, LaunchFailure)):
        grid, agenda = attempt(bench, Random(seed), kernel, (2, 6), x)
        assert isinstance(grid.error, error)
        assert len(agenda) == 0
    with pytest.raises(StepLimit, match=r"^5000 steps were made and the run is not over; .*thread 0 of block 0"):
        attempt(bench, Random(seed), spins, (1, 1), x, limit=5000)


def test_a_spinning_thread_lets_others_run(make: Make) -> None:
    """Also under a chooser that prefers it for ever."""

    class Stubborn:
        def choose(self, kind: str, names: Any, /) -> int:
            return min(range(len(names)), key=lambda place: names[place])

    bench = make()
    x = bench.upload(np.zeros(1, np.int32))
    run(bench, Stubborn(), spins_for_another, (1, 2), x)
    assert int(x.host[0]) == 1


def test_grid_barriers_hold(make: Make) -> None:
    """No thread is in a phase before all have left the one before."""
    bench = make()
    x = bench.upload(np.zeros(1, np.int32))
    for seed in range(5):
        ORDER.clear()
        run(bench, Random(seed), grid_phases, (2, 5), x)
        assert sorted(ORDER) == ORDER
        assert len(ORDER) == 30


def test_plain_is_first_come_first_served(make: Make) -> None:
    """The threads of one block in turn."""
    bench = make()
    x = bench.upload(np.zeros(1, np.int32))
    ORDER.clear()
    run(bench, Plain(), turns, (1, 4), x, 3)
    assert [thread for _, thread in ORDER] == [0, 1, 2, 3] * 4
