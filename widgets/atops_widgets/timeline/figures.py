"""Overlap, kernel time and idle time of many records at once: figures of `timeline.summary`, by sorting in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from atops.base.trace.records import COPIES, WAITS, Kind
from atops_widgets.feed.columns import Column

__all__ = ("Figures", "figures")

IS_COPY: Final = np.isin(np.arange(256), list(COPIES))
IS_WORK: Final = ~np.isin(np.arange(256), [*WAITS, Kind.API])  # no stream is busy with a call of the host's


@dataclass(frozen=True, slots=True)
class Figures:
    """Times in nanoseconds, as in `timeline.Summary`."""

    copy_ns: int
    kernel_ns: int
    overlap_ns: int
    idle_ns: int

    @property
    def overlap(self) -> float:
        """Return the fraction of copy time in which a kernel ran on the same device; 0.0 without copies."""
        return self.overlap_ns / self.copy_ns if self.copy_ns else 0.0


def figures(device: Column, kind: Column, start: Column, end: Column) -> Figures:
    """Return the figures of records that ran from `start` to `end`."""
    copies = kernels = both = 0
    is_copy, is_kernel = IS_COPY[kind], kind == Kind.LAUNCH
    for ordinal in np.unique(device[is_copy | is_kernel]):
        here = device == ordinal
        copying, computing = here & is_copy, here & is_kernel
        one, other = _covered(start[copying], end[copying]), _covered(start[computing], end[computing])
        copies += one
        kernels += other
        together = copying | computing
        both += one + other - _covered(start[together], end[together])
    working = IS_WORK[kind]
    span = int(end.max() - start.min()) if len(start) else 0
    return Figures(copies, kernels, both, span - _covered(start[working], end[working]))


def _covered(start: Column, end: Column) -> int:
    """Return how much time at least one of the intervals covers."""
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reached = np.maximum.accumulate(end)
    before = np.concatenate([start[:1], reached[:-1]])
    return int(np.maximum(0, end - np.maximum(start, before)).sum())
