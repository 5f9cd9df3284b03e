"""Bytes of this process by their bare address, as C passes them; none is touched that the system does not know."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from atops.base.errors import InvalidValue
from atops.device.memory.allocation import Bytes

__all__ = ("bytes_at",)

LIBC = ctypes.CDLL(None, use_errno=True)
MS_ASYNC = 1  # starts nothing for memory without a file, but the system looks for each page


def bytes_at(address: int, nbytes: int) -> Bytes:
    """Return `nbytes` from a host address as an array, which the caller of the C-style function keeps alive.

    Raises InvalidValue where some of them are in no memory of this process.
    """
    first = address // mmap.PAGESIZE * mmap.PAGESIZE
    end = address + nbytes
    if end >= 1 << 64 or LIBC.msync(ctypes.c_void_p(first), ctypes.c_size_t(end - first), MS_ASYNC):
        raise InvalidValue(f"{nbytes} bytes at host address {address:#x} are not memory of this process")
    found: Bytes = np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(address)), np.uint8)
    return found
