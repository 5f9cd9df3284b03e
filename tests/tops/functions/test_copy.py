"""Copies between host and device memory of any kind (TOPS Runtime API, 2.6)."""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np
import pytest

import atops.tops as tops
from atops.base.options import EmulatorOptions
from atops.base.result_codes import Result
from atops.base.trace.records import Kind
from atops.bridge.handles import register
from atops.bridge.pointers import add_alias, own
from atops.runtime.board.current_device import enter, leave
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.runtime.memory.scatter import Part, Scattered
from atops.runtime.stream import queue_of
from atops.tops.functions.api import last
from atops.tops.functions.scatter import ScatterMemory
from atops.tops.header.functions import FUNCTIONS
from tests.every import every
from tests.runtime.boards import PATIENCE, Latch, broken, waiters
from tests.tops.conformance import Case, Conformance, World
from tests.tops.pointers import SIZE, device_pointer, freed_pointer, host_pointer, read, registered

H2H, H2D, D2H, D2D, ANY = tops.topsMemcpyKind
INVALID, DIRECTION = tops.topsErrorInvalidValue, tops.topsErrorInvalidMemcpyDirection
SPARE = bytes(range(256)) * 16


def pair(world: World, kind: str) -> tuple[object, object]:
    """Return a destination and a source for a copy of a kind."""
    host = np.zeros(SIZE, "uint8")
    return {
        "HtoD": lambda: (device_pointer(world), SPARE),
        "DtoH": lambda: (host, device_pointer(world)),
        "DtoD": lambda: (device_pointer(world), device_pointer(world)),
    }[kind]()


KINDED = {"topsMemcpy": (), "topsMemcpyWithStream": (None,), "topsMemcpyAsync": (None,)}
FIXED = {
    f"topsMemcpy{kind}{form}": (kind, (None,) if form else ())
    for kind, form in itertools.product(("HtoD", "DtoH", "DtoD"), ("", "Async"))
}
EVERY = (*KINDED, *FIXED)


def arguments(name: str, world: World, size: int = SIZE) -> tuple[object, ...]:
    """Return arguments of a copy that succeeds."""
    if name in KINDED:
        return *pair(world, "HtoD"), size, H2D, *KINDED[name]
    kind, more = FIXED[name]
    return *pair(world, kind), size, *more


def poisoned(world: World) -> int:
    """Return a stream that a kernel's fault has poisoned."""
    stream = world.device.create_stream()
    item = stream.launch(broken, (1, 1))
    board_of(world.device.driver).wait_all([item])
    world.keep.append(stream)
    return register(stream, world.device.context)


def mixed(name: str, what: str, **changed: object) -> Case:
    """Return a case with some arguments of a good call changed: values, or functions of the world."""

    def made(world: World) -> tuple[object, ...]:
        names = [each.name for each in FUNCTIONS[name].parameters]
        given = dict(zip(names, arguments(name, world), strict=True))
        for key, value in changed.items():
            given[key] = value(world) if callable(value) else value
        return tuple(given.values())

    return Case(name, what, made, changed.pop("code", INVALID))


STREAMED = [name for name in EVERY if FUNCTIONS[name].parameters[-1].name == "stream"]
NEVER = {
    Result.MemoryFree: "a freed pointer is InvalidValue",
    Result.Unknown: "there is no failure without a code of its own",
    Result.DeInitialized: "the runtime starts again with the next call",
    Result.NotInitialized: "every call initialises the runtime",
    Result.InvalidContext: "a device has one context",
}


