"""Tiled matrix multiplication: thread 0 stages tiles in L2 for its block, each thread slices what it needs from there.

Look at: the two barriers of a turn. After the first the tiles are there; after the second everybody has sliced its part
out of them, and the next may come. Contexts are configured once; then offsets are patched and transfers triggered.
`slice` fills what lies beyond a matrix with zeros, which change no sum, so that sizes need not divide.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from measured import Array, Measured, corner

import atops
from atops import kernels as k

DEPTH = 384  # of a turn: columns of a, rows of b
ROWS, COLUMNS = 128, 192  # of the result, for each thread
DOWN, ACROSS = 3, 4  # threads of a block
HIGH, WIDE = 32, 16  # of the result, multiplied at once


@k.kernel
async def multiply(y: k.Span, a: k.Span, b: k.Span) -> None:
    """Multiply two matrices into y. A block makes tiles of DOWN * ROWS by ACROSS * COLUMNS of it, one after another."""
    stage_a, stage_b = k.shared_dte_ctx(), k.shared_dte_ctx()  # of the block: between global and shared memory
    a_tile = k.shared((DOWN * ROWS, DEPTH), np.float32)
    b_tile = k.shared((DEPTH, ACROSS * COLUMNS), np.float32)
    left, right = k.local((ROWS, DEPTH), np.float32), k.local((DEPTH, COLUMNS), np.float32)
    part, total = (k.local((ROWS, COLUMNS), np.float32) for _ in range(2))
    stager = k.threadIdx.x == 0
    down, across = k.threadIdx.x // ACROSS * ROWS, k.threadIdx.x % ACROSS * COLUMNS  # where this thread's part begins
    tiles = list(product(range(0, y.shape[0], DOWN * ROWS), range(0, y.shape[1], ACROSS * COLUMNS)))
    if stager:
        stage_a.init()
        stage_b.init()
        stage_a.config_slice(a_tile, a, (0, 0))
        stage_b.config_slice(b_tile, b, (0, 0))
    with k.dte_scope() as cut_left, k.dte_scope() as cut_right, k.dte_scope() as out:
        cut_left.config_slice(left, a_tile, (down, 0))
        cut_right.config_slice(right, b_tile, (0, across))
        for row, column in tiles[k.blockIdx.x :: k.gridDim.x]:
            height, width = min(ROWS, y.shape[0] - row - down), min(COLUMNS, y.shape[1] - column - across)
            inside = height > 0 and width > 0
            total[:] = 0
            for depth in range(0, a.shape[1], DEPTH):
                if stager:
                    stage(stage_a, row, depth)
                    stage(stage_b, depth, column)
                await k.syncthreads()  # the tiles are there
                if inside:
                    cut_left.trigger_and_wait()
                    cut_right.trigger_and_wait()
                await k.syncthreads()  # everybody has its part of them
                if inside:
                    multiply_blocks(part, left, right)
                    np.add(total, part, out=total)
            if inside:
                k.deslice(out, y, corner(out, total, height, width), (row + down, column + across))
    if stager:
        stage_a.destroy()
        stage_b.destroy()


@k.device
def stage(context: k.tops_dte_ctx_t, row: int, column: int) -> None:
    """Bring the tile that begins at a row and a column."""
    context.set_src_offset(0, row)
    context.set_src_offset(1, column)
    context.trigger_and_wait()


@k.device
def multiply_blocks(result: k.Span, left: k.Span, right: k.Span) -> None:
    """Multiply in blocks of HIGH by WIDE, as a matrix unit does.

    numpy shares larger ones out to threads of the machine, and to wait for these costs more than they save.
    """
    np.matmul(
        left.reshape(ROWS // HIGH, 1, HIGH, DEPTH),
        np.swapaxes(right.reshape(1, DEPTH, COLUMNS // WIDE, WIDE), 1, 2),
        out=np.swapaxes(result.reshape(ROWS // HIGH, HIGH, COLUMNS // WIDE, WIDE), 1, 2),
    )


def problem(generator: np.random.Generator, rows: int, depth: int, columns: int) -> tuple[Any, ...]:
    """Return two matrices of whole numbers, whose products' sums are exact in whatever order they are added."""
    a, b = generator.integers(-4, 5, (rows, depth)), generator.integers(-4, 5, (depth, columns))
    return a.astype(np.float32), b.astype(np.float32)


def reference(a: Array, b: Array) -> Array:
    """Do the same in numpy."""
    return a @ b


async def program(left: Array, right: Array) -> Array:
    """Upload, launch on the whole chip, fetch."""
    async with atops.Device(0).create_stream() as stream:
        a, b = stream.upload(left), stream.upload(right)
        y = stream.empty((left.shape[0], right.shape[1]), np.float32)
        stream.launch(multiply, (2, DOWN * ACROSS), y, a, b)
        return await stream.fetch(y)


EXAMPLE = Measured(
    "matrix multiplication, staged in L2",
    program,
    reference,
    problem,
    size=(768, 768, 768),
    others=((1, 1, 1), (100, 300, 50), (385, 400, 193), (400, 20, 800)),
)

if __name__ == "__main__":
    EXAMPLE.main()
