"""How much memory was in use over time: a step curve thinned to pixels, its peak, and how broken up the rest was.

Pure functions of arrays, and of a table of lives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from atops_widgets.feed.columns import Column
from atops_widgets.memory_map.history import History

__all__ = ("MOST_SAMPLES", "Curve", "Steps", "free_at", "largest_gap", "sampled_free", "thin_steps")

MOST_SAMPLES: Final = 120


@dataclass(frozen=True, slots=True)
class Steps:
    """A figure that holds from each moment until the next, in the order of time."""

    at_ns: Column
    value: Column

    @classmethod
    def of(cls, at_ns: Column, value: Column) -> Steps:
        """Return steps; a moment that comes too early, for two threads told at once, is put to the one before."""
        return cls(np.maximum.accumulate(at_ns) if len(at_ns) else at_ns, value)

    def at(self, at_ns: int | None) -> int:
        """Return the figure at a moment (None: now); 0 before the first."""
        place = len(self.at_ns) if at_ns is None else int(np.searchsorted(self.at_ns, at_ns, "right"))
        return int(self.value[place - 1]) if place else 0

    def peak(self) -> tuple[int, int]:
        """Return the largest figure and when it was reached first; (0, 0) of nothing."""
        if len(self.value) == 0:
            return 0, 0
        at = int(np.argmax(self.value))
        return int(self.value[at]), int(self.at_ns[at])


@dataclass(frozen=True, slots=True)
class Curve:
    """Steps as they are drawn: in each pixel the lowest, the highest and the last figure."""

    low: Column
    high: Column
    last: Column


def thin_steps(steps: Steps, span: tuple[int, int], pixels: int) -> Curve:
    """Return the steps between two moments in so many pixels; every peak is kept."""
    number = np.arange(pixels + 1)
    whole, rest = divmod(max(1, span[1] - span[0]), pixels)
    edges = span[0] + number * whole + number * rest // pixels  # the product of both would be too large for some years
    edges[-1] += 1
    bounds = np.searchsorted(steps.at_ns, edges, "left")
    value = np.append(steps.value, 0)  # so that a bound may stand behind the last
    before = np.where(bounds > 0, value[bounds - 1], 0)
    held, after = before[:-1], before[1:]
    some = bounds[1:] > bounds[:-1]
    high, low = held.copy(), held.copy()
    if some.any():
        # reduceat goes from each bound to the next one given: the bounds of empty pixels are left out.
        cuts = bounds[:-1][some]
        inside = value[: bounds[-1]]
        high[some] = np.maximum(held[some], np.maximum.reduceat(inside, cuts))
        low[some] = np.minimum(held[some], np.minimum.reduceat(inside, cuts))
    return Curve(low, high, after)


def largest_gap(starts: Column, stops: Column, first: int, last: int) -> int:
    """Return the longest run of bytes between two addresses that no range holds."""
    inside = (stops > first) & (starts < last)
    order = np.argsort(starts[inside], kind="stable")
    begins = np.append(starts[inside][order], last)
    reach = np.maximum.accumulate(np.append(first, stops[inside][order]))
    return max(0, int((begins - reach).max()))


def free_at(history: History, device: int, at_ns: int | None, used: int, capacity: int) -> int:
    """Return the largest free range of a device at a moment, when `used` of its `capacity` bytes are set aside."""
    standing = history.standing(device, at_ns, used, 0)
    rows = np.append(standing.live, standing.kept)
    return largest_gap(history["offset"][rows], history.ends(rows), 0, capacity)


def sampled_free(
    history: History, device: int, used: Steps, span: tuple[int, int], capacity: int, effort: int
) -> tuple[Column, Column]:
    """Return moments and the largest free range at each: as many as so many rows of `effort` allow, 4 to 120."""
    count = max(4, min(MOST_SAMPLES, effort // max(1, len(history))))
    moments = np.unique(np.linspace(span[0], span[1], count).astype(np.int64))
    found = [free_at(history, device, at, used.at(at), capacity) for at in moments.tolist()]
    return moments, np.array(found, np.int64)