class TestCopies(Conformance):
    """Every copy, by its rows."""

    functions = EVERY
    good: ClassVar = {name: (lambda world, name=name: arguments(name, world)) for name in EVERY}
    bad = (
        *(mixed(name, "H1 null dst", dst=None) for name in EVERY),
        *(mixed(name, "H1 null src", src=0) for name in EVERY),
        *(mixed(name, "H6 too large", sizeBytes=SIZE + 1) for name in EVERY),
        *(mixed(name, "negative", sizeBytes=-1) for name in EVERY),
        *(mixed(name, "a freed dst", dst=freed_pointer) for name in EVERY),
        *(mixed(name, "a read-only dst", dst=SPARE) for name in EVERY if "DtoH" in name),
        *(mixed(name, "H2 kind -1", kind=-1, code=DIRECTION) for name in KINDED),
        *(mixed(name, "H2 kind 5", kind=5, code=DIRECTION) for name in KINDED),
        *(mixed(name, "a kind that lies", kind=D2H, code=DIRECTION) for name in KINDED),
        *(mixed(name, "a host pointer as device", kind=D2D, src=host_pointer, code=DIRECTION) for name in KINDED),
        *(mixed(name, "a device as host", src=device_pointer) for name in FIXED if "HtoD" in name),
        *(mixed(name, "a host as device", src=host_pointer) for name in FIXED if "HtoD" not in name),
        *(mixed(name, "no stream", stream=12345, code=tops.topsErrorInvalidHandle) for name in STREAMED),
        *(mixed(name, "a poisoned stream", stream=poisoned, code=tops.topsErrorLaunchFailure) for name in STREAMED),
    )
    unreachable: ClassVar = {
        (name, code): why for name in EVERY for code, why in NEVER.items() if code in FUNCTIONS[name].codes
    }


@pytest.fixture
def busy(world):
    """A stream of device 0 that is held, and what opens it."""
    latch = Latch(world.device)
    stream = world.device.create_stream(nonblocking=True)
    latch.hold(stream)
    yield register(stream, world.device.context), stream, latch
    latch.open()


@pytest.mark.parametrize("offsets", [(0, 0), (1, 3)])
def test_round_trip(world, offsets):
    """Bytes go up, across and down again, at any offset and exactly as many as said."""
    up, across = device_pointer(world), device_pointer(world)
    to, back = offsets
    size = SIZE - 8
    tops.check(tops.topsMemset(across, 0xEE, SIZE))
    assert tops.topsMemcpy(up + to, SPARE, size, H2D) == (tops.topsSuccess,)
    assert tops.topsMemcpyDtoD(across + back, up + to, size) == (tops.topsSuccess,)
    found = read(across, SIZE)
    assert found == b"\xee" * back + SPARE[:size] + b"\xee" * (8 - back)


@every("dst", ["device", "host", "mapped", "registered", "pageable", "managed"])
@every("src", ["device", "host", "mapped", "registered", "pageable", "managed"])
def test_default_finds_the_kind(world, dst, src):
    """Default copies between all places; a kind that says each place rightly does, one that does not is refused."""

    def place(which: str) -> tuple[object, set[str]]:
        if which == "device":
            return device_pointer(world), {"D"}
        if which == "registered":
            return registered(world), {"H"}
        if which == "pageable":
            return np.zeros(SIZE, "uint8"), {"H"}
        if which == "managed":
            world.keep.append(world.device.malloc_managed(SIZE))
            return world.keep[-1].address, {"H", "D"}
        pinned = host_pointer(world)
        return (pinned, {"H"}) if which == "host" else (tops.topsHostGetDevicePointer(pinned, 0)[1], {"H", "D"})

    (target, to), (source, back) = place(dst), place(src)
    tops.check(tops.topsMemcpy(source, SPARE, SIZE, ANY))
    tops.check(tops.topsMemcpy(target, source, SIZE, ANY))
    found = np.zeros(SIZE, "uint8")
    tops.check(tops.topsMemcpy(found, target, SIZE, ANY))
    assert found.tobytes() == SPARE
    for kind, (into, out) in {H2H: "HH", H2D: "DH", D2H: "HD", D2D: "DD"}.items():
        right = into in to and out in back
        assert tops.topsMemcpy(target, source, SIZE, kind)[0] == (0 if right else DIRECTION)


