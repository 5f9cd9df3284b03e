"""Puzzle 7, blocks 2D: a matrix under a grid of blocks.

Given: `a`, a matrix of any shape, and enough blocks of 4 x 3 threads to cover it, side by side and below each
    other.
Wanted: `out` is `a` on and below the diagonal, where the column is not beyond the row, and 0 above it.
Teaches: each dimension is counted by itself, the block's number times the block's extent plus the thread's.
Hint: first find row and column, then guard, then decide. Every element of `out` must be stored, the zeros too.
"""

from __future__ import annotations

import numpy as np
from judge import Array, Problem, check, numbers

from atops import kernels as k

SIZES = ((1, 1), (3, 4), (4, 5), (10, 7), (2, 30))
CHIPS = ("gcu300",)  # the chip whose threads reach global memory themselves


def spec(a: Array) -> Array:
    """Return what must come out."""
    return np.tril(a)


@k.kernel
def solve(out: k.Span, a: k.Span) -> None:
    """Compute the element at one place of the whole matrix."""
    row = k.blockIdx.y * k.blockDim.y + k.threadIdx.y
    column = k.blockIdx.x * k.blockDim.x + k.threadIdx.x
    if row < a.shape[0] and column < a.shape[1]:
        out[row, column] = a[row, column] if column <= row else 0


def problem(rows: int, columns: int, seed: int = 1) -> Problem:
    """Return a task of `rows` x `columns` elements under blocks that are four wide and three high."""
    a = numbers(seed, rows, columns)
    return Problem((a,), spec(a), grid=(-(-columns // 4), -(-rows // 3)), block=(4, 3))


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("blocks 2D", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
