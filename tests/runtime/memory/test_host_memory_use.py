"""Host memory that devices reach: pinned, registered and managed, in every verb, on every device."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import (
    IllegalAddress,
    InvalidHandle,
    InvalidType,
    InvalidValue,
    LaunchFailure,
    NotInitialized,
)
from atops.base.result_codes import Result
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.runtime.memory.host_array import HostArray
from tests.runtime.boards import PATIENCE, Latch, add_one, board, device, leftovers, settle

SIZE = 48

Make = Callable[[Device], HostArray]


def pinned(device: Device) -> HostArray:
    """Make pinned memory."""
    return device.host_malloc(SIZE, "int32")


def managed(device: Device) -> HostArray:
    """Make managed memory."""
    return device.malloc_managed(SIZE, "int32")


def registered(device: Device) -> HostArray:
    """Register an array of the program's."""
    return device.register(np.zeros(SIZE, np.int32))


KINDS = pytest.mark.parametrize("make", [pinned, registered, managed])
DEVICES = pytest.mark.parametrize("ordinal", [0, 1, 2])


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A board of three devices, on which nothing may be left."""
    with board(devices=3) as made:
        yield made
        assert leftovers(made) == {}


@k.kernel
async def through_dte(y: Any, x: Any) -> None:
    """Move x to y through L1, in tiles, by asynchronous transfers."""
    buffer = k.local(8, x.dtype)
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, 8):
            tile = buffer[: part.stop - part.start]
            await k.memcpy_async(dte, tile, x[part])
            tile += 100
            await k.memcpy_async(dte, y[part], tile)


@k.kernel
def element_by_element(y: Any, x: Any) -> None:
    """Store x + 7 in y, by plain loads and stores."""
    for index in range(k.thread_id(), x.size, k.thread_count()):
        y[index] = x[index] + 7


@KINDS
@DEVICES
def test_every_verb(driver: Driver, make: Make, ordinal: int) -> None:
    """Copies both ways, fills, value writes and waits, kernels with and without DTE: the host sees each result."""
    host = make(Device(0, driver))
    with_device = Device(ordinal, driver)
    stream = with_device.create_stream()
    host.array[:] = np.arange(SIZE)
    array = stream.empty_like(host)
    stream.copy(array, host)
    assert (stream.fetch(array).wait_sync(PATIENCE) == np.arange(SIZE)).all()
    assert (stream.fetch(host).wait_sync(PATIENCE) == np.arange(SIZE)).all()
    stream.fill(array, 5)
    stream.copy(host, array)
    stream.sync(PATIENCE)
    assert (host.array == 5).all()
    stream.fill(host[: SIZE // 2], 9)
    stream.write_value(host[SIZE - 1 : SIZE], 1234)
    stream.wait_value(host[SIZE - 1 : SIZE], 1234, "Eq")
    stream.sync(PATIENCE)
    assert host.array.tolist() == [9] * (SIZE // 2) + [5] * (SIZE // 2 - 1) + [1234]
    host.array[:] = np.arange(SIZE)
    stream.launch(through_dte, (2, 12), array, host)
    stream.launch(element_by_element, (2, 12), host, array)
    stream.launch(add_one, (2, 12), host)
    stream.sync(PATIENCE)
    assert (host.array == np.arange(SIZE) + 108).all()
    stream.launch(through_dte, (1, 12), host, host)
    stream.sync(PATIENCE)
    assert (host.array == np.arange(SIZE) + 208).all()
    host.close()
    stream.close()


@KINDS
def test_host_stores_end_value_waits(driver: Driver, make: Make) -> None:
    """A store that no command made is found, on whichever device the stream waits."""
    host = make(Device(1, driver))
    streams = [Device(ordinal, driver).create_stream() for ordinal in range(3)]
    waits = [stream.wait_value(host[number : number + 1], 77, "Eq") for number, stream in enumerate(streams)]
    for wait, index in zip(reversed(waits), (2, 1, 0), strict=True):
        assert not wait.done()
        host.array[index] = 77
        wait.wait_sync(PATIENCE)
    assert len(board_of(driver).poller) <= 3
    host.close()


@KINDS
def test_all_devices_share_it(driver: Driver, make: Make) -> None:
    """Each device's kernel adds to what the one before has left, ordered by events alone."""
    host = make(Device(0, driver))
    host.array[:] = 0
    before = None
    for turn in range(9):
        stream = Device(turn % 3, driver).create_stream()
        if before is not None:
            stream.wait(before)
        stream.launch(add_one, (2, 12), host)
        before = stream.record()
        stream.close()
    assert before is not None
    before.sync(PATIENCE)
    assert (host.array == 9).all()
    host.close()


