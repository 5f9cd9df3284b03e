"""Priorities: clusters and copy engines serve the most urgent first, and among equals the first to come."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import InvalidValue
from atops.base.trace.records import Kind
from atops.device.copy_engine import CopyJob, Direction
from atops.runtime.commands.copy import DIRECT
from tests.runtime.hosts import board, on_every_host, on_hosts
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
    items = [
        whole.launch(noting(log, "whole", cooperative=True), (clusters, 1)),
        same.launch(noting(log, "same"), (1, 1)),
    ]
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
    taken = [CopyJob(-3, ticket, Direction.NONE, lambda: None) for ticket in range(engines.engines)]
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
