"""Read the plain arguments of a C-style call: numbers, flag words, enumerations, extents, texts, lists, files.

Errors name the argument. Python's own complaint about what is left unread is InvalidValue as well; see `codes`.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import islice
from typing import Final, TypeVar, cast

from atops.base.dims import Dim3
from atops.base.errors import InvalidType, InvalidValue
from atops.base.result_codes import Result
from atops.bridge.codes import CodeError

__all__ = (
    "contents_of", "dims_of", "flags_in", "index_in", "instance", "listed", "member", "numbers", "path_of", "size_of",
    "text_of", "whole",
)  # fmt: skip

MOST: Final = 1 << 16  # elements of a list that a call takes
E = TypeVar("E", bound=IntEnum)
T = TypeVar("T")


def whole(value: object, what: str) -> int:
    """Return an argument as an int. Raises InvalidType for other types, None, True and 1.0 among them."""
    if type(value) is int:
        return value
    try:
        found = operator.index(value)  # type: ignore[arg-type]  # TypeError is the answer
    except Exception:  # an array of several elements has the method and not the number; others fail in their own
        found = None
    if found is None or isinstance(value, bool):
        raise InvalidType(f"{what} must be an int, got {value!r}")
    return found


def size_of(value: object, what: str = "the size", bits: int = 64) -> int:
    """Return a size, a count or a word of so many bits, without sign. Raises InvalidType, InvalidValue."""
    size = whole(value, what)
    if not 0 <= size < 1 << bits:
        raise InvalidValue(f"{what} must be 0 or more, in {bits} bits, got {size}")
    return size


def index_in(value: object, count: int, what: str) -> int:
    """Return an index below `count`. Raises InvalidType, InvalidValue."""
    index = whole(value, what)
    if not 0 <= index < count:
        raise InvalidValue(f"{what} must be one of 0 to {count - 1}, got {index}")
    return index


def flags_in(value: object, permitted: int, what: str = "flags") -> int:
    """Return a flag word that has only `permitted` bits. Raises InvalidType, InvalidValue."""
    flags = whole(value, what)
    if flags < 0 or flags & ~permitted:
        expected = f"bits of {permitted:#x}" if permitted else "0"
        raise InvalidValue(f"{what} must be {expected}, got {flags:#x}")
    return flags


def member(kind: type[E], value: object, what: str, code: Result = Result.InvalidValue) -> E:
    """Return a member of an enumeration, given itself or its value. Raises CodeError with `code`."""
    try:
        return kind(whole(value, what))
    except (InvalidType, ValueError):
        raise CodeError(code, f"{what} must be a {kind.__name__}, got {value!r}") from None


def instance(value: object, kind: type[T], what: str) -> T:
    """Return an argument that must be a struct, or an object of another class. Raises InvalidType."""
    if not isinstance(value, kind):
        raise InvalidType(f"{what} must be a {kind.__name__}, got {value!r}")
    return value


def dims_of(value: object, what: str) -> Dim3:
    """Return the extent that a dim3, an int or one to three ints are. Raises InvalidType, InvalidValue below 1."""
    if hasattr(value, "x") and hasattr(value, "y") and hasattr(value, "z"):  # a struct such as dim3
        parts: Sequence[object] = (value.x, value.y, value.z)
    else:
        parts = value if isinstance(value, list | tuple) else (value,)
    return Dim3.of([whole(part, what) for part in parts], what)


def text_of(value: object, what: str) -> str:
    """Return a text, given as one or as its UTF-8 bytes. Raises InvalidType, ValueError for other bytes."""
    if isinstance(value, bytes):
        return value.decode()
    return instance(value, str, what)


def path_of(value: object, what: str) -> str | bytes:
    """Return the path of a file. Raises InvalidType for other things and for an empty path."""
    if not isinstance(value, str | bytes | os.PathLike) or not os.fspath(value):
        raise InvalidType(f"{what} must be the path of a file, got {value!r}")
    found: str | bytes = os.fspath(value)
    return found


def contents_of(path: object, what: str, most: int) -> bytes:
    """Return a file's bytes, at most one more than `most`. Raises InvalidType, CodeError FileNotFound."""
    name = path_of(path, what)
    try:
        with open(name, "rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise CodeError(Result.FileNotFound, f"cannot read {what} {name!r}: {error.strerror}") from None


def listed(values: object, count: object, what: str, most: int = MOST) -> list[object]:
    """Return the elements of a sequence whose count stands beside it: None, or its length, at most `most`.

    Nothing of one that is too long is read. Raises InvalidType for other types, a text among them, InvalidValue for
    another count or a longer one.
    """
    if isinstance(values, str | bytes) or not (
        isinstance(values, (list, tuple, Sequence)) or hasattr(values, "__array__")  # the quick ones first
    ):
        raise InvalidType(f"{what} must be a sequence, got {values!r}")
    length = len(cast("Sequence[object]", values))
    if count is not None and whole(count, f"the count of {what}") != length:
        raise InvalidValue(f"the count of {what} must be None or {length}, their number, got {count}")
    if length > most:
        raise InvalidValue(f"{what} must have at most {most} elements, got {length}")
    return list(islice(cast("Iterable[object]", values), length))


def numbers(values: object, count: object, what: str, most: int = MOST) -> tuple[int, ...]:
    """Return the ints of a sequence whose count stands beside it. Raises as `listed` and `whole` do."""
    return tuple(whole(value, what) for value in listed(values, count, what, most))
