"""What users of HIP and CUDA rely on and no other file here asserts under its row: see each name for the rows."""

from __future__ import annotations

import asyncio
import inspect
import threading

import numpy as np
import pytest

import atops.tops as tops
from atops.base.errors import AtopsError
from atops.runtime.executors.executor import HERE
from atops.tops import aio
from atops.tops.header.functions import FUNCTIONS
from tests.runtime.boards import PATIENCE, Latch, add_one
from tests.tops.pointers import device_pointer, read

INVALID, DEAD, NOT_READY = tops.topsErrorInvalidValue, tops.topsErrorInvalidHandle, tops.topsErrorNotReady
H2D, D2H = tops.topsMemcpyHostToDevice, tops.topsMemcpyDeviceToHost
COUNT = 256


def blocking():
    """Return a stream of the current device."""
    return tops.check(tops.topsStreamCreate())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("topsStreamCreateWithFlags", (None, 0)), ("topsStreamCreateWithFlags", (None, 1)),
        ("topsEventElapsedTime", (None, 1, 1)), ("topsMalloc", (None, 64)), ("topsGetDevice", (None,)),
    ],
)  # fmt: skip
def test_a3_f18_g3_k1_there_is_no_out_parameter_to_be_null(world, name, arguments):
    """Out-parameters are results: a place passed for one, null or not, is an argument too many."""
    assert getattr(tops, name)(*arguments) == (INVALID, None)


def test_a18_the_null_stream_follows_the_current_device(world):
    """What is enqueued on it counts as the current device's, and only as its."""
    latch = Latch(world.second)
    latch.hold(world.second.null_stream)
    assert tops.topsStreamQuery(None) == (0,)
    tops.check(tops.topsSetDevice(1))
    world.let_run()
    assert tops.topsStreamQuery(None) == (NOT_READY,)
    latch.open()
    assert tops.topsStreamSynchronize(None) == (0,)


@pytest.mark.parametrize("stream", [0, None, tops.topsStreamPerThread, blocking])
def test_a20_d10_every_kind_of_stream_is_taken_everywhere(world, stream):
    """Null, per thread and created: copies, fills, words, events, callbacks and launches."""
    stream = stream() if callable(stream) else stream
    pointer, event, called = device_pointer(world), tops.check(tops.topsEventCreate()), []
    host = np.arange(COUNT, dtype=np.uint8)
    answers = [
        tops.topsMemcpyAsync(pointer, host, COUNT, H2D, stream),
        tops.topsMemsetAsync(pointer, 7, 4, stream),
        tops.topsStreamWriteValue32Async(pointer + 8, 9, 0, stream),
        tops.topsStreamWaitValue32Async(pointer + 8, 9, tops.topsStreamWaitValueEq, stream),
        tops.topsEventRecord(event, stream),
        tops.topsStreamWaitEvent(stream, event, 0),
        tops.topsStreamAddCallback(stream, lambda *given: called.append(given), 0xFFFFFFFF, 0),
        tops.topsLaunchKernel(add_one, 1, 1, [world.device.empty(4, "int32")], 0, stream),
        tops.topsStreamSynchronize(stream),
        tops.topsStreamQuery(stream),
    ]
    assert answers == [(0,)] * len(answers)
    assert called == [(stream, tops.topsSuccess, 0xFFFFFFFF)]
    assert read(pointer, 12) == bytes([7, 7, 7, 7, 4, 5, 6, 7, 9, 0, 0, 0])


def test_b15_b17_synchronised_is_done(world):
    """An empty stream at once; one with work when that is over, and then a query says so."""
    stream, pointer = blocking(), device_pointer(world)
    assert tops.topsStreamSynchronize(stream) == (0,)
    for value in range(50):
        tops.check(tops.topsMemsetAsync(pointer, value, 64, stream))
    assert tops.topsStreamSynchronize(stream) == (0,)
    assert tops.topsStreamQuery(stream) == (0,)
    assert read(pointer, 64) == bytes([49]) * 64


