"""Where addresses stand in a lane: what is in use at one scale, with breaks where much is free; and thinning.

Pure functions of arrays. They know no memory and no page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from atops_widgets.feed.columns import Column

__all__ = ("Axis", "Groups", "axis_of", "group")

BREAK: Final = 1 / 8  # of the bytes in use: a longer gap is broken
MOST_BREAKS: Final = 10
SHARE: Final = 0.045  # of the lane's width that a break takes
LEAST: Final = 6.0  # pixels of a stretch, however short
VISIBLE: Final = 1.5  # pixels from which a range is drawn on its own


@dataclass(frozen=True, slots=True)
class Axis:
    """Stretches of addresses, each drawn to scale from x `left` to `right`; between them the axis is broken."""

    start: Column
    stop: Column
    left: Column
    right: Column

    def place(self, addresses: Column) -> Column:
        """Return where addresses stand; one in a break stands at its beginning, one outside at the edge."""
        if len(self.start) == 0:
            return np.zeros(len(addresses))
        at = np.clip(np.searchsorted(self.start, addresses, "right") - 1, 0, None)
        part = (addresses - self.start[at]) / np.maximum(1, self.stop[at] - self.start[at])
        placed: Column = self.left[at] + np.clip(part, 0, 1) * (self.right[at] - self.left[at])
        return placed

    def holds(self, starts: Column, stops: Column) -> Column:
        """Return which ranges lie in a stretch, at least with a part."""
        if len(self.start) == 0:
            return np.zeros(len(starts), bool)
        at = np.clip(np.searchsorted(self.start, stops, "left") - 1, 0, None)
        inside: Column = (self.start[at] < stops) & (self.stop[at] > starts)
        return inside

    @property
    def breaks(self) -> Column:
        """The bytes that each break leaves out."""
        left_out: Column = self.start[1:] - self.stop[:-1]
        return left_out

    @property
    def scale(self) -> float:
        """Bytes of a pixel, in the longest stretch."""
        if len(self.start) == 0:
            return 1.0
        at = int(np.argmax(self.stop - self.start))
        return float((self.stop[at] - self.start[at]) / max(1e-9, self.right[at] - self.left[at]))


def axis_of(starts: Column, stops: Column, width: float, window: tuple[int, int] | None = None) -> Axis:
    """Return the axis of the ranges, in any order and overlapping as they like: from the first to the last address.

    With a window: of what lies in it, to its edges unless much is free there.
    """
    if window is not None:
        inside = (stops > window[0]) & (starts < window[1])
        starts, stops = np.maximum(starts[inside], window[0]), np.minimum(stops[inside], window[1])
        edges = np.array(window, np.int64)
        starts, stops = np.concatenate([edges, starts]), np.concatenate([edges, stops])
    if len(starts) == 0:
        nothing = np.zeros(0, np.int64)
        return Axis(nothing, nothing, np.zeros(0), np.zeros(0))
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(stops[order])
    gaps = starts[1:] - reach[:-1]
    used = int(reach[-1] - starts[0] - np.maximum(gaps, 0).sum())
    wide = np.flatnonzero(gaps > max(used * BREAK, 1)) if used else np.zeros(0, np.int64)
    if len(wide) > MOST_BREAKS:
        wide = np.sort(wide[np.argsort(-gaps[wide], kind="stable")[:MOST_BREAKS]])
    first, last = np.append(starts[0], starts[wide + 1]), np.append(reach[wide], reach[-1])
    left, right = _stand(last - first, width)
    return Axis(first, last, left, right)


def _stand(lengths: Column, width: float) -> tuple[Column, Column]:
    """Divide a width among stretches by their lengths, none below `LEAST` pixels, with breaks between them."""
    room = width * SHARE
    free = max(1.0, width - room * (len(lengths) - 1))
    widths = np.full(len(lengths), min(LEAST, free / len(lengths)))
    widths += lengths / max(1, int(lengths.sum())) * max(0.0, free - float(widths.sum()))
    left = np.append(0.0, np.cumsum(widths + room)[:-1])
    return left, left + widths


@dataclass(frozen=True, slots=True)
class Groups:
    """What is drawn of many ranges: `row` is the one drawn on its own, -1 for several that are narrower than a pixel.

    `count` ranges with `size` bytes together; `fill` is the part of the pixel that they cover.
    """

    row: Column
    left: Column
    right: Column
    count: Column
    size: Column
    fill: Column

    def __len__(self) -> int:
        return len(self.row)


def group(left: Column, right: Column, size: Column, alone: Column | None = None) -> Groups:
    """Return wide ranges as they are, and narrow ones together by the pixel that they begin in.

    `alone` are rows that are drawn on their own in any case. There are at most about two groups a pixel.
    """
    wide = right - left >= VISIBLE
    if alone is not None:
        wide[alone] = True
    narrow = np.flatnonzero(~wide)
    pixel = np.floor(left[narrow]).astype(np.int64)
    order = np.argsort(pixel, kind="stable")
    narrow, pixel = narrow[order], pixel[order]
    opens = np.flatnonzero(np.append(True, pixel[1:] != pixel[:-1])) if len(narrow) else np.zeros(0, np.int64)
    own = np.flatnonzero(wide)
    if len(opens) == 0:
        return Groups(own, left[own], right[own], np.ones(len(own), np.int64), size[own], np.ones(len(own)))
    counts = np.diff(np.append(opens, len(narrow)))
    cover = np.minimum(1.0, np.add.reduceat(right[narrow] - left[narrow], opens))
    begins = pixel[opens].astype(np.float64)
    return Groups(
        np.append(own, np.where(counts == 1, narrow[opens], -1)),
        np.append(left[own], begins),
        np.append(right[own], begins + 1),
        np.append(np.ones(len(own), np.int64), counts),
        np.append(size[own], np.add.reduceat(size[narrow], opens)),
        np.append(np.ones(len(own)), np.where(counts == 1, 1.0, cover)),
    )
