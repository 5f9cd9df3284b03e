"""Device memory: allocated, freed, asked for its size and place (TOPS Runtime API, 2.6)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import ClassVar

import anyio
import pytest

import atops.tops as tops
from atops.base.options import EmulatorOptions
from atops.base.result_codes import Result
from atops.bridge.pointers import add_alias, remove_alias
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from atops.tops import aio
from atops.tops.functions.api import last
from tests.runtime.boards import PATIENCE, Latch, broken, waiters
from tests.tops.conformance import Case, Conformance
from tests.tops.pointers import SIZE, device_pointer, freed_pointer, host_pointer, read

NO_DEVICE = "only a board without devices: test_no_device"
HUGE = (1 << 64) - 1


class TestMemory(Conformance):
    """topsMalloc and topsFree and the questions about memory, by their rows."""

    functions = (
        "topsMalloc", "topsExtMallocWithFlags", "topsFree", "topsMemGetInfo", "topsMemPtrGetInfo",
        "topsMemGetAddressRange",
    )  # fmt: skip
    good: ClassVar = {
        "topsMalloc": (SIZE,),
        "topsExtMallocWithFlags": (SIZE, tops.topsMallocTopDown),
        "topsFree": lambda world: (device_pointer(world),),
        "topsMemGetInfo": (),
        "topsMemPtrGetInfo": lambda world: (device_pointer(world) + 5,),
        "topsMemGetAddressRange": lambda world: (device_pointer(world) + 5,),
    }
    bad = (
        Case("topsMalloc", "more than there is", (1 << 40,), tops.topsErrorOutOfMemory),
        Case("topsMalloc", "SIZE_MAX", (HUGE,), tops.topsErrorOutOfMemory),
        Case("topsMalloc", "negative", (-1,), tops.topsErrorInvalidValue),
        Case("topsMalloc", "65 bits", (HUGE + 1,), tops.topsErrorInvalidValue),
        Case("topsMalloc", "a float", (64.0,), tops.topsErrorInvalidValue),
        Case("topsExtMallocWithFlags", "more than there is", (1 << 40, 0), tops.topsErrorOutOfMemory),
        Case("topsExtMallocWithFlags", "fine-grained", (64, 1), tops.topsErrorInvalidValue),
        Case("topsExtMallocWithFlags", "signal memory", (64, 2), tops.topsErrorInvalidValue),
        Case("topsExtMallocWithFlags", "host accessible", (64, 32), tops.topsErrorInvalidValue),
        Case("topsExtMallocWithFlags", "negative size", (-1, 0), tops.topsErrorInvalidValue),
        Case("topsFree", "G7 twice", lambda w: (freed_pointer(w),), tops.topsErrorInvalidDevicePointer),
        Case("topsFree", "interior", lambda w: (device_pointer(w) + 256,), tops.topsErrorInvalidDevicePointer),
        Case("topsFree", "host pointer", lambda w: (host_pointer(w),), tops.topsErrorInvalidDevicePointer),
        Case(
            "topsFree", "mapped host memory", lambda w: (tops.topsHostGetDevicePointer(host_pointer(w), 0)[1],),
            tops.topsErrorInvalidDevicePointer,
        ),
        Case(
            "topsFree", "a buffer's memory", lambda w: (w.keep.append(w.device.allocate(64)) or w.keep[0].address,),
            tops.topsErrorInvalidDevicePointer,
        ),
        Case("topsFree", "negative", (-1,), tops.topsErrorInvalidDevicePointer),
        Case("topsMemPtrGetInfo", "a freed pointer", lambda w: (freed_pointer(w),), tops.topsErrorInvalidValue),
        Case("topsMemGetAddressRange", "freed", lambda w: (freed_pointer(w),), tops.topsErrorInvalidDevicePointer),
        Case(
            "topsMemGetAddressRange", "the end", lambda w: (device_pointer(w, 64) + 64,),
            tops.topsErrorInvalidDevicePointer,
        ),
        Case(
            "topsMemGetAddressRange", "a host pointer", lambda w: (host_pointer(w),),
            tops.topsErrorInvalidDevicePointer,
        ),
    )  # fmt: skip
    unreachable: ClassVar = {
        ("topsMemGetInfo", Result.InvalidDevice): NO_DEVICE,
        ("topsMemGetInfo", Result.InvalidValue): "its only arguments in C are out-parameters",
        ("topsMemPtrGetInfo", Result.InvalidDevice): NO_DEVICE,
    }
    nullable = frozenset({("topsFree", "ptr")})


def test_no_device(world):
    """On a board without devices the questions answer InvalidDevice, and allocating NoDevice."""
    driver = Driver(EmulatorOptions(devices=0, trace=0))
    enter(driver, board_of(driver))
    try:
        assert tops.topsMemGetInfo() == (tops.topsErrorInvalidDevice, None, None)
        assert tops.topsMemPtrGetInfo(1 << 36) == (tops.topsErrorInvalidDevice, None)
        assert tops.topsPointerGetAttributes(1 << 36) == (tops.topsErrorInvalidDevice, None)
        assert tops.topsPointerGetAttribute(2, 1 << 36) == (tops.topsErrorInvalidDevice, None)
        assert tops.topsDrvPointerGetAttributes(1, [2], 1 << 36) == (tops.topsErrorInvalidDevice, None)
        assert tops.topsMalloc(64) == (tops.topsErrorNoDevice, None)
        assert tops.topsFree(None) == (tops.topsSuccess,)
    finally:
        leave(driver)
        driver.close()


def test_g1_alignment(world):
    """G1: every allocation is aligned to 256 bytes at least."""
    assert all(tops.check(tops.topsMalloc(size)) % 256 == 0 for size in (10, 100, 1000, 8192))


def test_g2_zero_size(world):
    """G2: size 0 gives distinct pointers that are not null, free once and hold nothing."""
    first, second = (tops.check(tops.topsMalloc(0)) for _ in range(2))
    assert 0 != first != second != 0
    assert tops.topsMemGetAddressRange(first) == (tops.topsSuccess, first, 0)
    assert tops.topsMemset(first, 0, 1) == (tops.topsErrorInvalidValue,)
    assert tops.topsFree(first) == (tops.topsSuccess,)
    assert tops.topsFree(first) == (tops.topsErrorInvalidDevicePointer,)
    assert tops.check(tops.topsExtMallocWithFlags(0, 0)) != 0


def test_top_down_takes_the_highest_address(world):
    """TopDown lies above everything else; the flags are told of the pointer."""
    low = tops.check(tops.topsExtMallocWithFlags(SIZE, 0))
    high = tops.check(tops.topsExtMallocWithFlags(SIZE, 4 | 8 | 16))
    top = world.device.context.memory.base_address + world.device.context.memory.total
    assert low < high == top - SIZE
    assert tops.check(tops.topsPointerGetAttributes(high)).allocationFlags == 28


def test_g8_free_waits_for_its_own_device(world):
    """G8: freeing returns when the memory's device is done, whichever is current, and not before."""
    latch = Latch(world.second)
    stream = world.second.create_stream(nonblocking=True)
    latch.hold(stream)
    mine = device_pointer(world)
    theirs = device_pointer(world, device=1)
    assert tops.topsFree(mine) == (tops.topsSuccess,)
    thread, answers = world.thread(lambda: tops.topsFree(theirs))
    while not waiters(world.driver):
        assert thread.is_alive()
    world.let_run()
    assert thread.is_alive() and not answers
    assert tops.topsFree(theirs) == (tops.topsErrorInvalidDevicePointer,)
    latch.open()
    thread.join(PATIENCE)
    assert answers == [(tops.topsSuccess,)]
    assert stream.is_done


