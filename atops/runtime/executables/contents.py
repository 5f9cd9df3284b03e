"""What the sections of an executable say, read and held against each other. It knows no graph."""

from __future__ import annotations

from typing import NamedTuple

from atops.base.errors import InvalidImage
from atops.runtime.executables.constants import place_of
from atops.runtime.executables.file import ExecutableFile, SectionKind
from atops.runtime.executables.tables import (
    ConstantRecord,
    FunctionRecord,
    HeaderRecord,
    ProfileRecord,
    ResourceRecord,
    TensorRecord,
    check_layout,
    unpack,
)

__all__ = ("Contents", "read_contents")

CONSTANT_SECTIONS = (SectionKind.CONSTANT, SectionKind.MANAGED_CONSTANT)
TARGET_RESOURCE_BYTES = 528  # of a topsResourceRequest_t


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
    [header] = unpack(HeaderRecord, read(SectionKind.HEADER), "HEADER", 1)
    [resource] = unpack(ResourceRecord, read(SectionKind.RESOURCE), "RESOURCE", 1)
    [profile] = unpack(ProfileRecord, read(SectionKind.PROFILE), "PROFILE", 1)
    found = Contents(
        header,
        resource,
        profile,
        unpack(TensorRecord, read(SectionKind.INPUT), "INPUT"),
        unpack(TensorRecord, read(SectionKind.OUTPUT), "OUTPUT"),
        unpack(ConstantRecord, read(SectionKind.TENSOR_TABLE), "TENSOR_TABLE"),
        unpack(FunctionRecord, read(SectionKind.FUNCTIONS), "FUNCTIONS"),
        {kind: each.content for kind in CONSTANT_SECTIONS if (each := file.find(kind)) is not None},
    )
    _check_constants(found)
    if len(read(SectionKind.TARGET_RESOURCE)) != TARGET_RESOURCE_BYTES:
        raise InvalidImage(f"the executable's target resource has not {TARGET_RESOURCE_BYTES} bytes")
    return found


def _check_constants(found: Contents) -> None:
    """Raise InvalidImage unless the constants are just what their sections hold."""
    if {place_of(record) for record in found.constants} != set(found.images):
        raise InvalidImage("the executable's table tells of constants in other sections than there are")
    for kind, image in found.images.items():
        check_layout(found.constants, kind is SectionKind.MANAGED_CONSTANT, len(image))
    if found.resource.constant_bytes != sum(map(len, found.images.values())):
        raise InvalidImage("the executable's resource section tells of other constants")
    if len({record.uid for record in found.constants}) != len(found.constants):
        raise InvalidImage("two constants of the executable have one uid")
