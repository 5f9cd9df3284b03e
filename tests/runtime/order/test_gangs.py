"""Cooperative launches of several grids: all of them have their clusters at once, or none holds any."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import atops
from atops import EmulatorOptions
from atops import kernels as k
from atops.base.errors import ExecutionError, InvalidValue, StreamAborted
from atops.device.exec.block_scheduler import match
from atops.runtime.commands.launch import Rendezvous
from atops.runtime.cooperative_launch import launch_together
from atops.runtime.device import Device
from tests.runtime.boards import PATIENCE, Latch, board, works
from tests.runtime.latch import StreamLatch


@k.cooperative
async def meet() -> None:
    """Meet the blocks of all grids."""
    await k.syncblocks()


@k.kernel
async def occupy() -> None:
    """Hold a cluster until signal 0 is set."""
    await k.signal_wait(0, 1, "Eq")


def streams(devices: list[Device], priority: int = 0) -> list[Any]:
    """Return a stream of each device."""
    return [each.create_stream(nonblocking=True, priority=priority) for each in devices]


def gang(ways: list[Any], blocks: int) -> list[Any]:
    """Launch grids of so many blocks that start together."""
    return launch_together([(way, meet, (blocks, 1)) for way in ways], cooperative=True)


@pytest.mark.parametrize("urgent", [0, -2])
@pytest.mark.parametrize("devices", [1, 2])
def test_two_that_wait_start_one_after_the_other(devices: int, urgent: int) -> None:
    """While one device is busy, two launches over all clusters wait; neither holds what the other needs."""
    with board(devices=2) as driver:
        boards = [Device(each % devices, driver) for each in range(2)]
        busy = boards[0].create_stream(nonblocking=True)
        clusters = boards[0].context.arch.clusters
        held = busy.launch(occupy, (1, 1))
        StreamLatch(boards[0]).passed_sync(held)
        blocks = clusters // (3 - devices)
        items = gang(streams(boards), blocks) + gang(streams(boards, urgent), blocks)
        beside = Device(1, driver).create_stream(nonblocking=True)
        assert not any(item.over for item in items)
        boards[0].context.chip.signals.set(0, 1)
        for item in (held, *items, beside.launch(meet, (1, 1))):
            item.wait_sync(PATIENCE)
        assert works(driver)


def test_members_with_other_priorities_have_one_order() -> None:
    """One launch is urgent on one device, another on the other: each counts as urgent as its most urgent member."""

    async def main() -> None:
        first, second = atops.Device(0), atops.Device(1)
        busy = [each.create_stream(nonblocking=True) for each in (first, second)]
        clusters = first.context.arch.clusters
        held = [each.launch(occupy, (clusters, 1)) for each in busy]
        ways = [[first.create_stream(priority=p), second.create_stream(priority=-2 - p)] for p in (-2, 0)]
        items = [item for way in ways for item in gang(way, clusters)]
        for each in (first, second):
            each.context.chip.signals.set(0, 1)
        for item in (*held, *items):
            await item

    atops.run(main, EmulatorOptions(devices=2, seed=1))


@pytest.mark.slow
def test_racing_threads_do_not_block_each_other(tiny_switch_interval: None) -> None:
    """Two threads launch over the same devices, in other orders, again and again: every launch ends."""
    with board(devices=2) as driver:
        boards, failed = [Device(0, driver), Device(1, driver)], list[BaseException]()
        clusters = boards[0].context.arch.clusters

        def racing(order: list[Device]) -> None:
            try:
                ways = streams(order)
                for _ in range(60):
                    for item in gang(ways, clusters):
                        item.wait_sync(PATIENCE)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=racing, args=(order,)) for order in (boards, boards[::-1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * PATIENCE)
        assert not failed


@pytest.mark.parametrize("which", [0, 1])
def test_one_that_is_aborted_while_it_waits_takes_the_others_along(which: int) -> None:
    """None of them has begun, so none deadlocks: the others cannot start, and what comes after them runs."""
    with board(devices=2) as driver:
        boards = [Device(0, driver), Device(1, driver)]
        held = boards[0].create_stream(nonblocking=True).launch(occupy, (1, 1))
        StreamLatch(boards[0]).passed_sync(held)
        ways = streams(boards)
        items = gang(ways, boards[0].context.arch.clusters)
        ways[which].abort()
        with pytest.raises(StreamAborted):
            items[which].wait_sync(PATIENCE)
        with pytest.raises(ExecutionError) as failure:
            items[1 - which].wait_sync(PATIENCE)
        assert "deadlock" not in str(failure.value).lower()
        boards[0].context.chip.signals.set(0, 1)
        held.wait_sync(PATIENCE)
        for way in ways:
            way.clear_error()
        for item in gang(ways, 1):
            item.wait_sync(PATIENCE)
        assert works(driver)


def test_clusters_are_matched_exactly() -> None:
    """A grid that can use many clusters leaves the few to grids that need them; what cannot be is None."""
    assert match([(1, [0, 1]), (1, [0])]) == [[1], [0]]
    assert match([(2, [0, 1, 2]), (1, [0]), (1, [1, 3])]) == [[1, 2], [0], [3]]
    assert match([(2, [3, 1])]) == [[3, 1]]
    assert match([(1, [0]), (1, [0])]) is None
    assert match([]) == []


def test_grids_that_the_order_of_streams_keeps_apart() -> None:
    """A null stream and one that waits for it never run at once: refused at the call. A non-blocking one may."""
    with board(devices=2) as driver:
        boards = [Device(0, driver), Device(1, driver)]
        null, blocking = boards[0].null_stream, boards[0].create_stream(name="late")
        for pair in ((null, blocking), (blocking, null)):
            with pytest.raises(InvalidValue, match=r"null stream.*late.*could never meet"):
                launch_together([(each, meet, (1, 1)) for each in pair], cooperative=True)
        with pytest.raises(InvalidValue, match="in the same stream"):
            launch_together([(blocking, meet, (1, 1))] * 2, cooperative=True)
        apart = (null, boards[0].create_stream(nonblocking=True), boards[1].create_stream())
        for item in launch_together([(each, meet, (1, 1)) for each in apart], cooperative=True):
            item.wait_sync(PATIENCE)
        assert works(driver)


def test_ctrl_c_before_the_grids_are_enqueued(monkeypatch: pytest.MonkeyPatch) -> None:
    """No grid waits for another one that is then aborted: they hear of each other's end before one is enqueued."""

    def interrupt(meeting: Rendezvous, items: object) -> None:
        raise KeyboardInterrupt

    with board() as driver:
        device = Device(0, driver)
        first, second = streams([device, device])
        latch = Latch(device)
        latch.hold(second)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Rendezvous, "expect", interrupt)
            gang([first, second], 1)
        second.abort()
        first.sync(PATIENCE)
        for item in gang([first, second], 1):
            item.wait_sync(PATIENCE)
