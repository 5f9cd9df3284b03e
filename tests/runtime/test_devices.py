"""Several devices: each its own, peers only when allowed, grids that span them, and resets of one alone."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import (
    AtopsError,
    CooperativeLaunchTooLarge,
    IllegalAddress,
    InvalidHandle,
    InvalidType,
    InvalidValue,
    LaunchFailure,
    LaunchOutOfResources,
    NotInitialized,
    NotSupported,
    PeerAccessAlreadyEnabled,
    PeerAccessNotEnabled,
    PriorLaunchFailure,
    StreamAborted,
    StreamFull,
    WouldDeadlock,
)
from atops.base.trace.records import Kind
from atops.device.topology import Topology
from atops.runtime.cooperative_launch import launch_together
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.runtime.memory.buffer import DeviceArray
from atops.runtime.stream import queue_of
from tests.runtime.boards import (
    PATIENCE,
    Latch,
    add_one,
    board,
    broken,
    leftovers,
    nothing,
    settled,
    suspended_forever,
    waiters,
    works,
)

anyio_test = pytest.mark.anyio


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A board of two linked devices."""
    with board(devices=2, trace=1000) as made:
        yield made


@pytest.fixture
def pair(driver: Driver) -> tuple[Device, Device]:
    """Its devices."""
    return Device(0, driver), Device(1, driver)


@k.kernel
def copies(y: Any, x: Any) -> None:
    """Copy x to y, element by element, wherever they are."""
    for index in range(x.size):
        y[index] = x[index]


# ---- each its own


def test_devices_do_not_share(pair: tuple[Device, Device]) -> None:
    """Memory, streams, failures and the null stream's order belong to one device."""
    first, second = pair
    latch = Latch(first)
    held, free = first.create_stream(), second.create_stream()
    latch.hold(held)
    behind = first.null_stream.record()
    array = second.null_stream.zeros(100)
    assert (free.fetch(array).wait_sync(PATIENCE) == 0).all()
    second.sync(PATIENCE)
    assert not behind.is_done
    failing = second.create_stream()
    failing.launch(broken, (1, 1))
    with pytest.raises(LaunchFailure):
        second.sync(PATIENCE)
    latch.open()
    first.sync(PATIENCE)
    assert array.address != latch.word.address
    assert (array.device_id, latch.word.device_id) == (1, 0)
    failing.clear_error()


def test_both_devices_work_at_once(pair: tuple[Device, Device]) -> None:
    """Two kernels on two devices run at the same time: each waits for what the other does."""
    met = threading.Barrier(2)

    @k.kernel
    def meets() -> None:
        met.wait(PATIENCE)

    launches = [device.create_stream().launch(meets, (1, 1)) for device in pair]
    for launch in launches:
        launch.wait_sync(PATIENCE)


def test_events_order_streams_of_two_devices(pair: tuple[Device, Device]) -> None:
    """A stream of one device waits for an event of the other."""
    first, second = pair
    latch = Latch(first)
    one, two = first.create_stream(), second.create_stream()
    latch.hold(one)
    two.wait(one.record())
    after = two.record()
    other = second.create_stream()
    other.sync(PATIENCE)
    assert not after.is_done
    latch.open()
    two.sync(PATIENCE)
    assert after.is_done


def test_a_stream_takes_events_of_its_own_device_only(pair: tuple[Device, Device]) -> None:
    """Recording an event of another device is refused."""
    first, second = pair
    with pytest.raises(InvalidHandle, match="device 1"):
        first.create_stream().record(second.create_event())


def test_a_device_is_one_object(pair: tuple[Device, Device]) -> None:
    """However often it is asked for; a copy of it is no other one, and changes nothing."""
    first, second = pair

    class Mine(Device):
        pass

    for device in pair:
        ordinal = device.id
        assert Device(ordinal, device.driver) is device is device.driver.device(ordinal) is Mine(ordinal, device.driver)
        assert device in Device.all(device.driver) and copy.copy(device) is device and device.id == ordinal
        assert device.null_stream.device is device
    with pytest.raises(InvalidType, match="one process"):
        copy.deepcopy(second)
    with first:
        assert Device() is first


