"""The figures, names and sections of an executable (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from atops.base.errors import InvalidValue, NotSupported
from atops.runtime.executables.executable import Executable
from atops.runtime.executables.tables import TensorRecord
from atops.tops.bridge.arguments import index_in, member
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device
from atops.tops.functions.executable.executable import executable_of
from atops.tops.types.enumerations import topsExecutableInfoType_t, topsExtExecutableSectionHeaderType_t
from atops.tops.types.structs import topsExtExecutableSectionInfo_t

__all__ = (
    "topsExecutableGetSectionCount", "topsExecutableGetSectionInfo", "topsExecutableQueryInfo",
    "topsExecutableQueryInfoV2", "topsExecutableQueryInputName", "topsExecutableQueryOutputName",
)  # fmt: skip

Figures = int | list[int]
Info = topsExecutableInfoType_t
Kind = topsExtExecutableSectionHeaderType_t


def _flat(values: Sequence[Sequence[int]]) -> list[int]:
    return [extent for each in values for extent in each]


def _sizes(records: Sequence[TensorRecord]) -> list[int]:
    return [each.nbytes for each in records]


ANSWERS: Final[Mapping[Info, Callable[[Executable], Figures]]] = MappingProxyType({
    Info.topsExecutableInfoInputCount: lambda exe: len(exe.inputs),
    Info.topsExecutableInfoOutputCount: lambda exe: len(exe.outputs),
    Info.topsExecutableInfoInputSizeList: lambda exe: _sizes(exe.inputs),
    Info.topsExecutableInfoOutputSizeList: lambda exe: _sizes(exe.outputs),
    Info.topsExecutableInfoInputRank: lambda exe: [len(each.dims) for each in exe.inputs],
    Info.topsExecutableInfoInputDimsList: lambda exe: _flat([each.dims for each in exe.inputs]),
    Info.topsExecutableInfoOutputRank: lambda exe: [len(each.dims) for each in exe.outputs],
    Info.topsExecutableInfoOutputDimsList: lambda exe: _flat([each.dims for each in exe.outputs]),
    Info.topsExecutableInfoInputDataTypeList: lambda exe: [each.element for each in exe.inputs],
    Info.topsExecutableInfoOutputDataTypeList: lambda exe: [each.element for each in exe.outputs],
    Info.topsExecutableInfoTensorTableSize: lambda exe: len(exe.constants),
    Info.topsExecutableInfoInputMinDimsList: lambda exe: _flat([each.minimum for each in exe.inputs]),
    Info.topsExecutableInfoInputMaxDimsList: lambda exe: _flat([each.maximum for each in exe.inputs]),
    Info.topsExecutableInfoOutputMaxDimsList: lambda exe: _flat([each.maximum for each in exe.outputs]),
    Info.topsExecutableInfoBlockCount: lambda exe: exe.geometry[0],
    Info.topsExecutableInfoInputBankList: lambda exe: [each.bank for each in exe.inputs],
    Info.topsExecutableInfoOutputBankList: lambda exe: [each.bank for each in exe.outputs],
    Info.topsExecutableInfoThreadNumberPerBlock: lambda exe: exe.geometry[1],
})


@call
def topsExecutableQueryInfo(exe: int, info_type: topsExecutableInfoType_t) -> int | list[int]:
    """Return a figure of an executable, or a list with one for each input or output; dims follow each other.

    Sizes are in bytes, data types are ONNX's numbers of them, the tensor table's size is the number of constants.
    NotSupported: it depends on dims that only a launch tells. InvalidValue: no such figure. InvalidHandle.
    """
    found = executable_of(exe)
    which = member(Info, info_type, "info_type")
    figures = ANSWERS[which](found)
    if isinstance(figures, list) and -1 in figures:
        raise NotSupported(f"{which.name} of {found!r} depends on the launch; topsExecutableQueryInfoV2 gives -1")
    return figures


@call
def topsExecutableQueryInfoV2(exe: int, info_type: topsExecutableInfoType_t) -> int | list[int]:
    """As topsExecutableQueryInfo, with -1 for what only a launch tells. InvalidValue: no such figure. InvalidHandle."""
    return ANSWERS[member(Info, info_type, "info_type")](executable_of(exe))


@call
def topsExecutableQueryInputName(exe: int, index: int) -> str:
    """Return the name of an input. InvalidValue: no such input. InvalidHandle."""
    return _named(executable_of(exe).inputs, index, "inputs")


@call
def topsExecutableQueryOutputName(exe: int, index: int) -> str:
    """Return the name of an output. InvalidValue: no such output. InvalidHandle."""
    return _named(executable_of(exe).outputs, index, "outputs")


@call
def topsExecutableGetSectionCount(exe: int, sh_type: topsExtExecutableSectionHeaderType_t) -> int:
    """Return how many sections of a type there are; SHT_LAST_TYPE counts all.

    InvalidValue: not a type. InvalidHandle.
    """
    sections = executable_of(exe).sections
    which = member(Kind, sh_type, "sh_type")
    return len(sections) if which is Kind.SHT_LAST_TYPE else sum(int(each.kind) == which for each in sections)


@call
def topsExecutableGetSectionInfo(
    exe: int, sh_type: topsExtExecutableSectionHeaderType_t, mc: int
) -> topsExtExecutableSectionInfo_t:
    """Return where the section of a type is in the file, and its copy on bank `mc` of the current device.

    `loaded_address` is 0 while there is no copy on that bank: constants are loaded by the first launch on a device, by
    topsExecutableUpdateRuntimeResource and by topsExecutableLoadConstData. `key` is that of constants. NotFound: the
    executable has no such section. InvalidValue: not a type, not a bank. InvalidHandle.
    """
    found = executable_of(exe)
    which, device = member(Kind, sh_type, "sh_type"), current_device()
    bank = index_in(mc, device.arch.banks, "mc")
    if which is Kind.SHT_LAST_TYPE:
        raise InvalidValue("sh_type must be the type of one section, got SHT_LAST_TYPE, which is their number")
    position, section, address = found.section(which, device.context, bank)
    return topsExtExecutableSectionInfo_t(
        index=position,
        sh_type=which,
        size=len(section.content),
        device_load_size=section.device_bytes,
        offset_in_exe=section.offset,
        loaded_address=address,
        key=section.key,
    )


def _named(records: Sequence[TensorRecord], index: object, what: str) -> str:
    return records[index_in(index, len(records), f"the index of {what}")].name
