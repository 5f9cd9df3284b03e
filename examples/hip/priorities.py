"""HIP stream priorities: three streams have the same work, and start together; the most urgent one is over first."""

from __future__ import annotations

import numpy as np

from atops import kernels as k
from atops.hip import hip

LAUNCHES = 6
CLUSTERS, THREADS = 2, 12


def hip_check(call_result):
    """Return what a call returned behind its error code; raise that error."""
    err, *result = call_result
    if err != hip.hipError_t.hipSuccess:
        raise RuntimeError(str(err))
    return result[0] if len(result) == 1 else result


@k.kernel
async def work(x: k.Span[np.float32]):
    """Keep every cluster busy for a while: each thread with a part of its own."""
    me, threads = k.blockIdx.x * k.blockDim.x + k.threadIdx.x, k.gridDim.x * k.blockDim.x
    mine = x[me * len(x) // threads : (me + 1) * len(x) // threads]
    for _ in range(200):
        mine[...] = np.sqrt(mine + 1)


def main() -> None:
    """Enqueue behind a word, least urgent first; open it; and say in which order the launches ended."""
    least, greatest = hip_check(hip.hipDeviceGetStreamPriorityRange())
    print(f"priorities: {least} is least urgent, {greatest} most")
    levels = range(least, greatest - 1, -1)
    gate, memories = hip_check(hip.hipMalloc(4)), [hip_check(hip.hipMalloc(4096)) for _ in levels]
    hip_check(hip.hipMemset(gate, 0, 4))
    for memory in memories:
        hip_check(hip.hipMemset(memory, 0, 4096))
    start = hip_check(hip.hipEventCreate())
    hip_check(hip.hipEventRecord(start, None))
    hip_check(hip.hipDeviceSynchronize())

    ends: list[tuple[int, int]] = []  # the priority of a launch, and the event at its end
    streams = []
    for priority, memory in zip(levels, memories, strict=True):
        stream = hip_check(hip.hipStreamCreateWithPriority(hip.hipStreamNonBlocking, priority))
        assert hip_check(hip.hipStreamGetPriority(stream)) == priority
        hip_check(hip.hipStreamWaitValue32(stream, gate, 1, hip.hipStreamWaitValueEq))
        for _ in range(LAUNCHES):
            hip_check(hip.hipLaunchKernel(work, hip.dim3(CLUSTERS), hip.dim3(THREADS), [memory], 0, stream))
            ends.append((priority, hip_check(hip.hipEventCreate())))
            hip_check(hip.hipEventRecord(ends[-1][1], stream))
        streams.append(stream)
    opener = hip_check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    hip_check(hip.hipStreamWriteValue32(opener, gate, 1, 0))
    hip_check(hip.hipDeviceSynchronize())

    after = sorted((hip_check(hip.hipEventElapsedTime(start, event)), priority) for priority, event in ends)
    print("launches as they ended:", *(priority for _, priority in after))
    last = {priority: time for time, priority in after}
    assert last[greatest] < last[least]

    for _, event in ends:
        hip_check(hip.hipEventDestroy(event))
    for stream in (*streams, opener):
        hip_check(hip.hipStreamDestroy(stream))
    for pointer in (*memories, gate):
        hip_check(hip.hipFree(pointer))
    hip_check(hip.hipEventDestroy(start))


if __name__ == "__main__":
    main()
