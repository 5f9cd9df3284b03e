"""Kernels under the virtual clock: beside copies and each other, in any order of turns, aborted, polled and watched."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.trace.records import Kind, ThreadState
from atops.errors import InvalidType, InvalidValue, KernelDeadlock, LaunchFailure, StreamAborted
from tests.runtime.virtual_time import now, span, taken, virtual

MICROSECOND = 40_000_000_000_000 // 24 // 1_000_000  # operations of a SIP, a little less
US = 1000
LAUNCH = 3000


@k.kernel
def busy(microseconds: int) -> None:
    """Compute for so many microseconds."""
    k.cost(flops=MICROSECOND * microseconds)


@k.kernel
def fail_late() -> None:
    """Compute, then fail in one thread."""
    k.cost(flops=MICROSECOND * 50)
    k.assert_(k.thread_id() != 3)


def close(time: int, expected: int) -> bool:
    """Tell whether a time is what is expected, but for what MICROSECOND leaves out."""
    return abs(time - expected) <= 1 + expected // 100_000


# ---- clusters


def test_launches_share_the_clusters() -> None:
    """Two launches that need all clusters take turns, two that need one each go on beside each other."""

    async def main() -> None:
        one, two = (atops.Device(0).create_stream() for _ in range(2))
        whole = [each.launch(busy, (2, 12), 10) for each in (one, two)]
        await one
        await two
        assert sorted(map(span, whole)) == [(0, 13 * US), (13 * US, 26 * US)]
        half = [each.launch(busy, (1, 12), 10) for each in (one, two)]
        await one
        await two
        assert [span(each) for each in half] == [(26 * US, 39 * US)] * 2
        assert now() == 39 * US

    virtual(main)


def test_an_urgent_launch_gets_the_next_cluster() -> None:
    """When the first block of a long launch is over, and not when that was stepped."""

    async def main() -> None:
        device = atops.Device(0)
        low, top = device.create_stream(), device.create_stream(priority=-2)
        first = low.launch(busy, (6, 12), 10)
        await asyncio.sleep(1e-6)
        second = top.launch(busy, (1, 12), 1)
        await low
        assert span(second)[0] == 13 * US and close(taken(second), 4 * US)
        assert close(taken(first), 37 * US)  # five blocks are left for two clusters, one of which comes a little late

    virtual(main)


def test_a_part_of_the_device_is_what_is_shared() -> None:
    """A launch that may use one cluster has all of L3 for this one."""

    @k.kernel
    async def load(x: k.Span) -> None:
        tile = k.local(x.size, x.dtype)
        with k.dte_scope() as dte:
            await k.memcpy_async(dte, tile, x)

    async def main() -> None:
        device = atops.Device(0)
        masked = device.create_stream(cluster_mask=0b10)
        size = 56_000
        x = masked.zeros(size, np.uint8)
        item = masked.launch(load, (2, 12), x)
        await item
        assert taken(item) == LAUNCH + 2 * (200 + size // 56)

    virtual(main)


# ---- beside copies


@k.kernel
def work_on(x: k.Span) -> None:
    """Stand for 40 us of work on a chunk, and leave a trace of it."""
    k.cost(flops=MICROSECOND * 40)
    if k.thread_id() == 0:
        k.assert_(x[0] == x[1])
        x[1] = 0


async def feed(buffers: int, chunks: int = 6, size: int = 1 << 20) -> list[tuple[int, int]]:
    """Bring chunks to so many buffers and work on each. Return when each kernel began and ended."""
    device = atops.Device(0)
    up, run = device.create_stream(), device.create_stream()
    rooms = [device.empty(size, np.uint8) for _ in range(buffers)]
    free: list[atops.Event] = []
    items = []
    for turn in range(chunks):
        if turn >= buffers:
            up.wait(free[turn - buffers])
        up.copy(rooms[turn % buffers], np.full(size, turn, np.uint8))
        run.wait(up.record())
        items.append(run.launch(work_on, (2, 12), rooms[turn % buffers]))
        free.append(run.record())
    await run
    return [span(each) for each in items]


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_pipeline_takes_what_was_computed(seed: int | None) -> None:
    """With one buffer copies and kernels take turns; with two all but the first copy are behind the kernels."""
    copy = -(-(1 << 20) * 10**9 // 63_000_000_000)
    single = virtual(feed, 1, seed=seed)
    kernel = single[0][1] - single[0][0]
    assert 43 * US < kernel < 44 * US
    assert single[-1][1] == 6 * (copy + kernel)
    double = virtual(feed, 2, seed=seed)
    assert double[-1][1] == copy + 6 * kernel  # a kernel takes longer than a copy
    assert [end - begin for begin, end in double] == [kernel] * 6


# ---- what tells time


def test_events_and_profiles_have_it() -> None:
    """Events around a launch, its start and stop, and the summary of the trace."""

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        with atops.profile() as profile:
            start = stream.record()
            item = stream.launch(busy, (2, 12), 7)
            end = stream.record()
            await end
        assert close(round((end - start) * 1e6), 10 * US)
        assert close(taken(item), 10 * US)
        assert "busy" in str(profile)
        counted.append(str(profile).partition("kernels by the virtual clock: ")[2])

    counted: list[str] = []
    virtual(main)
    virtual(main, strict=True)
    assert ["numpy on L1 and L2 is not counted" in counted[0], "L2 by its accesses" in counted[1]] == [True, True]


def test_the_steps_of_threads_have_the_times_of_their_threads() -> None:
    """A viewer of kernel threads sees each where its own clock was."""

    @k.kernel
    async def two_phases() -> None:
        k.cost(flops=MICROSECOND * (1 + k.threadIdx.x))
        await k.syncthreads()
        k.cost(flops=MICROSECOND)

    async def main() -> None:
        tracer = atops.current_driver().tracer
        with tracer.detailed(threads=True):
            item = atops.Device(0).create_stream().launch(two_phases, (1, 2))
            await item
        steps = [each for each in tracer.details_since().steps if each.launch == item.seq]
        for thread in range(2):
            own = [each.at_ns for each in steps if each.thread == thread]
            assert own == sorted(own) and own[0] == LAUNCH and own[-1] == span(item)[1]
        waits = {each.thread: each.at_ns for each in steps if each.turn is ThreadState.BARRIER}
        assert close(waits[0], LAUNCH + US) and close(waits[1], LAUNCH + 2 * US)

    virtual(main)


# ---- the order of turns changes nothing


@k.kernel
async def mixed(x: k.Span, y: k.Span, handle: int) -> None:
    """Do a little of everything, unlike in each thread."""
    me = k.threadIdx.x
    tile, shared = k.local(512, np.float32), k.shared((k.blockDim.x, 512), np.float32)
    gate = k.barrier(k.BarrierScope.SIP, k.blockDim.x)
    with k.dte_scope() as one, k.dte_scope() as two:
        for turn in range(1 + me % 3):
            await k.memcpy_async(one, tile, x[turn * 512 : (turn + 1) * 512])
        event = k.memcpy_async(two, shared[me], tile)
        k.cost(flops=MICROSECOND * (me % 5), bytes=1000 * me)
        await event
        await k.syncthreads()
        k.memcpy(one, tile, shared[(me + 1) % k.blockDim.x])
        token = gate.arrive()
        tile += 1
        await gate.wait(token)
        if me == 0:
            k.signal_add(handle + k.blockIdx.x)
        elif me == 5:
            await k.signal_wait(handle + k.blockIdx.x, 1)
        k.memcpy(one, y[k.thread_id() * 512 : (k.thread_id() + 1) * 512], tile)


def program(options: dict[str, Any]) -> list[tuple[int, ...]]:
    """Run kernels, copies and tasks of several streams. Return when each command began and ended."""

    async def main() -> list[tuple[int, ...]]:
        device = atops.Device(0)
        streams = [device.create_stream() for _ in range(3)]
        items = []
        for number, stream in enumerate(streams):
            x, y = stream.zeros(2048, np.float32), stream.zeros(5 * 12 * 512, np.float32)
            handle = min(device.signals.allocate() for _ in range(5))
            for _ in range(2):
                items.append(stream.copy(x, np.zeros(2048 - number, np.float32), 4 * (2048 - number)))
                items.append(stream.launch(mixed, (1 + 2 * number, 12), x, y, handle))
        await device.wait()
        return [span(each) for each in items if each.seq]

    return list(virtual(main, **options))


@pytest.mark.slow
def test_no_seed_changes_a_time() -> None:
    """Under 60 seeds, early and late transfers, small and large slices, and where a schedule chooses every step."""

    def alone(**options: Any) -> list[int]:
        async def main() -> list[int]:
            device = atops.Device(0)
            stream = device.create_stream()
            x, y = stream.zeros(2048, np.float32), stream.zeros(5 * 12 * 512, np.float32)
            items = []
            for blocks in (1, 2, 3, 5):
                handle = min(device.signals.allocate() for _ in range(blocks))
                items.append(stream.launch(mixed, (blocks, 12), x, y, handle))
            await stream
            return [taken(each) for each in items]

        return list(virtual(main, **options))

    expected = alone()
    draw = random.Random(7)
    for seed in range(60):
        choice = {"dte": draw.choice(["wait", "eager", "seeded"]), "slice": draw.choice([1, 7, 256])}
        assert alone(seed=seed, **choice) == expected, (seed, choice)
    for seed in range(20):
        assert alone(schedule="random", seed=seed) == expected, seed


@pytest.mark.slow
def test_the_same_run_has_the_same_times() -> None:
    """Streams that share clusters and engines, from one seed, twice; no command ends before it begins."""
    for seed in (None, 3):
        first, second = program({"seed": seed}), program({"seed": seed})
        assert first == second
        assert all(0 <= begin <= end for begin, end in first)


def test_a_thread_never_goes_back() -> None:
    """Whatever it waits for, and however long that is over."""
    seen: dict[int, list[int]] = {}

    @k.kernel
    async def watched(x: k.Span) -> None:
        tile, other = k.local(512, np.uint8), k.local(512, np.uint8)
        from atops.device.exec.thread import current_thread

        def look() -> None:
            thread = current_thread()
            assert thread.cost is not None
            seen.setdefault(thread.linear, []).append(thread.cost.now)

        with k.dte_scope() as one, k.dte_scope() as two:
            for _ in range(3):
                late = k.memcpy_async(one, tile, x)
                k.memcpy(two, other, x[:16])
                look()
                await late
                look()
                await k.syncthreads()
                look()
                await late
                look()

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        await stream.launch(watched, (1, 12), stream.zeros(512, np.uint8))

    virtual(main, seed=5)
    assert len(seen) == 12 and all(times == sorted(times) and times[0] > 0 for times in seen.values())


# ---- signals


@k.kernel
async def answer(ask: int, reply: int, turns: int) -> None:
    """Wait for each question, work on it for 5 us, and reply."""
    for turn in range(1, turns + 1):
        await k.signal_wait(ask, turn)
        k.cost(flops=MICROSECOND * 5)
        k.signal_write(reply, turn)


def test_a_kernel_that_waits_for_the_host_goes_on_from_there() -> None:
    """Its time is the host's when the host wakes it, and its own work is added to that."""

    async def main() -> None:
        device = atops.Device(0)
        ask, reply = device.signals.allocate(), device.signals.allocate()
        item = device.create_stream().launch(answer, (1, 1), ask, reply, 2)
        await asyncio.sleep(100e-6)
        device.signals.write(ask, 1)
        await asyncio.sleep(200e-6)
        device.signals.write(ask, 2)
        await item
        assert close(span(item)[1], 300 * US + 100 + 5 * US)

    virtual(main)


