"""The structs of the public header as plain dataclasses, by the header's field names, with their layout in C.

A struct is returned by the call that fills it in and passed by value; `to_bytes` and `from_bytes` are for programs that
keep or send it as C would have it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

from atops.base.errors import InvalidValue

__all__ = ("Field", "Struct", "dim3", "topsIpcEventHandle_t", "topsIpcMemHandle_t", "topsShape_t", "uint3")

IPC_HANDLE_SIZE = 64


class Field(NamedTuple):
    """Where a field lies in C: its offset in bytes, and its type in the letters of Python's struct module."""

    name: str
    offset: int
    type: str


class Struct:
    """A struct of the header. `SIZE` is its sizeof, `LAYOUT` has its fields in the header's order."""

    SIZE: ClassVar[int]
    LAYOUT: ClassVar[tuple[Field, ...]]

    def layout(self) -> Iterator[Field]:
        """Yield the fields that C has in this struct: all, unless some share their place."""
        yield from self.LAYOUT

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
            raise InvalidValue(f"{cls.__name__} from {len(data)} bytes; {cls.SIZE} are right")
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


@dataclass(frozen=True, slots=True)
class dim3(Struct):
    """The extent of a grid or a block (2.8)."""

    x: int = 1
    y: int = 1
    z: int = 1

    def __iter__(self) -> Iterator[int]:
        return iter((self.x, self.y, self.z))

    SIZE: ClassVar = 12
    LAYOUT: ClassVar = (Field("x", 0, "I"), Field("y", 4, "I"), Field("z", 8, "I"))


@dataclass(frozen=True, slots=True)
class uint3(Struct):
    """Three unsigned integers."""

    x: int = 0
    y: int = 0
    z: int = 0

    def __iter__(self) -> Iterator[int]:
        return iter((self.x, self.y, self.z))

    SIZE: ClassVar = 12
    LAYOUT: ClassVar = dim3.LAYOUT


@dataclass(frozen=True, slots=True)
class topsIpcMemHandle_t(Struct):
    """What names a device allocation in other processes: 64 opaque bytes (2.2)."""

    reserved: bytes = bytes(IPC_HANDLE_SIZE)

    SIZE: ClassVar = IPC_HANDLE_SIZE
    LAYOUT: ClassVar = (Field("reserved", 0, "64s"),)


@dataclass(frozen=True, slots=True)
class topsIpcEventHandle_t(Struct):
    """What names an event in other processes: 64 opaque bytes (2.2)."""

    reserved: bytes = bytes(IPC_HANDLE_SIZE)

    SIZE: ClassVar = IPC_HANDLE_SIZE
    LAYOUT: ClassVar = (Field("reserved", 0, "64s"),)


@dataclass(slots=True)
class topsShape_t(Struct):
    """The shape of a tensor: `rank` of the `dims` count (2.11)."""

    rank: int = 0
    dims: list[int] = field(default_factory=lambda: [0] * 8)

    SIZE: ClassVar = 36
    LAYOUT: ClassVar = (Field("rank", 0, "i"), Field("dims", 4, "8i"))
