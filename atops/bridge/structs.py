"""Structs of a public header as dataclasses, by the header's field names, with their layout in C."""

from __future__ import annotations

import copy
import dataclasses
import struct
from collections.abc import Iterator
from dataclasses import field, fields
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast

from atops.base.errors import InvalidValue

__all__ = ("Field", "Struct", "c_field")

T = TypeVar("T")


class Field(NamedTuple):
    """Where a field lies in C: its offset in bytes, and its type in the letters of Python's struct module."""

    name: str
    offset: int
    type: str


def c_field(type_: str, default: T) -> T:
    """Declare a field: its type in C, in the letters of Python's struct module, and its default, copied if mutable."""
    if isinstance(default, Struct | list):
        return cast("T", field(default_factory=lambda: copy.copy(default), metadata={"c": type_}))
    return field(default=default, metadata={"c": type_})


class Struct:
    """A struct of the header. `SIZE` is its sizeof; its fields are in the header's order."""

    SIZE: ClassVar[int]
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]  # each struct is a dataclass

    def layout(self) -> Iterator[Field]:
        """Yield the fields that C has in this struct, each at the next offset that its type may have."""
        end = 0
        for each in fields(self):
            if self.has(each.name):
                type_ = each.metadata["c"]
                end += -end % struct.calcsize(f"<{type_[-1]}")
                yield Field(each.name, end, type_)
                end += struct.calcsize(f"<{type_}")

    def has(self, name: str) -> bool:
        """Tell whether C has a field now: all, unless some share their place."""
        return True

    def to_bytes(self) -> bytes:
        """Return the struct as C has it in memory. Raises InvalidValue naming a field whose value does not fit."""
        data = bytearray(self.SIZE)
        for name, offset, type_ in self.layout():
            value = getattr(self, name)
            if isinstance(value, str):
                value = value.encode()
            elif isinstance(value, Struct):
                value = value.to_bytes()
            try:
                struct.pack_into(f"<{type_}", data, offset, *(value if isinstance(value, tuple | list) else (value,)))
            except struct.error as error:
                raise InvalidValue(f"{type(self).__name__}.{name} is {value!r}: {error}") from None
        return bytes(data)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the struct that C has as `data`. Raises InvalidValue for another size."""
        if len(data) != cls.SIZE:
            raise InvalidValue(f"{cls.__name__}.from_bytes() expects {cls.SIZE} bytes, got {len(data)}")
        made = cls()
        for name, offset, type_ in made.layout():
            values = struct.unpack_from(f"<{type_}", data, offset)
            before = getattr(made, name)
            if isinstance(before, str):
                value: Any = values[0].split(b"\0", 1)[0].decode(errors="replace")
            elif isinstance(before, Struct):
                value = type(before).from_bytes(values[0][: before.SIZE])
            elif isinstance(before, tuple | list):
                value = type(before)(values)
            else:
                value = type(before)(values[0])
            object.__setattr__(made, name, value)
        return made
