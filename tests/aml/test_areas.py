"""AML's areas over HIP: every flag, option and documented code, the wrong arguments, and `Area`."""

from __future__ import annotations

import ctypes
import io
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import atops
from atops import aml, tops
from atops import kernels as k
from atops.base.trace.records import Kind
from atops.runtime.driver import Driver
from tests.every import every
from tests.runtime.boards import board

HOST, UNIFIED = aml.AML_AREA_HIP_FLAG_ALLOC_HOST, aml.AML_AREA_HIP_FLAG_ALLOC_UNIFIED
MAPPED, GLOBAL = aml.AML_AREA_HIP_FLAG_ALLOC_MAPPED, aml.AML_AREA_HIP_FLAG_ALLOC_GLOBAL
SIZES = (1, 32, 4096, 1 << 20)
EINVAL = -aml.AML_EINVAL


@pytest.fixture(autouse=True)
def driver() -> Iterator[Driver]:
    """A current driver with two devices, and no error number of another test."""
    with board(devices=2) as made:
        aml.aml_errno = aml.AML_SUCCESS
        with atops.Device(0, made):
            yield made


def area_of(flags: int, device: int = -1) -> aml.aml_area:
    """Return an area that could be made."""
    code, area = aml.aml_area_hip_create(device, flags)
    assert code == aml.AML_SUCCESS and area is not None
    return area


def of_device(pointer: int, flags: int) -> int:
    """Return the device's pointer to memory of an area with these flags."""
    if flags & UNIFIED or not flags & (HOST | MAPPED):
        return pointer
    return tops.check(tops.topsHostGetDevicePointer(pointer, 0))


@pytest.mark.slow
@every("flags", range(16))
@every("device", (-1, 0, 1))
@every("size", SIZES)
def test_memory_of_every_kind(size: int, device: int, flags: int) -> None:
    """It is where the flags say, is copied to and from, seen by the host where it should be, and given back once."""
    area, mine = area_of(flags, device), np.zeros(size, np.uint8)
    options = aml.aml_area_hip_mmap_options(ptr=mine)
    pointer = aml.aml_area_mmap(area, size, options)
    assert pointer is not None and aml.aml_errno == aml.AML_SUCCESS
    ones, back = np.full(size, 7, np.uint8), np.zeros(size, np.uint8)
    there = of_device(pointer, flags)
    tops.check(tops.topsMemcpy(there, ones, size, tops.topsMemcpyHostToDevice))
    tops.check(tops.topsMemcpy(back, there, size, tops.topsMemcpyDeviceToHost))
    assert (back == 7).all()
    if flags & (HOST | UNIFIED | MAPPED):
        assert ctypes.string_at(pointer, size) == b"\x07" * size
    assert (mine == 7).all() == (flags & (HOST | UNIFIED | MAPPED) == MAPPED)
    attributes = tops.check(tops.topsPointerGetAttributes(there))
    assert attributes.isManaged == bool(flags & UNIFIED)
    if not flags & (HOST | UNIFIED | MAPPED):
        assert attributes.device == max(device, 0)
    assert aml.aml_area_munmap(area, pointer, size) == aml.AML_SUCCESS
    assert aml.aml_area_munmap(area, pointer, size) == EINVAL
    mine[:] = 1  # it is the caller's still


@every("flags, expected", [(HOST, 0), (HOST | GLOBAL, 1), (HOST | MAPPED, 2), (MAPPED, 2), (MAPPED | GLOBAL, 3)])
def test_flags_of_host_memory(flags: int, expected: int) -> None:
    """GLOBAL asks for portable memory, MAPPED for mapped memory."""
    array = np.zeros(64, np.uint8)
    pointer = aml.aml_area_mmap(area_of(flags), 64, aml.aml_area_hip_mmap_options(ptr=array))
    assert tops.check(tops.topsHostGetFlags(pointer)) == expected
    assert aml.aml_area_munmap(area_of(0), pointer, 64) == aml.AML_SUCCESS


@every("form", [lambda array: array, lambda array: array.ctypes.data, lambda array: ctypes.c_void_p(array.ctypes.data)])
def test_forms_of_the_caller_s_memory(form: Any) -> None:
    """An array, its address, and the address as a `void *`, for both calls."""
    array, area = np.zeros(64, np.uint8), area_of(MAPPED)
    pointer = aml.aml_area_mmap(area, 64, aml.aml_area_hip_mmap_options(ptr=form(array)))
    assert pointer == array.ctypes.data
    tops.check(tops.topsMemset(tops.check(tops.topsHostGetDevicePointer(array, 0)), 7, 64))
    tops.check(tops.topsDeviceSynchronize())
    assert (array == 7).all()
    assert aml.aml_area_munmap(area, form(array), 64) == aml.AML_SUCCESS
    assert aml.aml_area_munmap(area, form(array), 64) == EINVAL