@pytest.mark.parametrize("seed", range(8))
def test_kernels_that_wait_for_each_other(seed: int) -> None:
    """Two launches play ping-pong: each turn takes both of them and two signals, in any order of steps."""

    @k.kernel
    async def question(ask: int, reply: int, turns: int) -> None:
        for turn in range(1, turns + 1):
            k.cost(flops=MICROSECOND * 2)
            k.signal_write(ask, turn)
            await k.signal_wait(reply, turn)

    async def main() -> None:
        device = atops.Device(0)
        ask, reply = device.signals.allocate(), device.signals.allocate()
        one, two = device.create_stream(), device.create_stream()
        first = one.launch(answer, (1, 1), ask, reply, 10)
        second = two.launch(question, (1, 1), ask, reply, 10)
        await one
        await two
        assert close(span(second)[1], LAUNCH + 10 * (7 * US + 200))
        assert close(span(first)[1], LAUNCH + 10 * (7 * US + 200) - 100)

    virtual(main, seed=seed)


def test_a_late_waiter_sees_when_the_signal_came() -> None:
    """Its time is that of the store that met its condition, not that of a later one."""

    @k.kernel
    async def both(handle: int, order: int) -> None:
        writer = k.threadIdx.x == order
        if writer:
            for value in (1, 2, 3):
                k.cost(flops=MICROSECOND * 10)
                k.signal_write(handle, value)
        else:
            await k.signal_wait(handle, 2)
            k.cost(flops=MICROSECOND * 30)

    async def main() -> None:
        device = atops.Device(0)
        times = []
        for order in (0, 1):
            item = device.create_stream().launch(both, (1, 2), device.signals.allocate(), order)
            await item
            times.append(taken(item))
        assert times[0] == times[1] and close(times[0], LAUNCH + 20 * US + 100 + 30 * US)

    virtual(main)


