"""Pools between processes: a descriptor names a pool, 64 bytes name an allocation of it.

The descriptor is a sealed file in memory with the handle of the pool; how it comes to the other process (inherited,
or sent over a socket) is the program's affair. An allocation that was exported leaves its pool when it is freed: its
range is used again when the last process has let go, whichever comes first.
"""

from __future__ import annotations

import fcntl
import os
import struct
import weakref
from itertools import count
from typing import Final

from atops.base.errors import InvalidHandle
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.ipc.lending import HANDLE_SIZE, Handle, HandleKind, Lease, borrow, exporter, no_descriptor
from atops.runtime.ipc.memory import BorrowedMemory, LentMemory, export_memory_as
from atops.runtime.pools.pool import Access, MemoryPool

__all__ = ("BorrowedPool", "LentPool", "LentPoolMemory", "descriptor_of", "export_from_pool", "export_pool")

NUMBERS = count(1)
NUMBER: Final = struct.Struct("<Q")  # which pool of its process
SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_numbers: weakref.WeakKeyDictionary[MemoryPool, int] = weakref.WeakKeyDictionary()


class LentPool:
    """A pool of this process that others may open. It does not keep it alive."""

    def __init__(self, pool: MemoryPool) -> None:
        self.pool = weakref.ref(pool)

    @property
    def alive(self) -> bool:
        """Whether the pool was not destroyed."""
        pool = self.pool()
        return pool is not None and not pool.is_destroyed and pool.context.dead is None

    def lend(self) -> tuple[int, bytes]:
        """Return a descriptor of nothing, for its memory is lent piece by piece, and each device's access, a byte."""
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), self.access()

    def access(self) -> bytes:
        """Return what each device may do with the memory. Raises InvalidHandle for a pool that was destroyed."""
        pool = self.pool()
        if pool is None:
            raise InvalidHandle("the pool was destroyed")
        return bytes(pool.get_access(device) for device in range(pool.context.board.devices))

    def end_loan(self) -> None:
        """Nothing: the pool stays its process's."""


class LentPoolMemory(LentMemory):
    """An allocation of a pool that others may borrow; they are told which pool."""

    def __init__(self, context: DeviceContext, allocation: Allocation, number: int) -> None:
        super().__init__(context, allocation)
        self.allocation, self.number = weakref.ref(allocation), number

    def lend(self) -> tuple[int, bytes]:
        """As of any memory, with the pool's number."""
        descriptor, description = super().lend()
        return descriptor, description + NUMBER.pack(self.number)


def _number_of(pool: MemoryPool) -> int:
    return _numbers.setdefault(pool, next(NUMBERS))


def export_pool(pool: MemoryPool) -> bytes:
    """Return the 64 bytes that name a pool in other processes, the same each time."""
    return exporter().export(HandleKind.POOL, _number_of(pool), pool.context.ordinal, 0, LentPool(pool))


def descriptor_of(handle: bytes) -> int:
    """Return a new descriptor, which the caller closes, of a file that has the handle and cannot be changed.

    Raises OutOfMemory where no descriptor is left.
    """
    try:
        made = os.memfd_create("atops pool", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise no_descriptor("the handle of a pool", error) from error
    try:
        os.write(made, handle)
        fcntl.fcntl(made, fcntl.F_ADD_SEALS, SEALS)
    except BaseException:
        os.close(made)
        raise
    return made


def export_from_pool(pool: MemoryPool, allocation: Allocation) -> bytes:
    """Return the 64 bytes that name an allocation of a pool in other processes.

    Raises InvalidHandle where it is freed.
    """
    pool.share(allocation)
    lent = LentPoolMemory(pool.context, allocation, _number_of(pool))
    return export_memory_as(HandleKind.POOL_MEMORY, pool.context, allocation, lent)


class BorrowedPool:
    """A pool of another process, or of this one, opened by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        """Open it. Raises InvalidHandle for a descriptor of no pool, a forged one, and one whose pool is gone."""
        try:
            data = os.pread(descriptor, HANDLE_SIZE + 1, 0)
        except OSError as error:
            raise InvalidHandle(f"{descriptor} is no descriptor of a pool: {error.strerror}") from None
        self.handle = Handle.unpack(data, HandleKind.POOL)
        own = exporter()
        self._lease: Lease | None = None
        if self.handle.token == own.token:
            own.own(self.handle)
        else:
            self._lease = borrow(self.handle)

    @property
    def device(self) -> int:
        """The device that its memory lies on."""
        return self.handle.device

    def get_access(self, device: int) -> Access:
        """Return what a device may do with its memory: what the pool's process had set when it was opened."""
        if device == self.device:
            return Access.readwrite
        if self._lease is not None:
            access = self._lease.description
        else:
            lent = exporter().own(self.handle)
            assert isinstance(lent, LentPool)
            access = lent.access()
        return Access(access[device]) if device < len(access) else Access.none

    def open(self, data: bytes, context: DeviceContext) -> BorrowedMemory | Allocation:
        """Return the memory that `export_from_pool` has named; in its own process, the allocation itself.

        Raises InvalidHandle for data that is forged, stale, or of another pool; MapFailed as memory of processes does.
        """
        handle = Handle.unpack(data, HandleKind.POOL_MEMORY)
        if handle.token != self.handle.token:
            raise InvalidHandle("the data names memory of another process than the pool's")
        if self._lease is None:
            lent = exporter().own(handle)
            allocation = lent.allocation() if isinstance(lent, LentPoolMemory) else None
            if allocation is None or lent.number != self.handle.serial:  # type: ignore[attr-defined]  # as was just seen
                raise InvalidHandle("the data names no memory of this pool")
            return allocation
        memory = BorrowedMemory(handle, context)
        if memory.more != NUMBER.pack(self.handle.serial):
            memory.close()
            raise InvalidHandle("the data names memory of another pool")
        return memory

    def close(self) -> None:
        """Let go of the pool; memory that was opened stays. Idempotent."""
        if self._lease is not None:
            self._lease.close()
