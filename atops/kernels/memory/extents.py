"""What a kernel or a program gives as the shape and type of memory, as extents, element type and bytes."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from atops.base.dtypes import DTypeLike, as_dtype
from atops.base.errors import InvalidType, InvalidValue

__all__ = ("Shape", "extents_of")

Shape = SupportsIndex | Sequence[SupportsIndex]
MOST_DIMENSIONS = 64  # of a numpy array


def extents_of(shape: Shape, dtype: DTypeLike) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return shape, element type and size in bytes. Raises InvalidType and InvalidValue, also for too many extents."""
    element = as_dtype(dtype)
    if type(shape) is int and shape >= 0:
        return (shape,), element, shape * element.itemsize
    if type(shape) is tuple and len(shape) <= MOST_DIMENSIONS:  # nearly every other call, and several times as fast so
        size = element.itemsize
        for extent in shape:
            if type(extent) is not int or extent < 0:
                break
            size *= extent
        else:
            return shape, element, size
    try:
        extents = tuple(map(operator.index, shape)) if isinstance(shape, Iterable) else (operator.index(shape),)
    except TypeError:
        raise InvalidType(f"shape is {shape!r}; an int or one for each dimension is right") from None
    if len(extents) > MOST_DIMENSIONS:
        raise InvalidValue(f"shape has {len(extents)} dimensions; at most {MOST_DIMENSIONS} are right")
    if extents and min(extents) < 0:
        raise InvalidValue(f"shape is {extents}; no extent is negative")
    return extents, element, math.prod(extents) * element.itemsize
