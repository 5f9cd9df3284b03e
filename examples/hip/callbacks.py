"""HIP callbacks: steps of the host in a stream's order. Later work waits for them; they may choose what comes next."""

from __future__ import annotations

import threading

import numpy as np

from atops.hip import hip

COUNT = 4096
SIZE = COUNT * 4
D2H, H2D = hip.hipMemcpyKind.hipMemcpyDeviceToHost, hip.hipMemcpyKind.hipMemcpyHostToDevice


def hip_check(call_result):
    """Return what a call returned behind its error code; raise that error."""
    err, *result = call_result
    if err != hip.hipError_t.hipSuccess:
        raise RuntimeError(str(err))
    return result[0] if len(result) == 1 else result


def between_copies(stream, memory, staging, numbers) -> None:
    """Let the host work on what one copy has brought, before the next one takes it away. No thread waits meanwhile."""

    def halve(data: np.ndarray) -> None:
        data /= 2

    hip_check(hip.hipMemcpyAsync(memory, staging, SIZE, H2D, stream))
    hip_check(hip.hipMemsetAsync(memory, 0, SIZE // 2, stream))
    hip_check(hip.hipMemcpyAsync(staging, memory, SIZE, D2H, stream))
    hip_check(hip.hipLaunchHostFunc(stream, halve, numbers))
    hip_check(hip.hipMemcpyAsync(memory, staging, SIZE, H2D, stream))


def choose_what_comes_next(stream, memory, staging, numbers) -> None:
    """Enqueue from a callback, which gets the stream, its status and data of the program.

    It must not wait for its own stream: the memory that it copies to is pinned.
    """
    chosen = threading.Event()

    def fetch(of, status, into) -> None:
        print("so far:", status)
        into[:] = -1
        hip_check(hip.hipMemcpyAsync(staging, memory, SIZE, D2H, of))
        chosen.set()

    hip_check(hip.hipStreamAddCallback(stream, fetch, numbers, 0))
    assert chosen.wait(10)


def hear_of_a_failure(stream) -> None:
    """Fail the stream by a host function that raises: what comes later is left out, and a callback is told why."""
    told: list[object] = []
    hip_check(hip.hipLaunchHostFunc(stream, lambda _: 1 / 0, None))
    hip_check(hip.hipStreamAddCallback(stream, lambda of, status, _: told.append(status), None, 0))
    (err,) = hip.hipStreamSynchronize(stream)
    print("a host function raised:", err, "and the callback got", told[0])
    assert err == told[0] == hip.hipError_t.hipErrorLaunchFailure


def main() -> None:
    """Correct data between two copies; enqueue from a callback; let one hear of a failure."""
    stream = hip_check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    memory = hip_check(hip.hipMalloc(SIZE))
    staging = hip_check(hip.hipHostMalloc(SIZE, hip.hipHostMallocDefault))
    numbers = hip.host_view(staging, SIZE).view(np.float32)
    numbers[:] = np.arange(COUNT)

    between_copies(stream, memory, staging, numbers)
    choose_what_comes_next(stream, memory, staging, numbers)
    hip_check(hip.hipStreamSynchronize(stream))
    print("the halves are there:", numbers[-4:].tolist())
    assert not numbers[: COUNT // 2].any() and (numbers[COUNT // 2 :] == np.arange(COUNT)[COUNT // 2 :] / 2).all()
    hear_of_a_failure(stream)

    hip_check(hip.hipStreamDestroy(stream))
    hip_check(hip.hipFree(memory))
    hip_check(hip.hipHostFree(staging))


if __name__ == "__main__":
    main()