def test_h4_nothing_to_copy(world):
    """H4: size 0 succeeds, also between equal pointers and with null; dead pointers stay wrong."""
    pointer, empty = device_pointer(world), tops.check(tops.topsMalloc(0))
    for dst, src in ((pointer, pointer), (empty, None), (0, empty), (pointer, device_pointer(world))):
        assert tops.topsMemcpy(dst, src, 0, ANY) == (tops.topsSuccess,)
    assert tops.topsMemcpy(freed_pointer(world), pointer, 0, ANY) == (INVALID,)
    assert tops.topsMemcpy(empty, pointer, 1, ANY) == (INVALID,)


@pytest.mark.parametrize("where", ["device", "pinned", "mapped", "array"])
def test_overlap(world, where):
    """Ends that share a byte are InvalidValue, whatever names they have; ends that touch are fine."""
    base = {"device": device_pointer, "array": registered}.get(where, host_pointer)(world)
    other = tops.check(tops.topsHostGetDevicePointer(base, 0)) if where == "mapped" else base
    at = (lambda pointer, offset: pointer[offset:]) if where == "array" else (lambda pointer, offset: pointer + offset)
    for to, back in ((0, 0), (0, 99), (99, 0)):
        assert tops.topsMemcpy(at(base, to), at(other, back), 100, ANY) == (INVALID,)
    assert tops.topsMemcpy(at(base, 100), at(other, 0), 100, ANY) == (tops.topsSuccess,)


def test_h7_h8_null_stream(world):
    """H7, H8: with host memory the call returns when the copy is over, between device memory at once."""
    latch = Latch(world.device)
    latch.hold(world.device.null_stream)
    first, second = device_pointer(world), device_pointer(world)
    for call in (
        lambda: tops.topsMemcpy(first, second, SIZE, D2D),
        lambda: tops.topsMemcpyDtoD(first, second, SIZE),
    ):
        assert call() == (tops.topsSuccess,)
        world.let_run()
        assert not world.device.null_stream.is_done
    calls = [
        lambda: tops.topsMemcpy(host_pointer(world), first, SIZE, D2H),
        lambda: tops.topsMemcpyHtoD(first, SPARE, SIZE),
        lambda: tops.topsMemcpy(host_pointer(world), host_pointer(world), SIZE, H2H),
    ]
    before = waiters(world.driver)
    threads = [world.thread(each) for each in calls]
    while waiters(world.driver) < before + len(calls):
        assert all(thread.is_alive() for thread, _ in threads)
    latch.open()
    for thread, answers in threads:
        thread.join(PATIENCE)
        assert answers == [(tops.topsSuccess,)]
    assert world.device.null_stream.is_done


def test_h13_with_stream_waits_always(world, busy):
    """H13: the copy is ordered in its stream and over when the call returns, between device memory too."""
    handle, stream, latch = busy
    first, second = device_pointer(world), device_pointer(world)
    thread, answers = world.thread(lambda: tops.topsMemcpyWithStream(first, second, SIZE, D2D, handle))
    while not waiters(world.driver):
        assert thread.is_alive()
    latch.open()
    thread.join(PATIENCE)
    assert answers == [(tops.topsSuccess,)]
    assert stream.is_done


def test_pinned_copies_do_not_wait(world, busy):
    """Pinned and registered memory, arrays included, is copied later; the call returns at once."""
    handle, stream, latch = busy
    pointer, host, array = device_pointer(world), host_pointer(world), registered(world)
    tops.host_view(host, SIZE)[:] = 7
    for answer in (
        tops.topsMemcpyHtoDAsync(pointer, host, SIZE, handle),
        tops.topsMemcpyAsync(array, pointer, SIZE, D2H, handle),
        tops.topsMemcpyDtoHAsync(tops.host_view(host, SIZE), pointer, SIZE, handle),
        tops.topsMemcpyDtoDAsync(device_pointer(world), pointer, SIZE, handle),
    ):
        assert answer == (tops.topsSuccess,)
    assert len(queue_of(stream).pending()) == 5
    assert not array.any()
    latch.open()
    stream.sync(PATIENCE)
    assert (array == 7).all()


