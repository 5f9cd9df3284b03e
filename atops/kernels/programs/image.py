"""Code images: a compiled program as bytes that can be kept and sent. TOPS Runtime API, 2.8 and 2.10.

An image holds the program's text and its attributes, each in a section with a checksum. Opening one reads and checks;
it executes nothing and compiles nothing. The same program has the same bytes: nothing is compressed, since compressors
differ, and nothing depends on the version of Python.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from types import UnionType
from typing import Any, TypeVar, get_type_hints

from atops.base.errors import InvalidImage, InvalidType

__all__ = ("HEADER_BYTES", "CodeImage", "FunctionEntry", "VariableEntry", "image_size")

MAGIC = b"\x7fATOPS\r\n"  # no text begins so, and a transfer that changes ends of lines shows
VERSION = 1
MOST_BYTES = 64 << 20
_HEADER = struct.Struct("<8sHHIQ16s32s")  # magic, version, sections, zero, size of all, architecture, digest
HEADER_BYTES = _HEADER.size
_SECTION = struct.Struct("<4sIQQ")  # tag, crc32, offset, size
_DIGEST = slice(_HEADER.size - 32, _HEADER.size)
_TAGS = (b"META", b"FUNC", b"VARS", b"HEAD", b"TEXT")


@dataclass(frozen=True, slots=True)
class FunctionEntry:
    """A kernel of an image: its names, and its memory in bytes, None where the text does not determine it."""

    name: str
    lowered: str
    cooperative: bool
    dynamic_shared: bool
    shared_bytes: int | None
    local_bytes: int | None
    private_bytes: int | None
    constant_bytes: int


@dataclass(frozen=True, slots=True)
class VariableEntry:
    """A device variable of an image: its names, element type, bytes, and whether it is a constant."""

    name: str
    lowered: str
    element: str
    nbytes: int
    constant: bool


@dataclass(frozen=True, slots=True)
class _Meta:
    """The section that describes the program."""

    name: str
    language: str
    options: list[str]
    expressions: list[str]


@dataclass(frozen=True, slots=True)
class _Header:
    """A header: a named text beside the program's."""

    name: str
    text: str


_Record = FunctionEntry | VariableEntry | _Meta | _Header
R = TypeVar("R", bound=_Record)


