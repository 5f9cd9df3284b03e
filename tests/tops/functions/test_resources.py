"""Constant buffers and kernel signals (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

import atops.tops as tops
from atops import kernels as k
from atops.bridge.handles import register
from tests.runtime.boards import PATIENCE, Latch, broken, settle
from tests.tops.conformance import Case, Conformance

KEY = 0xFEED
DATA = np.arange(64, dtype=np.uint8)
INVALID = tops.topsErrorInvalidValue
DEAD = tops.topsErrorInvalidHandle


def having(*arguments):
    """Return arguments of a call in a world where the key is known."""

    def make(world):
        tops.check(tops.topsConstBufferGet(KEY, DATA, 64, None))
        return arguments

    return make


def dead_stream(world):
    """Return the handle of a stream that was destroyed with its device."""
    handle = register(world.second.create_stream(), world.second.context)
    world.second.reset_sync()
    return handle


def poisoned(world):
    """Return a stream that has failed."""
    stream = world.device.create_stream()
    stream.launch(broken, (1, 1))
    settle(world.driver)
    return stream


class TestConstBuffers(Conformance):
    """Both functions, by their rows."""

    good: ClassVar = {
        "topsConstBufferGet": (KEY, DATA, 64, None),
        "topsConstBufferPut": having(KEY, None),
    }
    nullable = frozenset({("topsConstBufferGet", "init_data")})  # a known key needs none
    bad = (
        Case("topsConstBufferGet", "a new key without data", (KEY, None, 64, None), tops.topsErrorNotFound),
        Case("topsConstBufferGet", "a known key, another size", having(KEY, DATA, 32, None), INVALID),
        Case("topsConstBufferGet", "too little data", (KEY, DATA, 65, None), INVALID),
        Case("topsConstBufferGet", "negative size", (KEY, DATA, -1, None), INVALID),
        Case("topsConstBufferGet", "key -1", (-1, DATA, 64, None), INVALID),
        Case("topsConstBufferGet", "key of 65 bits", (1 << 64, DATA, 64, None), INVALID),
        Case("topsConstBufferGet", "data at no address", (KEY, 12345, 64, None), INVALID),
        Case("topsConstBufferGet", "dead stream", lambda w: (KEY, DATA, 64, dead_stream(w)), DEAD),
        Case("topsConstBufferGet", "poisoned", lambda w: (KEY, DATA, 64, poisoned(w)), tops.topsErrorLaunchFailure),
        Case("topsConstBufferPut", "unknown key", (KEY, None), tops.topsErrorNotFound),
        Case("topsConstBufferPut", "key of 65 bits", (1 << 64, None), INVALID),
        Case("topsConstBufferPut", "dead stream", lambda w: (KEY, dead_stream(w)), DEAD),
    )


def contents(world, pointer, size=64):
    """Return the bytes at a device pointer, once all work of device 0 is over."""
    world.device.sync(PATIENCE)
    return world.device.create_stream().fetch(world.device.buffer_at(pointer, size)).wait_sync(PATIENCE)


def test_users_share_one_buffer_and_the_last_put_frees_it(world):
    """A known key gives the same pointer whatever the data; the memory goes with the last user."""
    before = tops.check(tops.topsMemGetInfo())[0]
    first = tops.check(tops.topsConstBufferGet(KEY, DATA, 64, None))
    assert tops.check(tops.topsConstBufferGet(KEY, np.zeros(64, np.uint8), 64, None)) == first
    assert tops.check(tops.topsConstBufferGet(KEY, None, 64, None)) == first
    assert (contents(world, first) == DATA).all()
    assert tops.check(tops.topsMemGetInfo())[0] < before
    for _ in range(3):
        assert tops.topsConstBufferPut(KEY, None) == (tops.topsSuccess,)
    world.device.sync(PATIENCE)
    assert tops.check(tops.topsMemGetInfo())[0] == before
    assert tops.topsConstBufferPut(KEY, None) == (tops.topsErrorNotFound,)


def test_keys_are_apart_and_so_are_devices(world):
    """Another key, or the same on another device, has memory of its own there."""
    here = tops.check(tops.topsConstBufferGet(KEY, DATA, 64, None))
    other = tops.check(tops.topsConstBufferGet(KEY + 1, DATA, 64, None))
    there = tops.check(tops.topsConstBufferGet(KEY, DATA[:32], 32, world.second.create_stream()))
    assert len({here, other, there}) == 3
    assert world.device.buffer_at(there, 32).device_id == 1


def test_the_data_may_be_used_again_on_return(world):
    """What the buffer holds is what the source held at the call, though the upload runs later."""
    latch = Latch(world.device)
    stream = world.device.create_stream(nonblocking=True)
    latch.hold(stream)
    data = np.full(1 << 20, 7, np.uint8)  # more than what copies take at the call
    address = tops.check(tops.topsHostMalloc(64, 0))
    pinned = tops.host_view(address, 64)
    pinned[:] = 5
    large = tops.check(tops.topsConstBufferGet(KEY, data, data.nbytes, stream))
    small = tops.check(tops.topsConstBufferGet(KEY + 1, address, 64, stream))
    data[:], pinned[:] = 0, 0
    latch.open()
    assert (contents(world, large, 1 << 20) == 7).all()
    assert (contents(world, small) == 5).all()


def test_device_memory_as_a_source_is_copied_before_the_call_returns(world):
    """It may be overwritten at once."""
    source = tops.check(tops.topsMalloc(64))
    tops.check(tops.topsMemset(source, 9, 64))
    pointer = tops.check(tops.topsConstBufferGet(KEY, source, 64, None))
    tops.check(tops.topsMemset(source, 0, 64))
    assert (contents(world, pointer) == 9).all()


def test_a_second_user_waits_for_the_upload_of_the_first(world):
    """Its stream does not go on before the contents are there."""
    latch = Latch(world.device)
    first, second = (world.device.create_stream(nonblocking=True) for _ in range(2))
    latch.hold(first)
    pointer = tops.check(tops.topsConstBufferGet(KEY, DATA, 64, first))
    assert tops.check(tops.topsConstBufferGet(KEY, None, 64, second)) == pointer
    fetched = second.fetch(world.device.buffer_at(pointer, 64))
    world.let_run()
    assert not second.is_done
    latch.open()
    assert (fetched.wait_sync(PATIENCE) == DATA).all()


def test_the_last_put_frees_in_the_order_of_its_stream(world):
    """Work that was enqueued before it still finds the memory; the key is unknown at once."""
    latch = Latch(world.device)
    stream = world.device.create_stream(nonblocking=True)
    pointer = tops.check(tops.topsConstBufferGet(KEY, DATA, 64, stream))
    latch.hold(stream)
    buffer = world.device.buffer_at(pointer, 64)
    fetched = stream.fetch(buffer)
    tops.check(tops.topsConstBufferPut(KEY, stream))
    assert tops.topsConstBufferPut(KEY, stream) == (tops.topsErrorNotFound,)
    assert buffer.is_live
    latch.open()
    assert (fetched.wait_sync(PATIENCE) == DATA).all()
    settle(world.driver)
    assert not buffer.is_live


def test_a_reset_forgets_all_keys(world):
    """After topsDeviceReset a key is new."""
    tops.check(tops.topsConstBufferGet(KEY, DATA, 64, None))
    tops.check(tops.topsDeviceReset())
    assert tops.topsConstBufferGet(KEY, None, 64, None) == (tops.topsErrorNotFound, None)


def test_its_pointer_is_not_for_topsfree(world):
    """Only Put gives it back."""
    pointer = tops.check(tops.topsConstBufferGet(KEY, DATA, 64, None))
    assert tops.topsFree(pointer) == (tops.topsErrorInvalidDevicePointer,)


def test_threads_that_get_one_key_share_one_upload(world):
    """Of several first users at once one allocates; all get its pointer and each counts."""
    runs = [world.thread(lambda: tops.topsConstBufferGet(KEY, DATA, 64, None)) for _ in range(8)]
    for thread, _ in runs:
        thread.join(PATIENCE)
    assert len({answers[0] for _, answers in runs}) == 1
    for _ in runs:
        assert tops.topsConstBufferPut(KEY, None) == (tops.topsSuccess,)
    assert tops.topsConstBufferPut(KEY, None) == (tops.topsErrorNotFound,)


NOT_ALLOCATED = ("topsKernelSignalFree", ()), ("topsKernelSignalRead", ()), ("topsKernelSignalWrite", (1,))


def signal(*more):
    """Return arguments that begin with a new signal's handle."""
    return lambda world: (world.device.signals.allocate(), *more)


