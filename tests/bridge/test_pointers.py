"""Pointers and host operands, resolved to bytes; second names; the owner of an allocation."""

from __future__ import annotations

import numpy as np
import pytest

from atops.base.errors import AtopsError, InvalidType, InvalidValue, OutOfMemory
from atops.base.result_codes import Result
from atops.bridge import pointers as _pointers
from atops.bridge.pointers import (
    add_alias,
    address_of,
    alias_at,
    check_range,
    device_memory,
    disown,
    find_host,
    host_address,
    host_view,
    memory_from,
    operand,
    own,
    owned,
    remove_alias,
)
from atops.runtime.driver import board_of
from atops.runtime.memory.buffer import Buffer
from tests.runtime.boards import PATIENCE


@pytest.mark.parametrize("pointer", [0, None, -1, True, 1.0, "x", object(), np.zeros(1)])
def test_no_pointer(world, pointer):
    """Null, a negative number and other types are InvalidDevicePointer, which InvalidValue stands for elsewhere."""
    with pytest.raises(AtopsError) as caught:
        address_of(pointer)
    assert caught.value.code is Result.InvalidDevicePointer


def test_device_pointers(world):
    """An int inside a live allocation of any device is found, with its offset; a numpy int and a Buffer too."""
    for device in (world.device, world.second):
        buffer = device.allocate(1000)
        world.keep.append(buffer)
        found = device_memory(buffer.address + 10, 990)
        assert (found.allocation, found.offset, found.nbytes) == (buffer.allocation, 10, 990)
        assert found.driver is world.driver
        for pointer in (np.uint64(buffer.address), buffer):
            assert device_memory(pointer, 5).address == buffer.address


def test_ranges_that_leave_an_allocation(world):
    """H6: one byte too many is InvalidValue, and so is any access to an allocation of size zero."""
    buffer, empty = world.device.allocate(1000), world.device.allocate(0)
    start = buffer.address
    for pointer, nbytes in ((start, 1001), (start + 999, 2), (empty.address, 1), (start, -1)):
        with pytest.raises(InvalidValue):
            device_memory(pointer, nbytes)
    assert device_memory(empty.address, 0).nbytes == 0


def test_dead_and_unknown_pointers(world):
    """A freed pointer, one past the end and one between devices are no memory; the message says what was there."""
    buffer = world.device.allocate(1000)
    address = buffer.address
    for pointer in (address + 1000, address + (40 << 30), 1 << 20, (1 << 40) + 5):
        with pytest.raises(AtopsError) as caught:
            device_memory(pointer, 1)
        assert caught.value.code is Result.InvalidDevicePointer
    buffer.close()
    with pytest.raises(AtopsError, match="freed by"):
        device_memory(address, 1)


def test_a_pointer_may_have_to_lie_on_one_device(world):
    """Memory of another device is refused where one is named; host memory is on all."""
    buffer, host = world.second.allocate(8), world.device.host_malloc(8)
    assert device_memory(buffer.address, 8, device=1).device_id == 1
    assert device_memory(host.address, 8, device=1).device is None
    with pytest.raises(AtopsError, match=r"must lie on device 0, got 0x.* of device 1"):
        device_memory(buffer.address, 8, "dst", device=0)


def test_host_pointers(world):
    """Pinned memory is found by its host and by its device address, interior ones included."""
    host = world.device.host_malloc(64)
    for pointer in (host.host_address + 4, host.address + 4):
        found = operand(pointer, 60, "src")
        assert isinstance(found, Buffer)
        assert (found.allocation, found.offset, found.nbytes) == (host.allocation, 4, 60)
    assert find_host(host.host_address + 63) == (host.allocation, 63)
    assert host_address(host.array) == host.host_address
    view = host_view(host.host_address + 32, 32).view("int32")
    view[:] = 7
    assert (host.array[32:].view("int32") == 7).all()
    for pointer, nbytes in ((host.host_address, 65), (host.host_address + 64, 1)):
        with pytest.raises(AtopsError):
            host_view(pointer, nbytes)
    for bad in (0, 12345, -1, np.zeros(3), bytearray(4)):
        with pytest.raises(InvalidValue):
            find_host(bad)
    for bad in (None, "x", 1.0, True, np.float32(1), b"read-only", [1]):
        with pytest.raises(InvalidType):
            find_host(bad)


def test_registered_memory_is_found_by_its_array(world):
    """A registered array is found by itself and by its address, until it is unregistered."""
    array = np.zeros(16, "int32")
    registered = world.device.register(array)
    assert find_host(array) == find_host(host_address(array)) == (registered.allocation, 0)
    assert host_address(bytearray(4)) > 0
    registered.close()
    with pytest.raises(InvalidValue, match="in no pinned or registered memory"):
        find_host(array)


def test_managed_memory_has_one_pointer(world):
    """Managed memory is found by its one address."""
    managed = world.device.malloc_managed(64)
    assert managed.host_address == managed.address
    assert operand(managed.address, 64, "dst").allocation is device_memory(managed.address, 1).allocation


