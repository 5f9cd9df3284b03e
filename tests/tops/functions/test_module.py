"""Modules and their functions (TOPS Runtime API, 2.8)."""

from __future__ import annotations

import ctypes
import gc
from typing import ClassVar

import numpy as np
import pytest

import atops.tops as tops
from atops.base.result_codes import Result
from atops.bridge.handles import live
from atops.kernels.programs.image import CodeImage
from atops.runtime.device import Device
from atops.tops.functions.launch import LoadedFunction
from atops.tops.header.functions import FUNCTIONS
from tests.tops.conformance import Case, Conformance, World
from tests.tops.programs import IMAGE, add, contents, function, memory, module

LAUNCHES = ("topsModuleLaunchKernel", "topsLaunchCooperativeKernel")
LOADS = {"topsModuleLoadData": (), "topsModuleLoadDataEx": (0, None, None)}
JIT = tops.topsJitOptionMaxRegisters
STARTS = "every call starts the runtime"
THREADS = tops.TOPS_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK


@pytest.fixture(autouse=True)
def image_file(tmp_path, monkeypatch):
    """Files beside which every test runs: an image, a damaged one, an empty one."""
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("good.image").write_bytes(IMAGE)
    tmp_path.joinpath("bad.image").write_bytes(IMAGE[:-1])
    tmp_path.joinpath("empty.image").write_bytes(b"")


def unloaded(world: World) -> int:
    """Return the handle of a module that is gone."""
    handle = module(world)
    tops.check(tops.topsModuleUnload(handle))
    return handle


def orphan(world: World) -> int:
    """Return the handle of a function whose module is gone."""
    handle = module(world)
    found = tops.check(tops.topsModuleGetFunction(handle, "empty"))
    tops.check(tops.topsModuleUnload(handle))
    return found


