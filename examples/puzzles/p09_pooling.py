"""Puzzle 9, pooling: neighbours share a window, and the DTE brings it.

Given: `a` of any length, all its numbers below zero, and enough blocks of twelve threads to cover it.
Wanted: `out[i]` is the largest of the four numbers `a[i]` to `a[i + 3]`, of fewer where `a` ends before.
Teaches: the way in and out through L2. One thread lets the block's DTE context bring all that the block needs,
    the halo beyond its own twelve elements included; everybody computes; one thread lets the result be taken
    away. Then no thread touches global memory itself, and the kernel runs on both chips.
Hint: `k.slice` fills what lies beyond the end of its source with a value of your choice. Which number is never
    the largest? Count the barriers: one before the window is read, one before the result leaves.
"""

from __future__ import annotations

import numpy as np
from judge import Array, Problem, check, numbers

from atops import kernels as k

BLOCK, WIDTH = 12, 4
SIZES = ((1,), (3,), (12,), (41,))
CHIPS = ("gcu300", "gcu210")  # all global memory goes through the DTE, so either will do


def spec(a: Array) -> Array:
    """Return what must come out."""
    return np.array([a[i : i + WIDTH].max() for i in range(a.size)])


@k.kernel
async def solve(out: k.Span, a: k.Span) -> None:
    """Find the largest number of one window; thread 0 moves the block's data as well."""
    me, start = k.threadIdx.x, k.blockIdx.x * BLOCK
    mover = k.shared_dte_ctx()
    window = k.shared(BLOCK + WIDTH - 1, np.float32)
    largest = k.shared(BLOCK, np.float32)
    if me == 0:
        mover.init()
        k.slice(mover, window, a, (start,), -np.inf)  # what is filled in beyond the end is never the largest
    await k.syncthreads()  # the window is here
    largest[me] = np.max(window[me : me + WIDTH])  # idle threads compute, too: it does no harm
    await k.syncthreads()  # all twelve results are here
    if me == 0:
        stop = min(start + BLOCK, out.size)  # the guard, once for the block
        k.memcpy(mover, out[start:stop], largest[: stop - start])
        mover.destroy()


def problem(size: int, seed: int = 1) -> Problem:
    """Return a task of `size` negative numbers: as many blocks of twelve as it takes."""
    a = -1 - np.abs(numbers(seed, size))
    return Problem((a,), spec(a), grid=-(-size // BLOCK), block=BLOCK)


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("pooling", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
