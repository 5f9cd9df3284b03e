"""Host memory as C programs name it: numpy arrays, buffers and ctypes objects, `byref`, and bare addresses."""

from __future__ import annotations

import ctypes

import numpy as np

from atops.base.errors import InvalidValue
from atops.bridge.arguments import whole
from atops.bridge.codes import CodeError
from atops.bridge.handles import current_board
from atops.bridge.pointers import alias_at, bytes_at, find_device, is_device_address, operand, pinned_at
from atops.device.memory.allocation import Bytes
from atops.runtime.memory.buffer import Buffer

__all__ = ("host_bytes_of", "pointer_of", "value_from", "value_into")

REFERENCE = type(ctypes.byref(ctypes.c_int()))


def pointer_of(pointer: object, nbytes: int) -> object:
    """Return what the calls of `atops.bridge` take for a pointer to `nbytes` of memory of any kind.

    That is an int for what the runtime knows, and a buffer for other host memory: behind a ctypes pointer, a
    `byref(...)` or a bare address. Raises InvalidValue for an address of no memory of this process.
    """
    if isinstance(pointer, REFERENCE):
        return pointer._obj  # type: ignore[attr-defined]  # what it refers to
    if isinstance(pointer, ctypes.c_void_p):
        address = pointer.value or 0
    elif isinstance(pointer, ctypes._Pointer):
        address = ctypes.cast(pointer, ctypes.c_void_p).value or 0
    elif isinstance(pointer, int) and not isinstance(pointer, bool):
        address = int(pointer)
    else:
        return pointer
    board = current_board()
    if not nbytes or address <= 0 or is_device_address(board, address) or alias_at(board, address) is not None:
        return address
    try:
        find_device(board, address)  # mapped host memory
    except CodeError:
        return address if pinned_at(address) is not None else bytes_at(address, nbytes)
    return address


def host_bytes_of(pointer: object, nbytes: int, what: str, *, writable: bool = False) -> Bytes:
    """Return `nbytes` of host memory of any kind as an array of uint8.

    Raises InvalidValue for other memory, InvalidType.
    """
    if pointer is None or (isinstance(pointer, int) and not pointer):
        raise InvalidValue(f"{what} must point to {nbytes} bytes of host memory, got null")
    found = operand(pointer_of(pointer, nbytes), nbytes, what, writable=writable)
    if not isinstance(found, Buffer):
        return np.frombuffer(found, np.uint8)
    if found.device_id is not None:
        raise InvalidValue(f"{what} must be host memory, got {found!r}")
    data: Bytes = found.allocation.data[found.offset : found.offset + nbytes]
    return data


def value_from(pointer: object, nbytes: int, what: str, *, signed: bool = False) -> int:
    """Return the number of so many bytes that a pointer points to. Raises as `host_bytes_of` does."""
    return int.from_bytes(host_bytes_of(pointer, nbytes, what).tobytes(), "little", signed=signed)


def value_into(pointer: object, value: int, nbytes: int, what: str) -> None:
    """Store a number of so many bytes where a pointer points to. Raises as `host_bytes_of` does."""
    host_bytes_of(pointer, nbytes, what, writable=True)[:] = np.frombuffer(
        whole(value, what).to_bytes(nbytes, "little"), np.uint8
    )