def test_addresses(driver: Driver) -> None:
    """Managed memory has one address for both sides, the others have two; a device address leads back to the bytes."""
    device = Device(2, driver)
    arrays = [make(device) for make in (pinned, registered, managed)]
    assert [array.address == array.host_address for array in arrays] == [False, False, True]
    assert len({array.address for array in arrays}) == 3
    for array in arrays:
        assert array.host_address == array.array.ctypes.data
        array.array[:] = np.arange(SIZE)
        buffer = Device(0, driver).buffer_at(array.address + 40, 8)
        assert bytes(buffer.allocation.view[40:48]) == np.array([10, 11], np.int32).tobytes()
        with pytest.raises(IllegalAddress):
            Device(0, driver).buffer_at(array.address + 4 * SIZE - 4, 8)
        array.close()
    settle(driver)
    for array in arrays:
        with pytest.raises(IllegalAddress):
            device.buffer_at(array.address, 4)


@KINDS
def test_closing_waits_for_the_work(driver: Driver, make: Make) -> None:
    """Memory that is closed behind enqueued work stays until that is over, on every device; then it is gone."""
    device, other = Device(0, driver), Device(1, driver)
    latch = Latch(other)
    host, stream = make(device), other.create_stream()
    latch.hold(stream)
    array = stream.empty_like(host)
    stream.copy(array, host)
    stream.launch(add_one, (2, 12), host)
    copied = stream.fetch(host)
    host.close()
    host.close()
    assert host.is_live
    latch.open()
    assert (copied.wait_sync(PATIENCE) == 1).all()
    settle(driver)
    assert not host.is_live
    for use in (
        lambda: stream.copy(array, host),
        lambda: stream.fill(host, 0),
        lambda: stream.fetch(host),
        lambda: stream.wait_value(host, 0),
    ):
        with pytest.raises(IllegalAddress, match="freed"):
            use()
    with pytest.raises((IllegalAddress, InvalidHandle)):
        stream.launch(add_one, (2, 12), host).wait_sync(PATIENCE)
    stream.clear_error()
    stream.close()
    latch.close()


@pytest.mark.parametrize(
    "value",
    [np.zeros((4, 6), "float64"), np.zeros(24, "int16"), bytearray(100), memoryview(bytearray(64))],
    ids=["matrix", "array", "bytearray", "memoryview"],
)
def test_what_can_be_registered(driver: Driver, value: Any) -> None:
    """Arrays of any shape and writable buffers; the bytes are the program's own before, while and after."""
    device = Device(1, driver)
    host = device.register(value)
    stream = device.create_stream()
    stream.fill(host.view(np.uint8), 3)
    stream.sync(PATIENCE)
    assert bytes(memoryview(value).cast("B")) == b"\x03" * memoryview(value).nbytes
    if isinstance(value, np.ndarray):
        assert (host.shape, host.dtype) == (value.shape, value.dtype)
        assert host.array is value
    host.close()
    settle(driver)
    memoryview(value).cast("B")[0:1] = b"\x04"
    device.register(value).close()  # and again
    stream.close()


def test_what_cannot_be_registered(driver: Driver) -> None:
    """Read-only, empty, scattered, overlapping and foreign things are refused with the reason."""
    device = Device(0, driver)
    frozen = np.zeros(5)
    frozen.flags.writeable = False
    for value, error, why in (
        (frozen, InvalidValue, "read-only"),
        (b"bytes", InvalidValue, "read-only"),
        (np.zeros(0), InvalidValue, "empty"),
        (np.zeros((8, 8))[:, ::2], (InvalidValue, InvalidType), "contiguous"),
        (np.array([object()]), (InvalidType, InvalidValue), "Python objects"),
        ([1, 2, 3], InvalidType, "list"),
        (None, InvalidType, "NoneType"),
        (17, InvalidType, "int"),
    ):
        with pytest.raises(error, match=why):
            device.register(value)
    array = np.zeros(100)
    host = device.register(array)
    for part in (array, array[10:20], array[50:]):
        with pytest.raises(InvalidValue, match="once") as twice:
            Device(1, driver).register(part)
        assert twice.value.code == Result.HostMemoryAlreadyRegistered
    host.close()


@pytest.mark.slow
def test_registered_memory_stays_alive(driver: Driver) -> None:
    """The buffer is kept as long as it is registered, however the program forgets it."""
    device = Device(0, driver)

    class Owner(np.ndarray[Any, Any]):
        """An array that can be watched."""

    array = np.zeros(SIZE, np.int32).view(Owner)
    watched = weakref.ref(array)
    stream = device.create_stream()
    host = device.register(array)
    del array
    gc.collect()
    assert watched() is not None
    stream.fill(host, 8)
    assert (stream.fetch(host).wait_sync(PATIENCE) == 8).all()
    stream.close()
    host.close()
    settle(driver)
    del host, stream
    gc.collect()
    assert watched() is None