@pytest.mark.parametrize("form", ["up", "down", "host"])
def test_h10_h11_h12_pageable_copies_wait(world, busy, form):
    """H10, H11, H12: with pageable memory, or host memory alone, an asynchronous copy is over on return."""
    handle, stream, latch = busy
    pointer, array = device_pointer(world), np.zeros(SIZE, "uint8")
    host, other = host_pointer(world), host_pointer(world)
    calls = {
        "up": lambda: tops.topsMemcpyHtoDAsync(pointer, array, SIZE, handle),
        "down": lambda: tops.topsMemcpyAsync(array, pointer, SIZE, D2H, handle),
        "host": lambda: tops.topsMemcpyAsync(host, other, SIZE, H2H, handle),
    }
    thread, answers = world.thread(calls[form])
    while not waiters(world.driver):
        assert thread.is_alive()
    assert not answers
    latch.open()
    thread.join(PATIENCE)
    assert answers == [(tops.topsSuccess,)]
    assert stream.is_done


@pytest.mark.parametrize("access", [False, True])
def test_between_devices(world, access):
    """Without access to the other device a copy goes by way of the host in two steps; with it, in one."""
    first, second = device_pointer(world), device_pointer(world, device=1)
    tops.check(tops.topsMemcpy(first, SPARE, SIZE, H2D))
    if access:
        world.device.enable_peer_access(world.second)
    before = len(world.driver.tracer.records())
    tops.check(tops.topsMemcpy(second, first, SIZE, D2D))
    tops.check(tops.topsDeviceSynchronize())
    kinds = [record.kind for record in world.driver.tracer.records()[before:] if record.kind != Kind.API]
    assert kinds == ([Kind.COPY_PEER] if access else [Kind.COPY_D2H, Kind.COPY_H2D])
    assert read(second, SIZE) == SPARE


