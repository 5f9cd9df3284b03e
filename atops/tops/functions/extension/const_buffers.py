"""Constant buffers: memory of a device that its users share under a key (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.arguments import size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_driver
from atops.tops.bridge.handles import usable_stream_of
from atops.tops.bridge.pointers import contents
from atops.tops.bridge.waiting import until

__all__ = ("topsConstBufferGet", "topsConstBufferPut")


@call
async def topsConstBufferGet(hash_key: int, init_data: object, size: int, stream: int | None) -> int:
    """Return the pointer to the constant buffer of a key, on the stream's device, and count one more user.

    A new key allocates `size` bytes and uploads `init_data` in the order of `stream`; for a known one the stream waits
    until the contents are there. `init_data` may be used again on return: host memory is taken at the call, and only
    the copy of device memory is waited for. NotFound: a new key and no `init_data`. InvalidValue: a known key and
    another size, a key of more than 64 bits, init_data of less than `size` bytes. OutOfMemory.
    """
    queue, key, nbytes = usable_stream_of(stream), size_of(hash_key, "hash_key"), size_of(size)
    source = None if init_data is None else contents(init_data, nbytes, "init_data")
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
    queue.context.constants.put(size_of(hash_key, "hash_key"), queue)
