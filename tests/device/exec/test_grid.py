"""A grid: its geometry, its end, told once whatever happens, and giving up on kernels that never suspend."""

from __future__ import annotations

import gc
import random
import threading
import weakref

import pytest

from atops.base.dims import Dim3
from atops.base.errors import InvalidValue, StreamAborted
from atops.device.exec.block import Progress
from atops.device.exec.grid import Grid, RoundRobin, Seeded
from tests.device.kernel_host import MODES, Bound, Host, ToldGrid, signal, syncthreads, turn


def kernel():
    """A kernel that does nothing."""


def test_extents_may_be_written_short():
    """An int, or one to three ints, as a launch takes them."""
    chip = Host().chips[0]
    grid = Grid(Bound(kernel), chip, 3, (2, 2))
    assert (grid.grid_dim, grid.block_dim) == (Dim3(3), Dim3(2, 2))
    assert (grid.total_blocks, grid.threads_per_block) == (3, 4)
    with pytest.raises(InvalidValue, match="grid_dim"):
        Grid(Bound(kernel), chip, 0, 1)


def test_indices_run_with_x_fastest():
    """Blocks and threads carry their three-dimensional index and their position."""
    host = Host()
    seen = []

    def where(thread):
        seen.append((thread.block.linear, thread.block.index, thread.linear, thread.index))

    host.run(host.grid(where, (1, 2, 2), (2, 1, 2)))
    assert sorted(seen)[:5] == [
        (0, (0, 0, 0), 0, (0, 0, 0)),
        (0, (0, 0, 0), 1, (1, 0, 0)),
        (0, (0, 0, 0), 2, (0, 0, 1)),
        (0, (0, 0, 0), 3, (1, 0, 1)),
        (1, (0, 1, 0), 0, (0, 0, 0)),
    ]
    assert max(seen)[1] == (0, 1, 1)


def test_the_seed_makes_the_random_numbers():
    """A grid's generator depends on the options' seed alone."""
    numbers = [Host(seed=seed).grid(kernel, 1).rng.random() for seed in (4, 4, 5, None)]
    assert numbers[0] == numbers[1]
    assert len({*numbers}) == 3


def test_a_repr_says_how_far_it_is():
    """The kernel's name, the geometry and what is left."""
    host = Host()
    grid = host.grid(kernel, 3, 2)
    assert repr(grid) == "<Grid kernel (3, 1, 1) x (2, 1, 1): 3 of 3 blocks left>"
    assert not grid.started
    host.run(grid)
    assert repr(grid) == "<Grid kernel (3, 1, 1) x (2, 1, 1): done>"
    assert grid.started


def test_threads_and_blocks_say_what_they_are():
    """Names that messages use."""
    host = Host()
    seen = []

    def scale(thread):
        seen.append((str(thread), repr(thread), repr(thread.block), repr(thread.sip)))

    host.run(host.grid(scale, 1, 1))
    assert seen == [
        (
            "thread (0,0,0) of block (0,0,0) of kernel scale",
            "<KernelThread thread (0,0,0) of block (0,0,0) of kernel scale>",
            "<Block (0, 0, 0) of kernel scale: 1 of 1 threads>",
            "<Sip 0 of cluster 0>",
        )
    ]


@pytest.mark.parametrize("workers", MODES)
def test_abort_before_anything_ran_drops_every_block(workers):
    """A grid that waits for clusters is over at once; one that is placed ends when it is stepped."""
    host = Host(workers)

    async def waiter():
        await signal(0, "eq", 1)

    first, second = host.grid(waiter, 2), host.grid(kernel, 4)
    host.submit(first)
    host.submit(second)
    assert second.waits() == []
    error = StreamAborted("never mind")
    second.abort(error)
    assert host.done == [second]
    assert second.error is error
    assert second.entry.finished == []
    first.abort(error)
    if workers == 1:
        host.drain()
    else:
        host.start()
    host.wait(first)
    host.stop()
    assert host.done == [second, first]


