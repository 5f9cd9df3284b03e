"""Bitonic sort in shared memory: what is compared does not depend on the values, so barriers are all that is needed.

Look at: `halve`. Each block holds a run of the array in L2, as 16 chunks that are sorted in L1. Two sorted sequences
are merged so: the second is read backwards, and of each pair the less goes to the first sequence and the greater to the
second. Halves of these are compared likewise, now forwards, down to a chunk, and the chunk is sorted once more. Threads
are 12 and chunks are 16: the loops over chunks are strided, and a barrier ends each stage. In the end the two blocks do
with their runs, through global memory, what the chunks did.

Floats are compared as integers in the same order. NaNs come last, whatever their sign, as in numpy.sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from measured import Array, Measured

import atops
from atops import kernels as k

CHUNKS = 16  # of a run; a power of two
NAN = np.int32(0x7FC00000)  # the bits of a NaN without sign: no other float is greater, compared as integers


@k.cooperative
async def bitonic_sort(y: k.Span, x: k.Span, runs: k.Span) -> None:
    """Sort x into y by two blocks. They exchange `runs`, of shape (2, CHUNKS, 2 ** n) and not smaller than x."""
    me, block, size = k.threadIdx.x, k.blockIdx.x, runs.shape[2]
    k.assert_(runs.size >= x.size, "the runs have room for all of x")
    mine = range(me, CHUNKS, k.blockDim.x)
    run = k.shared((CHUNKS, size), np.int32)
    tile, spare = k.local(size, np.int32), k.local(size, np.int32)
    floats = tile.view(np.float32)  # the same bits
    with k.dte_scope() as dte:
        for chunk in mine:
            k.slice(dte, floats, x, ((block * CHUNKS + chunk) * size,), np.nan)  # beyond x lie NaNs, which stay last
            tile[np.isnan(floats)] = NAN
            tile[:] = np.sort(in_order(tile))
            k.memcpy(dte, run[chunk], tile)
        await k.syncthreads()

        half = 1
        while half < CHUNKS:
            await halve(run, 2 * half, spare, backwards=True)
            await merge(dte, run, half, tile, spare)
            half *= 2

        # The same again with a run for a chunk: this block keeps one half of both.
        for chunk in mine:
            k.memcpy(dte, runs[block, chunk], run[chunk])
        await k.syncblocks()
        keep = np.maximum if block else np.minimum
        for chunk in mine:
            k.memcpy(dte, spare, runs[1 - block, CHUNKS - 1 - chunk])
            keep(run[chunk], spare[::-1], out=run[chunk])
        await k.syncthreads()
        await merge(dte, run, CHUNKS, tile, spare)

        for chunk in mine:
            first = (block * CHUNKS + chunk) * size
            count = min(size, y.size - first)
            if count > 0:
                tile[:] = in_order(run[chunk])
                k.memcpy(dte, y[first : first + count], floats[:count])


@k.device
async def halve(run: Any, span: int, spare: Any, *, backwards: bool = False) -> None:
    """Put the less of each pair into the first half of each `span` chunks, and the greater into the second."""
    half = span // 2
    for pair in range(k.threadIdx.x, CHUNKS // 2, k.blockDim.x):
        group, place = pair // half * span, pair % half
        low = run[group + place]
        high = run[group + span - 1 - place][::-1] if backwards else run[group + half + place]
        np.minimum(low, high, out=spare)
        np.maximum(low, high, out=high)
        low[:] = spare
    await k.syncthreads()  # no thread reads a chunk that another has still to store


@k.device
async def merge(dte: k.tops_dte_ctx_t, run: Any, span: int, tile: Any, spare: Any) -> None:
    """Sort each `span` chunks, of which none has an element less than one of the chunks before its `span`."""
    while span > 1:
        await halve(run, span, spare)
        span //= 2
    for chunk in range(k.threadIdx.x, CHUNKS, k.blockDim.x):
        k.memcpy(dte, tile, run[chunk])
        tile[:] = np.sort(tile)  # within a chunk any sort will do
        k.memcpy(dte, run[chunk], tile)
    await k.syncthreads()


def in_order(bits: Any) -> Any:
    """Return floats' bits as integers of the same order, and those as bits: of negative ones, all but the sign flip."""
    return bits ^ (bits >> 31 & 0x7FFFFFFF)


def problem(generator: np.random.Generator, count: int) -> tuple[Any, ...]:
    """Return numbers of both signs, a tenth of them more than once, with infinities and NaNs among them."""
    x = generator.standard_normal(count, np.float32)
    odd = generator.choice(np.array([-np.inf, -1, 0, 1, np.inf, np.nan, -np.nan], np.float32), count)
    return (np.where(generator.random(count) < 0.1, odd, x),)


def reference(x: Array) -> Array:
    """Do the same in numpy."""
    return np.sort(x)


async def program(host: Array) -> Array:
    """Upload, launch on the whole chip, fetch."""
    size = 1
    while 2 * CHUNKS * size < host.size:
        size *= 2
    async with atops.Device(0).create_stream() as stream:
        x, runs = stream.upload(host), stream.empty((2, CHUNKS, size), np.int32)
        y = stream.empty_like(x)
        stream.launch(bitonic_sort, (2, 12), y, x, runs)
        return await stream.fetch(y)


EXAMPLE = Measured(
    "bitonic sort in shared memory",
    program,
    reference,
    problem,
    size=(1 << 20,),
    others=((1,), (64,), (1000,), (2049,), (100_003,)),
)

if __name__ == "__main__":
    EXAMPLE.main()
