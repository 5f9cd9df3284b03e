"""Host memory that devices reach: one address or two, lookups by both, and what must not be registered."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from atops.base.errors import IllegalAddress, InvalidType, InvalidValue, NotInitialized, OutOfMemory
from atops.base.result_codes import Result
from atops.device.memory.allocation import Allocation, move
from atops.device.memory.device_memory import DeviceMemory
from atops.device.memory.host_memory import WINDOWS, AddressSpace, HostMemory, device_base
from tests.every import every

PAGE = mmap.PAGESIZE


@pytest.fixture
def host() -> Iterator[HostMemory]:
    """The host memory of one board."""
    host = HostMemory()
    yield host
    host.close()


def in_a_window(allocation: Allocation) -> bool:
    """Tell whether all device addresses of an allocation lie in one window for host memory."""
    return any(start <= allocation.address and allocation.address + allocation.size <= end for start, end in WINDOWS)


def test_windows_and_device_slots_share_the_40_bits():
    """Windows lie in even slots of 64 GiB, above the first 4 GiB and below 2**40; devices have the odd ones."""
    for start, end in WINDOWS:
        assert 4 << 30 <= start < end <= 1 << 40
        assert start >> 36 == (end - 1) >> 36
        assert (start >> 36) % 2 == 0
    assert len(WINDOWS) == 8


def test_pinned_memory_has_two_addresses(host: HostMemory):
    """It is zero, page-aligned on both sides, known by both addresses, and belongs to no device."""
    pinned = host.allocate(10_000, flags=4, label="staging")
    assert pinned.device is None
    assert (pinned.flags, pinned.label, pinned.host_visible, pinned.managed) == (4, "staging", True, False)
    assert pinned.address % PAGE == pinned.host_address % PAGE == 0
    assert in_a_window(pinned)
    assert pinned.address != pinned.host_address == pinned.data.ctypes.data
    assert not pinned.data.any()
    assert pinned.view.nbytes == pinned.data.size == 10_000
    for offset in (0, 9_999):
        assert host.find(pinned.address + offset) is pinned
        assert host.find_host(pinned.host_address + offset) is pinned
    for offset in (-1, 10_000):
        with pytest.raises(IllegalAddress):
            host.find(pinned.address + offset)
    pinned.view[9_999] = 1
    assert pinned.data[9_999] == 1


def test_managed_memory_has_one_address(host: HostMemory):
    """Its device address is its host address."""
    managed = host.managed(5_000)
    assert managed.managed and managed.host_visible
    assert managed.address == managed.host_address == managed.data.ctypes.data
    assert host.find(managed.address + 4_999) is host.find_host(managed.address + 4_999) is managed
    assert "managed memory" in repr(managed)


@pytest.mark.parametrize(
    "make",
    [
        lambda: bytearray(1000),
        lambda: array.array("i", range(250)),
        lambda: np.zeros((10, 25), np.float32),
        lambda: np.zeros((10, 25), np.float32, order="F"),
        lambda: np.zeros(500, ml_dtypes.bfloat16),
        lambda: memoryview(bytearray(1200))[100:1100],
        lambda: (ctypes.c_int32 * 250)(),
        lambda: mmap.mmap(-1, 1000),
    ],
    ids=["bytearray", "array", "2-d", "fortran", "bfloat16", "memoryview", "ctypes", "mmap"],
)
def test_any_writable_buffer_can_be_registered(host: HostMemory, make: object):
    """The allocation is the buffer's own bytes, at another address with the same offset in its page."""
    buffer = make()  # type: ignore[operator]
    registered = host.register(buffer)
    assert registered.size == 1000
    assert registered.address != registered.host_address
    assert registered.address % PAGE == registered.host_address % PAGE
    assert in_a_window(registered)
    registered.data[:] = [number % 256 for number in range(1000)]
    seen = buffer.tobytes("A") if isinstance(buffer, np.ndarray) else bytes(memoryview(buffer).cast("B"))
    assert seen == bytes(number % 256 for number in range(1000))
    host.unregister(registered)


def test_an_address_range_can_be_registered(host: HostMemory):
    """(address, size) stands for memory that the caller keeps."""
    numbers = np.arange(100, dtype=np.int32)
    registered = host.register((numbers.ctypes.data + 40, 80))
    assert registered.host_address == numbers.ctypes.data + 40
    registered.view[:4] = (77).to_bytes(4, "little")
    assert numbers[10] == 77
    for wrong in ((0, 10), (numbers.ctypes.data, 0), (-5, 10)):
        with pytest.raises(InvalidValue, match="positive"):
            host.register(wrong)


