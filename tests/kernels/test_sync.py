"""Barriers as kernels write them."""

from __future__ import annotations

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import IllegalState, InvalidType, KernelDeadlock, LaunchFailure, MissingAwait
from tests.kernel_bench import Bench


def test_syncthreads_holds_the_block(bench: Bench):
    """No thread goes on before all have arrived, round after round, under both names."""
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


def test_a_phase_is_over_once_and_the_count_starts_again(bench: Bench):
    """Tokens number the phases; waiting for one that is over suspends no thread; every phase needs all its arrivals."""
    log: list[str] = []

    @k.kernel
    async def phases():
        gate = k.barrier(k.BarrierScope.SIP, 2)
        me = k.threadIdx.x
        first = gate.arrive()
        if me == 0:
            log.append("waits for the other")
        await gate.wait(first)
        log.append(f"{me} past {first}")
        await gate.wait(first)
        await gate.wait()
        await k.syncthreads()
        second = gate.arrive()
        assert (first, second) == (0, 1)
        await gate.wait(first)
        log.append(f"{me} arrived in {second}")
        await gate.wait(second)
        log.append(f"{me} past {second}")
        await gate.arrive_and_wait()
        assert repr(gate) == "<Barrier: SIP barrier, phase 3, 0 of 2 arrived, 0 waiting>"

    bench.launch(phases, (1, 2))
    assert sorted(log) == ["0 arrived in 1", "0 past 0", "0 past 1", "1 arrived in 1", "1 past 0", "1 past 1",
                           "waits for the other"]  # fmt: skip
    assert max(log.index(f"{me} arrived in 1") for me in (0, 1)) < min(log.index(f"{me} past 1") for me in (0, 1))


def test_one_thread_may_arrive_more_than_once(bench: Bench):
    """The count is of arrivals: one thread can end a phase, and the phase after it, alone."""

    @k.kernel
    async def alone():
        gate = k.barrier(k.BarrierScope.SIP, 2)
        if k.threadIdx.x == 0:
            assert [gate.arrive() for _ in range(4)] == [0, 0, 1, 1]
            await gate.wait()
        else:
            await gate.wait(0)

    bench.launch(alone, (1, 2))


def test_a_thread_that_never_arrived_waits_for_the_current_phase(bench: Bench):
    """It needs no arrival of its own, and goes on when the others have ended the phase it found."""
    order: list[str] = []

    @k.kernel
    async def watch():
        gate = k.barrier(k.BarrierScope.SIP, 2)
        if k.threadIdx.x == 0:
            await gate.wait()
            order.append("watcher")
        else:
            order.append("arrival")
            gate.arrive()

    bench.launch(watch, (1, 3))
    assert order == ["arrival", "arrival", "watcher"]


@pytest.mark.parametrize("token", [1, -1, 7])
def test_a_token_of_no_phase(bench: Bench, token: int):
    """A phase that has not begun cannot be waited for."""

    @k.kernel
    async def ahead(token):
        gate = k.barrier(k.BarrierScope.SIP, 2)
        gate.arrive()
        await gate.wait(token)

    with pytest.raises(LaunchFailure, match=rf"token is {token}; expected what arrive\(\) returned, at most 0"):
        bench.launch(ahead, (1, 2), token)


@pytest.mark.parametrize("use", ["arrive", "wait", "arrive_and_wait"])
@pytest.mark.parametrize("scope", [k.BarrierScope.SIP, k.BarrierScope.CLUSTER])
def test_a_barrier_of_another_block(bench: Bench, scope: k.BarrierScope, use: str):
    """Its threads are those of the block that made it; a thread from outside the scope is named."""
    made: list[k.CountedBarrier] = []

    @k.kernel
    async def meddle(scope):
        if k.blockIdx.x == 0:
            made.append(k.barrier(scope, 1))
        await k.syncthreads()
        if k.blockIdx.x == 1:
            getattr(made[0], use)()

    where = r"thread \(0,0,0\) of block \(1,0,0\)"
    with pytest.raises(LaunchFailure, match=rf"{where}.* used a {scope.name} barrier") as caught:
        bench.launch(meddle, (2, 1), int(scope))
    assert isinstance(caught.value.__cause__, IllegalState)


def test_phases_over_a_cooperative_grid(bench: Bench):
    """Every phase of a CLUSTER barrier waits for threads of both blocks."""
    arrived = [0, 0, 0]

    @k.cooperative
    async def rounds():
        gate = k.barrier(k.BarrierScope.CLUSTER, 8)
        for turn in range(3):
            arrived[turn] += 1
            await gate.arrive_and_wait()
            assert arrived[turn] == 8

    bench.launch(rounds, (2, 4))
    assert arrived == [8, 8, 8]


def test_a_count_beyond_its_scope(bench: Bench):
    """SIP counts the threads of a block even in a cooperative grid, CLUSTER those of all; the message says so."""

    @k.cooperative
    def beyond(scope, count):
        k.barrier(scope, count)

    for scope, count, why in ((0, 5, "SIP barrier count is 5; expected 1 to 4 threads of one block"),
                              (1, 9, "CLUSTER barrier count is 9; expected 1 to 8 threads of the grid")):  # fmt: skip
        with pytest.raises(LaunchFailure, match=why):
            bench.launch(beyond, (2, 4), scope, count)
    bench.launch(beyond, (2, 4), 1, 8)


@pytest.mark.parametrize(
    ("scope", "count", "why"),
    [(0, 0, "count is 0"), (0, 5, "count is 5; expected 1 to 4"), (7, 1, "barrier scope is 7"), (1, 5, "1 to 4"),
     (0, 1.5, "count is 1.5; expected an int"), (0, "a", "count is 'a'; expected an int"),
     ("a", 1, "barrier scope is 'a'")],
)  # fmt: skip
def test_barriers_without_meaning_are_refused(bench: Bench, scope: object, count: object, why: str):
    """A count below 1, above the scope's threads or of no int, and an unknown scope."""

    @k.kernel
    def wrong():
        k.barrier(scope, count)

    with pytest.raises(LaunchFailure, match=why):
        bench.launch(wrong, (1, 4))


def test_threads_agree_on_a_barrier(bench: Bench):
    """Another count at the same line is a fault that shows both."""

    @k.kernel
    def differ():
        k.barrier(k.BarrierScope.SIP, 1 + k.threadIdx.x)

    with pytest.raises(LaunchFailure, match=r"thread \(1,0,0\).*: a SIP barrier of 2.*a SIP barrier of 1"):
        bench.launch(differ, (1, 2))


def test_a_barrier_that_is_never_completed_is_a_deadlock(bench: Bench):
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


@pytest.mark.parametrize("token", ["x", 0.0])
def test_a_token_is_what_arrive_returned(bench: Bench, token: object):
    """Anything else is named at the wait."""

    @k.kernel
    async def wrong():
        await k.barrier(0, 1).wait(token)

    with pytest.raises(LaunchFailure, match=f"token is {token!r}; expected what arrive") as caught:
        bench.launch(wrong, (1, 1))
    assert isinstance(caught.value.__cause__, InvalidType)