# ---- grids over devices


def test_a_cooperative_launch_over_devices_meets_at_the_latest() -> None:
    """The slower device decides when both pass the grid barrier."""

    @k.cooperative
    @k.kernel
    async def meet(microseconds: int) -> None:
        k.cost(flops=MICROSECOND * microseconds)
        await k.syncblocks()

    async def main() -> None:
        streams = [atops.Device(each).create_stream() for each in range(2)]
        launches = [(stream, meet, (2, 12), took) for stream, took in zip(streams, (10, 30), strict=True)]
        items = atops.launch_together(launches, cooperative=True)
        for each in streams:
            await each
        assert [close(span(each)[1], LAUNCH + 30 * US + 500) for each in items] == [True, True]

    virtual(main)


# ---- beside kernels that go on


@pytest.mark.parametrize("seed", [None, 1])
def test_a_kernel_that_polls_holds_nothing_up(seed: int | None) -> None:
    """Other launches are over in their times, though the host would soon see thousands of its turns without an end."""

    @k.kernel
    async def poll(flag: k.Span) -> None:
        while not flag[0]:
            await k.syncthreads()

    async def main() -> None:
        device = atops.Device(0)
        polling, other = device.create_stream(), device.create_stream()
        flag = device.empty(1, np.int32)
        await other.fill(flag, 0)
        item = polling.launch(poll, (1, 1), flag)
        await asyncio.sleep(1e-9)
        times = [other.launch(busy, (1, 12), 20) for _ in range(5)]
        begin = now()
        await other
        assert [close(span(each)[1] - begin, 23 * US * turn) for turn, each in enumerate(times, 1)] == [True] * 5
        times[0] = other.launch(busy, (1, 12), 20)
        times[0].wait_sync()
        assert close(taken(times[0]), 23 * US)
        assert not item.done()
        await other.fill(flag, 1)
        await item
        assert span(item)[1] >= now() - US

    virtual(main, seed=seed)