@every(
    "wrong, error",
    [
        (b"read-only", InvalidValue),
        (bytearray(), InvalidValue),
        (np.zeros((4, 0)), InvalidValue),
        (np.zeros(100)[::2], InvalidValue),
        (memoryview(bytearray(100))[::2], InvalidValue),
        (np.broadcast_to(np.zeros(1), 8), InvalidValue),
        (np.array([object()]), InvalidType),
        (17, InvalidType),
        ("text", InvalidType),
        (("a", 5), InvalidType),
        ((1, 2, 3), InvalidType),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_writable_run_of_bytes_is_refused(host: HostMemory, wrong: object, error: type[Exception]):
    """Read-only, empty, scattered and foreign objects are refused and nothing is registered."""
    with pytest.raises(error):
        host.register(wrong)
    assert host.statistics().live == 0


def test_bytes_are_registered_once(host: HostMemory):
    """An overlap of any kind is refused with the telling code; neighbours are not an overlap."""
    numbers = np.zeros(1000, np.uint8)
    host.register(numbers[100:200])
    for start, stop in ((100, 200), (150, 160), (50, 101), (199, 300), (0, 1000)):
        with pytest.raises(InvalidValue, match="registered once") as raised:
            host.register(numbers[start:stop])
        assert raised.value.code is Result.HostMemoryAlreadyRegistered
        assert raised.value.fresh().code is Result.HostMemoryAlreadyRegistered
    host.register(numbers[200:300])
    host.register(numbers[0:100])
    with pytest.raises(InvalidValue):
        host.register(host.allocate(PAGE).data)
    assert InvalidValue.code is Result.InvalidValue


@pytest.mark.slow
def test_a_registered_buffer_is_kept_alive_until_it_is_not(host: HostMemory):
    """The registration holds the buffer; unregistering lets it go and takes the addresses away."""

    class Buffer(bytearray):
        """A bytearray that can be watched."""

    buffer = Buffer(1000)
    alive = weakref.ref(buffer)
    registered = host.register(buffer)
    del buffer
    gc.collect()
    assert alive() is not None
    host.unregister(registered, by="command #4")
    gc.collect()
    assert alive() is None
    for find, address in ((host.find, registered.address), (host.find_host, registered.host_address)):
        with pytest.raises(IllegalAddress):
            find(address)
    with pytest.raises(IllegalAddress, match="command #4"):
        registered.check(0, 1)
    with pytest.raises(IllegalAddress, match="freed twice"):
        host.unregister(registered)


def test_each_kind_ends_in_its_own_way(host: HostMemory):
    """Registered memory is unregistered, the others are freed; the error says which is expected."""
    pinned, managed, registered = host.allocate(10), host.managed(10), host.register(bytearray(10))
    for allocation in (pinned, managed):
        with pytest.raises(InvalidValue, match=r"use free\(\)"):
            host.unregister(allocation)
        assert allocation.alive
    with pytest.raises(InvalidValue, match=r"use unregister\(\)"):
        host.free(registered)
    host.free(pinned)
    host.free(managed)
    host.unregister(registered)
    for allocation in (pinned, managed):
        with pytest.raises(IllegalAddress, match="freed twice"):
            host.free(allocation)
    with pytest.raises(InvalidValue, match="not host memory of this board"):
        HostMemory().free(host.allocate(1))


def test_device_addresses_are_used_again(host: HostMemory):
    """A freed window range is given out again, and live ones never overlap."""
    first = host.allocate(3 * PAGE)
    second = host.allocate(PAGE)
    host.free(first)
    third = host.allocate(2 * PAGE)
    assert third.address == first.address
    assert second.address >= third.address + 2 * PAGE


def test_a_full_window_is_followed_by_the_next(host: HostMemory):
    """Ranges that do not fit in what is left of one window go to another; when all are full it is OutOfMemory."""
    base = host.allocate(PAGE)
    # Only addresses are registered, never touched: 59 GiB of device address space for each.
    starts = [(1 << 50) + (number << 36) for number in range(len(WINDOWS) + 1)]
    taken = [host.register((start, 59 << 30)) for start in starts[: len(WINDOWS)]]
    assert len({allocation.address >> 36 for allocation in taken}) == len(WINDOWS)
    assert all(in_a_window(allocation) for allocation in taken)
    with pytest.raises(OutOfMemory, match="no window"):
        host.register((starts[-1], 59 << 30))
    host.unregister(taken[3])
    assert host.register((starts[-1], 59 << 30)).address == taken[3].address
    assert host.find(base.address) is base


def test_zero_bytes_and_impossible_sizes(host: HostMemory):
    """Empty allocations have distinct addresses; negative sizes are mistakes, absurd ones are out of memory."""
    empty = [host.allocate(0) for _ in range(3)]
    assert len({allocation.address for allocation in empty}) == 3
    assert all(host.find(allocation.address) is allocation for allocation in empty)
    with pytest.raises(InvalidValue, match="0 or more"):
        host.allocate(-1)
    for absurd in (1 << 60, 1 << 100):
        with pytest.raises(OutOfMemory):
            host.managed(absurd)


def test_figures_count_each_kind(host: HostMemory):
    """Bytes and live allocations are counted by kind and go down with each end."""
    pinned = host.allocate(100)
    host.managed(20)
    host.register(bytearray(3))
    seen = host.statistics()
    assert (seen.pinned, seen.managed, seen.registered, seen.live) == (100, 20, 3, 3)
    assert len(host.live()) == 3
    host.free(pinned)
    assert (host.statistics().pinned, host.statistics().live) == (0, 2)
    assert "2 allocations" in repr(host)


def test_close_ends_everything():
    """After close, twice, allocations are dead, buffers free, and new requests raise NotInitialized."""
    host = HostMemory()
    buffer = bytearray(10)
    ended = [host.allocate(10), host.managed(10), host.register(buffer)]
    host.close()
    host.close()
    assert not any(allocation.alive for allocation in ended)
    buffer.extend(b"may grow again")
    for refuse in (host.allocate, host.managed):
        with pytest.raises(NotInitialized):
            refuse(1)


@pytest.mark.slow
def test_bytes_outlive_their_allocation_in_views(host: HostMemory):
    """A view that is still held stays readable after the memory was freed."""
    pinned = host.allocate(PAGE)
    view = pinned.data
    view[:] = 9
    host.free(pinned)
    gc.collect()
    assert (view == 9).all()


def test_host_and_host_memory_move_alike(host: HostMemory):
    """Moves between all three kinds carry the bytes."""
    pinned, managed, registered = host.allocate(64), host.managed(64), host.register(bytearray(64))
    pinned.data[:] = range(64)
    move(managed, 0, pinned, 0, 64)
    move(registered, 32, managed, 0, 32)
    assert registered.view.tobytes() == bytes(32) + bytes(range(32))


def test_a_finalizer_may_free_while_the_lock_is_held(host: HostMemory):
    """A free that comes while this thread is inside takes effect at once and is booked later."""
    pinned = host.allocate(10)
    with host._lock:
        host.free(pinned)
        assert not pinned.alive
    assert host.statistics().pinned == 0


def test_threads_share_one_host_memory(host: HostMemory):
    """Four threads allocate, register, look up and end at once, and nothing is lost."""

    def work(mark: int) -> None:
        for number in range(300):
            made = host.allocate(1 + number % 3 * PAGE) if number % 2 else host.register(bytearray(100))
            made.data[:] = mark
            assert host.find(made.address) is made
            assert host.find_host(made.host_address + made.size - 1) is made
            assert (made.data == mark).all()
            (host.free if number % 2 else host.unregister)(made)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert host.statistics().live == host.statistics().pinned == host.statistics().registered == 0



def test_every_kind_of_address_finds_its_allocation():
    """Addresses of each device, and pinned, registered and managed ones, lead to their allocations."""
    memories = [DeviceMemory(48 << 30, 4, device, device_base(device), 0) for device in range(8)]
    host = HostMemory()
    space = AddressSpace(memories, host)
    made = [memory.allocate(1000, top_down=device % 2 == 1) for device, memory in enumerate(memories)]
    made += [host.allocate(1000), host.register(bytearray(1000)), host.managed(1000)]
    for allocation in made:
        for offset in (0, 500, 999):
            assert space.find(allocation.address + offset) is allocation
    assert [allocation.device for allocation in made] == [*range(8), None, None, None]
    assert all(allocation.address < 1 << 40 for allocation in made[:-1])
    assert "8 devices" in repr(space)
    for memory in memories:
        memory.close()
    host.close()


def test_device_addresses_are_odd_slots_of_forty_bits():
    """Device d begins at (2 d + 1) << 36, and the eighth still ends within 40 bits."""
    assert [device_base(device) for device in range(3)] == [1 << 36, 3 << 36, 5 << 36]
    assert device_base(7) + (48 << 30) <= 1 << 40


@pytest.mark.parametrize("address", [0, 1 << 20, 1 << 36, (1 << 36) + 1000, 3 << 36, 2 << 36, 1 << 45, -1])
def test_nobodys_address_names_the_asker(address: int):
    """An address of no allocation, of no device and of no window is IllegalAddress with the address and its user."""
    space = AddressSpace([DeviceMemory(1 << 30, 4, 0, device_base(0), 0)], HostMemory())
    with pytest.raises(IllegalAddress, match=f"copy 12: {address:#x}"):
        space.find(address, "copy 12")
