"""What users of HIP rely on, row by row: pending work, words, times, pools, launches, runtime compilation."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from atops.bridge.handles import stream_of
from atops.device.native.toolchain import find_toolchain
from atops.hip import hip, hiprtc
from tests.runtime.boards import PATIENCE, Latch

E, A, check = hip.hipError_t, hip.hipMemPoolAttr, hip.check
OK, INVALID, HANDLE, NOT_READY = E.hipSuccess, E.hipErrorInvalidValue, E.hipErrorInvalidHandle, E.hipErrorNotReady
OWN = hip.hipStreamPerThread
MB = 1 << 20
COMPILES = pytest.mark.skipif(find_toolchain() is None, reason="no compiler for C++")


def blocking() -> int:
    """Return a stream that takes part in null-stream order."""
    return check(hip.hipStreamCreate())


def free() -> int:
    """Return one that does not."""
    return check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))


@pytest.fixture
def hold(world) -> Iterator[Callable[[int | None], Latch]]:
    """Hold a stream until the latch that is returned opens; all are opened in the end."""
    latches = []

    def held(stream: int | None) -> Latch:
        latch = Latch(world.device)
        latch.hold(stream_of(stream))
        latches.append(latch)
        return latch

    yield held
    for latch in latches:
        latch.open()


# ---- streams


def test_a8_a9_a10_a15_a16_a17_what_streams_say_of_themselves(world):
    """Priorities are clamped to their range; null and per-thread streams have flags, priority and device."""
    low, high = check(hip.hipDeviceGetStreamPriorityRange())
    assert low > high
    for asked, has in ((high, high), (low, low), (low + 1, low), (high - 1, high), (2**31 - 1, low), (-(2**31), high)):
        made = check(hip.hipStreamCreateWithPriority(hip.hipStreamNonBlocking, asked))
        assert (hip.hipStreamGetPriority(made), hip.hipStreamGetFlags(made)) == ((OK, has), (OK, 1))
    assert [hip.hipStreamCreateWithPriority(0xFFFFFFFF, low)[0], hip.hipStreamCreateWithFlags(0xFF)[0]] == [INVALID] * 2
    first = blocking()
    for device in (0, 1):
        check(hip.hipSetDevice(device))
        for stream in (None, 0, OWN, blocking()):
            assert hip.hipStreamGetDevice(stream) == (OK, device)
            assert hip.hipStreamGetPriority(stream) == hip.hipStreamGetFlags(stream) == (OK, 0)
        assert hip.hipStreamGetDevice(first) == (OK, 0)
    assert hip.hipStreamGetFlags(first, None) == hip.hipStreamGetDevice(first, None) == (INVALID, None)


@pytest.mark.parametrize(
    ("busy", "waits"),
    [
        (blocking, {None}), (free, set()), (lambda: OWN, {None}), (lambda: None, set()),
    ],
    ids=["blocking", "free", "per thread", "null"],
)  # fmt: skip
def test_b11_b12_b18_what_waits_for_what(world, hold, busy, waits):
    """The null stream counts the work of blocking streams and of the thread's own as pending; no other stream does."""
    stream, others = busy(), [None, OWN, blocking(), free()]
    latch = hold(stream)
    for other in others:
        pending = other == stream or other in waits
        assert hip.hipStreamQuery(other) == ((NOT_READY,) if pending else (OK,))
    latch.open()
    check(hip.hipStreamSynchronize(stream))
    check(hip.hipDeviceSynchronize())
    assert {hip.hipStreamQuery(each) for each in (stream, *others)} == {(OK,)}
    assert hip.hipGetLastError() == (OK,)


@pytest.mark.parametrize("stream", [lambda: None, lambda: OWN, blocking], ids=["null", "per thread", "created"])
def test_c1_c2_d1_d9_d10_events_and_callbacks_of_every_stream(world, stream):
    """Bad events, flags and callbacks are refused; a good one gets what it was given."""
    handle, event, told = stream(), check(hip.hipEventCreate()), []
    assert hip.hipStreamWaitEvent(handle, None, 0) == (HANDLE,)
    assert hip.hipStreamWaitEvent(handle, event, 0xFFFFFFFF) == (INVALID,)
    assert hip.hipStreamAddCallback(handle, None, None, 0) == hip.hipLaunchHostFunc(handle, None, None) == (INVALID,)
    assert hip.hipStreamAddCallback(handle, print, None, 10) == (INVALID,)
    for data in (0xFFFFFFFF, None):
        check(hip.hipStreamAddCallback(handle, lambda *given: told.append(given), data, 0))
    check(hip.hipLaunchHostFunc(handle, told.append, "last"))
    stream_of(handle).sync(PATIENCE)
    assert told == [(handle, OK, 0xFFFFFFFF), (handle, OK, None), "last"]