def test_types_do_not_matter(world):
    """C knows no element types: arrays of any dtype are bytes, and so are buffers of the object API."""
    array = world.device.empty(SIZE // 4, "float32")
    host = np.arange(SIZE // 4, dtype="int32")
    assert tops.topsMemcpy(array, host, SIZE, H2D) == (tops.topsSuccess,)
    assert tops.topsMemcpy(world.device.empty(SIZE // 2, "int16"), array, SIZE, D2D) == (tops.topsSuccess,)
    assert read(array.address, SIZE) == host.tobytes()


def test_scatter_memory_is_an_end(world):
    """Two parents of scatter memory are distinct, and a copy between them goes part by part."""
    parents = []
    for _ in range(2):
        memory = Scattered(SIZE, 0)
        memory.dims = (SIZE,)
        halves = [world.device.allocate(SIZE // 2) for _ in range(2)]
        memory.parts = tuple(
            Part(half, (SIZE // 2,), (number * SIZE // 2,), (0,), False) for number, half in enumerate(halves)
        )
        parents.append(add_alias(world.device.context, SIZE, ScatterMemory(memory).resolve, memory).address)
    first, second = parents
    tops.check(tops.topsMemcpy(first, SPARE, SIZE, H2D))
    assert tops.topsMemcpy(second + 1, first, SIZE - 1, D2D) == (tops.topsSuccess,)
    assert tops.topsMemcpy(second + 1, second, SIZE - 1, D2D) == (INVALID,)
    assert read(second + 1, SIZE - 1) == SPARE[:-1]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(8, dtype=">f4"), np.array(7.5), np.arange(8, dtype=np.float16).reshape(2, 4), np.arange(4) + 1j,
        np.array(["2026-11-21"], "datetime64[D]"), np.arange(6, dtype="<i2")[1:5],
    ],
    ids=["swapped", "0-d", "half", "complex", "date", "slice"],
)  # fmt: skip
def test_arrays_of_any_type_go_up_and_come_down(world, array):
    """A short blocking copy moves the bytes of an array, whatever they mean, to the start and into the middle."""
    pointer = device_pointer(world)
    for at in (pointer, pointer + 100):
        found = np.zeros_like(array)
        assert tops.topsMemcpy(at, array, array.nbytes, tops.topsMemcpyHostToDevice) == (tops.topsSuccess,)
        assert tops.topsMemcpy(found, at, array.nbytes, tops.topsMemcpyDeviceToHost) == (tops.topsSuccess,)
        assert found.tobytes() == array.tobytes()


def test_short_copies_see_what_is_wrong(world):
    """An array of too few bytes, a pointer to the last bytes, a read-only or a scattered array are refused as ever."""
    pointer, array = device_pointer(world), np.zeros(64, np.uint8)
    fixed = np.zeros(64, np.uint8)
    fixed.flags.writeable = False
    for dst, src, size, kind in (
        (pointer, array, 65, tops.topsMemcpyHostToDevice),
        (pointer + 4096 - 63, array, 64, tops.topsMemcpyHostToDevice),
        (fixed, pointer, 64, tops.topsMemcpyDeviceToHost),
        (array[::2], pointer, 32, tops.topsMemcpyDeviceToHost),
        (pointer - (1 << 35), array, 64, tops.topsMemcpyHostToDevice),
    ):
        assert tops.topsMemcpy(dst, src, size, kind) == (tops.topsErrorInvalidValue,)
    wrong = tops.topsMemcpy(pointer, array, 64, tops.topsMemcpyDeviceToHost)
    assert wrong == (tops.topsErrorInvalidMemcpyDirection,)


def test_strict_mode_reports_a_copy_by_way_of_the_host(caplog):
    """Between devices without access it works, and strict mode says that other hardware may refuse."""
    driver = Driver(EmulatorOptions(devices=2, strict=True))
    enter(driver, board_of(driver))
    try:
        first, second = (own(Device(each, driver).allocate(SIZE)).address for each in (0, 1))
        tops.check(tops.topsMemcpy(second, first, SIZE, D2D))
        tops.check(tops.topsDeviceEnablePeerAccess(1, 0))
        tops.check(tops.topsMemcpy(second, first, SIZE, D2D))
    finally:
        leave(driver)
        driver.close()
    assert [record.name for record in caplog.records if "by way of the host" in record.message] == ["atops.tops"]


def test_what_a_wrong_host_operand_should_be(world):
    """Addresses in pageable memory, numpy integers and targets with gaps are refused with what would be right."""
    pointer, array = device_pointer(world), np.zeros((4, 8), "uint8")
    for src, told in ((array.ctypes.data, "pass the array itself to a copy"),
                       (np.int32(5), "src np.int32(5) is a numpy integer, which is taken for an address; np.asarray"),
                       (np.int32(0), "np.asarray(...) of it passes its value (src is null)")):  # fmt: skip
        assert tops.topsMemcpy(pointer, src, 4, H2D) == (INVALID,)
        assert told in last().message
    for scalar in (np.float32(5), np.asarray(np.int32(5))):
        assert tops.topsMemcpy(pointer, scalar, 4, H2D) == (tops.topsSuccess,)
        assert read(pointer, 4) == scalar.tobytes()
    gaps = array[:, ::2]
    assert tops.topsMemcpy(gaps, pointer, 16, D2H) == (INVALID,)
    assert "not contiguous; expected one that is, assigned to it afterwards" in last().message
    assert tops.topsMemcpy(pointer, gaps, 16, H2D) == (INVALID,)
    assert "np.ascontiguousarray(...) makes one" in last().message
    host = host_pointer(world)
    assert tops.topsMemcpyPeer(pointer, 0, host, 0, 4) == (INVALID,)
    assert "it is a host pointer, whose device pointer topsHostGetDevicePointer returns" in last().message
