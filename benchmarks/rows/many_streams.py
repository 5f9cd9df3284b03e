"""Ten thousand idle streams, beside `asyncio.Queue`s; commands in a thousand with the detectors of races."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import atops
from benchmarks.measuring.figures import Figure, at_most, compared, value_at_most
from benchmarks.measuring.measure import Effort, board, interleave, timed

__all__ = ("detected_commands", "idle_streams")

REFERENCE = "asyncio.Queue"


def idle_streams(effort: Effort) -> Iterator[Figure]:
    """Yield the seconds for all streams, and the bytes of each: never used, and idle after a command."""
    count = effort.size(10_000, 50)
    with board() as device:
        target = device.allocate(256)

        def streams() -> list[object]:
            return [device.create_stream() for _ in range(count)]

        def queues() -> list[object]:
            return [asyncio.Queue() for _ in range(count)]

        def used() -> list[object]:
            made = [device.create_stream() for _ in range(count)]
            for stream in made:
                stream.fill(target, 0)
            device.sync()
            return list(made)

        times = interleave(effort.times(), queue=timed(queues), stream=timed(streams))
        queue_bytes = _bytes_each(queues, count)
        ratio, spread = times.ratio("stream", "queue"), times.spread("stream", "queue")
        yield Figure(
            "10,000 idle streams, created",
            times.least("stream"), "s", REFERENCE, times.least("queue"), ratio, spread, value_at_most(0.5),
        )  # fmt: skip
        for what, make in (("  memory of each", streams), ("  of each, idle after a command", used)):
            size = _bytes_each(make, count)
            budget = value_at_most(2048) if make is streams else None
            yield Figure(what, size, "B", REFERENCE, queue_bytes, size / queue_bytes, None, budget)


def _bytes_each(make: Callable[[], list[object]], count: int) -> float:
    """Return the Python memory that each of `count` objects holds, the list of them included.

    The most of three times: what other threads give back meanwhile would be counted as if it were theirs.
    """
    make()  # what the first ones allocate once is not theirs
    return max([_bytes_traced(make, count) for _ in range(3)])


def _bytes_traced(make: Callable[[], list[object]], count: int) -> float:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        held = make()
        after, _ = tracemalloc.get_traced_memory()
        assert len(held) == count
        return (after - before) / count
    finally:
        tracemalloc.stop()


def detected_commands(effort: Effort) -> Iterator[Figure]:
    """Yield the time of a fill with the detectors of races, against without, in 1 stream and in turn in 1,000."""
    count = effort.size(4_000, 10)
    for streams in (1, effort.size(1_000, 2)):
        with ExitStack() as boards:
            sides = {
                mode: _fills(boards.enter_context(board(detect=mode == "detect")), streams, count)
                for mode in ("default", "detect")
            }
            times = interleave(effort.times(), **{mode: timed(run) for mode, run in sides.items()})
        yield compared(
            f"a fill, {streams:,} stream{'s' * (streams > 1)}, detectors", times, "detect", "default",
            reference="off", unit="µs", count=count, budget=at_most(1.6),
        )  # fmt: skip


def _fills(device: atops.Device, streams: int, count: int) -> Callable[[], None]:
    made = [device.create_stream() for _ in range(streams)]
    arrays = [device.empty(16) for _ in made]

    def run() -> None:
        for turn in range(count):
            made[turn % streams].fill(arrays[turn % streams], 1.0)
        device.sync()

    return run