def test_d8_masks_of_compute_units(world):
    """More bits than SIPs are ignored; a mask without a SIP is all of them; the stream is an ordinary one."""
    every = np.zeros(6, np.uint32)
    check(hip.hipExtStreamGetCUMask(0, 6, every))
    for mask in ([0xFFFFFFFF], [0], [0, 0], (ctypes.c_uint32 * 2)(0xFFFFFFFF, 7)):
        made, read, told = check(hip.hipExtStreamCreateWithCUMask(len(mask), mask)), np.ones(6, np.uint32), []
        check(hip.hipExtStreamGetCUMask(made, 6, read))
        assert (read == every).all()
        assert hip.hipStreamGetFlags(made) == (OK, hip.hipStreamDefault)
        check(hip.hipStreamAddCallback(made, lambda *given: told.append(given), None, 0))  # noqa: B023  # called now
        stream_of(made).sync(PATIENCE)
        assert len(told) == 1


# The condition, its mask, the value; a word that holds the stream, and one that lets it go on.
WORDS = {
    32: [
        (0, 0xF, 0x4, 0x3, 0x6), (1, 0xFFFF, 1, 0x0FFF0000, 0x0FFF0001), (1, 0xFF, 0x11, 0x25, 0x11),
        (2, 0xFF, 0xF4A, 0xF35, 0x02), (1, None, 0x7FFFFFFF, 0x7FFF0000, 0x7FFFFFFF),
        (0, None, 0x7FFF0001, 0x7FFF0000, 0x7FFF0010), (2, None, 0x70F0F0F0, 0x0F0F0F0F, 0x1F0F0F0F),
        (3, None, 0x7AAAAAAA, 0x85555555, 0x9AAAAAAA),
    ],
    64: [
        (0, (1 << 48) - 1, 0x7FFF0001, 0x7FFF00007FFF0000, 0x7FFF0001), (0, 0xF, 0x4, 0x3, 0x6),
        (1, (1 << 48) - 1, 0x0FFF0001, 0x7FFF00000FFF0000, 0x7F0000000FFF0001), (1, 0xFF, 0x11, 0x25, 0x11),
        (2, 0xFF, 0xF4A, 0xF35, 0x02), (0, None, 0x7FFFFFFFFFFF0001, 0x7FFFFFFFFFFF0000, 0x7FFFFFFFFFFF0001),
        (1, None, (1 << 63) - 1, 0x7FFFFFFF0FFF0000, (1 << 63) - 1),
        (2, None, 0x70F0F0F0F0F0F0F0, 0x0F0F0F0F0F0F0F0F, 0x1F0F0F0F0F0F0F0F),
        (3, None, 0x4724724747247247, 0xBDDBDDBDBDDBDDBD, 0xBDDBDDBDBDDBDDB3),
    ],
}  # fmt: skip


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("kind", ["host", "mapped", "device"])
def test_e1_e7_e10_e11_e14_to_e22_words(world, bits, kind):
    """Each condition holds and lets go in memory of each kind; the host stores a word where it can."""
    write, wait = getattr(hip, f"hipStreamWriteValue{bits}"), getattr(hip, f"hipStreamWaitValue{bits}")
    words, nbytes = np.zeros(1024, f"u{bits // 8}"), bits // 8
    check(hip.hipHostRegister(words, words.nbytes, 0))
    base = {"host": words.ctypes.data, "mapped": check(hip.hipHostGetDevicePointer(words, 0)),
            "device": check(hip.hipMalloc(words.nbytes))}[kind]  # fmt: skip
    side, waiting = free(), free()

    def store(place: int, value: int) -> None:
        check(write(side, base + place * nbytes, value, 0))
        check(hip.hipStreamSynchronize(side))

    for place in (0, 1, 31, 1023):
        store(place, 0x70F0F0FF)
        found = np.zeros(1, words.dtype)
        check(hip.hipMemcpy(found, base + place * nbytes, nbytes, hip.hipMemcpyKind.hipMemcpyDefault))
        assert found[0] == 0x70F0F0FF
    for flags, mask, value, holds, goes in WORDS[bits]:
        store(3, holds)
        check(wait(waiting, base + 3 * nbytes, value, flags, *([] if mask is None else [mask])))
        assert hip.hipStreamQuery(waiting) == (NOT_READY,), (flags, mask)
        store(3, goes)
        stream_of(waiting).sync(PATIENCE)
        check(wait(waiting, base + 3 * nbytes, value, flags, *([] if mask is None else [mask])))  # lets it through
        stream_of(waiting).sync(PATIENCE)
    if kind != "device":  # the host's own store lets it go on, too
        store(3, 0)
        check(wait(waiting, base + 3 * nbytes, 5, hip.hipStreamWaitValueEq))
        words[3] = 5
        stream_of(waiting).sync(PATIENCE)
    assert write(waiting, None, 0, 0) == wait(waiting, None, 0, 0) == wait(waiting, base, 0, -1) == (INVALID,)
    assert write(0xFFFF, base, 0, 0) == wait(0xFFFF, base, 0, 0) == (HANDLE,)
    check(hip.hipHostUnregister(words))