def test_choosing_returns_what_was_chosen(pair: tuple[Device, Device]) -> None:
    """As CuPy has it: `stream = device.create_stream().use()`."""
    with pair[0], pair[1].create_stream() as stream:
        assert pair[0].use() is pair[0] is Device()
        assert stream.use() is stream is pair[1].current_stream


def test_memory_figures_have_names(pair: tuple[Device, Device]) -> None:
    """`memory_info()` is (free, total), by place and by name."""
    figures = pair[0].memory_info()
    assert figures == (figures.free, figures.total) and figures.free <= figures.total


@anyio_test
async def test_the_current_device(driver: Driver) -> None:
    """It is chosen for a block or for a task, inherited by new tasks, and a thread's own elsewhere."""
    seen: dict[str, int] = {}

    async def task(name: str) -> None:
        seen[name] = Device(driver=driver).ordinal

    async def choosing() -> None:
        Device(1, driver).set_current()
        await anyio.lowlevel.checkpoint()
        await task("chosen in a task")

    async with anyio.create_task_group() as tasks:
        with Device(1, driver):
            tasks.start_soon(task, "started inside")
            with Device(0, driver):
                await task("inner")
            await task("outer")
        await task("after")
        seen["thread"] = await anyio.to_thread.run_sync(fresh_thread, driver)
    assert seen == {"started inside": 1, "inner": 0, "outer": 1, "after": 0, "thread": 0}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(choosing)
    assert seen["chosen in a task"] == 1
    atops.Device(0, driver).set_current()


def fresh_thread(driver: Driver) -> int:
    """Return the current device of a thread that never chose one."""
    answer: list[int] = []
    thread = threading.Thread(target=lambda: answer.append(Device(driver=driver).ordinal))
    thread.start()
    thread.join(PATIENCE)
    return answer[0]


# ---- peers


def test_a_kernel_reaches_a_peer_only_when_it_may(pair: tuple[Device, Device]) -> None:
    """Without access the launch is refused and says how to get it; with it the kernel works; then it ends again."""
    first, second = pair
    source = second.create_stream().upload(np.arange(50))
    stream = first.create_stream()
    target = stream.zeros(50, "int64")
    second.sync(PATIENCE)
    for _ in range(2):
        with pytest.raises(PeerAccessNotEnabled, match="parameter x is memory of device 1; enable peer access"):
            stream.launch(copies, (1, 1), target, source)
        assert stream.error is None
        first.enable_peer_access(second)
        assert first.statistics().peers == (1,)
        stream.launch(copies, (1, 1), target, source)
        assert (stream.fetch(target).wait_sync(PATIENCE) == np.arange(50)).all()
        with pytest.raises(PeerAccessNotEnabled, match="parameter x is memory of device 0"):
            second.create_stream().launch(copies, (1, 1), source, target)
        first.disable_peer_access(second)


@pytest.mark.parametrize("rights", ["read", "readwrite"])
def test_a_kernel_reaches_what_a_pool_opens(pair: tuple[Device, Device], rights: str) -> None:
    """I34: access to a pool lets another device's kernels reach its memory, freed in stream order too; and no other."""
    first, second = pair
    pool, owner, stream = second.create_pool(), second.create_stream(), first.create_stream()
    target = stream.zeros(50, "int64")
    for _ in range(2):
        source, apart = owner.empty(50, "int64", pool=pool), owner.zeros(50, "int64")
        owner.copy(source, np.arange(50))
        stream.wait(owner.record())
        for refused in (source, apart):
            with pytest.raises(AtopsError, match="enable peer access"):
                stream.launch(copies, (1, 1), target, refused).wait_sync(PATIENCE)
            stream.clear_error()
        pool.set_access(0, rights)
        with pytest.raises(AtopsError, match="enable peer access"):
            stream.launch(copies, (1, 1), target, apart).wait_sync(PATIENCE)
        stream.clear_error()
        latch = Latch(first)
        latch.hold(stream)
        stream.launch(copies, (1, 1), target, source)
        stream.free(source)  # enqueued behind the kernel, which runs after this call
        latch.open()
        latch.close()
        assert (stream.fetch(target).wait_sync(PATIENCE) == np.arange(50)).all()
        stream.fill(target, 0)
        pool.set_access(0, "none")


