"""Host memory that devices reach: allocated, registered, mapped, freed (TOPS Runtime API, 2.6)."""

from __future__ import annotations

import ctypes
import itertools
from typing import ClassVar

import numpy as np
import pytest

import atops.tops as tops
from atops.base.result_codes import Result
from atops.bridge.pointers import host_address
from tests.every import every
from tests.runtime.boards import PATIENCE, Latch, waiters
from tests.tops.conformance import Case, Conformance
from tests.tops.pointers import SIZE, device_pointer, host_pointer, read, registered

HUGE = 1 << 62
INVALID = tops.topsErrorInvalidValue


def freed_host(world) -> int:
    """Return a pointer to pinned memory that is freed again."""
    pointer = host_pointer(world)
    tops.check(tops.topsHostFree(pointer))
    return pointer


def plain(world) -> np.ndarray:
    """Return an array that is not registered."""
    array = np.zeros(SIZE, "uint8")
    world.keep.append(array)
    return array


def frozen(world) -> np.ndarray:
    """Return a read-only array."""
    array = plain(world)
    array.flags.writeable = False
    return array


class TestHostMemory(Conformance):
    """Every function about host memory, by its rows."""

    functions = (
        "topsHostMalloc", "topsHostGetDevicePointer", "topsHostGetFlags", "topsHostRegister", "topsHostUnregister",
        "topsHostFree",
    )  # fmt: skip
    good: ClassVar = {
        "topsHostMalloc": (SIZE, 0),
        "topsHostGetDevicePointer": lambda world: (host_pointer(world) + 3, 0),
        "topsHostGetFlags": lambda world: (host_pointer(world),),
        "topsHostRegister": lambda world: (plain(world), SIZE, 0),
        "topsHostUnregister": lambda world: (registered(world),),
        "topsHostFree": lambda world: (host_pointer(world),),
    }
    bad = (
        Case("topsHostMalloc", "G16 too much", (HUGE, 0), tops.topsErrorOutOfMemory),
        Case("topsHostMalloc", "G16 all flags", (64, 0xFFFFFFFF), INVALID),
        Case("topsHostMalloc", "coherent and not", (64, 0xC0000000), INVALID),
        Case("topsHostMalloc", "an unknown flag", (64, 8), INVALID),
        Case("topsHostMalloc", "negative", (-1, 0), INVALID),
        Case("topsHostGetDevicePointer", "G21 flags", lambda w: (host_pointer(w), 1), INVALID),
        Case("topsHostGetDevicePointer", "G21 unpinned", lambda w: (plain(w), 0), INVALID),
        Case("topsHostGetDevicePointer", "device", lambda w: (device_pointer(w), 0), INVALID),
        Case("topsHostGetDevicePointer", "freed", lambda w: (freed_host(w), 0), INVALID),
        Case("topsHostGetFlags", "G22 device pointer", lambda w: (device_pointer(w),), INVALID),
        Case("topsHostGetFlags", "unpinned", lambda w: (plain(w),), INVALID),
        Case(
            "topsHostGetFlags", "managed", lambda w: (w.keep.append(w.device.malloc_managed(8)) or w.keep[0].address,),
            INVALID,
        ),
        *(
            Case("topsHostRegister", f"G27 flags {flags:#x}", lambda w, flags=flags: (plain(w), SIZE, flags), INVALID)
            for flags in (0xF0, 0xFFF2, 0xFFFFFFFF)
        ),
        Case("topsHostRegister", "size 0", lambda w: (plain(w), 0, 0), INVALID),
        Case("topsHostRegister", "too large", lambda w: (plain(w), SIZE + 1, 0), INVALID),
        Case("topsHostRegister", "read-only", lambda w: (frozen(w), SIZE, 0), INVALID),
        Case("topsHostRegister", "no memory", (4096, SIZE, 0), INVALID),
        Case("topsHostRegister", "an end beyond 64 bits", ((1 << 64) - 4096, SIZE, 0), INVALID),
        Case("topsHostRegister", "I/O memory", lambda w: (plain(w), SIZE, 4), tops.topsErrorNotSupported),
        Case(
            "topsHostRegister", "G28 twice", lambda w: (registered(w), SIZE, 0),
            tops.topsErrorHostMemoryAlreadyRegistered,
        ),
        Case(
            "topsHostRegister", "pinned", lambda w: (host_pointer(w), SIZE, 0),
            tops.topsErrorHostMemoryAlreadyRegistered,
        ),
        Case("topsHostUnregister", "G29 null", (None,), INVALID),
        Case("topsHostUnregister", "never", lambda w: (plain(w),), tops.topsErrorHostMemoryNotRegistered),
        Case("topsHostUnregister", "pinned", lambda w: (host_pointer(w),), tops.topsErrorHostMemoryNotRegistered),
        Case(
            "topsHostUnregister", "interior", lambda w: (registered(w)[1:],), tops.topsErrorHostMemoryNotRegistered
        ),
        Case("topsHostFree", "G10 twice", lambda w: (freed_host(w),), INVALID),
        Case("topsHostFree", "G10 device pointer", lambda w: (device_pointer(w),), INVALID),
        Case("topsHostFree", "interior", lambda w: (host_pointer(w) + 1,), INVALID),
        Case("topsHostFree", "registered", lambda w: (host_address(registered(w)),), INVALID),
    )  # fmt: skip
    unreachable: ClassVar = {
        ("topsHostGetDevicePointer", Result.OutOfMemory): "the mapping is made when memory is allocated or registered",
        ("topsHostRegister", Result.OutOfMemory): "448 GiB of one process's memory would have to be registered",
    }
    nullable = frozenset({("topsHostFree", "ptr")})


