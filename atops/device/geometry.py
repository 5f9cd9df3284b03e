"""Windows, layouts and spacings of arrays, and what must hold of them before anything moves."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from enum import Enum
from types import EllipsisType
from typing import Any, Protocol, TypeAlias

import ml_dtypes
import numpy as np
from numpy.lib.array_utils import byte_bounds

from atops.base.dtypes import DType, element_name
from atops.base.errors import InvalidType, InvalidValue

__all__ = (
    "Array",
    "Ints",
    "Key",
    "Shaped",
    "Space",
    "byte_count",
    "check_extents",
    "check_inside",
    "check_kind",
    "check_layout",
    "check_numbers",
    "check_overlap",
    "check_rank",
    "check_value",
    "every",
    "frozen",
    "inverse",
    "is_basic",
    "may_overlap",
    "mirrored",
    "part",
    "repeated",
    "root_of",
    "spread",
    "window",
)

Array = np.ndarray[tuple[Any, ...], DType]
Ints = Sequence[int]
Key: TypeAlias = Any  # what numpy takes as an index

# numpy decides exactly whether two views share an element; beyond this many steps a pair counts as overlapping.
_OVERLAP_WORK = 10_000

_ALL = (slice(None),) * 64  # as many as an array has dimensions

_BASIC = (int, np.integer, slice, type(None), type(...), str)  # what selects without a copy


class Space(Enum):
    """The memory space that a view lies in (TOPS C++, 8.2)."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"

    def __str__(self) -> str:
        return self.value


class Shaped(Protocol):
    """All that the checks read: anything with a shape, outermost dimension first, and an element type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents, outermost first."""

    @property
    def dtype(self) -> DType:
        """Return the element type."""


def is_basic(key: Key) -> bool:
    """Tell whether `key` selects by integers, slices, `...`, `None` and field names only, so that no copy is made."""
    if type(key) is tuple:
        return all(isinstance(each, _BASIC) and type(each) is not bool for each in key)
    return isinstance(key, _BASIC) and type(key) is not bool


def window(offsets: Ints, extents: Ints) -> tuple[slice | EllipsisType, ...]:
    """Return the index of the window of `extents` at `offsets`; of no dimensions too it gives a view, no scalar."""
    if len(offsets) == 0:
        return (...,)
    return tuple([slice(offset, offset + extent) for offset, extent in zip(offsets, extents, strict=True)])


def spread(low: Ints, extents: Ints, high: Ints, mid: Ints) -> tuple[slice | EllipsisType, ...]:
    """Return the index of what is left of `extents` without `low`, `high` and the gaps of `mid` between elements."""
    parts = zip(low, extents, high, mid, strict=True)
    return (*[slice(before, extent - after, gap + 1) for before, extent, after, gap in parts], ...)


def mirrored(array: Array, axis: int) -> Array:
    """Return a view with one axis reversed, which counts from the last as -1: a quarter of the time of numpy.flip."""
    index: tuple[slice | EllipsisType, ...] = (..., slice(None, None, -1), *_ALL[: -1 - axis])
    return array[index]


def every(strides: Ints) -> tuple[slice | EllipsisType, ...]:
    """Return the index of each stride-th element in each dimension, from the first."""
    return (*[slice(None, None, stride) for stride in strides], ...)


