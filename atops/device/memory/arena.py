"""The bytes behind a device's L3: one sparse file in memory, mapped once.

Where there is no memfd (other systems than Linux) an arena is an anonymous mapping: it works alike, but has no
descriptor for other processes, no fixed address, and keeps its pages until it is closed.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from atops.base.errors import InvalidValue, OutOfMemory
from atops.base.locks import fork_safe
from atops.device.memory.allocation import NOTHING, CopySource

__all__ = ("Arena", "keeping_arenas")

MAP_FIXED_NOREPLACE = 0x100000
MAP_FAILED = ctypes.c_void_p(-1).value
PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
PAGE = mmap.PAGESIZE
MOST_CLEARED = 256 << 10  # bytes of an arena that are set to 0; where more were touched, its pages go


class _Mapping:
    """A file and where it is mapped. `kept`: once nothing refers to its bytes any more, another arena may have it."""

    __slots__ = ("address", "fd", "home", "kept", "process", "size")

    def __init__(self, size: int, home: int, name: str) -> None:
        self.size, self.home, self.process = size, home, os.getpid()
        self.fd = _file(size, name)
        try:
            self.address = _map(self.fd, size, home, name)
        except BaseException:
            os.close(self.fd)
            raise
        self.kept = bool(_keepers[0]) and self.address == home

    def let_go(self) -> None:
        """Keep it for the next arena, all bytes 0, or give it back. Nothing refers to the bytes any more."""
        if self.kept:
            ours = self.process == os.getpid()  # not a forked child, which has the file in common with its parent
            if ours and _keepers[0] and (self._cleared() or self._punched()):
                _kept.append(self)
                if _keepers[0] or not _taken(self):
                    return
            os.close(self.fd)
        _libc.munmap(self.address, self.size)

    def _cleared(self) -> bool:
        """Set what was touched to 0 and keep its pages: far quicker than new ones, where they are few. Else False."""
        end, left = 0, MOST_CLEARED
        while True:
            try:
                start = os.lseek(self.fd, end, os.SEEK_DATA)
            except OSError as error:
                return error.errno == errno.ENXIO  # no more; else the system cannot say
            end = os.lseek(self.fd, start, os.SEEK_HOLE)
            left -= end - start
            if left < 0:
                return False
            ctypes.memset(self.address + start, 0, end - start)

    def _punched(self) -> bool:
        """Give all pages back to the system. Returns False where it does not take them."""
        return not _libc.fallocate(self.fd, PUNCH_HOLE_KEEP_SIZE, 0, self.size)


_keepers = [0]  # blocks of `keeping_arenas` that go on
_kept: list[_Mapping] = []  # those that are all 0, and that nothing refers to
_keeping = fork_safe(threading.Lock())


@contextmanager
def keeping_arenas() -> Iterator[None]:
    """For the block, have an arena take the file and the mapping of one that is gone: to make them takes long.

    For hundreds of short runs. Only where it lies at its own address and was lent to nobody. Several threads may.
    """
    with _keeping:
        _keepers[0] += 1
    try:
        yield
    finally:
        with _keeping:
            _keepers[0] -= 1
            left = [] if _keepers[0] else _kept[:]
            del _kept[: len(left)]
        for mapping in left:
            mapping.let_go()


def _mapping(size: int, home: int, name: str) -> _Mapping:
    """Return a mapping of so many bytes, all 0: one that was kept for the same place, or a new one."""
    for mapping in _kept[:]:
        if (mapping.size, mapping.home, mapping.process) == (size, home, os.getpid()) and _taken(mapping):
            return mapping
    return _Mapping(size, home, name)


def _taken(mapping: _Mapping) -> bool:
    """Take one that is kept. Returns False where another thread has taken it."""
    try:
        _kept.remove(mapping)
    except ValueError:
        return False
    return True


class Arena:
    """`size` bytes that read as 0 and cost nothing until touched.

    Mapped shared at `base_address` if the place is free, else anywhere; `at_home` tells which and `host_address` where.
    `source`, what allocations are made of, covers all of it as an array (uint8) and as a memoryview ("B"); it is empty
    once closed. The mapping goes when the last view of them has died, not before, so that every view stays valid.
    """

    __slots__ = ("_mapping", "at_home", "fd", "host_address", "name", "size", "source")

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
            self._mapping = mapping = _mapping(size, base_address, name)
            self.fd, self.host_address = mapping.fd, mapping.address
            owner = _bytes_type(size).from_address(self.host_address)
            # Not at exit: threads may still touch views then, and the system takes the mapping back anyway.
            weakref.finalize(owner, mapping.let_go).atexit = False
            memory = memoryview(owner).cast("B")
        else:
            memory = memoryview(mmap.mmap(-1, size)).cast("B")
            self.host_address = np.frombuffer(memory, np.uint8).ctypes.data
        self.source: CopySource = np.frombuffer(memory, np.uint8), memory
        self.at_home = self.host_address == base_address

    def close(self) -> None:
        """Close the descriptor and let go of the bytes; views that are left keep them mapped. Idempotent."""
        fd, self.fd = self.fd, None
        if fd is not None and not self._mapping.kept:  # else it goes with the mapping
            os.close(fd)
        self.source = NOTHING

    def lend(self) -> int | None:
        """Return another descriptor of the file, for another process; None once closed, and where there is no file."""
        if self.fd is None:
            return None
        self._mapping.kept = False  # the other process sees its bytes from now on
        return os.dup(self.fd)

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


@lru_cache(8)
def _bytes_type(size: int) -> type[ctypes.Array[ctypes.c_uint8]]:
    """Return the type of an array of so many bytes: where the last arena is gone, ctypes would make it anew."""
    return ctypes.c_uint8 * size


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
