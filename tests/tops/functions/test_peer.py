"""Peer access (TOPS Runtime API, 2.7)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import atops.tops as tops
from atops.base.options import EmulatorOptions
from atops.base.result_codes import Result
from atops.base.trace.records import Kind
from atops.bridge.pointers import device_memory, own
from atops.runtime.board.current_device import enter, leave
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.tops.header.functions import FUNCTIONS
from tests.runtime.boards import Latch, add_one
from tests.tops.conformance import Case, Conformance, World

SIZE = 4096
ESL, P2P, AUTO, LOCAL = (
    tops.topsTopologyMapTypeEsl, tops.topsTopologyMapTypeP2P, tops.topsTopologyMapTypeAuto,
    tops.topsTopologyMapTypeLocal,
)  # fmt: skip
COPIES = {
    "topsMemcpyPeer": (), "topsMemcpyPeerAsync": (None,), "topsMemcpyPeerExt": (AUTO, -1),
    "topsMemcpyPeerExtAsync": (ESL, 1, None),
}  # fmt: skip
INVALID = tops.topsErrorInvalidValue


def pointer(device: Device, size: int = SIZE) -> int:
    """Return C-style memory of a device."""
    return own(device.allocate(size)).address


def copy(world: World, *more: object, **changed: object) -> tuple:
    """Return the arguments of a copy from device 0 to device 1, some of them changed."""
    named = {"dst": pointer(world.second), "to": 1, "src": pointer(world.device), "by": 0, "size": SIZE, **changed}
    return (*named.values(), *more)


def region(world: World) -> tuple:
    """Return the arguments that name a region of device 1."""
    return 1, pointer(world.second) + 256, 512


def named_region(world: World) -> tuple:
    """Name a region, and return what named it."""
    arguments = region(world)
    tops.check(tops.topsDeviceEnablePeerAccessRegion(*arguments))
    return arguments


def poisoned(world: World) -> int:
    """Return memory of device 1 that was freed."""
    buffer = world.second.allocate(SIZE * 64)
    address = buffer.address + SIZE * 32  # what is allocated next lies before it
    buffer.close()
    return address


class TestPeer(Conformance):
    """Every function of 2.7 by its rows."""

    functions = tuple(name for name, each in FUNCTIONS.items() if each.family == "PeerToPeer")
    good: ClassVar = {
        "topsDeviceCanAccessPeer": (0, 1),
        "topsDeviceEnablePeerAccess": (1, 0),
        "topsDeviceEnablePeerAccessRegion": region,
        "topsDeviceDisablePeerAccessRegion": named_region,
        **{name: (lambda w, more=more: copy(w, *more)) for name, more in COPIES.items()},
    }
    bad = (
        Case("topsDeviceCanAccessPeer", "K21 device -1", (-1, 0), INVALID),
        Case("topsDeviceCanAccessPeer", "K21 peer 2 of 2", (0, 2), INVALID),
        Case("topsDeviceEnablePeerAccess", "K22 device -1", (-1, 0), INVALID),
        Case("topsDeviceEnablePeerAccess", "K22 device 2 of 2", (2, 0), INVALID),
        Case("topsDeviceEnablePeerAccess", "K22 flags -1", (1, -1), INVALID),
        Case("topsDeviceEnablePeerAccess", "flags 1", (1, 1), INVALID),
        Case("topsDeviceEnablePeerAccess", "K22 itself", (0, 0), INVALID),
        Case("topsDeviceEnablePeerAccess", "K22 twice",
             lambda w: tops.check(tops.topsDeviceEnablePeerAccess(1, 0)) or (1, 0),
             tops.topsErrorPeerAccessAlreadyEnabled),
        Case("topsDeviceEnablePeerAccessRegion", "itself", lambda w: (0, pointer(w.device), SIZE), INVALID),
        Case("topsDeviceEnablePeerAccessRegion", "another device", lambda w: (1, pointer(w.device), SIZE), INVALID),
        Case("topsDeviceEnablePeerAccessRegion", "size 0", lambda w: (1, pointer(w.second), 0), INVALID),
        Case("topsDeviceEnablePeerAccessRegion", "too large", lambda w: (1, pointer(w.second), SIZE + 1), INVALID),
        Case("topsDeviceEnablePeerAccessRegion", "freed", lambda w: (1, poisoned(w), 1), INVALID),
        Case("topsDeviceEnablePeerAccessRegion", "device 2", lambda w: (2, pointer(w.second), 1), INVALID),
        Case("topsDeviceEnablePeerAccessRegion", "twice", named_region, tops.topsErrorPeerAccessAlreadyEnabled),
        Case("topsDeviceDisablePeerAccessRegion", "never enabled", region, INVALID),
        Case("topsDeviceDisablePeerAccessRegion", "another size",
             lambda w: (*named_region(w)[:2], 511), INVALID),
        Case("topsDeviceDisablePeerAccessRegion", "itself", lambda w: (0, pointer(w.device), SIZE), INVALID),
        *(Case(name, what, lambda w, more=more, changed=changed: copy(w, *more, **changed(w)), INVALID)
          for name, more in COPIES.items() for what, changed in {
              "dst on another device": lambda w: {"to": 0},
              "src on another device": lambda w: {"by": 1},
              "dstDevice 2 of 2": lambda w: {"to": 2},
              "srcDevice -1": lambda w: {"by": -1},
              "one byte too many": lambda w: {"size": SIZE + 1},
              "a negative size": lambda w: {"size": -1},
              "freed dst": lambda w: {"dst": poisoned(w)},
          }.items()),
        *(Case(name, what, lambda w, more=more, rest=COPIES[name][2:]: copy(w, *more, *rest), INVALID)
          for name in ("topsMemcpyPeerExt", "topsMemcpyPeerExtAsync") for what, more in {
              "no such port": (ESL, 4), "no port at all": (ESL, 0), "Local between devices": (LOCAL, -1),
              "clusters are no devices": (tops.topsTopologyMapTypeClsAsDev, -1), "no such kind": (5, -1),
              "port -2": (AUTO, -2),
          }.items()),
        *(Case(name, "a dead stream", lambda w, more=more[:-1]: copy(w, *more, 1 << 50), tops.topsErrorInvalidHandle)
          for name, more in COPIES.items() if name.endswith("Async")),
    )  # fmt: skip
    unreachable: ClassVar = {
        (name, code): reason
        for name in COPIES
        for code, reason in (
            (Result.MemoryFree, "memory that was freed is a wrong argument, as everywhere"),
            (Result.Unknown, "every failure of a copy has a name"),
        )
    }


@pytest.fixture
def four():
    """A board of four gcu210 devices, which have no ESL, two of them to a switch with no way between the switches."""
    driver = Driver(EmulatorOptions(devices=4, arch="gcu210", trace=64))
    board_of(driver).topology = type(driver.topology)(4, switch=2, across_roots=False)
    enter(driver, board_of(driver))
    yield driver
    leave(driver)
    driver.close()


def test_k21_access_words(world):
    """K21: to itself 0; on a ring of two both ports lead to the other, under one switch."""
    assert tops.topsDeviceCanAccessPeer(0, 0) == (0, 0)
    assert tops.topsDeviceCanAccessPeer(0, 1) == (0, 0x103)


def test_without_a_link(four):
    """Only EnablePeerAccess, regions and explicit routes refuse; a plain copy goes through the host, in two steps."""
    ends = [pointer(Device(each, four)) for each in (0, 2)]
    assert tops.topsDeviceCanAccessPeer(0, 2) == (0, 0)
    assert tops.topsDeviceEnablePeerAccess(2, 0) == (INVALID,)
    assert tops.topsDeviceEnablePeerAccessRegion(2, ends[1], SIZE) == (INVALID, None)
    assert tops.topsMemcpyPeerExt(ends[1], 2, ends[0], 0, SIZE, P2P, -1) == (INVALID,)
    stream = Device(0, four).create_stream()
    stream.fill(device_memory(ends[0], SIZE), 7).wait_sync()
    for map_ in (None, AUTO):
        stream.fill(device_memory(ends[1], SIZE), 0).wait_sync()
        if map_ is None:
            assert tops.topsMemcpyPeer(ends[1], 2, ends[0], 0, SIZE) == (0,)
        else:
            assert tops.topsMemcpyPeerExt(ends[1], 2, ends[0], 0, SIZE, map_, -1) == (0,)
        assert (stream.fetch(device_memory(ends[1], SIZE)).wait_sync() == 7).all()
    kinds = [record.kind for record in four.tracer.snapshot().records]
    assert kinds.count(Kind.COPY_D2H) >= 2 and kinds.count(Kind.COPY_H2D) == 2 and Kind.COPY_PEER not in kinds


def test_a_linked_copy_is_one_step(world):
    """With a link the copy is one peer copy, over either port or PCIe."""
    for map_, port in ((AUTO, -1), (ESL, 1), (ESL, 2), (P2P, 0)):
        assert tops.topsMemcpyPeerExt(*copy(world), map_, port) == (0,)
    assert tops.topsMemcpyPeer(*copy(world)) == (0,)
    kinds = [record.kind for record in world.driver.tracer.snapshot().records]
    assert kinds.count(Kind.COPY_PEER) == 5 and Kind.COPY_D2H not in kinds


def test_one_device_is_its_own_local_link(world):
    """A copy inside one device goes Local; an overlap is InvalidValue."""
    p = pointer(world.device)
    assert tops.topsMemcpyPeerExt(p, 0, p + 2048, 0, 2048, LOCAL, -1) == (0,)
    assert tops.topsMemcpyPeer(p, 0, p + 1024, 0, 2048) == (INVALID,)


def test_h20_async_is_not_ready_until_it_ran(world):
    """H20: behind a wait the copy is not done; afterwards the bytes are there."""
    latch, stream = Latch(world.device), world.device.create_stream(nonblocking=True)
    arguments = copy(world)
    stream.fill(device_memory(arguments[2], SIZE), 9)
    latch.hold(stream)
    assert tops.topsMemcpyPeerAsync(*arguments, stream) == (0,)
    world.let_run()
    target = device_memory(arguments[0], SIZE)
    assert not stream.is_done and target.allocation.view[target.offset] == 0
    latch.open()
    stream.sync()
    assert (stream.fetch(device_memory(arguments[0], SIZE)).wait_sync() == 9).all()


def test_a_region_is_a_name_for_the_peers_bytes(world):
    """The address is of the current device and reaches just the region, for copies and kernels, until disabled."""
    arguments = region(world)
    (_, address, size), stream = arguments, world.device.create_stream()
    name = tops.check(tops.topsDeviceEnablePeerAccessRegion(*arguments))
    assert name >> 36 == pointer(world.device) >> 36 != address >> 36
    stream.fill(device_memory(address, size), 3).wait_sync()
    assert (stream.fetch(device_memory(name, size)).wait_sync() == 3).all()
    stream.launch(add_one, (2, 12), device_memory(name, size).view(np.uint8)).wait_sync()
    assert (stream.fetch(device_memory(address, size)).wait_sync() == 4).all()
    for bad in (name + size, name + 1):
        with pytest.raises(Exception, match=r"not inside|in no live"):
            device_memory(bad, size)
    assert tops.topsDeviceDisablePeerAccessRegion(*arguments) == (0,)
    with pytest.raises(Exception, match="in no live"):
        device_memory(name, 1)
    assert tops.topsDeviceDisablePeerAccessRegion(*arguments) == (INVALID,)
    with pytest.raises(Exception, match="enable peer access"):
        stream.launch(add_one, (2, 12), device_memory(address, size).view(np.uint8)).wait_sync()


def test_a_region_of_freed_memory(world):
    """When the peer frees the memory, the region's address is no memory any more; it can still be disabled."""
    buffer = world.second.allocate(SIZE)
    name = tops.check(tops.topsDeviceEnablePeerAccessRegion(1, buffer.address, SIZE))
    address = buffer.address
    buffer.close()
    assert tops.topsMemcpyPeer(name, 1, name, 1, 8) == (INVALID,)
    assert tops.topsDeviceDisablePeerAccessRegion(1, address, SIZE) == (0,)


def test_k22_access_ends_with_the_reset(world):
    """A reset of the current device takes peer access and regions away; both can be had again."""
    arguments = named_region(world)
    assert tops.topsDeviceEnablePeerAccess(1, 0) == (0,)
    assert tops.topsDeviceReset() == (0,)
    assert tops.topsDeviceDisablePeerAccessRegion(*arguments) == (INVALID,)
    assert tops.topsDeviceEnablePeerAccess(1, 0) == (0,)
    assert tops.topsDeviceEnablePeerAccessRegion(*arguments)[0] == 0


def test_port_is_a_mask(world):
    """Each port that the access word names can be chosen by its bit, `1 << port`; a port's number is no mask."""
    ports = tops.check(tops.topsDeviceCanAccessPeer(0, 1)) & 0xFF
    for bit in range(8):
        there = ports >> bit & 1
        assert tops.topsMemcpyPeerExt(*copy(world), ESL, 1 << bit) == (0 if there else INVALID,)
    assert tops.topsMemcpyPeerExt(*copy(world), ESL, 0) == (INVALID,)
