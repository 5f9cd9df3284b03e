"""Programs under the virtual clock, and what the sheets of the chips say about how long their commands take."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import numpy as np

import atops
from atops.base.options import EmulatorOptions
from atops.base.trace.records import TraceRecord
from atops.runtime.driver import board_of

__all__ = ("MOVE", "ODD", "RATES", "UP", "Rates", "ceil", "host", "now", "record_of", "span", "taken", "virtual")

ODD = 1_000_003  # bytes, of which no rate makes whole nanoseconds


class Rates(NamedTuple):
    """Bytes per second, as the chips' sheets have them or as this project chose."""

    link: int
    l3: int
    l2: int
    peer: int  # PCIe, which is faster than a port of gcu300's ring


RATES = {
    "gcu210": Rates(31_500_000_000, 819_000_000_000, 2_150_400_000_000, 31_500_000_000),
    "gcu300": Rates(63_000_000_000, 672_000_000_000, 2_150_400_000_000, 63_000_000_000),
}
UP = ODD * 10**9 // RATES["gcu300"].link + 1  # ns of a copy of ODD bytes over the host link of gcu300
MOVE = 2 * ODD * 10**9 // RATES["gcu300"].l3 + 1  # and of one within it


def ceil(nbytes: int, rate: int) -> int:
    """Return the nanoseconds of bytes over one thing."""
    return -(-nbytes * 10**9 // rate)


def virtual(main: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, **options: Any) -> Any:
    """Run a program on two devices under the virtual clock."""
    return atops.run(main, EmulatorOptions(**{"clock": "virtual", "devices": 2, **options}), *arguments)


def now() -> int:
    """Return the virtual time."""
    return board_of(atops.current_driver()).now()


def record_of(item: atops.Completion) -> TraceRecord:
    """Return the record of a command that is over; of several, the last."""
    return [each for each in item.stream.driver.tracer.records() if each.seq == item.seq][-1]


def span(item: atops.Completion) -> tuple[int, int]:
    """Return from when to when a command ran."""
    record = record_of(item)
    return record.started_ns, record.finished_ns


def taken(item: atops.Completion) -> int:
    """Return how long a command ran."""
    started, finished = span(item)
    return finished - started


def host(size: int = ODD) -> Any:
    """Return host bytes that are not all alike."""
    return (np.arange(size) % 251).astype(np.uint8)
