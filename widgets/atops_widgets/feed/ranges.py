"""Ranges of device memory that commands were given: those of one command or of many, each once, by their addresses.

Pure functions of columns. They know no page and no driver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from atops.trace.text import format_bytes
from atops_widgets.feed.columns import USES, Column, Columns

__all__ = ("Ranges", "union")


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges that commands were given, a row each: seq of a command, device, first byte, byte after the last."""

    seq: Column
    device: Column
    start: Column
    stop: Column

    @classmethod
    def of(cls, uses: Columns, seq: int) -> Ranges:
        """Return what a command was given; nothing of -1."""
        return cls.among(uses, np.flatnonzero((uses["seq"] == seq) & (seq >= 0)))

    @classmethod
    def among(cls, uses: Columns, rows: Column) -> Ranges:
        """Return what rows tell, by seq, device and address; a viewer that came late may have been told twice."""
        table = np.stack([uses[field][rows].astype(np.int64) for field in USES], 1)
        seq, device, start, size = np.unique(table, axis=0).T
        return cls(seq, device, start, start + size)

    @property
    def nbytes(self) -> int:
        """How many bytes they reach; those that several reach count once."""
        parts = (self.device == device for device in np.unique(self.device).tolist())
        return sum(union(self.start[part], self.stop[part]) for part in parts)

    def places(self) -> list[tuple[int, int, int]]:
        """Return device, start and stop of each."""
        return list(zip(self.device.tolist(), self.start.tolist(), self.stop.tolist(), strict=True))

    def brief(self) -> str:
        """Return what a sentence says of those of one command, "uses 3 ranges, 1.5 MiB"; empty where there are none."""
        count = len(self.seq)
        return f"uses {count:,} range{'s' * (count != 1)}, {format_bytes(self.nbytes)}" if count else ""


def union(starts: Column, ends: Column) -> int:
    """Return the length of the union of ranges: bytes of memory, or nanoseconds, that at least one of them covers."""
    if len(starts) == 0:
        return 0
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    gaps = np.maximum(0, starts[1:] - reach[:-1])
    return int(reach[-1] - starts[0] - gaps.sum())
