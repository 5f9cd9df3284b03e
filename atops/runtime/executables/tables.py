"""The tables inside an executable: its inputs, outputs, constants and functions as records, in the one form they have.

It knows no container and no graph.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from types import UnionType
from typing import Any, NamedTuple, TypeVar, get_type_hints

from atops.base.dtypes import DType, as_dtype
from atops.base.errors import InvalidImage, InvalidType

__all__ = (
    "ALIGNMENT", "ConstantRecord", "FunctionRecord", "HeaderRecord", "ParameterRecord", "ProfileRecord",
    "ResourceRecord", "TensorRecord", "check_layout", "pack", "unpack",
)  # fmt: skip

R = TypeVar("R", bound=tuple[object, ...])

ALIGNMENT = 256  # of each constant in its section, in bytes
MOST_RANK = 8
LIMIT = 1 << 63


class HeaderRecord(NamedTuple):
    """What the executable is called, and whether its managed constants may be changed."""

    name: str
    refit: bool

    def check(self) -> None:
        """Accept any name."""


class ResourceRecord(NamedTuple):
    """The geometry of its launches, and the bytes of its constants on a device."""

    blocks: int
    threads: int
    constant_bytes: int

    def check(self) -> None:
        """Raise ValueError for a geometry that launches here do not have."""
        _that((self.blocks, self.threads) == (1, 1), "one block of one thread")
        _that(0 <= self.constant_bytes < LIMIT, "a number of bytes")


class ProfileRecord(NamedTuple):
    """The compilation whose profile meta its launches carry, None for none."""

    compilation_id: int | None

    def check(self) -> None:
        """Raise ValueError for more than 64 bits."""
        _that(self.compilation_id is None or -LIMIT <= self.compilation_id < LIMIT, "64 bits")


class TensorRecord(NamedTuple):
    """An input or an output. `element` is ONNX's number of its type; -1 stands for what only a launch can tell.

    `dims` are the built ones; `minimum` and `maximum` bound them, -1 where nothing does. `bank` is the physical one
    that is best for it.
    """

    name: str
    element: int
    dtype: str
    dims: tuple[int, ...]
    minimum: tuple[int, ...]
    maximum: tuple[int, ...]
    bank: int

    @property
    def kind(self) -> DType:
        """Its element type."""
        return as_dtype(self.dtype)

    @property
    def nbytes(self) -> int:
        """Its bytes, -1 where the dims are not known."""
        return -1 if -1 in self.dims else math.prod(self.dims) * self.kind.itemsize

    def check(self) -> None:
        """Raise ValueError for what describes no tensor."""
        _check_element(self.name, self.element, self.dtype)
        _that(self.bank == 0, "bank 0")
        _that(len(self.dims) == len(self.minimum) == len(self.maximum) <= MOST_RANK, f"at most {MOST_RANK} dims")
        for extent, least, most in zip(self.dims, self.minimum, self.maximum, strict=True):
            _that(-1 <= extent < LIMIT and 0 <= least < LIMIT and -1 <= most < LIMIT, "extents of 63 bits")
            _that(extent == -1 or least == extent == most, "a built extent as its own minimum and maximum")
            _that(most == -1 or least <= most, "a minimum below the maximum")


class ConstantRecord(NamedTuple):
    """A constant: `uid` is its place among all; `offset` is in its section, which is the managed one if it is."""

    name: str
    uid: int
    element: int
    dtype: str
    dims: tuple[int, ...]
    offset: int
    managed: bool

    @property
    def kind(self) -> DType:
        """Its element type."""
        return as_dtype(self.dtype)

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return math.prod(self.dims) * self.kind.itemsize

    def check(self) -> None:
        """Raise ValueError for what describes no constant."""
        _check_element(self.name, self.element, self.dtype)
        _that(0 <= self.uid < LIMIT, "a uid of 63 bits")
        _that(0 <= self.offset < LIMIT and self.offset % ALIGNMENT == 0, f"an offset that is a multiple of {ALIGNMENT}")
        _that(all(extent >= 0 for extent in self.dims) and len(self.dims) <= MOST_RANK, f"at most {MOST_RANK} extents")
        _that(math.prod(max(extent, 1) for extent in self.dims) * self.kind.itemsize < LIMIT, "a size of 63 bits")


class ParameterRecord(NamedTuple):
    """An input or an output of a function: extents are known when it is called."""

    name: str
    element: int
    dtype: str

    @property
    def kind(self) -> DType:
        """Its element type."""
        return as_dtype(self.dtype)

    def check(self) -> None:
        """Raise ValueError for a type that no memory here holds."""
        _check_element(self.name, self.element, self.dtype)


class FunctionRecord(NamedTuple):
    """A function beside the graph, which refit calls to compute constants."""

    name: str
    domain: str
    inputs: tuple[ParameterRecord, ...]
    outputs: tuple[ParameterRecord, ...]

    def check(self) -> None:
        """Raise ValueError for a function without a name."""
        _that(bool(self.name), "a name")


def pack(records: Iterable[Any]) -> bytes:
    """Return records as text in the one form that they have."""
    return _canonical([_plain(record) for record in records])


def unpack(kind: type[R], content: bytes, what: str, count: int | None = None) -> tuple[R, ...]:
    """Return the records of a section, `count` of them if that is said.

    Raises InvalidImage for whatever `pack` would not have written.
    """
    where = f"section {what} of the executable"
    try:
        rows = json.loads(content)
        if not isinstance(rows, list) or _canonical(rows) != content:
            raise ValueError("it is not in the form that executables have")
        if count is not None and len(rows) != count:
            raise ValueError(f"it has {len(rows)} records; expected {count}")
        found = tuple(_record(kind, row) for row in rows)
    except (ValueError, RecursionError, OverflowError, InvalidType) as error:
        raise InvalidImage(f"{where} is damaged: {str(error)[:200]}") from None
    return found


def check_layout(records: Iterable[ConstantRecord], managed: bool, size: int) -> None:
    """Raise InvalidImage unless the constants of one section lie in it without overlap and reach its end."""
    end = 0
    for record in records:
        if record.managed is managed:
            if record.offset != -(-end // ALIGNMENT) * ALIGNMENT:
                raise InvalidImage(f"constant {record.name!r} is at {record.offset}; it overlaps, or leaves a gap")
            end = record.offset + record.nbytes
    if end != size:
        raise InvalidImage(f"constants have {end} bytes and their section {size}")


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _plain(value: object) -> object:
    """Return a record as what JSON knows: a mapping by field names."""
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _record(kind: type[Any], row: object) -> Any:
    """Return a record of a row that has all its fields, each of its type. Raises ValueError."""
    hints = get_type_hints(kind)
    if not isinstance(row, dict) or set(row) != set(hints):
        raise ValueError(f"a record has not the fields {', '.join(hints)}")
    record = kind(**{name: _field(hint, row[name], name) for name, hint in hints.items()})
    record.check()
    return record


def _field(hint: Any, value: Any, name: str) -> Any:
    if hint == tuple[int, ...]:
        if type(value) is list and all(type(each) is int for each in value):
            return tuple(value)
    elif hint == tuple[ParameterRecord, ...]:
        if type(value) is list:
            return tuple(_record(ParameterRecord, each) for each in value)
    elif type(value) in (hint.__args__ if isinstance(hint, UnionType) else (hint,)):
        return value
    raise ValueError(f"{name} is {str(value)[:40]!r}, of the wrong type")


def _check_element(name: str, element: int, dtype: str) -> None:
    _that(bool(name), "a name")
    _that(0 < element < 1 << 31, "a type of ONNX")
    as_dtype(dtype)


def _that(holds: bool, right: str) -> None:
    if not holds:
        raise ValueError(f"a record is out of its range; expected {right}")