# ---- ends


def test_what_fails_ends_at_once() -> None:
    """The failure is told where the kernel was stepped; the next launch of another stream has the clusters then."""

    async def main() -> None:
        device = atops.Device(0)
        item = device.create_stream().launch(fail_late, (2, 12))
        with pytest.raises(LaunchFailure):
            await item
        assert now() == 0
        other = device.create_stream().launch(busy, (2, 12), 1)
        await other
        assert close(taken(other), 4 * US)

    virtual(main)


@pytest.mark.parametrize("grace", [0, 5.0])
def test_an_abort_ends_a_kernel_at_once(grace: float, caplog: pytest.LogCaptureFixture) -> None:
    """In the middle of its time, and its clusters are free then; it is not one that never ends."""

    async def main() -> None:
        device = atops.Device(0)
        stream, other = device.create_stream(), device.create_stream()
        item = stream.launch(busy, (4, 12), 100)
        await asyncio.sleep(50e-6)
        after = other.launch(busy, (2, 12), 1)
        stream.abort()
        with pytest.raises(StreamAborted, match="was aborted"):
            await item
        assert now() == 50 * US and not caplog.records
        await after
        assert span(after)[0] == 50 * US and close(taken(after), 4 * US)
        assert now() < 60 * US

    virtual(main, abort_grace=grace)


