"""Which indices of an array only choose a part of it, and whether they stay inside. Knows shapes, no memory."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from atops.base.errors import IllegalAddress
from atops.device.call_site import caller
from atops.device.exec.thread import maybe_current_thread
from atops.device.geometry import Shaped

__all__ = ("check_bounds", "is_basic")

_BASIC = (int, np.integer, slice, type(None), type(...), str)


def is_basic(key: Any) -> bool:
    """Tell whether `key` selects by integers, slices, `...`, `None` and field names only, so that no copy is made."""
    if type(key) is tuple:
        return all(isinstance(each, _BASIC) and type(each) is not bool for each in key)
    return isinstance(key, _BASIC) and type(key) is not bool


def check_bounds(array: Shaped, key: Any) -> None:
    """Raise IllegalAddress, naming dimension, index and extent, where a basic `key` leaves the extents of `array`.

    Unlike numpy's, a slice must begin and end inside; negative positions count from the end.
    """
    keys = key if type(key) is tuple else (key,)
    shape = array.shape
    used = sum(each is not None and each is not ... and type(each) is not str for each in keys)
    if used > len(shape):
        raise _outside(array, f"{used} indices, but it has {len(shape)} dimensions")
    axis = 0
    for each in keys:
        if each is None or type(each) is str:
            continue
        if each is ...:
            axis += len(shape) - used
            continue
        extent = shape[axis]
        if isinstance(each, slice):
            for position in (each.start, each.stop):
                if position is not None and not -extent <= operator.index(position) <= extent:
                    raise _outside(array, f"slice {_text(each)} of dimension {axis}, whose extent is {extent}")
        elif not -extent <= each < extent:
            raise _outside(array, f"index {each} of dimension {axis}, whose extent is {extent}")
        axis += 1


def _outside(array: Shaped, what: str) -> IllegalAddress:
    thread = maybe_current_thread()
    who = "" if thread is None else f"{thread} at {caller()}: "
    return IllegalAddress(f"{who}{what}, in {array!r}")


def _text(part: slice) -> str:
    edges = [part.start, part.stop] if part.step is None else [part.start, part.stop, part.step]
    return ":".join("" if edge is None else str(edge) for edge in edges)
