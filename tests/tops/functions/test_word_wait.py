"""Words that hosts and streams hand each other: how they compare, what wakes a wait, and what ends it early."""

from __future__ import annotations

import time
from typing import Any

import anyio
import numpy as np
import pytest

import atops.tops as tops
from atops.bridge.handles import stream_of
from atops.bridge.pointers import device_memory
from atops.tops import aio
from atops.tops.functions.api import last
from tests.runtime.boards import PATIENCE, Latch
from tests.tops.conformance import World
from tests.tops.pointers import registered
from tests.tops.words import read, word

OK = (tops.topsSuccess,)
NOT_READY = (tops.topsErrorNotReady,)
GTE, EQ, AND, NOR = range(4)


def watched(pointer: int) -> bool:
    """Tell whether a word has a waiter."""
    return device_memory(pointer, 4).allocation.watches is not None


def host_wait(world: World, pointer: int, value: int, flags: int = EQ) -> tuple[Any, list[Any]]:
    """Start a thread that waits for a word; returns once it waits."""
    thread, answers = world.thread(lambda: tops.topsStreamWaitValue32(pointer, value, flags))
    while not watched(pointer):
        time.sleep(0)
    return thread, answers


# condition, value waited for, a word that blocks, a word that passes
ROWS = [
    pytest.param(GTE, 4, 3, 6, id="E7 Gte"),
    pytest.param(GTE, 0x7FFFFFFF, 0x7FFFFFFE, 0x80000000, id="E25 Gte is cyclic"),
    pytest.param(GTE, -1, -2, 0, id="Gte of negatives"),
    pytest.param(GTE, 0, 0x80000000, 0x7FFFFFFF, id="Gte half around"),
    pytest.param(AND, 0xF4A, 0x35 & ~0xF4A, 0x02, id="E10 And"),
    pytest.param(EQ, 0x7FFFFFFF, 0x7FFF0000, 0x7FFFFFFF, id="E11 Eq"),
    pytest.param(EQ, -1, 0, 0xFFFFFFFF, id="Eq of a negative"),
    pytest.param(NOR, 0x7AAAAAAA, 0x85555555, 0x9AAAAAAA, id="E14 Nor"),
]


@pytest.mark.parametrize(("flags", "value", "blocks", "passes"), ROWS)
def test_conditions_in_a_stream(world, flags, value, blocks, passes):
    """E7 to E14, E25: the stream waits while the word is the one, and goes on when it is the other."""
    pointer, handle = word(world, blocks), tops.check(tops.topsStreamCreateWithFlags(1))
    tops.check(tops.topsStreamWaitValue32Async(pointer, value, flags, handle))
    while not watched(pointer):
        time.sleep(0)
    world.let_run()
    assert tops.topsStreamQuery(handle) == NOT_READY
    assert tops.topsStreamWriteValue32(pointer, passes, 0) == OK
    assert tops.topsStreamSynchronize(handle) == OK


@pytest.mark.parametrize(("flags", "value", "blocks", "passes"), ROWS)
def test_conditions_of_the_host(world, flags, value, blocks, passes):
    """E27: without a stream the caller waits just so, and a stream's write lets him go on."""
    pointer = word(world, blocks)
    thread, answers = host_wait(world, pointer, value, flags)
    assert not answers
    assert tops.topsStreamWriteValue32Async(pointer, passes, 0) == OK
    thread.join(PATIENCE)
    assert answers == [OK]
    assert not watched(pointer)
    assert tops.topsStreamWaitValue32(pointer, value, flags) == OK  # E6: satisfied already


@pytest.mark.parametrize("value", [0x70F0F0FF, 0xFFFFFFFF, -1, 0, -(1 << 31)])
@pytest.mark.parametrize("where", ["device", "host", "registered"])
def test_e1_writes(world, where, value):
    """E1: the exact word, at six offsets, on the device, in mapped and in registered host memory, by both functions."""
    array = {
        "device": lambda: world.device.empty(64, "uint32"),
        "host": lambda: world.device.host_malloc(64, "uint32"),
        "registered": lambda: world.device.register(np.zeros(64, np.uint32)),
    }[where]()
    for offset in (0, 1, 7, 31, 62, 63):
        pointer = array.address + 4 * offset
        assert tops.topsStreamWriteValue32Async(pointer, value, 0, 0) == OK
        assert tops.topsStreamSynchronize(0) == OK
        assert read(world, pointer) == value % (1 << 32)
        assert tops.topsStreamWriteValue32(pointer, 5, 0) == OK
        assert read(world, pointer) == 5
        assert tops.topsStreamWaitValue32(pointer, 5, EQ) == OK