def test_a_timeout_comes_in_the_middle_of_a_kernel() -> None:
    """The wait ends, the kernel goes on, and a later wait finds it over in its time."""

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        item = stream.launch(busy, (2, 12), 100)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(_over(item))), 10e-6)
        assert now() == 10 * US
        with pytest.raises(TimeoutError):
            item.wait_sync(20e-6)
        assert now() == 30 * US
        item.wait_sync()
        assert now() == span(item)[1] and close(now(), 103 * US)

    async def _over(item: atops.Completion) -> None:
        await item

    virtual(main)


@pytest.mark.parametrize("seed", [None, 1])
def test_a_program_that_polls_for_a_kernel(seed: int | None) -> None:
    """It is over in its time, whether the program awaits in between or not."""

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        for _ in range(2):
            item, begin = stream.launch(busy, (2, 12), 10), now()
            while not item.done():  # noqa: ASYNC110  # this is what is tested
                await asyncio.sleep(0)
            assert close(now() - begin, 13 * US)
        item, begin = stream.launch(busy, (2, 12), 10), now()
        while not item.done():
            pass
        assert close(now() - begin, 13 * US)

    virtual(main, seed=seed)


def test_the_end_of_a_program_in_the_middle_of_a_kernel() -> None:
    """Nothing is left, and nothing hangs."""

    async def main() -> atops.Completion:
        item = atops.Device(0).create_stream().launch(busy, (2, 12), 1000)
        await asyncio.sleep(1e-6)
        return item

    item = virtual(main)
    assert item.done()


def test_a_deadlock_behind_a_long_block() -> None:
    """It is found when all that could still have run is over."""

    @k.cooperative
    @k.kernel
    async def lonely() -> None:
        if k.blockIdx.x:
            await k.syncblocks()
        else:
            k.cost(flops=MICROSECOND * 20)

    async def main() -> None:
        with pytest.raises(KernelDeadlock):
            await atops.Device(0).create_stream().launch(lonely, (2, 1))
        assert close(now(), LAUNCH + 20 * US)

    virtual(main)


# ---- k.cost, and what is counted


def test_cost_is_checked_and_changes_nothing_else() -> None:
    """Under the wall clock too."""
    wrong = [("1", InvalidType), (True, InvalidType), (-1, InvalidValue), (float("nan"), InvalidValue)]

    @k.kernel
    def check() -> None:
        for value, error in wrong:
            with pytest.raises(error, match=r"of cost is .* expected"):
                k.cost(flops=value)
        k.cost(flops=1.5, bytes=np.int64(3), dtype=np.float16)

    async def main() -> None:
        await atops.Device(0).create_stream().launch(check, (1, 1))

    virtual(main)
    atops.run(main)
    with pytest.raises(atops.errors.IllegalState):
        k.cost(flops=1)


