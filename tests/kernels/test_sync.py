"""Barriers as kernels write them."""

from __future__ import annotations

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import IllegalState, KernelDeadlock, LaunchFailure, MissingAwait
from tests.kernel_bench import Bench


def test_syncthreads_holds_the_block(bench: Bench):
    """Nobody goes on before everybody has arrived, round after round, under both names."""
    x = bench.empty((2, 12), np.int32)

    @k.kernel
    async def rounds(x):
        me, slot = k.threadIdx.x, k.shared(12, np.int32)
        for turn in range(3):
            slot[me] = turn + me
            await k.syncthreads()
            x[k.blockIdx.x, me] = slot[(me + 1) % 12]
            await k.__syncthreads()
            assert x[k.blockIdx.x, (me + 5) % 12] == turn + (me + 6) % 12

    bench.launch(rounds, (2, 12), x)
    assert (x.host == 2 + (np.arange(12) + 1) % 12).all()


def test_a_barrier_that_is_not_awaited_is_named(bench: Bench):
    """The next request, or the end of the kernel, names the forgotten line; a plain kernel cannot wait at all."""

    @k.kernel
    async def twice():
        k.syncthreads()
        k.syncthreads()

    @k.kernel
    async def last():
        k.syncthreads()

    @k.kernel
    def plain():
        k.syncthreads()

    for kernel in (twice, last, plain):
        line = kernel.function.__code__.co_firstlineno + 2
        with pytest.raises(MissingAwait, match=rf"thread \(0,0,0\).*syncthreads.*test_sync.py:{line}\b"):
            bench.launch(kernel, (1, 1))


def test_syncblocks_holds_a_cooperative_grid(bench: Bench):
    """Every block sees what every other stored before the barrier."""
    x = bench.empty(24, np.int32)

    @k.cooperative
    async def publish(x):
        x[k.thread_id()] = 1
        await k.syncblocks()
        assert np.sum(x) == 24
        await k.__syncblocks()

    bench.launch(publish, (2, 12), x)


def test_syncblocks_needs_a_cooperative_kernel(bench: Bench):
    """Elsewhere it is an error that names the kernel and the line."""

    @k.kernel
    async def alone():
        await k.syncblocks()

    with pytest.raises(LaunchFailure, match=r"kernel alone.*cooperative.*test_sync.py") as caught:
        bench.launch(alone, (1, 1))
    assert isinstance(caught.value.__cause__, IllegalState)


def test_a_counted_barrier_has_phases(bench: Bench):
    """Producers arrive and go on; the consumer arrives and waits, phase after phase, at one shared barrier."""
    order: list[str] = []

    @k.kernel
    async def pipeline():
        gate = k.barrier(k.BarrierScope.SIP, 3)
        assert (gate.scope, gate.count) == (k.BarrierScope.SIP, 3)
        for turn in range(2):
            if k.threadIdx.x == 0:
                await gate.arrive_and_wait()
                order.append(f"consume {turn}")
            else:
                order.append(f"produce {turn}")
                token = gate.arrive()
                await gate.wait(token)
                await gate.wait()

    bench.launch(pipeline, (1, 3))
    assert sorted(order) == ["consume 0", "consume 1", *["produce 0"] * 2, *["produce 1"] * 2]
    for turn in range(2):
        assert f"produce {turn}" not in order[order.index(f"consume {turn}") :]


def test_a_cluster_barrier_spans_a_cooperative_grid(bench: Bench):
    """Its threads are those of all blocks; without cooperation, or with scope SIP, each block has its own."""
    seen: list[int] = []

    @k.kernel
    async def meet(count, scope):
        gate = k.barrier(scope, count)
        seen.append(id(gate))
        await gate.arrive_and_wait()

    cluster, sip = int(k.BarrierScope.CLUSTER), int(k.BarrierScope.SIP)
    bench.launch(k.cooperative(meet), (2, 4), 8, cluster)
    assert len(set(seen)) == 1
    for kernel, scope in ((meet, cluster), (k.cooperative(meet), sip)):
        seen.clear()
        bench.launch(kernel, (2, 4), 4, scope)
        assert len(seen) == 8


@pytest.mark.parametrize(
    ("scope", "count", "why"),
    [(0, 0, "count is 0"), (0, 5, "count is 5; 1 to 4"), (7, 1, "barrier scope is 7"), (1, 5, "1 to 4")],
)
def test_barriers_without_meaning_are_refused(bench: Bench, scope: int, count: int, why: str):
    """A count below 1 or above the scope's threads, and an unknown scope."""

    @k.kernel
    def wrong(scope, count):
        k.barrier(scope, count)

    with pytest.raises(LaunchFailure, match=why):
        bench.launch(wrong, (1, 4), scope, count)


def test_threads_agree_on_a_barrier(bench: Bench):
    """Another count at the same line is a fault that shows both."""

    @k.kernel
    def differ():
        k.barrier(k.BarrierScope.SIP, 1 + k.threadIdx.x)

    with pytest.raises(LaunchFailure, match=r"thread \(1,0,0\).*barrier of 2.*barrier of 1; the same"):
        bench.launch(differ, (1, 2))


def test_a_barrier_nobody_completes_is_a_deadlock(bench: Bench):
    """Threads that wait for an arrival that never comes are named with their line."""

    @k.kernel
    async def stuck():
        if k.threadIdx.x:
            await k.barrier(k.BarrierScope.SIP, 4).arrive_and_wait()

    with pytest.raises(KernelDeadlock, match=r"threads 1-3 wait at SIP barrier.*3 of 4 arrived, test_sync.py"):
        bench.launch(stuck, (1, 4))


def test_the_host_has_no_barriers():
    """Outside a kernel each function says so."""
    for make in (k.syncthreads, k.syncblocks, lambda: k.barrier(0, 1)):
        with pytest.raises(IllegalState, match="host"):
            make()