def test_g18_zero_size(world):
    """G18: size 0 succeeds and gives null, which frees."""
    assert tops.topsHostMalloc(0, 0) == (tops.topsSuccess, 0)
    assert tops.topsHostFree(0) == (tops.topsSuccess,)


@every("chosen", list(itertools.product((0, 1), (0, 2), (0, 4), (0, 0x40000000, 0x80000000))))
def test_g23_flags_round_trip(world, chosen):
    """G23: the flags come back exactly, also inside the memory and in another thread."""
    flags = sum(chosen)
    pointer = tops.check(tops.topsHostMalloc(64, flags))
    thread, seen = world.thread(lambda: tops.topsHostGetFlags(pointer + 63))
    thread.join(PATIENCE)
    assert tops.topsHostGetFlags(pointer) == seen[0] == (tops.topsSuccess, flags)
    assert tops.check(tops.topsPointerGetAttributes(pointer)).allocationFlags == flags


def test_mapped_pointer_is_the_same_memory(world):
    """What devices write by the device pointer, the host reads by its own; all devices have the same pointer."""
    host = host_pointer(world)
    mapped = tops.check(tops.topsHostGetDevicePointer(host, 0))
    assert mapped != host
    tops.topsSetDevice(1)
    assert tops.topsHostGetDevicePointer(host + 8, 0) == (tops.topsSuccess, mapped + 8)
    tops.check(tops.topsMemset(mapped, 9, SIZE))
    assert (tops.host_view(host, SIZE) == 9).all()


@pytest.mark.parametrize("by_address", [True, False])
def test_register_and_unregister(world, by_address):
    """Registered memory has a device pointer until it is unregistered (G31), and may then be registered again."""
    array = plain(world)
    pointer = host_address(array) if by_address else array
    for value in (5, 6):
        tops.check(tops.topsHostRegister(pointer, SIZE, tops.topsHostRegisterMapped))
        mapped = tops.check(tops.topsHostGetDevicePointer(pointer, 0))
        tops.check(tops.topsMemset(mapped, value, SIZE))
        assert (array == value).all()
        assert tops.topsHostGetFlags(pointer) == (tops.topsSuccess, tops.topsHostRegisterMapped)
        tops.check(tops.topsHostUnregister(pointer))
        assert tops.topsHostGetDevicePointer(pointer, 0) == (INVALID, None)
        assert tops.topsMemset(mapped, 0, 1) == (INVALID,)