def exhaust(world):
    """Take every signal of device 0."""
    while world.device.signals.available:
        world.device.signals.allocate()
    return ()


class TestKernelSignals(Conformance):
    """Every function of kernel signals, by its rows."""

    good: ClassVar = {
        "topsKernelSignalMaxNumGet": (),
        "topsKernelSignalAvailableNumGet": (),
        "topsKernelSignalAlloc": (),
        "topsKernelSignalFree": signal(),
        "topsKernelSignalRead": signal(),
        "topsKernelSignalWrite": signal(7),
    }
    bad = (
        *(Case(name, "never allocated", (0, *more), tops.topsErrorInvalidHandle) for name, more in NOT_ALLOCATED),
        *(Case(name, "handle -1", (-1, *more), tops.topsErrorInvalidHandle) for name, more in NOT_ALLOCATED),
        *(Case(name, "handle None", (None, *more), tops.topsErrorInvalidValue) for name, more in NOT_ALLOCATED),
        Case("topsKernelSignalAlloc", "all taken", exhaust, tops.topsErrorLaunchOutOfResources),
        Case("topsKernelSignalWrite", "negative", signal(-1), tops.topsErrorInvalidValue),
        Case("topsKernelSignalWrite", "33 bits", signal(1 << 32), tops.topsErrorInvalidValue),
    )


