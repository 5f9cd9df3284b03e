"""Puzzle 13, axis sum: a batch of sums, a block for each.

Given: `a`, a matrix of any shape, and as many blocks of twelve threads as it has rows.
Wanted: `out[row]` is the sum of the row.
Teaches: a batch is spread over blocks. There may be more of them than clusters; they run in any order, and none
    waits for another. What several kernels need is a device function, which is awaited where it waits itself.
Hint: the dot product's tree, once in each block. `k.tiles` shares work among all threads of the grid, which is
    too many here: the threads of one block share one row.
"""

from __future__ import annotations

import numpy as np
from judge import Array, Problem, check, numbers

from atops import kernels as k

BLOCK, TILE = 12, 32
SIZES = ((1, 1), (2, 31), (3, 1000), (5, 385))
CHIPS = ("gcu300", "gcu210")  # all global memory goes through the DTE, so either will do


def spec(a: Array) -> Array:
    """Return what must come out."""
    return a.sum(axis=1)


@k.device
async def gather(sums: Array) -> None:
    """Add up the block's sums in a tree; the result is in `sums[0]`, for thread 0 to read."""
    me, step = k.threadIdx.x, 1
    while step < BLOCK:
        await k.syncthreads()
        if me % (2 * step) == 0 and me + step < BLOCK:
            sums[me] += sums[me + step]
        step *= 2


@k.kernel
async def solve(out: k.Span, a: k.Span) -> None:
    """Sum up a share of the block's row, then gather."""
    me, row = k.threadIdx.x, a[k.blockIdx.x, :]  # a slice of global memory touches no byte
    tile = k.local(TILE, np.float32)
    sums = k.shared(BLOCK, np.float32)
    sums[me] = 0
    with k.dte_scope() as dte:
        for start in range(me * TILE, row.size, BLOCK * TILE):  # as k.tiles, but among the threads of this block
            size = min(TILE, row.size - start)
            k.memcpy(dte, tile[:size], row[start : start + size])
            sums[me] += np.sum(tile[:size])
        await gather(sums)
        if me == 0:
            k.memcpy(dte, out[k.blockIdx.x : k.blockIdx.x + 1], sums[:1])


def problem(rows: int, columns: int, seed: int = 1) -> Problem:
    """Return a task of `rows` sums: a block for each."""
    a = numbers(seed, rows, columns)
    a[0] = 0  # a sum of 0 shows if it was added to what lay in memory before
    return Problem((a,), spec(a), grid=rows, block=BLOCK)


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("axis sum", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
