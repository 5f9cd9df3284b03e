"""What a declaration of memory says: its extents, element type, size in bytes and initial value."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import SupportsIndex

import numpy as np

from atops.base.dtypes import DTypeLike, as_dtype, element_name, quietly
from atops.base.errors import InvalidType, InvalidValue, OutOfMemory
from atops.device.arch import ARCHITECTURES
from atops.device.geometry import Array

__all__ = ("Shape", "extents_of", "initial_value")

Shape = SupportsIndex | Sequence[SupportsIndex]
MOST_DIMENSIONS = 64  # of a numpy array


def extents_of(shape: Shape, dtype: DTypeLike) -> tuple[tuple[int, ...], np.dtype[np.generic], int]:
    """Return shape, element type and size in bytes. Raises InvalidType and InvalidValue, also for too many extents."""
    element = as_dtype(dtype)
    if type(shape) is int and shape >= 0:
        return (shape,), element, shape * element.itemsize
    if type(shape) is tuple and len(shape) <= MOST_DIMENSIONS:  # most other calls, which take a fraction of the time so
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
        raise InvalidType(f"shape expects an int, or one for each dimension, got {shape!r}") from None
    if len(extents) > MOST_DIMENSIONS:
        raise InvalidValue(f"shape has {len(extents)} dimensions; it has at most {MOST_DIMENSIONS}")
    if extents and min(extents) < 0:
        raise InvalidValue(f"shape is {extents}; no extent is negative")
    return extents, element, math.prod(extents) * element.itemsize


MOST_BYTES = {
    "global": max(arch.l3_bytes for arch in ARCHITECTURES.values()),
    "constant": max(arch.constant_bytes for arch in ARCHITECTURES.values()),  # for each kernel
}


def initial_value(
    dtype: DTypeLike, init: object, shape: Shape | None, name: str, space: str
) -> Array:  # fmt: skip
    """Return `init` as an array of `dtype` and `shape` (its own unless told); zeros where it is None.

    One value fills any shape. Raises InvalidType for what is no value of `dtype`, InvalidValue for one out of its
    range, for another shape, for a variable without elements, and for one of more bytes than any chip has in `space`,
    "global" or "constant"; OutOfMemory where the host has too few.
    """
    given = None if init is None else _array(init)
    extents, element, size = extents_of((() if given is None else given.shape) if shape is None else shape, dtype)
    if not size:
        raise InvalidValue(f"a variable of shape {extents} has no elements; expected extents of 1 or more")
    what = f"{'a constant' if space == 'constant' else 'a device variable'} {name}".rstrip()
    if size > MOST_BYTES[space]:
        raise InvalidValue(f"{what} of {size} bytes; {space} memory has {MOST_BYTES[space]}")
    if given is not None and given.shape not in ((), extents):
        raise InvalidValue(f"the initial value has shape {given.shape}; expected {extents}, or one value")
    try:
        initial = np.zeros(extents, element)
    except MemoryError:
        raise OutOfMemory(f"{what} of {size} bytes, which the host cannot hold") from None
    if given is not None:
        initial[...] = _converted(given, element)
    initial.flags.writeable = False
    return initial


def _array(init: object) -> Array:
    try:
        given = np.asarray(init)
    except ValueError as error:
        raise InvalidType(f"the initial value is {init!r}, no array: {error}") from None
    if given.dtype.hasobject or given.dtype.kind in "SUmM":
        raise InvalidType(f"the initial value expects numbers, got {init!r}")
    return given


def _converted(given: Array, element: np.dtype[np.generic]) -> Array:
    """Return the values as elements, whole numbers exact. Raises as `initial_value` does."""
    if given.dtype == element:
        return given
    if given.dtype.kind == "c" and element.kind != "c":
        raise InvalidType(f"the initial value is complex; expected {element_name(element)}")
    try:
        converted: Array = quietly(given.astype, element)
    except (TypeError, ValueError):
        raise InvalidType(f"the initial value is of {given.dtype}; expected {element_name(element)}") from None
    if element.kind in "biu":
        exact = bool(np.array_equal(converted, given)) and not (element.kind == "u" and bool(np.any(given < 0)))
    else:
        exact = element.fields is not None or bool(np.array_equal(np.isfinite(converted), np.isfinite(given)))
    if not exact:
        raise InvalidValue(f"the initial value {given.tolist()} is out of the range of {element_name(element)}")
    return converted