def repeated(inside: Ints, extents: Ints, whole: Ints) -> tuple[int, ...]:
    """Return how much of `whole` the first `inside` elements fill when a window of `extents` is broadcast to it."""
    added = len(whole) - len(extents)
    parts = zip(inside, extents, whole[added:], strict=True)
    return (*whole[:added], *[count * over // extent if extent else 0 for count, extent, over in parts])


def part(array: Array, phase: int, element: DType) -> Array:
    """Return a view of one part of each element of `array` as `element`: part `phase`, counted from the low bytes."""
    fields: DType = np.dtype(
        {"names": ["part"], "formats": [element], "offsets": [phase * element.itemsize], "itemsize": array.itemsize}
    )
    seen: Array = array.view(fields)["part"]
    return seen


def frozen(value: object) -> object:
    """Return a list or a row as a tuple, which no later change reaches, and anything else as it is."""
    if type(value) is list or (isinstance(value, np.ndarray) and value.ndim == 1):
        return tuple(value)
    return value


def inverse(layout: Ints) -> tuple[int, ...]:
    """Return the permutation that undoes `layout`."""
    places = [0] * len(layout)
    for place, axis in enumerate(layout):
        places[axis] = place
    return tuple(places)


def byte_count(array: Shaped) -> int:
    """Return how many bytes the elements of `array` have."""
    return math.prod(array.shape) * array.dtype.itemsize


def check_kind(op: str, dst: Shaped, src: Shaped) -> None:
    """Raise InvalidValue unless both have one element type: the DTE moves bits and converts nothing."""
    if dst.dtype != src.dtype:
        kinds = f"{element_name(dst.dtype)} and src of {element_name(src.dtype)}"
        raise InvalidValue(f"{op}: dst has elements of {kinds}; nothing is converted, view one as the other's type")


def check_rank(op: str, dst: Shaped, src: Shaped) -> int:
    """Return the rank that both have. Raises InvalidValue unless both have one rank."""
    rank = len(dst.shape)
    if rank != len(src.shape):
        raise InvalidValue(f"{op}: dst has shape {dst.shape} and src {src.shape}; expected as many dimensions of both")
    return rank


def check_numbers(op: str, what: str, numbers: Ints, rank: int, least: int = 0) -> tuple[int, ...]:
    """Return `numbers` as one int for each of `rank` dimensions, none below `least`.

    Raises InvalidType where they are no ints, bools among them, and InvalidValue naming the dimension where one is too
    small.
    """
    try:
        if bool in map(type, numbers):
            raise TypeError  # an index to Python, a mask to numpy
        count, values = len(numbers), tuple(map(operator.index, numbers))
    except TypeError:
        cure = ""
        if isinstance(numbers, int) and rank:
            cure = f", as ({', '.join([str(numbers)] * rank)}{',' * (rank == 1)})"
        raise InvalidType(f"{op}: {what} is {numbers!r}; expected an int for each of {rank} dimensions{cure}") from None
    if count != rank:
        raise InvalidValue(f"{op}: {what} is {numbers!r}; expected an int for each of {rank} dimensions")
    if values and min(values) < least:
        axis = next(axis for axis, value in enumerate(values) if value < least)
        expected = f"at least {least}" if least else "0 or more"
        raise InvalidValue(f"{op}: {what} of dimension {axis} is {values[axis]}; expected {expected}")
    return values


def check_layout(op: str, layout: Ints, rank: int) -> tuple[int, ...]:
    """Return `layout` as a permutation of the dimensions. Raises InvalidValue where it is none."""
    values = check_numbers(op, "layout", layout, rank)
    if sorted(values) != list(range(rank)):
        raise InvalidValue(f"{op}: layout is {tuple(layout)!r}; expected each of 0 to {rank - 1} once")
    return values


def check_extents(op: str, dst: Shaped, expected: tuple[int, ...], what: str, given: tuple[int, ...]) -> None:
    """Raise InvalidValue, naming the dimension and both extents, unless dst has the `expected` shape.

    The message gives the reason as `what` being `given`.
    """
    shape = dst.shape
    if shape == expected:
        return
    if len(shape) != len(expected):
        raise InvalidValue(f"{op}: dst has shape {shape}; expected {expected} ({what} is {given})")
    axis = next(axis for axis, extent in enumerate(expected) if shape[axis] != extent)
    raise InvalidValue(
        f"{op}: dimension {axis} of dst has extent {shape[axis]}; expected {expected[axis]} ({what} is {given})"
    )


def check_inside(op: str, dst: Shaped, offsets: tuple[int, ...], extents: tuple[int, ...]) -> None:
    """Raise InvalidValue, naming the dimension and extents, unless the window lies inside dst."""
    for axis, (extent, offset, width) in enumerate(zip(dst.shape, offsets, extents, strict=True)):
        if offset + width > extent:
            raise InvalidValue(
                f"{op}: in dimension {axis} the window from {offset} to {offset + width} leaves dst, whose extent is "
                f"{extent}; expected an offset of at most {extent - width} and a width of at most {extent}"
            )


def check_value(op: str, value: Any, dtype: DType) -> None:
    """Raise InvalidValue unless `value` is one value of the element type; floats may round, nothing else may."""
    if (type(value) is int or type(value) is float) and value == 0:
        return  # the default of every fill, and every type has it
    try:
        low, high = _bounds(dtype)
        if low is None:  # a complex number, a date, a structure: numpy knows
            fits = np.asarray(value, dtype).ndim == 0
        elif isinstance(low, int):
            fits = low <= value <= high and int(value) == value
        else:
            fits = low <= value <= high or not math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise InvalidValue(f"{op}: value is {value!r}; expected a value of dst's element type {element_name(dtype)}")


@functools.cache
def _bounds(dtype: DType) -> tuple[object, object]:
    """Return the least and the greatest finite value of a type: ints, or floats; None where there is no order."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind not in "iufV" or dtype.type is np.void:
        return None, None
    try:
        limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # its stubs have no types
        return float(limits.min), float(limits.max)
    except ValueError:  # an integer type
        whole = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]  # as above
        return int(whole.min), int(whole.max)


def check_overlap(op: str, written: Shaped, landing: Shaped, source: Shaped) -> None:
    """Raise InvalidValue where bytes would be written before they are read.

    `written` is all that the operation writes, `landing` the part of it that receives `source` element by element.
    Source and destination may be apart, or be the very same place, so that each element is moved onto itself; with any
    other overlap the result depends on the order in which the hardware moves, which is not documented. What is no array
    has no place and is not compared.
    """
    if not (isinstance(written, np.ndarray) and isinstance(source, np.ndarray) and isinstance(landing, np.ndarray)):
        return
    if not may_overlap(written, source) or _same_place(landing, source):
        return
    try:
        shared = np.shares_memory(written, source, max_work=_OVERLAP_WORK)  # type: ignore[arg-type]  # any count
    except np.exceptions.TooHardError:
        shared = True
    if shared:
        raise InvalidValue(
            f"{op}: dst {written.shape} and src {source.shape} overlap in memory; expected them apart, or each "
            "element at the same place"
        )


def root_of(array: Array) -> Array:
    """Return the array that the memory of `array` belongs to: an L1 or L2 for what lies in one; maybe itself."""
    while isinstance(base := array.base, np.ndarray):
        array = base
    return array


def may_overlap(one: Array, other: Array) -> bool:
    """Return False where two arrays are surely apart: of different owners, or with bounds that do not meet.

    numpy.may_share_memory lets the interpreter lock go, which beside a busy Python thread costs a switch interval now
    and then; this asks every time and keeps it.
    """
    mine, theirs = _owner(one), _owner(other)
    if mine is not theirs and (isinstance(mine, np.ndarray) or isinstance(theirs, np.ndarray)):
        return False  # what numpy allocated has one owner; two foreign owners may have mapped the same pages
    low, high = byte_bounds(one)
    least, most = byte_bounds(other)
    return bool(low < most and least < high)


def _owner(array: Array) -> object:
    """Return the object that has the memory of an array: an array that is no view, or a foreign buffer."""
    thing: object = array
    while True:
        below: object = None
        if isinstance(thing, np.ndarray):
            below = thing.base
        elif isinstance(thing, memoryview):
            below = thing.obj
        if below is None:
            return thing
        thing = below


def _same_place(one: Array, other: Array) -> bool:
    """Return whether two views have each element at the same address."""
    if one.shape != other.shape or one.dtype.itemsize != other.dtype.itemsize:
        return False
    if one.__array_interface__["data"] != other.__array_interface__["data"]:
        return False
    steps = zip(one.shape, one.strides, other.strides, strict=True)
    return all(mine == theirs for extent, mine, theirs in steps if extent > 1)
