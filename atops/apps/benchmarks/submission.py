"""Enqueue and run many small copies, beside a bare drain that does the same copies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atops import Stream
from atops.apps.benchmarks.bare_drain import BareDrain, one_thread
from atops.apps.benchmarks.figures import Figure, at_least, compared
from atops.apps.benchmarks.measure import Effort, board, interleave, timed

__all__ = ("submit",)

SIZE = 4096  # bytes
REFERENCE = "bare drain"


def submit(effort: Effort) -> Iterator[Figure]:
    """Yield the rates of 4 KiB copies in one stream, from the first call to the end of the last copy."""
    count = effort.size(100_000, 200)
    host = np.arange(SIZE, dtype=np.uint8)
    target, source = memoryview(bytearray(SIZE)), memoryview(bytearray(SIZE))
    drain = BareDrain()
    with board(trace=0) as device, board() as traced:
        stream, other = device.create_stream(), traced.create_stream()
        a, b = device.allocate(SIZE), device.allocate(SIZE)
        c, d = traced.allocate(SIZE), traced.allocate(SIZE)
        times = interleave(
            effort.times(),
            drain=timed(lambda: drain.copy(target, source, count)),
            within=timed(lambda: copies(stream, a, b, count)),
            up=timed(lambda: copies(stream, a, host, count)),
            down=timed(lambda: copies(stream, host, b, count)),
            traced=timed(lambda: copies(other, c, d, count)),
            alone=timed(lambda: one_thread(target, source, count)),
        )
    drain.close()
    rows = (
        ("4 KiB copies, device to device", "within", at_least(0.4)),
        ("  host to device", "up", None),
        ("  device to host", "down", None),
        ("  device to device, traced", "traced", None),
        ("  bare drain in one thread", "alone", None),
    )
    for what, side, budget in rows:
        yield compared(
            what, times, side, "drain", reference=REFERENCE, unit="/s", count=count, budget=budget
        )  # fmt: skip


def copies(stream: Stream, target: object, source: object, count: int) -> None:
    """Enqueue `count` copies and block until the last is done."""
    copy = stream.copy
    for _ in range(count):
        copy(target, source)
    stream.sync()