@every("option, of_area, current, expected", [
    (-1, -1, 1, 1), (-1, 0, 1, 0), (-1, 1, 0, 1), (0, 1, 0, 1), (0, -1, 1, 1), (1, 0, 0, 1), (1, -1, 0, 1),
])  # fmt: skip
def test_which_device(option: int, of_area: int, current: int, expected: int) -> None:
    """The option's above 0, else the area's, else the current one; which device is current stays the caller's."""
    tops.check(tops.topsSetDevice(current))
    pointer = aml.aml_area_mmap(area_of(0, of_area), 8, aml.aml_area_hip_mmap_options(device=option))
    assert tops.check(tops.topsPointerGetAttributes(pointer)).device == expected
    assert tops.check(tops.topsGetDevice()) == current
    assert aml.aml_area_munmap(area_of(0), pointer, 8) == aml.AML_SUCCESS


@every("pointer", [None, 0, ctypes.c_void_p()])
def test_null_is_unmapped(pointer: Any) -> None:
    """By both functions, of any area."""
    assert aml.aml_area_munmap(None, pointer, 8) == aml.AML_SUCCESS
    assert aml.aml_area_hip_munmap(None, pointer, 8) == aml.AML_SUCCESS
    assert aml.aml_area_munmap(None, 8, 0) == aml.AML_SUCCESS


def test_what_is_not_unmapped() -> None:
    """Pointers into memory, of others, and of nothing; and without an area."""
    pointer = aml.aml_area_mmap(aml.aml_area_hip, 64)
    assert pointer is not None
    for wrong in (pointer + 1, 1 << 39, "pointer", np.zeros(8), object(), -5, 3.5):
        assert aml.aml_area_munmap(aml.aml_area_hip, wrong, 8) == EINVAL, wrong
    assert aml.aml_area_munmap(None, pointer, 64) == EINVAL
    assert aml.aml_area_munmap(aml.aml_area(aml.aml_area_ops()), pointer, 64) == -aml.AML_ENOTSUP
    assert aml.aml_area_munmap(aml.aml_area_hip_unified, pointer, 64) == aml.AML_SUCCESS  # the area does not count


def test_memory_is_that_of_the_other_functions() -> None:
    """What an area maps, topsFree frees, and the other way round."""
    mapped = aml.aml_area_mmap(aml.aml_area_hip_unified, 64)
    assert tops.topsFree(mapped) == (tops.topsSuccess,)
    assert aml.aml_area_munmap(aml.aml_area_hip_unified, mapped, 64) == EINVAL
    assert aml.aml_area_munmap(aml.aml_area_hip, tops.check(tops.topsMalloc(64)), 64) == aml.AML_SUCCESS


def test_unmapping_waits_for_the_device() -> None:
    """The work that the device has is over when it returns."""
    pointer = aml.aml_area_mmap(aml.aml_area_hip, 64)
    stream = tops.check(tops.topsStreamCreate())
    result = np.zeros(64, np.uint8)
    tops.check(tops.topsMemsetAsync(pointer, 5, 64, stream))
    tops.check(tops.topsMemcpyAsync(result, pointer, 64, tops.topsMemcpyDeviceToHost, stream))
    assert aml.aml_area_munmap(aml.aml_area_hip, pointer, 64) == aml.AML_SUCCESS
    assert (result == 5).all()


def test_a_failure_of_other_work_stays_with_it() -> None:
    """The memory is released all the same, and the stream keeps its failure."""

    @k.kernel
    def fail(x: Any) -> None:
        raise ValueError("on purpose")

    device = atops.Device(0)
    pointer = aml.aml_area_mmap(aml.aml_area_hip, 64)
    stream = device.create_stream()
    stream.launch(fail, (1, 1), device.empty(1))
    assert aml.aml_area_munmap(aml.aml_area_hip, pointer, 64) == aml.AML_SUCCESS
    assert aml.aml_area_munmap(aml.aml_area_hip, pointer, 64) == EINVAL
    with pytest.raises(atops.errors.LaunchFailure, match="on purpose"):
        stream.sync()