@pytest.mark.parametrize("masks", [(None, None, None), (1, 1), (1, 3, 2), (2, None, 2)])
def test_grids_that_could_never_start_together(pair: tuple[Device, Device], masks: tuple[int | None, ...]) -> None:
    """More cooperative blocks than a device, or the streams' masks, have clusters: refused, and nothing is held up."""
    first, second = pair

    @k.kernel
    async def meets() -> None:
        await k.syncblocks()

    streams = [second.create_stream(), *(first.create_stream(cluster_mask=mask) for mask in masks)]
    with pytest.raises(CooperativeLaunchTooLarge, match=r"device 0 has [12] clusters for them"):
        launch_together([(stream, meets, (1, 2)) for stream in streams], cooperative=True)
    assert not any(queue_of(stream).pending() for stream in streams)
    apart = [second.create_stream(), *(first.create_stream(cluster_mask=mask) for mask in (1, None))]
    for item in launch_together([(stream, meets, (1, 2)) for stream in apart], cooperative=True):
        item.wait_sync(PATIENCE)


@pytest.mark.parametrize("launches", [3, [3], [()], "abc", None])
def test_launches_that_are_none(launches: Any) -> None:
    """What is no list of launches is refused with what one looks like."""
    with pytest.raises(InvalidType, match=r"expected .*\(stream, kernel, config, \*arguments\)"):
        launch_together(launches)


def test_misuse_of_peer_access(pair: tuple[Device, Device]) -> None:
    """Twice, for itself, without a link, or taking away what was not given: each is named."""
    first, second = pair
    first.enable_peer_access(second)
    with pytest.raises(PeerAccessAlreadyEnabled):
        first.enable_peer_access(second)
    with pytest.raises(PeerAccessNotEnabled):
        second.disable_peer_access(first)
    with pytest.raises(InvalidValue):
        first.enable_peer_access(first)
    assert first.can_access_peer(first) == 0
    assert first.can_access_peer(second)
    board_of(first.driver).topology = Topology(2, switch=1, across_roots=False)
    assert second.can_access_peer(first) == 0
    with pytest.raises(NotSupported, match="no link"):
        second.enable_peer_access(first)


@pytest.mark.parametrize("nbytes", [64, 1 << 16, 5 << 20])
@pytest.mark.parametrize("linked", [True, False])
def test_copies_between_devices(pair: tuple[Device, Device], linked: bool, nbytes: int) -> None:
    """With a link a copy is one transfer; without one it goes through the host, in two that the trace shows."""
    first, second = pair
    if not linked:
        board_of(first.driver).topology = Topology(2, switch=1, across_roots=False)
    host = np.random.default_rng(1).integers(0, 255, nbytes, np.uint8)
    there, here = second.create_stream(), first.create_stream()
    source = there.upload(host)
    here.wait(there.record())
    target = here.empty(nbytes, "uint8")
    here.sync(PATIENCE)
    start = first.driver.tracer.since(0).next
    copy = here.copy(target, source)
    copy.wait_sync(PATIENCE)
    records = [record for record in first.driver.tracer.records(start) if record.seq == copy.seq]
    assert (here.fetch(target).wait_sync(PATIENCE) == host).all()
    kinds = [record.kind for record in records]
    assert kinds == ([Kind.COPY_PEER] if linked else [Kind.COPY_D2H, Kind.COPY_H2D])
    assert {record.bytes for record in records} == {nbytes}
    ends = [(record.src_device, record.dst_device) for record in records]
    assert ends == ([(1, 0)] if linked else [(1, -1), (-1, 0)])


