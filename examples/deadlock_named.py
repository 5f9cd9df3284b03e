"""A deadlock ends with an error that says which threads wait where, and which have left.

Look at: the error comes at the moment when no thread can go on. Nothing hangs, no time runs out, and the stream can
be used again.
"""

from __future__ import annotations

import asyncio

import numpy as np

import atops
from atops import kernels as k
from atops.base.errors import KernelDeadlock


@k.kernel
async def careless(x: k.Span) -> None:
    """Let only the threads that have an element come to the barrier: the bug."""
    if k.threadIdx.x < x.size:
        await k.syncthreads()


async def main() -> None:
    """Launch twelve threads over ten elements and read what went wrong."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.zeros(10)
        stream.launch(careless, (1, 12), x)
        try:
            await stream
        except KernelDeadlock as error:
            report = str(error)
        stream.clear_error()  # until then later commands are skipped
        result = await stream.fetch(x)

    print(report)
    assert "threads 0-9 wait at syncthreads, deadlock_named.py:" in report
    assert "threads 10-11 have left the kernel" in report and np.array_equal(result, np.zeros(10))


if __name__ == "__main__":
    asyncio.run(main())
