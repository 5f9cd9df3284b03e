"""The demo's histogram over a cluster: two worker processes, one of them killed in the middle, and the result is whole.

`python examples/cluster/histogram.py` makes a cluster of its own; with the address of a scheduler it uses that one, and
kills nothing. Every chunk's counts come back in order and are checked against numpy's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import atops
from atops.apps.demo import read, standard_library
from atops.apps.histogram import VALUES, count_bytes

CHUNK = 1 << 20  # bytes
CHUNKS = 24


def chunks(seen: Any) -> Iterator[Any]:
    """Yield chunks of Python's standard library, and add what numpy counts in them to `seen`."""
    for number, chunk in enumerate(read(standard_library(), CHUNK)):
        if number == CHUNKS:
            return
        seen += np.bincount(chunk, minlength=VALUES)
        yield chunk


async def count(client: Any, kill: bool) -> None:
    """Count on the workers, and compare."""
    await client.wait_for_workers(1)
    workers = await client.run(os.getpid)
    print(f"{len(workers)} workers: {', '.join(f'process {pid}' for pid in workers.values())}")
    by_numpy, by_kernels = np.zeros(VALUES, np.int64), np.zeros(VALUES, np.int64)
    begun, done = time.perf_counter(), 0
    async with atops.distributed.pipeline(chunks(by_numpy), count_bytes, client) as results:
        async for counts in results:
            by_kernels += counts.sum(axis=0)
            done += 1
            if kill and done == CHUNKS // 3:
                victim = next(iter(workers.values()))
                os.kill(victim, signal.SIGKILL)
                print(f"after {done} chunks: process {victim} is killed with SIGKILL")
    took = time.perf_counter() - begun
    assert np.array_equal(by_kernels, by_numpy), "the counts differ from numpy's"
    print(f"{done} chunks, {int(by_kernels.sum()):,} bytes in {took:.2f} s: every count is numpy's")
    await client.wait_for_workers(len(workers))
    print(await atops.distributed.board(client).statistics())


async def main(scheduler: str | None) -> None:
    """Use the cluster of a scheduler, or make one."""
    if scheduler is not None:
        async with Client(scheduler, asynchronous=True) as client:
            await count(client, kill=False)
        return
    how: dict[str, Any] = {"processes": True, "dashboard_address": "127.0.0.1:0", "asynchronous": True}
    async with LocalCluster(n_workers=2, threads_per_worker=1, **how) as cluster:
        for name in ("scheduler", "nanny", "client"):  # what Dask says of a worker that is killed on purpose
            logging.getLogger(f"distributed.{name}").setLevel(logging.CRITICAL)
        async with Client(cluster, asynchronous=True) as client:
            await count(client, kill=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