def test_abort_after_the_end_changes_nothing():
    """A grid that is done has no error, and its end is told once."""
    host = Host()
    grid = host.run(host.grid(kernel, 2))
    grid.abort(StreamAborted("too late"))
    assert grid.error is None
    assert host.done == [grid]


def test_a_grid_aborted_before_it_was_submitted_never_starts():
    """Its blocks are placed and closed before their first turn."""
    host = Host()
    seen = []

    async def never():
        seen.append("ran")

    grid = host.grid(never, 4)
    grid.abort(StreamAborted("early"))
    host.run(grid)
    assert seen == []
    assert host.done == [grid]


def test_a_kernel_that_never_suspends_can_be_abandoned():
    """The grid is over, its threads are named, the cluster is free with fresh memory; the zombie reaches no grid."""
    host = Host(workers=2)
    inside, go = threading.Event(), threading.Event()
    pads, after = [], []

    async def spin(thread):
        await turn()
        pads.append(thread.sip.l1)
        inside.set()
        go.wait(30)
        after.append("on")
        await turn()
        after.append("suspended")

    async def next_kernel(thread):
        pads.append(thread.sip.l1)
        await syncthreads()

    grid = host.submit(host.grid(spin, 1, 1))
    host.start()
    assert inside.wait(30)
    assert [str(thread) for thread in grid.running()] == ["thread (0,0,0) of block (0,0,0) of kernel spin"]
    error = StreamAborted("enough")
    grid.abort(error)
    assert not grid.done
    grid.abandon()
    grid.abandon()
    assert host.done == [grid]
    assert grid.error is error
    other = host.submit(host.grid(next_kernel, 2, 1, cooperative=True))
    host.wait(other)
    assert other.error is None
    assert pads[0] is not pads[1]
    go.set()
    host.stop()
    assert after == ["on"]
    assert host.done == [grid, other]


def test_the_end_may_submit_the_next_grid():
    """`on_done` is called with no lock held: a long chain of launches runs from it."""
    host = Host()
    left = [50]

    def again(grid):
        left[0] -= 1
        if left[0]:
            host.submit(ToldGrid(again, Bound(kernel), host.chips[0], Dim3(2), Dim3(3)))

    host.submit(ToldGrid(again, Bound(kernel), host.chips[0], Dim3(2), Dim3(3)))
    host.drain()
    assert left == [0]
    assert host.steps == [Progress.DONE] * 100


@pytest.mark.slow
@pytest.mark.parametrize("end", ["well", "abort"])  # a fault's traceback holds the kernel's variables, as it must
@pytest.mark.parametrize("policy", [None, Seeded(3)])
def test_a_finished_grid_is_freed_without_the_collector(end, policy):
    """Nothing that a grid was made of holds it in a circle: its kernel's arguments go with its last reference."""
    host = Host()

    async def body(thread):
        await syncthreads()
        await signal(0, "eq", 1)

    grid = host.submit(host.grid(body, 2, 3, policy=policy))
    gc.collect()
    gc.disable()
    try:
        host.drain()
        if end == "abort":
            grid.abort(StreamAborted("enough"))
        else:
            host.chips[0].signals.set(0, 1)
        host.drain()
        assert grid.done
        host.chips[0].signals.set(0, 0)
        gone = weakref.ref(grid)
        del grid
        host.done.clear()
        assert gone() is None
    finally:
        gc.enable()


def test_round_robin_takes_the_oldest():
    """Whatever the number, position 0."""
    assert [RoundRobin().choose(ready) for ready in (1, 5, 12)] == [0, 0, 0]


def test_seeded_is_reproducible_and_in_range():
    """The same seed, or a generator in the same state, gives the same choices; each lies among the ready."""
    sizes = [1 + index % 12 for index in range(200)]
    runs = [[policy.choose(size) for size in sizes] for policy in (Seeded(7), Seeded(7), Seeded(random.Random(7)))]
    assert runs[0] == runs[1] == runs[2]
    assert all(0 <= choice < size for choice, size in zip(runs[0], sizes, strict=True))
    assert [Seeded(8).choose(size) for size in sizes] != runs[0]
    assert len({*runs[0]}) == 12