def test_no_stream_is_no_order(world):
    """The plain forms act beside a null stream that stands still, and satisfy what it waits for."""
    pointer, gate = word(world), word(world)
    tops.check(tops.topsStreamWaitValue32Async(gate, 1, EQ, 0))
    tops.check(tops.topsStreamWriteValue32Async(pointer, 2, 0, 0))
    assert tops.topsStreamWriteValue32(pointer, 1, 0) == OK
    world.let_run()
    assert read(world, pointer) == 1
    assert tops.topsStreamQuery(0) == NOT_READY
    assert tops.topsStreamWriteValue32(gate, 1, 0) == OK
    assert tops.topsStreamWaitValue32(pointer, 2, EQ) == OK
    assert tops.topsStreamSynchronize(0) == OK


def test_the_device_does_not_wait_for_a_waiting_host(world):
    """A host's wait is no work of the device: synchronising it returns, and then the word may be written."""
    pointer = word(world)
    thread, answers = host_wait(world, pointer, 1)
    assert tops.topsDeviceSynchronize() == tops.topsStreamSynchronize(0) == OK
    tops.check(tops.topsStreamWriteValue32(pointer, 1, 0))
    thread.join(PATIENCE)
    assert answers == [OK]


def test_async_memory_is_the_streams(world):
    """The Async forms take memory of the stream's device, whatever is current; the plain ones of the current device."""
    handle, pointer = tops.check(tops.topsStreamCreate()), word(world)
    tops.topsSetDevice(1)
    assert tops.topsStreamWriteValue32Async(pointer, 1, 0, handle) == OK
    assert tops.topsStreamWaitValue32Async(pointer, 1, EQ, handle) == OK
    assert tops.topsStreamSynchronize(handle) == OK
    for name in ("Write", "Wait"):
        plain = getattr(tops, f"topsStream{name}Value32")
        in_stream = getattr(tops, f"topsStream{name}Value32Async")
        assert plain(pointer, 1, 0) == in_stream(pointer, 1, 0) == (tops.topsErrorInvalidDevicePointer,)


def test_host_stores_are_found(world):
    """Stores into mapped memory, which are not reported, end both forms of the wait."""
    array = world.device.host_malloc(2, "uint32")
    memory = device_memory(array.address, 8).allocation.view
    memory[0:8] = bytes(8)
    handle = tops.check(tops.topsStreamCreate())
    tops.check(tops.topsStreamWaitValue32Async(array.address, 3, EQ, handle))
    thread, answers = host_wait(world, array.address, 3)
    memory[0:4] = (3).to_bytes(4, "little")
    thread.join(PATIENCE)
    assert answers == [OK]
    assert tops.topsStreamSynchronize(handle) == OK


@pytest.mark.parametrize("how", ["copy", "fill", "kernel's fault elsewhere"])
def test_every_way_of_writing_ends_it(world, how):
    """E24: a copy and a fill do as a write does; a failed stream elsewhere changes nothing."""
    pointer = word(world)
    target = device_memory(pointer, 4)
    thread, answers = host_wait(world, pointer, 0x01010101)
    stream = world.device.create_stream()
    if how == "copy":
        stream.copy(target, np.array([0x01010101], np.uint32).view(np.uint8))
    elif how == "fill":
        stream.fill(target, 1)
    else:
        stream.call(lambda: 1 / 0)
        tops.check(tops.topsStreamWriteValue32(pointer, 0x01010101, 0))
    thread.join(PATIENCE)
    assert answers == [OK]


