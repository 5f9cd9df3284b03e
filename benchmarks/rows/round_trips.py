"""Await one command from asyncio, beside a function that does nothing in `asyncio.to_thread`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from atops import kernels as k
from benchmarks.measuring.figures import Figure, at_most, compared
from benchmarks.measuring.measure import Effort, Times, board, interleave_async

__all__ = ("await_command", "empty", "launch_and_await", "round_trips")

REFERENCE = "to_thread(noop)"


@k.kernel
async def empty() -> None:
    """Do nothing: what is left is the launch itself."""


def _noop() -> None:
    """Do nothing."""


def await_command(effort: Effort) -> Iterator[Figure]:
    """Yield the time of an awaited 4 KiB copy."""
    with board() as device:
        stream = device.create_stream()
        target, source = device.allocate(4096), device.allocate(4096)
        times, count = round_trips(effort, lambda: stream.copy(target, source))
    yield compared(
        "await one small command", times, "command", "thread",
        reference=REFERENCE, unit="µs", count=count, budget=at_most(1.2),
    )  # fmt: skip


def launch_and_await(effort: Effort) -> Iterator[Figure]:
    """Yield the time of an awaited launch of an empty kernel on 2 blocks of 12 threads."""
    with board() as device:
        stream = device.create_stream()
        times, count = round_trips(effort, lambda: stream.launch(empty, (2, 12)))
    yield compared(
        "empty kernel 2×12, awaited", times, "command", "thread",
        reference=REFERENCE, unit="µs", count=count, budget=at_most(2),  # the aim is 1.5
    )  # fmt: skip


def round_trips(effort: Effort, command: Callable[[], Awaitable[object]]) -> tuple[Times, int]:
    """Return the times of `count` awaited commands and of as many threads that do nothing, and `count`."""
    count = effort.size(200, 5)

    async def commands() -> float:
        start = time.perf_counter()
        for _ in range(count):
            await command()
        return time.perf_counter() - start

    async def threads() -> float:
        start = time.perf_counter()
        for _ in range(count):
            await asyncio.to_thread(_noop)
        return time.perf_counter() - start

    return asyncio.run(interleave_async(effort.times(3), thread=threads, command=commands)), count
