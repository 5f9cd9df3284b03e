"""The demo's kernel: how often each byte value occurs, with tiles that arrive while the ones before are counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from atops import kernels as k
from atops.runtime.buffer import DeviceArray
from atops.runtime.stream import Stream

__all__ = ("BINS", "BLOCKS", "THREADS", "byte_histogram", "count_bytes")

BINS = 256
BLOCKS, THREADS = 2, 12  # one block a cluster, one thread a SIP
TILE = 32 << 10  # bytes that a thread moves and counts at a time


@k.kernel
async def byte_histogram(data: Any, counts: Any) -> None:
    """Count the bytes of `data`, uint8 of any size, into `counts`: int64, BINS for each block, one block after another.

    Each thread counts its own tiles in L1. It has two buffers and two DTE contexts: while one tile is counted the next
    is on its way. Then the block's threads put their counts side by side in L2, and the first of them adds them up.
    """
    tiles = list(k.tiles(data.size, TILE))
    buffers = [k.local(TILE, np.uint8), k.local(TILE, np.uint8)]
    mine = k.local(BINS, np.int64)
    mine[:] = 0

    with k.dte_scope() as even, k.dte_scope() as odd:
        engines = [even, odd]

        def load(turn: int) -> Any:
            part = tiles[turn]
            tile = buffers[turn % 2][: part.stop - part.start]
            return tile, k.memcpy_async(engines[turn % 2], tile, data[part])

        coming = load(0) if tiles else None
        for turn in range(len(tiles)):
            tile, arrived = coming  # type: ignore[misc]  # there is one for every turn
            if turn + 1 < len(tiles):
                coming = load(turn + 1)
            await arrived  # before this wait the tile holds whatever was there
            mine += np.bincount(tile, minlength=BINS)

        block = k.shared((THREADS, BINS), np.int64)
        total = k.shared(BINS, np.int64)
        block[k.threadIdx.x] = mine
        await k.syncthreads()  # before this barrier other threads' rows hold whatever was there
        if k.threadIdx.x == 0:
            np.sum(block, axis=0, out=total)
            first = k.blockIdx.x * BINS
            k.memcpy(even, counts[first : first + BINS], total)


def count_bytes(stream: Stream, data: DeviceArray) -> DeviceArray:
    """Enqueue the histogram of `data` on `stream`. Returns the counts, int64 of shape (BLOCKS * BINS,)."""
    counts = stream.empty(BLOCKS * BINS, np.int64)
    stream.launch(byte_histogram, (BLOCKS, THREADS), data, counts)
    return counts
