"""Puzzle 2, zip: two inputs, side by side.

Given: `a` and `b`, equally long, at most twelve numbers, and one block with exactly as many threads.
Wanted: `out[i]` is `a[i]` less `b[i]`.
Teaches: arguments arrive in the order of the launch; here, as everywhere on this chip, the destination comes
    first.
Hint: the map once more. Mind which is taken from which.
"""

from __future__ import annotations

from judge import Array, Problem, check, numbers

from atops import kernels as k

SIZES = ((1,), (7,), (12,))
CHIPS = ("gcu300",)  # the chip whose threads reach global memory themselves


def spec(a: Array, b: Array) -> Array:
    """Return what must come out."""
    return a - b


@k.kernel
def solve(out: k.Span, a: k.Span, b: k.Span) -> None:
    """Compute one element of one pair."""
    i = k.threadIdx.x
    out[i] = a[i] - b[i]


def problem(size: int, seed: int = 1) -> Problem:
    """Return a task of `size` pairs: one block, a thread for each."""
    a, b = numbers(seed, size), numbers(seed + 100, size)
    return Problem((a, b), spec(a, b), grid=1, block=size)


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("zip", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
