"""Programs to be the scheduler of: a fill that comes too late for a kernel, and a kernel of a thousand steps."""

from __future__ import annotations

import numpy as np

import atops
from atops import kernels as k

__all__ = ("late", "long")


@k.kernel
async def add(row: k.Span, more: k.Span) -> None:
    """Each thread fetches the row, and stores its element with that of another row added."""
    mine, me = k.local(2, np.int32), int(k.threadIdx.x)
    with k.dte_scope() as dte:
        await k.memcpy_async(dte, mine, row)
    row[me] = mine[me] + more[me]


async def late() -> int:
    """Fill a row in one stream and add to it in another one, in no order: the fill may come last, or between."""
    device = atops.Device(0)
    async with device.create_stream(name="load") as load, device.create_stream(name="work") as work:
        row = device.zeros(2, np.int32)
        load.fill(row, 7)
        work.launch(add, (1, 2), row, work.upload(np.full(2, 5, np.int32)))
        got = await work.fetch(row)
    assert got.tolist() == [12, 12], f"the fill came too late: {got.tolist()}"
    return int(got[0])


@k.kernel
async def passing(row: k.Span, turns: int) -> None:
    """Count turns, each thread its own."""
    for _ in range(turns):
        row[k.threadIdx.x] += 1
        await k.syncthreads()


async def long() -> None:
    """Run a kernel of more than a thousand turns."""
    async with atops.Device(0).create_stream(name="work") as work:
        work.launch(passing, (1, 8), work.zeros(8, np.int32), 128)
