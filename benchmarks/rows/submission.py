"""Enqueue and run many small copies, beside a bare drain that does the same copies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atops import Stream
from benchmarks.bare.drain import TaskDrain, ThreadDrain, one_thread
from benchmarks.measuring.figures import Figure, at_least, compared
from benchmarks.measuring.measure import Effort, board, interleave, timed

__all__ = ("submit",)

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
                clean=True,
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
