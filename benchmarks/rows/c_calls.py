"""What the C-style functions cost: over the object API, for a short copy, and for an event between processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np

import atops.tops as tops
from atops.base.errors import AtopsError
from atops.hip import hip
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from benchmarks.measuring.figures import Figure, Skipped, value_at_most
from benchmarks.measuring.measure import Effort, Times, board, interleave

__all__ = ("c_calls",)

SHORT = 4096  # bytes
SHARED = tops.topsEventInterprocess | tops.topsEventDisableTiming
SETTLED = 0.002  # seconds after which the other process surely blocks, which is the slower way to wait


def c_calls(effort: Effort) -> Iterator[Figure]:
    """Yield what a call adds to the object API's, what a blocking copy takes, and how soon another process knows."""
    count = effort.size(2000, 5)
    with board() as device, _current(device.driver):
        pointer, host = tops.check(tops.topsMalloc(SHORT)), np.zeros(SHORT, np.uint8)
        copy: Callable[..., object] = tops.topsMemcpy
        stream, buffer = device.create_stream(), device.allocate(SHORT)
        idle = interleave(
            effort.times(3),
            call=lambda: _repeated(count, tops.topsDeviceSynchronize),
            hip=lambda: _repeated(count, hip.hipDeviceSynchronize),
            object=lambda: _repeated(count, device.sync),
        )
        copies = interleave(
            effort.times(3),
            call=lambda: _repeated(count, lambda: copy(pointer, host, SHORT, tops.topsMemcpyHostToDevice)),
            object=lambda: _repeated(count, lambda: stream.copy(buffer, host).wait_sync()),
        )
        waits = _hand_over(effort)
    more = (idle.least("call") - idle.least("object")) / count * 1e6
    yield _figure("topsDeviceSynchronize over Device.sync", more, "µs", "Device.sync", idle, count * 1e-6, 3)
    more = (idle.least("hip") - idle.least("object")) / count * 1e6
    yield _figure("hipDeviceSynchronize over Device.sync", more, "µs", "Device.sync", idle, count * 1e-6, 3, "hip")
    taken = copies.least("call") / count * 1e6
    yield _figure("topsMemcpy of 4 KiB", taken, "µs", "copy, wait_sync", copies, count * 1e-6, 12)
    yield _figure("event of another process", waits.typical("call") * 1e3, "ms", "line by a pipe", waits, 1e-3, 0.5)


def _figure(
    what: str, value: float, unit: str, reference: str, times: Times, scale: float, limit: float, ours: str = "call"
) -> Figure:
    return Figure(
        what, value, unit, reference, times.least("object") / scale, times.ratio(ours, "object"),
        times.spread(ours, "object"), value_at_most(limit),
    )  # fmt: skip


@contextmanager
def _current(driver: Driver) -> Iterator[None]:
    """Make a board the one that C-style calls mean."""
    enter(driver, board_of(driver))
    try:
        yield
    finally:
        leave(driver)


def _repeated(count: int, action: Callable[[], object]) -> float:
    """Return the seconds that so many calls take."""
    start = time.perf_counter()
    for _ in range(count):
        action()
    return time.perf_counter() - start


def _hand_over(effort: Effort) -> Times:
    """Return the seconds from letting a stream go on here to the end of the wait for its event in another process.

    Raises Skipped where processes cannot share events.
    """
    rounds = effort.size(30, 2)
    with _other() as (say, hear):
        try:
            event = tops.check(tops.topsEventCreateWithFlags(SHARED))
            handle = tops.check(tops.topsIpcGetEventHandle(event)).reserved.hex()
        except AtopsError as error:
            raise Skipped(str(error)) from None
        stream, opener = (tops.check(tops.topsStreamCreateWithFlags(tops.topsStreamNonBlocking)) for _ in range(2))
        word = tops.check(tops.topsMalloc(4))

        def handed_over() -> float:
            tops.check(tops.topsStreamWriteValue32Async(word, 0, 0, opener))
            tops.check(tops.topsStreamSynchronize(opener))
            tops.check(tops.topsStreamWaitValue32Async(word, 1, tops.topsStreamWaitValueEq, stream))
            tops.check(tops.topsEventRecord(event, stream))
            _tell(say, handle)
            _heard(hear)
            time.sleep(SETTLED)
            start = time.monotonic()
            tops.check(tops.topsStreamWriteValue32Async(word, 1, 0, opener))
            return float(_heard(hear)) - start

        def told() -> float:
            time.sleep(SETTLED)
            start = time.monotonic()
            _tell(say, "now")
            return float(_heard(hear)) - start

        return interleave(
            effort.times(),
            call=lambda: statistics.median(handed_over() for _ in range(rounds)),
            object=lambda: statistics.median(told() for _ in range(rounds)),
        )


@contextmanager
def _other() -> Iterator[tuple[IO[str], IO[str]]]:
    """Have the other process for the block, as what it reads and what it writes."""
    command = [sys.executable, "-m", "benchmarks.programs.event_waiter"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        try:
            assert process.stdin is not None and process.stdout is not None
            _tell(process.stdin, "are you there")  # what starts is slow, and nothing may wait for that
            _heard(process.stdout)
            yield process.stdin, process.stdout
        finally:
            process.kill()


def _tell(say: IO[str], line: str) -> None:
    say.write(line + "\n")
    say.flush()


def _heard(hear: IO[str]) -> str:
    """Return the next line. Raises RuntimeError when the other process has ended."""
    line = hear.readline()
    if not line:
        raise RuntimeError("the other process of the bench ended")
    return line
