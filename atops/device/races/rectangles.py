"""Which bytes a view of memory has: exactly, as rectangles of equal runs at equal distances."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from atops.device.geometry import Array, Key

__all__ = ("Rect", "Rectangle", "layout", "rectangles", "selected", "starts")


Rect = tuple[int, int, int, int]  # a Rectangle, in places where many are made


class Rectangle(NamedTuple):
    """`rows` runs of `run` bytes each, the first at `start`, each `pitch` bytes behind the one before."""

    start: int
    run: int
    pitch: int = 0
    rows: int = 1

    @property
    def stop(self) -> int:
        """The byte behind the last run."""
        return self.start + self.pitch * (self.rows - 1) + self.run

    @property
    def starts(self) -> range:
        """Where each run begins."""
        return starts(self)


def starts(rectangle: Rect) -> range:
    """Return where each run of a rectangle begins."""
    start, _, pitch, rows = rectangle
    return range(start, start + pitch * (rows - 1) + 1, pitch or 1)


def rectangles(array: Array, origin: int = 0) -> list[Rectangle]:
    """Return the bytes of a view of memory, counted from the address `origin`; each byte once, in no order."""
    start: int = array.__array_interface__["data"][0] - origin
    return [Rectangle(start + first, *rest) for first, *rest in layout(array.shape, array.strides, array.itemsize)]


@lru_cache(4096)
def layout(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[Rectangle, ...]:
    """Return the bytes of a view, counted from its first element."""
    if 0 in shape:
        return ()
    run, start = itemsize, 0
    steps: list[tuple[int, int]] = []  # of the dimensions that are left: distance and count, the nearest first
    for step, count in sorted((abs(step), count) for step, count in zip(strides, shape, strict=True)):
        if count > 1 and step:  # a repeated element is one
            steps.append((step, count))
    start -= sum(-step * (count - 1) for step, count in zip(strides, shape, strict=True) if step < 0)
    while steps and steps[0][0] <= run:  # the next lies right behind, or overlaps
        step, count = steps.pop(0)
        run += step * (count - 1)
    pitch, rows = steps.pop(0) if steps else (0, 1)
    found = [Rectangle(start, run, pitch, rows)]
    for step, count in steps:
        found = [Rectangle(each.start + place * step, run, pitch, rows) for each in found for place in range(count)]
    return tuple(found)


def selected(array: Array, key: Key, origin: int = 0) -> list[Rectangle]:
    """Return the bytes of the elements of a view that a key of any kind selects: a mask, index arrays."""
    places: Array = np.zeros(array.shape, np.int64)
    for axis, (step, count) in enumerate(zip(array.strides, array.shape, strict=True)):
        places += (np.arange(count) * step).reshape((-1,) + (1,) * (array.ndim - axis - 1))
    chosen = np.unique(places[key]) + (array.__array_interface__["data"][0] - origin)
    if not chosen.size:
        return []
    size = array.itemsize
    breaks = np.flatnonzero(np.diff(chosen) > size) + 1
    firsts, lasts = chosen[np.r_[0, breaks]], chosen[np.r_[breaks - 1, chosen.size - 1]]
    return [Rectangle(first, last + size - first) for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
