"""Puzzle 11, 1D convolution: tiles that overlap.

Given: `a` of any length, a few weights `b`, and both blocks of the chip, twelve threads each.
Wanted: `out[i]` is the sum of `a[i + j] * b[j]` over all `j`; beyond its end `a` counts as 0.
Teaches: threads that need their neighbours' data do not have to talk. Each brings its tile with the halo behind
    it, a few elements twice, and works alone in L1: no shared memory, no barrier, and both blocks are busy.
Hint: a tile of results needs `TILE + b.size - 1` elements of `a`. In L1 let numpy work on whole tiles: one step
    for each weight, not one for each element.
"""

from __future__ import annotations

import numpy as np
from judge import Array, Problem, check, numbers

from atops import kernels as k

TILE = 16
SIZES = ((1, 1), (5, 9), (16, 3), (100, 4), (1001, 5))
CHIPS = ("gcu300", "gcu210")  # all global memory goes through the DTE, so either will do


def spec(a: Array, b: Array) -> Array:
    """Return what must come out."""
    return np.correlate(np.append(a, np.zeros(b.size - 1, a.dtype)), b, "valid")


@k.kernel
def solve(out: k.Span, a: k.Span, b: k.Span) -> None:
    """Compute tiles of results in turn. The DTE operations without `_async` are over when they return."""
    weights = k.local(b.size, np.float32)
    tile = k.local(TILE + b.size - 1, np.float32)
    result = k.local(TILE, np.float32)
    with k.dte_scope() as dte:
        k.memcpy(dte, weights, b)
        for part in k.tiles(a.size, TILE):
            k.slice(dte, tile, a, (part.start,))  # the tile and its halo; beyond the end 0, as the task wants it
            result[:] = 0
            for j in range(b.size):
                result += tile[j : j + TILE] * weights[j]
            k.memcpy(dte, out[part], result[: part.stop - part.start])


def problem(size: int, weights: int, seed: int = 1) -> Problem:
    """Return a task of `size` elements and so many weights, for the whole chip."""
    a, b = numbers(seed, size), numbers(seed + 100, weights)
    return Problem((a, b), spec(a, b), grid=2, block=12)


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("1D convolution", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
