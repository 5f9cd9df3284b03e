"""Executables as C-style calls: made, saved, destroyed, asked (TOPS Runtime API, 2.11)."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import ClassVar

import numpy as np
from onnx.reference.op_run import OpRun

import atops.tops as tops
from atops import executable as object_api
from atops.runtime.executables.file import SectionKind
from atops.tops.header.enumerations import topsExecutableInfoType_t as Info
from atops.tops.header.enumerations import topsExtExecutableSectionHeaderType_t as Kind
from tests.every import every
from tests.runtime.boards import PATIENCE
from tests.runtime.executable_models import places
from tests.tops.conformance import Case, Conformance
from tests.tops.executable_calls import EXPECTED, LAYER, PAIR, STIFF, download, launch, opened

INVALID, DEAD, IMAGE = tops.topsErrorInvalidValue, tops.topsErrorInvalidHandle, tops.topsErrorInvalidImage
NEVER = tops.topsErrorNotSupported
MISSING, FILE = tops.topsErrorNotFound, tops.topsErrorFileNotFound


def saved(world, data=LAYER):
    """Return the path of a file with these bytes, which goes with the test."""
    folder = tempfile.mkdtemp()
    weakref.finalize(world, shutil.rmtree, folder)
    path = os.path.join(folder, "layer.exe")
    with open(path, "wb") as file:
        file.write(data)
    return path


def pinned(world, data=LAYER):
    """Return a host pointer to these bytes."""
    pointer = tops.check(tops.topsHostMalloc(len(data), 0))
    tops.host_view(pointer, len(data))[:] = np.frombuffer(data, np.uint8)
    return pointer


def refitted():
    """Return an executable whose constants have an old key."""
    exe = opened()
    *_, [address], _, _, [flag] = tops.check(tops.topsExecutableGetConstManagedData(exe))
    tops.host_view(address, 12)[:] = 0
    tops.host_view(flag, 1)[:] = 1
    tops.check(tops.topsExecutableUpdateRuntimeResource(exe, None, None))
    return exe


class TestExecutable(Conformance):
    """Making, saving, destroying and asking, by their rows."""

    good: ClassVar = {
        "topsCreateExecutable": (LAYER, len(LAYER)),
        "topsCreateExecutableFromFile": lambda world: (saved(world),),
        "topsDestroyExecutable": lambda world: (opened(),),
        "topsExecutableSaveToFile": lambda world: (opened(), saved(world)),
        "topsExecutableQueryInfo": lambda world: (opened(), Info.topsExecutableInfoInputCount),
        "topsExecutableQueryInfoV2": lambda world: (opened(), Info.topsExecutableInfoInputDimsList),
        "topsExecutableQueryInputName": lambda world: (opened(), 0),
        "topsExecutableQueryOutputName": lambda world: (opened(), 0),
        "topsExecutableGetSectionCount": lambda world: (opened(), Kind.SHT_INPUT),
        "topsExecutableGetSectionInfo": lambda world: (opened(), Kind.SHT_CONSTANT, 0),
    }
    bad = (
        Case("topsCreateExecutable", "cut off", (LAYER, len(LAYER) - 1), IMAGE),
        Case("topsCreateExecutable", "nothing", (LAYER, 0), IMAGE),
        Case("topsCreateExecutable", "too little memory", (LAYER, len(LAYER) + 1), INVALID),
        Case("topsCreateExecutable", "negative size", (LAYER, -1), INVALID),
        Case("topsCreateExecutable", "other bytes", (b"\x7fELF" * 20, 80), IMAGE),
        Case("topsCreateExecutable", "device memory", lambda w: (tops.check(tops.topsMalloc(64)), 64), INVALID),
        Case("topsCreateExecutable", "unknown address", (12345, 64), INVALID),
        Case("topsCreateExecutableFromFile", "no file", ("no such file",), FILE),
        Case("topsCreateExecutableFromFile", "a folder", (".",), FILE),
        Case("topsCreateExecutableFromFile", "empty path", ("",), INVALID),
        Case("topsCreateExecutableFromFile", "damaged", lambda w: (saved(w, LAYER[:-1]),), IMAGE),
        Case("topsExecutableSaveToFile", "a folder", lambda w: (opened(), "."), tops.topsErrorOperatingSystem),
        Case("topsExecutableSaveToFile", "empty path", lambda w: (opened(), ""), INVALID),
        Case("topsExecutableSaveToFile", "old key", lambda w: (refitted(), saved(w)), tops.topsErrorIllegalState),
        *(
            Case("topsExecutableQueryInfo", which.name, lambda w, which=which: (opened(), which), NEVER)
            for which in (
                Info.topsExecutableInfoInputSizeList, Info.topsExecutableInfoOutputSizeList,
                Info.topsExecutableInfoInputDimsList, Info.topsExecutableInfoOutputDimsList,
            )
        ),
        *(
            Case(name, f"info type {number}", lambda w, number=number: (opened(), number), INVALID)
            for name in ("topsExecutableQueryInfo", "topsExecutableQueryInfoV2")
            for number in (-1, 18)
        ),
        *(
            Case(name, f"index {index}", lambda w, index=index: (opened(), index), INVALID)
            for name in ("topsExecutableQueryInputName", "topsExecutableQueryOutputName")
            for index in (-1, 1)
        ),
        Case("topsExecutableGetSectionCount", "type 34", lambda w: (opened(), 34), INVALID),
        Case("topsExecutableGetSectionInfo", "type 34", lambda w: (opened(), 34, 0), INVALID),
        Case("topsExecutableGetSectionInfo", "the bound", lambda w: (opened(), Kind.SHT_LAST_TYPE, 0), INVALID),
        Case("topsExecutableGetSectionInfo", "mc -1", lambda w: (opened(), Kind.SHT_CONSTANT, -1), INVALID),
        Case("topsExecutableGetSectionInfo", "mc 99", lambda w: (opened(), Kind.SHT_CONSTANT, 99), INVALID),
        Case("topsExecutableGetSectionInfo", "no section", lambda w: (opened(), Kind.SHT_TASK, 0), MISSING),
        Case("topsExecutableGetSectionInfo", "no constants", lambda w: (opened(PAIR), Kind.SHT_CONSTANT, 0), MISSING),
    )  # fmt: skip


def test_bytes_come_from_memory_of_every_kind(world):
    """Bytes, arrays and pinned host memory hold the same executable."""
    for source in (LAYER, bytearray(LAYER), np.frombuffer(LAYER, np.uint8), pinned(world)):
        exe = tops.check(tops.topsCreateExecutable(source, len(LAYER)))
        assert tops.check(tops.topsExecutableQueryInputName(exe, 0)) == "x"


def test_a_file_goes_round(world):
    """What is saved can be opened, and is the same bytes."""
    path = saved(world, b"to be overwritten")
    tops.check(tops.topsExecutableSaveToFile(opened(), os.fsencode(path)))
    with open(path, "rb") as file:
        assert file.read() == LAYER
    exe = tops.check(tops.topsCreateExecutableFromFile(path))
    assert tops.check(tops.topsExecutableQueryOutputName(exe, 0)) == "y"


def test_opening_runs_nothing(world, monkeypatch):
    """No operator is evaluated by any way to open, or to ask."""
    ran = []
    monkeypatch.setattr(OpRun, "run", lambda *arguments, **named: ran.append(arguments))
    exe = opened()
    tops.check(tops.topsCreateExecutableFromFile(saved(world)))
    for which in Info:
        tops.check(tops.topsExecutableQueryInfoV2(exe, which))
    assert not ran


def test_a_destroyed_executable_is_dead_and_its_launches_are_not(world):
    """The handle is dead at once; a launch that is enqueued ends well, and the memory of the constants goes."""
    free = tops.check(tops.topsMemGetInfo())[0]
    row = launch(stream=tops.check(tops.topsStreamCreate()))
    assert tops.topsLaunchExecutableV2(**row) == (tops.topsSuccess,)
    assert tops.topsDestroyExecutable(row["exe"]) == (tops.topsSuccess,)
    assert tops.topsDestroyExecutable(row["exe"]) == (DEAD,)
    assert tops.topsLaunchExecutableV2(**row) == (DEAD,)
    world.device.sync(PATIENCE)
    np.testing.assert_allclose(download(row["outputs"][0], (5, 3)), EXPECTED, rtol=1e-6)
    for pointer in (*row["inputs"], *row["outputs"]):
        tops.check(tops.topsFree(pointer))
    assert tops.check(tops.topsMemGetInfo())[0] == free


FIGURES = {
    Info.topsExecutableInfoInputCount: (1, 1),
    Info.topsExecutableInfoOutputCount: (1, 1),
    Info.topsExecutableInfoInputSizeList: ([80], [-1]),
    Info.topsExecutableInfoOutputSizeList: ([60], [-1]),
    Info.topsExecutableInfoInputRank: ([2], [2]),
    Info.topsExecutableInfoInputDimsList: ([5, 4], [-1, 4]),
    Info.topsExecutableInfoOutputRank: ([2], [2]),
    Info.topsExecutableInfoOutputDimsList: ([5, 3], [-1, 3]),
    Info.topsExecutableInfoInputDataTypeList: ([1], [1]),
    Info.topsExecutableInfoOutputDataTypeList: ([1], [1]),
    Info.topsExecutableInfoTensorTableSize: (2, 2),
    Info.topsExecutableInfoInputMinDimsList: ([5, 4], [2, 4]),
    Info.topsExecutableInfoInputMaxDimsList: ([5, 4], [8, 4]),
    Info.topsExecutableInfoOutputMaxDimsList: ([5, 3], [8, 3]),
    Info.topsExecutableInfoBlockCount: (1, 1),
    Info.topsExecutableInfoInputBankList: ([0], [0]),
    Info.topsExecutableInfoOutputBankList: ([0], [0]),
    Info.topsExecutableInfoThreadNumberPerBlock: (1, 1),
}


@every("which", Info)
def test_every_figure(world, which):
    """Of an executable with built dims, and of one with dims between bounds, where the first form gives up."""
    built, bounded = FIGURES[which]
    assert tops.topsExecutableQueryInfo(opened(STIFF), which) == (0, built)
    assert tops.topsExecutableQueryInfoV2(opened(STIFF), which) == (0, built)
    assert tops.topsExecutableQueryInfoV2(opened(), which) == (0, bounded)
    refused = isinstance(bounded, list) and -1 in bounded
    assert tops.topsExecutableQueryInfo(opened(), which)[0] == (tops.topsErrorNotSupported if refused else 0)


def test_lists_follow_each_other(world):
    """With several inputs and outputs, dims are one flat list; a number of results that only a run tells is -1."""
    exe = opened(PAIR)
    assert tops.check(tops.topsExecutableQueryInfo(exe, Info.topsExecutableInfoInputDimsList)) == [2, 3, 2, 3]
    assert tops.check(tops.topsExecutableQueryInfo(exe, Info.topsExecutableInfoInputRank)) == [2, 2]
    assert [tops.check(tops.topsExecutableQueryOutputName(exe, index)) for index in (0, 1)] == ["total", "product"]
    exe = opened(object_api.build(places()).to_bytes())
    assert tops.check(tops.topsExecutableQueryInfoV2(exe, Info.topsExecutableInfoOutputDimsList)) == [1, -1]
    assert tops.check(tops.topsExecutableQueryInfoV2(exe, Info.topsExecutableInfoOutputDataTypeList)) == [7]


def test_sections_are_counted_and_described(world):
    """By type and in all; each lies in the file where it says, and its contents are as large."""
    exe, total = opened(), 0
    for kind in Kind:
        count = tops.check(tops.topsExecutableGetSectionCount(exe, kind))
        if kind is Kind.SHT_LAST_TYPE:
            assert count == total == 11
        elif count:
            total += count
            info = tops.check(tops.topsExecutableGetSectionInfo(exe, kind, 0))
            assert info.sh_type is kind
            assert info.index == total - 1
            assert SectionKind(kind)
            assert 0 < info.offset_in_exe <= len(LAYER) - info.size
            loads = kind in (Kind.SHT_CONSTANT, Kind.SHT_MANAGED_CONSTANT)
            assert (info.device_load_size == info.size and info.key != 0) if loads else not info.device_load_size
            assert not info.loaded_address and not info.is_sub_section
    assert len(tops.check(tops.topsExecutableGetSectionInfo(exe, Kind.SHT_CONSTANT, 0)).to_bytes()) == 64


def test_a_section_is_loaded_by_a_launch(world):
    """Its address is that of the copy on the bank that is asked for, and 0 on the others."""
    row = launch()
    tops.check(tops.topsLaunchExecutable(**row))
    banks = range(world.device.arch.banks)
    infos = [tops.check(tops.topsExecutableGetSectionInfo(row["exe"], Kind.SHT_CONSTANT, bank)) for bank in banks]
    [address] = [info.loaded_address for info in infos if info.loaded_address]
    assert download(address, 12).tolist() == list(range(12))
