"""Rounds of barriers: in a block beside bare coroutines and beside threads, and across a cooperative grid."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np

from atops import kernels as k
from benchmarks.bare.rounds import bare_rounds
from benchmarks.measuring.figures import Figure, at_least, at_most, compared
from benchmarks.measuring.measure import Effort, board, interleave, timed

__all__ = ("THREADS", "barrier_round", "grid_barrier_round", "grid_rounds", "rounds")

THREADS = 12


@k.kernel
async def rounds(count: np.int32) -> None:
    """Meet the other threads of the block, again and again."""
    for _ in range(count):
        await k.syncthreads()


@k.kernel(cooperative=True)
async def grid_rounds(count: np.int32) -> None:
    """Meet the threads of every block, again and again."""
    for _ in range(count):
        await k.syncblocks()


def barrier_round(effort: Effort) -> Iterator[Figure]:
    """Yield the time of a barrier round of 12 threads in a block, against both references."""
    many, few = effort.size(4000, 20), effort.size(200, 2)
    with board() as device:
        stream = device.create_stream()
        times = interleave(
            effort.times(),
            bare=timed(lambda: bare_rounds(many, THREADS)),
            block=timed(lambda: stream.launch(rounds, (1, THREADS), many).wait_sync()),
            threads=lambda: _thread_rounds(few),
        )
    yield compared(
        "barrier round, 12 threads in a block", times, "block", "bare",
        reference="bare coroutines", unit="µs", count=many, budget=at_most(2.5),
    )  # fmt: skip
    yield compared(
        "  times as fast as threads", times, "block", "threads",
        reference="threading.Barrier", unit="µs", count=many, other_count=few, budget=at_least(25),
    )  # fmt: skip


def grid_barrier_round(effort: Effort) -> Iterator[Figure]:
    """Yield the time of a grid barrier round of 2 blocks of 12 threads."""
    count = effort.size(2000, 10)
    with board() as device:
        stream = device.create_stream()
        times = interleave(
            effort.times(),
            bare=timed(lambda: bare_rounds(count, 2 * THREADS)),
            grid=timed(lambda: stream.launch(grid_rounds, (2, THREADS), count).wait_sync()),
        )
    yield compared(
        "grid barrier round, 2×12", times, "grid", "bare",
        reference="bare coroutines", unit="µs", count=count, budget=at_most(4),
    )  # fmt: skip


def _thread_rounds(count: int) -> float:
    """Return the seconds of `count` rounds of a threading.Barrier, without the start of its threads."""
    barrier = threading.Barrier(THREADS)
    seconds: list[float] = []

    def thread() -> None:
        barrier.wait()
        start = time.perf_counter()
        for _ in range(count):
            barrier.wait()
        seconds.append(time.perf_counter() - start)

    threads = [threading.Thread(target=thread, name=f"barrier-{number}") for number in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return max(seconds)
