"""Rows of a cluster of workers on this machine: what a chunk costs beside a bare task, and what two workers gain.

The bare task gets and returns the same bytes: Dask's transport is in both. The kernel of the pipelines counts the bytes
of a chunk, as the demo does. Workers have one thread each; two need two free processors.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

import atops
from atops.apps.histogram import count_bytes
from benchmarks.measuring.figures import Figure, Skipped, at_least, at_most, compared
from benchmarks.measuring.measure import Effort, interleave, timed
from benchmarks.measuring.report import usable_cpus

__all__ = ("cluster",)

CHUNK = 4 << 20  # bytes
AHEAD = 4  # chunks in flight, of both


def cluster(effort: Effort) -> Iterator[Figure]:
    """Yield the figures. Raises Skipped without the package, and without two processors."""
    if importlib.util.find_spec("distributed") is None:
        raise Skipped("distributed is not installed; the extra `dask` brings it")
    if usable_cpus() < 2:
        raise Skipped("two workers need two processors")
    with ExitStack() as stack:
        one, two = (_client(stack, workers) for workers in (1, 2))
        yield _chunks(effort, two)
        yield _kernels(effort, one, two)
        yield _schedules(effort, one, two)


def _client(stack: ExitStack, workers: int) -> Any:
    import distributed  # an extra

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    how: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "threads_per_worker": 1}
    made = stack.enter_context(distributed.LocalCluster(n_workers=workers, **how))
    return stack.enter_context(distributed.Client(made, set_as_default=False))


def _chunks(effort: Effort, client: Any) -> Figure:
    chunk, count = np.ones(effort.size(CHUNK, 1 << 10), np.uint8), effort.size(60, 3)

    def bare() -> None:
        window: deque[Any] = deque()
        for _ in range(count):
            if len(window) == AHEAD:
                window.popleft().result()
            window.append(client.submit(_copied, chunk, pure=False))
        for each in window:
            each.result()

    def ours() -> None:
        for _ in atops.distributed.pipeline((chunk for _ in range(count)), [], client, in_flight=AHEAD):
            pass

    times = interleave(effort.times(), bare=timed(bare), ours=timed(ours))
    return compared(
        "chunk of 4 MiB there and back", times, "ours", "bare",
        reference="client.submit of the bytes", unit="ms", count=count, budget=at_most(1.15),
    )  # fmt: skip


def _copied(chunk: Any) -> Any:
    return chunk.copy()


def _counted(stream: Any, chunk: Any) -> Any:
    for _ in range(10):
        counts = count_bytes(stream, chunk)
    return counts


def _kernels(effort: Effort, one: Any, two: Any) -> Figure:
    chunk, count = np.ones(effort.size(2 << 20, 1 << 10), np.uint8), effort.size(24, 2)

    def through(client: Any) -> Callable[[], float]:
        chunks = lambda: (chunk for _ in range(count))  # noqa: E731
        return timed(lambda: deque(atops.distributed.pipeline(chunks(), _counted, client), maxlen=0))

    times = interleave(effort.times(), one=through(one), two=through(two))
    return compared(
        "pipeline of kernels on 2 workers, times as fast", times, "two", "one",
        reference="1 worker", unit="ms", count=count, budget=at_least(1.7),
    )  # fmt: skip


async def _streams() -> None:
    """Have two streams fill and copy: every schedule of this is right."""
    async with atops.Device(0).create_stream() as left, atops.Device(0).create_stream() as right:
        x, y = left.zeros(8, np.float32), right.zeros(8, np.float32)
        left.wait(right.record())
        left.copy(x, y)
        await left


def _schedules(effort: Effort, one: Any, two: Any) -> Figure:
    count = effort.size(4000, 4)

    def search(client: Any) -> Callable[[], float]:
        def side() -> float:
            begun = time.perf_counter()
            report = atops.check(_streams, count, client=client)
            assert report, report
            return time.perf_counter() - begun

        return side

    times = interleave(effort.times(), one=search(one), two=search(two))
    return compared(
        "schedules on 2 workers, times as fast", times, "two", "one",
        reference="1 worker", unit="/s", count=count, budget=at_least(1.8),
    )  # fmt: skip
