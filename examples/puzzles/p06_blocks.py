"""Puzzle 6, blocks: more elements than a block has threads.

Given: `a` of any length, and enough blocks of twelve threads to cover it.
Wanted: `out[i]` is `a[i]` less its position `i`.
Teaches: a block has at most twelve threads, a cluster's SIPs; what is larger takes more blocks. An element is
    found from `k.blockIdx` and `k.threadIdx` together.
Hint: how many threads stand in the blocks before mine? The last block may still have too many.
"""

from __future__ import annotations

import numpy as np
from judge import Array, Problem, check, numbers

from atops import kernels as k

BLOCK = 12
SIZES = ((1,), (12,), (13,), (100,))
CHIPS = ("gcu300",)  # the chip whose threads reach global memory themselves


def spec(a: Array) -> Array:
    """Return what must come out."""
    return a - np.arange(a.size, dtype=a.dtype)


@k.kernel
def solve(out: k.Span, a: k.Span) -> None:
    """Compute one element, found by its number in the whole grid."""
    i = k.blockIdx.x * k.blockDim.x + k.threadIdx.x  # k.thread_id() says the same
    if i < a.size:
        out[i] = a[i] - i


def problem(size: int, seed: int = 1) -> Problem:
    """Return a task of `size` elements: as many blocks of twelve as it takes."""
    a = numbers(seed, size)
    return Problem((a,), spec(a), grid=-(-size // BLOCK), block=BLOCK)


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("blocks", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
