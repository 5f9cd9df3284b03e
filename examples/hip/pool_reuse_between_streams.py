"""HIP pools: when a stream gets memory that another one has freed: in its own order, behind an event, or at the end."""

from __future__ import annotations

import ctypes

from atops.hip import hip

SIZE = 32 << 20
ATTR = hip.hipMemPoolAttr


def hip_check(call_result):
    """Return what a call returned behind its error code; raise that error."""
    err, *result = call_result
    if err != hip.hipError_t.hipSuccess:
        raise RuntimeError(str(err))
    return result[0] if len(result) == 1 else result


def value_of(pool, attr) -> int:
    """Return a size in bytes that a pool counts."""
    value = ctypes.c_uint64()
    hip_check(hip.hipMemPoolGetAttribute(pool, attr, ctypes.byref(value)))
    return value.value


def new_pool() -> int:
    """Return a pool that gives no memory back to the device."""
    location = hip.hipMemLocation(hip.hipMemLocationType.hipMemLocationTypeDevice, 0)
    pinned = hip.hipMemAllocationType.hipMemAllocationTypePinned
    pool = hip_check(hip.hipMemPoolCreate(hip.hipMemPoolProps(pinned, 0, location)))
    keep = ctypes.c_uint64(2**64 - 1)
    hip_check(hip.hipMemPoolSetAttribute(pool, ATTR.hipMemPoolAttrReleaseThreshold, ctypes.byref(keep)))
    return pool


def allocate(pool, stream) -> int:
    """Return memory of the pool, freed again at once in the order of the stream."""
    memory = hip_check(hip.hipMallocFromPoolAsync(SIZE, pool, stream))
    hip_check(hip.hipFreeAsync(memory, stream))
    return memory


def main() -> None:
    """Free in one stream behind work that is held up, and allocate the same size in each situation."""
    pool = new_pool()
    owner, other, behind = (hip_check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)) for _ in range(3))
    event, gate = hip_check(hip.hipEventCreate()), hip_check(hip.hipMalloc(4))
    hip_check(hip.hipMemset(gate, 0, 4))
    hip_check(hip.hipDeviceSynchronize())

    hip_check(hip.hipStreamWaitValue32(owner, gate, 1, hip.hipStreamWaitValueEq))  # the owner's work is not over
    first = allocate(pool, owner)
    print("bytes in use after the free, whose turn has not come:", value_of(pool, ATTR.hipMemPoolAttrUsedMemCurrent))

    again = allocate(pool, owner)
    print("the same stream gets it at once:", again == first)
    apart = hip_check(hip.hipMallocFromPoolAsync(SIZE, pool, other))
    print("another stream gets memory of its own:", apart != first)
    hip_check(hip.hipEventRecord(event, owner))
    hip_check(hip.hipStreamWaitEvent(behind, event, 0))
    ordered = allocate(pool, behind)
    print("one that waits for an event behind the free gets it:", ordered == first)

    hip_check(hip.hipFreeAsync(apart, other))
    hip_check(hip.hipStreamWriteValue32(other, gate, 1, 0))
    hip_check(hip.hipDeviceSynchronize())
    over = [hip_check(hip.hipMallocFromPoolAsync(SIZE, pool, other)) for _ in range(2)]
    print("once all is over, all of it is anybody's:", sorted(over) == sorted((first, apart)))
    peak = value_of(pool, ATTR.hipMemPoolAttrReservedMemHigh) >> 20
    print(f"six allocations of {SIZE >> 20} MiB took {peak} MiB of the device")
    assert (again, ordered) == (first, first) and apart != first and peak == 64

    for pointer in over:
        hip_check(hip.hipFreeAsync(pointer, other))
    hip_check(hip.hipStreamSynchronize(other))
    hip_check(hip.hipMemPoolDestroy(pool))
    for stream in (owner, other, behind):
        hip_check(hip.hipStreamDestroy(stream))
    hip_check(hip.hipEventDestroy(event))
    hip_check(hip.hipFree(gate))


if __name__ == "__main__":
    main()
