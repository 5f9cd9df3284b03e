"""A C host program in Python: two streams, two slots of device memory, and no wait that is longer than needed.

One stream loads, the other one saves. Look at what orders them: an event says that a slot is full, a word of device
memory counts how often it was emptied, and a callback that holds its stream works on each chunk as it arrives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import atops.tops as tops

CHUNKS, N = 8, 4096
NBYTES = 4 * N
SLOTS = 2
TOPS_CHECK = tops.check  # as the macro of that name: raise, or go on with the result


class Context:
    """What the callbacks share: a struct of the program's own, passed as userData."""

    def __init__(self, chunks: Any) -> None:
        self.chunks = chunks
        self.finished: list[int] = []


def negate(stream: int, status: int, user_data: tuple[Context, int]) -> None:
    """Work on one chunk on the host; the stream goes on when this returns."""
    context, i = user_data
    if status == tops.topsSuccess:
        np.negative(context.chunks[i], out=context.chunks[i])
        context.finished.append(i)


def enqueue(load: int, save: int, d_slots: int, d_emptied: int, h_in: int, h_out: int, context: Context) -> None:
    """Enqueue all chunks on both streams. Nothing here waits."""
    full = [TOPS_CHECK(tops.topsEventCreateWithFlags(tops.topsEventDisableTiming)) for _ in range(SLOTS)]
    for i in range(CHUNKS):
        slot, turn = i % SLOTS, i // SLOTS
        d_slot, d_word, offset = d_slots + slot * NBYTES, d_emptied + 4 * slot, i * NBYTES
        TOPS_CHECK(tops.topsStreamWaitValue32Async(d_word, turn, tops.topsStreamWaitValueGte, load))
        TOPS_CHECK(tops.topsMemcpyAsync(d_slot, h_in + offset, NBYTES, tops.topsMemcpyHostToDevice, load))
        TOPS_CHECK(tops.topsEventRecord(full[slot], load))
        TOPS_CHECK(tops.topsStreamWaitEvent(save, full[slot], 0))
        TOPS_CHECK(tops.topsMemcpyAsync(h_out + offset, d_slot, NBYTES, tops.topsMemcpyDeviceToHost, save))
        TOPS_CHECK(tops.topsStreamAddCallback(save, negate, (context, i), tops.topsStreamCallbackBlocking))
        TOPS_CHECK(tops.topsStreamWriteValue32Async(d_word, turn + 1, 0, save))
    for event in full:
        TOPS_CHECK(tops.topsEventDestroy(event))  # what is enqueued has the records that it needs


def main() -> None:
    """Send eight chunks through two slots."""
    TOPS_CHECK(tops.topsSetDevice(0))
    h_in, h_out = (TOPS_CHECK(tops.topsHostMalloc(CHUNKS * NBYTES, tops.topsHostMallocDefault)) for _ in range(2))
    given, taken = (tops.host_view(h, CHUNKS * NBYTES).view(np.float32).reshape(CHUNKS, N) for h in (h_in, h_out))
    given[:] = np.arange(CHUNKS * N).reshape(CHUNKS, N)
    d_slots, d_emptied = TOPS_CHECK(tops.topsMalloc(SLOTS * NBYTES)), TOPS_CHECK(tops.topsMalloc(4 * SLOTS))
    for slot in range(SLOTS):
        TOPS_CHECK(tops.topsStreamWriteValue32(d_emptied + 4 * slot, 0, 0))
    load, save = (TOPS_CHECK(tops.topsStreamCreateWithFlags(tops.topsStreamNonBlocking)) for _ in range(2))
    start, stop = (TOPS_CHECK(tops.topsEventCreate()) for _ in range(2))
    context = Context(taken)

    TOPS_CHECK(tops.topsEventRecord(start, load))
    enqueue(load, save, d_slots, d_emptied, h_in, h_out, context)
    TOPS_CHECK(tops.topsEventRecord(stop, save))

    TOPS_CHECK(tops.topsStreamWaitValue32(d_emptied, 1, tops.topsStreamWaitValueGte))  # the host can wait for it too
    assert context.finished[:1] == [0]
    TOPS_CHECK(tops.topsEventSynchronize(stop))
    ms = TOPS_CHECK(tops.topsEventElapsedTime(start, stop))
    print(f"{CHUNKS} chunks in {ms:.3f} ms, in order {context.finished}")

    for stream, event in ((load, start), (save, stop)):
        TOPS_CHECK(tops.topsEventDestroy(event))
        TOPS_CHECK(tops.topsStreamDestroy(stream))
    (err,) = tops.topsStreamQuery(load)
    print(f"asking a destroyed stream: {TOPS_CHECK(tops.topsGetErrorName(err))}")
    result = taken.copy()
    for device_pointer, host_pointer in ((d_slots, h_in), (d_emptied, h_out)):
        TOPS_CHECK(tops.topsFree(device_pointer))
        TOPS_CHECK(tops.topsHostFree(host_pointer))
    assert err == tops.topsErrorInvalidHandle and context.finished == list(range(CHUNKS))
    assert np.array_equal(result, -np.arange(CHUNKS * N, dtype=np.float32).reshape(CHUNKS, N))


if __name__ == "__main__":
    main()
