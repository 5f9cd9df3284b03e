"""The result of a run of the demo as a value: counts, totals, mismatches and the trace.

`sequence` gives the order of a trace without its times: what two runs have in common when one replays the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from atops.apps.histogram import VALUES
from atops.base.trace.records import Trace, TraceRecord

__all__ = ("Counts", "Mismatch", "Outcome", "sequence")

Counts = npt.NDArray[np.int64]

TIMES = frozenset(("submitted_ns", "started_ns", "finished_ns"))
FIELDS = tuple(field for field in TraceRecord._fields if field not in TIMES)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A chunk that the device counted wrong: its number, the first byte value concerned, and both counts of it."""

    chunk: int
    value: int
    counted: int
    expected: int


@dataclass(slots=True)
class Outcome:
    """The result of a run of the demo. `seconds` go from the first byte read to the last result checked."""

    files: int
    bytes: int = 0
    chunks: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    counts: Counts = field(default_factory=lambda: np.zeros(VALUES, np.int64))
    seconds: float = 0.0
    trace: Trace = field(default_factory=Trace)

    def add(self, chunk: int, size: int, counted: Counts, expected: Counts) -> None:
        """Take in what the device counted in a chunk of `size` bytes, and what it should have counted."""
        wrong = np.flatnonzero(counted != expected)
        if wrong.size:
            value = int(wrong[0])
            self.mismatches.append(Mismatch(chunk, value, int(counted[value]), int(expected[value])))
        self.counts += counted
        self.bytes += size
        self.chunks += 1

    @property
    def entropy(self) -> float:
        """The entropy of the bytes in bits a byte: 0.0 where all are equal or there are none, 8.0 at most."""
        if not self.bytes:
            return 0.0
        share = self.counts[self.counts > 0] / self.bytes
        return max(0.0, -float(share @ np.log2(share)))

    def commonest(self, count: int) -> list[tuple[int, int]]:
        """Return the `count` commonest byte values that occur, as (value, how often); of equals the smaller first."""
        order = np.argsort(-self.counts, kind="stable")[:count]
        return [(int(value), int(self.counts[value])) for value in order if self.counts[value] > 0]


def sequence(records: Iterable[TraceRecord]) -> str:
    """Return the records as lines of `field=value`, in the order in which their commands ended, times left out."""
    lines = [" ".join(f"{field}={_plain(getattr(record, field))}" for field in FIELDS) for record in records]
    return "".join(f"{line}\n" for line in lines)


def _plain(value: object) -> object:
    """Return how a value is written: an enumeration's member by its name."""
    return getattr(value, "name", value)
