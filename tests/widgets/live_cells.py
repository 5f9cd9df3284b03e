"""The cells of the notebooks that the tests run in a browser: they show widgets of a driver that works."""

from __future__ import annotations

from typing import Final

__all__ = ("IMPORTS", "RECORDS", "SUM", "WORK")

IMPORTS: Final = """import numpy as np, atops, atops_widgets
from atops import kernels as k

@k.kernel
async def double(x):
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, 256):
            tile = k.local(part.stop - part.start, x.dtype)
            await k.memcpy_async(dte, tile, x[part])
            tile *= 2
            k.memcpy(dte, x[part], tile)"""
WORK: Final = """device, total = atops.Device(0), 0
async with device.create_stream(name="worker") as worker, device.create_stream(name="beside") as beside:
    x = worker.zeros(1024, np.int32)
    for value in range(8):
        worker.fill(x, value)
        worker.launch(double, (1, 4), x)
        beside.wait(worker.record())
        total += int((await beside.fetch(x)).sum())
print("sum", total)"""
SUM: Final = 57344  # what the work prints, each time
RECORDS: Final = 40  # that it leaves at least
