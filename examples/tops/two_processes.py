"""Two processes share device memory: one lends a buffer and an event, the other works on it and records the event.

The lender's stream waits for the borrower's record, so no host code here waits for the work in between.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import atops.tops as tops

COUNT = 1 << 12
SIZE = 4 * COUNT


def borrow() -> None:
    """Be the other process: open what the two lines on the input name, double every element, record the event."""
    memory = tops.topsIpcMemHandle_t(bytes.fromhex(sys.stdin.readline()))
    done = tops.topsIpcEventHandle_t(bytes.fromhex(sys.stdin.readline()))
    pointer = tops.check(tops.topsIpcOpenMemHandle(memory, tops.topsIpcMemLazyEnablePeerAccess))
    event = tops.check(tops.topsIpcOpenEventHandle(done))

    stream = tops.check(tops.topsStreamCreate())
    numbers = np.empty(COUNT, np.int32)
    tops.check(tops.topsMemcpyAsync(numbers, pointer, SIZE, tops.topsMemcpyDeviceToHost, stream))
    tops.check(tops.topsStreamSynchronize(stream))
    numbers *= 2
    tops.check(tops.topsMemcpyAsync(pointer, numbers, SIZE, tops.topsMemcpyHostToDevice, stream))
    tops.check(tops.topsEventRecord(event, stream))
    print("recorded", flush=True)  # the lender may let its stream wait now

    tops.check(tops.topsStreamSynchronize(stream))
    tops.check(tops.topsEventDestroy(event))
    tops.check(tops.topsIpcCloseMemHandle(pointer))


def main() -> None:
    """Lend a buffer and an event, and copy the result back behind the borrower's work."""
    numbers = np.arange(COUNT, dtype=np.int32)
    pointer = tops.check(tops.topsMalloc(SIZE))
    tops.check(tops.topsMemcpy(pointer, numbers, SIZE, tops.topsMemcpyHostToDevice))
    event = tops.check(tops.topsEventCreateWithFlags(tops.topsEventInterprocess | tops.topsEventDisableTiming))
    handles = tops.check(tops.topsIpcGetMemHandle(pointer)), tops.check(tops.topsIpcGetEventHandle(event))

    command = [sys.executable, __file__, "borrow"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as borrower:
        assert borrower.stdin is not None and borrower.stdout is not None
        borrower.stdin.write("".join(f"{handle.reserved.hex()}\n" for handle in handles))
        borrower.stdin.flush()
        assert borrower.stdout.readline() == "recorded\n"

        stream = tops.check(tops.topsStreamCreate())
        tops.check(tops.topsStreamWaitEvent(stream, event, 0))
        result = np.empty_like(numbers)
        tops.check(tops.topsMemcpyAsync(result, pointer, SIZE, tops.topsMemcpyDeviceToHost, stream))
        tops.check(tops.topsStreamSynchronize(stream))

    tops.check(tops.topsEventDestroy(event))
    tops.check(tops.topsFree(pointer))
    print(f"{COUNT} elements doubled by another process, the last is {result[-1]}")
    assert (result == 2 * numbers).all() and borrower.returncode == 0


if __name__ == "__main__":
    borrow() if sys.argv[1:] == ["borrow"] else main()
