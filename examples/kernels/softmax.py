"""Softmax of rows with vectors: a lane for each row, so that no reduction crosses lanes.

Look at: `slice_transpose`. Vectors have no sum over their lanes and need none: 128 rows are transposed on their way
into L1, where element c of all of them is vector c. The greatest of each row is then the greatest of vectors, its sum a
sum of vectors, and `k.exp` works on 128 rows at once. An array of vectors stands for a loop over them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from measured import Array, Measured, corner

import atops
from atops import kernels as k

ROWS = 128  # of a tile: the lanes of k.vector4[np.float32]
GROUP = 64  # vectors that are combined at once


@k.kernel
async def softmax(y: k.Span, x: k.Span) -> None:
    """Store exp(x - max) / sum(exp(x - max)) of each row of x into y."""
    rows, columns = x.shape
    vector, count = k.vector4[np.float32], -(-columns // GROUP) * GROUP
    tile, scratch = k.local((count, ROWS), np.float32), k.local((GROUP, ROWS), np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(rows, ROWS):
            # Columns beyond x's are filled with -inf: that is never the greatest, and adds exp(-inf) = 0.
            await k.slice_transpose_async(dte, tile, x, (part.start, 0), (1, 0), -np.inf)
            highest = combined(lambda a, b: (a > b).select(a, b), tile, scratch)
            powers = k.exp(vector.load(tile, 0, count) - highest)  # one vector goes with each vector of the array
            powers.store(tile)
            total = combined(lambda a, b: a + b, tile, scratch)
            (powers * k.div(1, total)).store(tile)
            result = corner(dte, tile, columns, part.stop - part.start)
            await k.transpose_deslice_async(dte, y, result, (part.start, 0), (1, 0))


@k.device
def combined(operation: Any, tile: Any, scratch: Any) -> k.Vector:
    """Combine all vectors of a tile: group with group, then the second half of the last with its first, and so on."""
    vector = k.vector4[np.float32]
    group = vector.load(tile, 0, GROUP)
    for row in range(GROUP, len(tile), GROUP):
        group = operation(group, vector.load(tile, row * ROWS, GROUP))
    half = GROUP // 2
    while half:
        group.store(scratch)
        group = operation(vector.load(scratch, 0, half), vector.load(scratch, half * ROWS, half))
        half //= 2
    return group[0]


def problem(generator: np.random.Generator, rows: int, columns: int) -> tuple[Any, ...]:
    """Return numbers whose powers overflow unless the greatest is subtracted first, some of them masked by -inf."""
    x = generator.standard_normal((rows, columns), np.float32) * np.float32(50)
    x[:, 1:][generator.random((rows, columns - 1)) < 0.1] = -np.inf
    return (x,)


def reference(x: Array) -> Array:
    """Do the same in numpy."""
    powers = x - x.max(axis=1, keepdims=True)
    np.exp(powers, out=powers)
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


async def program(host: Array) -> Array:
    """Upload, launch on the whole chip, fetch."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.upload(host)
        y = stream.empty_like(x)
        stream.launch(softmax, (2, 12), y, x)
        return await stream.fetch(y)


EXAMPLE = Measured(
    "softmax, a lane for each row",
    program,
    reference,
    problem,
    size=(3072, 256),
    others=((1, 1), (128, 64), (129, 65), (500, 100), (3200, 7)),
    tolerance=1e-6,
    chips=("gcu300",),
)

if __name__ == "__main__":
    EXAMPLE.main()
