"""HIP: a pool that two processes share. A file descriptor opens the pool, 64 bytes name an allocation of it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import numpy as np

from atops.hip import hip

COUNT = 1024
SIZE = COUNT * 4
POSIX = hip.hipMemAllocationHandleType.hipMemHandleTypePosixFileDescriptor


def hip_check(call_result):
    """Return what a call returned behind its error code; raise that error."""
    err, *result = call_result
    if err != hip.hipError_t.hipSuccess:
        raise RuntimeError(str(err))
    return result[0] if len(result) == 1 else result


def importer(descriptor: int, data: bytes) -> None:
    """Open the pool and the memory, double what is there, and let go in stream order."""
    pool = hip_check(hip.hipMemPoolImportFromShareableHandle(descriptor, POSIX, 0))
    os.close(descriptor)
    memory = hip_check(hip.hipMemPoolImportPointer(pool, hip.hipMemPoolPtrExportData(data)))
    numbers = np.zeros(COUNT, np.float32)
    hip_check(hip.hipMemcpy(numbers, memory, SIZE, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    print("the other process reads", numbers[:4].tolist(), flush=True)
    hip_check(hip.hipMemcpy(memory, numbers * 2, SIZE, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    stream = hip_check(hip.hipStreamCreate())
    hip_check(hip.hipFreeAsync(memory, stream))
    hip_check(hip.hipStreamSynchronize(stream))
    hip_check(hip.hipMemPoolDestroy(pool))


def main() -> None:
    """Make the pool, share it, and look at what the other process has left."""
    location = hip.hipMemLocation(hip.hipMemLocationType.hipMemLocationTypeDevice, 0)
    pinned = hip.hipMemAllocationType.hipMemAllocationTypePinned
    pool = hip_check(hip.hipMemPoolCreate(hip.hipMemPoolProps(pinned, POSIX, location)))
    stream = hip_check(hip.hipStreamCreate())
    memory = hip_check(hip.hipMallocFromPoolAsync(SIZE, pool, stream))
    numbers = np.arange(COUNT, dtype=np.float32)
    hip_check(hip.hipMemcpyAsync(memory, numbers, SIZE, hip.hipMemcpyKind.hipMemcpyHostToDevice, stream))
    hip_check(hip.hipStreamSynchronize(stream))  # what is imported must be allocated, and filled

    descriptor, data = ctypes.c_int(), hip.hipMemPoolPtrExportData()
    hip_check(hip.hipMemPoolExportToShareableHandle(ctypes.byref(descriptor), pool, POSIX, 0))
    hip_check(hip.hipMemPoolExportPointer(data, memory))
    words = [sys.executable, __file__, str(descriptor.value), data.reserved.hex()]
    done = subprocess.run(words, pass_fds=[descriptor.value], capture_output=True, text=True, check=True)
    os.close(descriptor.value)
    print(done.stdout.strip())

    found = np.zeros_like(numbers)
    hip_check(hip.hipMemcpy(found, memory, SIZE, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    print("and leaves", found[:4].tolist())
    assert np.array_equal(found, numbers * 2)
    hip_check(hip.hipFreeAsync(memory, stream))
    hip_check(hip.hipStreamSynchronize(stream))
    hip_check(hip.hipMemPoolDestroy(pool))
    hip_check(hip.hipStreamDestroy(stream))


if __name__ == "__main__":
    importer(int(sys.argv[1]), bytes.fromhex(sys.argv[2])) if len(sys.argv) > 1 else main()
