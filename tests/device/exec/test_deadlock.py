"""Every way to stand still for ever is found, in every mode, and told: kernel, blocks, threads, request and line."""

from __future__ import annotations

import os

import pytest

from atops.base.errors import KernelDeadlock
from atops.device.exec.barrier import Barrier, Scope
from atops.device.exec.block import Progress
from tests.device.kernel_host import MODES, Host, line_of, signal, syncblocks, syncthreads, turn


def short(place: str) -> str:
    return os.path.basename(place)


@pytest.mark.parametrize("workers", MODES)
def test_leaving_while_others_stand_at_a_block_barrier(workers):
    """Eleven threads wait for one that has left; the block is found though other blocks are well."""
    host = Host(workers)

    async def kernel(thread):
        if (thread.block.linear, thread.linear) == (2, 11):
            return
        await syncthreads()

    error = host.run(host.grid(kernel, 3)).error
    assert type(error) is KernelDeadlock
    where = short(line_of(kernel, "await syncthreads"))
    expected = f"kernel kernel, block 2: threads 0-10 wait at syncthreads, {where}; thread 11 has left the kernel"
    assert expected in str(error)


@pytest.mark.parametrize("workers", MODES)
def test_threads_at_different_barriers(workers):
    """Even threads stand at the block barrier, odd ones at the grid's; lines are those of the awaits."""
    host = Host(workers)

    async def helper():
        await syncblocks()

    async def kernel(thread):
        if thread.linear % 2:
            await helper()
        else:
            await syncthreads()

    error = host.run(host.grid(kernel, 2, 6, cooperative=True)).error
    assert type(error) is KernelDeadlock
    where = [short(line_of(kernel, "await syncthreads")), short(line_of(helper, "await syncblocks"))]
    assert "kernel kernel, blocks 0-1: threads 0, 2, 4 wait at syncthreads, " + where[0] in str(error)
    assert "threads 1, 3, 5 wait at syncblocks, " + where[1] in str(error)


@pytest.mark.parametrize("workers", MODES)
def test_a_block_that_leaves_a_cooperative_grid(workers):
    """One block has left, the other stands at the grid barrier."""
    host = Host(workers)

    async def kernel(thread):
        await syncblocks()
        if thread.block.linear == 0:
            await syncblocks()

    error = host.run(host.grid(kernel, 2, 4, cooperative=True)).error
    assert type(error) is KernelDeadlock
    assert "block 0: threads 0-3 wait at syncblocks" in str(error)
    assert "1 of its 2 blocks has left the kernel" in str(error)


@pytest.mark.parametrize("workers", MODES)
def test_one_thread_that_leaves_a_cooperative_grid(workers):
    """All stand at the grid barrier but one thread, which has left."""
    host = Host(workers)

    async def kernel(thread):
        if (thread.block.linear, thread.linear) != (1, 2):
            await syncblocks()

    error = host.run(host.grid(kernel, 2, 4, cooperative=True)).error
    assert type(error) is KernelDeadlock
    assert "block 0: threads 0-3 wait at syncblocks" in str(error)
    assert "block 1: threads 0-1, 3 wait at syncblocks" in str(error)
    assert "thread 2 has left the kernel" in str(error)


@pytest.mark.parametrize("workers", MODES)
@pytest.mark.parametrize("scope", [Scope.SIP, Scope.CLUSTER])
def test_a_counted_barrier_that_is_never_filled(workers, scope):
    """One arrival too few; the report tells how many there were."""
    host = Host(workers)
    made = {}

    async def kernel(thread):
        if (thread.block.linear, thread.linear) == (0, 0):
            made[0] = Barrier(scope, 4, thread)
            made[0].arrive(thread)
        await syncblocks()
        if thread.block.linear == 0 and thread.linear < 2:
            await made[0].arrive_and_wait(thread)

    error = host.run(host.grid(kernel, 2, 4, cooperative=True)).error
    assert type(error) is KernelDeadlock
    assert f"threads 0-1 wait at {scope.name} barrier, phase 0, 3 of 4 arrived" in str(error)


@pytest.mark.parametrize("workers", MODES)
def test_a_deadlock_is_found_while_another_block_waits_for_the_host(workers):
    """A block whose threads can only wait for each other is dead, whatever the others wait for."""
    host = Host(workers)

    async def kernel(thread):
        if thread.block.linear == 0:
            await signal(0, "eq", 1)
        elif thread.linear:
            await syncthreads()

    error = host.run(host.grid(kernel, 2, 3)).error
    assert type(error) is KernelDeadlock
    assert "block 1: thread 0 has left the kernel; threads 1-2 wait at syncthreads" in str(error)


def test_waiting_for_a_signal_is_no_deadlock():
    """The host may set it: the grid is parked, and says what waits for what."""
    host = Host()

    async def kernel(thread):
        await signal(thread.block.linear, "gte", 5)

    grid = host.submit(host.grid(kernel, 2, 3))
    host.drain()
    assert host.steps == [Progress.PARKED] * 2
    where = short(line_of(kernel, "await signal"))
    assert grid.waits() == [
        f"kernel kernel, block 0: threads 0-2 wait at signal 0 for gte 5 (now 0), {where}",
        f"kernel kernel, block 1: threads 0-2 wait at signal 1 for gte 5 (now 0), {where}",
    ]
    for index in range(2):
        host.chips[0].signals.set(index, 5)
    host.drain()
    assert grid.done
    assert grid.error is None
    assert grid.waits() == ["kernel kernel: every block has left the kernel"]


def test_blocks_that_wait_alike_are_one_line():
    """A report groups blocks."""
    host = Host()

    async def kernel():
        await signal(0, "gte", 5)

    grid = host.submit(host.grid(kernel, 2, 3))
    host.drain()
    assert len(grid.waits()) == 1
    assert grid.waits()[0].startswith("kernel kernel, blocks 0-1: threads 0-2 wait at signal 0")
    host.chips[0].signals.set(0, 5)
    host.drain()


def test_blocks_that_cannot_be_placed_are_told():
    """Every cluster is held by blocks that wait for one that was never placed: told for the stall report."""
    host = Host()

    async def kernel(thread):
        if thread.block.linear == 4:
            thread.grid.chip.signals.set(0, 1)
        await signal(0, "eq", 1)

    grid = host.submit(host.grid(kernel, 5, 1))
    host.drain()
    assert "3 blocks of it cannot start: its own waiting blocks hold every cluster" in grid.waits()
    host.chips[0].signals.set(0, 1)
    host.drain()
    assert grid.done
    assert grid.error is None


def test_a_deadlock_after_a_wake_up_from_outside_is_found():
    """A grid that was parked at a signal deadlocks later; the same detection holds."""
    host = Host()

    async def kernel(thread):
        await signal(0, "eq", 1)
        if thread.linear:
            await syncthreads()

    grid = host.submit(host.grid(kernel, 2, 2))
    host.drain()
    assert grid.error is None
    host.chips[0].signals.set(0, 1)
    host.drain()
    assert type(grid.error) is KernelDeadlock


def test_a_deadlock_closes_the_threads_and_frees_the_clusters():
    """After a deadlock every `finally` has run, and the next grid gets the clusters."""
    host = Host()
    closed = []

    async def stuck(thread):
        try:
            if thread.linear:
                await syncthreads()
        finally:
            closed.append(thread.linear)

    async def well():
        await turn()

    assert type(host.run(host.grid(stuck, 1, 3)).error) is KernelDeadlock
    assert sorted(closed) == [0, 1, 2]
    assert host.run(host.grid(well, 2, cooperative=True)).error is None
