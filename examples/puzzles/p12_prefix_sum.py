"""Puzzle 12, prefix sum: everybody needs what came before.

Given: `a` of any length, perhaps much longer than a block, and one block of twelve threads.
Wanted: `out[i]` is the sum of `a[0]` to `a[i]`.
Teaches: what looks like a chain can be cut. Each thread adds up a share of its own; the twelve totals are added
    up in steps that double, 1, 2, 4, 8 to the left; then each thread knows what came before its share. What
    came before the whole tile is carried from turn to turn.
Hint: in a step a thread reads its neighbour's total and changes its own, which another one reads: so first all
    read, then all add, with a barrier after each. All threads take the same number of turns, with or without
    elements: see the hint to puzzle 9 for the thread that may fill the gap.
"""

from __future__ import annotations

import numpy as np
from judge import Array, Problem, check, numbers

from atops import kernels as k

BLOCK, SHARE = 12, 8
SIZES = ((1,), (8,), (95,), (96,), (97,), (1000,))
CHIPS = ("gcu300", "gcu210")  # all global memory goes through the DTE, so either will do


def spec(a: Array) -> Array:
    """Return what must come out."""
    return np.cumsum(a)


@k.kernel
async def solve(out: k.Span, a: k.Span) -> None:
    """Sum up a share of each tile, and add what came before it."""
    me = k.threadIdx.x
    share = k.local(SHARE, np.float32)
    totals = k.shared(BLOCK, np.float32)
    carry = np.float32(0)  # the sum of all tiles so far; every thread counts along
    with k.dte_scope() as dte:
        for tile in range(0, a.size, BLOCK * SHARE):  # not k.tiles: the threads go through each tile together
            first = tile + me * SHARE
            last = min(first + SHARE, a.size)
            k.slice(dte, share, a, (first,))  # beyond the end 0, which changes no sum
            np.cumsum(share, out=share)
            totals[me] = share[SHARE - 1]
            await k.syncthreads()  # all totals are here

            step = 1
            while step < BLOCK:
                left = totals[me - step] if me >= step else 0
                await k.syncthreads()  # all have read
                totals[me] += left
                await k.syncthreads()  # all have added
                step *= 2

            share += carry + (totals[me - 1] if me else 0)
            carry += totals[BLOCK - 1]
            if first < last:
                k.memcpy(dte, out[first:last], share[: last - first])
            await k.syncthreads()  # no thread reads these totals any more: the next turn may store its own


def problem(size: int, seed: int = 1) -> Problem:
    """Return a task of `size` elements for one block."""
    a = numbers(seed, size)
    return Problem((a,), spec(a), grid=1, block=BLOCK)


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("prefix sum", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
