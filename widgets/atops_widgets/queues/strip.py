"""How much was queued over time: the strip above the queues, along which one goes back. Pure functions."""

from __future__ import annotations

from typing import Final

import numpy as np

from atops_widgets.feed.columns import Column
from atops_widgets.queues.ledger import NEVER, Ledger

__all__ = ("moment_of", "queued")

BINS: Final = 240  # parts of the time that the strip shows


def queued(ledger: Ledger, origin_ns: int, bins: int = BINS) -> tuple[list[int], Column]:
    """Return from when to when, and how many commands were not over at the end of each of so many parts of it."""
    if not len(ledger):
        return [0, 1], np.zeros(bins, np.uint32)
    submitted, ended = ledger["submitted"], ledger["ended"]
    over = ended[ended < NEVER]
    first = int(submitted.min())
    last = max(int(submitted.max()), int(over.max()) if len(over) else first, first + 1)
    scale = bins / (last - first + 1)
    came = np.bincount(((submitted - first) * scale).astype(np.int64), minlength=bins)
    went = np.bincount(((over - first) * scale).astype(np.int64), minlength=bins)
    return [first - origin_ns, last - origin_ns], np.cumsum(came[:bins] - went[:bins]).astype(np.uint32)


def moment_of(strip: list[int], number: int, parts: int) -> int:
    """Return the end of one of so many equal parts of the time that a strip shows."""
    return strip[0] + (strip[1] - strip[0]) * (number + 1) // parts
