"""Puzzle 1, map: a thread for each element.

Given: `a`, at most twelve numbers, and one block with exactly as many threads.
Wanted: `out[i]` is twice `a[i]` plus one.
Teaches: every thread runs the same function, and `k.threadIdx.x` tells them apart: where a program for one
    thread has a loop, a kernel has threads.
Hint: two lines. Which element is mine? What becomes of it?
"""

from __future__ import annotations

from judge import Array, Problem, check, numbers

from atops import kernels as k

SIZES = ((1,), (5,), (12,))
CHIPS = ("gcu300",)  # the chip whose threads reach global memory themselves


def spec(a: Array) -> Array:
    """Return what must come out."""
    return 2 * a + 1


@k.kernel
def solve(out: k.Span, a: k.Span) -> None:
    """Compute one element. Nothing here can wait, so a plain `def` is enough."""
    i = k.threadIdx.x
    out[i] = 2 * a[i] + 1


def problem(size: int, seed: int = 1) -> Problem:
    """Return a task of `size` elements: one block, a thread for each."""
    a = numbers(seed, size)
    return Problem((a,), spec(a), grid=1, block=size)


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("map", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
