"""What is known of a pointer (TOPS Runtime API, 2.6)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import atops.tops as tops
from atops.base.result_codes import Result
from tests.tops.conformance import Case, Conformance, World
from tests.tops.pointers import SIZE, device_pointer, freed_pointer, host_pointer, registered

INVALID = tops.topsErrorInvalidValue
NO_DEVICE = "only a board without devices: test_memory.py, test_no_device"
KIND = tops.TOPS_POINTER_ATTRIBUTE_MEMORY_TYPE
ORDINAL = tops.TOPS_POINTER_ATTRIBUTE_DEVICE_ORDINAL
HOST = tops.TOPS_POINTER_ATTRIBUTE_HOST_POINTER
HERE = {
    "topsPointerGetAttributes": lambda pointer: (pointer,),
    "topsPointerGetAttribute": lambda pointer: (KIND, pointer),
    "topsDrvPointerGetAttributes": lambda pointer: (2, [KIND, ORDINAL], pointer),
}

NAMES = (
    "MEMORY_TYPE", "DEVICE_POINTER", "HOST_POINTER", "IS_MANAGED", "DEVICE_ORDINAL", "RANGE_START_ADDR", "RANGE_SIZE",
    "MAPPED", "ACCESS_FLAGS", "MEM_BANK", "IS_LEGACY_TOPS_IPC_CAPABLE", "SYNC_MEMOPS", "ALLOWED_HANDLE_TYPES",
)  # fmt: skip


class TestAttributes(Conformance):
    """The three questions, by their rows."""

    functions = tuple(HERE)
    good: ClassVar = {name: (lambda world, make=make: make(device_pointer(world) + 1)) for name, make in HERE.items()}
    bad = (
        *(Case(name, "J3 null", make(None), INVALID) for name, make in HERE.items()),
        *(Case(name, "freed", lambda w, make=make: make(freed_pointer(w)), INVALID) for name, make in HERE.items()),
        *(Case(name, "J2 the end", lambda w, make=make: make(device_pointer(w) + SIZE), INVALID)
          for name, make in HERE.items()),
        *(Case(name, "unknown host memory", make(np.zeros(4)), INVALID) for name, make in HERE.items()),
        *(Case(name, "an unknown address", make(12345), INVALID) for name, make in HERE.items()),
        Case("topsPointerGetAttribute", "J6 no host pointer", lambda w: (HOST, device_pointer(w)), INVALID),
        Case("topsPointerGetAttribute", "J6 buffer id of pageable memory", (7, np.zeros(4)), INVALID),
        Case("topsPointerGetAttribute", "bank of host memory", lambda w: (18, host_pointer(w)), INVALID),
        *(
            Case("topsPointerGetAttribute", f"attribute {number}", lambda w, n=number: (n, device_pointer(w)), INVALID)
            for number in (0, 1, 5, 17, 19)
        ),
        Case("topsDrvPointerGetAttributes", "another count", lambda w: (3, [KIND], device_pointer(w)), INVALID),
        Case("topsDrvPointerGetAttributes", "none", lambda w: (0, [], device_pointer(w)), INVALID),
        Case("topsDrvPointerGetAttributes", "no attribute", lambda w: (1, [99], device_pointer(w)), INVALID),
        Case("topsDrvPointerGetAttributes", "a text", lambda w: (None, "2", device_pointer(w)), INVALID),
    )  # fmt: skip
    unreachable: ClassVar = {(name, Result.InvalidDevice): NO_DEVICE for name in HERE}


def attributes(pointer: object) -> tops.topsPointerAttribute_t:
    """Return all attributes of a pointer."""
    return tops.check(tops.topsPointerGetAttributes(pointer))


@pytest.mark.parametrize("offset", [0, 1, SIZE - 1])
@pytest.mark.parametrize("device", [0, 1])
def test_j2_device_memory(world, offset, device):
    """J2: device memory tells its device and the pointer itself, to its last byte, whichever device is current."""
    pointer = device_pointer(world, device=device) + offset
    expected = tops.topsPointerAttribute_t(tops.topsMemoryTypeDevice, device, pointer, 0, 0, 0)
    assert attributes(pointer) == expected
    assert tops.topsPointerAttribute_t.from_bytes(expected.to_bytes()) == expected


@pytest.mark.parametrize("form", ["pinned", "registered"])
def test_j7_host_memory(world, form):
    """J7: host memory tells the device that was current when it was made, and both its pointers, by either of them."""
    tops.topsSetDevice(1)
    if form == "pinned":
        host = host_pointer(world)
    else:
        array = registered(world)
        host = int(array.ctypes.data)
        assert attributes(array[5:]) == attributes(host + 5)
    tops.topsSetDevice(0)
    mapped = tops.check(tops.topsHostGetDevicePointer(host, 0))
    expected = tops.topsPointerAttribute_t(tops.topsMemoryTypeHost, 1, mapped + 5, host + 5, 0, 0)
    assert attributes(host + 5) == attributes(mapped + 5) == expected
    assert tops.topsPointerGetAttribute(ORDINAL, host) == (tops.topsSuccess, 1)


def test_managed_memory(world: World):
    """Managed memory has one pointer, and is unified."""
    managed = world.device.malloc_managed(64)
    found = attributes(managed.address)
    assert (found.memoryType, found.isManaged) == (tops.topsMemoryTypeUnified, 1)
    assert found.device_pointer == found.host_pointer == managed.address


def test_single_attributes(world):
    """One by one, and all at once: what memory has not is refused alone, and 0 among others."""
    device, host = device_pointer(world), host_pointer(world)
    mapped = tops.check(tops.topsHostGetDevicePointer(host, 0))
    asked = [getattr(tops, f"TOPS_POINTER_ATTRIBUTE_{name}") for name in NAMES]
    bank = world.device.context.memory.bank_of(device)
    expected = {
        device + 9: [2, device + 9, 0, 0, 0, device, SIZE, 1, 3, bank, 1, 0, 0],
        host + 9: [1, mapped + 9, host + 9, 0, 0, mapped, SIZE, 1, 3, 0, 0, 0, 0],
    }
    for pointer, values in expected.items():
        assert tops.topsDrvPointerGetAttributes(None, asked, pointer) == (tops.topsSuccess, values)
        for attribute, value in zip(asked, values, strict=True):
            code, found = tops.topsPointerGetAttribute(attribute, pointer)
            assert (code, found) in ((0, value), (INVALID, None))
            assert code == 0 or value == 0


def test_what_may_be_lent_is_told(world):
    """A pointer is IPC capable where topsIpcGetMemHandle has a handle for its memory, and nowhere else."""
    device, pool = world.device, world.device.create_pool(name="lent")
    stream = device.create_stream()
    objects = [device.allocate(64), device.malloc_managed(64), stream.allocate(64, pool=pool)]
    device.enable_peer_access(world.second)
    far, array = device_pointer(world, device=1), registered(world)
    kinds = [
        device_pointer(world), far, tops.check(tops.topsMalloc(0)), tops.check(tops.topsExtMallocWithBank(64, 0)),
        host_pointer(world), tops.check(tops.topsHostGetDevicePointer(host_pointer(world), 0)), array.ctypes.data,
        tops.check(tops.topsDeviceEnablePeerAccessRegion(1, far, 16)), *(each.address for each in objects),
    ]  # fmt: skip
    asked = tops.TOPS_POINTER_ATTRIBUTE_IS_LEGACY_TOPS_IPC_CAPABLE
    told = [tops.topsPointerGetAttribute(asked, each)[1] for each in kinds]
    assert told == [tops.topsIpcGetMemHandle(each)[0] == 0 for each in kinds]
    assert [bool(each) for each in told[:2]] == [True, True] and sum(told) == 3


def test_buffer_ids_differ(world):
    """A buffer id is the allocation's own, also when its address is used again."""
    ids = set()
    for _ in range(3):
        pointer = device_pointer(world)
        found = tops.check(tops.topsPointerGetAttribute(tops.TOPS_POINTER_ATTRIBUTE_BUFFER_ID, pointer))
        assert tops.topsPointerGetAttribute(7, pointer + 9) == (tops.topsSuccess, found)
        ids.add(found)
        tops.topsFree(pointer)
    assert len(ids) == 3


def test_access_is_the_current_devices(world):
    """Another device's memory is out of reach until peer access is enabled."""
    pointer = device_pointer(world, device=1)
    asked = tops.TOPS_POINTER_ATTRIBUTE_ACCESS_FLAGS
    assert tops.topsPointerGetAttribute(asked, pointer) == (tops.topsSuccess, 0)
    world.device.enable_peer_access(world.second)
    assert tops.topsPointerGetAttribute(asked, pointer) == (tops.topsSuccess, 3)


def test_a_region_of_a_peer_is_within_reach(world):
    """Its name tells the peer's memory, and only this region's allocation may be used."""
    pointer, beside = device_pointer(world, device=1), device_pointer(world, device=1)
    name = tops.check(tops.topsDeviceEnablePeerAccessRegion(1, pointer, 16))
    asked = tops.TOPS_POINTER_ATTRIBUTE_ACCESS_FLAGS
    assert tops.topsPointerGetAttribute(asked, name) == (tops.topsSuccess, 3)
    assert tops.topsPointerGetAttribute(asked, beside) == (tops.topsSuccess, 0)
    assert tops.check(tops.topsPointerGetAttributes(name)).device == 1