def test_free_tells_a_fault_and_frees(world):
    """The implicit synchronisation answers a kernel's fault; the memory is gone all the same."""
    pointer = device_pointer(world)
    world.device.create_stream().launch(broken, (1, 1))
    assert tops.topsFree(pointer) == (tops.topsErrorLaunchFailure,)
    assert tops.topsFree(pointer) == (tops.topsErrorInvalidDevicePointer,)


def test_free_in_a_callback_is_refused(world):
    """In a callback of the device the wait could never end: IllegalState, and the memory stays."""
    pointer = device_pointer(world)
    context = copy_context()
    answers = []
    stream = world.device.create_stream()
    stream.call(lambda: answers.append(context.run(tops.topsFree, pointer))).wait_sync(PATIENCE)
    assert answers == [(tops.topsErrorIllegalState,)]
    assert tops.topsFree(pointer) == (tops.topsSuccess,)


def test_cancelled_free_frees_later(world):
    """Cancelling the awaitable form cancels the wait; the memory goes when the device is done."""
    latch = Latch(world.device)
    held = latch.hold(world.device.create_stream(nonblocking=True))
    pointer = device_pointer(world)

    async def main() -> None:
        with anyio.move_on_after(0) as scope:
            await aio.topsFree(pointer)
        assert scope.cancelled_caught

    anyio.run(main)
    assert tops.topsFree(pointer) == (tops.topsErrorInvalidDevicePointer,)
    latch.open()
    held.wait_sync(PATIENCE)
    world.device.sync()


