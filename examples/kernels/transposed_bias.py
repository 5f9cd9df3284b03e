"""Transpose and broadcast by DTE: a bias is added to a transposed matrix, and no thread moves an element itself.

Look at: the layout is the DTE's work. It cuts a tile out of the matrix and turns it on the way in, spreads the bias
over a tile once for a whole strip, and puts results in their place on the way out. The SIP adds arrays of one shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from measured import Array, Measured, corner

import atops
from atops import kernels as k

HEIGHT, WIDTH = 512, 48  # of a tile of the result; float32: 96 KiB, and two of them in L1


@k.kernel
async def add_bias(y: k.Span, x: k.Span, bias: k.Span) -> None:
    """Store x transposed, plus the bias in each row, into y. A thread takes strips of y, WIDTH columns each."""
    tile = k.local((HEIGHT, WIDTH), np.float32)
    with k.dte_scope() as turn, k.dte_scope() as repeat, k.dte_scope() as out:
        turn.config_slice_transpose(tile, x, (0, 0), (1, 0))  # configured once; patched for each tile
        for columns in k.tiles(y.shape[1], WIDTH):
            width = columns.stop - columns.start
            spread = k.local((HEIGHT, width), np.float32)
            spread_out = k.broadcast_async(repeat, spread, bias[columns].reshape(1, width))
            turn.set_src_offset(0, columns.start)
            for row in range(0, y.shape[0], HEIGHT):
                turn.set_src_offset(1, row)
                await turn.trigger()  # what lies beyond x is filled with zeros, and stays in L1
                await spread_out  # over after the first time
                height = min(HEIGHT, y.shape[0] - row)
                np.add(tile[:height, :width], spread[:height], out=tile[:height, :width])
                k.deslice(out, y, corner(out, tile, height, width), (row, columns.start))


def problem(generator: np.random.Generator, features: int, batch: int) -> tuple[Any, ...]:
    """Return a matrix that has a row for each feature, and a bias for each."""
    return generator.random((features, batch), np.float32), generator.random(features, np.float32)


def reference(x: Array, bias: Array) -> Array:
    """Do the same in numpy."""
    result = np.ascontiguousarray(x.T)
    result += bias
    return result


async def program(matrix: Array, offsets: Array) -> Array:
    """Upload, launch on the whole chip, fetch."""
    async with atops.Device(0).create_stream() as stream:
        x, bias = stream.upload(matrix), stream.upload(offsets)
        y = stream.empty(matrix.shape[::-1], np.float32)
        stream.launch(add_bias, (2, 12), y, x, bias)
        return await stream.fetch(y)


EXAMPLE = Measured(
    "transpose and broadcast by DTE",
    program,
    reference,
    problem,
    size=(1000, 1000),
    others=((1, 1), (48, 512), (5, 700), (700, 5), (1024, 1025)),
)

if __name__ == "__main__":
    EXAMPLE.main()
