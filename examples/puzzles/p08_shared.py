"""Puzzle 8, shared: what one thread stores, another reads.

Given: `a` of any length, and enough blocks of twelve threads to cover it.
Wanted: every run of twelve elements comes out in reverse, and so does the shorter run at the end, if there is
    one. Read each element of `a` once: global memory is far away.
Teaches: `k.shared` is memory in the cluster's L2 that all threads of a block see, and between a store and
    another thread's load there must be a barrier, `await k.syncthreads()`. Only an `async def` can wait.
Hint: store mine, wait for all, read the other's. All threads of the block come to the barrier, idle ones too:
    where does the guard end?
"""

from __future__ import annotations

import numpy as np
from judge import Array, Problem, check, numbers

from atops import kernels as k

BLOCK = 12
SIZES = ((1,), (12,), (13,), (41,))
CHIPS = ("gcu300",)  # the chip whose threads reach global memory themselves


def spec(a: Array) -> Array:
    """Return what must come out."""
    return np.concatenate([a[start : start + BLOCK][::-1] for start in range(0, a.size, BLOCK)])


@k.kernel
async def solve(out: k.Span, a: k.Span) -> None:
    """Hand one element over to the thread at the other end of the block's run."""
    me, start = k.threadIdx.x, k.blockIdx.x * BLOCK
    count = min(BLOCK, a.size - start)  # how many elements this block has
    page = k.shared(BLOCK, np.float32)
    if me < count:
        page[me] = a[start + me]
    await k.syncthreads()  # outside the guard: it waits for every thread of the block
    if me < count:
        out[start + me] = page[count - 1 - me]


def problem(size: int, seed: int = 1) -> Problem:
    """Return a task of `size` elements: as many blocks of twelve as it takes."""
    a = numbers(seed, size)
    return Problem((a,), spec(a), grid=-(-size // BLOCK), block=BLOCK)


def main() -> None:
    """Let the judge see the kernel."""
    verdict = check("shared", solve, [problem(*size) for size in SIZES], CHIPS)
    print(verdict)
    assert verdict.right


if __name__ == "__main__":
    main()