def test_d11_kernel_host_kernel(world):
    """A callback that holds the stream sees what the kernel before it stored, and the one after it comes later."""
    stream, pointer, seen = blocking(), device_pointer(world), []
    array, host = world.device.empty(16, "int32"), np.zeros(16, np.int32)
    tops.check(tops.topsMemsetAsync(array.address, 0, 64, stream))
    tops.check(tops.topsLaunchKernel(add_one, 1, 1, [array], 0, stream))

    def look(*_):
        seen.append((tops.topsMemcpyAsync(pointer, host, 64, H2D, None)[0], HERE.role))
        seen.append(bytes(array.allocation.view[array.offset : array.offset + 64]))

    tops.check(tops.topsStreamAddCallback(stream, look, None, tops.topsStreamCallbackBlocking))
    tops.check(tops.topsLaunchKernel(add_one, 1, 1, [array], 0, stream))
    tops.check(tops.topsStreamSynchronize(stream))
    assert seen[1] == np.ones(16, np.int32).tobytes()
    assert read(array.address, 64) == np.full(16, 2, np.int32).tobytes()


def test_e6_e24_a_producer_and_a_stream_that_waits_for_its_word(world):
    """The consumer stands until the word behind two copies is 1, and passes straight through when it is there."""
    a, b, flag = device_pointer(world), device_pointer(world), device_pointer(world)
    tops.check(tops.topsMemset(flag, 0, 4))
    tops.check(tops.topsDeviceSynchronize())
    consumer, producer = (tops.check(tops.topsStreamCreateWithFlags(tops.topsStreamNonBlocking)) for _ in range(2))
    left, right = np.arange(64, dtype=np.int32), np.arange(64, dtype=np.int32) * 3
    for wait in (tops.topsStreamWaitValueEq, tops.topsStreamWaitValueGte):
        tops.check(tops.topsStreamWaitValue32Async(flag, 1, wait, consumer))
        tops.check(tops.topsMemoryReduceAsync(a, b, b, tops.REDUCE_SUM, tops.INT32, 64, consumer))
        if wait == tops.topsStreamWaitValueEq:
            world.let_run()
            assert tops.topsStreamQuery(consumer) == (NOT_READY,)
            tops.check(tops.topsMemcpyAsync(a, left, 256, H2D, producer))
            tops.check(tops.topsMemcpyAsync(b, right, 256, H2D, producer))
            tops.check(tops.topsStreamWriteValue32Async(flag, 1, 0, producer))
        tops.check(tops.topsStreamSynchronize(consumer))
    assert read(b, 256) == (left * 2 + right).tobytes()


def test_e27_a_wait_of_the_host_blocks_no_loop(world):
    """Awaited, other tasks go on meanwhile; it ends by a store, and can be given up."""
    flag = device_pointer(world)
    tops.check(tops.topsMemset(flag, 0, 4))
    tops.check(tops.topsDeviceSynchronize())

    async def main():
        waits = [asyncio.create_task(aio.topsStreamWaitValue32(flag, 1, 1)) for _ in range(2)]
        for _ in range(3):
            await asyncio.sleep(0)
        assert not any(wait.done() for wait in waits)
        waits[0].cancel()
        tops.check(tops.topsStreamWriteValue32(flag, 1, 0))
        return await asyncio.gather(*waits, return_exceptions=True)

    cancelled, ended = asyncio.run(main())
    assert isinstance(cancelled, asyncio.CancelledError) and ended == (0,)


@pytest.mark.parametrize("place", [0, 1])
def test_f19_f22_elapsed_time_of_null_and_across_devices(world, place):
    """InvalidHandle for a null event in either place, and for two devices; the last error says so."""
    events = []
    for device in (0, 1):
        tops.check(tops.topsSetDevice(device))
        events.append(tops.check(tops.topsEventCreate()))
        tops.check(tops.topsEventRecord(events[-1], None))
        tops.check(tops.topsDeviceSynchronize())
    given = [events[0], events[0]]
    assert tops.topsEventElapsedTime(*given) == (0, 0.0)
    for wrong in (None, 0, events[1]):
        given[place] = wrong
        assert tops.topsEventElapsedTime(*given) == (DEAD, None)
        assert tops.topsGetLastError() == (DEAD,)


