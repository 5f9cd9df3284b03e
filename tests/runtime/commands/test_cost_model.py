"""How many virtual nanoseconds a command takes: the table, to the nanosecond, and what prefetching changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

import atops
from atops import tops
from atops.base.trace.records import Kind
from atops.device.topology import Link, LinkKind, Topology
from atops.errors import InvalidValue
from atops.runtime.commands.cost_model import Leg, legs_ns
from atops.runtime.driver import board_of
from tests.runtime.virtual_time import MOVE, ODD, RATES, UP, ceil, host, now, span, taken, virtual

LARGE = 12 << 20

# ---- how long


@pytest.mark.slow
@pytest.mark.parametrize("arch", RATES)
@pytest.mark.parametrize("size", [1, 64 << 10, ODD, LARGE])  # short ones, which carry themselves out else, and halves
def test_each_path_has_its_time(arch: str, size: int) -> None:
    """Over the host link, within the device and between devices, to the nanosecond; nothing less and nothing more."""
    rates = RATES[arch]

    async def main() -> None:
        one, two = atops.Device(0), atops.Device(1)
        stream, data = one.create_stream(), host(size)
        here, there, far = one.empty(size, np.uint8), one.empty(size, np.uint8), two.empty(size, np.uint8)
        back = np.zeros(size, np.uint8)
        pinned = one.host_malloc(size)
        expected = {
            stream.copy(here, data): ceil(size, rates.link),
            stream.copy(there, here): ceil(2 * size, rates.l3),
            stream.copy(far, there): ceil(size, rates.peer),
            stream.copy(pinned, far): ceil(size, rates.link),
            stream.copy(back, pinned): 0,  # the host's memory is no figure of the chip
            stream.fill(here, 7): ceil(size, rates.l3),
            stream.fill(far, 7): ceil(size, rates.l3),
            stream.fill(pinned, 7): ceil(size, rates.link),
        }
        await stream
        assert {item: taken(item) for item in expected} == expected
        assert now() == sum(expected.values())
        assert (back == data).all()
        assert (await stream.fetch(here) == 7).all()
        pinned.close()

    virtual(main, arch=arch)


def test_times_are_rounded_up_once() -> None:
    """A part of a nanosecond counts as one; parts of several legs are added first; nothing takes no time."""
    assert legs_ns((Leg(1, 10**9),)) == 1
    assert legs_ns((Leg(1, 10**9 + 1),)) == 1
    assert legs_ns((Leg(10**9, 10**9 - 1),)) == 10**9 + 2
    assert legs_ns((Leg(1, 3 * 10**9),) * 3) == 1
    assert legs_ns((Leg(1, 2 * 10**9), Leg(1, 3 * 10**9), Leg(1, 6 * 10**9 - 1))) == 2
    assert legs_ns(()) == legs_ns((Leg(0, 7),)) == 0


def test_nothing_takes_no_time() -> None:
    """A copy of no bytes is over when it begins, and so is what moves none: calls, records, allocations."""

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        array = stream.empty(24, np.int32)
        items = [stream.copy(array, np.zeros(24, np.int32), 0)]
        items += [stream.call(lambda: None), stream.write_value(array, 1)]
        await stream
        assert now() == 0
        assert {span(item) for item in items} == {(0, 0)}

    virtual(main)


def test_devices_without_a_link_take_both_links() -> None:
    """By way of the host, one half after the other: each has its record and its device's engine and link."""

    async def main() -> None:
        driver = atops.current_driver()
        board_of(driver).topology = Topology(2, switch=1, across_roots=False)
        one, two = atops.Device(0), atops.Device(1)
        stream, target = one.create_stream(), two.empty(ODD, np.uint8)
        source = stream.upload(host())
        copied = stream.copy(target, source)
        await copied
        halves = [each for each in driver.tracer.records() if each.seq == copied.seq]
        assert [(each.kind, each.finished_ns - each.started_ns) for each in halves] == [
            (Kind.COPY_D2H, UP),
            (Kind.COPY_H2D, UP),
        ]
        assert (await stream.fetch(target) == host()).all()

    virtual(main)


@pytest.mark.parametrize("kind", [LinkKind.LOCAL, LinkKind.PCIE, LinkKind.ESL])
def test_the_figures_are_the_architectures(kind: LinkKind) -> None:
    """What the board and the chip say is what is charged, and no number that is written down elsewhere."""

    async def main() -> None:
        one, two = atops.Device(0), atops.Device(1)
        if kind is LinkKind.PCIE:
            board_of(one.driver).topology = Topology(2, pcie_bandwidth=1000)
        elif kind is LinkKind.ESL:
            board_of(one.driver).topology = Topology(2, esl=True, esl_bandwidth=1000, pcie_bandwidth=999)
        else:
            one.context.arch = replace(one.arch, l3_bandwidth=2000)
        stream, source = one.create_stream(), one.empty(3, np.uint8)
        await stream.copy((one if kind is LinkKind.LOCAL else two).empty(3, np.uint8), source)
        assert now() == 3_000_000

    virtual(main)


