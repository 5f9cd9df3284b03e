"""Rotary embedding: each pair of a head's elements is turned by an angle that grows with the position.

Look at: the two slices. Element i is paired with element i + dim / 2, as most transformer models do, so the DTE brings
the halves of all heads to places of their own in L1, where a pair is one lane of two vectors. Meanwhile the SIP
computes sines and cosines: angles depend on the position alone, and every head uses the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from measured import Array, Measured

import atops
from atops import kernels as k

LANES = 128  # of k.vector4[np.float32]
POSITIONS = 32  # of a tile


@k.kernel
async def rotary_embedding(y: k.Span, x: k.Span, positions: k.Span, frequencies: k.Span) -> None:
    """Store x of shape (heads, length, dim), turned, into y. `dim` is a multiple of 8."""
    heads, length, dim = x.shape
    k.assert_(dim % 8 == 0, "a tile has whole vectors")
    half = dim // 2
    vector, size = k.vector4[np.float32], POSITIONS * half  # of one head in a tile
    count = size // LANES
    rates, places = k.local((POSITIONS, half), np.float32), k.local((POSITIONS, half), np.float32)
    first, second = k.local((heads, POSITIONS, half), np.float32), k.local((heads, POSITIONS, half), np.float32)
    with k.dte_scope() as dte, k.dte_scope() as other:
        k.broadcast(dte, rates, frequencies)  # the same row for each position
        for part in k.tiles(length, POSITIONS):
            # Beyond the last position come zeros, which are turned like the rest and never stored.
            k.slice_broadcast(dte, places, positions.reshape(length, 1), (part.start, 0), (POSITIONS, 1))
            firsts = k.slice_async(dte, first, x, (0, part.start, 0))
            seconds = k.slice_async(other, second, x, (0, part.start, half))

            angles = vector.load(rates, 0, count) * vector.load(places, 0, count)  # while the DTE brings the pairs
            cosines, sines = k.cos(angles), k.sin(angles)
            await firsts
            await seconds
            for start in range(0, heads * size, size):
                a, b = vector.load(first, start, count), vector.load(second, start, count)
                (a * cosines - b * sines).store(first, start)
                (b * cosines + a * sines).store(second, start)

            here = heads, part.stop - part.start, half
            firsts = k.slice_deslice_async(dte, y, first, (0, 0, 0), here, (0, part.start, 0))
            seconds = k.slice_deslice_async(other, y, second, (0, 0, 0), here, (0, part.start, half))
            await firsts
            await seconds


def problem(generator: np.random.Generator, heads: int, length: int, dim: int) -> tuple[Any, ...]:
    """Return queries, positions that continue a text of 1,000 tokens, and the usual frequencies."""
    x = generator.standard_normal((heads, length, dim), np.float32)
    frequencies = np.float32(10_000) ** -(np.arange(0, dim, 2, np.float32) / np.float32(dim))
    return x, np.arange(1000, 1000 + length, dtype=np.float32), frequencies


def reference(x: Array, positions: Array, frequencies: Array) -> Array:
    """Do the same in numpy."""
    angles = np.outer(positions, frequencies)
    cosines, sines = np.cos(angles), np.sin(angles)
    first, second = np.split(x, 2, axis=-1)
    y = np.empty_like(x)
    one, other = np.split(y, 2, axis=-1)
    np.subtract(first * cosines, second * sines, out=one)
    np.add(second * cosines, first * sines, out=other)
    return y


async def program(host: Array, positions: Array, frequencies: Array) -> Array:
    """Upload, launch on the whole chip, fetch."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.upload(host)
        y = stream.empty_like(x)
        stream.launch(rotary_embedding, (2, 12), y, x, stream.upload(positions), stream.upload(frequencies))
        return await stream.fetch(y)


EXAMPLE = Measured(
    "rotary embedding",
    program,
    reference,
    problem,
    size=(8, 1024, 128),
    others=((1, 1, 8), (3, 33, 64), (2, 800, 80)),
    tolerance=1e-5,
    chips=("gcu300",),
)

if __name__ == "__main__":
    EXAMPLE.main()
