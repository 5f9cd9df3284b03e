"""What programs of HIP rely on: host pointers, arrays, words, masks, callbacks, pools, errors, the other facade."""

from __future__ import annotations

import ctypes
import struct
import threading
from dataclasses import fields
from types import SimpleNamespace

import anyio
import numpy as np
import pytest

import atops
import atops.tops as tops
from atops import kernels as k
from atops.base.errors import InvalidType, InvalidValue
from atops.bridge.handles import stream_of
from atops.bridge.structs import Struct
from atops.hip import aio, hip
from atops.hip.header import structs
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import board_of
from tests.every import every
from tests.runtime.boards import PATIENCE, Latch, board

E = hip.hipError_t
D2H, H2D = hip.hipMemcpyKind.hipMemcpyDeviceToHost, hip.hipMemcpyKind.hipMemcpyHostToDevice
USED = hip.hipMemPoolAttr.hipMemPoolAttrUsedMemCurrent
check = hip.check


def stream() -> int:
    """Return a stream that takes no part in null-stream order."""
    return check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))


def test_host_pointers(world):
    """Arrays, ctypes objects, byref, pointers, void pointers and bare addresses are host memory."""
    numbers = np.arange(4, dtype=np.int32)
    memory = check(hip.hipMalloc(16))
    for source in (numbers, bytearray(numbers), ctypes.c_void_p(numbers.ctypes.data), numbers.ctypes.data):
        check(hip.hipMemset(memory, 0, 16))
        check(hip.hipMemcpy(memory, source, 16, H2D))
        into = (ctypes.c_int * 4)()
        for target in (into, ctypes.byref(into), ctypes.pointer(into), ctypes.addressof(into)):
            ctypes.memset(into, 0, 16)
            check(hip.hipMemcpy(target, memory, 16, D2H))
            assert list(into) == [0, 1, 2, 3]
    assert hip.hipMemcpy(memory, 4096, 16, H2D) == (E.hipErrorInvalidValue,)


def test_device_array(world):
    """A pointer to device memory is an int with a type and a shape; a part is a pointer into it."""
    made = check(hip.hipMalloc(96))
    array = made.configure(typestr="float32", shape=(4, 6))
    assert array is made and (array.shape, array.rank, array.size, array.itemsize) == ((4, 6), 2, 24, 4)
    assert array[1] == int(array) + 24 and array[1].shape == (6,)
    assert array[1, 2:4] == int(array) + 32 and array[1, 2].nbytes == 4 and array[2:].shape == (2, 6)
    assert array.__cuda_array_interface__["data"] == (int(array), False)
    assert array.as_c_void_p().value == int(array) and array.createRef() == array and not array.is_ptr_null
    with pytest.raises(InvalidValue, match="contiguous"):
        array[:, 1]
    with pytest.raises(InvalidValue, match="96"):
        array.configure(shape=(5, 6))
    assert check(hip.hipMalloc(0)) == 0 and hip.hipFree(None) == (E.hipSuccess,)


class OfAnotherLibrary:
    """An array on a device as other libraries have it."""

    def __init__(self, address: int) -> None:
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (16,), "typestr": "|u1", "version": 3}


@k.kernel
def negate(x: k.Span[np.uint8]) -> None:
    """Negate the first byte."""
    x[0] = 255 - int(x[0])


def test_pointers_and_handles_of_each_form(world):
    """A `void *` of ctypes stands for its value wherever a pointer or a handle does, an array for its address."""
    void = ctypes.c_void_p
    for form in (void, OfAnotherLibrary, np.uint64):
        memory = check(hip.hipMalloc(16))
        pointer, found = form(int(memory)), np.zeros(16, np.uint8)
        check(hip.hipMemset(dst=pointer, value=7, sizeBytes=16))
        check(anyio.run(aio.hipMemcpy, found, pointer, 16, D2H))
        assert (found == 7).all() and check(hip.hipPointerGetAttributes(pointer)).devicePointer == memory
        check(hip.hipMemcpyHtoD(pointer, np.full(16, 3, np.uint8), 16))
        check(hip.hipLaunchKernel(negate, 1, 1, [pointer], 0, None))
        check(hip.hipStreamWriteValue32(void(), memory[4], 5, 0))
        check(hip.hipMemcpyAsync(found, pointer, 16, D2H, void(None)))
        assert found.tolist() == [252, 3, 3, 3, 5, 0, 0, 0] + [3] * 8
        check(hip.hipFree(pointer))
    handle, event, pool = void(stream()), void(check(hip.hipEventCreate())), check(hip.hipDeviceGetDefaultMemPool(0))
    check(hip.hipEventRecord(event, handle))
    check(hip.hipFreeAsync(void(check(hip.hipMallocFromPoolAsync(64, void(pool), handle))), handle))
    told = []
    check(hip.hipLaunchHostFunc(handle, told.append, event))  # what is passed on stays as it is
    check(hip.hipStreamSynchronize(handle))
    assert told == [event] and hip.hipEventQuery(event) == hip.hipEventDestroy(event) == (E.hipSuccess,)
    pinned = check(hip.hipHostMalloc(64, 0))
    assert hip.hipHostFree(void(pinned)) == (E.hipSuccess,) and hip.hipFree(void()) == (E.hipSuccess,)
    assert hip.hipMemset(void(), 0, 1) == hip.hipMemset(OfAnotherLibrary(0), 0, 1) == (E.hipErrorInvalidValue,)
    assert hip.hipStreamQuery(void(5)) == (E.hipErrorInvalidHandle,)


