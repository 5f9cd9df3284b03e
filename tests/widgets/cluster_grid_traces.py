"""Traces of kernels whose threads were traced in detail: runs by one seed under the virtual clock, never different."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import atops
from atops import kernels as k
from atops.base.errors import AtopsError
from atops.base.options import EmulatorOptions
from atops.base.trace.records import Trace


@k.kernel
async def total(x, sums):
    """Add up a part for each block: every thread its own piece, then thread 0 the block's."""
    piece = k.local(64, np.float32)
    parts = k.shared(12, np.float32)
    place = k.blockIdx.x * k.blockDim.x + k.threadIdx.x
    with k.dte_scope() as dte:
        await k.memcpy_async(dte, piece, x[place * 64 : (place + 1) * 64])
    parts[k.threadIdx.x] = np.sum(piece)
    await k.syncthreads()
    if k.threadIdx.x == 0:
        sums[k.blockIdx.x] = np.sum(parts)


@k.kernel
async def lost(x):
    """Leave one thread of each block out of the barrier: it can never open."""
    if k.threadIdx.x == 2:
        return
    x[k.threadIdx.x] = 1
    await k.syncthreads()


@k.kernel
async def apart(x):
    """Meet at two lines: one barrier lets both halves of the block go."""
    if k.threadIdx.x < 2:
        x[k.threadIdx.x] = 1
        await k.syncthreads()
    else:
        await k.syncthreads()
    x[k.threadIdx.x] = 2


def traced(launch: Callable[[atops.Stream], Any]) -> Trace:
    """Return the trace of a launch on one stream, whether it fails or not."""

    async def main() -> Trace:
        chip = atops.Device(0)
        tracer = chip.driver.tracer
        with tracer.detailed(threads=True):
            stream = chip.create_stream(name="compute")
            done = launch(stream)
            try:
                await done
            except AtopsError:
                stream.clear_error()
            trace = tracer.snapshot()
        await stream.aclose()
        return trace

    return atops.run(main, EmulatorOptions(seed=7, clock="virtual", trace=1000))


@cache
def summing(blocks: int = 4) -> Trace:
    """Return a launch that ends well: transfers, a barrier, and the end; 12 threads a block."""

    def launch(stream: atops.Stream) -> Any:
        x, sums = stream.zeros(blocks * 12 * 64, np.float32), stream.zeros(blocks, np.float32)
        return stream.launch(total, (blocks, 12), x, sums)

    return traced(launch)


@cache
def deadlocked() -> Trace:
    """Return a launch that stands still: thread 2 of each block has left before the barrier."""
    return traced(lambda stream: stream.launch(lost, (2, 4), stream.zeros(4, np.float32)))


@cache
def divergent() -> Trace:
    """Return a launch whose blocks meet at two lines."""
    return traced(lambda stream: stream.launch(apart, (1, 4), stream.zeros(4, np.float32)))
