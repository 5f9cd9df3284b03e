"""Codec memory handles (TOPS Runtime API, 2.6)."""

from __future__ import annotations

from typing import ClassVar

import atops.tops as tops
from atops.base.options import EmulatorOptions
from atops.base.result_codes import Result
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from tests.tops.conformance import Case, Conformance

INVALID = tops.topsErrorInvalidValue
NAME = tops.topsExtCodecMemHandle


def memory(offset=0, size=256):
    """Return the arguments for a range of a new allocation of 256 bytes."""
    return lambda world: (tops.check(tops.topsMalloc(256)) + offset, size)


def elsewhere(world):
    """Return the arguments for memory of device 1."""
    array = world.second.empty(64, "uint8")
    world.keep.append(array)
    return array.address, 64


def host(world):
    """Return the arguments for pinned host memory."""
    array = world.device.host_malloc(64)
    world.keep.append(array)
    return array.address, 64


class TestCodec(Conformance):
    """The one function, by its rows."""

    functions = ("topsExtCodecMemHandle",)
    good: ClassVar = {"topsExtCodecMemHandle": memory()}
    bad = tuple(
        Case("topsExtCodecMemHandle", *row)
        for row in (
            ("over the end", memory(1), INVALID),
            ("no memory", (4711, 1), INVALID),
            ("negative size", memory(size=-1), INVALID),
            ("another device", elsewhere, INVALID),
            ("host memory", host, INVALID),
        )
    )
    unreachable: ClassVar = {
        ("topsExtCodecMemHandle", Result.OutOfMemory): "names own no memory, and addresses for them are many",
    }


def test_it_is_another_pointer_for_the_same_bytes(world):
    """What is stored through one is read through the other, interior pointers included."""
    pointer = tops.check(tops.topsMalloc(256))
    name = tops.check(NAME(pointer + 64, 128))
    assert not pointer <= name < pointer + 256
    tops.check(tops.topsMemset(pointer, 1, 256))
    tops.check(tops.topsMemset(name + 8, 2, 16))
    found = bytearray(256)
    tops.check(tops.topsMemcpyDtoH(found, pointer, 256))
    assert found == b"\1" * 72 + b"\2" * 16 + b"\1" * 168
    assert tops.topsMemset(name, 3, 129) == (INVALID,)


def test_freeing_the_name_leaves_the_memory(world):
    """The name is taken by topsFree once; the memory has to be freed by itself."""
    pointer = tops.check(tops.topsMalloc(256))
    name = tops.check(NAME(pointer, 256))
    assert tops.topsFree(name + 1) == (tops.topsErrorInvalidDevicePointer,)
    assert tops.topsFree(name) == (tops.topsSuccess,)
    assert tops.topsFree(name) == (tops.topsErrorInvalidDevicePointer,)
    assert tops.topsMemset(name, 0, 1) == (INVALID,)
    assert tops.topsMemset(pointer, 0, 256) == (tops.topsSuccess,)
    assert tops.topsFree(pointer) == (tops.topsSuccess,)


def test_after_the_memory_is_freed_every_use_is_an_error(world):
    """The name is dead with the memory, and can still be released."""
    pointer = tops.check(tops.topsMalloc(256))
    name = tops.check(NAME(pointer, 256))
    tops.check(tops.topsFree(pointer))
    assert tops.topsMemset(name, 0, 1) == (INVALID,)
    assert NAME(name, 1) == (INVALID, None)
    assert tops.topsFree(name) == (tops.topsSuccess,)


def test_size_zero_and_several_names(world):
    """Each name has a pointer of its own, that of no bytes too."""
    pointer = tops.check(tops.topsMalloc(256))
    names = {tops.check(NAME(pointer, size)) for size in (0, 0, 256, 256)}
    assert len(names | {pointer, 0}) == 6


def test_a_reset_ends_names(world):
    """After topsDeviceReset the name is unknown."""
    name = tops.check(NAME(tops.check(tops.topsMalloc(256)), 256))
    tops.check(tops.topsDeviceReset())
    assert tops.topsFree(name) == (tops.topsErrorInvalidDevicePointer,)


def test_gcu210_has_none():
    """There it is NotSupported."""
    driver = Driver(EmulatorOptions(arch="gcu210", trace=0))
    enter(driver, board_of(driver))
    try:
        assert NAME(tops.check(tops.topsMalloc(64)), 64) == (tops.topsErrorNotSupported, None)
    finally:
        leave(driver)
        driver.close()
