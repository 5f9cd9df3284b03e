"""Constant buffers: memory of a device that its users share under a key (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from typing import Any

from atops.base.errors import InvalidValue
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.arguments import size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_driver
from atops.tops.bridge.handles import usable_stream_of
from atops.tops.bridge.pointers import operand
from atops.tops.bridge.waiting import until

__all__ = ("topsConstBufferGet", "topsConstBufferPut")


@call
async def topsConstBufferGet(hash_key: int, init_data: Any, size: int, stream: int | None) -> int:
    """Return the pointer to the constant buffer of a key, on the stream's device, and count one more user.

    A new key allocates `size` bytes and uploads `init_data` in the order of `stream`; for a known one the stream waits
    until the contents are there. `init_data` may be used again on return: host memory is taken at the call, and only
    the copy of device memory is waited for. NotFound: a new key and no `init_data`. InvalidValue: a known key and
    another size, a key of more than 64 bits, init_data of less than `size` bytes. OutOfMemory.
    """
    queue, key, nbytes = usable_stream_of(stream), _key(hash_key), size_of(size)
    source = None if init_data is None else _source(init_data, nbytes)
    device = Device(queue.device, current_driver())
    memory = device.context.constants.get(key, nbytes, queue, lambda: device.allocate(nbytes), source)
    if isinstance(source, Buffer):
        await until(queue.record())
    return memory.address


@call
def topsConstBufferPut(hash_key: int, stream: int | None) -> None:
    """Count one user less of the constant buffer of a key; the last one frees it in the order of `stream`.

    NotFound: the stream's device has no such key.
    """
    queue = usable_stream_of(stream)
    queue.context.constants.put(_key(hash_key), queue)


def _source(init_data: Any, nbytes: int) -> Buffer | bytes:
    """Return where the contents come from: device memory, or a copy of host memory."""
    found = operand(init_data, nbytes, "init_data")
    if not isinstance(found, Buffer):
        return bytes(found)
    if found.device is not None:
        return found
    return bytes(found.allocation.view[found.offset : found.offset + nbytes])


def _key(value: Any) -> int:
    key = whole(value, "hash_key")
    if not 0 <= key < 1 << 64:
        raise InvalidValue(f"hash_key is {key}; 0 or more, in 64 bits, is right")
    return key