# ---- events


def test_f18_f19_f20_f21_f22_f24_elapsed_time(world, hold):
    """Zero to itself, positive, negative; not ready; and each reason why there is none."""
    stream, elapsed = blocking(), hip.hipEventElapsedTime
    start, stop, never = (check(hip.hipEventCreate()) for _ in range(3))
    silent = check(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
    for event in (silent, start):
        check(hip.hipEventRecord(event, stream))
    latch = hold(stream)
    check(hip.hipEventRecord(stop, stream))
    check(hip.hipEventSynchronize(start))
    assert elapsed(start, start) == (OK, 0.0)
    assert {elapsed(*pair) for pair in ((stop, stop), (start, stop), (stop, start))} == {(NOT_READY, None)}
    for pair in ((silent, stop), (start, silent), (None, stop), (start, None), (never, stop), (start, never)):
        assert elapsed(*pair) == (HANDLE, None)
        assert hip.hipGetLastError() == (HANDLE,)
    check(hip.hipEventSynchronize(never))
    assert hip.hipEventQuery(never) == (OK,)
    latch.open()
    check(hip.hipStreamSynchronize(stream))
    assert check(elapsed(start, stop)) > 0 > check(elapsed(stop, start))
    check(hip.hipSetDevice(1))
    other = check(hip.hipEventCreate())
    check(hip.hipEventRecord(other, None))
    check(hip.hipEventSynchronize(other))
    assert elapsed(start, other) == (HANDLE, None)
    assert hip.hipEventRecord(start, None) == hip.hipEventRecord(None, None) == (HANDLE,)


def test_f2_f3_f4_f5_f8_flags_of_events_and_an_early_end(world, hold):
    """Which flags go together; an event may end before its work does."""
    good = (0, 1, 2, 6, hip.hipEventReleaseToDevice, hip.hipEventReleaseToSystem, hip.hipEventDisableSystemFence)
    for flags in good:
        check(hip.hipEventDestroy(check(hip.hipEventCreateWithFlags(flags))))
    for flags in (4, hip.hipEventReleaseToDevice | hip.hipEventReleaseToSystem, 0xC0000007, 0x08000000):
        assert hip.hipEventCreateWithFlags(flags) == (INVALID, None)
    stream = blocking()
    latch = hold(stream)
    event = check(hip.hipEventCreate())
    check(hip.hipEventRecord(event, stream))
    assert hip.hipEventQuery(event) == hip.hipStreamQuery(stream) == (NOT_READY,)
    check(hip.hipEventDestroy(event))
    assert hip.hipStreamQuery(stream) == (NOT_READY,)
    latch.open()
    check(hip.hipStreamSynchronize(stream))
    assert hip.hipEventDestroy(event) == hip.hipEventDestroy(None) == (HANDLE,)


# ---- pools


def pool_of(device: int = 0, **fields: Any) -> int:
    """Return a new pool."""
    return check(hip.hipMemPoolCreate(hip.hipMemPoolProps(1, 0, hip.hipMemLocation(1, device), **fields)))


def get(pool: int, attr: hip.hipMemPoolAttr) -> int:
    """Return an attribute of a pool."""
    value = ctypes.c_int(77) if attr < A.hipMemPoolAttrReleaseThreshold else ctypes.c_uint64(77)
    check(hip.hipMemPoolGetAttribute(pool, attr, ctypes.byref(value)))
    return value.value


def put(pool: int, attr: hip.hipMemPoolAttr, value: int) -> None:
    """Set an attribute of a pool."""
    check(hip.hipMemPoolSetAttribute(pool, attr, ctypes.byref(ctypes.c_uint64(value))))


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("kind", ["default", "created"])
def test_i2_i3_i4_i15_i17_i33_i34_attributes_access_and_current_pool(world, device, kind):
    """What a pool begins with, what can be set, which device may use it, and which is the current one."""
    default = check(hip.hipDeviceGetDefaultMemPool(device))
    pool = default if kind == "default" else pool_of(device)
    assert check(hip.hipDeviceGetMemPool(device)) == default
    for attr in (A(1), A(2), A(3)):
        assert get(pool, attr) == 1
        put(pool, attr, 0)
        assert get(pool, attr) == 0
    assert get(pool, A.hipMemPoolAttrReleaseThreshold) == 0
    for value in (4096, 2**64 - 1):
        put(pool, A.hipMemPoolAttrReleaseThreshold, value)
        assert get(pool, A.hipMemPoolAttrReleaseThreshold) == value
    for other in (1 - device, device):
        check(hip.hipMemPoolSetAccess(pool, hip.hipMemAccessDesc(hip.hipMemLocation(1, other), 3), 1))
        assert hip.hipMemPoolGetAccess(pool, hip.hipMemLocation(1, other)) == (OK, 3)
    check(hip.hipDeviceSetMemPool(device, pool))
    assert check(hip.hipDeviceGetMemPool(device)) == pool
    if kind == "created":
        check(hip.hipMemPoolDestroy(pool))
    assert check(hip.hipDeviceGetMemPool(device)) == default
    assert hip.hipDeviceSetMemPool(device, None) == hip.hipDeviceSetMemPool(-1, default) == (INVALID,)


def test_i18_i23_trim_and_reuse_while_work_is_pending(world, hold):
    """A free counts at once; trimming waits for it; the same stream gets the memory again; peaks stay."""
    stream, pool = blocking(), pool_of()
    big, small = (check(hip.hipMallocFromPoolAsync(size, pool, stream)) for size in (32 * MB, 4096))
    latch = hold(stream)
    put(pool, A.hipMemPoolAttrReleaseThreshold, 128 * MB)
    check(hip.hipFreeAsync(big, stream))
    assert get(pool, A.hipMemPoolAttrUsedMemCurrent) == 4096
    reserved = get(pool, A.hipMemPoolAttrReservedMemCurrent)
    check(hip.hipMemPoolTrimTo(pool, 4096))
    assert get(pool, A.hipMemPoolAttrReservedMemCurrent) == reserved
    again = check(hip.hipMallocFromPoolAsync(32 * MB, pool, stream))
    assert again == big and get(pool, A.hipMemPoolAttrUsedMemCurrent) == 32 * MB + 4096
    check(hip.hipFreeAsync(again, stream))
    latch.open()
    check(hip.hipStreamSynchronize(stream))
    assert get(pool, A.hipMemPoolAttrReservedMemCurrent) == reserved  # below the threshold
    check(hip.hipMemPoolTrimTo(pool, 4096))
    assert 4096 <= get(pool, A.hipMemPoolAttrReservedMemCurrent) < reserved
    assert get(pool, A.hipMemPoolAttrUsedMemHigh) == 32 * MB + 4096
    check(hip.hipMemPoolDestroy(pool))
    check(hip.hipFreeAsync(small, stream))


@pytest.mark.parametrize(
    ("off", "same_stream", "done", "event", "reused"),
    [
        ((1, 2, 3), False, True, False, False),  # I26 nothing allows it
        ((1, 2, 3), True, True, False, True),
        ((1, 3), False, True, False, True),  # I26 the free is over
        ((), False, False, False, False),  # I27 it is not
        ((2, 3), False, False, True, True),  # I28 a wait for an event orders it
        ((1,), False, False, True, False),
    ],
)
def test_i26_i27_i28_whose_memory_is_used_again(world, hold, off, same_stream, done, event, reused):
    """As the pool's switches say, and what has happened by then."""
    first, second, pool = free(), free(), pool_of()
    put(pool, A.hipMemPoolAttrReleaseThreshold, 2**64 - 1)
    for each in off:
        put(pool, A(each), 0)
    memory = check(hip.hipMallocFromPoolAsync(32 * MB, pool, first))
    latch = hold(first)
    check(hip.hipFreeAsync(memory, first))
    if event:
        made = check(hip.hipEventCreate())
        check(hip.hipEventRecord(made, first))
        check(hip.hipStreamWaitEvent(second, made, 0))
    if done:
        latch.open()
        world.let_run()
    got = check(hip.hipMallocFromPoolAsync(32 * MB, pool, first if same_stream else second))
    assert (got == memory) is reused


def test_i6_i9_i10_i31_j12_sizes_and_pools_of_other_devices(world):
    """Too much, nothing, no pool; memory of another device's pool, which that one's kernels use."""
    stream, pool = blocking(), pool_of(maxSize=64 * MB)
    most = 2**64 - 1
    check(hip.hipMallocFromPoolAsync(32 * MB, pool, stream))
    for answer in (
        hip.hipMallocFromPoolAsync(33 * MB, pool, stream), hip.hipMallocFromPoolAsync(most, pool, stream),
        hip.hipMallocAsync(most, stream), hip.hipMalloc(most), hip.hipMallocManaged(most),
    ):  # fmt: skip
        assert answer == (E.hipErrorOutOfMemory, None)
    assert hip.hipMallocFromPoolAsync(0, pool, stream) == hip.hipMallocAsync(0, stream) == (OK, 0)
    assert hip.hipMallocFromPoolAsync(8, None, stream) == (INVALID, None)
    check(hip.hipSetDevice(1))
    memory = check(hip.hipMallocFromPoolAsync(4096, pool, None))
    check(hip.hipMemsetAsync(memory, 7, 4096, None))
    check(hip.hipStreamSynchronize(None))
    check(hip.hipSetDevice(0))
    found = np.zeros(4096, np.uint8)
    check(hip.hipMemcpy(found, memory, 4096, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert (found == 7).all()
    check(hip.hipFreeAsync(memory, None))


# ---- modules, launches, runtime compilation

SOURCE = b"""\
#include <hip/hip_runtime.h>
__device__ int number; __device__ float numbers[10];
extern "C" {
__global__ void nothing() {}
__global__ void forty_two(int *out) { *out = 42; }
__global__ void number_is_at(void *place, bool *out) { *out = &number == place; }
__device__ int helper(int x) { return x; }
__global__ void scale_vector(float factor, int n, short unused1, int unused2, float unused3, float *x) {
    int tid = threadIdx.x + blockIdx.x * blockDim.x;
    if (tid < n) x[tid] *= factor + 0 * (unused1 + unused2 + unused3);
}
}
"""


def compiled(source: bytes, *options: bytes, names: tuple[bytes, ...] = ()) -> tuple[bytearray, list[bytes]]:
    """Return the code of a program, and the names in it of name expressions."""
    program = check(hiprtc.hiprtcCreateProgram(source, b"program.cu", 0, [], []))
    for name in names:
        check(hiprtc.hiprtcAddNameExpression(program, name))
    (err,) = hiprtc.hiprtcCompileProgram(program, len(options), list(options))
    log = bytearray(check(hiprtc.hiprtcGetProgramLogSize(program)))
    check(hiprtc.hiprtcGetProgramLog(program, log))
    assert err == hiprtc.hiprtcResult.HIPRTC_SUCCESS, log.decode()
    code = bytearray(check(hiprtc.hiprtcGetCodeSize(program)))
    check(hiprtc.hiprtcGetCode(program, code))
    lowered = [check(hiprtc.hiprtcGetLoweredName(program, name)) for name in names]
    check(hip.hiprtcDestroyProgram(program.createRef()))
    return code, lowered


def attribute(name: str) -> int:
    """Return an attribute of device 0."""
    return check(hip.hipDeviceGetAttribute(hip.hipDeviceAttribute_t[f"hipDeviceAttribute{name}"], 0))


LAUNCHES = ("hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel")


@pytest.mark.slow
@COMPILES
def test_l9_l13_l14_l15_l16_l17_l18_l28_launches_of_compiled_text(world):
    """Arguments in every form; extents at and above the most that there are; which errors, in all three calls."""
    module = check(hip.hipModuleLoadData(compiled(SOURCE)[0]))
    nothing, answer = (check(hip.hipModuleGetFunction(module, name)) for name in (b"nothing", "forty_two"))
    memory, found, size = check(hip.hipMalloc(4)), np.zeros(1, np.int32), ctypes.c_size_t(8)
    pointer = ctypes.c_void_p(int(memory))
    packed = (hip.HIP_LAUNCH_PARAM_BUFFER_POINTER, ctypes.byref(pointer), hip.HIP_LAUNCH_PARAM_BUFFER_SIZE,
              ctypes.byref(size), hip.HIP_LAUNCH_PARAM_END)  # fmt: skip
    where = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    forms = [
        ([memory], None), ((pointer,), None), ([ctypes.byref(pointer)], None), (where, None),
        (None, (memory,)), (None, [pointer]), (None, packed),
    ]  # fmt: skip
    wrong = [([memory], (memory,)), ([memory], packed), (None, ()), (None, None), (None, (*packed[:1], *packed[2:]))]
    blocks = [attribute(f"MaxBlockDim{axis}") for axis in "XYZ"]
    for name in LAUNCHES:
        launch = getattr(hip, name)
        for form in forms:
            check(hip.hipMemset(memory, 0, 4))
            check(launch(answer, 1, 1, 1, 1, 1, 1, 0, None, *form))
            check(hip.hipMemcpy(found, memory, 4, hip.hipMemcpyKind.hipMemcpyDefault))
            assert found[0] == 42, (name, form)
        for form in wrong:
            assert launch(answer, 1, 1, 1, 1, 1, 1, 0, None, *form) == (INVALID,), (name, form)
        bad = [[0 if axis == each else 1 for each in range(6)] for axis in range(6)]
        bad += [[3] * 6, [1, 1, 1, *[2**32 - 1] * 3], [1, 1, 1, 256, 1, 1], [256, 1, 1, 256, 1, 1]]
        for axis, most in enumerate(blocks):
            extents = [1, 1, 1, 1, 1, 1]
            extents[axis] = most if "Ext" in name or "Hcc" in name else 1  # work-items, which blocks must divide
            extents[3 + axis] = most
            assert launch(nothing, *extents, 0, None, None, None) == (OK,)
            bad.append([*extents[:3], *(most + 1 if each == axis else 1 for each in range(3))])
            over = attribute(f"MaxGridDim{'XYZ'[axis]}") + 1
            bad.append([over if each == axis else 1 for each in range(6)])
        for extents in bad:
            assert launch(nothing, *extents, 0, None, None, None) == (INVALID,), (name, extents)
        shared = attribute("MaxSharedMemoryPerBlock")
        assert launch(nothing, 1, 1, 1, 1, 1, 1, shared, None, None, None) == (OK,)
        assert launch(nothing, 1, 1, 1, 1, 1, 1, shared + 1, None, None, None) == (INVALID,)
    cooperative = hip.hipModuleLaunchCooperativeKernel
    assert cooperative(None, 1, 1, 1, 1, 1, 1, 0, None, None) == (HANDLE,)
    for extents in bad[:7]:
        assert cooperative(nothing, *extents, 0, None, None) == (INVALID,), extents
    assert cooperative(answer, 2, 1, 1, 12, 1, 1, 0, None, [memory]) == (OK,)
    for events in ((True, False), (False, True), (True, True)):
        made = [check(hip.hipEventCreate()) if each else None for each in events]
        check(hip.hipExtModuleLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, None, None, None, *made))
        check(hip.hipDeviceSynchronize())
        assert {hip.hipEventQuery(each) for each in made if each} == {(OK,)}
    for name, code in ((b"helper", E.hipErrorNotFound), ("none", E.hipErrorNotFound), ("", INVALID), (None, INVALID)):
        assert hip.hipModuleGetFunction(module, name) == (code, None)
    for name, nbytes in ((b"number", 4), (b"numbers", 40)):
        assert check(hip.hipModuleGetGlobal(module, name))[1] == nbytes
    place, _ = check(hip.hipModuleGetGlobal(module, b"number"))
    check(hip.hipModuleLaunchKernel(check(hip.hipModuleGetFunction(module, b"number_is_at")), 1, 1, 1, 1, 1, 1, 0, None,
                                    [place, memory], None))  # fmt: skip
    check(hip.hipMemcpy(found, memory, 1, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert found.view(np.uint8)[0] == 1


@COMPILES
def test_l23_mixed_arguments_stand_where_c_has_them(world):
    """Floats, ints, a short and a pointer by `extra`, `kernelParams` and a struct; they are taken at the call."""
    module = check(hip.hipModuleLoadData(compiled(SOURCE, b"--offload-arch=gcu300")[0]))
    scale = check(hip.hipModuleGetFunction(module, b"scale_vector"))
    numbers = np.arange(100, dtype=np.float32)
    memory = check(hip.hipMalloc(numbers.nbytes))
    check(hip.hipMemcpy(memory, numbers, numbers.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice))

    class Arguments(ctypes.Structure):
        _fields_ = (
            ("factor", ctypes.c_float), ("n", ctypes.c_int), ("unused1", ctypes.c_short), ("unused2", ctypes.c_int),
            ("unused3", ctypes.c_float), ("x", ctypes.c_void_p),
        )  # fmt: skip

    given = (ctypes.c_float(2), ctypes.c_int(100), ctypes.c_short(5), ctypes.c_int(2), ctypes.c_float(5.5), memory)
    struct, size = Arguments(2, 100, 5, 2, 5.5, int(memory)), ctypes.c_size_t(ctypes.sizeof(Arguments))
    block = hip.dim3(x=12)
    grid = hip.dim3(-(-100 // block[0]))
    for form in (
        (None, given), (None, (1, ctypes.byref(struct), 2, ctypes.byref(size), 3)), (list(given), None),
        ([*map(ctypes.byref, given[:5]), memory], None), (None, (struct,)), (None, struct),
        (None, ctypes.byref(struct)),
    ):  # fmt: skip
        check(hip.hipModuleLaunchKernel(scale, *grid, *block, 0, None, *form))
    short = (None, (type("Short", (ctypes.Structure,), {"_fields_": Arguments._fields_[:5]})(),))
    assert hip.hipModuleLaunchKernel(scale, *grid, *block, 0, None, *short) == (hip.hipError_t.hipErrorInvalidValue,)
    with pytest.raises(ValueError, match="extra must be a sequence, got 7"):
        check(hip.hipModuleLaunchKernel(scale, *grid, *block, 0, None, None, 7))
    ctypes.memset(ctypes.byref(struct), 0, ctypes.sizeof(struct))
    found = np.zeros_like(numbers)
    check(hip.hipMemcpy(found, memory, found.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert (found == numbers * 128).all()


@pytest.mark.slow
@COMPILES
def test_options_and_names_of_runtime_compilation(world):
    """Templates by name expressions, macros, and what compilers for other chips are told, which changes nothing."""
    text = b"template<int N, typename T> __global__ void times(T *x) { *x *= N * FACTOR; }"
    text += b" namespace a { __global__ void b() {} }"
    names = (b"times<(int)3, float >", b"times<(2 + 3), int>", b"a::b")
    options = (
        b"-DFACTOR=2", b"-std=c++17", b"-O3", b"-ffast-math", b"-fno-fast-math", b"-ffp-contract=off", b"-w", b"-Wall",
        b"-fgpu-rdc", b"-munsafe-fp-atomics", b"-mno-unsafe-fp-atomics", b"-fno-gpu-flush-denormals-to-zero",
        b"-fslp-vectorize", b"-Rpass=inline", b"--gpu-architecture=gcu300",
    )  # fmt: skip
    code, lowered = compiled(text, *options, names=names)
    module = check(hip.hipModuleLoadData(code))
    functions = [check(hip.hipModuleGetFunction(module, name)) for name in lowered]
    memory, found = check(hip.hipMalloc(4)), np.ones(1, np.int32)
    check(hip.hipMemcpy(memory, found, 4, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    check(hip.hipModuleLaunchKernel(functions[1], 1, 1, 1, 1, 1, 1, 0, None, [memory], None))
    check(hip.hipMemcpy(found, memory, 4, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert found[0] == 10


IN_KERNELS = b"""\
#include <hip/hip_cooperative_groups.h>
__managed__ int shared = 10;
extern "C" __global__ void meet(int *words, int value) {
    if (threadIdx.x == 0) words[blockIdx.x] = value + hipBlockIdx_x;
    cooperative_groups::this_grid().sync();
    if (threadIdx.x == 0) words[2 + blockIdx.x] = words[1 - blockIdx.x];
}
extern "C" __global__ void figures(int *x, float *y) {
    __half half = __float2half(1.5f);
    float4 four = make_float4(1, 2, 3, 4);
    long long before = wall_clock64();
    __threadfence_system();
    x[0] = warpSize;
    for (int offset = warpSize / 2; offset; offset /= 2) x[0] += __shfl_down(x[0], offset);
    x[1] = __popc(7) + __clz(1) + __ffs(8);
    x[2] = __bitextract_u32(0xF5A, 4, 8);
    x[3] = min(3, max(1, 2)) + (wall_clock64() >= before) + (clock64() > 0) + int(__ballot(1));
    __builtin_amdgcn_s_sleep(shared++);
    x[4] = __umulhi(1u << 31, 4) + __float_as_int(__int_as_float(5)) + __brev(1u << 30);
    y[0] = four.x + four.w + __half2float(half + half);
    y[1] = rsqrtf(4) + __saturatef(9) + __fdividef(1, 4) + __ldg(y);
}
"""


@pytest.mark.slow
@COMPILES
def test_what_kernels_of_hip_have_besides_the_language(world):
    """Groups, warps of one thread, clocks, bits, numbers, half; atomic operations are refused by their name."""
    module = check(hip.hipModuleLoadData(compiled(IN_KERNELS)[0]))
    meet, figures = (check(hip.hipModuleGetFunction(module, name)) for name in (b"meet", b"figures"))
    ints, floats = np.zeros(5, np.int32), np.zeros(2, np.float32)
    words, numbers = check(hip.hipMalloc(ints.nbytes)), check(hip.hipMalloc(floats.nbytes))
    check(hip.hipModuleLaunchCooperativeKernel(meet, 2, 1, 1, 12, 1, 1, 0, None, [words, 7]))
    check(hip.hipMemcpy(ints, words, 16, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert ints[:4].tolist() == [7, 8, 8, 7]
    check(hip.hipModuleLaunchKernel(figures, 1, 1, 1, 1, 1, 1, 0, None, [words, numbers], None))
    check(hip.hipMemcpy(ints, words, ints.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    check(hip.hipMemcpy(floats, numbers, floats.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert ints.tolist() == [1, 3 + 31 + 4, 0xF5, 2 + 1 + 1 + 1, 2 + 5 + 2]
    assert floats.tolist() == [8, 0.5 + 1 + 0.25 + 8]
    variable, size = check(hip.hipModuleGetGlobal(module, b"shared"))
    check(hip.hipMemcpy(ints, variable, size, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert (size, ints[0]) == (4, 11)
    atomic = b"__global__ void add(int *x) { atomicAdd(x, 1); }"
    program = check(hiprtc.hiprtcCreateProgram(atomic, None, 0, None, None))
    assert hiprtc.hiprtcCompileProgram(program, 0, None) == (hiprtc.hiprtcResult.HIPRTC_ERROR_COMPILATION,)
    log = bytearray(check(hiprtc.hiprtcGetProgramLogSize(program)))
    check(hiprtc.hiprtcGetProgramLog(program, log))
    assert b"a GCU has no atomic operations" in log