@dataclass(frozen=True, slots=True)
class CodeImage:
    """A program in its portable form. `options` are spelled as the compiler takes them, `arch` is their target.

    `expressions` are the name expressions that were added before the program was compiled.
    """

    name: str
    language: str
    arch: str
    options: tuple[str, ...]
    expressions: tuple[str, ...]
    functions: tuple[FunctionEntry, ...]
    variables: tuple[VariableEntry, ...]
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    source: str = field(repr=False)

    def to_bytes(self) -> bytes:
        """Return the image as bytes; equal images have equal bytes."""
        meta = _Meta(self.name, self.language, list(self.options), list(self.expressions))
        headers = [_Header(name, text) for name, text in self.headers]
        contents = (_pack([meta]), _pack(self.functions), _pack(self.variables), _pack(headers), self.source.encode())
        offset = _HEADER.size + _SECTION.size * len(contents)
        table = b""
        for tag, content in zip(_TAGS, contents, strict=True):
            table += _SECTION.pack(tag, zlib.crc32(content), offset, len(content))
            offset += len(content)
        head = _HEADER.pack(MAGIC, VERSION, len(contents), 0, offset, self.arch.encode("ascii"), bytes(32))
        return _sealed(head + table + b"".join(contents))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> CodeImage:
        """Read an image. Raises InvalidImage naming what is wrong with it, InvalidType for what is no bytes."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidType(f"a code image expects bytes, got {type(data).__name__}")
        whole = bytes(data)
        arch, count = _check_header(whole)
        sections = _sections(whole, count)
        [meta] = _unpack(_Meta, sections, b"META", one=True)
        return cls(
            name=meta.name,
            language=meta.language,
            arch=arch,
            options=tuple(meta.options),
            expressions=tuple(meta.expressions),
            functions=tuple(_unpack(FunctionEntry, sections, b"FUNC")),
            variables=tuple(_unpack(VariableEntry, sections, b"VARS")),
            headers=tuple((each.name, each.text) for each in _unpack(_Header, sections, b"HEAD")),
            source=_decode(sections[b"TEXT"], "TEXT"),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the image to a file. Raises OSError."""
        with open(path, "wb") as file:
            file.write(self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CodeImage:
        """Read the image in a file. Raises OSError where there is none, InvalidImage as `from_bytes` does."""
        with open(path, "rb") as file:
            return cls.from_bytes(file.read(MOST_BYTES + 1))


def image_size(data: bytes) -> int:
    """Return the size of the image that `data` begins with, by its header; that of `data` where it begins with none."""
    if not data.startswith(MAGIC) or len(data) < _HEADER.size:
        return len(data)
    return int(_HEADER.unpack_from(data)[4])


def _sealed(data: bytes) -> bytes:
    """Return the bytes of an image with the digest of all the rest in its header."""
    blank = data[: _DIGEST.start] + bytes(32) + data[_DIGEST.stop :]
    return data[: _DIGEST.start] + hashlib.sha256(blank).digest() + data[_DIGEST.stop :]


def _check_header(data: bytes) -> tuple[str, int]:
    """Return architecture and number of sections of an image, after a check of its header and digest."""
    if not data.startswith(MAGIC):
        raise InvalidImage(f"no code image: it begins with {data[:8]!r}, expected {MAGIC!r}")
    if len(data) < _HEADER.size:
        raise InvalidImage(f"code image is cut off: {len(data)} bytes, its header alone has {_HEADER.size}")
    _, version, count, zero, size, arch, _ = _HEADER.unpack_from(data)
    if version != VERSION:
        raise InvalidImage(f"code image is of version {version}; expected version {VERSION}")
    if size > MOST_BYTES or len(data) > MOST_BYTES:
        raise InvalidImage(f"code image has {max(size, len(data))} bytes; {MOST_BYTES} at most")
    if size != len(data):
        what = "is cut off" if len(data) < size else "has bytes behind its end"
        raise InvalidImage(f"code image {what}: {len(data)} bytes, its header says {size}")
    if _sealed(data) != data:
        raise InvalidImage("code image is damaged: its checksum is wrong")
    if zero or count != len(_TAGS):
        raise InvalidImage(f"code image has {count} sections and flags {zero:#x}; expected {len(_TAGS)} and 0")
    name = arch.rstrip(b"\0")
    if not name.isalnum():  # of ASCII, for bytes
        raise InvalidImage(f"code image is for architecture {name!r}, which is no name")
    return name.decode("ascii"), count


def _sections(data: bytes, count: int) -> dict[bytes, bytes]:
    """Return the contents of the sections, which follow each other without a gap."""
    found: dict[bytes, bytes] = {}
    expected = _HEADER.size + _SECTION.size * count
    if len(data) < expected:
        raise InvalidImage(f"code image is cut off: {len(data)} bytes, its table of sections ends at {expected}")
    for index, tag in enumerate(_TAGS):
        given, crc, offset, size = _SECTION.unpack_from(data, _HEADER.size + _SECTION.size * index)
        where = f"section {index} of the code image"
        if given != tag:
            raise InvalidImage(f"{where} is {given!r}; expected {tag!r}")
        if offset != expected or size > len(data) - offset:
            raise InvalidImage(f"{where} has bytes {offset} to {offset + size}; it begins at {expected} of {len(data)}")
        expected = offset + size
        found[tag] = data[offset:expected]
        if zlib.crc32(found[tag]) != crc:
            raise InvalidImage(f"{where}, {tag.decode()}, is damaged: its checksum is wrong")
    if expected != len(data):
        raise InvalidImage(f"code image has {len(data) - expected} bytes that belong to no section")
    return found


def _pack(rows: Iterable[_Record]) -> bytes:
    """Return records as text, in one form."""
    return _canonical([asdict(row) for row in rows])


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _unpack(kind: type[R], sections: dict[bytes, bytes], tag: bytes, one: bool = False) -> list[R]:
    """Return the records of a section. Raises InvalidImage for what `_pack` would not have written."""
    where = f"section {tag.decode()} of the code image"
    try:
        rows = json.loads(sections[tag])
        if _canonical(rows) != sections[tag]:
            raise InvalidImage(f"{where} is not in the form that images have")
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidImage):
            raise
        raise InvalidImage(f"{where} is no list of records: {type(error).__name__}") from None
    if not isinstance(rows, list) or (one and len(rows) != 1):
        raise InvalidImage(f"{where} is no list of records")
    return [kind(**dict(_checked(kind, row, f"{where}, record {index}"))) for index, row in enumerate(rows)]


def _checked(kind: type[R], row: object, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a record that has all of them, each of its type."""
    names = [each.name for each in fields(kind)]
    if not isinstance(row, dict) or sorted(row) != sorted(names):
        raise InvalidImage(f"{where} lacks the fields {', '.join(names)}")
    hints = get_type_hints(kind)
    for name in names:
        if not _is(row[name], hints[name]):
            raise InvalidImage(f"{where}: {name} is {str(row[name])[:40]!r}, of the wrong type")
        yield name, row[name]


def _is(value: object, hint: object) -> bool:
    if isinstance(hint, UnionType):
        return any(_is(value, each) for each in hint.__args__)
    if hint is int:
        return type(value) is int and 0 <= value < 1 << 63
    if hint == list[str]:
        return type(value) is list and all(type(each) is str for each in value)
    return type(value) is hint


def _decode(data: bytes, tag: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"{error.reason} at byte {error.start}"
        raise InvalidImage(f"section {tag} of the code image is no text: {where}") from None
