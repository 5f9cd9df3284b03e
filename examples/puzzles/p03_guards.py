"""Puzzle 3, guards: more threads than elements.

Given: `a`, at most twelve numbers, and one block of twelve threads, whatever the size of `a`.
Wanted: `out[i]` is `a[i]` without its sign.
Teaches: a launch comes in the shape that suits the chip, the data in any; a thread without an element does
    nothing.
Hint: `a.size` is how many elements there are.
"""

from __future__ import annotations

import numpy as np
from judge import Array, Problem, check, numbers

from atops import kernels as k

SIZES = ((1,), (7,), (11,), (12,))
CHIPS = ("gcu300",)  # the chip whose threads reach global memory themselves


def spec(a: Array) -> Array:
    """Return what must come out."""
    return np.abs(a)


@k.kernel
def solve(out: k.Span, a: k.Span) -> None:
    """Compute one element, in those threads that have one."""
    i = k.threadIdx.x
    if i < a.size:  # the guard: without it the first idle thread reads beyond the end
        out[i] = abs(a[i])


def problem(size: int, seed: int = 1) -> Problem:
    """Return a task of `size` elements: one block of twelve threads."""
    a = numbers(seed, size)
    return Problem((a,), spec(a), grid=1, block=12)


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("guards", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