def test_host_operands(world):
    """Arrays and buffers give as many bytes as are asked for; too short, read-only and other types do not."""
    array = np.arange(4, dtype="int32")
    assert operand(array, 8, "src") == array.tobytes()[:8]
    assert operand(np.float32(1), 4, "src") == np.float32(1).tobytes()
    assert operand(b"abcd", 3, "src") == b"abc"
    assert operand(bytearray(b"abcd"), 4, "dst", writable=True) == b"abcd"
    buffer = world.device.allocate(16)
    assert operand(buffer, 16, "dst") is buffer
    assert operand(buffer, 4, "dst").nbytes == 4
    for wrong in (lambda: operand(array, 17, "src"), lambda: operand(buffer, 17, "dst")):
        with pytest.raises(InvalidValue):
            wrong()
    with pytest.raises(InvalidValue, match="dst must be a writable buffer, got a read-only one"):
        operand(b"abcd", 4, "dst", writable=True)
    for wrong in (lambda: operand("text", 1, "src"), lambda: operand(array[::2], 8, "src")):
        with pytest.raises(InvalidType):
            wrong()
    for null in (None, 0):
        with pytest.raises(AtopsError, match="src is null"):
            operand(null, 1, "src")


def test_owning(world):
    """An owned buffer stays without a reference, is given up to one caller, and then can be freed."""
    address = own(world.device.allocate(64)).address
    allocation = device_memory(address, 64).allocation
    assert owned(allocation).address == address
    buffer = disown(allocation)
    assert disown(allocation) is owned(allocation) is None
    buffer.close()
    assert not allocation.alive


def test_owners_of_a_reset_device_go(world, monkeypatch):
    """What a reset has ended is not kept for ever."""
    monkeypatch.setattr(_pointers, "OWNED", {})
    monkeypatch.setattr(_pointers, "SWEEP", [4])
    monkeypatch.setattr(_pointers, "KEPT", 4)
    for _ in range(4):
        own(world.device.allocate(8))
    world.device.reset_sync()
    kept = own(world.device.allocate(8))
    assert list(_pointers.OWNED) == [kept.allocation.serial]


def test_aliases(world):
    """A second name resolves to other bytes, whole and in part, until it is taken away; it lies in no memory."""
    device = world.device
    buffer = world.second.allocate(1024)

    def resolve(offset, nbytes):
        return Buffer(buffer.allocation, check_range(buffer.allocation, offset + 256, nbytes, "test"), nbytes)

    alias = add_alias(device.context, 512, resolve, "test")
    assert alias.address >> 36 == 1
    assert alias_at(board_of(world.driver), alias.address + 511) is alias
    assert alias_at(board_of(world.driver), alias.address + 512) is None
    stream = device.create_stream()
    stream.copy(operand(alias.address + 4, 4, "dst"), b"abcd").wait_sync(PATIENCE)
    assert stream.fetch(buffer.view()).wait_sync(PATIENCE)[260:264].tobytes() == b"abcd"
    assert device_memory(alias.address, 16).device_id == 1
    with pytest.raises(InvalidValue):
        device_memory(alias.address, 1024)
    assert [remove_alias(board_of(world.driver), alias) for _ in range(2)] == [True, False]
    with pytest.raises(AtopsError):
        device_memory(alias.address, 1)


def test_aliases_are_distinct_and_end(world):
    """Aliases of size zero differ; there is an end to addresses; a reset forgets all names."""
    context = world.device.context
    first, second = (add_alias(context, 0, lambda offset, nbytes: None, None) for _ in range(2))
    assert first.address != second.address
    assert alias_at(board_of(world.driver), first.address) is first
    with pytest.raises(OutOfMemory, match="addresses left for second names"):
        add_alias(context, 1 << 40, lambda offset, nbytes: None, None)
    world.device.reset_sync()
    assert alias_at(board_of(world.driver), first.address) is None
    assert not remove_alias(board_of(world.driver), first)


def test_memory_from_a_pointer_to_the_end(world):
    """A pointer into an allocation, a second name or pinned memory reaches to the end of each, and no further."""
    buffer = world.device.allocate(1024)
    found = memory_from(buffer.address + 24)
    assert (found.address, found.nbytes) == (buffer.address + 24, 1000)
    alias = add_alias(world.device.context, 512, lambda offset, size: buffer[offset + 256 : offset + 256 + size], None)
    found = memory_from(alias.address + 12)
    assert (found.address, found.nbytes) == (buffer.address + 268, 500)
    pinned = world.device.host_malloc(64)
    found = memory_from(host_address(pinned.array) + 4)
    assert (found.device_id, found.nbytes) == (None, 60)
    for pointer in (0, 12345, buffer.address + 1024):
        with pytest.raises(AtopsError):
            memory_from(pointer)
