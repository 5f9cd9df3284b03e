"""The demo's kernel: how often each byte value occurs, counted by every thread of the chip at once.

Three things happen here that happen in most kernels: tiles are brought in by the DTE while others are worked on, the
threads of a block meet in shared memory, and each block leaves a result of its own.
"""

from __future__ import annotations

import numpy as np

from atops import DeviceArray, Stream
from atops import kernels as k

__all__ = ("BLOCKS", "THREADS", "TILE", "VALUES", "byte_histogram", "count_bytes")

VALUES = 256  # that a byte can have
BLOCKS, THREADS = 2, 12  # a block for each cluster, a thread for each of its SIPs
TILE = 8 << 10  # bytes that a thread moves and counts at a time


@k.kernel
async def byte_histogram(data: k.Span, counts: k.Span) -> None:
    """Count how often each byte value occurs in `data`; each block writes its own row of `counts`."""
    # This thread's L1: two buffers, so that one tile can arrive while the other is counted, and the counts so far.
    buffers = k.local((2, TILE), np.uint8)
    mine = k.local(VALUES, np.int64)
    mine[:] = 0  # L1 still holds what the kernel before this one left there

    share = list(k.tiles(data.size, TILE))  # this thread's tiles: the 24 threads take turns
    with k.dte_scope() as even, k.dte_scope() as odd:
        contexts = (even, odd)  # one for each buffer: a context has one transfer in flight

        def trigger(turn: int) -> tuple[k.Span, k.event]:
            """Start bringing in a tile; return where it will be, and the event that says it is there."""
            part = share[turn]
            tile = buffers[turn % 2][: part.stop - part.start]  # the very last tile may be short
            return tile, k.memcpy_async(contexts[turn % 2], tile, data[part])

        coming = trigger(0) if share else None
        for turn in range(1, len(share) + 1):
            tile, arrived = coming  # type: ignore[misc]  # there is one for each turn
            coming = trigger(turn) if turn < len(share) else None  # 1. send for the next tile
            await arrived  # 2. wait for this one: before that, its bytes are undefined
            mine += np.bincount(tile, minlength=VALUES)  # 3. count it while the next is on its way

        # The block's L2: a row for each thread. No thread may read another's row before all have written theirs.
        rows = k.shared((THREADS, VALUES), np.int64)
        rows[k.threadIdx.x] = mine
        await k.syncthreads()
        if k.threadIdx.x == 0:
            np.sum(rows, axis=0, out=mine)
            k.memcpy(even, counts[k.blockIdx.x], mine)


def count_bytes(stream: Stream, data: DeviceArray) -> DeviceArray:
    """Enqueue the histogram of `data` (uint8, any size). Returns its counts: int64, a row of VALUES for each block."""
    counts = stream.empty((BLOCKS, VALUES), np.int64)
    stream.launch(byte_histogram, (BLOCKS, THREADS), data, counts)
    return counts