class TestModule(Conformance):
    """Every function of 2.8 but the launches, by its rows."""

    functions = tuple(name for name, each in FUNCTIONS.items() if each.family == "Module" and name not in LAUNCHES)
    good: ClassVar = {
        "topsModuleLoad": ("good.image",),
        "topsModuleUnload": lambda w: (module(w),),
        "topsModuleGetFunction": lambda w: (module(w), "fill"),
        "topsFuncGetAttributes": lambda w: (function(w),),
        "topsFuncGetAttribute": lambda w: (THREADS, function(w)),
        "topsModuleLoadData": (IMAGE,),
        "topsModuleLoadDataEx": (IMAGE, 1, [JIT], [32]),
    }
    bad = (
        Case("topsModuleLoad", "L37 no such file", ("none.image",), tops.topsErrorFileNotFound),
        Case("topsModuleLoad", "a folder", (".",), tops.topsErrorFileNotFound),
        Case("topsModuleLoad", "no name", ("",), tops.topsErrorInvalidValue),
        Case("topsModuleLoad", "a name with an end in it", ("good\0image",), tops.topsErrorInvalidValue),
        Case("topsModuleLoad", "a damaged image", ("bad.image",), tops.topsErrorSharedObjectInitFailed),
        Case("topsModuleLoad", "an empty file", (b"empty.image",), tops.topsErrorSharedObjectInitFailed),
        *(Case(name, "L4 null", (None, *rest), tops.topsErrorInvalidValue) for name, rest in LOADS.items()),
        *(Case(name, "L4 empty", (b"", *rest), tops.topsErrorInvalidImage) for name, rest in LOADS.items()),
        *(Case(name, "damaged", (IMAGE[:99], *rest), tops.topsErrorInvalidImage) for name, rest in LOADS.items()),
        *(Case(name, "no memory", (12345, *rest), tops.topsErrorInvalidValue) for name, rest in LOADS.items()),
        *(Case(name, "a text", ("image", *rest), tops.topsErrorInvalidValue) for name, rest in LOADS.items()),
        Case("topsModuleLoadDataEx", "another count", (IMAGE, 2, [JIT], [1]), tops.topsErrorInvalidValue),
        Case("topsModuleLoadDataEx", "a value too few", (IMAGE, None, [JIT], []), tops.topsErrorInvalidValue),
        Case("topsModuleLoadDataEx", "no option", (IMAGE, 1, [99], [1]), tops.topsErrorInvalidValue),
        Case("topsModuleLoadDataEx", "a bound", (IMAGE, 1, [17], [1]), tops.topsErrorInvalidValue),
        Case("topsModuleLoadDataEx", "a value of no type", (IMAGE, 1, [JIT], [[]]), tops.topsErrorInvalidValue),
        Case("topsModuleUnload", "L6 null", (None,), tops.topsErrorInvalidValue),
        Case("topsModuleUnload", "L6 twice", lambda w: (unloaded(w),), tops.topsErrorInvalidValue),
        Case("topsModuleUnload", "a function", lambda w: (function(w),), tops.topsErrorInvalidValue),
        Case("topsModuleGetFunction", "L8 null name", lambda w: (module(w), None), tops.topsErrorInvalidValue),
        Case("topsModuleGetFunction", "L8 no name", lambda w: (module(w), ""), tops.topsErrorInvalidValue),
        Case("topsModuleGetFunction", "L8 null module", (None, "fill"), tops.topsErrorInvalidValue),
        Case("topsModuleGetFunction", "unloaded", lambda w: (unloaded(w), "fill"), tops.topsErrorInvalidHandle),
        Case("topsModuleGetFunction", "L9 a function", lambda w: (module(w), "twice"), tops.topsErrorNotFound),
        Case("topsModuleGetFunction", "a variable", lambda w: (module(w), "calls"), tops.topsErrorNotFound),
        Case("topsModuleGetFunction", "L37 unknown", lambda w: (module(w), "fil"), tops.topsErrorNotFound),
        Case("topsFuncGetAttributes", "L30 null", (None,), tops.topsErrorInvalidDeviceFunction),
        Case("topsFuncGetAttributes", "no kernel", (len,), tops.topsErrorInvalidDeviceFunction),
        Case("topsFuncGetAttributes", "dead", lambda w: (orphan(w),), tops.topsErrorInvalidHandle),
        Case("topsFuncGetAttributes", "a module", lambda w: (module(w),), tops.topsErrorInvalidHandle),
        Case("topsFuncGetAttribute", "L31 no attribute", lambda w: (99, function(w)), tops.topsErrorInvalidValue),
        Case("topsFuncGetAttribute", "a bound", lambda w: (10, function(w)), tops.topsErrorInvalidValue),
        Case("topsFuncGetAttribute", "L31 null", (THREADS, None), tops.topsErrorInvalidDeviceFunction),
        Case("topsFuncGetAttribute", "dead", lambda w: (THREADS, orphan(w)), tops.topsErrorInvalidHandle),
        Case("topsFuncGetAttributes", "null twice", (0,), tops.topsErrorInvalidDeviceFunction),
    )
    nullable: ClassVar = frozenset()
    unreachable: ClassVar = {
        ("topsModuleLoad", Result.InvalidContext): "a device has one context, which is made when it is needed",
        ("topsModuleGetFunction", Result.InvalidContext): "a device has one context",
        ("topsModuleLoad", Result.OutOfMemory): "a module takes memory when one of its variables is used",
        ("topsModuleLoadData", Result.OutOfMemory): "a module takes memory when one of its variables is used",
        ("topsModuleLoadDataEx", Result.OutOfMemory): "a module takes memory when one of its variables is used",
        ("topsModuleLoad", Result.NotInitialized): STARTS,
        ("topsModuleGetFunction", Result.NotInitialized): STARTS,
        ("topsModuleLoadData", Result.NotInitialized): STARTS,
        ("topsModuleLoadDataEx", Result.NotInitialized): STARTS,
        ("topsFuncGetAttributes", Result.InvalidValue): "its only other argument in C is an out-parameter",
    }


def test_load_of_paths_and_buffers(world, tmp_path):
    """A path of any kind; bytes, buffers, arrays, and a pinned pointer, whose image ends where its header says."""
    for path in ("good.image", b"good.image", tmp_path / "good.image"):
        assert tops.topsModuleLoad(path)[0] == tops.topsSuccess
    array = (ctypes.c_char * len(IMAGE)).from_buffer_copy(IMAGE)
    for data in (bytearray(IMAGE), memoryview(IMAGE), np.frombuffer(IMAGE, np.uint8), array):
        assert tops.topsModuleLoadData(data)[0] == tops.topsSuccess
    pinned = world.device.host_malloc(len(IMAGE) + 64)
    pinned.array[: len(IMAGE)] = np.frombuffer(IMAGE, np.uint8)
    pinned.array[len(IMAGE) :] = 255
    address = pinned.array.__array_interface__["data"][0]
    for pointer in (address, np.int64(address)):
        assert tops.topsModuleLoadData(pointer)[0] == tops.topsSuccess


def test_image_that_lies_about_its_text(world):
    """What an image says of its functions must be what its text has: that shows when it is loaded."""
    image = CodeImage.from_bytes(IMAGE)
    object.__setattr__(image, "source", image.source.replace("async def empty", "async def other"))
    assert tops.topsModuleLoadData(image.to_bytes()) == (tops.topsErrorInvalidImage, None)


