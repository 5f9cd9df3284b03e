"""Single commands: many small copies beside a bare drain, large ones beside `numpy.copyto`; a command that is awaited.

What is awaited stands beside a function that does nothing in `asyncio.to_thread`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

import numpy as np

from atops import Stream
from atops import kernels as k
from benchmarks.bare.drain import TaskDrain, ThreadDrain, one_thread
from benchmarks.measuring.figures import Figure, at_least, at_most, compared
from benchmarks.measuring.measure import Effort, Times, board, interleave, interleave_async, timed

__all__ = ("await_command", "empty", "large_copies", "launch_and_await", "round_trips", "submit")

SIZE = 4096  # bytes


def submit(effort: Effort) -> Iterator[Figure]:
    """Yield the rates of 4 KiB copies in one stream, from the first call to the end of the last, traced."""
    count = effort.size(100_000, 200)
    host = np.arange(SIZE, dtype=np.uint8)
    target, source = memoryview(bytearray(SIZE)), memoryview(bytearray(SIZE))
    drain, threaded = TaskDrain(), ThreadDrain()
    with board() as device, board(trace=0) as untraced:
        stream, other = device.create_stream(), untraced.create_stream()
        a, b = device.allocate(SIZE), device.allocate(SIZE)
        c, d = untraced.allocate(SIZE), untraced.allocate(SIZE)
        rows = (
            ("4 KiB copies, device to device", 1.0, lambda: _copies(stream, a, b, count), at_least(0.45)),
            ("  host to device", 0.5, lambda: _copies(stream, a, host, count), None),
            ("  device to host", 0.5, lambda: _copies(stream, host, b, count), None),
            ("  bare drain, thread and no futures", 0.5, lambda: threaded.copy(target, source, count), None),
            ("  bare deque, no task", 0.5, lambda: one_thread(target, source, count), None),
            ("  device to device, tracing off", 0.5, lambda: _copies(other, c, d, count), None),
        )
        for what, share, subject, budget in rows:
            times = interleave(
                effort.times(share),
                True,
                drain=timed(lambda: drain.copy(target, source, count)),
                subject=timed(subject),
            )
            yield compared(
                what, times, "subject", "drain", reference="bare drain", unit="/s", count=count, budget=budget
            )  # fmt: skip
    drain.close()
    threaded.close()


def _copies(stream: Stream, target: object, source: object, count: int) -> None:
    """Enqueue `count` copies and block until the last is done."""
    copy = stream.copy
    for _ in range(count):
        copy(target, source)
    stream.sync()


def large_copies(effort: Effort) -> Iterator[Figure]:
    """Yield the rates of 64 MiB in three directions, between pages that have been touched before."""
    size = effort.size(64 << 20, 1 << 20)
    source, target, other = (np.full(size, value, np.uint8) for value in (1, 2, 3))
    with board() as device:
        stream = device.create_stream()
        a, b = device.allocate(size), device.allocate(size)
        times = interleave(
            effort.times(2),
            numpy=timed(lambda: np.copyto(other, source)),
            up=timed(lambda: stream.copy(a, source).wait_sync()),
            within=timed(lambda: stream.copy(b, a).wait_sync()),
            down=timed(lambda: stream.copy(target, b).wait_sync()),
        )
    assert np.array_equal(target, source), "what came back is not what went up"
    for what, side in (("host to device", "up"), ("device to host", "down"), ("device to device", "within")):
        yield compared(
            f"64 MiB, {what}", times, side, "numpy",
            reference="numpy.copyto", unit="GB/s", count=size, budget=at_least(0.9),
        )  # fmt: skip


# ---- awaited

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