def test_a_staged_copy_of_freed_memory(pair: tuple[Device, Device]) -> None:
    """Memory that a reset has taken away meanwhile fails the copy, in whichever half, and only that stream."""
    for reset in (0, 1):
        with board(devices=2) as driver:
            board_of(driver).topology = Topology(2, switch=1, across_roots=False)
            devices = [Device(ordinal, driver) for ordinal in range(2)]
            keeping = devices[1 - reset]
            latch, stream = Latch(keeping), keeping.create_stream()
            ends = [device.empty(100) for device in devices]
            latch.hold(stream)
            copy = stream.copy(ends[0], ends[1])
            devices[reset].reset_sync()
            latch.open()
            with pytest.raises(IllegalAddress, match="freed"):
                copy.wait_sync(PATIENCE)
            stream.clear_error()
            assert (stream.fetch(stream.zeros(5)).wait_sync(PATIENCE) == 0).all()


def test_copies_both_ways_at_once(pair: tuple[Device, Device]) -> None:
    """Many copies between two devices in both directions, with and without a link, end and move every byte."""
    for linked in (True, False):
        if not linked:
            board_of(pair[0].driver).topology = Topology(2, switch=1, across_roots=False)
        streams = [device.create_stream() for device in pair]
        size = 1 << 18
        arrays = [stream.upload(np.full(size, number, np.uint8)) for number, stream in enumerate(streams)]
        targets = [stream.empty(size, "uint8") for stream in streams]
        for device in pair:
            device.sync(PATIENCE)
        for _ in range(20):
            for number, stream in enumerate(streams):
                stream.copy(targets[number], arrays[1 - number])
        for number, stream in enumerate(streams):
            assert (stream.fetch(targets[number]).wait_sync(PATIENCE) == 1 - number).all()
        for stream in streams:
            stream.close()


# ---- together


@k.kernel
async def exchange(mine: Any, theirs: Any, out: Any, value: np.int32) -> None:
    """Each block stores its value, all grids meet, then each reads what the other device's block has stored."""
    block = k.blockIdx.x
    if k.threadIdx.x == 0:
        mine[block] = value + block
    await k.syncblocks()
    if k.threadIdx.x == 0:
        out[block] = theirs[block]


def test_a_grid_across_two_devices(pair: tuple[Device, Device]) -> None:
    """Cooperative grids of two devices start together, and `syncblocks` holds every thread of both."""
    first, second = pair
    first.enable_peer_access(second)
    second.enable_peer_access(first)
    streams = [device.create_stream() for device in pair]
    arrays = [stream.zeros(2, "int32") for stream in streams]
    results = [stream.zeros(2, "int32") for stream in streams]
    for device in pair:
        device.sync(PATIENCE)
    for turn in range(10):
        items = launch_together(
            [
                (streams[0], exchange, (2, 12), arrays[0], arrays[1], results[0], 10 * turn),
                (streams[1], exchange, (2, 12), arrays[1], arrays[0], results[1], 10 * turn + 5),
            ],
            cooperative=True,
        )
        for item in items:
            item.wait_sync(PATIENCE)
        assert streams[0].fetch(results[0]).wait_sync(PATIENCE).tolist() == [10 * turn + 5, 10 * turn + 6]
        assert streams[1].fetch(results[1]).wait_sync(PATIENCE).tolist() == [10 * turn, 10 * turn + 1]