@pytest.mark.parametrize("make", [bytearray, ctypes.create_string_buffer, lambda size: memoryview(bytearray(size))])
def test_a_registered_buffer_is_its_own_pointer(world, make):
    """What was registered as a buffer of any type is asked for and unregistered by that very buffer."""
    buffer = make(SIZE)
    tops.check(tops.topsHostRegister(buffer, SIZE, tops.topsHostRegisterPortable))
    mapped = tops.check(tops.topsHostGetDevicePointer(buffer, 0))
    tops.check(tops.topsMemset(mapped, 7, SIZE))
    assert bytes(buffer) == bytes([7]) * SIZE
    assert tops.topsHostGetFlags(buffer) == (tops.topsSuccess, tops.topsHostRegisterPortable)
    facts = tops.check(tops.topsPointerGetAttributes(buffer))
    assert (facts.device_pointer, facts.memoryType) == (mapped, tops.topsMemoryTypeHost)
    assert tops.topsHostRegister(buffer, SIZE, 0) == (tops.topsErrorHostMemoryAlreadyRegistered,)
    tops.check(tops.topsHostUnregister(buffer))
    assert tops.topsHostUnregister(buffer) == (tops.topsErrorHostMemoryNotRegistered,)


def test_g29_what_is_no_pointer_was_not_registered_either(world):
    """Other types are a wrong value; the error names pointers that are not registered."""
    for wrong in ("x", 1.0, True, [1], b"read-only"):
        assert tops.topsHostUnregister(wrong) == (INVALID,)
    for pointer in (plain(world), host_address(plain(world)), bytearray(4), 12345, -1):
        assert tops.topsHostUnregister(pointer) == (tops.topsErrorHostMemoryNotRegistered,)


@pytest.mark.parametrize(("first", "end"), [(64, 128), (80, 96), (0, 65), (127, 192), (0, 192), (64, 65), (127, 128)])
def test_g28_a_part_of_what_is_registered(world, first, end):
    """Any byte that two ranges have in common is too much, from either side; neighbours are valid."""
    array = plain(world)[:192]
    tops.check(tops.topsHostRegister(array[64:128], 64, 0))
    answer = tops.topsHostRegister(array[first:end], end - first, 0)
    assert answer == (tops.topsErrorHostMemoryAlreadyRegistered,)
    for neighbour in (array[:64], array[128:]):
        tops.check(tops.topsHostRegister(neighbour, 64, 0))


def test_g32_chunks(world):
    """G32: parts of an array are registered and unregistered in any order."""
    array = plain(world)
    parts = np.split(array, 8)
    for part in parts:
        tops.check(tops.topsHostRegister(part, part.size, 0))
    for part in (*parts[::2], *parts[1::2]):
        tops.check(tops.topsHostUnregister(part))


@pytest.mark.parametrize("form", ["free", "unregister"])
def test_g9_waits_for_the_device(world, form):
    """G9: freeing pinned memory, or unregistering, returns when the device is done; only one call gets it."""
    latch = Latch(world.device)
    stream = world.device.create_stream(nonblocking=True)
    latch.hold(stream)
    if form == "free":
        pointer, function, gone = host_pointer(world), tops.topsHostFree, INVALID
    else:
        pointer, function, gone = registered(world), tops.topsHostUnregister, tops.topsErrorHostMemoryNotRegistered
    thread, answers = world.thread(lambda: function(pointer))
    while not waiters(world.driver):
        assert thread.is_alive()
    world.let_run()
    assert thread.is_alive() and not answers
    assert function(pointer) == (gone,)
    latch.open()
    thread.join(PATIENCE)
    assert answers == [(tops.topsSuccess,)]
    assert tops.topsHostGetFlags(pointer) == (INVALID, None)


def test_registered_array_is_its_own_pointer(world):
    """An array that is registered is a copy's end by itself, in part too."""
    array = registered(world)
    array[:] = np.arange(SIZE) % 251
    pointer = device_pointer(world)
    tops.check(tops.topsMemcpy(pointer, array[100:], 50, tops.topsMemcpyHostToDevice))
    assert read(pointer, 50) == array[100:150].tobytes()


def test_device_memory_is_not_registered(world):
    """An address of device memory, live or not, is no host memory, even where the process has it mapped."""
    pointer = tops.check(tops.topsMalloc(4096))
    for address in (pointer, pointer + 8192, pointer + (2 << 36)):
        assert tops.topsHostRegister(address, 4096, tops.topsHostRegisterDefault) == (tops.topsErrorInvalidValue,)
