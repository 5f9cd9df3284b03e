"""Puzzle 5, broadcast: a column and a row make a table.

Given: `a` of shape (rows, 1) and `b` of shape (1, columns), at most 3 and 4, and one block of 4 x 3 threads.
Wanted: `out[row, column]` is the number of `a` in that row less the number of `b` in that column.
Teaches: threads may read the same element, as many as like; only what is stored must be one thread's own.
Hint: the table is as large as `out`, so guard by the shape of `out`.
"""

from __future__ import annotations

from judge import Array, Problem, check, numbers

from atops import kernels as k

SIZES = ((1, 1), (3, 4), (2, 3), (3, 1))
CHIPS = ("gcu300",)  # the chip whose threads reach global memory themselves


def spec(a: Array, b: Array) -> Array:
    """Return what must come out; numpy broadcasts by itself."""
    return a - b


@k.kernel
def solve(out: k.Span, a: k.Span, b: k.Span) -> None:
    """Compute one place of the table."""
    row, column = k.threadIdx.y, k.threadIdx.x
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, 0] - b[0, column]


def problem(rows: int, columns: int, seed: int = 1) -> Problem:
    """Return a task for a table of `rows` x `columns`: one block, four threads wide and three high."""
    a, b = numbers(seed, rows, 1), numbers(seed + 100, 1, columns)
    return Problem((a, b), spec(a, b), grid=1, block=(4, 3))


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("broadcast", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