def test_options_do_nothing(world):
    """Options, with numbers, None and buffers for values, change nothing about the module."""
    options = [tops.topsJitOptionWallTime, tops.topsJitOptionInfoLogBuffer, 7]
    err, handle = tops.topsModuleLoadDataEx(IMAGE, None, options, [0.0, bytearray(16), None])
    assert err == tops.topsSuccess and tops.topsModuleGetFunction(handle, "fill")[0] == tops.topsSuccess


def test_l37_a_failure_leaves_the_module_as_it_is(world):
    """A name that is not found does not spoil the next one; a name has one handle, also by its lowered name."""
    handle = module(world)
    assert tops.topsModuleGetFunction(handle, "none") == (tops.topsErrorNotFound, None)
    err, first = tops.topsModuleGetFunction(handle, "empty")
    assert err == tops.topsSuccess
    assert tops.topsModuleGetFunction(handle, b"empty")[1] == first
    assert tops.topsModuleGetFunction(handle, "_T5empty_void")[1] == first
    assert tops.topsModuleLaunchKernel(first, 1, 1, 1, 1, 1, 1, 0, None, None, None) == (tops.topsSuccess,)


@pytest.mark.slow
def test_unload_takes_functions_along(world):
    """Function handles die with their module; what is enqueued runs, and variables give their memory back."""
    handle = module(world)
    count, fill = (tops.check(tops.topsModuleGetFunction(handle, name)) for name in ("count", "fill"))
    pointer = memory(world)
    tops.check(tops.topsDeviceSynchronize())
    free = world.device.memory_info()[0]
    assert tops.topsModuleGetGlobal(handle, "calls")[0] == tops.topsSuccess
    assert world.device.memory_info()[0] < free
    arguments = [pointer, 1.5, 8]
    for function_, values in ((count, [pointer]), (fill, arguments)):
        tops.check(tops.topsModuleLaunchKernel(function_, 1, 1, 1, 1, 1, 1, 0, None, values, None))
    assert tops.topsModuleUnload(handle) == (tops.topsSuccess,)
    dead = (tops.topsErrorInvalidHandle,)
    assert tops.topsModuleLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, None, arguments, None) == dead
    tops.check(tops.topsDeviceSynchronize())
    assert contents(world, pointer) == [3.0] * 8
    gc.collect()
    assert world.device.memory_info()[0] == free
    assert tops.topsModuleGetGlobal(handle, "calls") == (tops.topsErrorInvalidHandle, None, None)


def test_modules_have_variables_of_their_own(world):
    """Two modules of one image do not share a variable; topsModuleGetGlobal gives both pointer and size."""
    first, second = module(world), module(world)
    err, pointer, size = tops.topsModuleGetGlobal(first, "weights")
    assert (err, size) == (tops.topsSuccess, 12) and contents(world, pointer, 3) == [1, 2, 3]
    calls = [tops.check(tops.topsModuleGetGlobal(each, "calls"))[0] for each in (first, second)]
    function_ = tops.check(tops.topsModuleGetFunction(first, "count"))
    bytes_ = memory(world, 3, np.uint8)
    tops.check(tops.topsModuleLaunchKernel(function_, 1, 1, 1, 1, 1, 1, 0, None, [bytes_], None))
    assert [contents(world, each, 1, np.int32) for each in calls] == [[10], [7]]


def test_reset_lets_a_module_die(world):
    """A module lives on its device, and no longer than until that is reset; other devices keep theirs."""
    handle = module(world)
    tops.check(tops.topsSetDevice(1))
    other = module(world)
    tops.check(tops.topsDeviceReset())
    assert tops.topsModuleGetFunction(other, "fill") == (tops.topsErrorInvalidHandle, None)
    assert tops.topsModuleGetFunction(handle, "fill")[0] == tops.topsSuccess


def test_attributes(world):
    """Each attribute is the field of the struct; the figures are those of the kernel's text and the architecture."""
    handle = function(world, "fill")
    err, struct = tops.topsFuncGetAttributes(handle)
    assert err == tops.topsSuccess
    assert (struct.maxThreadsPerBlock, struct.binaryVersion, struct.ptxVersion) == (12, 30, 30)
    assert struct.numRegs > 5 and struct.constSizeBytes == struct.localSizeBytes == struct.sharedSizeBytes == 0
    assert struct.maxDynamicSharedSizeBytes == Device(0, world.driver).arch.l2_usable
    asked = [tops.check(tops.topsFuncGetAttribute(each, handle)) for each in range(10)]
    assert asked == [
        12, 0, 0, 0, struct.numRegs, 30, 30, 0, struct.maxDynamicSharedSizeBytes, 0,
    ]  # fmt: skip
    assert live(handle, LoadedFunction).kernel.name == "fill"
    assert tops.topsFuncGetAttributes(add)[1].maxThreadsPerBlock == 12
