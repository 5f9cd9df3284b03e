"""From records to shapes: what is wide enough is drawn on its own, what is not is gathered in cells of a pixel.

Pure numpy: the same shapes and the same window give the same answer. Nothing is left out: a gathered run tells how many
records it stands for, what most of its time was, and whether one of them failed. Gathering again only gets coarser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from atops.base.trace.records import Kind
from atops_widgets.feed.columns import Column

__all__ = ("GATHERED", "MOST_SHAPES", "Shapes", "gather", "join")

MOST_SHAPES: Final = 12_000  # drawn one by one; the longest ones, where there are more
MOST_CELLS: Final = 1 << 20  # counted in a table; more are sorted first
GATHERED: Final = -1
FIELDS: Final = ("row", "start", "end", "kind", "failed", "count", "time", "index")


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """Shapes as columns: their row, start and end in nanoseconds, kind, whether one failed, and for how many records.

    `time` is how long these ran together. `index` is the number of the record where it is a single one, else GATHERED.
    """

    row: Column
    start: Column
    end: Column
    kind: Column
    failed: Column
    count: Column
    time: Column
    index: Column

    def take(self, chosen: Column) -> Shapes:
        """Return the shapes at indices, or where a mask is true."""
        return Shapes(*(getattr(self, field)[chosen] for field in FIELDS))

    def __len__(self) -> int:
        return len(self.row)


def join(parts: list[Shapes]) -> Shapes:
    """Return all the shapes of the parts, in their order."""
    return Shapes(*(np.concatenate([getattr(part, field) for part in parts]) for field in FIELDS))


def gather(shapes: Shapes, window: tuple[int, int], width: int, keep: Column, most: int = MOST_SHAPES) -> Shapes:
    """Return the shapes as they look when `window`, in nanoseconds, is `width` pixels wide.

    Those at least two pixels wide stay, at most `most` of them, the longest; so do those whose `index` is in `keep`.
    The others are gathered: neighbouring pixels of a row that look alike are one shape.
    """
    scale = width / (window[1] - window[0])
    left = np.clip((shapes.start - window[0]) * scale, 0, width - 1).astype(np.int32)
    right = np.clip((shapes.end - window[0]) * scale, 0, width).astype(np.int32)
    kept = np.isin(shapes.index, keep) if len(keep) else np.zeros(len(shapes), bool)
    wide = np.flatnonzero((right - left >= 2) & ~kept)
    if len(wide) > most:
        length = shapes.end[wide] - shapes.start[wide]
        wide = wide[np.argpartition(length, len(length) - most)[len(length) - most :]]
    own = kept
    own[wide] = True
    if own.all():
        return shapes
    rest = np.flatnonzero(~own)
    return join([shapes.take(np.flatnonzero(own)), _runs(shapes.take(rest), left[rest], window, width)])


def _runs(shapes: Shapes, left: Column, window: tuple[int, int], width: int) -> Shapes:
    """Return one shape for each run of neighbouring pixels that look alike: of one row, main kind and failedness."""
    cell = shapes.row.astype(np.int64) * width + left
    present = np.flatnonzero(np.bincount(shapes.kind, minlength=len(Kind)))
    most = int(cell.max()) + 1
    known = None
    if most * len(present) > MOST_CELLS:
        known, cell = np.unique(cell, return_inverse=True)
        most = len(known)
    place = np.zeros(256, np.int64)
    place[present] = np.arange(len(present))
    key = cell * len(present) + place[shapes.kind]
    shape = most, len(present)
    count = np.bincount(key, shapes.count, minlength=shape[0] * shape[1]).reshape(shape)
    time = np.bincount(key, shapes.time, minlength=shape[0] * shape[1]).reshape(shape)
    failed = np.bincount(cell, shapes.failed, minlength=most)
    last = np.zeros(most, np.int64)
    last[cell] = np.arange(len(cell))
    cells = np.flatnonzero(count.sum(1))
    broken = failed[cells] > 0
    main = present[np.argmax(time[cells] + count[cells] * 1e-6, axis=1)]
    pixels = cells if known is None else known[cells]
    first, number = _alike(pixels, main * 2 + broken, width)
    begin = pixels[first]
    pixel = (window[1] - window[0]) / width
    total = np.add.reduceat(count[cells].sum(1), first).astype(np.int64)
    alone = total == 1
    member = last[cells[first]]
    start = window[0] + ((begin % width) * pixel).astype(np.int64)
    end = window[0] + ((begin % width + number) * pixel).astype(np.int64)
    return Shapes(
        row=(begin // width).astype(np.int32),
        start=np.where(alone, shapes.start[member], start),
        end=np.where(alone, shapes.end[member], end),
        kind=main[first].astype(np.uint8),
        failed=broken[first],
        count=total,
        time=np.add.reduceat(time[cells].sum(1), first),
        index=np.where(alone, shapes.index[member], GATHERED),
    )


def _alike(pixels: Column, look: Column, width: int) -> tuple[Column, Column]:
    """Return where runs of neighbouring pixels of one row and one look begin, and how many pixels they have."""
    breaks = (np.diff(pixels) != 1) | (np.diff(look) != 0) | (np.diff(pixels // width) != 0)
    first = np.flatnonzero(np.concatenate([[True], breaks]))
    return first, np.diff(np.concatenate([first, [len(pixels)]]))
