"""Puzzle 10, dot product: many threads, one number.

Given: `a` and `b`, equally long and perhaps much longer than a block, and one block of twelve threads.
Wanted: `out[0]` is the sum of all `a[i] * b[i]`.
Teaches: a reduction has two parts. Alone, each thread takes tiles in turn through its own L1 and keeps one sum.
    Together, the twelve sums become one in a tree: pairs, then pairs of pairs, a barrier before each level,
    four levels for twelve.
Hint: `k.tiles(a.size, TILE)` yields a thread's share as slices, the last perhaps short. A DTE context has one
    transfer in flight; with two contexts both inputs travel at once. Twelve is no power of two, so some threads
    have no partner.
"""

from __future__ import annotations

import numpy as np
from judge import Array, Problem, check, numbers

from atops import kernels as k

BLOCK, TILE = 12, 64
SIZES = ((1,), (12,), (100,), (768,), (3001,))
CHIPS = ("gcu300", "gcu210")  # all global memory goes through the DTE, so either will do


def spec(a: Array, b: Array) -> Array:
    """Return what must come out."""
    return np.array([np.sum(a * b)])


@k.kernel
async def solve(out: k.Span, a: k.Span, b: k.Span) -> None:
    """Sum up a share of the products, then meet the others in the tree."""
    me = k.threadIdx.x
    left, right = k.local(TILE, np.float32), k.local(TILE, np.float32)
    sums = k.shared(BLOCK, np.float32)
    sums[me] = 0  # a thread may have no tile at all
    with k.dte_scope() as dte, k.dte_scope() as other:
        for part in k.tiles(a.size, TILE):
            size = part.stop - part.start
            left_here = k.memcpy_async(dte, left[:size], a[part])
            right_here = k.memcpy_async(other, right[:size], b[part])
            await left_here  # before these waits there is nothing to be read
            await right_here
            sums[me] += np.dot(left[:size], right[:size])

        step = 1  # how far away the partner is: 1, 2, 4, 8
        while step < BLOCK:
            await k.syncthreads()  # the level below is complete; outside the `if`, so that all come here
            if me % (2 * step) == 0 and me + step < BLOCK:
                sums[me] += sums[me + step]
            step *= 2

        if me == 0:  # it made the last addition itself, so there is no thread to wait for
            k.memcpy(dte, out, sums[:1])


def problem(size: int, seed: int = 1) -> Problem:
    """Return a task of `size` pairs for one block."""
    a, b = numbers(seed, size), numbers(seed + 100, size)
    a[0] = 0  # the sum of a single pair is 0, and shows if it was added to what lay in memory before
    return Problem((a, b), spec(a, b), grid=1, block=BLOCK)


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("dot product", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
