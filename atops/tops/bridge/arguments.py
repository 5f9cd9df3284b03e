"""Reading the plain arguments of a C-style call: numbers, flag words, enumerations, extents. Errors name them.

Python's own complaint about what is left unread is InvalidValue as well; see the table of codes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, TypeVar

from atops.base.dims import Dim3
from atops.base.errors import InvalidType, InvalidValue
from atops.base.result_codes import Result
from atops.tops.bridge.codes import CodeError
from atops.tops.types.structs import dim3, uint3

__all__ = ("dims_of", "flags_in", "member", "numbers", "size_of", "whole")

E = TypeVar("E", bound=IntEnum)


def whole(value: Any, what: str) -> int:
    """Return an argument as an int. Raises InvalidType for what is none: None, True, 1.0."""
    if type(value) is int:
        return value
    try:
        found = operator.index(value)
    except TypeError:  # an array of several elements has the method and not the number
        found = None
    if found is None or isinstance(value, bool):
        raise InvalidType(f"{what} is {value!r}; an int is right")
    return found


def size_of(value: Any, what: str = "the size") -> int:
    """Return a size or a count: an int that C's size_t can hold. Raises InvalidType, InvalidValue."""
    size = whole(value, what)
    if not 0 <= size < 1 << 64:
        raise InvalidValue(f"{what} is {size}; 0 or more, in 64 bits, is right")
    return size


def flags_in(value: Any, permitted: int, what: str = "flags") -> int:
    """Return a flag word that has only `permitted` bits. Raises InvalidType, InvalidValue."""
    flags = whole(value, what)
    if flags < 0 or flags & ~permitted:
        right = f"bits of {permitted:#x} are" if permitted else "0 is"
        raise InvalidValue(f"{what} is {flags:#x}; {right} right")
    return flags


def member(kind: type[E], value: Any, what: str, code: Result = Result.InvalidValue) -> E:
    """Return a member of an enumeration, given itself or its value. Raises CodeError with `code`."""
    try:
        return kind(whole(value, what))
    except (InvalidType, ValueError):
        raise CodeError(code, f"{what} is {value!r}; a {kind.__name__} is right") from None


def dims_of(value: Any, what: str) -> Dim3:
    """Return the extent that a dim3, an int or one to three ints are. Raises InvalidType, InvalidValue below 1."""
    parts = value if isinstance(value, dim3 | uint3 | list | tuple) else (value,)
    return Dim3.of([whole(part, what) for part in parts], what)


def numbers(values: Any, count: Any, what: str) -> tuple[int, ...]:
    """Return the ints of a sequence whose count stands beside it: None, or its length.

    Raises InvalidType for what is no sequence of ints, InvalidValue for another count.
    """
    if isinstance(values, str | bytes) or not (isinstance(values, Sequence) or hasattr(values, "__array__")):
        raise InvalidType(f"{what} is {values!r}; a sequence of ints is right")
    found = tuple(whole(value, what) for value in values)
    if count is not None and whole(count, f"the count of {what}") != len(found):
        raise InvalidValue(f"{what} has {len(found)} elements and its count is {count}; None or {len(found)} is right")
    return found
