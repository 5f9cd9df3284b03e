"""Memory for the tests of the C-style functions: what a program would have allocated by then."""

from __future__ import annotations

import numpy as np

import atops.tops as tops
from tests.tops.conformance import World

__all__ = ("device_pointer", "freed_pointer", "host_pointer", "read", "registered")

SIZE = 4096


def device_pointer(world: World, size: int = SIZE, device: int = 0) -> int:
    """Return a pointer to new memory of a device; the current one stays."""
    before = tops.check(tops.topsGetDevice())
    tops.check(tops.topsSetDevice(device))
    pointer: int = tops.check(tops.topsMalloc(size))
    tops.check(tops.topsSetDevice(before))
    return pointer


def host_pointer(world: World, size: int = SIZE) -> int:
    """Return a host pointer to new pinned memory."""
    pointer: int = tops.check(tops.topsHostMalloc(size, tops.topsHostMallocDefault))
    return pointer


def freed_pointer(world: World) -> int:
    """Return a pointer to memory that is freed again."""
    pointer = device_pointer(world)
    tops.check(tops.topsFree(pointer))
    return pointer


def registered(world: World, size: int = SIZE) -> np.ndarray:
    """Return a registered array of bytes."""
    array = np.zeros(size, "uint8")
    world.keep.append(array)
    tops.check(tops.topsHostRegister(array, size, tops.topsHostRegisterDefault))
    return array


def read(pointer: int, size: int) -> bytes:
    """Return the bytes behind a device pointer."""
    array = np.zeros(size, "uint8")
    tops.check(tops.topsMemcpy(array, pointer, size, tops.topsMemcpyDeviceToHost))
    return array.tobytes()
