"""HIP host code as hip-python has it: timed streams of two priorities, memory from a pool, a hand-off by a word."""

from __future__ import annotations

import ctypes

import numpy as np

from atops.hip import hip

COUNT = 1 << 16
SIZE = COUNT * 4


def hip_check(call_result):
    """Return what a call returned behind its error code; raise that error."""
    err, *result = call_result
    if err != hip.hipError_t.hipSuccess:
        raise RuntimeError(str(err))
    return result[0] if len(result) == 1 else result


def main() -> None:
    """Fill, copy and hand over between two streams."""
    props = hip.hipDeviceProp_t()
    hip_check(hip.hipGetDeviceProperties(props, 0))
    print(props.gcnArchName.decode(), "with", props.multiProcessorCount, "clusters of", props.maxThreadsPerBlock)

    least, greatest = hip_check(hip.hipDeviceGetStreamPriorityRange())
    producer = hip_check(hip.hipStreamCreateWithPriority(hip.hipStreamNonBlocking, greatest))
    consumer = hip_check(hip.hipStreamCreateWithPriority(hip.hipStreamNonBlocking, least))

    # Memory in stream order: the second allocation may have the bytes of the first, for the stream has freed them.
    first = hip_check(hip.hipMallocAsync(SIZE, producer))
    hip_check(hip.hipFreeAsync(first, producer))
    numbers = hip_check(hip.hipMallocAsync(SIZE, producer)).configure(typestr="float32", shape=(COUNT,))
    print("the block was given out again:", first == numbers)
    hand_over(producer, consumer, numbers)

    used = ctypes.c_uint64()
    pool = hip_check(hip.hipDeviceGetDefaultMemPool(0))
    hip_check(hip.hipFreeAsync(numbers, consumer))
    hip_check(hip.hipStreamSynchronize(consumer))
    hip_check(hip.hipMemPoolGetAttribute(pool, hip.hipMemPoolAttr.hipMemPoolAttrUsedMemCurrent, ctypes.byref(used)))
    print("bytes of the pool in use at the end:", used.value)
    for stream in (producer, consumer):
        hip_check(hip.hipStreamDestroy(stream))


def hand_over(producer, consumer, numbers) -> None:
    """Upload in one stream, and read back in another one, which waits for a word in memory."""
    start, stop = hip_check(hip.hipEventCreate()), hip_check(hip.hipEventCreate())
    word = hip_check(hip.hipMalloc(4))
    hip_check(hip.hipMemset(word, 0, 4))
    hip_check(hip.hipDeviceSynchronize())

    host, back = np.arange(COUNT, dtype=np.float32), np.zeros(COUNT, np.float32)
    hip_check(hip.hipStreamWaitValue32(consumer, word, 1, hip.hipStreamWaitValueEq))
    hip_check(hip.hipEventRecord(start, producer))
    hip_check(hip.hipMemcpyAsync(numbers, host, SIZE, hip.hipMemcpyKind.hipMemcpyHostToDevice, producer))
    hip_check(hip.hipEventRecord(stop, producer))
    told: list[str] = []
    hip_check(hip.hipStreamAddCallback(producer, lambda stream, status, name: told.append(name), "uploaded", 0))
    hip_check(hip.hipStreamWriteValue32(producer, word, 1, 0))

    hip_check(hip.hipMemcpyAsync(back, numbers, SIZE, hip.hipMemcpyKind.hipMemcpyDeviceToHost, consumer))
    hip_check(hip.hipStreamSynchronize(consumer))
    hip_check(hip.hipStreamSynchronize(producer))
    assert np.array_equal(host, back)
    elapsed = hip_check(hip.hipEventElapsedTime(start, stop))
    print(told[0], SIZE >> 10, "KiB in", round(elapsed, 3), "ms, and handed over by a word")
    assert elapsed > 0

    hip_check(hip.hipFree(word))
    for event in (start, stop):
        hip_check(hip.hipEventDestroy(event))


if __name__ == "__main__":
    main()
