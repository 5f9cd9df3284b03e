"""Words of device memory for tests of the C-style functions."""

from __future__ import annotations

from typing import Any

from atops.bridge.pointers import device_memory
from atops.runtime.memory.buffer import Buffer
from tests.tops.conformance import World

__all__ = ("read", "word")


def word(world: World, value: int = 0) -> int:
    """Return a pointer to a new 32-bit word of device 0 that holds `value`."""
    buffer = world.device.allocate(4)
    world.keep.append(buffer)
    bytes_of(buffer)[:] = value.to_bytes(4, "little", signed=value < 0)
    return buffer.address


def read(world: World, pointer: int) -> int:
    """Return the word at a pointer as it is now, in no stream's order."""
    return int.from_bytes(bytes_of(device_memory(pointer, 4)), "little")


def bytes_of(buffer: Buffer) -> Any:
    """Return the bytes behind a buffer."""
    return buffer.allocation.view[buffer.offset : buffer.offset + buffer.nbytes]