@k.kernel
async def answer(asked: int, answered: int):
    """Wait until one signal is 5, then store 6 in another."""
    await k.signal_wait(asked, 5)
    k.signal_write(answered, 6)


def test_counts_values_and_lives(world):
    """Available goes down and up; a new signal is 0; what is written is read; a freed handle is dead."""
    most = tops.check(tops.topsKernelSignalMaxNumGet())
    assert most == world.driver.arch.kernel_signals
    handle = tops.check(tops.topsKernelSignalAlloc())
    assert tops.check(tops.topsKernelSignalAvailableNumGet()) == most - 1
    assert tops.check(tops.topsKernelSignalRead(handle)) == 0
    tops.check(tops.topsKernelSignalWrite(handle, 0xFFFFFFFF))
    assert tops.check(tops.topsKernelSignalRead(handle)) == 0xFFFFFFFF
    tops.check(tops.topsKernelSignalFree(handle))
    assert tops.check(tops.topsKernelSignalAvailableNumGet()) == most
    assert tops.topsKernelSignalFree(handle) == (tops.topsErrorInvalidHandle,)
    assert tops.check(tops.topsKernelSignalRead(tops.check(tops.topsKernelSignalAlloc()))) == 0


def test_signals_are_the_current_devices(world):
    """A handle of one device is none on another, and is dead after a reset."""
    handle = tops.check(tops.topsKernelSignalAlloc())
    tops.check(tops.topsSetDevice(1))
    assert tops.topsKernelSignalRead(handle) == (tops.topsErrorInvalidHandle, None)
    tops.check(tops.topsSetDevice(0))
    tops.check(tops.topsDeviceReset())
    assert tops.topsKernelSignalRead(handle) == (tops.topsErrorInvalidHandle, None)


def test_host_and_kernel_speak_through_them(world):
    """A write of the host lets a waiting kernel go on, and the host reads what the kernel stored."""
    asked, answered = (tops.check(tops.topsKernelSignalAlloc()) for _ in range(2))
    done = world.device.create_stream().launch(answer, (1, 1), asked, answered)
    tops.check(tops.topsKernelSignalWrite(asked, 5))
    done.wait_sync(PATIENCE)
    assert tops.check(tops.topsKernelSignalRead(answered)) == 6
