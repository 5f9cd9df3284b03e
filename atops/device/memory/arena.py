"""The bytes behind a device's L3: one sparse file in memory, mapped once.

Where there is no memfd (other systems than Linux) an arena is an anonymous mapping: it works alike, but has no
descriptor for other processes, no fixed address, and keeps its pages until it is closed.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref

import numpy as np

from atops.base.errors import InvalidValue, OutOfMemory
from atops.device.memory.allocation import NOTHING, CopySource

__all__ = ("Arena",)

MAP_FIXED_NOREPLACE = 0x100000
MAP_FAILED = ctypes.c_void_p(-1).value
PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
PAGE = mmap.PAGESIZE


class Arena:
    """`size` bytes that read as 0 and cost nothing until touched.

    Mapped shared at `base_address` if the place is free, else anywhere; `at_home` tells which and `host_address` where.
    `source`, what allocations are made of, covers all of it as an array (uint8) and as a memoryview ("B"); it is empty
    once closed. The mapping goes when the last view of them has died, not before, so that every view stays valid.
    """

    __slots__ = ("at_home", "fd", "host_address", "name", "size", "source")

    def __init__(self, size: int, base_address: int, *, name: str = "") -> None:
        """Make a new file and map it.

        Raises InvalidValue for a size below 1 and OutOfMemory when the system has no room for the mapping.
        """
        if size < 1:
            raise InvalidValue(f"the arena {name!r} would have {size} bytes; expected at least 1")
        self.size = size
        self.name = name
        self.fd: int | None = None
        if hasattr(os, "memfd_create"):
            self.fd = _file(size, name)
            try:
                self.host_address = _map(self.fd, size, base_address, name)
            except BaseException:
                os.close(self.fd)
                raise
            owner = (ctypes.c_uint8 * size).from_address(self.host_address)
            # Not at exit: threads may still touch views then, and the system takes the mapping back anyway.
            weakref.finalize(owner, _libc.munmap, self.host_address, size).atexit = False
            memory = memoryview(owner).cast("B")
        else:
            memory = memoryview(mmap.mmap(-1, size)).cast("B")
            self.host_address = np.frombuffer(memory, np.uint8).ctypes.data
        self.source: CopySource = np.frombuffer(memory, np.uint8), memory
        self.at_home = self.host_address == base_address

    def close(self) -> None:
        """Close the descriptor and let go of the bytes; views that are left keep them mapped. Idempotent."""
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)
        self.source = NOTHING

    def punch(self, offset: int, length: int) -> None:
        """Give the whole pages in [offset, offset + length) back to the system; they read as 0 afterwards.

        Bytes of pages that are only partly inside stay as they are. Raises InvalidValue outside the arena.
        """
        if offset < 0 or length < 0 or offset + length > self.size:
            raise InvalidValue(f"a hole of {length} bytes at {offset} is not inside the arena's {self.size} bytes")
        start = -(-offset // PAGE) * PAGE
        end = offset + length if offset + length == self.size else (offset + length) // PAGE * PAGE
        if end > start and self.fd is not None and _libc.fallocate(self.fd, PUNCH_HOLE_KEEP_SIZE, start, end - start):
            error = ctypes.get_errno()
            raise OSError(error, f"punching {end - start} bytes at {start} of the arena {self.name!r}: "
                                 f"{os.strerror(error)}")

    def __repr__(self) -> str:
        place = f"{self.host_address:#x}{'' if self.at_home else ' (elsewhere)'}"
        return f"<Arena {self.name!r} {self.size} bytes at {place}>"


def _file(size: int, name: str) -> int:
    fd = os.memfd_create(name or "arena", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, size)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _map(fd: int, size: int, address: int, name: str) -> int:
    """Map the whole file shared, at `address` unless it is taken, and return where it came to lie."""
    shared, access = mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE
    found = _libc.mmap(address, size, access, shared | MAP_FIXED_NOREPLACE, fd, 0)
    if found == MAP_FAILED:
        found = _libc.mmap(None, size, access, shared, fd, 0)
    if found == MAP_FAILED or found is None:
        reason = os.strerror(ctypes.get_errno())
        raise OutOfMemory(f"the system has no address space for the {size} bytes of the arena {name!r}: {reason}")
    return int(found)


def _load_libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return libc


if hasattr(os, "memfd_create"):
    _libc = _load_libc()