def test_g12_frees_from_many_threads(world):
    """G12: of threads that free one pointer each all succeed; of those that free the same, one does."""
    pointers = [device_pointer(world) for _ in range(16)]

    def free(pointer: int) -> object:
        enter(world.driver, board_of(world.driver))
        return tops.topsFree(pointer)[0]

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(free, pointers)) == {tops.topsSuccess}
        assert sorted(threads.map(free, [device_pointer(world)] * 8)) == [0, *[17] * 7]


def test_g33_info(world):
    """G33: free is at most total and shrinks by what is allocated, on the current device alone."""
    free, total = tops.check(tops.topsMemGetInfo())
    assert 0 < free <= total
    device_pointer(world, 1 << 20)
    assert tops.topsMemGetInfo() == (tops.topsSuccess, free - (1 << 20), total)
    tops.topsSetDevice(1)
    assert tops.check(tops.topsMemGetInfo())[0] == free


@pytest.mark.parametrize("offset", [0, 1, SIZE - 1])
def test_g34_g36_ranges(world, offset):
    """G34, G36: every interior pointer tells the whole allocation; host memory tells its device address."""
    pointer, host = device_pointer(world), host_pointer(world)
    assert tops.topsMemGetAddressRange(pointer + offset) == (tops.topsSuccess, pointer, SIZE)
    assert tops.topsMemPtrGetInfo(pointer + offset) == (tops.topsSuccess, SIZE)
    mapped = tops.check(tops.topsHostGetDevicePointer(host, 0))
    assert tops.topsMemGetAddressRange(mapped + offset) == (tops.topsSuccess, mapped, SIZE)
    assert tops.topsMemPtrGetInfo(host + offset) == tops.topsMemPtrGetInfo(mapped + offset) == (tops.topsSuccess, SIZE)


def test_reset_frees_everything(world):
    """K11: after a reset an old pointer is InvalidDevicePointer."""
    pointer = device_pointer(world)
    tops.check(tops.topsDeviceReset())
    assert tops.topsFree(pointer) == (tops.topsErrorInvalidDevicePointer,)


def test_second_names(world):
    """A second name has a range of its own, is used as memory, and is freed by its maker or not at all."""

    class Maker:
        memory_type = tops.topsMemoryTypeScatter

        def free_name(self, alias: object) -> None:
            assert remove_alias(board_of(world.driver), alias)

    pointer = device_pointer(world)
    buffer = world.device.buffer_at(pointer, SIZE)

    def resolve(offset: int, nbytes: int) -> object:
        return buffer[offset : offset + nbytes]

    named, plain = (add_alias(world.device.context, SIZE, resolve, owner) for owner in (Maker(), None))
    assert tops.topsMemGetAddressRange(named.address + 7) == (tops.topsSuccess, named.address, SIZE)
    assert tops.topsMemPtrGetInfo(named.address) == (tops.topsSuccess, SIZE)
    assert tops.topsMemset(named.address, 3, SIZE) == (tops.topsSuccess,)
    assert read(pointer, 4) == bytes([3] * 4)
    found = tops.check(tops.topsPointerGetAttributes(named.address + 7))
    assert (found.memoryType, found.device_pointer) == (tops.topsMemoryTypeScatter, named.address + 7)
    assert tops.check(tops.topsPointerGetAttributes(plain.address + 7)).device_pointer == pointer + 7
    for wrong in (plain.address, named.address + 1):
        assert tops.topsFree(wrong) == (tops.topsErrorInvalidDevicePointer,)
    assert tops.topsFree(named.address) == (tops.topsSuccess,)
    assert tops.topsFree(named.address) == (tops.topsErrorInvalidDevicePointer,)


def test_memory_of_the_object_api_is_not_freed(world):
    """Memory that the object API made is refused by topsFree, which says what frees it, by Buffer and by address."""
    buffer = world.device.allocate(8)
    for pointer in (buffer, buffer.address):
        assert tops.topsFree(pointer) == (tops.topsErrorInvalidDevicePointer,)
        assert "which belongs to the object API (its close() frees it)" in last().message
    assert buffer.allocation.alive