def test_the_link_that_is_named_is_charged() -> None:
    """By C-style calls and by `link=`, of memory in one piece and of scatter memory; the trace names it."""
    size = 1 << 20

    async def main() -> None:
        one, two = atops.Device(0), atops.Device(1)
        board_of(one.driver).topology = Topology(2, esl=True, esl_bandwidth=2 << 20, pcie_bandwidth=1 << 20, switch=1)
        source, target = one.empty(size, np.uint8), two.empty(size, np.uint8)
        stream, auto = one.create_stream(), tops.topsTopologyMapTypeAuto
        esl, p2p = tops.topsTopologyMapTypeEsl, tops.topsTopologyMapTypeP2P
        ends = target.address, 1, source.address, 0, size
        for map_, port, seconds, name in (
            (esl, 1, 0.5, "ESL port 0"), (esl, 2, 0.5, "ESL port 1"), (esl, -1, 0.5, "ESL port 0"),
            (p2p, -1, 1, "P2P (PCIe)"), (auto, -1, 0.5, "ESL port 0"), (auto, 0, 1, "P2P (PCIe)"),
        ):  # fmt: skip
            link = one.driver.topology.route(0, 1, map_, port)
            started = now()
            assert await tops.aio.topsMemcpyPeerExt(*ends, map_, port) == (0,)
            assert tops.topsMemcpyPeerExtAsync(*ends, map_, port, stream) == (0,)
            await stream
            item = stream.copy(target, source, link=link)
            await item
            assert now() - started == 3 * seconds * 10**9 and taken(item) == seconds * 10**9
            copies = [each for each in one.driver.tracer.snapshot().records if each.kind == Kind.COPY_PEER][-3:]
            assert {each.name for each in copies} == {name} and len(copies) == 3
        for link in (Link(LinkKind.ESL, 3, 1), "ESL", Link(LinkKind.LOCAL, None, 1)):
            with pytest.raises(InvalidValue, match="ESL port 0, ESL port 1, P2P"):
                stream.copy(target, source, link=link)
        with pytest.raises(InvalidValue, match=r"from the host to device 1 .*none"):
            stream.copy(target, np.zeros(size, np.uint8), link=one.driver.topology.links(0, 1)[0])

    virtual(main, trace=1 << 10)


# ---- what is prefetched


def test_prefetched_bytes_are_read_at_the_rate_of_l2() -> None:
    """All, a part and none of a source: its bytes count one by one, wherever the entries lie, while they are there."""
    rates, size = RATES["gcu300"], 1 << 20

    def expected(entered: int) -> int:
        over_l3 = 2 * size - entered
        return -(-10**9 * (entered * rates.l3 + over_l3 * rates.l2) // (rates.l2 * rates.l3))

    async def main() -> None:
        device = atops.Device(0)
        stream, books = device.create_stream(), device.context.prefetched
        memory, target = device.allocate(2 * size), device.allocate(size)
        source = memory[size // 2 : size // 2 + size]

        async def copied() -> int:
            item = stream.copy(target, source)
            await item
            return taken(item)

        times = [await copied()]
        books.enter(memory[0 : size // 2 + 100_000])
        times.append(await copied())
        books.enter(memory[size : size + 30_001])
        times.append(await copied())
        books.drop(memory[0:1])
        times.append(await copied())
        books.drop(memory)
        times.append(await copied())
        books.enter(source)
        times.append(await copied())
        assert times == [expected(each) for each in (0, 100_000, 130_001, 30_001, 0, size)]
        assert times[5] < times[2] < times[1] < times[3] < times[0] == times[4]

    virtual(main)


def test_only_reads_within_the_device_gain() -> None:
    """What is written goes to L3, and over a link the link decides; another device's entries are another's."""

    async def main() -> None:
        one, two = atops.Device(0), atops.Device(1)
        stream, source, target = one.create_stream(), one.allocate(ODD), one.allocate(ODD)
        far = two.allocate(ODD)
        one.context.prefetched.enter(target)
        two.context.prefetched.enter(far)
        items = [stream.copy(target, source), stream.fill(target, 1), stream.copy(target, host()), stream.fetch(target)]
        items.append(stream.copy(source, far))
        await stream
        rates = RATES["gcu300"]
        assert [taken(each) for each in items] == [MOVE, ceil(ODD, rates.l3), UP, UP, ceil(ODD, rates.peer)]

    virtual(main)


def test_what_is_entered_when_a_copy_begins_counts() -> None:
    """Not what was entered when it was enqueued, nor what comes or goes while it moves."""

    async def main() -> None:
        device = atops.Device(0)
        stream, books = device.create_stream(), device.context.prefetched
        source, target = device.allocate(ODD), device.allocate(ODD)
        books.enter(source)
        first, second = stream.copy(target, source), stream.copy(target, source)
        books.drop(source)
        await asyncio.sleep(MOVE / 2e9)
        books.enter(source)
        await first
        books.drop(source)
        await second
        assert (taken(first), taken(second)) == (MOVE, MOVE)

    virtual(main)
