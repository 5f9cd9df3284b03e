"""Puzzle 14, matrix multiply: tiles in shared memory.

Given: `a` of shape (rows, inner) and `b` of shape (inner, columns), and a block of twelve threads for each
    square of 12 x 12 elements of the result.
Wanted: `out` is the matrix product of `a` and `b`.
Teaches: data that is needed often is brought near once. A block walks along the inner dimension; at each step
    one thread brings a square of `a` and a square of `b` into L2, both at once, and all twelve threads use
    them, each for its own row.
Hint: a square that hangs over an edge is filled with 0 by `k.slice`, so only storing needs a guard. Two
    barriers a step: one before the squares are used, one before they are replaced.
"""

from __future__ import annotations

import numpy as np
from judge import Array, Problem, check, numbers

from atops import kernels as k

SIDE = 12
SIZES = ((1, 1, 1), (5, 30, 7), (12, 24, 12), (13, 17, 30))
CHIPS = ("gcu300", "gcu210")  # all global memory goes through the DTE, so either will do


def spec(a: Array, b: Array) -> Array:
    """Return what must come out."""
    return a @ b


@k.kernel
async def solve(out: k.Span, a: k.Span, b: k.Span) -> None:
    """Compute one row of the block's square of the result."""
    me = k.threadIdx.x
    top, column = k.blockIdx.y * SIDE, k.blockIdx.x * SIDE
    left = k.shared((SIDE, SIDE), np.float32)
    right = k.shared((SIDE, SIDE), np.float32)
    total = k.local(SIDE, np.float32)
    total[:] = 0
    with k.dte_scope() as dte, k.dte_scope() as other:
        for inner in range(0, a.shape[1], SIDE):
            if me == 0:
                left_here = k.slice_async(dte, left, a, (top, inner))
                right_here = k.slice_async(other, right, b, (inner, column))
                await left_here
                await right_here
            await k.syncthreads()  # both squares are here, for all
            total += left[me] @ right
            await k.syncthreads()  # no thread needs them any more

        if top + me < out.shape[0]:
            end = min(column + SIDE, out.shape[1])
            k.memcpy(dte, out[top + me, column:end], total[: end - column])


def problem(rows: int, inner: int, columns: int, seed: int = 1) -> Problem:
    """Return a task of these extents: a block for each square of the result."""
    a, b = numbers(seed, rows, inner), numbers(seed + 100, inner, columns)
    a[0] = 0  # sums of 0 show if they were added to what lay in memory before
    return Problem((a, b), spec(a, b), grid=(-(-columns // SIDE), -(-rows // SIDE)), block=SIDE)


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("matrix multiply", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
