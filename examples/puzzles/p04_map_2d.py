"""Puzzle 4, map 2D: threads in rows and columns.

Given: `a`, a matrix of at most three rows and four columns, and one block of 4 x 3 threads.
Wanted: `out[row, column]` is the square of `a[row, column]`.
Teaches: a launch names its fastest dimension first, x, y, z; a shape names it last. So x is the column and y
    the row.
Hint: there are two numbers to guard now.
"""

from __future__ import annotations

from judge import Array, Problem, check, numbers

from atops import kernels as k

SIZES = ((1, 1), (3, 4), (2, 4), (3, 2))
CHIPS = ("gcu300",)  # the chip whose threads reach global memory themselves


def spec(a: Array) -> Array:
    """Return what must come out."""
    return a * a


@k.kernel
def solve(out: k.Span, a: k.Span) -> None:
    """Compute the element at one place."""
    row, column = k.threadIdx.y, k.threadIdx.x  # x runs fastest, as columns do in memory
    if row < a.shape[0] and column < a.shape[1]:
        out[row, column] = a[row, column] ** 2


def problem(rows: int, columns: int, seed: int = 1) -> Problem:
    """Return a task of `rows` x `columns` elements: one block, four threads wide and three high."""
    a = numbers(seed, rows, columns)
    return Problem((a,), spec(a), grid=1, block=(4, 3))


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("map 2D", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
