"""The file of an executable: sections of bytes behind a table, under one checksum, and the records in the sections.

Records are inputs, outputs, constants and functions, in the one form that they have. Reading checks bounds, sums and
records, and executes nothing; of the graph nothing is known here.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable
from enum import IntEnum
from types import UnionType
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints

from atops.base.dtypes import DType, as_dtype
from atops.base.errors import InvalidImage, InvalidType

__all__ = (
    "ALIGNMENT", "MOST_BYTES", "ConstantRecord", "Contents", "ExecutableFile", "FunctionRecord", "HeaderRecord",
    "ParameterRecord", "ProfileRecord", "ResourceRecord", "Section", "SectionKind", "TensorRecord", "key_of", "pack",
    "read_contents",
)  # fmt: skip

R = TypeVar("R", bound=tuple[object, ...])

ALIGNMENT = 256  # of each constant in its section, in bytes
MOST_RANK = 8
LIMIT = 1 << 63
MAGIC: Final = b"\x7fATEXE\r\n"  # no text begins so, and a transfer that changes ends of lines shows
VERSION: Final = 1
MOST_BYTES: Final = 1 << 30
HEADER: Final = struct.Struct("<8sHHIQ32s")  # magic, version, sections, zero, size of all, digest
ROW: Final = struct.Struct("<IIQQQQ")  # kind, zero, offset, size, bytes that a device loads, key
DIGEST: Final = slice(HEADER.size - 32, HEADER.size)
TARGET_RESOURCE_BYTES = 528  # of a topsResourceRequest_t


# ---- sections


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


# ---- records


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

    @property
    def section(self) -> SectionKind:
        """The section that it lies in."""
        return SectionKind.MANAGED_CONSTANT if self.managed else SectionKind.CONSTANT

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


def _unpack(kind: type[R], content: bytes, what: str, count: int | None = None) -> tuple[R, ...]:
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


def _check_layout(records: Iterable[ConstantRecord], managed: bool, size: int) -> None:
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


def _field(hint: object, value: object, name: str) -> Any:
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


# ---- all of it, each held against the others



class Contents(NamedTuple):
    """The tables of an executable, and the bytes of its constants by their section."""

    header: HeaderRecord
    resource: ResourceRecord
    profile: ProfileRecord
    inputs: tuple[TensorRecord, ...]
    outputs: tuple[TensorRecord, ...]
    constants: tuple[ConstantRecord, ...]
    functions: tuple[FunctionRecord, ...]
    images: dict[SectionKind, bytes]


def read_contents(file: ExecutableFile) -> Contents:
    """Read all tables. Raises InvalidImage where one is missing or damaged, or they contradict each other."""
    read = file.content
    [header] = _unpack(HeaderRecord, read(SectionKind.HEADER), "HEADER", 1)
    [resource] = _unpack(ResourceRecord, read(SectionKind.RESOURCE), "RESOURCE", 1)
    [profile] = _unpack(ProfileRecord, read(SectionKind.PROFILE), "PROFILE", 1)
    found = Contents(
        header,
        resource,
        profile,
        _unpack(TensorRecord, read(SectionKind.INPUT), "INPUT"),
        _unpack(TensorRecord, read(SectionKind.OUTPUT), "OUTPUT"),
        _unpack(ConstantRecord, read(SectionKind.TENSOR_TABLE), "TENSOR_TABLE"),
        _unpack(FunctionRecord, read(SectionKind.FUNCTIONS), "FUNCTIONS"),
        {kind: each.content for kind in sorted(LOADED) if (each := file.find(kind)) is not None},
    )
    _check_constants(found)
    if len(read(SectionKind.TARGET_RESOURCE)) != TARGET_RESOURCE_BYTES:
        raise InvalidImage(f"the executable's target resource has not {TARGET_RESOURCE_BYTES} bytes")
    return found


def _check_constants(found: Contents) -> None:
    """Raise InvalidImage unless the constants are just what their sections hold."""
    if {record.section for record in found.constants} != set(found.images):
        raise InvalidImage("the executable's table tells of constants in other sections than there are")
    for kind, image in found.images.items():
        _check_layout(found.constants, kind is SectionKind.MANAGED_CONSTANT, len(image))
    if found.resource.constant_bytes != sum(map(len, found.images.values())):
        raise InvalidImage("the executable's resource section tells of other constants")
    if len({record.uid for record in found.constants}) != len(found.constants):
        raise InvalidImage("two constants of the executable have one uid")