def test_unmapping_in_a_callback_of_the_device_is_refused() -> None:
    """It could never return; the memory stays, and is released afterwards."""
    device = atops.Device(0)
    pointer = aml.aml_area_mmap(aml.aml_area_hip, 64)
    with device.create_stream() as stream:
        inside = stream.call(aml.aml_area_munmap, aml.aml_area_hip, pointer, 64).wait_sync()
    assert inside == EINVAL
    assert aml.aml_area_munmap(aml.aml_area_hip, pointer, 64) == aml.AML_SUCCESS


def test_a_destroyed_area_maps_nothing() -> None:
    """Its memory stays, and is unmapped without it; the predefined areas cannot be destroyed."""
    area = area_of(HOST, 1)
    pointer = aml.aml_area_mmap(area, 8)
    for each in (area, area, None, "area", aml.aml_area_hip, aml.aml_area_hip_unified):
        aml.aml_area_hip_destroy(each)  # type: ignore[arg-type]
    assert aml.aml_area_mmap(area, 8) is None and aml.aml_errno == EINVAL
    assert aml.aml_area_munmap(area, pointer, 8) == EINVAL
    assert aml.aml_area_hip_munmap(None, pointer, 8) == aml.AML_SUCCESS
    for area in (aml.aml_area_hip, aml.aml_area_hip_unified):
        assert aml.aml_area_munmap(area, aml.aml_area_mmap(area, 8), 8) == aml.AML_SUCCESS


def test_areas_in_words() -> None:
    """Each line begins with the prefix; what cannot be printed is an error."""
    stream = io.StringIO()
    assert aml.aml_area_fprintf(stream, "mine", area_of(HOST | MAPPED, 1)) == aml.AML_SUCCESS
    first, *rest = stream.getvalue().splitlines()
    assert first.startswith("mine: area-hip: 0x")
    assert rest == ["mine: device: 1", "mine: flags: host", "mine: mapped: yes", "mine: global: no"]
    stream.close()
    assert aml.aml_area_fprintf(stream, None, aml.aml_area_hip) == -aml.AML_FAILURE
    assert aml.aml_area_fprintf(stream, None, None) == EINVAL
    assert aml.aml_area_fprintf(None, None, aml.aml_area_hip) == EINVAL  # type: ignore[arg-type]
    assert aml.aml_area_fprintf(io.StringIO(), "", aml.aml_area(aml.aml_area_ops())) == -aml.AML_ENOTSUP


def test_the_error_number_is_the_threads_own(capsys: pytest.CaptureFixture[str]) -> None:
    """A failure of one thread is not seen in another; a success leaves it alone."""
    seen = []
    assert aml.aml_area_mmap(None, 8) is None
    thread = threading.Thread(target=lambda: seen.append(aml.aml_errno))
    thread.start()
    thread.join()
    assert aml.aml_area_mmap(aml.aml_area_hip, 0) is None
    assert seen == [aml.AML_SUCCESS] and aml.aml_errno == EINVAL
    aml.aml_perror("mine")
    assert capsys.readouterr().err == f"mine: {aml.aml_strerror(aml.AML_EINVAL)}\n"
    assert len({aml.aml_strerror(each) for each in range(aml.AML_ERROR_MAX)}) == aml.AML_ERROR_MAX
    assert aml.aml_strerror(99) == aml.aml_strerror("x") == "unknown error"  # type: ignore[arg-type]


def test_an_area_of_the_programs_own() -> None:
    """Operations may be any: the area's data, the size and the options come to them as they are."""
    calls: list[Any] = []
    ops = aml.aml_area_ops(
        lambda data, size, options: calls.append((data, size, options)) or 4096,  # type: ignore[func-returns-value]
        lambda data, pointer, size: calls.append((data, pointer, size)) or -aml.AML_EPERM,  # type: ignore[func-returns-value]
    )
    area = aml.aml_area(ops, "data")
    assert aml.aml_area_mmap(area, 8, "options") == 4096 and aml.aml_area_munmap(area, 4096, 8) == -aml.AML_EPERM
    assert calls == [("data", 8, "options"), ("data", 4096, 8)]