def test_two_threads_launch_grids_that_span_devices(pair: tuple[Device, Device]) -> None:
    """Submissions are atomic: the first grid on one device is first on the other, so that none waits for ever."""
    shared = [device.create_stream() for device in pair]
    count = [0]

    @k.kernel
    async def meets() -> None:
        await k.syncblocks()
        if k.threadIdx.x == k.blockIdx.x == 0:
            count[0] += 1

    def launch(order: int) -> None:
        streams = shared[::order]
        for _ in range(50):
            launch_together([(stream, meets, (2, 12)) for stream in streams], cooperative=True)

    threads = [threading.Thread(target=launch, args=(order,), daemon=True) for order in (1, -1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for device in pair:
        device.sync(PATIENCE)
    assert count == [200]


@k.kernel
async def meet() -> None:
    """Wait for every block of every grid."""
    await k.syncblocks()


def test_a_grid_whose_partner_cannot_start(pair: tuple[Device, Device]) -> None:
    """When one stream has failed, the partner's launch fails instead of waiting for ever; other work goes on."""
    first, second = (device.create_stream() for device in pair)
    second.launch(broken, (1, 1))
    items = launch_together([(first, meet, (2, 12)), (second, meet, (2, 12))], cooperative=True)
    with pytest.raises(PriorLaunchFailure):
        items[1].wait_sync(PATIENCE)
    with pytest.raises(LaunchFailure, match="another grid"):
        items[0].wait_sync(PATIENCE)
    first.clear_error()
    second.clear_error()
    for item in launch_together([(first, meet, (2, 12)), (second, meet, (2, 12))], cooperative=True):
        item.wait_sync(PATIENCE)


@pytest.mark.parametrize("aborted", [0, 1])
def test_aborting_one_of_two_grids(pair: tuple[Device, Device], aborted: int) -> None:
    """Whether it has come to the meeting or is still behind other work: aborting one grid ends both, at once."""
    with board(devices=2, abort_grace=PATIENCE * 10) as driver:
        devices = [Device(ordinal, driver) for ordinal in range(2)]
        latch = Latch(devices[1])
        streams = [device.create_stream() for device in devices]
        latch.hold(streams[1])
        items = launch_together([(stream, meet, (2, 12)) for stream in streams], cooperative=True)
        while items[0].state != "running":
            pass
        streams[aborted].abort()
        with pytest.raises(StreamAborted):
            items[aborted].wait_sync(PATIENCE)
        latch.open()
        with pytest.raises(LaunchFailure, match="another grid"):
            items[1 - aborted].wait_sync(PATIENCE)
        latch.close()
        for stream in streams:
            stream.clear_error()
            stream.launch(add_one, (2, 12), stream.zeros(24, "int32"))
            stream.sync(PATIENCE)
            stream.close()
        assert leftovers(driver) == {}


@pytest.mark.parametrize("aborted", [0, 1])
def test_aborting_one_of_two_grids_that_run(pair: tuple[Device, Device], aborted: int) -> None:
    """Grids that have met end together: a failure of the stream that was not aborted, whose later work is skipped."""

    @k.kernel
    async def never() -> None:
        while True:
            await k.syncblocks()

    streams = [device.create_stream() for device in pair]
    items = launch_together([(stream, never, (2, 12)) for stream in streams], cooperative=True)
    while any(item.state != "running" for item in items):
        pass
    behind = [stream.call(int) for stream in streams]
    streams[aborted].abort()
    for ended in (items, behind):
        with pytest.raises(StreamAborted):
            ended[aborted].wait_sync(PATIENCE)
    with pytest.raises(LaunchFailure, match=f"another grid .* was aborted: {streams[aborted].label} was aborted"):
        items[1 - aborted].wait_sync(PATIENCE)
    with pytest.raises(PriorLaunchFailure, match="another grid"):
        behind[1 - aborted].wait_sync(PATIENCE)
    streams[aborted].sync(PATIENCE)
    streams[1 - aborted].clear_error()
    for item in launch_together([(stream, meet, (2, 1)) for stream in streams], cooperative=True):
        item.wait_sync(PATIENCE)


@pytest.mark.parametrize("end", ["reset", "close"])
def test_ending_the_device_of_two_grids_that_run(end: str) -> None:
    """A reset fails the grid on the other device, and its stream; the driver's end aborts both."""
    with board(devices=2) as driver:
        devices = [Device(ordinal, driver) for ordinal in range(2)]
        streams = [device.create_stream() for device in devices]
        latch = devices[0].signals.allocate()

        @k.cooperative
        async def late(signal: np.int32) -> None:
            if signal >= 0:
                await k.signal_wait(signal, 1)
            await k.syncblocks()

        ways = zip(streams, (latch, -1), strict=True)
        items = launch_together([(stream, late, (1, 2), signal) for stream, signal in ways], cooperative=True)
        while any(item.state != "running" for item in items):
            pass
        if end == "reset":
            devices[0].reset_sync()
        else:
            driver.close()
        with pytest.raises(StreamAborted):
            items[0].wait_sync(PATIENCE)
        with pytest.raises(LaunchFailure if end == "reset" else StreamAborted, match=r"was reset|was closed"):
            items[1].wait_sync(PATIENCE)
        assert (streams[1].error is not None) == (end == "reset")


@pytest.mark.parametrize("order", [1, -1])
def test_a_grid_that_the_clusters_refuse(pair: tuple[Device, Device], order: int) -> None:
    """A stream whose SIPs are too few for the grid: refused at the call, and none of the grids is enqueued."""
    streams = [pair[0].create_stream(), pair[1].create_stream(sip_mask=1)][::order]
    before = board_of(pair[0].driver).seq
    with pytest.raises(LaunchOutOfResources, match="1 SIP threads"):
        launch_together([(stream, meet, (2, 12)) for stream in streams], cooperative=True)
    assert board_of(pair[0].driver).seq == before
    for item in launch_together([(stream, meet, (2, 1)) for stream in streams], cooperative=True):
        item.wait_sync(PATIENCE)


def test_bad_launches_together(pair: tuple[Device, Device]) -> None:
    """What cannot be launched is refused at the call, and nothing of it was enqueued."""
    first, second = (device.create_stream() for device in pair)
    with board() as other:
        foreign = Device(0, other).create_stream()
        for launches, error in (
            ([(first, meet, (2, 12)), (first, meet, (2, 12))], InvalidValue),
            ([(first, meet, (2, 12)), (second, meet, (3, 12))], CooperativeLaunchTooLarge),
            ([(first, meet, (2, 12)), (second, meet, (2, 12), 7)], InvalidType),
            ([(first, meet, (2, 12)), ("stream", meet, (2, 12))], InvalidType),
            ([(first, meet, (2, 12)), (foreign, meet, (2, 12))], InvalidValue),
        ):
            with pytest.raises(error):
                launch_together(launches, cooperative=True)
    assert first.is_done
    assert second.is_done
    assert launch_together([]) == []


@pytest.mark.parametrize("closed", [True, False])
def test_submitting_together_is_all_or_nothing(pair: tuple[Device, Device], closed: bool) -> None:
    """If one stream is closed or full, no stream gets a command, and places that were taken are given back."""
    first = pair[0].create_stream(capacity=3)
    second = pair[1].create_stream(capacity=1)
    latch = Latch(pair[1])
    latch.hold(second)
    if closed:
        second.close()
    for _ in range(5):
        with pytest.raises(InvalidHandle if closed else StreamFull):
            launch_together([(each, nothing, (1, 1)) for each in (first, first, second)])
    assert first.is_done
    assert first.statistics().free == 3
    latch.open()
    second_free = pair[1].create_stream()
    items = launch_together([(each, nothing, (1, 1)) for each in (first, second_free)])
    assert items[0].seq + 1 == items[1].seq
    for item in items:
        item.wait_sync(PATIENCE)


def test_launches_on_streams_of_two_drivers_are_refused(driver: Driver) -> None:
    """One lock orders a submission, and each driver has its own."""
    with board() as other:
        streams = [Device(0, each).create_stream() for each in (driver, other)]
        with pytest.raises(InvalidValue, match="streams of several drivers"):
            launch_together([(each, nothing, (1, 1)) for each in streams])
        assert all(each.is_done for each in streams)


# ---- reset


Reset = Callable[[Device], Any]


async def by_await(device: Device) -> None:
    """Reset, awaiting."""
    await device.reset()


async def by_blocking(device: Device) -> None:
    """Reset in a thread, blocking."""
    await anyio.to_thread.run_sync(device.reset_sync)


@anyio_test
@pytest.mark.parametrize("reset", [by_await, by_blocking])
async def test_reset_while_work_runs(pair: tuple[Device, Device], reset: Reset) -> None:
    """Work is dropped, waits fail, kernels end, memory is free, handles are dead; the other device works."""
    first, second = pair
    second_stream = second.create_stream()
    second_array = second_stream.upload(np.arange(10))
    first.enable_peer_access(second)
    latch, stream, kernel_stream = Latch(first), first.create_stream(), first.create_stream()
    array = stream.zeros(1000)
    pinned = first.host_malloc(10)
    pool = first.create_pool()
    held = latch.hold(stream)
    fetched = stream.fetch(array)
    event = stream.record()
    running = kernel_stream.launch(suspended_forever, (2, 12))
    told: list[str] = []

    async def wait(name: str, what: Callable[[], Any]) -> None:
        try:
            await what()
        except StreamAborted:
            told.append(name)

    async def awaiting(thing: Any) -> None:
        await thing

    async def blocking(call: Callable[[float], Any]) -> None:
        await anyio.to_thread.run_sync(call, PATIENCE)

    waits: dict[str, Callable[[], Any]] = {
        "wait": lambda: awaiting(held),
        "copy": lambda: awaiting(fetched),
        "event": lambda: awaiting(event),
        "kernel": lambda: awaiting(running),
        "stream": lambda: awaiting(stream),
        "device": first.wait,
        "stream.sync": lambda: blocking(stream.sync),
        "device.sync": lambda: blocking(first.sync),
        "event.sync": lambda: blocking(event.sync),
    }
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for name, what in waits.items():
                tasks.start_soon(wait, name, what)
            while waiters(first.driver) < len(waits):
                await anyio.lowlevel.checkpoint()
            await reset(first)
    assert sorted(told) == sorted(waits)
    figures = first.statistics()
    assert (figures.memory.used, figures.active_streams, figures.peers) == (0, 0, ())
    fresh = first.create_stream()
    for use in (
        lambda: stream.record(),
        lambda: stream.zeros(5),
        lambda: stream.fetch(array),
        lambda: stream.launch(add_one, (1, 1), array),
        lambda: stream.add_callback(print),
        lambda: stream.sync(),
        lambda: fresh.fetch(array),
        lambda: fresh.fill(array, 0),
        lambda: fresh.empty(5, pool=pool),
    ):
        with pytest.raises((InvalidHandle, IllegalAddress)):
            use()
    array.close()
    stream.close()
    pinned.close()
    assert works(first.driver)
    assert ((await second_stream.fetch(second_array)) == np.arange(10)).all()
    await settled(first.driver)


@anyio_test
async def test_reset_under_a_kernel_that_never_suspends() -> None:
    """It is given up after the grace; the device is fresh then, and late stores of the kernel reach no allocation."""
    gate, started = threading.Event(), threading.Event()

    @k.kernel
    def stubborn(x: Any) -> None:
        started.set()
        gate.wait(2 * PATIENCE)
        x[0] = 7

    with board(abort_grace=0.05) as driver:
        device = Device(0, driver)
        stream = device.create_stream()
        array = device.empty(4, "int32")
        launched = stream.launch(stubborn, (1, 1), array)
        await anyio.to_thread.run_sync(started.wait, PATIENCE)
        with anyio.fail_after(PATIENCE):
            await device.reset()
        with pytest.raises(StreamAborted):
            launched.result()
        fresh: DeviceArray = device.empty(4, "int32")
        new = device.create_stream()
        new.fill(fresh, 0)
        assert fresh.address == array.address
        gate.set()
        assert works(driver)
        assert ((await new.fetch(fresh)) == 0).all()


def test_reset_in_a_callback_of_the_device(pair: tuple[Device, Device]) -> None:
    """A callback cannot wait for its own end: the reset is refused and nothing has changed; the other device's may."""
    first, second = pair
    stream = first.create_stream()
    array = stream.upload(np.arange(5))
    refused: list[bool] = []

    def callback() -> None:
        try:
            first.reset_sync()
        except WouldDeadlock:
            refused.append(True)
        second.reset_sync()

    stream.call(callback).wait_sync(PATIENCE)
    assert refused == [True]
    assert (stream.fetch(array).wait_sync(PATIENCE) == np.arange(5)).all()


def test_resets_at_once(pair: tuple[Device, Device]) -> None:
    """Threads that reset and use a device at the same time see dead handles at worst; the device works in the end."""
    first, _ = pair
    errors: list[BaseException] = []
    stop = threading.Event()

    def guard(work: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        return run

    def use() -> None:
        while not stop.is_set():
            try:
                stream = first.create_stream()
                array = stream.zeros(24, "int32")
                stream.launch(add_one, (2, 12), array)
                assert (stream.fetch(array).wait_sync(PATIENCE) == 1).all()
                stream.close()
            except (InvalidHandle, IllegalAddress, NotInitialized, StreamAborted, PriorLaunchFailure):
                pass

    def reset() -> None:
        for _ in range(15):
            first.reset_sync()

    users = [threading.Thread(target=guard(use), daemon=True) for _ in range(2)]
    resetters = [threading.Thread(target=guard(reset), daemon=True) for _ in range(2)]
    for thread in users + resetters:
        thread.start()
    for thread in resetters:
        thread.join(PATIENCE)
    stop.set()
    for thread in users:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in users + resetters)
    assert not errors
    assert works(first.driver)


@pytest.mark.parametrize("ordinal", [1.0, True, "1", np.float32(1), (1,)], ids=repr)
def test_an_ordinal_is_an_int(driver: Driver, ordinal: Any) -> None:
    """What only equals an int is refused, whether or not that device is in use already; numpy's ints are ints."""
    for _ in range(2):
        with pytest.raises(InvalidType, match=re.escape(f"{ordinal!r}; expected an int, as in Device(0)")):
            Device(ordinal, driver)
        assert type(Device(np.int64(1), driver).ordinal) is int
    assert Device(np.int8(1), driver) == Device(1, driver)


@pytest.mark.parametrize("end", ["work", "driver", "meanwhile"])
@anyio_test
async def test_a_reset_is_finished_in_every_way_to_wait(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled, the driver frees the memory once what runs has ended. The driver's end ends a reset that waits."""
    monkeypatch.setattr("atops.runtime.driver_board.MARGIN", 0)
    with board(devices=1, abort_grace=0) as driver, anyio.fail_after(PATIENCE):
        device = Device(0, driver)
        stream = device.create_stream()
        memory, release = stream.zeros(4), threading.Event()
        call = stream.call(release.wait)
        while call.state != "running":
            await anyio.lowlevel.checkpoint()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(device.reset)
                while not board_of(driver).retired:
                    await anyio.lowlevel.checkpoint()
                if end == "meanwhile":
                    await driver.aclose()
                else:
                    tasks.cancel_scope.cancel()
            assert memory.allocation.alive == (end != "meanwhile")
            if end == "driver":
                await driver.aclose()
        finally:
            release.set()
        while memory.allocation.alive or board_of(driver).retired:
            await anyio.lowlevel.checkpoint()
        assert call.over
