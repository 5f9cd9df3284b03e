"""The container of an executable: sections of bytes behind a table, all under one checksum.

Reading one checks bounds and sums and executes nothing. It knows no graph and no table inside a section.
"""

from __future__ import annotations

import hashlib
import struct
from enum import IntEnum
from typing import Final, NamedTuple

from atops.base.errors import InvalidImage, InvalidType

__all__ = ("MOST_BYTES", "ExecutableFile", "Section", "SectionKind", "key_of")

MAGIC: Final = b"\x7fATEXE\r\n"  # no text begins so, and a transfer that changes ends of lines shows
VERSION: Final = 1
MOST_BYTES: Final = 1 << 30
HEADER: Final = struct.Struct("<8sHHIQ32s")  # magic, version, sections, zero, size of all, digest
ROW: Final = struct.Struct("<IIQQQQ")  # kind, zero, offset, size, bytes that a device loads, key
DIGEST: Final = slice(HEADER.size - 32, HEADER.size)


class SectionKind(IntEnum):
    """What a section holds, by the numbers of the public header; those that executables here have."""

    HEADER = 1
    RESOURCE = 2
    INPUT = 3
    OUTPUT = 4
    CONSTANT = 5
    CODE = 6
    FUNCTIONS = 16
    PROFILE = 17
    TARGET_RESOURCE = 21
    TENSOR_TABLE = 22
    MANAGED_CONSTANT = 27


LOADED: Final = frozenset({SectionKind.CONSTANT, SectionKind.MANAGED_CONSTANT})


class Section(NamedTuple):
    """One section: its contents, and its place in the file. `key` is that of constants, 0 for all else."""

    kind: SectionKind
    content: bytes
    key: int = 0
    offset: int = 0

    @property
    def device_bytes(self) -> int:
        """How many bytes a device loads of it."""
        return len(self.content) if self.kind in LOADED else 0


class ExecutableFile(NamedTuple):
    """The sections of an executable, each kind once at most, in their order in the file."""

    sections: tuple[Section, ...]

    @classmethod
    def of(cls, contents: dict[SectionKind, bytes]) -> ExecutableFile:
        """Lay out a file of these contents."""
        offset = HEADER.size + ROW.size * len(contents)
        sections = []
        for kind, content in sorted(contents.items()):
            sections.append(Section(kind, content, key_of(content) if kind in LOADED else 0, offset))
            offset += len(content)
        return cls(tuple(sections))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> ExecutableFile:
        """Read a file. Raises InvalidImage naming what is wrong with it, InvalidType for what is no bytes."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidType(f"an executable is {type(data).__name__}; expected bytes")
        if len(data) > MOST_BYTES:
            raise InvalidImage(f"the executable has {len(data)} bytes; {MOST_BYTES} at most")
        whole = bytes(data)
        count = _check_header(whole)
        sections: list[Section] = []
        expected = HEADER.size + ROW.size * count
        for index in range(count):
            section = _section(whole, index, expected)
            if sections and section.kind <= sections[-1].kind:
                raise InvalidImage(f"section {section.kind.name} comes twice, or out of its order")
            sections.append(section)
            expected += len(section.content)
        if expected != len(whole):
            raise InvalidImage(f"the executable has {len(whole) - expected} bytes that belong to no section")
        return cls(tuple(sections))

    def to_bytes(self) -> bytes:
        """Return the file; equal sections make equal bytes."""
        table = b"".join(
            ROW.pack(each.kind, 0, each.offset, len(each.content), each.device_bytes, each.key)
            for each in self.sections
        )
        contents = b"".join(each.content for each in self.sections)
        size = HEADER.size + len(table) + len(contents)
        return _sealed(HEADER.pack(MAGIC, VERSION, len(self.sections), 0, size, bytes(32)) + table + contents)

    def find(self, kind: SectionKind) -> Section | None:
        """Return the section of a kind, if there is one."""
        return next((each for each in self.sections if each.kind is kind), None)

    def content(self, kind: SectionKind) -> bytes:
        """Return what the section of a kind holds. Raises InvalidImage when there is none."""
        section = self.find(kind)
        if section is None:
            raise InvalidImage(f"the executable has no section {kind.name}")
        return section.content

    def with_content(self, kind: SectionKind, content: bytes) -> ExecutableFile:
        """Return the file with other contents, of the same length, in a section, and its key renewed."""
        return ExecutableFile(tuple(
            each._replace(content=content, key=key_of(content)) if each.kind is kind else each
            for each in self.sections
        ))  # fmt: skip


def key_of(content: bytes) -> int:
    """Return the key of constants: the same for the same bytes, and never 0."""
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "little") or 1


def _sealed(data: bytes) -> bytes:
    """Return a file with the digest of all the rest in its header."""
    blank = data[: DIGEST.start] + bytes(32) + data[DIGEST.stop :]
    return data[: DIGEST.start] + hashlib.sha256(blank).digest() + data[DIGEST.stop :]


def _check_header(data: bytes) -> int:
    """Return the number of sections of a file: its header and digest hold, and there is room for its table."""
    if not data.startswith(MAGIC):
        raise InvalidImage(f"no executable: it begins with {data[:8]!r}, an executable with {MAGIC!r}")
    if len(data) < HEADER.size:
        raise InvalidImage(f"the executable is cut off: {len(data)} bytes, its header alone has {HEADER.size}")
    _, version, count, zero, size, _ = HEADER.unpack_from(data)
    if version != VERSION:
        raise InvalidImage(f"the executable is of version {version}; expected version {VERSION}")
    if size != len(data):
        what = "is cut off" if len(data) < size else "has bytes behind its end"
        raise InvalidImage(f"the executable {what}: {len(data)} bytes, its header says {size}")
    if _sealed(data) != data:
        raise InvalidImage("the executable is damaged: its checksum is wrong")
    if zero or HEADER.size + ROW.size * count > len(data):
        raise InvalidImage(f"the executable has flags {zero:#x}, which should be 0, or no room for {count} sections")
    return int(count)


def _section(data: bytes, index: int, expected: int) -> Section:
    """Return section `index`, which must begin where the one before it ends."""
    number, zero, offset, size, loaded, key = ROW.unpack_from(data, HEADER.size + ROW.size * index)
    where = f"section {index} of the executable"
    try:
        kind = SectionKind(number)
    except ValueError:
        raise InvalidImage(f"{where} is of type {number}, which executables here do not have") from None
    if zero or offset != expected or size > len(data) - offset:
        raise InvalidImage(f"{where} has bytes {offset} to {offset + size}; it begins at {expected} of {len(data)}")
    section = Section(kind, data[offset : offset + size], key, offset)
    if loaded != section.device_bytes:
        raise InvalidImage(f"{where}, {kind.name}, loads {loaded} bytes; expected {section.device_bytes}")
    if key != (key_of(section.content) if kind in LOADED else 0):
        raise InvalidImage(f"{where}, {kind.name}, has the key {key:#x}, which is not that of its contents")
    return section
