"""Copy 64 MiB in each direction, beside `numpy.copyto` of as many bytes. All pages have been touched before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measuring.figures import Figure, at_least, compared
from benchmarks.measuring.measure import Effort, board, interleave, timed

__all__ = ("large_copies",)


def large_copies(effort: Effort) -> Iterator[Figure]:
    """Yield the rates of the three directions."""
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