def test_words(world):
    """Comparisons are unsigned and under the mask; Nor is the complement over all bits."""
    memory = check(hip.hipMalloc(8))
    for bits, wait, write in (
        (32, hip.hipStreamWaitValue32, hip.hipStreamWriteValue32),
        (64, hip.hipStreamWaitValue64, hip.hipStreamWriteValue64),
    ):
        full = (1 << bits) - 1
        for start, value, flags, mask, end in (
            (0, 1 << bits - 1, hip.hipStreamWaitValueGte, full, full),
            (full, 5, hip.hipStreamWaitValueEq, 0xF, 0xF5),
            (0xF0, 0xFF, hip.hipStreamWaitValueAnd, 0xF, 0xF1),
            (full, full, hip.hipStreamWaitValueNor, full, 0),
        ):
            waits, other = stream(), stream()
            check(write(other, memory, start, 0))
            check(hip.hipStreamSynchronize(other))
            if flags == hip.hipStreamWaitValueNor:
                value = full >> 1  # the top bit is free once the word is 0
            check(wait(waits, memory, value, flags, mask))
            assert hip.hipStreamQuery(waits) == (E.hipErrorNotReady,), (bits, flags)
            check(write(other, memory, end, 7))
            stream_of(waits).sync(PATIENCE)


def test_compute_unit_masks(world):
    """A mask is stored with zeros behind the last SIP; without one all SIPs are in it."""
    into = (ctypes.c_uint32 * 3)(7, 7, 7)
    check(hip.hipExtStreamGetCUMask(stream(), 3, into))
    assert list(into) == [0xFFFFFF, 0, 0]
    some = check(hip.hipExtStreamCreateWithCUMask(2, np.array([0xFF00F00F, 0xFFFFFFFF], np.uint32)))
    check(hip.hipExtStreamGetCUMask(some, 3, into))
    assert list(into) == [0x00F00F & 0xFFFFFF, 0, 0]
    assert (stream_of(some).cluster_mask, stream_of(some).sip_mask) == (3, 0xF)


def test_callbacks_hold_their_stream_and_tell_the_failure(world):
    """A callback gets stream, status and data; what comes after it waits. Every priority is in the range."""
    handle, told = stream(), []
    check(hip.hipStreamAddCallback(handle, lambda *given: told.append(given), "data", 0))
    check(hip.hipLaunchHostFunc(handle, told.append, 3))
    stream_of(handle).sync(PATIENCE)
    assert told == [(handle, E.hipSuccess, "data"), 3]
    latch = Latch(world.device)
    latch.hold(stream_of(handle))
    called = threading.Event()

    def tell(_: object, status: object, data: object) -> None:
        told.append(status)
        called.set()

    check(hip.hipStreamAddCallback(handle, tell, None, 0))
    stream_of(handle).abort()
    latch.open()
    world.let_run()
    assert called.wait(PATIENCE)  # on a thread for callbacks
    assert isinstance(told[-1], hip.hipError_t) and told[-1] is not E.hipSuccess
    urgent = check(hip.hipStreamCreateWithPriority(0, -99))
    assert hip.hipStreamGetPriority(urgent) == (E.hipSuccess, -2)
    assert hip.hipStreamGetFlags(urgent) == (E.hipSuccess, 0)