@pytest.mark.slow
def test_it_is_given_back_by_the_collector(driver: Driver) -> None:
    """What the program forgets is freed, with nothing left of it."""
    for make in (pinned, registered, managed):
        make(Device(0, driver))
    gc.collect()
    settle(driver)
    assert leftovers(driver) == {}


@KINDS
def test_accesses_outside(driver: Driver, make: Make) -> None:
    """Out of bounds in a kernel faults naming the thread, in a verb at the call; neighbours are untouched."""

    @k.kernel
    def outside(x: Any) -> None:
        x[x.size] = 1

    device = Device(0, driver)
    host, stream = make(device), device.create_stream()
    with pytest.raises(LaunchFailure, match="outside"):
        stream.launch(outside, (1, 1), host).wait_sync(PATIENCE)
    stream.clear_error()
    for use in (
        lambda: stream.fill(host, 0, count=SIZE + 1),
        lambda: stream.copy(host, np.zeros(SIZE + 1, np.int32)),
        lambda: stream.copy(host, np.zeros(SIZE, np.int32), nbytes=4 * SIZE + 4),
        lambda: host[SIZE],
        lambda: host[-SIZE - 1],
    ):
        with pytest.raises(InvalidValue):
            use()
    host.close()
    stream.close()


@KINDS
def test_numpy_and_other_libraries_share_the_bytes(driver: Driver, make: Make) -> None:
    """Items are assigned and read as numpy's are, DLPack and buffers share the bytes, until the memory is freed."""
    host, stream = make(Device(0, driver)), Device(0, driver).create_stream()
    host[...] = 3
    host[1] = 5
    part = host.reshape(6, 8)[1:3]
    part[:, ::2] = np.arange(4)
    expected = np.full(SIZE, 3, np.int32)
    expected[1] = 5
    expected.reshape(6, 8)[1:3, ::2] = np.arange(4)
    assert (np.asarray(host) == expected).all() and (stream.fetch(host).wait_sync(PATIENCE) == expected).all()
    assert isinstance(part, HostArray) and (np.asarray(part) == expected.reshape(6, 8)[1:3]).all()
    assert host.view(np.uint8).array.nbytes == host.nbytes
    shared = np.from_dlpack(host)
    stream.fill(host, 7).wait_sync(PATIENCE)
    assert (shared == 7).all() and host.__dlpack_device__() == (1, 0)
    views = [host.__buffer__(0), *([memoryview(host)] if sys.version_info >= (3, 12) else [])]  # type: ignore[arg-type]
    for view in views:
        assert view.format == "i" and view.shape == (SIZE,)
        view[0] += 1
    assert host.array[0] == 7 + len(views)
    again = stream.upload(host)
    assert (stream.fetch(again).wait_sync(PATIENCE) == host.array).all()
    del shared, view, views
    host.close()
    stream.sync(PATIENCE)
    settle(driver)
    for use in (lambda: host.__setitem__(0, 1), lambda: np.from_dlpack(host), lambda: host.__buffer__(0)):
        with pytest.raises(InvalidHandle, match="freed"):
            use()
    stream.close()


def test_sizes(driver: Driver) -> None:
    """Zero bytes have an address and no contents; negative sizes and unknown types are refused."""
    device = Device(0, driver)
    empty = [device.host_malloc(0), device.malloc_managed(0)]
    assert len({array.address for array in empty}) == 2
    for array in empty:
        assert array.array.size == 0
        array.close()
    for wrong in (lambda: device.host_malloc(-1), lambda: device.malloc_managed((2, -3))):
        with pytest.raises(InvalidValue):
            wrong()
    big = device.host_malloc((1 << 20, 4), "float32")
    big.array[-1, -1] = 5
    stream = device.create_stream()
    copied = stream.empty_like(big)
    stream.copy(copied, big)
    assert stream.fetch(copied[(1 << 20) - 1]).wait_sync(PATIENCE).tolist() == [0, 0, 0, 5]
    big.close()
    stream.close()


@pytest.mark.slow
def test_after_the_drivers_end() -> None:
    """The numpy view outlives the driver; the devices reach it no more, and new requests are refused."""
    with board() as driver:
        device = Device(0, driver)
        host = device.host_malloc(SIZE, "int32")
        view = host.array
        view[:] = 6
        driver.close()
        for request in (lambda: device.host_malloc(5), lambda: device.register(np.zeros(5))):
            with pytest.raises(NotInitialized):
                request()
    host.close()
    del host
    gc.collect()
    assert (view == 6).all()


def test_an_array_in_another_order_is_refused() -> None:
    """Registered memory is read in C's order; in Fortran's it would come out scrambled, and its transpose does not."""
    with device() as here:
        values = np.asfortranarray(np.arange(12).reshape(3, 4))
        with pytest.raises(InvalidValue, match=r"Fortran's order.*transpose"):
            here.register(values)
        stream = here.create_stream()
        assert (stream.fetch(here.register(values.T)).wait_sync(PATIENCE) == values.T).all()