def test_calls_are_traced() -> None:
    """As those of the other C-style functions are."""
    with board(trace=100) as traced, atops.Device(0, traced):
        aml.aml_area_munmap(aml.aml_area_hip, aml.aml_area_mmap(aml.aml_area_hip, 8), 8)
    names = [record.name for record in traced.tracer.records() if record.kind is Kind.API]
    assert names == ["aml_area_hip_mmap", "aml_area_hip_munmap"]


# ---- Area


@every("options, kind", [
    ({}, "device"), ({"host": True}, "host"), ({"unified": True}, "managed"), ({"host": True, "mapped": True}, "host"),
    ({"device": 1, "everywhere": True}, "device"),
])  # fmt: skip
def test_a_scope_of_memory(options: dict[str, Any], kind: str) -> None:
    """Memory of each kind serves streams, and is gone with the scope, whatever of it was released before."""
    with aml.Area(**options) as area:
        memory, other = area.mmap(24), area.mmap(8)
        device = atops.Device(options.get("device", 0))
        with device.create_stream() as stream:
            stream.fill(memory, 9)
            assert (stream.fetch(memory).wait_sync() == 9).all()
        assert hasattr(memory, "array") == (kind != "device")
        assert "2 mapped" in repr(area)
        area.munmap(other)
        with pytest.raises(atops.errors.InvalidValue, match="not mapped by"):
            area.munmap(other)
    assert not memory.is_live and not other.is_live
    with pytest.raises(atops.errors.InvalidHandle, match="was left"):
        area.mmap(8)


def test_a_scope_over_the_callers_memory() -> None:
    """Stores of the device are seen in it; afterwards it is the caller's, and may be mapped again."""
    mine = np.zeros(16, np.uint8)
    for _ in range(2):
        with aml.Area(mapped=True) as area, atops.Device(0).create_stream() as stream:
            memory = area.mmap(8, mine)
            stream.fill(memory, 3).wait_sync()
    assert mine.tolist() == [3] * 8 + [0] * 8
    with aml.Area(mapped=True) as area:
        for host, said in ((None, "got none"), (np.zeros(4, np.uint8), "8 bytes or more")):
            with pytest.raises(atops.errors.InvalidValue, match=said):
                area.mmap(8, host)
    with aml.Area() as area, pytest.raises(atops.errors.InvalidValue, match="mapped=True"):
        area.mmap(8, mine)
    with aml.Area() as area, pytest.raises(atops.errors.InvalidValue, match="1 byte or more"):
        area.mmap(0)
    with pytest.raises(atops.errors.InvalidDevice):
        aml.Area(device=2)


class NoIndex:
    """What has the method of a number, and fails in it."""

    def __index__(self) -> int:
        raise KeyError(self)


@pytest.mark.slow
def test_any_arguments() -> None:
    """No argument of any function makes it raise: an error is answered."""
    area, data = area_of(HOST), aml.aml_area_hip_data(99, 0)
    values = [
        None, 0, 7, -1, 1 << 64, 1.5, float("nan"), True, "x", b"x", [], {}, object(), int, NoIndex(), np.zeros(4),
        np.zeros((2, 2)), bytearray(8), ctypes.c_void_p(5), ctypes.byref(ctypes.c_int(1)), io.StringIO(), area, data,
        aml.aml_area(), aml.aml_area(1, 2), aml.aml_area_hip_ops, aml.aml_area_hip_data("x", None),
        aml.aml_area_hip_mmap_options("x", 3), aml.aml_area_hip_mmap_options(0, np.zeros(8, np.uint8)),
    ]  # fmt: skip
    for function, count in (
        (aml.aml_area_hip_create, 2), (aml.aml_area_hip_destroy, 1), (aml.aml_area_hip_mmap, 3),
        (aml.aml_area_hip_munmap, 3), (aml.aml_area_mmap, 3), (aml.aml_area_munmap, 3), (aml.aml_area_fprintf, 3),
        (aml.aml_strerror, 1), (aml.aml_support_backends, 1),
    ):  # fmt: skip
        for given in itertools.product(*(values, values, values[::4])[:count]):
            function(*given)


def test_nothing_is_left() -> None:
    """What C-style functions map and unmap leaves no memory behind."""
    memory = atops.Device(0).memory_info()
    for flags in range(16):
        area, array = area_of(flags), np.zeros(4096, np.uint8)
        pointer = aml.aml_area_mmap(area, 4096, aml.aml_area_hip_mmap_options(ptr=array))
        assert aml.aml_area_munmap(area, pointer, 4096) == aml.AML_SUCCESS
    assert atops.Device(0).memory_info() == memory