def test_pools(world):
    """Memory outlives its stream, hipFree gives it back too, and a destroyed pool's memory stays until it is freed."""
    pool, used = check(hip.hipDeviceGetDefaultMemPool(0)), ctypes.c_uint64()
    assert pool == check(hip.hipDeviceGetMemPool(0))
    handle = stream()
    first, second = (check(hip.hipMallocAsync(1000, handle)) for _ in range(2))
    check(hip.hipStreamDestroy(handle))
    check(hip.hipMemPoolGetAttribute(pool, USED, ctypes.byref(used)))
    assert used.value == 2000
    check(hip.hipFree(first))
    check(hip.hipFreeAsync(second, None))
    check(hip.hipDeviceSynchronize())
    check(hip.hipMemPoolGetAttribute(pool, USED, used))
    assert used.value == 0
    assert hip.hipFreeAsync(second, None) == hip.hipFree(first) == (E.hipErrorInvalidValue,)
    for attr in hip.hipMemPoolAttr.hipMemPoolReuseAllowOpportunistic, hip.hipMemPoolAttr.hipMemPoolAttrReleaseThreshold:
        check(hip.hipMemPoolSetAttribute(pool, attr, np.zeros(1, np.uint64)))
        got = ctypes.c_uint64(9)
        check(hip.hipMemPoolGetAttribute(pool, attr, got))
        assert got.value == 0
    props = hip.hipMemPoolProps(1, 0, hip.hipMemLocation(1, 0))
    own = check(hip.hipMemPoolCreate(props))
    check(hip.hipDeviceSetMemPool(0, own))
    memory = check(hip.hipMallocAsync(64, None))
    check(hip.hipMemPoolDestroy(own))
    assert hip.hipDeviceGetMemPool(0) == (E.hipSuccess, pool)
    assert hip.hipMemPoolDestroy(own) == hip.hipMemPoolTrimTo(own, 0) == (E.hipErrorInvalidValue,)
    check(hip.hipMemset(memory, 1, 64))
    check(hip.hipFreeAsync(memory, None))


def test_last_error(world):
    """HipGetLastError resets, hipPeekAtLastError does not, NotReady is no failure; TOPS has a last error of its own."""
    assert hip.hipFree(3) == (E.hipErrorInvalidValue,)
    check(hip.hipInit(0))
    assert hip.hipPeekAtLastError() == hip.hipPeekAtLastError() == (E.hipErrorInvalidValue,)
    assert tops.topsPeekAtLastError() == (tops.topsSuccess,)
    assert hip.hipGetLastError() == (E.hipErrorInvalidValue,)
    assert hip.hipGetLastError() == (E.hipSuccess,)
    assert hip.hipGetErrorName(E.hipErrorNotReady) == (E.hipSuccess, b"hipErrorNotReady")
    assert b"memory" in hip.hipGetErrorString(E.hipErrorOutOfMemory)[1]
    with pytest.raises(InvalidValue, match="hipHostRegister"):
        check(hip.hipHostUnregister(None))


def test_the_facades_share_their_objects(world):
    """Streams, events and memory of one are those of the other, and of the object API."""
    handle = stream()
    assert tops.topsStreamQuery(handle) == (tops.topsSuccess,)
    made = tops.check(tops.topsEventCreate())
    check(hip.hipEventRecord(made, handle))
    stream_of(handle).wait(stream_of(handle).record())
    check(hip.hipEventSynchronize(made))
    memory = check(hip.hipMalloc(8))
    assert tops.topsFree(memory) == (tops.topsSuccess,)
    with atops.Device(0).create_stream() as other:
        check(hip.hipStreamSynchronize(other))


def test_pointers_are_made_of_what_hip_python_takes(world):
    """Of null, numbers, ctypes, host memory and arrays of a device; with an offset, and shape and type where known."""
    memory = check(hip.hipMalloc(24)).configure(typestr="float32", shape=(2, 3))
    host = np.zeros(4)
    for given, address in (
        (None, 0), (64, 64), (ctypes.c_void_p(64), 64), (ctypes.c_void_p(), 0), (memory, memory),
        (host, host.ctypes.data), (memory.as_c_void_p(), memory),
    ):  # fmt: skip
        made = hip.Pointer.fromObj(given)
        assert int(made) == address and made.is_ptr_null == (not address)
    assert hip.Pointer.fromObj(memory) is memory and int(hip.Pointer(64)[8]) == 72
    of_objects = atops.Device(0).empty(4)
    assert int(hip.Pointer.fromObj(of_objects)) == of_objects.address
    foreign = SimpleNamespace(__cuda_array_interface__=memory.__cuda_array_interface__)
    array = hip.DeviceArray.fromObj(foreign)
    assert (array, array.shape, array.typestr, array.nbytes) == (memory, (2, 3), "<f4", 24)
    assert (array.is_read_only, array.stream_as_int) == (False, 0)
    for other in "text", object(), 1.5:
        with pytest.raises(InvalidType):
            hip.Pointer.fromObj(other)


