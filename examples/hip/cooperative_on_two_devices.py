"""HIP cooperative launch on two devices: all blocks start together, and each side reads what the other has stored."""

from __future__ import annotations

import os

import numpy as np

from atops import kernels as k
from atops.hip import hip

os.environ.setdefault("ATOPS_DEVICES", "2")  # before the first call: the board is made then


def hip_check(call_result):
    """Return what a call returned behind its error code; raise that error."""
    err, *result = call_result
    if err != hip.hipError_t.hipSuccess:
        raise RuntimeError(str(err))
    return result[0] if len(result) == 1 else result


@k.cooperative
@k.kernel
async def exchange(mine: k.Span[np.int32], theirs: k.Span[np.int32], value: np.int32):
    """Store a value, meet the other device, and add what that one has stored."""
    if k.threadIdx.x == 0:
        mine[0] = value
    await k.syncblocks()
    if k.threadIdx.x == 0:
        mine[1] = theirs[0] + value


def main() -> None:
    """Launch one grid on each device."""
    words, streams = [], []
    for device in range(2):
        hip_check(hip.hipSetDevice(device))
        hip_check(hip.hipDeviceEnablePeerAccess(1 - device, 0))
        words.append(hip_check(hip.hipMalloc(8)))
        streams.append(hip_check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)))
    launches = [
        hip.hipLaunchParams(
            func=exchange, gridDim=hip.dim3(x=1), blockDim=hip.dim3(x=12),
            args=[words[device], words[1 - device], 10 * (device + 1)], sharedMem=0, stream=streams[device],
        )
        for device in range(2)
    ]  # fmt: skip
    hip_check(hip.hipLaunchCooperativeKernelMultiDevice(launches, len(launches), 0))
    for device in range(2):
        hip_check(hip.hipSetDevice(device))
        hip_check(hip.hipStreamSynchronize(streams[device]))
        found = np.zeros(2, np.int32)
        hip_check(hip.hipMemcpy(found, words[device], 8, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
        print(f"device {device} stored {found[0]} and read the other's: {found[1]}")
        assert found.tolist() == [10 * (device + 1), 30]
        hip_check(hip.hipFree(words[device]))
        hip_check(hip.hipStreamDestroy(streams[device]))
    hip_check(hip.hipSetDevice(0))


if __name__ == "__main__":
    main()
