"""Rows of a cluster of workers on this machine: what a chunk costs beside a bare task, and what two workers gain.

The bare task gets and returns the same bytes: Dask's transport is in both. The kernel of the pipelines counts the bytes
of a chunk, as the demo does, and the bare tasks beside it do so with numpy. Workers have one thread each.
"""

from __future__ import annotations

import importlib.util
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

import atops
from atops.apps.histogram import count_bytes
from benchmarks.measuring.figures import Figure, Skipped, at_least, at_most, compared
from benchmarks.measuring.measure import Effort, Times, interleave, timed
from benchmarks.measuring.report import usable_cpus

__all__ = ("cluster",)

CHUNK = 4 << 20  # bytes
AHEAD = 4  # chunks in flight, of both
TASKS = 12  # bare ones beside the batches of a check


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
        _submitted(client, _copied, [chunk] * count, AHEAD)

    def ours() -> None:
        _drained((chunk for _ in range(count)), [], client, AHEAD)

    times = interleave(effort.times(), bare=timed(bare), ours=timed(ours))
    return compared(
        "chunk of 4 MiB there and back", times, "ours", "bare",
        reference="client.submit of the bytes", unit="ms", count=count, budget=at_most(1.15),
    )  # fmt: skip


def _drained(chunks: Iterable[object], stages: Any, client: Any, in_flight: int | None = None) -> None:
    results: Any = atops.distributed.pipeline(chunks, stages, client, in_flight=in_flight)  # of a plain client
    for _ in results:
        pass


def _copied(chunk: Any) -> Any:
    return chunk.copy()


def _counted(stream: Any, chunk: Any) -> Any:
    for _ in range(10):
        counts = count_bytes(stream, chunk)
    return counts


def _counted_bare(chunk: Any) -> Any:
    for _ in range(10):
        counts = np.bincount(chunk, minlength=256)
    return counts


def _kernels(effort: Effort, one: Any, two: Any) -> Figure:
    chunk, count = np.ones(effort.size(2 << 20, 1 << 10), np.uint8), effort.size(24, 2)

    def through(client: Any) -> Callable[[], float]:
        return timed(lambda: _drained((chunk for _ in range(count)), _counted, client))

    def bare(client: Any, workers: int) -> Callable[[], float]:
        return timed(lambda: _submitted(client, _counted_bare, [chunk] * count, 2 * workers))

    times = interleave(effort.times(), one=through(one), two=through(two), bare_one=bare(one, 1), bare_two=bare(two, 2))
    return _gain("pipeline of kernels on 2 workers, times as fast", times)


def _submitted(client: Any, function: Callable[[Any], Any], arguments: Iterable[object], ahead: int) -> None:
    """Run bare tasks of Dask, so many submitted ahead, and take their results in order."""
    window: deque[Any] = deque()
    for each in arguments:
        if len(window) == ahead:
            window.popleft().result()
        window.append(client.submit(function, each, pure=False))
    for each in window:
        each.result()


def _gain(what: str, times: Times) -> Figure:
    """Return how many times as fast two workers are as one, beside bare tasks of the same length in the same round.

    Client, scheduler and two workers share two processors, and an idle cluster takes some of them, too: how much two
    workers can gain is the machine's, and what the bare tasks gain.
    """
    return Figure(
        what, times.ratio("one", "two"), "x", "bare tasks of Dask", times.ratio("bare_one", "bare_two"),
        times.gain(("one", "two"), ("bare_one", "bare_two")), budget=at_least(0.9),
    )  # fmt: skip


async def _streams() -> None:
    """Have two streams fill and copy: every schedule of this is right."""
    async with atops.Device(0).create_stream() as left, atops.Device(0).create_stream() as right:
        x, y = left.zeros(8, np.float32), right.zeros(8, np.float32)
        left.wait(right.record())
        left.copy(x, y)
        await left


def _busy(turns: int) -> int:
    """Compute in Python, as schedules do."""
    found = 0
    for turn in range(turns):
        found = (found + turn) % 1000
    return found


def _schedules(effort: Effort, one: Any, two: Any) -> Figure:
    count, turns = effort.size(2000, 4), effort.size(2_000_000, 10)  # turns of a bare task: a tenth of a second, or two

    def search(client: Any) -> Callable[[], float]:
        def side() -> None:
            report = atops.check(_streams, count, client=client)
            assert report, report

        return timed(side)

    def bare(client: Any) -> Callable[[], float]:
        return timed(lambda: _submitted(client, _busy, [turns] * TASKS, TASKS))

    times = interleave(effort.times(), one=search(one), two=search(two), bare_one=bare(one), bare_two=bare(two))
    return _gain("schedules on 2 workers, times as fast", times)