@pytest.mark.parametrize(("dtype", "factor"), [(np.float32, 1), (np.float16, 4), (np.int8, 8), (np.float64, 0.5)])
def test_cost_knows_element_types(dtype: Any, factor: float) -> None:
    """Operations of narrow elements take less time."""

    @k.kernel
    def compute() -> None:
        k.cost(flops=MICROSECOND * 80, dtype=dtype)

    async def main() -> None:
        item = atops.Device(0).create_stream().launch(compute, (1, 1))
        await item
        assert close(taken(item), LAUNCH + int(80 * US / factor))

    virtual(main)


def test_numpy_is_counted_where_memory_is_seen() -> None:
    """Arrays of L1 are spans in strict mode: each operand is an access; else numpy takes no time there."""

    @k.kernel
    def add() -> None:
        tile = k.local(8192, np.float32)
        tile[:] = 1
        np.add(tile, tile, out=tile)

    async def main() -> int:
        item = atops.Device(0).create_stream().launch(add, (1, 1))
        await item
        return taken(item)

    assert virtual(main) == LAUNCH
    assert virtual(main, strict=True) == LAUNCH + -(-4 * 64 * 10 // 14)


def test_vectors_of_other_runs_are_not_counted() -> None:
    """The tables of vector operations are as before when the run is over."""
    kind = k.vector4[np.float32]
    before = dict(kind.operators)

    async def main() -> None:
        assert dict(kind.operators) != before

    virtual(main)
    assert dict(kind.operators) == before


def test_the_wall_clock_has_no_clocks_of_threads() -> None:
    """No thread has one."""
    seen = []

    @k.kernel
    def look() -> None:
        from atops.device.exec.thread import current_thread

        seen.append(current_thread().cost)

    async def main() -> None:
        await atops.Device(0).create_stream().launch(look, (1, 2))

    atops.run(main)
    assert seen == [None, None]


def test_a_launch_is_traced_with_its_time() -> None:
    """The record begins with the first cluster, and ends with the last block."""

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        item = stream.launch(busy, (2, 12), 10)
        await stream
        records = [each for each in stream.driver.tracer.records() if each.kind == Kind.LAUNCH]
        assert [(each.started_ns, each.finished_ns) for each in records] == [span(item)] == [(0, 13 * US)]

    virtual(main)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_reset_in_the_middle_of_a_kernel(seed: int | None) -> None:
    """Its launch ends with the reset, now, and the device can be used anew."""

    async def main() -> None:
        device = atops.Device(0)
        item = device.create_stream().launch(busy, (3, 12), 100)
        await asyncio.sleep(50e-6)
        await device.reset()
        assert item.done() and now() == 50 * US
        again = device.create_stream().launch(busy, (1, 12), 1)
        await again
        assert close(taken(again), 4 * US)

    virtual(main, seed=seed)


def test_events_of_a_launch_and_memory_elsewhere() -> None:
    """Start and stop events lie around the time; memory of the host and of a peer is reached over its link."""

    @k.kernel
    async def load(x: k.Span) -> None:
        tile = k.local(x.size, x.dtype)
        with k.dte_scope() as dte:
            await k.memcpy_async(dte, tile, x)

    async def main() -> None:
        here, there = atops.Device(0), atops.Device(1)
        here.enable_peer_access(there)
        stream = here.create_stream()
        start, stop = here.create_event(), here.create_event()
        await stream.launch(busy, (2, 12), 7, start=start, stop=stop)
        assert close(round((stop - start) * 1e6), 10 * US)
        with here.host_malloc(63_000) as pinned:
            for memory in (pinned, there.empty(63_000, np.uint8)):
                item = stream.launch(load, (1, 1), memory)
                await item
                assert taken(item) == LAUNCH + 200 + 1000
                item = stream.launch(load, (1, 12), memory)
                await item
                assert taken(item) == LAUNCH + 200 + 12_000

    virtual(main)
