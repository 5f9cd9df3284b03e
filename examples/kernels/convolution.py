"""2D convolution: a tile and its halo by `pad`, im2col by `slice`, and one product of matrices for each tile.

Look at: the context that is configured once. `pad` brings the rows of a tile with those around it, and zeros where the
image ends. For each place in the filter there is a slice of that, moved by the place: one transfer, of which only the
offsets and the destination change. All slices are one matrix, the filters another, and their product is the result.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from measured import Array, Measured, corner

import atops
from atops import kernels as k

ROWS = 32  # of an image, for a tile: as many as leave room for `columns` in L1


@k.kernel
async def convolve(y: k.Span, x: k.Span, filters: k.Span) -> None:
    """Correlate images x of (count, inputs, height, width) with filters of (outputs, inputs, down, across) into y.

    Beyond its edges an image is 0, so that y is as high and as wide as x; `down` and `across` are odd.
    """
    count, inputs, height, width = x.shape
    outputs, _, down, across = filters.shape
    k.assert_(down % 2 == across % 2 == 1, "a filter has a middle")
    above, beside = down // 2, across // 2
    halo = k.local((inputs, ROWS + down - 1, width + across - 1), np.float32)
    columns = k.local((down, across, inputs, ROWS, width), np.float32)
    weights = k.local((outputs, down, across, inputs), np.float32)
    result = k.local((outputs, ROWS, width), np.float32)
    places = down * across * inputs
    with k.dte_scope() as dte, k.dte_scope() as mover:
        mover.config_slice(columns[0, 0], halo, (0, 0, 0))
        k.transpose(dte, weights, filters, (0, 2, 3, 1))  # in the order of the places in `columns`
        bands = -(-height // ROWS)
        for tile in range(k.thread_id(), count * bands, k.thread_count()):
            image, row = tile // bands, tile % bands * ROWS
            first, last = max(0, row - above), min(height, row + ROWS + above)  # the rows that there are
            low, high = first - (row - above), row + ROWS + above - last  # the rows that there are not
            for channel in range(inputs):
                k.pad(dte, halo[channel], x[image, channel, first:last], (low, beside), (high, beside), (0, 0))
            for i, j in product(range(down), range(across)):
                mover.set_dst_addr(columns[i, j])
                mover.set_src_offset(1, i)
                mover.set_src_offset(2, j)
                mover.trigger_and_wait()
            np.matmul(
                weights.reshape(outputs, places), columns.reshape(places, -1), out=result.reshape(outputs, -1)
            )
            k.deslice(dte, y[image], corner(dte, result, outputs, min(ROWS, height - row), width), (0, row, 0))


def problem(generator: np.random.Generator, count: int, channels: int, height: int, width: int) -> tuple[Any, ...]:
    """Return images and 3 x 3 filters of small whole numbers, whose sums are exact in whatever order they are added."""
    x = generator.integers(-4, 5, (count, channels, height, width))
    filters = generator.integers(-4, 5, (2 * channels, channels, 3, 3))
    return x.astype(np.float32), filters.astype(np.float32)


def reference(x: Array, filters: Array) -> Array:
    """Do the same in numpy: the same matrix, of all images, and one product for each image."""
    count, inputs, height, width = x.shape
    outputs, _, down, across = filters.shape
    padded = np.pad(x, ((0, 0), (0, 0), (down // 2, down // 2), (across // 2, across // 2)))
    columns = np.empty((count, down, across, inputs, height, width), np.float32)
    for i in range(down):
        for j in range(across):
            columns[:, i, j] = padded[:, :, i : i + height, j : j + width]
    weights = filters.transpose(0, 2, 3, 1).reshape(outputs, -1)
    return np.matmul(weights, columns.reshape(count, -1, height * width)).reshape(count, outputs, height, width)


async def program(host: Array, filters: Array) -> Array:
    """Upload, launch on the whole chip, fetch."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.upload(host)
        y = stream.empty((host.shape[0], filters.shape[0], *host.shape[2:]))
        stream.launch(convolve, (2, 12), y, x, stream.upload(filters))
        return await stream.fetch(y)


EXAMPLE = Measured(
    "2D convolution, pad and slice",
    program,
    reference,
    problem,
    size=(24, 16, 32, 32),
    others=((1, 1, 1, 1), (3, 2, 33, 17), (1, 5, 200, 64), (5, 3, 7, 5)),
)

if __name__ == "__main__":
    EXAMPLE.main()
