"""Fills of device memory and of host memory that devices reach (TOPS Runtime API, 2.6)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import atops.tops as tops
from atops.base.result_codes import Result
from atops.bridge.handles import register
from atops.tops.header.functions import FUNCTIONS
from tests.every import every
from tests.runtime.boards import PATIENCE, Latch, waiters
from tests.tops.conformance import Case, Conformance, World
from tests.tops.pointers import SIZE, device_pointer, freed_pointer, host_pointer, read, registered

EVERY = {
    "topsMemset": 1, "topsMemsetAsync": 1, "topsMemsetD8": 1, "topsMemsetD8Async": 1, "topsMemsetD16": 2,
    "topsMemsetD16Async": 2, "topsMemsetD32": 4, "topsMemsetD32Async": 4,
}  # fmt: skip
PLAIN = {name: width for name, width in EVERY.items() if not name.endswith("Async")}
INVALID = tops.topsErrorInvalidValue
NEVER = {
    Result.NotInitialized: "every call initialises the runtime",
    Result.MemoryFree: "a freed pointer is InvalidValue",
}


def poisoned_by_reset(world: World) -> int:
    """Return a stream that a reset has killed."""
    handle = register(world.device.create_stream(), world.device.context)
    tops.check(tops.topsDeviceReset())
    return handle


class TestFills(Conformance):
    """Every fill, by its rows."""

    functions = tuple(EVERY)
    good: ClassVar = {
        name: (lambda world, width=width: (device_pointer(world), 7, SIZE // width)) for name, width in EVERY.items()
    }
    bad = (
        *(Case(name, "H21 null", (None, 0, 1), INVALID) for name in EVERY),
        *(Case(name, "H21 pageable", lambda w: (np.zeros(64, "uint8"), 0, 1), INVALID) for name in EVERY),
        *(Case(name, "H21 unknown", (12345, 0, 1), INVALID) for name in EVERY),
        *(
            Case(name, "H22 too many", lambda w, n=width: (device_pointer(w), 0, SIZE // n + 1), INVALID)
            for name, width in EVERY.items()
        ),
        *(Case(name, "H22 past the end", lambda w: (device_pointer(w) + SIZE, 0, 1), INVALID) for name in EVERY),
        *(Case(name, "freed", lambda w: (freed_pointer(w), 0, 1), INVALID) for name in EVERY),
        *(Case(name, "negative", lambda w: (device_pointer(w), 0, -1), INVALID) for name in EVERY),
        *(Case(name, "a float", lambda w: (device_pointer(w), 1.0, 1), INVALID) for name in EVERY),
        *(
            Case(name, "a dead stream", lambda w: (device_pointer(w), 0, 1, 99), tops.topsErrorInvalidHandle)
            for name in EVERY if name not in PLAIN
        ),
        *(
            Case(
                name, "a stream before the reset",
                lambda w: (lambda dead: (device_pointer(w), 0, 1, dead))(poisoned_by_reset(w)),
                tops.topsErrorInvalidHandle,
            )
            for name in EVERY if name not in PLAIN
        ),
    )  # fmt: skip
    unreachable: ClassVar = {
        (name, code): why for name in EVERY for code, why in NEVER.items() if code in FUNCTIONS[name].codes
    }


def fill(name: str, *arguments: object) -> tops.topsError_t:
    """Fill, and wait."""
    (code,) = getattr(tops, name)(*arguments)
    tops.check(tops.topsDeviceSynchronize())
    return code


@every("name", EVERY)
@every("offset", [0, 1, 2, 3, 31])
def test_h28_h29_exact_bytes(world, name, offset):
    """H28, H29: counts are elements, at any alignment; the bytes before and after stay."""
    width, pointer = EVERY[name], device_pointer(world, 512)
    for count in (1, 2, 3, 7, 64):
        fill("topsMemset", pointer, 0xEE, 512)
        assert fill(name, pointer + offset, 0x01020304, count) == tops.topsSuccess
        pattern = (0x01020304).to_bytes(4, "little")[:width] * count
        rest = 512 - offset - len(pattern)
        assert read(pointer, 512) == b"\xee" * offset + pattern + b"\xee" * rest


@every("name", EVERY)
@every("value", [-1, 0x1FF, 1 << 40, np.int64(-3)])
def test_h27_values_are_cut(world, name, value):
    """H27: what does not fit an element loses its high bits, as in C."""
    width, pointer = EVERY[name], device_pointer(world, 16)
    assert fill(name, pointer, value, 1) == tops.topsSuccess
    assert read(pointer, width) == (int(value) % (1 << 8 * width)).to_bytes(width, "little")


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_h23_nothing_to_fill(world, name):
    """H23: a count of 0 succeeds and changes nothing, for null too; a dead pointer stays wrong."""
    empty = tops.check(tops.topsMalloc(0))
    for pointer in (device_pointer(world), empty, None, 0, host_pointer(world)):
        assert fill(name, pointer, 1, 0) == tops.topsSuccess
    assert getattr(tops, name)(freed_pointer(world), 1, 0) == (INVALID,)


@pytest.mark.parametrize("name", PLAIN)
def test_h24_h25_null_stream(world, name):
    """H24, H25: a fill of device memory returns at once, one of pinned or registered memory when it is over."""
    latch = Latch(world.device)
    latch.hold(world.device.null_stream)
    call = getattr(tops, name)
    assert call(device_pointer(world), 1, 4) == (tops.topsSuccess,)
    world.let_run()
    assert not world.device.null_stream.is_done
    host, array = host_pointer(world), registered(world)
    threads = [world.thread(lambda memory=memory: call(memory, 0x01010101, 4)) for memory in (host, array)]
    while waiters(world.driver) < 2:
        assert all(thread.is_alive() for thread, _ in threads)
    assert not array.any()
    latch.open()
    for thread, answers in threads:
        thread.join(PATIENCE)
        assert answers == [(tops.topsSuccess,)]
    assert (array[: 4 * EVERY[name]] == 1).all()
    assert (tops.host_view(host, 4 * EVERY[name]) == 1).all()


def test_a_fill_is_ordered_in_its_stream(world):
    """An asynchronous fill is done when its stream comes to it, between what was before and after."""
    latch, stream = Latch(world.device), world.device.create_stream(nonblocking=True)
    handle = register(stream, world.device.context)
    array = registered(world)
    latch.hold(stream)
    tops.check(tops.topsMemsetAsync(array, 1, SIZE, handle))
    tops.check(tops.topsMemsetD32Async(array, 2, 1, handle))
    assert not array.any()
    latch.open()
    stream.sync(PATIENCE)
    assert array[:5].tolist() == [2, 0, 0, 0, 1]