@every("memory", ["mapped", "managed"])
def test_a_copy_of_memory_that_lies_in_both_places_may_be_called_by_any_kind(world, memory):
    """AML's own test of areas asks for it; a contradiction between other pointers is told, and so is no kind."""
    if memory == "mapped":
        host = check(hip.hipHostMalloc(8, hip.hipHostMallocMapped))
        pointer = check(hip.hipHostGetDevicePointer(host, 0))
    else:
        pointer = host = check(hip.hipMallocManaged(8))
    ctypes.memset(host, 5, 8)
    into, handle = np.zeros(8, np.uint8), stream()
    for kind in hip.hipMemcpyKind:
        into[:] = 0
        check(hip.hipMemcpy(into, pointer, 8, kind))
        assert list(into) == [5] * 8, kind
        check(hip.hipMemcpyAsync(pointer, into, 8, kind, handle))
        check(hip.hipMemcpyWithStream(pointer, into, 8, kind, handle))
    for kind in 9, np.ones(2), None:
        assert hip.hipMemcpy(into, pointer, 8, kind) == (E.hipErrorInvalidMemcpyDirection,)
    plain = check(hip.hipMalloc(8))
    assert hip.hipMemcpy(into, plain, 8, H2D) == (E.hipErrorInvalidMemcpyDirection,)


def test_no_device(world):
    """On a board without devices calls answer NoDevice, and those that name a device InvalidDevice."""
    none = ("hipGetDeviceCount", "hipGetDevice", "hipStreamCreate", "hipEventCreate", "hipMemGetInfo",
            "hipDeviceSynchronize", "hipDeviceReset", "hipGetDeviceFlags")  # fmt: skip
    with board(devices=0) as empty:
        enter(empty, board_of(empty))
        try:
            answers = {
                *(getattr(hip, name)()[0] for name in none), hip.hipMalloc(8)[0], hip.hipMallocAsync(8, None)[0],
                hip.hipHostMalloc(8, 0)[0], hip.hipMallocManaged(8)[0], hip.hipStreamQuery(None)[0],
            }  # fmt: skip
            assert answers == {E.hipErrorNoDevice}
            assert hip.hipSetDevice(0) == (E.hipErrorInvalidDevice,)
            assert hip.hipDeviceGetDefaultMemPool(0) == hip.hipDeviceGet(0) == (E.hipErrorInvalidDevice, None)
        finally:
            leave(empty)


def test_properties_are_those_of_the_chip(world):
    """The struct is filled in place; attributes say the same."""
    told = hip.hipDeviceProp_t()
    check(hip.hipGetDeviceProperties(told, 1))
    assert (told.gcnArchName, told.warpSize, told.multiProcessorCount, told.maxThreadsPerBlock) == (b"gcu300", 1, 2, 12)
    assert told.arch.has3dGrid == 1 and told.arch.hasWarpVote == 0 and "warpSize" in told.PROPERTIES()
    A = hip.hipDeviceAttribute_t
    for attr, value in (
        (A.hipDeviceAttributeWarpSize, 1), (A.hipDeviceAttributeMaxBlockDimX, 12),
        (A.hipDeviceAttributeMultiprocessorCount, 2), (A.hipDeviceAttributePhysicalMultiProcessorCount, 24),
        (A.hipDeviceAttributeMemoryPoolsSupported, 1), (A.hipDeviceAttributeMaxTexture1DWidth, 0),
        (A.hipDeviceAttributeTotalGlobalMem, (1 << 31) - 1), (A.hipDeviceAttributePciBusId, told.pciBusID),
    ):  # fmt: skip
        assert hip.hipDeviceGetAttribute(attr, 1) == (E.hipSuccess, value), attr


def test_structs_have_the_layout_of_c():
    """The last field ends where the struct does, and the bytes are read back."""
    for name in structs.__all__:
        made = getattr(structs, name)()
        if not isinstance(made, Struct):
            continue  # of launches: its members are what Python has for pointers
        last = list(made.layout())[-1]
        end = last.offset + struct.calcsize(f"<{last.type}")
        assert end <= made.SIZE < end + 8, name
        assert type(made).from_bytes(made.to_bytes()).to_bytes() == made.to_bytes()
        assert fields(made)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_twins(world, backend):
    """A twin waits on the loop."""

    async def main() -> None:
        handle, memory, into = stream(), check(hip.hipMalloc(4)), np.zeros(4, np.uint8)
        check(hip.hipMemsetAsync(memory, 7, 4, handle))
        assert await aio.hipStreamSynchronize(handle) == (E.hipSuccess,)
        assert await aio.hipMemcpy(into, memory, 4, D2H) == (E.hipSuccess,)
        assert list(into) == [7] * 4
        assert await aio.hipFree(memory) == (E.hipSuccess,)

    anyio.run(main, backend=backend)
