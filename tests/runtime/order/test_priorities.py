"""Priorities: clusters and copy engines serve the most urgent first, and among equals the first to come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import InvalidValue
from atops.base.trace.records import Kind
from atops.device.copy_engine import CopyJob, Direction
from atops.runtime.commands.copy import COPIES, DIRECT
from atops.runtime.driver import board_of
from atops.runtime.queues import drain
from tests.runtime.hosts import board, on_every_host, on_hosts, run_program
from tests.runtime.latch import KernelLatch, StreamLatch


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


def noting(log, name, cooperative=False):
    """Return a kernel that notes its name and block when a block of it starts."""

    @k.kernel(name=name, cooperative=cooperative)
    def note():
        log.append((name, k.blockIdx.x))

    return note


@on_every_host
async def test_the_range_of_priorities(device):
    """A2, A5, A11: -2 (most urgent) to 0, the default; the object API refuses what is outside."""
    assert device.create_stream().priority == 0
    for priority in (-2, -1, 0):
        assert device.create_stream(priority=priority).priority == priority
    for priority in (-3, 1, 1 << 31, 0.5):
        with pytest.raises(InvalidValue, match="most urgent"):
            device.create_stream(priority=priority)


@on_hosts("asyncio", "inline")
async def test_clusters_go_to_the_most_urgent(device):
    """While all clusters are busy launches queue up; then they start by priority, and by ticket among equals."""
    latch, log = KernelLatch(), []
    blocker = device.create_stream()
    held = latch.hold(blocker, (device.arch.clusters, 1))
    await StreamLatch(device).passed(held)
    launches = [
        device.create_stream(priority=priority).launch(noting(log, name), (device.arch.clusters, 1))
        for name, priority in (("low", 0), ("mid", -1), ("top", -2), ("low2", 0))
    ]
    await StreamLatch(device).passed(*launches)
    assert not log
    latch.release()
    for launch in launches:
        await launch
    names = [name for name, _ in log]
    assert names == [name for name in ("top", "mid", "low", "low2") for _ in range(device.arch.clusters)]


@on_hosts("asyncio", "inline")
async def test_an_urgent_launch_takes_the_next_cluster(device):
    """An urgent launch gets the next free cluster before what is left of a launch that began earlier."""
    latch, log = KernelLatch(), []
    low, top = device.create_stream(), device.create_stream(priority=-2)
    held = latch.hold(device.create_stream(), (device.arch.clusters, 1))
    await StreamLatch(device).passed(held)
    first = low.launch(noting(log, "low"), (4 * device.arch.clusters, 1))
    await StreamLatch(device).passed(first)
    second = top.launch(noting(log, "top"), (1, 1))
    await StreamLatch(device).passed(second)
    latch.release()
    await second
    await first
    assert log[0] == ("top", 0) and len(log) == 1 + 4 * device.arch.clusters


@on_hosts("asyncio", "inline")
async def test_a_cooperative_launch_waits_for_all_its_clusters(device):
    """It holds nothing while it waits and keeps equal and lesser launches back, but not a more urgent one."""
    latch, log = KernelLatch(), []
    clusters = device.arch.clusters
    held = latch.hold(device.create_stream(), (clusters - 1, 1))  # one cluster stays free
    await StreamLatch(device).passed(held)
    whole, same, top = device.create_stream(), device.create_stream(), device.create_stream(priority=-1)
    items = [whole.launch(noting(log, "whole", cooperative=True), (clusters, 1))]
    await StreamLatch(device).passed(*items)  # else the launch of another stream may come to the clusters first
    items.append(same.launch(noting(log, "same"), (1, 1)))
    await StreamLatch(device).passed(*items)
    await top.launch(noting(log, "top"), (1, 1))
    assert log == [("top", 0)]
    latch.release()
    for item in items:
        await item
    assert [name for name, _ in log] == ["top"] + ["whole"] * clusters + ["same"]


@on_hosts("asyncio", "trio", "inline")
async def test_copy_engines_serve_the_most_urgent(device):
    """While every copy engine is taken, copies queue up; then they run by priority, and by ticket among equals."""
    engines, size = device.context.engines, 2 * DIRECT
    taken = [CopyJob(-3, ticket, Direction.NONE) for ticket in range(engines.engines)]
    for job in taken:
        engines.request(job)
    streams = {
        name: device.create_stream(priority=priority, name=name)
        for name, priority in (("low", 0), ("mid", -1), ("top", -2), ("low2", 0), ("top2", -2), ("mid2", -1))
    }
    source = device.empty(size, np.uint8)
    copies = [stream.copy(device.empty(size, np.uint8), source) for stream in streams.values()]
    await StreamLatch(device).passed()
    assert len(engines.waiting) == len(copies)
    engines.release(taken.pop())  # one for all, so that they end in the order in which they begin
    for copy in copies:
        await copy
    names = {stream.number: name for name, stream in streams.items()}
    order = [names[each.stream] for each in device.driver.tracer.records() if each.kind == Kind.COPY_D2D]
    assert order == ["top", "top2", "mid", "mid2", "low", "low2"]
    for job in taken:
        engines.release(job)


def plain(log, name):
    """Return a kernel whose threads note that they run."""

    @k.kernel
    def note(x):
        log.append(name)

    return note


def barriers(log, name):
    """Return a kernel whose threads note it between barriers."""

    @k.kernel
    async def note(x):
        for _ in range(8):
            await k.syncthreads()
            log.append(name)

    return note


def awaits(log, name):
    """Return a kernel whose threads note it between transfers."""

    @k.kernel
    async def note(x):
        tile = k.local(16, np.float32)
        with k.dte_scope() as dte:
            for _ in range(8):
                await k.memcpy_async(dte, tile, x)
                log.append(name)

    return note


def chains(device, maker, blocks, launches, priorities=(0, -2), between=None):
    """Enqueue equal chains of launches on held streams. Returns the latch, the streams and what kernels note."""
    latch, log = StreamLatch(device), []
    streams = [device.create_stream(priority=each, nonblocking=True) for each in priorities]
    gate = device.create_stream(nonblocking=True)
    x = gate.zeros(16, np.float32)
    latch.hold(gate)
    event = gate.record()  # one for all: they are let go in one step
    for stream in streams:
        stream.wait(event)
    kernels = [maker(log, number) for number in range(len(streams))]
    for _ in range(launches):
        for stream, kernel in zip(streams, kernels, strict=True):
            stream.launch(kernel, (blocks, 2), x)
            if between is not None:
                between(stream)
    return latch, streams, log


def launches_of(device, streams):
    """Return the numbers of the streams in the order in which their launches ended."""
    numbers = {stream.number: place for place, stream in enumerate(streams)}
    records = [each for each in device.driver.tracer.records() if each.kind == Kind.LAUNCH]
    return [numbers[each.stream] for each in records if each.stream in numbers]


def end_of(order, who):
    """Return where in an order the last of one stream stands, as a share."""
    return (len(order) - order[::-1].index(who)) / len(order)


@pytest.mark.parametrize("clock", ["wall", "virtual"])
@pytest.mark.parametrize("maker", [plain, barriers, awaits])
@pytest.mark.parametrize("blocks", [1, *(pytest.param(each, marks=pytest.mark.slow) for each in (2, 8, 32))])
@pytest.mark.parametrize("host", ["asyncio", "inline", "shuffled"])
def test_an_urgent_chain_ends_first(host, blocks, maker, clock):
    """A chain at -2 is over when little more than half of the work of it and of an equal chain at 0 is done.

    Under the virtual clock chains that need one cluster each go on beside each other, and end together.
    """

    async def main(device):
        latch, streams, log = chains(device, maker, blocks, 10)
        latch.release()
        await device.wait()
        if clock == "virtual" and blocks == 1:
            assert end_of(launches_of(device, streams), 1) >= 0.9
            return
        assert end_of(log, 1) <= 0.6
        assert end_of(launches_of(device, streams), 1) <= 0.6

    if clock == "wall" or host != "asyncio":  # a virtual clock is for inline runs
        run_program(host, main, {"clock": clock}, {})


@pytest.mark.parametrize("most", [drain.DRAIN_COMMANDS, 1])
@on_hosts("asyncio", "inline", "shuffled")
async def test_four_urgent_streams_and_a_low_one(device, most, monkeypatch):
    """While any of them has a launch the low one starts none, whatever short commands are between launches.

    Also where a drain lets others have their turn between two launches.
    """
    monkeypatch.setattr(drain, "DRAIN_COMMANDS", most)
    a, b = device.empty(16, np.float32), device.empty(16, np.float32)

    def between(stream):
        stream.record()
        stream.copy(b, a)

    latch, streams, _ = chains(device, plain, 1, 12, (-2, -2, 0, -2, -2), between)
    latch.release()
    await device.wait()
    ends = launches_of(device, streams)
    assert ends.index(2) == 48
    assert {each: ends.count(each) for each in range(5)} == dict.fromkeys(range(5), 12)


@on_hosts("inline", "shuffled")
async def test_equal_streams_have_equal_turns(device):
    """Where launches of equal streams alternate, no stream is ahead of another by more than what runs at once."""
    latch, streams, _ = chains(device, barriers, 4, 10, (-1,) * 4)
    latch.release()
    await device.wait()
    done = [0] * 4
    for each in launches_of(device, streams):
        done[each] += 1
        assert max(done) - min(done) <= 3


@on_hosts("asyncio", "inline", "shuffled")
async def test_a_cooperative_chain_is_not_held_up_by_low_blocks(device):
    """Clusters that one block of an urgent launch leaves are kept until its stream has offered the next launch."""

    def whole(log, name):
        @k.kernel(cooperative=True)
        async def meet(x):
            await k.syncblocks()
            log.append(name)

        return meet

    latch, _, log = chains(device, whole, device.arch.clusters, 10)
    latch.release()
    await device.wait()
    assert end_of(log, 1) <= 0.6


@on_hosts("asyncio", "inline", "shuffled")
async def test_an_urgent_kernel_may_poll_for_a_low_one(device):
    """A kernel that goes on lets what is less urgent have turns: here the one that it waits for."""

    @k.kernel
    async def polls():
        while not flag:
            await k.syncthreads()

    flag = []
    top, mid, low = (device.create_stream(priority=priority) for priority in (-2, -1, 0))
    first = top.launch(polls, (1, 1))
    await StreamLatch(device).passed(first)
    second = mid.launch(polls, (1, 1))
    await StreamLatch(device).passed(second)
    low.call(flag.append, 1)
    await first
    await second


@on_hosts("inline", "shuffled", clock="virtual")
async def test_an_urgent_chain_of_copies_waits_for_no_low_one(device):
    """An engine goes to a less urgent copy after the next copy of the stream that had it, and so does the link."""
    size, engines = 1 << 20, device.context.engines.engines
    memory, hosts = device.zeros((2 * engines + 2, size), np.uint8), np.zeros((2 * engines + 2, size), np.uint8)
    latch = StreamLatch(device)
    lows = [device.create_stream(nonblocking=True) for _ in range(2 * engines)]
    top = device.create_stream(nonblocking=True, priority=-2)
    for stream in (*lows, top):
        latch.hold(stream)
    for _ in range(3):
        for row, stream in enumerate(lows):
            stream.copy(hosts[row] if row % 2 else memory[row], memory[-1])
    items = [top.copy(memory[-2], hosts[-1]) for _ in range(6)] + [top.fill(memory[-2], 1) for _ in range(6)]
    latch.release()
    await device.wait()
    records = {each.seq: each for each in device.driver.tracer.records()}
    mine = [records[each.seq] for each in items]
    assert all(one.finished_ns == two.started_ns for one, two in pairwise(mine))


@pytest.mark.parametrize("late", [False, True])
@on_hosts("asyncio", "trio", "inline", "shuffled")
async def test_large_fills_and_copies_go_by_urgency(device, late, monkeypatch):
    """What waits for a copy thread waits by urgency, too; also where drains have no time left when they begin."""
    monkeypatch.setattr(drain, "DRAIN_NS", -1 if late else 10**12)
    size, blocked = (4 << 20), [threading.Event() for _ in range(2)]
    streams = [device.create_stream(priority=priority) for priority in (0, -1, -2, 0, -2)]
    memory = device.empty((len(streams), size), np.uint8)
    executor = board_of(device.driver).executor
    if not device.driver.inline:
        for each in blocked:
            executor.run(COPIES, each.wait, -2)  # the first to come of the most urgent
    fills = [stream.fill(memory[row], 1) for row, stream in enumerate(streams)]
    if not device.driver.inline:
        await StreamLatch(device).passed()
        blocked[0].set()  # one thread for all, so that they end in the order in which they begin
    for each in fills:
        await each
    blocked[1].set()
    places = {stream.number: place for place, stream in enumerate(streams)}
    order = [places[each.stream] for each in device.driver.tracer.records() if each.kind == Kind.FILL]
    assert order == [2, 4, 1, 0, 3] or (device.driver.inline and sorted(order[:2]) == [2, 4])


def test_priority_does_not_reorder_a_stream(device: atops.Device):
    """An urgent stream is still a stream: its own commands keep their order, and events hold it."""
    log: list[str] = []
    low, top = device.create_stream(), device.create_stream(priority=-2)
    latch = StreamLatch(device)
    latch.hold(low)
    low.call(log.append, "low")
    top.wait(low.record())
    top.call(log.append, "top 1")
    top.call(log.append, "top 2")
    latch.release()
    top.sync()
    assert log == ["low", "top 1", "top 2"]