def test_freed_or_reset_meanwhile(world):
    """A wait whose memory goes ends with an error: IllegalAddress, or ContextIsDestroyed by a reset; none hangs."""
    buffer = world.device.allocate(4)
    tops.check(tops.topsStreamWriteValue32(buffer.address, 0, 0))
    thread, answers = host_wait(world, buffer.address, 1)
    buffer.close()
    thread.join(PATIENCE)
    pointer = word(world)
    second, more = host_wait(world, pointer, 1)
    assert tops.topsDeviceReset() == OK
    second.join(PATIENCE)
    assert (answers, more) == ([(tops.topsErrorIllegalAddress,)], [(tops.topsErrorContextIsDestroyed,)])
    assert tops.topsStreamWaitValue32(pointer, 1, EQ) == (tops.topsErrorInvalidDevicePointer,)


def test_a_twin_can_be_cancelled(world, loop_guard):
    """E27: the awaitable form blocks no loop, cancelling it leaves nothing behind, and a store ends it."""
    for backend in ("asyncio", "trio"):
        pointer = word(world)

        async def main(pointer: int = pointer) -> None:
            with anyio.move_on_after(0) as scope:
                await aio.topsStreamWaitValue32(pointer, 1, EQ)
            assert scope.cancelled_caught
            assert not watched(pointer)
            assert last() is None
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, tops.topsStreamWriteValue32, pointer, 1, 0)
                assert await aio.topsStreamWaitValue32(pointer, 1, EQ) == OK

        anyio.run(main, backend=backend)


def test_two_streams_play_ping_pong(world):
    """E24: two streams hand a turn to and fro through one word, a hundred times, without the host."""
    turn, score = word(world), world.device.empty(1, "int32")
    first, second = (tops.check(tops.topsStreamCreateWithFlags(1)) for _ in range(2))
    latch = Latch(world.device)
    latch.hold(stream_of(first))
    for number in range(0, 100, 2):
        for handle, mine in ((first, number), (second, number + 1)):
            tops.check(tops.topsStreamWaitValue32Async(turn, mine, EQ, handle))
            stream_of(handle).fill(score, mine)
            tops.check(tops.topsStreamWriteValue32Async(turn, mine + 1, 0, handle))
    latch.open()
    assert tops.topsStreamWaitValue32(turn, 100, GTE) == OK
    assert stream_of(0).fetch(score).wait_sync(PATIENCE) == 99


def test_e1_words_in_host_memory(world):
    """E1: pinned and registered memory is written and waited for by host pointer, device pointer and array alike."""
    array = registered(world, 64)
    pinned = tops.check(tops.topsHostMalloc(64, 0))
    stored = array.view("uint32")
    device = tops.check(tops.topsHostGetDevicePointer(array, 0))
    named = [(array, stored), (array[4:], stored[1:]), (array.ctypes.data + 8, stored[2:]), (device + 12, stored[3:]),
             (pinned + 60, tops.host_view(pinned, 64).view("uint32")[15:])]  # fmt: skip
    for number, (pointer, words) in enumerate(named, 1):
        assert tops.topsStreamWriteValue32(pointer, number, 0) == OK
        assert words[0] == number
        assert tops.topsStreamWaitValue32(pointer, number, EQ) == OK
        assert tops.topsStreamWriteValue32Async(pointer, -number, 0) == OK
        assert tops.topsStreamWaitValue32Async(pointer, -number, EQ) == OK
        assert tops.topsStreamSynchronize(0) == OK
        assert words[0] == (1 << 32) - number
    assert tops.topsStreamWaitValue32Async(pinned, 7, EQ) == OK
    tops.host_view(pinned, 4).view("uint32")[0] = 7  # a store of the host, which the runtime cannot see
    assert tops.topsStreamSynchronize(0) == OK


def test_words_that_no_device_reaches(world):
    """Pageable memory, a word that leaves its memory and one askew are InvalidDevicePointer in all four functions."""
    array = registered(world, 64)
    for pointer in (np.zeros(4, "int32"), np.zeros(4).ctypes.data, array[2:], array[62:], array.ctypes.data + 64):
        for call in (tops.topsStreamWriteValue32, tops.topsStreamWriteValue32Async, tops.topsStreamWaitValue32,
                     tops.topsStreamWaitValue32Async):  # fmt: skip
            assert call(pointer, 0, 0) == (tops.topsErrorInvalidDevicePointer,)
    tops.topsStreamWriteValue32(np.zeros(4, "int32"), 0, 0)
    assert "dst is pageable host memory (ndarray); register it with topsHostRegister" in last().message