def test_f27_events_of_several_threads_and_devices(world):
    """Each thread records on a device of its own choice, and each query is Success in the end."""

    def work(device):
        tops.check(tops.topsSetDevice(device))
        stream, event = blocking(), tops.check(tops.topsEventCreate())
        pointer = tops.check(tops.topsMalloc(4096))
        for _ in range(20):
            tops.check(tops.topsMemsetAsync(pointer, 1, 4096, stream))
            tops.check(tops.topsEventRecord(event, stream))
        return tops.topsEventSynchronize(event), tops.topsEventQuery(event)

    threads = [world.thread(lambda device=each % 2: work(device)) for each in range(6)]
    for thread, _ in threads:
        thread.join(PATIENCE)
    assert [results for _, results in threads] == [[((0,), (0,))]] * 6


def test_g31_no_device_pointer_after_unregister(world):
    """The host memory is unknown then, and its device pointer dead."""
    host = np.zeros(64, np.uint8)
    tops.check(tops.topsHostRegister(host, 64, 0))
    pointer = tops.check(tops.topsHostGetDevicePointer(host, 0))
    tops.check(tops.topsHostUnregister(host))
    assert tops.topsHostGetDevicePointer(host, 0) == (INVALID, None)
    assert tops.topsMemset(pointer, 1, 4) == (INVALID,)


def test_k11_a_reset_ends_pointers_and_handles(world):
    """Memory, streams and events are gone, for other threads too; new ones work."""
    pointer, stream, event = device_pointer(world), blocking(), tops.check(tops.topsEventCreate())
    tops.check(tops.topsDeviceReset())
    thread, answers = world.thread(lambda: (tops.topsFree(pointer), tops.topsStreamQuery(stream)))
    thread.join(PATIENCE)
    assert answers == [((tops.topsErrorInvalidDevicePointer,), (DEAD,))]
    assert tops.topsFree(pointer) == (tops.topsErrorInvalidDevicePointer,)
    assert (tops.topsEventQuery(event), tops.topsStreamDestroy(stream)) == ((DEAD,), (DEAD,))
    assert tops.topsFree(tops.check(tops.topsMalloc(64))) == (0,)


@pytest.mark.parametrize(
    ("grid", "block", "code"),
    [
        (0, 1, INVALID), (1, 0, INVALID), ((1, 1, 0), 1, INVALID), (1, 1 << 16, INVALID),
        (1 << 10, 1, tops.topsErrorCooperativeLaunchTooLarge),
    ],
)  # fmt: skip
def test_l24_l25_cooperative_dimensions(world, grid, block, code):
    """The text has InvalidValue for dimensions, and a code of its own for too many blocks."""
    array = world.device.empty(4, "int32")
    assert tops.topsLaunchCooperativeKernel(add_one, grid, block, [array], 0, None) == (code,)


def test_m1_every_function_answers_a_tuple_that_begins_with_a_code(world):
    """Called with nothing, or with something wrong, none raises, and each has as many results as its row."""
    for name, function in FUNCTIONS.items():
        if name == "topsDeviceReset":
            continue
        call = getattr(tops, name)
        answer = call(*(object() for _ in inspect.signature(call).parameters))
        assert type(answer) is tuple and len(answer) == 1 + function.outs, name
        kind = tops.topsrtcResult if name.startswith("topsrtc") and function.outs != 1 else object
        assert isinstance(answer[0], kind | tops.topsError_t) or name.startswith("topsrtc"), name


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("topsDeviceGetAttribute", ("topsDeviceAttributeClockRate", 0)), ("topsMemcpy", (None, None, 0, "1")),
        ("topsPointerGetAttribute", (1.0, 4096)), ("topsEventCreateWithFlags", (2.0,)),
    ],
)  # fmt: skip
def test_m2_a_wrong_enumeration_is_a_code(world, name, arguments):
    """hip-python raises TypeError; here nothing raises, and `check` does with the argument's name."""
    answer = getattr(tops, name)(*arguments)
    assert answer[0] in (INVALID, tops.topsErrorInvalidMemcpyDirection)
    with pytest.raises(AtopsError, match=name):
        tops.check(answer)


def test_m9_each_thread_begins_at_the_first_device(world):
    """A choice of one thread is no other's."""
    tops.check(tops.topsSetDevice(1))
    thread, answers = world.thread(tops.topsGetDevice)
    thread.join(PATIENCE)
    assert answers == [(0, 0)] and tops.topsGetDevice() == (0, 1)
    assert threading.current_thread() is not thread
