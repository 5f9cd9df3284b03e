"""The launches that were traced in detail, and their names."""

from __future__ import annotations

from typing import Final

import numpy as np

from atops.base.trace.records import Kind
from atops_widgets.feed.feed import Feed

__all__ = ("MOST_LAUNCHES", "Launches")

MOST_LAUNCHES: Final = 200  # in the selector; the newest


class Launches:
    """The launches of one feed that have steps, in the order of their first one."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self._steps: dict[int, int] = {}  # by seq: how many
        self._names: dict[int, str] = {}
        self._scanned = 0

    def update(self) -> None:
        """Take the feed's new steps."""
        steps = self.feed.steps
        begin = max(0, self._scanned - steps.start)
        self._scanned = steps.start + len(steps)
        seqs, first, counts = np.unique(steps["launch"][begin:], return_index=True, return_counts=True)
        order = np.argsort(first)
        for seq, count in zip(seqs[order].tolist(), counts[order].tolist(), strict=True):
            self._steps[seq] = self._steps.get(seq, 0) + count

    def __contains__(self, seq: int) -> bool:
        return seq in self._steps

    def newest(self) -> int:
        """Return the launch whose first step came last, -1 where there is none."""
        return next(reversed(self._steps), -1)

    def choices(self, shown: int) -> list[list[object]]:
        """Return seq and words of the newest launches and of the one shown, the newest first."""
        seqs = list(self._steps)[-MOST_LAUNCHES:]
        seqs = seqs if shown in seqs or shown not in self._steps else [shown, *seqs]
        return [[seq, f"{seq}: {self.title(seq)}, {self._steps[seq]:,} steps"] for seq in reversed(seqs)]

    def title(self, seq: int) -> str:
        """Return the kernel's name, "kernel" where it is not known."""
        found = self._names.get(seq)
        if found is None:
            found = self._name(seq)
            if found:
                self._names[seq] = found
        return found or "kernel"

    def _name(self, seq: int) -> str:
        feed = self.feed
        row = feed.links().row(seq)
        if row >= 0:
            return feed.texts.all[int(feed.records["name"][row])]
        moments = feed.moments
        known = np.flatnonzero((moments["seq"] == seq) & (moments["kind"] == Kind.LAUNCH))
        return feed.texts.all[int(moments["name"][known[0]])] if len(known) else ""
