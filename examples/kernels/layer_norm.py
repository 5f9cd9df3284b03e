"""Layer norm with vectors: lanes along the rows, so that the weights are vectors too, and sums over lanes.

Look at: `over_lanes`. A tile lies in L1 as panels of 128 columns: vector r of a panel has 128 neighbours of row r.
Adding the panels leaves one vector of partial sums for each row. The DTE transposes these, and what was a sum over
lanes is a sum of vectors, with a lane for each row; `broadcast` brings it back to all lanes of its row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from measured import Array, Measured

import atops
from atops import kernels as k

LANES = 128  # of k.vector4[np.float32]
ROWS = LANES  # of a tile, so that one vector has a number for each row
PANEL = ROWS * LANES  # elements


@k.kernel
async def layer_norm(y: k.Span, x: k.Span, gamma: k.Span, beta: k.Span, epsilon: np.float32) -> None:
    """Store each row of x, brought to mean 0 and variance 1, times gamma plus beta, into y."""
    rows, columns = x.shape
    panels = -(-columns // LANES)
    vector, share = k.vector4[np.float32], np.float32(1 / columns)
    tile = k.local((panels, ROWS, LANES), np.float32)
    scales, shifts = k.local(panels * LANES, np.float32), k.local(panels * LANES, np.float32)
    sums, turned = k.local((ROWS, LANES), np.float32), k.local((LANES, ROWS), np.float32)
    zeros = vector(np.zeros((ROWS, LANES)))  # an array of vectors, one for each row: it stands for a loop over them
    with k.dte_scope() as dte:
        k.slice(dte, scales, gamma, (0,))  # what lies beyond the last column becomes 0
        k.slice(dte, shifts, beta, (0,))
        for part in k.tiles(rows, ROWS):
            total = zeros
            for panel in range(panels):
                k.slice(dte, tile[panel], x, (part.start, panel * LANES))
                total = total + vector.load(tile, panel * PANEL, ROWS)
            mean = over_lanes(dte, total, sums, turned) * share
            means = spread(dte, mean, sums, turned)

            total = zeros
            for panel in range(panels):
                centred = vector.load(tile, panel * PANEL, ROWS) - means
                if panel == panels - 1:  # beyond the last column there was 0, which is now 0 less the mean
                    inside = vector(np.arange(LANES)) < columns - panel * LANES
                    centred = inside.select(centred, 0)
                centred.store(tile, panel * PANEL)
                total = total + centred * centred
            variance = over_lanes(dte, total, sums, turned) * share
            factors = spread(dte, k.rsqrt(variance + epsilon), sums, turned)

            for panel in range(panels):
                scale, shift = vector.load(scales, panel * LANES), vector.load(shifts, panel * LANES)
                centred = vector.load(tile, panel * PANEL, ROWS)
                (centred * factors * scale + shift).store(tile, panel * PANEL)  # one vector goes with each of an array
                inside = part.stop - part.start, min(LANES, columns - panel * LANES)
                k.slice_deslice(dte, y, tile[panel], (0, 0), inside, (part.start, panel * LANES))


@k.device
def over_lanes(dte: k.tops_dte_ctx_t, partial: k.Vector, sums: Any, turned: Any) -> k.Vector:
    """Add the lanes of each row's vector, and return one vector with the sum of row r in lane r."""
    vector = k.vector4[np.float32]
    partial.store(sums)
    k.transpose(dte, turned, sums, (1, 0))
    total = vector.load(turned, 0, LANES)
    while len(total) > 1:  # add the second half of the vectors to the first, until one is left
        half = len(total) // 2
        total = total[:half] + total[half:]
    return total[0]


@k.device
def spread(dte: k.tops_dte_ctx_t, number: k.Vector, sums: Any, turned: Any) -> k.Vector:
    """Return a vector for each row that has lane r of `number` in all lanes."""
    number.store(turned)
    k.broadcast(dte, sums, turned[0].reshape(ROWS, 1))
    return k.vector4[np.float32].load(sums, 0, ROWS)


def problem(generator: np.random.Generator, rows: int, columns: int) -> tuple[Any, ...]:
    """Return rows whose mean is far from 0, weights and the usual epsilon."""
    x = generator.standard_normal((rows, columns), np.float32) + np.float32(3)
    gamma, beta = generator.standard_normal((2, columns), np.float32)
    return x, gamma, beta, np.float32(1e-5)


def reference(x: Array, gamma: Array, beta: Array, epsilon: np.float32) -> Array:
    """Do the same in numpy."""
    centred = x - x.mean(axis=1, keepdims=True)
    variances = np.vecdot(centred, centred)[:, None] / np.float32(x.shape[1])
    centred /= np.sqrt(variances + epsilon)
    centred *= gamma
    centred += beta
    return centred


async def program(host: Array, gamma: Array, beta: Array, epsilon: np.float32) -> Array:
    """Upload, launch on the whole chip, fetch."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.upload(host)
        y = stream.empty_like(x)
        stream.launch(layer_norm, (2, 12), y, x, stream.upload(gamma), stream.upload(beta), epsilon)
        return await stream.fetch(y)


EXAMPLE = Measured(
    "layer norm, sums over lanes",
    program,
    reference,
    problem,
    size=(1024, 1024),
    others=((1, 1), (128, 128), (129, 129), (3100, 100), (50, 333)),
    tolerance=1e-5,
    chips=("gcu300",),
)

if __name__ == "__main__":
    EXAMPLE.main()
